/*
 * What an application needs and what a stage offers: a stage that lacks something refuses in one
 * sentence that names both, and one that offers it all serves.
 */
#include "common/apps/application_choice.h"
#include "common/apps/pair_upstream.h"
#include "common/apps/strand_group.h"
#include "common/server/connection.h"
#include "common/server/connection_feed.h"
#include "common/server/input_handler_calls.h"
#include "helpers.h"
#include "noting.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

TestSuite(application, .timeout = 120);

static int settle(unsigned needs, unsigned offers)
{
    struct application application = {.name = "mine", .needs = needs};
    struct application_choice choice = {.chosen = &application, .offers = offers};
    struct options options;
    options_init(&options, "stage9-test", "");
    return application_settle(&choice, &options, NULL);
}

/* Two needs that are not met make one sentence. */
Test(application, what_is_not_offered_is_refused_by_name)
{
    static const struct {
        unsigned needs, offers;
        const char *sentence;
    } rows[] = {
        {OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_TIMERS, OFFERS_TIMERS,
         "output from other connections' handlers, which stage9-test does not offer; stages 4 and "
         "5 do\n"},
        {OFFERS_TIMERS, OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_POST,
         "timers, which stage9-test does not offer; every stage of this course does\n"},
        {OFFERS_POST | OFFERS_TIMERS, OFFERS_TIMERS,
         "functions that other threads post, which stage9-test does not offer; stages 4 and 5 "
         "do\n"},
        {OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_POST, 0,
         "output from other connections' handlers, which stage9-test does not offer; stages 4 and "
         "5 do\n"},
        {OFFERS_WRITE_RATE, OFFERS_TIMERS,
         "a write rate, which stage9-test does not offer; stage 5 does\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static const char begin[] = "stage9-test: --app: mine needs ";
        char said[300];
        int result;
        CAPTURED(STDERR_FILENO, said, result = settle(rows[i].needs, rows[i].offers));
        cr_assert_eq(result, 2, "%s", rows[i].sentence);
        cr_assert_eq(strncmp(said, begin, strlen(begin)), 0, "%s", said);
        cr_assert_str_eq(said + strlen(begin), rows[i].sentence);
    }
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

static void expect_refused(struct application application, const char *sentence)
{
    struct server server = {.name = "stage9-test"};
    struct input_handler_factory *factory;
    char said[300], expected[300];
    application.name = "mine";
    CAPTURED(STDERR_FILENO, said, factory = application_open(&application, &server));
    snprintf(expected, sizeof(expected), "stage9-test: cannot open mine: %s\n", sentence);
    cr_assert_null(factory, "%s", sentence);
    cr_assert_str_eq(said, expected);
}

/* A connection of a handler with these verbs alone. */
struct bare {
    struct input_handler handler;
    struct server server;
    struct connection connection;
    int ends[2];
};

static char messages[64];

static void bare_open(struct bare *bare, struct input_handler_verbs *verbs, size_t max_line)
{
    memset(bare, 0, sizeof(*bare));
    bare->handler.verbs = input_handler_complete(verbs);
    bare_server_init(&bare->server, 1 << 14);
    bare->server.settings.max_line = max_line;
    pair_open(bare->ends);
    connection_open(&bare->connection, &bare->server.home, bare->ends[0], &bare->handler);
}

static unsigned bare_run(struct bare *bare, const char *text)
{
    struct run turn = {0};
    cr_assert(connection_feed(&bare->connection, (const unsigned char *)text, strlen(text)));
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
    static struct input_handler_verbs verbs = {.handle_input = note_message};
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
    static struct input_handler_verbs verbs = {.one_piece = false};
    struct bare bare;
    bare_open(&bare, &verbs, 100);
    cr_assert_eq(bare_run(&bare, "one\ntwo\n"), SELECT_READ);
    connection_handle(&bare.connection, &(struct run){0}, REFUSE_MESSAGE);
    bare_close(&bare);
}

static void say_late(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
}

/* Two connections may complete a table; and who has a copy of it may take some out again. */
Test(application, a_table_knows_what_was_its_own_however_often_it_is_completed)
{
    struct input_handler_verbs verbs = {.duplex = true, .timed_out = say_late}, copy;
    const unsigned traits = TRAIT_DUPLEX | TRAIT_HEARS_LATE;
    cr_assert_eq(input_handler_complete(&verbs), &verbs);
    cr_assert_eq(verbs.traits, traits);
    input_handler_complete(&verbs);
    cr_assert_eq(verbs.traits, traits, "what was filled in is taken for its own");
    copy = verbs;
    copy.timed_out = NULL;
    input_handler_complete(&copy);
    cr_assert_eq(copy.traits, TRAIT_DUPLEX);
    cr_assert_not_null(copy.timed_out);
}

static const struct input_handler_verbs nothing_special;

static int finished;

static void *start_in_vain(struct server *server)
{
    (void)server;
    errno = ENOSPC;
    return NULL;
}

static void *start_nothing(struct server *server)
{
    (void)server;
    return &no_handlers;
}

static void *start_pairing(struct server *server)
{
    static const struct pair_verbs verbs = {.next_message = pair_next_line};
    static struct pairing pairing = {.verbs = &verbs};
    (void)server;
    return &pairing;
}

static void finish_nothing(void *data)
{
    (void)data;
    finished++;
}

static struct application pairs(unsigned needs, unsigned descriptors, size_t size,
                                void *(*start)(struct server *server))
{
    return (struct application){.needs = needs,
                                .descriptors = descriptors,
                                .verbs = &pair_verbs_of_client,
                                .handler_size = size,
                                .start = start,
                                .finish = finish_nothing};
}

static struct application members(size_t size, void *(*start)(struct server *server))
{
    return (struct application){
        .verbs = &strand_member_verbs, .handler_size = size, .start = start};
}

Test(application, that_lacks_something_is_refused_at_the_start)
{
    const size_t size = sizeof(struct pair);
    expect_refused((struct application){.verbs = NULL},
                   "expected verbs or open in its struct, got neither");
    expect_refused((struct application){.open = open_nothing},
                   "expected create in its factory, got none");
    expect_refused((struct application){.verbs = &nothing_special, .open = open_nothing},
                   "expected verbs, or open and close, in its struct, got both");
    expect_refused((struct application){.handler_size = 64, .open = open_nothing},
                   "expected verbs beside handler_size and start in its struct, got open");
    expect_refused((struct application){.verbs = &nothing_special, .handler_size = 1},
                   "expected the size of a struct that begins with its input_handler as "
                   "handler_size, got less");
    expect_refused((struct application){.verbs = &nothing_special, .start = start_in_vain},
                   "No space left on device");
    expect_refused(pairs(PAIR_NEEDS, 2, size, NULL),
                   "expected a start that returns its pairing, got none");
    expect_refused(pairs(PAIR_NEEDS, 2, size - 1, start_nothing),
                   "expected the size of a struct that begins with a pair as handler_size, got "
                   "less");
    expect_refused(pairs(PAIR_NEEDS & ~OFFERS_POST, 2, size, start_nothing),
                   "expected PAIR_NEEDS among its needs, got less");
    expect_refused(pairs(PAIR_NEEDS, 0, size, start_nothing),
                   "expected two descriptors or more for a pair, got less");
    expect_refused(members(sizeof(struct strand_member), NULL),
                   "expected a start that returns its group, got none");
    expect_refused(members(sizeof(struct input_handler), start_nothing),
                   "expected the size of a struct that begins with a strand_member as "
                   "handler_size, got less");
    cr_assert_eq(finished, 0);
    expect_refused(pairs(PAIR_NEEDS, 2, size, start_pairing),
                   "expected a began among the verbs of the pairing that start returns, got none");
    cr_assert_eq(finished, 1);
}

/* ---- State ----------------------------------------------------------------------------------- */

struct counting {
    struct input_handler handler;
    int messages;
};

static bool count_message(struct input_handler *self, struct message message,
                          struct channel_facade *facade)
{
    struct counting *counting = (struct counting *)self;
    (void)message;
    int *total = application_data(self);
    *total += 1;
    channel_printf(facade, "%d of %d\n", ++counting->messages, *total);
    return true;
}

/* What does not begin with a digit is no message. */
static enum framing_result next_digits(struct input_handler *self, struct channel_facade *facade,
                                       struct message *message)
{
    (void)self;
    struct input_queue *input = channel_input(facade);
    if (!input_queue_is_empty(input) && strchr("0123456789", input_queue_at(input, 0)) == NULL)
        return FRAMING_REFUSED;
    return line_framing_next(input, 100, message);
}

static int total_messages;
static bool is_finished;

static void *start_counting(struct server *server)
{
    (void)server;
    return &total_messages;
}

static void finish_counting(void *data)
{
    cr_assert_eq(data, &total_messages);
    is_finished = true;
}

static const struct input_handler_verbs counting_verbs = {.handle_input = count_message};
static const struct input_handler_verbs digits_verbs = {.handle_input = count_message,
                                                        .next_message = next_digits};

/* A connection of an application, as a stage makes it. */
static struct input_handler *bare_open_with(struct bare *bare,
                                            const struct application *application,
                                            struct input_handler_factory **factory, void *memory)
{
    memset(bare, 0, sizeof(*bare));
    bare_server_init(&bare->server, 1 << 14);
    bare->server.settings.max_line = 100;
    *factory = application_open(application, &bare->server);
    cr_assert_not_null(*factory);
    struct input_handler *handler = input_handler_create(*factory, memory);
    pair_open(bare->ends);
    connection_open(&bare->connection, &bare->server.home, bare->ends[0], handler);
    return handler;
}

static void expect_answer(struct bare *bare, const char *expected)
{
    char answer[4096] = "";
    recv(bare->ends[1], answer, sizeof(answer) - 1, MSG_DONTWAIT);
    cr_assert_str_eq(answer, expected);
}

Test(application, that_says_a_size_has_a_struct_for_each_connection)
{
    static const struct application counts = {.name = "counts",
                                              .verbs = &counting_verbs,
                                              .handler_size = sizeof(struct counting),
                                              .start = start_counting,
                                              .finish = finish_counting};
    struct input_handler_factory *factory;
    struct counting first = {0}, second = {0};
    struct bare bare;
    cr_assert_eq(bare_open_with(&bare, &counts, &factory, &first), &first.handler);
    cr_assert_eq(factory->handler_size, sizeof(struct counting));
    cr_assert_eq(input_handler_create(factory, &second), &second.handler);
    cr_assert_eq(application_data(&second.handler), &total_messages);
    cr_assert_eq(application_server(&first.handler), &bare.server);
    total_messages = 40;
    bare_run(&bare, "one\ntwo\n");
    expect_answer(&bare, "1 of 41\n2 of 42\n");
    connection_feed(&bare.connection, (const unsigned char *)"three\n", 6);
    struct run turn = {0};
    connection_handle(&bare.connection, &turn, REFUSE_MESSAGE);
    connection_send(&bare.connection, &turn);
    expect_answer(&bare, "ERR server busy\n");
    bare_close(&bare);
    application_close(&counts, factory);
    cr_assert(is_finished);
}

Test(application, that_says_how_long_a_message_is_reads_no_more)
{
    static const struct application short_ones = {
        .name = "short", .verbs = &counting_verbs, .start = start_counting, .max_message = 10};
    struct input_handler_factory *factory;
    struct bare bare;
    bare_open_with(&bare, &short_ones, &factory, NULL);
    cr_assert_eq(bare.connection.input.limit, 10);
    cr_assert_not(connection_feed(&bare.connection, (const unsigned char *)"12345678901", 11));
    bare_close(&bare);
    application_close(&short_ones, factory);
}

Test(application, may_refuse_what_is_no_message)
{
    static const struct application digits = {.name = "digits",
                                              .verbs = &digits_verbs,
                                              .handler_size = sizeof(struct counting),
                                              .start = start_counting};
    struct input_handler_factory *factory;
    struct counting memory = {0};
    struct bare bare;
    bare_open_with(&bare, &digits, &factory, &memory);
    bare_run(&bare, "1\nx\n");
    cr_assert_eq(channel_end_reason(&bare.connection.facade), END_REFUSED);
    cr_assert_eq(memory.messages, 1);
    bare_close(&bare);
    application_close(&digits, factory);
}

Test(application, prints_texts_of_any_length)
{
    static const struct application counts = {
        .name = "counts", .verbs = &counting_verbs, .start = start_counting};
    static char text[3000], expected[3100];
    struct input_handler_factory *factory;
    struct bare bare;
    bare_open_with(&bare, &counts, &factory, NULL);
    for (size_t length = 1000; length < sizeof(text); length += 12) {
        memset(text, 'x', length);
        text[length] = '\0';
        snprintf(expected, sizeof(expected), "[%s]\n", text);
        channel_printf(&bare.connection.facade, "[%s]\n", text);
        connection_send(&bare.connection, &(struct run){0});
        expect_answer(&bare, expected);
    }
    bare_close(&bare);
    application_close(&counts, factory);
}

/* ---- Its own defaults, and its own counters -------------------------------------------------- */

static size_t lines, pages;

Test(application, of_pairs_that_knows_no_server_says_so)
{
    struct pair_upstream upstream = {.option = "--upstream"};
    struct server server = {.name = "stage9-test"};
    char said[200];
    void *started;
    errno = EBUSY;
    CAPTURED(STDERR_FILENO, said, started = pair_upstream_start(&upstream, &server));
    cr_assert_eq(errno, 0, "the reason was printed");
    cr_assert_null(started);
    cr_assert_str_eq(said, "stage9-test: --upstream: expected HOST:PORT, got none\n");
}

Test(application, of_pairs_finds_its_server)
{
    struct pair_upstream upstream = {.option = "--upstream"};
    struct server server = {.name = "stage9-test"};
    struct options options;
    options_init(&options, "stage9-test", "");
    pair_upstream_option(&options, &upstream);
    char *arguments[] = {"stage9-test", "--upstream=[::1]:77", NULL};
    cr_assert_eq(options_parse(&options, 2, arguments), OPTIONS_SERVE);
    cr_assert_eq(pair_upstream_start(&upstream, &server), &upstream);
    cr_assert_eq(upstream.addresses.count, 1);
    char text[ENDPOINT_TEXT_SIZE];
    endpoint_format(&upstream.addresses.all[0], text);
    cr_assert_str_eq(text, "[::1]:77");
}

/* What a stage does with an application of its table, after its own options. */
static int settle_with(const char *const *defaults, char *given, const char **help)
{
    static struct options options;
    static struct application_choice choice;
    static struct application mine;
    static const struct application *const table[] = {&mine, NULL};
    char *arguments[] = {"stage9-test", given, NULL};
    mine = (struct application){.name = "mine", .defaults = defaults};
    options_init(&options, "stage9-test", "");
    options_add(&options, (struct option){.name = "--lines",
                                          .value = "N",
                                          .default_text = "1",
                                          .help = "how many",
                                          .parse = option_parse_number,
                                          .target = &lines,
                                          .max = 100});
    options_add(&options, (struct option){.name = "--pages",
                                          .value = "N",
                                          .default_text = "2",
                                          .help = "how many",
                                          .parse = option_parse_number,
                                          .target = &pages,
                                          .max = 100});
    choice.chosen = &mine;
    application_options(&options, &choice, table, 0);
    *help = options_find(&options, "--lines")->help;
    cr_assert_eq(options_parse(&options, given != NULL ? 2 : 1, arguments), OPTIONS_SERVE);
    return application_settle(&choice, &options, NULL);
}

Test(application, has_defaults_of_its_own_that_help_shows_and_a_user_overrides)
{
    static const char *const defaults[] = {"--lines", "10", "--of-another-stage", "7", NULL};
    const char *help;
    cr_assert_eq(settle_with(defaults, NULL, &help), OPTIONS_SERVE);
    cr_assert_eq(lines, 10);
    cr_assert_eq(pages, 2);
    cr_assert_str_eq(help, "how many; mine: 10");
    cr_assert_eq(settle_with(defaults, "--lines=20", &help), OPTIONS_SERVE);
    cr_assert_eq(lines, 20);
    cr_assert_eq(settle_with(NULL, NULL, &help), OPTIONS_SERVE);
    cr_assert_eq(lines, 1);
    cr_assert_str_eq(help, "how many");
}

/* The last value of the second pairs is left out, of an option that this stage does not have. */
Test(application, with_a_default_that_nobody_could_type_is_refused)
{
    static const char *const defaults[][5] = {{"--pages", "3", "--lines", "101", NULL},
                                              {"--pages", "3", "--of-another-stage", NULL}};
    static const char *const sentences[] = {"--lines that the option does not take: '101'\n",
                                            "--of-another-stage that the option does not take: "
                                            "''\n"};
    for (int i = 0; i < 2; i++) {
        char said[200], expected[200];
        const char *help;
        int result;
        CAPTURED(STDERR_FILENO, said, result = settle_with(defaults[i], NULL, &help));
        snprintf(expected, sizeof(expected), "stage9-test: --app: mine has a default for %s",
                 sentences[i]);
        cr_assert_eq(result, 2, "%s", sentences[i]);
        cr_assert_str_eq(said, expected);
    }
}

Test(application, without_a_name_is_not_chosen)
{
    static const struct application echo = {.name = "echo"};
    static const struct application nameless = {.handler_size = 0};
    static const struct application *const table[] = {&echo, &nameless, NULL};
    char *arguments[] = {"stage9-test", "--app=mine", NULL};
    struct application_choice choice;
    struct options options;
    char said[200];
    int result;
    options_init(&options, "stage9-test", "");
    application_options(&options, &choice, table, 0);
    CAPTURED(STDERR_FILENO, said, result = options_parse(&options, 2, arguments));
    cr_assert_eq(result, 2);
    cr_assert_str_eq(said, "stage9-test: --app: expected one of echo, one whose name is left out, "
                           "got 'mine'\n");
}

static struct own_counter first_count = {.name = "mine_first"};
static struct own_counter second_count = {.name = "mine_second"};

static void *start_with_counters(struct server *server)
{
    application_count(server, &first_count);
    application_count(server, &second_count);
    return &first_count;
}

Test(application, has_counters_of_its_own_in_every_report)
{
    static const struct application counts = {
        .name = "counts", .verbs = &counting_verbs, .start = start_with_counters};
    struct input_handler_factory *factory;
    struct counting memory = {0};
    char text[4096];
    struct bare bare;
    bare_open_with(&bare, &counts, &factory, &memory);
    own_counter_add(&second_count, 5);
    CAPTURED(STDERR_FILENO, text, server_report(&bare.server));
    cr_assert_not_null(strstr(text, " mine_first=0 mine_second=5\n"), "%s", text);
    bare_close(&bare);
    application_close(&counts, factory);
}
