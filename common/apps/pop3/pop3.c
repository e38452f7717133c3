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
#include "common/apps/application.h"
#include "common/apps/pop3/pop3_demonstration.h"
#include "common/apps/pop3/pop3_hash.h"
#include "common/apps/pop3/pop3_session.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/options.h"
#include "common/bytes/input_queue_more.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pop3_application {
    struct input_handler_factory factory;
    struct pop3 pop3;
    struct pop3_demonstration demonstration;
};

static struct pop3_session *session_of(struct input_handler *handler)
{
    return container_of(handler, struct pop3_handler, handler)->session;
}

/* ---- The handlers -------------------------------------------------------------------------- */

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
    size_t max = POP3_COMMAND_SIZE - 2;
    if (session->pop3->server->settings.max_line < max)
        max = session->pop3->server->settings.max_line;
    enum framing_result result = line_framing_next(channel_input(facade), max, message);
    if (result == FRAMING_TOO_LONG)
        pop3_say(session, "-ERR no command is longer than %zu octets", max + 2);
    return result;
}

/* These cost nothing, and clients send them to learn whether the server is there, or to go. */
static bool is_urgent(struct input_handler *self, struct channel_facade *facade)
{
    const struct input_queue *input = channel_input(facade);
    (void)self;
    return line_framing_begins_with(input, "QUIT") || line_framing_begins_with(input, "NOOP");
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct pop3_session *session = session_of(self);
    char line[POP3_COMMAND_SIZE];
    struct message paid = application_process(session->pop3->server, facade, message);
    size_t length = text_length(paid);
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
    (void)facade;
    return pop3_continue(session_of(self));
}

static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)message;
    (void)facade;
    pop3_say(session_of(self), "-ERR [SYS/TEMP] the server is busy, nothing was done");
}

static void starting(struct input_handler *self, struct channel_facade *facade)
{
    struct pop3_session *session = session_of(self);
    session->facade = facade;
    input_queue_set_secret(channel_input(facade), true); /* any line may be a password */
    pop3_say(session, "+OK this is a POP3 server");
}

/* A server that stops hands over what has arrived, but not before the password that waits. */
static enum framing_result next_login_message(struct input_handler *self,
                                              struct channel_facade *facade,
                                              struct message *message)
{
    return session_of(self)->waiting != NULL ? FRAMING_INCOMPLETE
                                             : next_message(self, facade, message);
}

static void stopping_login(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    pop3_end_login(session_of(self));
}

/* However it ends: the next session finds the mailbox closed. */
static void stopping_mailbox(struct input_handler *self, struct channel_facade *facade)
{
    struct pop3_session *session = session_of(self);
    (void)facade;
    pop3_end_answer(session);
    pop3_close_mailbox(session);
}

/* Until the login; then pop3_log_in() gives the connection to the other handler. */
static struct input_handler_verbs login_verbs = {
    .next_message = next_login_message,
    .is_urgent = is_urgent,
    .handle_input = handle_input,
    .refuse_input = refuse_input,
    .starting = starting,
    .stopping = stopping_login,
};

/* Only this one has answers that may be long. */
static struct input_handler_verbs mailbox_verbs = {
    .next_message = next_message,
    .is_urgent = is_urgent,
    .handle_input = handle_input,
    .continue_output = continue_output,
    .refuse_input = refuse_input,
    .stopping = stopping_mailbox,
};

static struct input_handler *create(struct input_handler_factory *factory, void *memory)
{
    struct pop3_session *session = memory;
    session->login = (struct pop3_handler){{&login_verbs}, session};
    session->mailbox = (struct pop3_handler){{&mailbox_verbs}, session};
    session->pop3 = &container_of(factory, struct pop3_application, factory)->pop3;
    session->state = POP3_AUTHORIZATION;
    session->file = -1;
    return &session->login.handler;
}

/* ---- The application ----------------------------------------------------------------------- */

static bool parse_place(const struct option *option, const char *text)
{
    *(const char **)option->target = strcmp(text, "none") == 0 ? NULL : text;
    return *text != '\0';
}

/* The options' values; NULL: not given. */
static const char *mail_dir, *users_file;

static void add_options(struct options *options)
{
    options_add(options, (struct option){.name = "--mail-dir",
                                         .value = "DIR",
                                         .default_text = "none",
                                         .help = "pop3: mailboxes, each a Maildir DIR/USER",
                                         .expects = "a folder, or none",
                                         .parse = parse_place,
                                         .target = &mail_dir});
    options_add(options, (struct option){.name = "--users",
                                         .value = "FILE",
                                         .default_text = "none",
                                         .help = "pop3: lines USER:HASH, hashes of crypt(3)",
                                         .expects = "a file, or none",
                                         .parse = parse_place,
                                         .target = &users_file});
}

/* False with errno, or with 0 there if the reason was printed. */
static bool find_users(struct pop3_application *application)
{
    struct pop3 *pop3 = &application->pop3;
    const char *program = pop3->server->name;
    bool demonstrates = mail_dir == NULL && users_file == NULL;
    if (pop3_hash_known && demonstrates)
        return pop3_demonstration_open(&application->demonstration, &pop3->users);
    if (!pop3_hash_known)
        fprintf(
            stderr,
            "%s: pop3 cannot check passwords, because this program was built without crypt(3)\n",
            program);
    else if (mail_dir == NULL || users_file == NULL)
        fprintf(stderr, "%s: pop3 takes both of --mail-dir and --users, or neither\n", program);
    else if (pop3_users_read(&pop3->users, users_file, program))
        return true;
    errno = 0;
    return false;
}

/* The same. */
static bool find_mail(struct pop3_application *application)
{
    struct pop3 *pop3 = &application->pop3;
    const char *program = pop3->server->name;
    bool demonstrates = mail_dir == NULL;
    const char *place = demonstrates ? application->demonstration.folder : mail_dir;
    int folder = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        fprintf(stderr, "%s: cannot open the mailboxes in %s: %s\n", program, place,
                strerror(errno));
        errno = 0;
        return false;
    }
    close(folder);
    pop3->mail_dir = place;
    if (demonstrates)
        pop3_demonstration_tell(program);
    return true;
}

static void pop3_close(struct input_handler_factory *factory)
{
    struct pop3_application *application = container_of(factory, struct pop3_application, factory);
    pop3_demonstration_close(&application->demonstration);
    pop3_users_destroy(&application->pop3.users);
    pop3_guesses_destroy(&application->pop3.guesses);
    free(application);
}

/* A client that is turned away gets the reason in POP3. */
static void turn_away_in_pop3(struct server_settings *settings)
{
    char text[sizeof(settings->turn_away)];
    memcpy(text, settings->turn_away, sizeof(text));
    const char *words = text + strlen("ERR ");
    snprintf(settings->turn_away, sizeof(settings->turn_away), "-ERR [SYS/TEMP] %.*s\r\n",
             (int)strcspn(words, "\n"), words);
}

/* A number that clients cannot know; where there is none to be had, the time has to do. */
static uint64_t random_seed(void)
{
    uint64_t seed;
    return getentropy(&seed, sizeof(seed)) == 0 ? seed : (uint64_t)clock_ns();
}

static struct input_handler_factory *pop3_open(struct server *server)
{
    struct pop3_application *application = calloc(1, sizeof(*application));
    if (application == NULL)
        return NULL;
    application->factory = (struct input_handler_factory){
        .handler_size = sizeof(struct pop3_session), .create = create};
    application->pop3.server = server;
    pop3_users_init(&application->pop3.users);
    pop3_guesses_init(&application->pop3.guesses, random_seed());
    turn_away_in_pop3(&server->settings);
    input_handler_complete(&login_verbs);
    input_handler_complete(&mailbox_verbs);
    if (find_users(application) && find_mail(application))
        return &application->factory;
    int error = errno;
    pop3_close(&application->factory);
    errno = error;
    return NULL;
}

/* RFC 1939, section 3: at least ten minutes. */
static const char *const defaults[] = {"--idle-timeout", "600", NULL};

const struct application pop3_application = {
    .name = "pop3",
    .needs = OFFERS_TIMERS,
    .descriptors = 4,
    .defaults = defaults,
    .options = add_options,
    .open = pop3_open,
    .close = pop3_close,
};
