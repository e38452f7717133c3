/*
 * What an application needs and what a stage offers: a stage that lacks something refuses in one
 * sentence that names both, and one that offers it all serves.
 */
#include "common/apps/application_choice.h"
#include "common/server/connection.h"
#include "helpers.h"
#include "noting.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

TestSuite(application, .timeout = 60);

static int settle(unsigned needs, unsigned offers)
{
    struct application application = {.name = "mine", .needs = needs};
    struct application_choice choice = {.chosen = &application, .offers = offers};
    struct options options;
    options_init(&options, "stage9-test", "");
    return application_settle(&choice, &options, NULL);
}

static void refuses(unsigned needs, unsigned offers, const char *sentence)
{
    cr_assert_eq(settle(needs, offers), 2);
    fflush(stderr);
    cr_assert_stderr_eq_str(sentence);
}

Test(application, output_from_elsewhere_is_refused_by_name, .init = cr_redirect_stderr)
{
    refuses(OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_TIMERS, OFFERS_TIMERS,
            "stage9-test: --app: mine needs output from other connections' handlers, which "
            "stage9-test does not offer; stages 4 and 5 do\n");
}

Test(application, timers_are_refused_by_name, .init = cr_redirect_stderr)
{
    refuses(OFFERS_TIMERS, OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_POST,
            "stage9-test: --app: mine needs timers, which stage9-test does not offer; every stage "
            "of this course does\n");
}

Test(application, posts_are_refused_by_name, .init = cr_redirect_stderr)
{
    refuses(OFFERS_POST | OFFERS_TIMERS, OFFERS_TIMERS,
            "stage9-test: --app: mine needs functions that other threads post, which stage9-test "
            "does not offer; stages 4 and 5 do\n");
}

/* Two needs that are not met make one sentence. */
Test(application, one_sentence_is_enough, .init = cr_redirect_stderr)
{
    refuses(OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_POST, 0,
            "stage9-test: --app: mine needs output from other connections' handlers, which "
            "stage9-test does not offer; stages 4 and 5 do\n");
}

Test(application, what_is_offered_is_served)
{
    cr_assert_eq(settle(0, 0), OPTIONS_SERVE);
    cr_assert_eq(settle(OFFERS_TIMERS, OFFERS_TIMERS | OFFERS_POST), OPTIONS_SERVE);
}

/* ---- What an author leaves out -------------------------------------------------------------- */

static struct input_handler_factory no_handlers;

static struct input_handler_factory *open_nothing(struct server *server)
{
    (void)server;
    return &no_handlers;
}

static void cannot_open(const struct application *application, const char *sentence)
{
    struct server server = {.name = "stage9-test"};
    cr_assert_null(application_open(application, &server));
    fflush(stderr);
    cr_assert_stderr_eq_str(sentence);
}

Test(application, with_a_name_alone_is_refused_at_the_start, .init = cr_redirect_stderr)
{
    cannot_open(&(struct application){.name = "mine"},
                "stage9-test: cannot open mine: expected verbs or open in its struct, got "
                "neither\n");
}

Test(application, whose_factory_makes_nothing_is_refused_at_the_start, .init = cr_redirect_stderr)
{
    cannot_open(&(struct application){.name = "mine", .open = open_nothing},
                "stage9-test: cannot open mine: expected create in its factory, got none\n");
}

/* A connection of a handler with these verbs alone. */
struct bare {
    struct input_handler handler;
    struct server server;
    struct connection connection;
    int ends[2];
};

static char messages[64];

static void bare_open(struct bare *bare, const struct input_handler_verbs *verbs, size_t max_line)
{
    memset(bare, 0, sizeof(*bare));
    bare->handler.verbs = verbs;
    bare_server_init(&bare->server, 1 << 14);
    bare->server.settings.max_line = max_line;
    pair_open(bare->ends);
    connection_open(&bare->connection, &bare->server.home, bare->ends[0], &bare->handler);
}

static unsigned bare_run(struct bare *bare, const char *text)
{
    struct run turn = {0};
    cr_assert(connection_give(&bare->connection, (const unsigned char *)text, strlen(text)));
    connection_handle(&bare->connection, &turn, HANDLE_MESSAGES);
    connection_send(&bare->connection, &turn);
    return connection_wants(&bare->connection);
}

static void bare_close(struct bare *bare)
{
    connection_detach(&bare->connection);
    buffer_factory_destroy(&bare->server.buffers);
    pair_close(bare->ends);
}

static bool note_message(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)facade;
    strncat(messages, (const char *)message.data, message.length);
    strcat(messages, "|");
    return true;
}

Test(application, that_does_not_say_what_a_message_is_gets_lines)
{
    static const struct input_handler_verbs verbs = {.handle_input = note_message};
    char answer[64] = "";
    struct bare bare;
    bare_open(&bare, &verbs, 12);
    cr_assert_eq(bare_run(&bare, "one\r\ntwo\n123"), SELECT_READ);
    cr_assert_str_eq(messages, "one\r\n|two\n|");
    cr_assert_eq(bare_run(&bare, "456789012\n"), SELECT_READ);
    cr_assert_str_eq(messages, "one\r\n|two\n|123456789012\n|");
    bare_run(&bare, "1234567890123");
    cr_assert_gt(recv(bare.ends[1], answer, sizeof(answer) - 1, MSG_DONTWAIT), 0);
    cr_assert_str_eq(answer, "ERR line too long\n");
    bare_close(&bare);
    cr_assert_str_eq(messages, "one\r\n|two\n|123456789012\n|");
}

Test(application, that_handles_nothing_drops_lines)
{
    static const struct input_handler_verbs verbs = {.one_piece = false};
    struct bare bare;
    bare_open(&bare, &verbs, 100);
    cr_assert_eq(bare_run(&bare, "one\ntwo\n"), SELECT_READ);
    connection_handle(&bare.connection, &(struct run){0}, REFUSE_MESSAGE);
    bare_close(&bare);
}
