/*
 * A session without a connection: a facade that keeps what is enqueued. For what no client can
 * bring about, and for what none can see: how much is enqueued at a time.
 */
#include "common/apps/application_choice.h"
#include "common/apps/pop3/pop3_session.h"
#include "common/base/clock.h"
#include "common/bytes/input_queue_more.h"
#include "common/server/channel_calls.h"
#include "common/workers/executor.h"
#include "pop3/mailboxes.h"
#include "support/configure.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(pop3_session, .init = mailboxes_make, .fini = mailboxes_remove, .timeout = 120);

enum {
    MOST_OF_A_PIECE = 20000, /* a piece of 8 KiB, all of it line ends, and a little more */
};

/** A connection that is none. */
static struct {
    struct channel_facade facade;
    struct input_queue input;
    char text[1 << 18];
    size_t length;
    size_t largest; /* that was enqueued at once */
    bool closed;
    struct input_handler *handler;
    bool holds_tasks;          /* they are begun, and no helper has them yet */
    struct channel_task *held; /* the last one */
    bool suspended;
    struct channel_timer *timer; /* that is set */
} fake;

static enum output_result enqueue(struct channel_facade *facade, struct piece piece)
{
    struct message message = piece.bytes;
    (void)facade;
    cr_assert_eq(piece.kind, PIECE_BYTES);
    cr_assert_lt(fake.length + message.length, sizeof fake.text);
    memcpy(fake.text + fake.length, message.data, message.length);
    fake.length += message.length;
    fake.text[fake.length] = '\0';
    fake.largest = message.length > fake.largest ? message.length : fake.largest;
    return OUTPUT_FLOWING;
}

static void set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    (void)facade;
    fake.handler = handler;
}

static void close_it(struct channel_facade *facade)
{
    (void)facade;
    fake.closed = true;
}

static void suspend(struct channel_facade *facade)
{
    (void)facade;
    fake.suspended = true;
}

static void resume(struct channel_facade *facade)
{
    (void)facade;
    fake.suspended = false;
}

/* It fires when the test wants it. */
static void set_timer(struct channel_facade *facade, struct channel_timer *timer, int64_t ms)
{
    (void)facade;
    fake.timer = timer;
    cr_assert_gt(ms, 0);
}

static struct input_queue *input(struct channel_facade *facade)
{
    (void)facade;
    return &fake.input;
}

static int peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    (void)facade;
    endpoint_parse(endpoint, "127.0.0.1", 1);
    return 0;
}

/* As where there are no helpers, but that the result comes at once. */
static void begin_task(struct channel_facade *facade, struct channel_task *task,
                       enum channel_meanwhile meanwhile)
{
    cr_assert_eq(meanwhile, CHANNEL_WAITS);
    fake.held = task;
    if (fake.holds_tasks) {
        return;
    }
    task->run(task);
    task->completed(task, facade);
}

static const struct channel_facade_verbs fake_verbs = {.input = input,
                                                       .enqueue = enqueue,
                                                       .set_handler = set_handler,
                                                       .peer = peer,
                                                       .close = close_it,
                                                       .suspend = suspend,
                                                       .resume = resume,
                                                       .set_timer = set_timer,
                                                       .begin = begin_task};

static struct server server = {.name = "test", .settings.max_line = 1000};
static struct input_handler_factory *factory;
extern const struct application pop3_application;

/** A session in which ann is logged in. */
static struct input_handler *begin(void)
{
    static char folder[128];
    static char file[128];
    snprintf(folder, sizeof folder, "%s", mailboxes_path("."));
    snprintf(file, sizeof file, "%s", mailboxes_path("users"));
    const char *const words[] = {"--mail-dir", folder, "--users", file, NULL};
    cr_assert(configure(&pop3_application, words));
    service_init(&server.service);
    server.service.cost_every = 1;
    fake.facade.verbs = &fake_verbs;
    factory = application_open(&pop3_application, &server);
    cr_assert_not_null(factory);
    buffer_factory_init(&server.buffers, 16);
    static alignas(max_align_t) unsigned char memory[sizeof(struct pop3_session)];
    cr_assert_eq(factory->handler_size, sizeof memory);
    memset(memory, 0, sizeof memory);
    struct input_handler *handler = factory->create(factory, memory);
    handler->verbs->starting(handler, &fake.facade);
    return handler;
}

static void end(struct input_handler *handler)
{
    handler->verbs->stopping(handler, &fake.facade);
    pop3_application.close(factory);
    service_destroy(&server.service);
    buffer_factory_destroy(&server.buffers);
}

/** Gives the handler a line, and returns what it enqueues. Only the first piece is asked for. */
static const char *give(struct input_handler *handler, const char *line)
{
    fake.length = 0;
    fake.text[0] = '\0';
    struct message message = {(const unsigned char *)line, strlen(line)};
    cr_assert(handler->verbs->handle_input(handler, message, &fake.facade));
    return fake.text;
}

/** The handler that serves the session from now on. */
static struct input_handler *log_in(struct input_handler *handler)
{
    fake.handler = handler;
    cr_assert(strncmp(give(handler, "USER ann\r\n"), "+OK", 3) == 0);
    cr_assert(strncmp(give(handler, "PASS " MAILBOX_PASSWORD "\r\n"), "+OK", 3) == 0, "%s",
              fake.text);
    return fake.handler;
}

/* No worker was free: the command is refused, and was not carried out. */
Test(pop3_session, a_refused_command_was_not_done)
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    struct input_handler *handler = begin();
    handler = log_in(handler);
    fake.length = 0;
    struct message message = {(const unsigned char *)"DELE 1\r\n", 8};
    handler->verbs->refuse_input(handler, message, &fake.facade);
    cr_assert(strncmp(fake.text, "-ERR [SYS/TEMP] ", 16) == 0, "%s", fake.text);
    cr_assert_str_eq(give(handler, "STAT\r\n"), "+OK 1 5\r\n");
    end(handler);
}

/* ---- PASS ---- */

/** Lets passwords of Ann's be looked at until one stands in line; how many came before it. */
static int fill_line(struct pop3_guesses *guesses, struct pop3_guess *others, int most)
{
    struct endpoint client;
    int count = 0;
    peer(&fake.facade, &client);
    while (count < most &&
           pop3_guesses_begin(guesses, &client, "ann", clock_ms(), &others[count]) == 0) {
        count++;
    }
    return count;
}

/* Its place goes with the session's memory: those behind it would wait for it, and look at it. */
Test(pop3_session, a_password_that_stands_in_line_leaves_it_with_its_client)
{
    enum { MOST = 100 };
    static struct pop3_guess others[MOST];
    struct input_handler *handler = begin();
    struct pop3_guesses *guesses = &((struct pop3_session *)handler)->pop3->guesses;
    int count = fill_line(guesses, others, MOST);
    cr_assert_lt(count, MOST);
    pop3_guesses_end(guesses, &others[count], POP3_PASSWORD_NOT_TOLD, clock_ms());
    cr_assert(strncmp(give(handler, "USER ann\r\n"), "+OK", 3) == 0);
    cr_assert_str_empty(give(handler, "PASS " MAILBOX_PASSWORD "\r\n"));
    cr_assert(fake.suspended, "it waits");
    struct message next;
    input_queue_init(&fake.input, &server.buffers, 100);
    cr_assert(input_queue_append(&fake.input, (const unsigned char *)"QUIT\r\n", 6));
    cr_assert_eq(handler->verbs->next_message(handler, &fake.facade, &next), FRAMING_INCOMPLETE,
                 "a server that stops gives what has come, and that overtakes the password");
    input_queue_clear(&fake.input);
    handler->verbs->stopping(handler, &fake.facade);
    for (int i = 0; i < count; i++) {
        pop3_guesses_end(guesses, &others[i], POP3_PASSWORD_NOT_TOLD, clock_ms());
    }
    mutex_lock(&guesses->lock);
    bool is_empty = list_is_empty(&guesses->all);
    mutex_unlock(&guesses->lock);
    cr_assert(is_empty, "nobody is left, and somebody stands in line");
    end(handler);
}

/* While it waited another guess came, and there is a delay again. PASS wants USER before it. */
Test(pop3_session, a_password_that_is_refused_for_now_is_nobodys_any_more)
{
    enum { WRONG = 3 };
    struct endpoint client;
    struct input_handler *handler = begin();
    struct pop3_guesses *guesses = &((struct pop3_session *)handler)->pop3->guesses;
    peer(&fake.facade, &client);
    for (int i = 0; i < WRONG; i++) {
        struct pop3_guess other = {0};
        cr_assert_eq(pop3_guesses_begin(guesses, &client, "ann", clock_ms(), &other), 0);
        pop3_guesses_end(guesses, &other, POP3_PASSWORD_WRONG, clock_ms());
    }
    cr_assert(strncmp(give(handler, "USER ann\r\n"), "+OK", 3) == 0);
    cr_assert_str_empty(give(handler, "PASS " MAILBOX_PASSWORD "\r\n"));
    cr_assert_not_null(fake.timer);
    channel_timer_fire(fake.timer);
    cr_assert_not(fake.suspended);
    cr_assert(strncmp(fake.text, "-ERR [SYS/TEMP] too many", 24) == 0, "%s", fake.text);
    cr_assert_str_eq(give(handler, "PASS " MAILBOX_PASSWORD "\r\n"), "-ERR first the user\r\n");
    end(handler);
}

/* The password was right, and the mailbox is open: it is closed again for the next session. */
Test(pop3_session, a_mailbox_that_nobody_waits_for_any_more_is_closed)
{
    struct input_handler *handler = begin();
    fake.holds_tasks = true;
    cr_assert(strncmp(give(handler, "USER ann\r\n"), "+OK", 3) == 0);
    cr_assert_str_empty(give(handler, "PASS " MAILBOX_PASSWORD "\r\n"));
    fake.held->run(fake.held);
    cr_assert_lt(mailboxes_lock(), 0, "it is open");
    handler->verbs->stopping(handler, &fake.facade);
    fake.held->dropped(fake.held);
    int lock = mailboxes_lock();
    cr_assert_geq(lock, 0);
    close(lock);
    end(handler);
}

/* ---- QUIT ---- */

/** A session that has deleted its only message and said QUIT, and what it has begun. */
static struct input_handler *quit_with_a_deleted_one(void)
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    struct input_handler *handler = log_in(begin());
    cr_assert(strncmp(give(handler, "DELE 1\r\n"), "+OK", 3) == 0);
    fake.holds_tasks = true;
    fake.held = NULL;
    cr_assert_str_empty(give(handler, "QUIT\r\n"), "the answer comes when the message is gone");
    cr_assert_not_null(fake.held, "it is done by the thread that serves others, too");
    cr_assert(mailboxes_have("ann/new/1.one"));
    return handler;
}

/* A disk is slow, and nobody else should wait for it. */
Test(pop3_session, messages_are_removed_by_a_task)
{
    struct input_handler *handler = quit_with_a_deleted_one();
    fake.held->run(fake.held);
    cr_assert_not(mailboxes_have("ann/new/1.one"));
    int lock = mailboxes_lock();
    cr_assert_geq(lock, 0, "the next session may begin before this one is told");
    close(lock);
    cr_assert_not(fake.closed);
    fake.held->completed(fake.held, &fake.facade);
    cr_assert_str_eq(fake.text, "+OK goodbye\r\n");
    cr_assert(fake.closed);
    end(handler);
}

/* QUIT has come whole: the client need not stay for the answer. */
Test(pop3_session, messages_are_removed_though_the_client_has_gone)
{
    struct input_handler *handler = quit_with_a_deleted_one();
    handler->verbs->stopping(handler, &fake.facade);
    cr_assert(mailboxes_have("ann/new/1.one"));
    fake.held->dropped(fake.held);
    cr_assert_not(mailboxes_have("ann/new/1.one"));
    int lock = mailboxes_lock();
    cr_assert_geq(lock, 0);
    close(lock);
    end(handler);
}

/* And once only, if the task had been done before. */
Test(pop3_session, what_is_removed_is_not_removed_again)
{
    struct input_handler *handler = quit_with_a_deleted_one();
    fake.held->run(fake.held);
    mailboxes_deliver("ann/new/1.one", "another one of that name\n");
    handler->verbs->stopping(handler, &fake.facade);
    fake.held->dropped(fake.held);
    cr_assert(mailboxes_have("ann/new/1.one"));
    end(handler);
}

/* There is nothing to wait for, neither for the client nor for a helper. */
Test(pop3_session, quit_without_deleted_messages_is_answered_at_once)
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    struct input_handler *handler = log_in(begin());
    fake.holds_tasks = true;
    cr_assert(strncmp(give(handler, "DELE 1\r\n"), "+OK", 3) == 0);
    cr_assert(strncmp(give(handler, "RSET\r\n"), "+OK", 3) == 0);
    cr_assert_str_eq(give(handler, "QUIT\r\n"), "+OK goodbye\r\n");
    cr_assert(fake.closed);
    end(handler);
}

/*
 * The client must not believe that mail is gone which is still there. Root may remove anything, so
 * it becomes somebody else here, whom the mailbox belongs to.
 */
Test(pop3_session, what_may_not_be_removed_is_reported)
{
    enum { SOMEBODY = 12345 };
    mailboxes_deliver("ann/new/1.one", "one\n");
    mailboxes_deliver("ann/new/2.two", "two\n");
    struct input_handler *handler = log_in(begin());
    cr_assert(strncmp(give(handler, "DELE 1\r\n"), "+OK", 3) == 0);
    cr_assert_eq(chmod(mailboxes_path("ann"), 0755), 0);
    cr_assert_eq(chmod(mailboxes_path("ann/new"), 0555), 0);
    bool was_root = geteuid() == 0;
    if (was_root && seteuid(SOMEBODY) != 0) {
        cr_skip_test("root, and it cannot become anybody else here");
    }
    cr_assert_str_eq(give(handler, "QUIT\r\n"),
                     "-ERR [SYS/TEMP] some deleted messages could not be removed\r\n");
    cr_assert(!was_root || seteuid(0) == 0);
    cr_assert_eq(chmod(mailboxes_path("ann/new"), 0700), 0);
    cr_assert(mailboxes_have("ann/new/1.one"));
    end(handler);
}

/* Half a message without a dot at its end is known to be half a message. */
Test(pop3_session, a_message_that_cannot_be_read_on_ends_the_connection)
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    struct input_handler *handler = begin();
    struct pop3_session *session = (struct pop3_session *)handler;
    server.log = (struct log){.program = "test", .level = LOG_LEVEL_ERROR};
    handler = log_in(handler);
    cr_assert(strncmp(give(handler, "RETR 1\r\n"), "+OK", 3) == 0);
    int folder = open("/", O_RDONLY | O_DIRECTORY); /* reading it fails */
    cr_assert_geq(dup2(folder, session->file), 0);
    close(folder);
    fake.length = 0;
    fake.text[0] = '\0';
    cr_assert_not(handler->verbs->continue_output(handler, &fake.facade));
    cr_assert(fake.closed);
    cr_assert_str_empty(fake.text);
    end(handler);
    cr_assert(mailboxes_have("ann/new/1.one"));
}

/** Asks for pieces until there is no more; how many there were. */
static int take_all(struct input_handler *handler)
{
    int pieces = 1;
    while (handler->verbs->continue_output(handler, &fake.facade)) {
        pieces++;
    }
    cr_assert_not(handler->verbs->continue_output(handler, &fake.facade), "it goes on");
    return pieces;
}

/* What a command enqueues itself is one line; the rest comes when it is asked for, in pieces. */
Test(pop3_session, long_answers_come_in_pieces)
{
    enum { LENGTH = 100000, MESSAGES = 900 };
    static char text[LENGTH];
    memset(text, '\n', sizeof text);
    mailboxes_deliver_bytes("ann/new/0.long", text, LENGTH);
    mailboxes_deliver("ann/new/1.empty", "");
    for (int i = 2; i < MESSAGES; i++) {
        char place[128];
        snprintf(place, sizeof place, "ann/new/%060d", i);
        mailboxes_deliver_again(place, "ann/new/1.empty");
    }
    struct input_handler *handler = begin();
    handler = log_in(handler);
    static const char *const commands[] = {"RETR 1\r\n", "TOP 1 99999\r\n", "UIDL\r\n"};
    for (int i = 0; i < 3; i++) {
        fake.largest = 0;
        const char *first = give(handler, commands[i]);
        cr_assert_eq(strchr(first, '\n') - first + 1, (ptrdiff_t)fake.length,
                     "`%s` enqueued more than a line", commands[i]);
        int pieces = take_all(handler);
        cr_assert(pieces > 3 && fake.largest < MOST_OF_A_PIECE, "`%s`: %d pieces, one of %zu",
                  commands[i], pieces, fake.largest);
        cr_assert(strcmp(fake.text + fake.length - 5, "\r\n.\r\n") == 0, "no end");
    }
    end(handler);
}

/* RFC 1939: at least ten minutes. Unless the user says otherwise. */
Test(pop3_session, the_idle_timeout_is_ten_minutes)
{
    static const struct application *const applications[] = {
        &echo_application,
        &http_application,
        &pop3_application,
        NULL,
    };
    static const struct {
        const char *app;
        const char *idle;
        int64_t expected;
    } cases[] = {
        {"--app=pop3", "--stats", 600000},
        {"--app=pop3", "--idle-timeout=60", 60000},
        {"--app=http", "--stats", 60000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *arguments[] = {"test", (char *)cases[i].app, (char *)cases[i].idle, NULL};
        struct options options;
        struct server_settings settings;
        struct application_choice choice;
        options_init(&options, "test", "");
        server_options(&options, &settings, "0");
        options_set_default(&options, "--idle-timeout", "60");
        application_options(&options, &choice, applications, OFFERS_TIMERS);
        cr_assert_eq(options_parse(&options, 3, arguments), OPTIONS_SERVE);
        cr_assert_eq(application_settle(&choice, &options, &saturation_abort), OPTIONS_SERVE);
        cr_assert_eq(settings.deadlines.idle, cases[i].expected, "%s %s: %lld ms", cases[i].app,
                     cases[i].idle, (long long)settings.deadlines.idle);
    }
}
