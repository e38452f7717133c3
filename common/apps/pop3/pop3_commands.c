/*
 * The commands of POP3: a function for each, and a table that says when it may be given and what
 * follows its name.
 */
#include "common/apps/pop3/pop3_session.h"
#include "common/base/container_of.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

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

/* Reads a number and moves on, to whatever follows it. What is too large is the most there is. */
static bool take_number(const char **text, uint64_t *number)
{
    const char *digit = skip_spaces(*text);
    size_t length = strspn(digit, "0123456789");
    if (length == 0)
        return false;
    *number = 0;
    for (*text = digit + length; digit < *text; digit++) {
        unsigned value = (unsigned)(*digit - '0');
        bool fits = *number <= (UINT64_MAX - value) / 10;
        *number = fits ? *number * 10 + value : UINT64_MAX;
    }
    return true;
}

/* The message of that number; NULL if there is none, and the client got an error. */
static bool find_message(struct pop3_session *session, uint64_t number, struct arguments *arguments)
{
    struct maildir *mailbox = &session->maildir;
    if (number == 0 || number > mailbox->count) {
        pop3_say(session, "-ERR there is no such message, of %zu", mailbox->count);
        return false;
    }
    arguments->message = &mailbox->messages[number - 1];
    if (arguments->message->deleted)
        pop3_say(session, "-ERR message %" PRIu64 " is deleted", number);
    return !arguments->message->deleted;
}

static bool is_blank(const char *text)
{
    return *skip_spaces(text) == '\0';
}

/* Reads what follows a command's name. False if it is malformed: the client got an error. */
static bool read_arguments(struct pop3_session *session, enum wants wants, const char *text,
                           struct arguments *arguments)
{
    uint64_t number = 0;
    *arguments = (struct arguments){.text = text};
    if (wants == TEXT && *text != '\0')
        return true;
    bool good = wants != TEXT;
    bool numbered = wants >= A_MESSAGE || (wants == PERHAPS_A_MESSAGE && !is_blank(text));
    if (numbered)
        good = take_number(&text, &number);
    if (good && wants == A_MESSAGE_AND_LINES)
        good = take_number(&text, &arguments->lines);
    if (!good || !is_blank(text)) {
        pop3_say(session, "-ERR that is not what the command takes");
        return false;
    }
    return !numbered || find_message(session, number, arguments);
}

static size_t number_of(const struct pop3_session *session, const struct maildir_message *message)
{
    return (size_t)(message - session->maildir.messages) + 1;
}

/* ---- Commands in any state ----------------------------------------------------------------- */

static void capa(struct pop3_session *session, const struct arguments *arguments)
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
    pop3_send(session, capabilities, sizeof(capabilities) - 1);
}

/* Unlocks the mailbox, for the next session. */
void pop3_close_mailbox(struct pop3_session *session)
{
    if (session->state == POP3_TRANSACTION)
        maildir_close(&session->maildir);
    session->state = POP3_OVER;
}

static void say_goodbye(struct pop3_session *session, bool is_updated)
{
    if (is_updated)
        pop3_say(session, "+OK goodbye");
    else
        pop3_say(session, "-ERR [SYS/TEMP] some deleted messages could not be removed");
    channel_close(session->facade);
}

static struct pop3_session *session_of(struct channel_task *update)
{
    return container_of(update, struct pop3_session, update);
}

/* RFC 1939's UPDATE state. Nothing else removes a message. The mailbox is open for the next one. */
static void remove_deleted(struct channel_task *update)
{
    struct pop3_session *session = session_of(update);
    session->is_updated = maildir_remove_deleted(&session->maildir);
    maildir_close(&session->maildir);
}

static void removed(struct channel_task *update, struct channel_facade *facade)
{
    struct pop3_session *session = session_of(update);
    (void)facade;
    say_goodbye(session, session->is_updated);
}

/* The client has gone, but its QUIT had come whole. If no helper has begun with it, we do it here.
 */
static void removed_for_nobody(struct channel_task *update)
{
    if (session_of(update)->maildir.fd >= 0)
        remove_deleted(update);
}

static bool has_deleted(const struct maildir *mailbox)
{
    for (size_t i = 0; i < mailbox->count; i++)
        if (mailbox->messages[i].deleted)
            return true;
    return false;
}

/*
 * Removing is a task, because a mailbox may have thousands of messages on a slow disk, and nobody
 * else should wait for them. From here on the mailbox is the task's, and not the session's.
 */
static void quit(struct pop3_session *session, const struct arguments *arguments) NO_LOCK_HELD
{
    (void)arguments;
    if (session->state != POP3_TRANSACTION || !has_deleted(&session->maildir)) {
        pop3_close_mailbox(session);
        say_goodbye(session, true);
        return;
    }
    session->state = POP3_OVER;
    session->update = (struct channel_task){
        .run = remove_deleted, .completed = removed, .dropped = removed_for_nobody};
    channel_begin(session->facade, &session->update, CHANNEL_WAITS);
}

/* ---- Commands in AUTHORIZATION ------------------------------------------------------------- */

/* The answer is the same for every name. A name that is too long belongs to no user. */
static void user(struct pop3_session *session, const struct arguments *arguments)
{
    snprintf(session->user, sizeof(session->user), "%s",
             strlen(arguments->text) < sizeof(session->user) ? arguments->text : "/");
    pop3_say(session, "+OK now the password");
}

static void pass(struct pop3_session *session, const struct arguments *arguments) NO_LOCK_HELD
{
    if (session->user[0] != '\0')
        pop3_log_in(session, arguments->text);
    else
        pop3_say(session, "-ERR first the user");
}

/* ---- Commands in TRANSACTION --------------------------------------------------------------- */

static void stat_(struct pop3_session *session, const struct arguments *arguments)
{
    size_t count = 0;
    uint64_t octets = 0;
    (void)arguments;
    for (size_t i = 0; i < session->maildir.count; i++) {
        const struct maildir_message *message = &session->maildir.messages[i];
        count += message->deleted ? 0 : 1;
        octets += message->deleted ? 0 : message->octets;
    }
    pop3_say(session, "+OK %zu %" PRIu64, count, octets);
}

static size_t octets_line(const struct pop3_session *session, size_t index,
                          char line[POP3_LIST_LINE_SIZE])
{
    uint64_t octets = session->maildir.messages[index].octets;
    return (size_t)snprintf(line, POP3_LIST_LINE_SIZE, "%zu %" PRIu64 "\r\n", index + 1, octets);
}

static size_t unique_id_line(const struct pop3_session *session, size_t index,
                             char line[POP3_LIST_LINE_SIZE])
{
    char id[MAILDIR_ID_SIZE];
    maildir_unique_id(&session->maildir.messages[index], id);
    return (size_t)snprintf(line, POP3_LIST_LINE_SIZE, "%zu %s\r\n", index + 1, id);
}

/* Of one message or, in a list, of all. */
static void tell(struct pop3_session *session, const struct maildir_message *message,
                 pop3_list_line *list_line)
{
    char line[POP3_LIST_LINE_SIZE];
    if (message == NULL) {
        pop3_say(session, "+OK");
        pop3_begin_list(session, list_line);
        return;
    }
    size_t length = list_line(session, number_of(session, message) - 1, line);
    pop3_say(session, "+OK %.*s", (int)length - 2, line);
}

static void list(struct pop3_session *session, const struct arguments *arguments)
{
    tell(session, arguments->message, octets_line);
}

static void uidl(struct pop3_session *session, const struct arguments *arguments)
{
    tell(session, arguments->message, unique_id_line);
}

/* Begins to send the message. False if it cannot be read: the client got an error. */
static bool begin_message(struct pop3_session *session, struct maildir_message *message,
                          uint64_t lines)
{
    int file = maildir_open_message(&session->maildir, message);
    bool gone = file < 0 && errno == ENOENT;
    if (file >= 0)
        pop3_begin_message(session, file, lines);
    else
        pop3_say(session, "-ERR %s", gone ? "somebody else has removed it" : "it cannot be read");
    return file >= 0;
}

static void retr(struct pop3_session *session, const struct arguments *arguments)
{
    if (begin_message(session, arguments->message, UINT64_MAX))
        pop3_say(session, "+OK %" PRIu64 " octets", arguments->message->octets);
}

static void top(struct pop3_session *session, const struct arguments *arguments)
{
    if (begin_message(session, arguments->message, arguments->lines))
        pop3_say(session, "+OK");
}

static void dele(struct pop3_session *session, const struct arguments *arguments)
{
    arguments->message->deleted = true;
    pop3_say(session, "+OK message %zu will be deleted", number_of(session, arguments->message));
}

static void rset(struct pop3_session *session, const struct arguments *arguments)
{
    (void)arguments;
    for (size_t i = 0; i < session->maildir.count; i++)
        session->maildir.messages[i].deleted = false;
    pop3_say(session, "+OK nothing will be deleted");
}

static void noop(struct pop3_session *session, const struct arguments *arguments)
{
    (void)arguments;
    pop3_say(session, "+OK");
}

static const struct command {
    const char *name;
    unsigned states; /* in which it may be given */
    enum wants wants;
    void (*run)(struct pop3_session *session, const struct arguments *arguments);
} commands[] = {
    {"CAPA", POP3_AUTHORIZATION | POP3_TRANSACTION, NOTHING, capa},
    {"QUIT", POP3_AUTHORIZATION | POP3_TRANSACTION, NOTHING, quit},
    {"USER", POP3_AUTHORIZATION, TEXT, user},
    {"PASS", POP3_AUTHORIZATION, TEXT, pass},
    {"STAT", POP3_TRANSACTION, NOTHING, stat_},
    {"LIST", POP3_TRANSACTION, PERHAPS_A_MESSAGE, list},
    {"UIDL", POP3_TRANSACTION, PERHAPS_A_MESSAGE, uidl},
    {"RETR", POP3_TRANSACTION, A_MESSAGE, retr},
    {"TOP", POP3_TRANSACTION, A_MESSAGE_AND_LINES, top},
    {"DELE", POP3_TRANSACTION, A_MESSAGE, dele},
    {"RSET", POP3_TRANSACTION, NOTHING, rset},
    {"NOOP", POP3_TRANSACTION, NOTHING, noop},
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcasecmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

void pop3_obey(struct pop3_session *session, char *line)
{
    char *text = line + strcspn(line, " ");
    if (*text != '\0')
        *text++ = '\0';
    struct arguments arguments;
    const struct command *command = find_command(line);
    if (command == NULL)
        pop3_say(session, "-ERR there is no such command");
    else if ((command->states & session->state) == 0)
        pop3_say(session, "-ERR not %s the password",
                 session->state == POP3_TRANSACTION ? "after" : "before");
    else if (read_arguments(session, command->wants, text, &arguments))
        command->run(session, &arguments);
}
