/*
 * POP3: reading one's mail from a server (Roth's example made real; RFC 1939, with CAPA and
 * PIPELINING of RFC 2449, TOP, UIDL, and the response codes of RFC 2449 and RFC 3206).
 *
 *   AUTHORIZATION --USER, PASS--> TRANSACTION --QUIT--> UPDATE: what was deleted goes
 *         |                            |
 *       QUIT, end                     end: nothing goes
 *
 * Rules of the house:
 * - A message leaves its file only by a QUIT that has come whole. Whatever else ends a session
 *   (the client, a timeout, the server's own end) deletes nothing.
 * - The answers that may be long are made piece by piece as the client takes them, out of what the
 *   session remembers: where in the list it is, or an open file. No message is ever in memory.
 * - Whether a name is known cannot be told by what PASS says, nor by how long it takes to say it.
 * - No password is logged, and none stays in memory that is ours to clean.
 */
#include "application.h"
#include "maildir.h"
#include "pop3_demonstration.h"
#include "pop3_text.h"
#include "pop3_users.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    COMMAND_SIZE = 255,   /* the longest command, with its CR LF (RFC 2449, section 4) */
    ANSWER_SIZE = 512,    /* the longest first line of an answer (likewise) */
    LIST_LINE_SIZE = 128, /* a number and a unique identifier */
    PIECE = 8192,         /* of a message, or of a list: what goes into the queue at a time */
    WRONG_PASSWORDS = 3,  /* so many end the connection */
};

struct pop3 {
    struct input_handler_factory factory;
    struct server *server;
    struct pop3_users users;
    struct pop3_demonstration demonstration;
    int mail_folder; /* each user's mailbox is a folder in it */
    struct log_limit limit;
};

enum state {
    AUTHORIZATION = 1,
    TRANSACTION = 2,
    UPDATE = 4, /* or just over: no command is taken any more */
};

struct session;

/* Puts the next piece of a long answer into the queue; false if that was the last one. */
typedef bool make_piece(struct session *session);

/* Writes what a list says of the message at index; how many bytes that are. */
typedef int line_writer(const struct session *session, size_t index, char line[LIST_LINE_SIZE]);

struct session {
    struct input_handler handler;
    struct pop3 *pop3;
    struct channel_facade *facade; /* good during the handler's own calls */
    enum state state;
    unsigned wrong_passwords;
    char user[POP3_USER_SIZE]; /* said by USER; empty: nobody yet */
    struct maildir mailbox;    /* open in TRANSACTION */

    /* The answer that is not complete yet. */
    make_piece *next_piece;  /* NULL: there is none */
    line_writer *write_line; /* of a list: what it says of each message */
    size_t next_index;       /* of a list: the message it has come to */
    int file;                /* of a message; -1: none */
    struct pop3_text text;
    struct pop3_top top;
};

static struct session *session_of(struct input_handler *handler)
{
    return (struct session *)handler;
}

/* ---- Answers ------------------------------------------------------------------------------- */

static void send_bytes(struct session *session, const void *data, size_t length)
{
    channel_enqueue(session->facade, (struct message){data, length});
}

/* One line, which gets its CR LF here. */
__attribute__((format(printf, 2, 3))) static void say(struct session *session, const char *format,
                                                      ...)
{
    char line[ANSWER_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line) - 2, format, arguments);
    va_end(arguments);
    line[length++] = '\r';
    line[length++] = '\n';
    send_bytes(session, line, (size_t)length);
}

/* The mailbox goes back to whoever wants it next. */
static void close_mailbox(struct session *session)
{
    if (session->state == TRANSACTION)
        maildir_close(&session->mailbox);
    session->state = UPDATE;
}

static bool end_answer(struct session *session)
{
    session->next_piece = NULL;
    if (session->file >= 0)
        close(session->file);
    session->file = -1;
    return false;
}

/* Some lines of a list, each about a message that is not deleted; and the end behind the last. */
static bool send_list_piece(struct session *session)
{
    char piece[PIECE];
    size_t length = 0;
    const struct maildir *mailbox = &session->mailbox;
    for (; session->next_index < mailbox->count; session->next_index++) {
        if (length + LIST_LINE_SIZE + POP3_TEXT_END_SIZE > sizeof(piece))
            break;
        if (!mailbox->messages[session->next_index].deleted)
            length += (size_t)session->write_line(session, session->next_index, piece + length);
    }
    bool more = session->next_index < mailbox->count;
    if (!more)
        length += (size_t)snprintf(piece + length, POP3_TEXT_END_SIZE, ".\r\n");
    send_bytes(session, piece, length);
    return more || end_answer(session);
}

static void begin_list(struct session *session, line_writer *writer)
{
    session->write_line = writer;
    session->next_index = 0;
    session->next_piece = send_list_piece;
}

/*
 * A failure in the middle cannot be told any more: all that comes would be taken for the message.
 * The end of the connection without the final dot says that it is not complete.
 */
static bool break_off(struct session *session)
{
    log_limited(&session->pop3->server->log, &session->pop3->limit, LOG_LEVEL_WARN,
                "cannot read a message of %s: %s", session->user, strerror(errno));
    channel_close(session->facade);
    return end_answer(session);
}

static bool send_message_piece(struct session *session)
{
    unsigned char piece[PIECE];
    unsigned char sent[POP3_TEXT_SIZE(PIECE) + POP3_TEXT_END_SIZE];
    ssize_t got = read(session->file, piece, sizeof(piece));
    if (got < 0)
        return break_off(session);
    size_t wanted = pop3_top_take(&session->top, piece, (size_t)got);
    size_t length = pop3_text_add(&session->text, piece, wanted, sent);
    bool more = got > 0 && wanted == (size_t)got;
    if (!more)
        length += pop3_text_end(&session->text, sent + length);
    send_bytes(session, sent, length);
    return more || end_answer(session);
}

/* ---- What commands are given --------------------------------------------------------------- */

struct arguments {
    const char *text;                /* the rest of the line, as it came */
    struct maildir_message *message; /* NULL: none is named */
    uint64_t lines;
};

/* What may follow a command's name. */
enum wants { NOTHING, TEXT, PERHAPS_A_MESSAGE, A_MESSAGE, A_MESSAGE_AND_LINES };

static const char *skip_spaces(const char *text)
{
    return text + strspn(text, " ");
}

/* Reads a number, which a space or the end follows, and moves on. What is too large is the most. */
static bool take_number(const char **text, uint64_t *number)
{
    const char *digit = skip_spaces(*text);
    size_t length = strspn(digit, "0123456789");
    if (length == 0 || (digit[length] != ' ' && digit[length] != '\0'))
        return false;
    *number = 0;
    for (*text = digit + length; digit < *text; digit++) {
        unsigned value = (unsigned)(*digit - '0');
        bool fits = *number <= (UINT64_MAX - value) / 10;
        *number = fits ? *number * 10 + value : UINT64_MAX;
    }
    return true;
}

/* The message of that number, if it is there; else the client is told. */
static bool find_message(struct session *session, uint64_t number, struct arguments *arguments)
{
    struct maildir *mailbox = &session->mailbox;
    if (number == 0 || number > mailbox->count) {
        say(session, "-ERR there is no such message, of %zu", mailbox->count);
        return false;
    }
    arguments->message = &mailbox->messages[number - 1];
    if (arguments->message->deleted)
        say(session, "-ERR message %" PRIu64 " is deleted", number);
    return !arguments->message->deleted;
}

/* Reads what follows a command's name; false if that is not as it should be: the client is told. */
static bool read_arguments(struct session *session, enum wants wants, const char *text,
                           struct arguments *arguments)
{
    uint64_t number = 0;
    *arguments = (struct arguments){.text = text};
    if (wants == TEXT && *text != '\0')
        return true;
    bool numbered =
        wants >= A_MESSAGE || (wants == PERHAPS_A_MESSAGE && *skip_spaces(text) != '\0');
    bool good = wants != TEXT && (!numbered || take_number(&text, &number)) &&
                (wants != A_MESSAGE_AND_LINES || take_number(&text, &arguments->lines)) &&
                *skip_spaces(text) == '\0';
    if (!good)
        say(session, "-ERR that is not what the command takes");
    return good && (!numbered || find_message(session, number, arguments));
}

static size_t number_of(const struct session *session, const struct maildir_message *message)
{
    return (size_t)(message - session->mailbox.messages) + 1;
}

/* ---- Commands in any state ----------------------------------------------------------------- */

static void capa(struct session *session, const struct arguments *arguments)
{
    static const char capabilities[] = "+OK this server can\r\n"
                                       "USER\r\n"
                                       "TOP\r\n"
                                       "UIDL\r\n"
                                       "RESP-CODES\r\n"
                                       "AUTH-RESP-CODE\r\n"
                                       "PIPELINING\r\n"
                                       "EXPIRE NEVER\r\n"
                                       ".\r\n";
    (void)arguments;
    send_bytes(session, capabilities, sizeof(capabilities) - 1);
}

/* The only place where a message can be lost. */
static void quit(struct session *session, const struct arguments *arguments)
{
    (void)arguments;
    bool removed = session->state != TRANSACTION || maildir_remove_deleted(&session->mailbox);
    close_mailbox(session);
    if (removed)
        say(session, "+OK goodbye");
    else
        say(session, "-ERR [SYS/TEMP] some deleted messages could not be removed");
    channel_close(session->facade);
}

/* ---- Commands in AUTHORIZATION ------------------------------------------------------------- */

/* The answer is the same whoever it is. A name that is too long is nobody's. */
static void user(struct session *session, const struct arguments *arguments)
{
    snprintf(session->user, sizeof(session->user), "%s",
             strlen(arguments->text) < sizeof(session->user) ? arguments->text : "/");
    say(session, "+OK now the password");
}

static void tell_why_not(struct session *session, int error)
{
    const struct log *log = &session->pop3->server->log;
    if (error == EWOULDBLOCK) {
        say(session, "-ERR [IN-USE] the mailbox is open in another session");
        return;
    }
    log_limited(log, &session->pop3->limit, LOG_LEVEL_WARN, "cannot open the mailbox of %s: %s",
                session->user, strerror(error));
    if (error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP)
        say(session, "-ERR [SYS/PERM] the mailbox cannot be opened");
    else
        say(session, "-ERR [SYS/TEMP] the mailbox cannot be opened now");
}

static void open_mailbox(struct session *session)
{
    if (maildir_open(&session->mailbox, session->pop3->mail_folder, session->user) != 0) {
        tell_why_not(session, errno);
        return;
    }
    session->state = TRANSACTION;
    say(session, "+OK %zu messages", session->mailbox.count);
}

static void refuse_password(struct session *session)
{
    say(session, "-ERR [AUTH] this is not a user with that password");
    if (++session->wrong_passwords < WRONG_PASSWORDS)
        return;
    session->state = UPDATE;
    channel_close(session->facade);
}

static void pass(struct session *session, const struct arguments *arguments)
{
    if (session->user[0] == '\0') {
        say(session, "-ERR first the user");
        return;
    }
    switch (pop3_users_check(&session->pop3->users, session->user, arguments->text)) {
    case POP3_PASSWORD_RIGHT: open_mailbox(session); break;
    case POP3_PASSWORD_WRONG: refuse_password(session); break;
    case POP3_PASSWORD_NOT_TOLD: say(session, "-ERR [SYS/TEMP] try again later"); break;
    }
    if (session->state == AUTHORIZATION)
        session->user[0] = '\0';
}

/* ---- Commands in TRANSACTION --------------------------------------------------------------- */

static void stat_(struct session *session, const struct arguments *arguments)
{
    size_t count = 0;
    uint64_t octets = 0;
    (void)arguments;
    for (size_t i = 0; i < session->mailbox.count; i++) {
        const struct maildir_message *message = &session->mailbox.messages[i];
        count += message->deleted ? 0 : 1;
        octets += message->deleted ? 0 : message->octets;
    }
    say(session, "+OK %zu %" PRIu64, count, octets);
}

static int octets_line(const struct session *session, size_t index, char line[LIST_LINE_SIZE])
{
    uint64_t octets = session->mailbox.messages[index].octets;
    return snprintf(line, LIST_LINE_SIZE, "%zu %" PRIu64 "\r\n", index + 1, octets);
}

static int unique_id_line(const struct session *session, size_t index, char line[LIST_LINE_SIZE])
{
    char id[MAILDIR_ID_SIZE];
    maildir_unique_id(&session->mailbox.messages[index], id);
    return snprintf(line, LIST_LINE_SIZE, "%zu %s\r\n", index + 1, id);
}

/* Of one message or, in a list, of all. */
static void tell(struct session *session, const struct maildir_message *message,
                 line_writer *writer)
{
    char line[LIST_LINE_SIZE];
    if (message == NULL) {
        say(session, "+OK");
        begin_list(session, writer);
        return;
    }
    int length = writer(session, number_of(session, message) - 1, line);
    say(session, "+OK %.*s", length - 2, line);
}

static void list(struct session *session, const struct arguments *arguments)
{
    tell(session, arguments->message, octets_line);
}

static void uidl(struct session *session, const struct arguments *arguments)
{
    tell(session, arguments->message, unique_id_line);
}

static void begin_message(struct session *session, struct maildir_message *message, uint64_t lines)
{
    session->file = maildir_open_message(&session->mailbox, message);
    if (session->file < 0) {
        bool gone = errno == ENOENT;
        say(session, "-ERR %s", gone ? "somebody else has removed it" : "it cannot be read");
        return;
    }
    say(session, "+OK %" PRIu64 " octets", message->octets);
    session->text = (struct pop3_text){0};
    session->top = (struct pop3_top){.lines = lines};
    session->next_piece = send_message_piece;
}

static void retr(struct session *session, const struct arguments *arguments)
{
    begin_message(session, arguments->message, UINT64_MAX);
}

static void top(struct session *session, const struct arguments *arguments)
{
    begin_message(session, arguments->message, arguments->lines);
}

static void dele(struct session *session, const struct arguments *arguments)
{
    arguments->message->deleted = true;
    say(session, "+OK message %zu will be deleted", number_of(session, arguments->message));
}

static void rset(struct session *session, const struct arguments *arguments)
{
    (void)arguments;
    for (size_t i = 0; i < session->mailbox.count; i++)
        session->mailbox.messages[i].deleted = false;
    say(session, "+OK nothing will be deleted");
}

static void noop(struct session *session, const struct arguments *arguments)
{
    (void)arguments;
    say(session, "+OK");
}

static const struct command {
    const char *name;
    unsigned states; /* in which it may be given */
    enum wants wants;
    void (*run)(struct session *session, const struct arguments *arguments);
} commands[] = {
    {"CAPA", AUTHORIZATION | TRANSACTION, NOTHING, capa},
    {"QUIT", AUTHORIZATION | TRANSACTION, NOTHING, quit},
    {"USER", AUTHORIZATION, TEXT, user},
    {"PASS", AUTHORIZATION, TEXT, pass},
    {"STAT", TRANSACTION, NOTHING, stat_},
    {"LIST", TRANSACTION, PERHAPS_A_MESSAGE, list},
    {"UIDL", TRANSACTION, PERHAPS_A_MESSAGE, uidl},
    {"RETR", TRANSACTION, A_MESSAGE, retr},
    {"TOP", TRANSACTION, A_MESSAGE_AND_LINES, top},
    {"DELE", TRANSACTION, A_MESSAGE, dele},
    {"RSET", TRANSACTION, NOTHING, rset},
    {"NOOP", TRANSACTION, NOTHING, noop},
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcasecmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* Obeys a line, which ends in a zero and may be changed. */
static void obey(struct session *session, char *line)
{
    char *text = line + strcspn(line, " ");
    if (*text != '\0')
        *text++ = '\0';
    struct arguments arguments;
    const struct command *command = find_command(line);
    if (command == NULL)
        say(session, "-ERR there is no such command");
    else if ((command->states & session->state) == 0)
        say(session, "-ERR not %s the password",
            session->state == TRANSACTION ? "after" : "before");
    else if (read_arguments(session, command->wants, text, &arguments))
        command->run(session, &arguments);
}

/* ---- The handler --------------------------------------------------------------------------- */

/* The length of a line without its end. */
static size_t text_length(struct message line)
{
    size_t length = line.length - 1;
    return length > 0 && line.data[length - 1] == '\r' ? length - 1 : length;
}

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    struct session *session = session_of(self);
    size_t most = COMMAND_SIZE - 2;
    if (session->pop3->server->settings.max_line < most)
        most = session->pop3->server->settings.max_line;
    session->facade = facade;
    enum framing_result result = line_framing_next(channel_input(facade), most, message);
    if (result == FRAMING_TOO_LONG)
        say(session, "-ERR no command is longer than %zu octets", most + 2);
    return result;
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct session *session = session_of(self);
    char line[COMMAND_SIZE];
    struct message paid = service_process(&session->pop3->server->service, message);
    size_t length = text_length(paid);
    session->facade = facade;
    memcpy(line, paid.data, length);
    line[length] = '\0';
    if (strlen(line) == length)
        obey(session, line);
    else
        say(session, "-ERR a command has no zeros in it");
    explicit_bzero(line, sizeof(line)); /* it may have been a password */
    return true;
}

static bool continue_output(struct input_handler *self, struct channel_facade *facade)
{
    struct session *session = session_of(self);
    session->facade = facade;
    return session->next_piece != NULL && session->next_piece(session);
}

static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct session *session = session_of(self);
    (void)message;
    session->facade = facade;
    say(session, "-ERR [SYS/TEMP] the server is busy, nothing was done");
}

static void starting(struct input_handler *self, struct channel_facade *facade)
{
    struct session *session = session_of(self);
    session->facade = facade;
    say(session, "+OK this is a POP3 server");
}

/* However it ends: who comes next finds the mailbox closed. */
static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    struct session *session = session_of(self);
    (void)facade;
    end_answer(session);
    close_mailbox(session);
}

static void unused(struct input_handler *self)
{
    free(session_of(self));
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    free(session_of(self));
}

static const struct input_handler_verbs verbs = {
    .next_message = next_message,
    .handle_input = handle_input,
    .continue_output = continue_output,
    .refuse_input = refuse_input,
    .unused = unused,
    .starting = starting,
    .stopping = stopping,
    .stopped = stopped,
};

static struct input_handler *create(struct input_handler_factory *factory)
{
    struct session *session = calloc(1, sizeof(*session));
    if (session == NULL)
        return NULL;
    session->handler.verbs = &verbs;
    session->pop3 = (struct pop3 *)factory;
    session->state = AUTHORIZATION;
    session->file = -1;
    return &session->handler;
}

/* ---- The application ----------------------------------------------------------------------- */

static bool read_place(const struct option *option, const char *text)
{
    *(const char **)option->target = strcmp(text, "none") == 0 ? NULL : text;
    return *text != '\0';
}

static void add_options(struct options *options, struct application_choice *choice)
{
    options_add(options, (struct option){.name = "--mail-dir",
                                         .value = "DIR",
                                         .standard = "none",
                                         .help = "pop3: mailboxes, each a Maildir DIR/USER",
                                         .takes = "a folder, or none",
                                         .read = read_place,
                                         .target = &choice->mail_dir});
    options_add(options, (struct option){.name = "--users",
                                         .value = "FILE",
                                         .standard = "none",
                                         .help = "pop3: lines USER:HASH, hashes of crypt(3)",
                                         .takes = "a file, or none",
                                         .read = read_place,
                                         .target = &choice->users});
}

/* Users and mailboxes that somebody has, or else the demonstration. False with errno, or 0. */
static bool find_users(struct pop3 *pop3, const struct application_choice *choice)
{
    const char *program = pop3->server->name;
    bool none = choice->mail_dir == NULL && choice->users == NULL;
    if (none)
        return pop3_demonstration_open(&pop3->demonstration, &pop3->users);
    bool both = choice->mail_dir != NULL && choice->users != NULL;
    if (!both)
        fprintf(stderr, "%s: pop3 takes both of --mail-dir and --users, or neither\n", program);
    else if (pop3_users_read(&pop3->users, choice->users, program))
        return true;
    errno = 0;
    return false;
}

static bool find_mail(struct pop3 *pop3, const struct application_choice *choice)
{
    bool demonstrates = choice->mail_dir == NULL;
    const char *place = demonstrates ? pop3->demonstration.folder : choice->mail_dir;
    pop3->mail_folder = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pop3->mail_folder < 0) {
        fprintf(stderr, "%s: cannot open the mailboxes in %s: %s\n", pop3->server->name, place,
                strerror(errno));
        errno = 0;
        return false;
    }
    if (demonstrates)
        pop3_demonstration_tell(pop3->server->name);
    return true;
}

static void pop3_close(struct input_handler_factory *factory)
{
    struct pop3 *pop3 = (struct pop3 *)factory;
    if (pop3->mail_folder >= 0)
        close(pop3->mail_folder);
    pop3_demonstration_close(&pop3->demonstration);
    pop3_users_destroy(&pop3->users);
    free(pop3);
}

static struct input_handler_factory *pop3_open(struct server *server,
                                               const struct application_choice *choice)
{
    struct pop3 *pop3 = calloc(1, sizeof(*pop3));
    if (pop3 == NULL)
        return NULL;
    pop3->factory.create = create;
    pop3->server = server;
    pop3->mail_folder = -1;
    pop3_users_init(&pop3->users);
    if (find_users(pop3, choice) && find_mail(pop3, choice))
        return &pop3->factory;
    int error = errno;
    pop3_close(&pop3->factory);
    errno = error;
    return NULL;
}

const struct application application_pop3 = {
    .name = "pop3",
    .options = add_options,
    .open = pop3_open,
    .close = pop3_close,
};
