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
 *
 * The chapter is docs/pop3.md.
 */
#include "application.h"
#include "pop3_demonstration.h"
#include "pop3_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    COMMAND_SIZE = 255, /* the longest command, with its CR LF (RFC 2449, section 4) */
};

struct pop3_application {
    struct input_handler_factory factory;
    struct pop3 pop3;
    struct pop3_demonstration demonstration;
};

static struct pop3_session *session_of(struct input_handler *handler)
{
    return (struct pop3_session *)handler;
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
    struct pop3_session *session = session_of(self);
    size_t most = COMMAND_SIZE - 2;
    if (session->pop3->server->settings.max_line < most)
        most = session->pop3->server->settings.max_line;
    session->facade = facade;
    enum framing_result result = line_framing_next(channel_input(facade), most, message);
    if (result == FRAMING_TOO_LONG)
        pop3_say(session, "-ERR no command is longer than %zu octets", most + 2);
    return result;
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct pop3_session *session = session_of(self);
    char line[COMMAND_SIZE];
    struct message paid = service_process(&session->pop3->server->service, message);
    size_t length = text_length(paid);
    session->facade = facade;
    memcpy(line, paid.data, length);
    line[length] = '\0';
    if (strlen(line) == length)
        pop3_obey(session, line);
    else
        pop3_say(session, "-ERR a command has no zeros in it");
    explicit_bzero(line, sizeof(line)); /* it may have been a password */
    return true;
}

static bool continue_output(struct input_handler *self, struct channel_facade *facade)
{
    struct pop3_session *session = session_of(self);
    session->facade = facade;
    return pop3_continue(session);
}

static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct pop3_session *session = session_of(self);
    (void)message;
    session->facade = facade;
    pop3_say(session, "-ERR [SYS/TEMP] the server is busy, nothing was done");
}

static void starting(struct input_handler *self, struct channel_facade *facade)
{
    struct pop3_session *session = session_of(self);
    session->facade = facade;
    pop3_say(session, "+OK this is a POP3 server");
}

/* However it ends: who comes next finds the mailbox closed. */
static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    struct pop3_session *session = session_of(self);
    (void)facade;
    pop3_end_answer(session);
    pop3_close_mailbox(session);
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
    struct pop3_session *session = calloc(1, sizeof(*session));
    if (session == NULL)
        return NULL;
    session->handler.verbs = &verbs;
    session->pop3 = &((struct pop3_application *)factory)->pop3;
    session->state = POP3_AUTHORIZATION;
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

/* False with errno, or with 0 there if standard error tells why. */
static bool find_users(struct pop3_application *application,
                       const struct application_choice *choice)
{
    struct pop3 *pop3 = &application->pop3;
    const char *program = pop3->server->name;
    if (choice->mail_dir == NULL && choice->users == NULL)
        return pop3_demonstration_open(&application->demonstration, &pop3->users);
    if (choice->mail_dir == NULL || choice->users == NULL)
        fprintf(stderr, "%s: pop3 takes both of --mail-dir and --users, or neither\n", program);
    else if (pop3_users_read(&pop3->users, choice->users, program))
        return true;
    errno = 0;
    return false;
}

/* Likewise. */
static bool find_mail(struct pop3_application *application, const struct application_choice *choice)
{
    struct pop3 *pop3 = &application->pop3;
    const char *program = pop3->server->name;
    bool demonstrates = choice->mail_dir == NULL;
    const char *place = demonstrates ? application->demonstration.folder : choice->mail_dir;
    pop3->mail_folder = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pop3->mail_folder < 0) {
        fprintf(stderr, "%s: cannot open the mailboxes in %s: %s\n", program, place,
                strerror(errno));
        errno = 0;
        return false;
    }
    if (demonstrates)
        pop3_demonstration_tell(program);
    return true;
}

static void pop3_close(struct input_handler_factory *factory)
{
    struct pop3_application *application = (struct pop3_application *)factory;
    if (application->pop3.mail_folder >= 0)
        close(application->pop3.mail_folder);
    pop3_demonstration_close(&application->demonstration);
    pop3_users_destroy(&application->pop3.users);
    free(application);
}

/* Who is turned away hears why in words that his program understands. */
static void turn_away_in_pop3(struct server_settings *settings)
{
    char text[sizeof(settings->turn_away)];
    memcpy(text, settings->turn_away, sizeof(text));
    const char *words = text + strlen("ERR ");
    snprintf(settings->turn_away, sizeof(settings->turn_away), "-ERR [SYS/TEMP] %.*s\r\n",
             (int)strcspn(words, "\n"), words);
}

static struct input_handler_factory *pop3_open(struct server *server,
                                               const struct application_choice *choice)
{
    struct pop3_application *application = calloc(1, sizeof(*application));
    if (application == NULL)
        return NULL;
    application->factory.create = create;
    application->pop3.server = server;
    application->pop3.mail_folder = -1;
    pop3_users_init(&application->pop3.users);
    turn_away_in_pop3(&server->settings);
    if (find_users(application, choice) && find_mail(application, choice))
        return &application->factory;
    int error = errno;
    pop3_close(&application->factory);
    errno = error;
    return NULL;
}

const struct application application_pop3 = {
    .name = "pop3",
    .options = add_options,
    .open = pop3_open,
    .close = pop3_close,
};
