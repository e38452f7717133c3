/*
 * Elements of handler chains, between a fake channel and a fake application: every call comes out
 * at the other side as it went in, elements can be stacked, and each frees itself at the right
 * moment (AddressSanitizer would tell). Then the two that the course ships: log and throttle.
 */
#include "common/apps/handler_element.h"
#include "common/apps/log_element.h"
#include "common/apps/throttle_element.h"
#include "common/base/container_of.h"
#include "common/bytes/shared_file.h"
#include "common/bytes/shared_message.h"
#include "common/events/selector.h"
#include "common/server/channel_calls.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(handler_element, .timeout = 120);

/* ---- a channel that notes what it is told ---- */

struct fake_channel {
    struct channel_facade facade; /* first */
    struct input_queue *input;
    struct endpoint peer;
    int references;
    int closes;
    int resets;
    int flushes;
    enum end_reason reason;
    bool suspended;
    const struct channel_timer *timer;
    const struct channel_timer *cancelled;
    int64_t milliseconds;
    struct channel_post *posted;
    uint64_t rate;
    bool takes_rate;
    struct piece copied, shared, ranged; /* the last one of each kind */
    enum output_result answer;
    const struct input_handler *handler;
};

static struct fake_channel *fake(struct channel_facade *facade)
{
    return (struct fake_channel *)facade;
}

static struct input_queue *fake_input(struct channel_facade *facade)
{
    return fake(facade)->input;
}

static enum output_result fake_enqueue(struct channel_facade *facade, struct piece piece)
{
    struct fake_channel *self = fake(facade);
    *(piece.kind == PIECE_FILE ? &self->ranged
      : piece.verbs != NULL    ? &self->shared
                               : &self->copied) = piece;
    return fake(facade)->answer;
}

static enum output_result fake_flush(struct channel_facade *facade)
{
    fake(facade)->flushes++;
    return fake(facade)->answer;
}

static void fake_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    fake(facade)->handler = handler;
}

static void fake_suspend(struct channel_facade *facade)
{
    fake(facade)->suspended = true;
}

static void fake_resume(struct channel_facade *facade)
{
    fake(facade)->suspended = false;
}

static void fake_set_timer(struct channel_facade *facade, struct channel_timer *timer,
                           int64_t milliseconds)
{
    fake(facade)->timer = timer;
    fake(facade)->milliseconds = milliseconds;
}

static void fake_cancel_timer(struct channel_facade *facade, struct channel_timer *timer)
{
    fake(facade)->cancelled = timer;
}

static void fake_close(struct channel_facade *facade)
{
    fake(facade)->closes++;
}

static void fake_reset(struct channel_facade *facade)
{
    fake(facade)->resets++;
}

static void fake_post(struct channel_facade *facade, struct channel_post *post)
{
    fake(facade)->posted = post;
}

static bool fake_set_write_rate(struct channel_facade *facade, uint64_t bytes_per_second)
{
    fake(facade)->rate = bytes_per_second;
    return fake(facade)->takes_rate;
}

static int fake_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    *endpoint = fake(facade)->peer;
    return 7;
}

static enum end_reason fake_end_reason(struct channel_facade *facade)
{
    return fake(facade)->reason;
}

static void fake_retain(struct channel_facade *facade)
{
    fake(facade)->references++;
}

static void fake_release(struct channel_facade *facade)
{
    fake(facade)->references--;
}

static const struct channel_facade_verbs fake_verbs = {
    .input = fake_input,
    .enqueue = fake_enqueue,
    .flush = fake_flush,
    .set_handler = fake_set_handler,
    .suspend = fake_suspend,
    .resume = fake_resume,
    .set_timer = fake_set_timer,
    .cancel_timer = fake_cancel_timer,
    .close = fake_close,
    .reset = fake_reset,
    .post = fake_post,
    .set_write_rate = fake_set_write_rate,
    .peer = fake_peer,
    .end_reason = fake_end_reason,
    .retain = fake_retain,
    .release = fake_release,
};

/* ---- an application that notes how it is called ---- */

struct fake_application {
    struct input_handler_factory factory; /* first */
    struct input_handler handler;
    char calls[128]; /* a letter for each */
    struct channel_facade *facade;
    struct message message; /* what next_message gives, or what was handled */
    enum framing_result framing;
    bool answer;
    bool create_fails;
    void *memory;                       /* that it was given */
    const struct fake_channel *channel; /* whose rate is noted when the application starts */
    uint64_t rate_at_start;
};

static struct fake_application *application_of(struct input_handler *handler)
{
    return container_of(handler, struct fake_application, handler);
}

static void note(struct input_handler *handler, struct channel_facade *facade, char call)
{
    struct fake_application *application = application_of(handler);
    size_t length = strlen(application->calls);
    application->calls[length] = call;
    application->calls[length + 1] = '\0';
    application->facade = facade;
}

static enum framing_result fake_next_message(struct input_handler *self,
                                             struct channel_facade *facade, struct message *message)
{
    note(self, facade, 'n');
    *message = application_of(self)->message;
    return application_of(self)->framing;
}

static bool fake_is_urgent(struct input_handler *self, struct channel_facade *facade)
{
    note(self, facade, 'g');
    return application_of(self)->answer;
}

static bool fake_handle_input(struct input_handler *self, struct message message,
                              struct channel_facade *facade)
{
    note(self, facade, 'h');
    application_of(self)->message = message;
    return application_of(self)->answer;
}

static void fake_refuse_input(struct input_handler *self, struct message message,
                              struct channel_facade *facade)
{
    note(self, facade, 'r');
    application_of(self)->message = message;
}

static bool fake_continue_output(struct input_handler *self, struct channel_facade *facade)
{
    note(self, facade, 'c');
    return application_of(self)->answer;
}

static bool fake_holds_input(const struct input_handler *self)
{
    return application_of((struct input_handler *)(uintptr_t)self)->answer;
}

#define NOTED(name, letter)                                                                        \
    static void name(struct input_handler *self, struct channel_facade *facade)                    \
    {                                                                                              \
        note(self, facade, letter);                                                                \
    }
NOTED(fake_drained, 'd')
NOTED(fake_timed_out, 't')
NOTED(fake_idle, 'i')
NOTED(fake_started, '2')
NOTED(fake_end_of_input, '3')
NOTED(fake_stopping, '4')
NOTED(fake_stopped, '5')

static void fake_unused(struct input_handler *self)
{
    note(self, NULL, 'u');
}

static void fake_starting(struct input_handler *self, struct channel_facade *facade)
{
    struct fake_application *application = application_of(self);
    note(self, facade, '1');
    application->rate_at_start = application->channel != NULL ? application->channel->rate : 0;
}

static struct input_handler_verbs all_verbs = {
    .next_message = fake_next_message,
    .is_urgent = fake_is_urgent,
    .handle_input = fake_handle_input,
    .one_piece = true,
    .refuse_input = fake_refuse_input,
    .continue_output = fake_continue_output,
    .holds_input = fake_holds_input,
    .drained = fake_drained,
    .timed_out = fake_timed_out,
    .idle = fake_idle,
    .unused = fake_unused,
    .starting = fake_starting,
    .started = fake_started,
    .end_of_input = fake_end_of_input,
    .stopping = fake_stopping,
    .stopped = fake_stopped,
};

/* An application that has nothing to do where it need not. */
static struct input_handler_verbs few_verbs = {
    .next_message = fake_next_message,
    .handle_input = fake_handle_input,
};

static struct input_handler *fake_create(struct input_handler_factory *factory, void *memory)
{
    struct fake_application *application = (struct fake_application *)factory;
    application->memory = memory;
    return application->create_fails ? NULL : &application->handler;
}

/* Those that a test has. */
static struct fake_channel channel;
static struct fake_application application;

static void open_application(struct fake_application *one, struct input_handler_verbs *verbs)
{
    *one = (struct fake_application){.factory.create = fake_create,
                                     .handler.verbs = input_handler_complete(verbs)};
}

static void open_fakes(struct input_handler_verbs *verbs)
{
    channel = (struct fake_channel){.facade.verbs = &fake_verbs, .references = 1};
    cr_assert(endpoint_parse(&channel.peer, "192.0.2.7", 4321));
    open_application(&application, verbs);
}

/* ---- an element that passes everything on ---- */

/* The memory that is the connection's otherwise. */
static struct handler_element plain_ones[20];
static size_t element_count;
static alignas(max_align_t) unsigned char memory[4096];

static struct handler_element *plain(struct input_handler *inner)
{
    cr_assert_lt(element_count, sizeof(plain_ones) / sizeof(plain_ones[0]));
    struct handler_element *element = &plain_ones[element_count++];
    handler_element_init(element, &handler_element_verbs, &handler_element_facade_verbs, inner);
    return element;
}

/* As a connection does, which has the memory for it. */
static struct input_handler *create_in_memory(struct input_handler_factory *factory)
{
    cr_assert_leq(factory->handler_size, sizeof(memory));
    memset(memory, 0, sizeof(memory));
    return factory->create(factory, memory);
}

/* So many of them, one in front of the other; the outermost. */
static struct input_handler *stack(struct input_handler *inner, int count)
{
    for (int i = 0; i < count; i++)
        inner = &plain(inner)->handler;
    return inner;
}

/* The same in front of an application with these verbs. */
static struct input_handler *open_stack(struct input_handler_verbs *verbs, int count)
{
    open_fakes(verbs);
    return stack(&application.handler, count);
}

static void expect_calls_of(struct fake_application *one, const char *calls)
{
    cr_assert_str_eq(one->calls, calls);
    one->calls[0] = '\0';
}

static void expect_calls(const char *calls)
{
    expect_calls_of(&application, calls);
}

static struct message text(const char *bytes)
{
    return (struct message){(const unsigned char *)bytes, strlen(bytes)};
}

/* Through one element and through several. */
static void pass_everything_inwards(int elements)
{
    struct input_handler *outermost = open_stack(&all_verbs, elements);
    const struct input_handler_verbs *verbs = outermost->verbs;
    struct channel_facade *facade = &channel.facade;
    struct message message = text("hello\n");
    struct message got;

    verbs->starting(outermost, facade);
    cr_assert_neq(application.facade, facade, "it got the channel, and not the element's facade");
    struct channel_facade *of_element = application.facade;
    verbs->started(outermost, facade);
    expect_calls("12");

    application.message = message;
    application.framing = FRAMING_TOO_LONG;
    cr_assert_eq(verbs->next_message(outermost, facade, &got), FRAMING_TOO_LONG);
    application.framing = FRAMING_MESSAGE;
    cr_assert_eq(verbs->next_message(outermost, facade, &got), FRAMING_MESSAGE);
    cr_assert(got.data == message.data && got.length == message.length);
    expect_calls("nn");

    for (int answer = 0; answer < 2; answer++) {
        application.answer = answer;
        application.message = (struct message){0};
        cr_assert_eq(verbs->handle_input(outermost, message, facade), answer);
        cr_assert(application.message.data == message.data);
        cr_assert_eq(verbs->continue_output(outermost, facade), answer);
        cr_assert_eq(verbs->holds_input(outermost), answer);
        cr_assert_eq(verbs->is_urgent(outermost, facade), answer);
    }
    expect_calls("hcghcg");
    application.message = (struct message){0};
    verbs->refuse_input(outermost, message, facade);
    cr_assert(application.message.data == message.data);
    verbs->drained(outermost, facade);
    verbs->timed_out(outermost, facade);
    verbs->idle(outermost, facade);
    expect_calls("rdti");
    cr_assert_eq(application.facade, of_element, "another facade each time");

    verbs->end_of_input(outermost, facade);
    verbs->stopping(outermost, facade);
    verbs->stopped(outermost, facade);
    expect_calls("345");
    cr_assert_eq(channel.references, 1, "%d references to the channel are left",
                 channel.references);
}

Test(handler_element, everything_comes_in)
{
    pass_everything_inwards(1);
    pass_everything_inwards(5);
}

/* Of a channel that only notes what it is given. */
static void never_run(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    (void)facade;
}

static void pass_everything_outwards(int elements)
{
    struct input_handler *outermost = open_stack(&all_verbs, elements);
    outermost->verbs->starting(outermost, &channel.facade);
    struct channel_facade *facade = application.facade;
    struct input_queue *input = (struct input_queue *)(void *)&application;
    struct shared_message *shared = (struct shared_message *)(void *)&channel;
    struct shared_file *file = (struct shared_file *)(void *)&application;
    struct endpoint peer = {0};
    struct channel_post post = {.run = never_run};

    channel.input = input;
    cr_assert_eq(channel_input(facade), input);
    channel.answer = OUTPUT_CHOKED;
    cr_assert_eq(channel_enqueue(facade, piece_copy(text("hello\n"))), OUTPUT_CHOKED);
    cr_assert_eq(channel.copied.bytes.length, 6u);
    cr_assert_eq(memcmp(channel.copied.bytes.data, "hello\n", 6), 0);
    channel.answer = OUTPUT_REFUSED;
    cr_assert_eq(channel_enqueue(facade, piece_shared(shared)), OUTPUT_REFUSED);
    cr_assert_eq(channel.shared.shared, shared);
    channel.answer = OUTPUT_BROKEN;
    cr_assert_eq(channel_enqueue(facade, piece_file(file, 7, 11)), OUTPUT_BROKEN);
    cr_assert_eq(channel.ranged.range.file, file);
    cr_assert_eq(channel.ranged.range.offset, 7u);
    cr_assert_eq(channel.ranged.range.length, 11u);

    channel_suspend(facade);
    cr_assert(channel.suspended);
    channel_resume(facade);
    cr_assert_not(channel.suspended);
    struct channel_timer timer = {0};
    channel_set_timer(facade, &timer, 250);
    cr_assert(channel.timer == &timer && channel.milliseconds == 250);
    cr_assert_eq(timer.facade, facade, "it fires with a facade that the application does not know");
    channel_cancel_timer(facade, &timer);
    cr_assert_eq(channel.cancelled, &timer);
    cr_assert_not(channel_set_write_rate(facade, 5));
    channel.takes_rate = true;
    cr_assert(channel_set_write_rate(facade, UINT64_C(5000000000)));
    cr_assert_eq(channel.rate, UINT64_C(5000000000));
    channel_peer(facade, &peer);
    cr_assert_eq(memcmp(&peer, &channel.peer, sizeof(peer)), 0);
    channel.reason = END_LIFETIME;
    cr_assert_eq(channel_end_reason(facade), END_LIFETIME);
    channel.answer = OUTPUT_WAITING;
    cr_assert_eq(channel_flush(facade), OUTPUT_WAITING);
    cr_assert_eq(channel.flushes, 1);
    channel_close(facade);
    cr_assert_eq(channel.closes, 1);
    channel_reset(facade);
    cr_assert_eq(channel.resets, 1);
    channel_post(facade, &post);
    cr_assert_eq(channel.posted, &post);
    cr_assert_eq(post.facade, facade, "its run would get a facade that is not the application's");

    outermost->verbs->stopped(outermost, &channel.facade);
    cr_assert_eq(channel.references, 1);
}

Test(handler_element, everything_goes_out)
{
    pass_everything_outwards(1);
    pass_everything_outwards(5);
}

static bool has(const struct input_handler *handler, enum handler_trait trait)
{
    return (input_handler_traits(handler) & trait) != 0;
}

/* What an application has left out, the framework does not find either. */
Test(handler_element, calls_that_the_application_does_not_want)
{
    struct input_handler *outermost = open_stack(&few_verbs, 2);
    const struct input_handler_verbs *verbs = outermost->verbs;
    verbs->starting(outermost, &channel.facade);
    verbs->started(outermost, &channel.facade);
    cr_assert_not(has(outermost, TRAIT_CONTINUES), "its answers are believed to be long");
    cr_assert_not(verbs->continue_output(outermost, &channel.facade));
    cr_assert_not(verbs->is_urgent(outermost, &channel.facade));
    cr_assert_not(has(outermost, TRAIT_HOLDS_INPUT), "somebody is believed to have an input");
    cr_assert_not(verbs->holds_input(outermost));
    cr_assert_not(has(outermost, TRAIT_ONE_PIECE));
    cr_assert_not(has(outermost, TRAIT_HEARS_DRAINED), "nobody waits for the runs");
    cr_assert_not(has(outermost, TRAIT_HEARS_LATE), "it is believed to have a last word");
    cr_assert_not(has(outermost, TRAIT_HEARS_IDLE));
    verbs->refuse_input(outermost, text("hello\n"), &channel.facade);
    verbs->end_of_input(outermost, &channel.facade);
    verbs->stopping(outermost, &channel.facade);
    verbs->stopped(outermost, &channel.facade);
    expect_calls("");
    struct input_handler *never = stack(&application.handler, 2);
    never->verbs->unused(never);
}

Test(handler_element, another_handler_takes_over_behind_the_element)
{
    struct fake_application second;
    open_application(&second, &all_verbs);
    struct input_handler *outermost = open_stack(&all_verbs, 2);
    outermost->verbs->starting(outermost, &channel.facade);
    expect_calls("1");
    channel_set_handler(application.facade, &second.handler);
    cr_assert_neq(channel.handler, &second.handler, "the element is bypassed");
    outermost->verbs->handle_input(outermost, text("hello\n"), &channel.facade);
    expect_calls("");
    expect_calls_of(&second, "h");
    outermost->verbs->stopped(outermost, &channel.facade);
    expect_calls_of(&second, "5");
}

/* It may want what the first did not, or the other way round. */
Test(handler_element, another_handler_has_verbs_of_its_own)
{
    struct fake_application few;
    open_application(&few, &few_verbs);
    struct input_handler *outermost = open_stack(&all_verbs, 3);
    outermost->verbs->starting(outermost, &channel.facade);
    cr_assert(has(outermost, TRAIT_HEARS_LATE));
    channel_set_handler(application.facade, &few.handler);
    cr_assert_not(has(outermost, TRAIT_HEARS_LATE));
    cr_assert_not(has(outermost, TRAIT_CONTINUES));
    cr_assert_not(has(outermost, TRAIT_HOLDS_INPUT));
    cr_assert_not(has(outermost, TRAIT_ONE_PIECE));
    channel_set_handler(application.facade, &application.handler);
    cr_assert(has(outermost, TRAIT_ONE_PIECE), "an answer of one piece would be copied once more");
    outermost->verbs->timed_out(outermost, &channel.facade);
    cr_assert_not(outermost->verbs->continue_output(outermost, &channel.facade));
    expect_calls("1tc");
    outermost->verbs->stopped(outermost, &channel.facade);
}

Test(handler_element, unused_reaches_the_application_and_frees)
{
    struct input_handler *outermost = open_stack(&all_verbs, 3);
    outermost->verbs->unused(outermost);
    expect_calls("u");
}

/* Who keeps the facade keeps the element, and through it the channel. */
Test(handler_element, facade_that_is_kept)
{
    struct input_handler *outermost = open_stack(&all_verbs, 2);
    outermost->verbs->starting(outermost, &channel.facade);
    struct channel_facade *kept = application.facade;
    channel_retain(kept);
    channel_retain(kept);
    outermost->verbs->stopped(outermost, &channel.facade);
    cr_assert_eq(channel.references, 3, "the channel's own, and two");
    channel.answer = OUTPUT_BROKEN;
    cr_assert_eq(channel_enqueue(kept, piece_copy(text("too late\n"))), OUTPUT_BROKEN);
    channel_release(kept);
    cr_assert_eq(channel.references, 2);
    channel_close(kept);
    cr_assert_eq(channel.closes, 1);
    channel_release(kept);
    cr_assert_eq(channel.references, 1);
}

/* Two elements in front of an application that wants 100 bytes. */
static void open_chain(struct input_handler_factory **inner, struct input_handler_factory **outer)
{
    static struct throttle_element_factory throttle;
    static struct log_element_factory log_factory;
    static struct throttle_choice choice = {.bytes_per_second = 1};
    static struct log log = {.program = "server"};
    open_fakes(&all_verbs);
    application.factory.handler_size = 100;
    *inner = throttle_element_over(&throttle, &application.factory, &choice);
    *outer = log_element_over(&log_factory, *inner, &log);
}

/* Each element has its memory in front of the one behind it. */
Test(handler_element, a_chain_is_one_block_of_memory)
{
    struct input_handler_factory *inner, *outer;
    open_chain(&inner, &outer);
    cr_assert_gt(inner->handler_size, 100 + sizeof(struct handler_element));
    cr_assert_gt(outer->handler_size, inner->handler_size + sizeof(struct handler_element));
    memset(memory, 0, sizeof(memory));
    cr_assert_eq((void *)outer->create(outer, memory), (void *)memory);
    unsigned char *application_memory = application.memory;
    cr_assert_eq(application_memory, memory + outer->handler_size - 100);
    cr_assert_eq((uintptr_t)application_memory % alignof(int64_t), 0);
}

/* ---- log ---- */

/* What the log element has printed, line by line. */
static struct logged {
    struct log log;
    struct log_element_factory factory;
    struct input_handler *handler;
    struct capture capture;
    char text[4096];
    const char *rest; /* of the text */
} logged;

#define OUTPUT "event=output peer=192.0.2.7:4321 fd=7 "

static void expect_line(const char *expected)
{
    static const char level[] = "server: info: [";
    cr_assert_eq(strncmp(logged.rest, level, strlen(level)), 0, "%s", logged.rest);
    const char *line = strstr(logged.rest, "] ");
    cr_assert_not_null(line);
    const char *end = strchr(line, '\n');
    cr_assert_not_null(end);
    cr_assert(strlen(expected) == (size_t)(end - line - 2) &&
                  strncmp(line + 2, expected, strlen(expected)) == 0,
              "expected `%s`, got `%.*s`", expected, (int)(end - line - 2), line + 2);
    logged.rest = end + 1;
}

/* A connection begins, behind the element. */
static void log_open(void)
{
    open_fakes(&all_verbs);
    logged.log = (struct log){.program = "server", .level = LOG_LEVEL_WARN};
    logged.handler =
        create_in_memory(log_element_over(&logged.factory, &application.factory, &logged.log));
    cr_assert_not_null(logged.handler);
    capture_start(&logged.capture, STDERR_FILENO);
    logged.handler->verbs->starting(logged.handler, &channel.facade);
}

/* It ends; of the lines the first was expected. */
static void log_close(void)
{
    logged.handler->verbs->stopped(logged.handler, &channel.facade);
    capture_stop(&logged.capture, logged.text, sizeof(logged.text));
    logged.rest = logged.text;
    expect_line("event=begun peer=192.0.2.7:4321 fd=7");
}

Test(handler_element, log_shows_what_passes_and_changes_nothing)
{
    struct message got = {0};
    log_open();
    struct input_handler *handler = logged.handler;
    struct channel_facade *facade = &channel.facade;
    application.message = text("hello\n");
    application.framing = FRAMING_MESSAGE;
    enum framing_result framing = handler->verbs->next_message(handler, facade, &got);
    application.framing = FRAMING_INCOMPLETE; /* is no message, and not shown */
    struct message none;
    handler->verbs->next_message(handler, facade, &none);
    channel.answer = OUTPUT_WAITING;
    struct channel_facade *element = application.facade;
    enum output_result output = channel_enqueue(element, piece_copy(text("and hello\n")));
    struct shared_message *shared = shared_message_create(3);
    memcpy(shared->data, "all", 3);
    enum output_result output_shared = channel_enqueue(element, piece_shared(shared));
    struct shared_file *file = (struct shared_file *)(void *)&logged;
    enum output_result output_file = channel_enqueue(element, piece_file(file, 7, 1000));
    channel.reason = END_IDLE;
    log_close();

    cr_assert(framing == FRAMING_MESSAGE && got.length == 6 && memcmp(got.data, "hello\n", 6) == 0);
    cr_assert(output == OUTPUT_WAITING && output_shared == OUTPUT_WAITING &&
              output_file == OUTPUT_WAITING);
    cr_assert(channel.copied.bytes.length == 10 && channel.shared.shared == shared &&
              channel.ranged.range.file == file && channel.ranged.range.offset == 7);
    shared_message_release(shared);
    cr_assert_eq(channel.references, 1);
    expect_calls("1nn5");

    expect_line("event=input peer=192.0.2.7:4321 fd=7 bytes=6 text=\"hello\\n\"");
    expect_line(OUTPUT "bytes=10 text=\"and hello\\n\"");
    expect_line(OUTPUT "bytes=3 text=\"all\"");
    expect_line(OUTPUT "bytes=1000 file=yes");
    expect_line("event=ended peer=192.0.2.7:4321 fd=7 reason=\"idle timeout\"");
    cr_assert_str_empty(logged.rest);
}

/* Not a byte of it reaches the terminal as it is, but those that are printable. */
Test(handler_element, log_escapes)
{
    log_open();
    channel_enqueue(application.facade, piece_bytes("a\r\n\t\"\\\0\x1b\x7f\x80\xff~ ", 13));
    channel_enqueue(application.facade, piece_bytes("", 0));
    log_close();
    expect_line(OUTPUT "bytes=13 text=\"a\\r\\n\\t\\\"\\\\\\x00\\x1b\\x7f\\x80\\xff~ \"");
    expect_line(OUTPUT "bytes=0 text=\"\"");
}

Test(handler_element, log_cuts_what_is_long)
{
    enum { SHOWN = 60 };
    static unsigned char data[100000];
    char expected[512];
    char most[4 * SHOWN + 1] = "";
    memset(data, 0x01, sizeof(data));
    for (int i = 0; i < SHOWN; i++)
        memcpy(most + 4 * (ptrdiff_t)i, "\\x01", 5);
    log_open();
    channel_enqueue(application.facade, piece_bytes(data, SHOWN));
    channel_enqueue(application.facade, piece_bytes(data, SHOWN + 1));
    channel_enqueue(application.facade, piece_bytes(data, sizeof(data)));
    size_t passed = channel.copied.bytes.length;
    log_close();
    cr_assert_eq(passed, sizeof(data), "only what is shown was sent");
    snprintf(expected, sizeof(expected), OUTPUT "bytes=60 text=\"%s\"", most);
    expect_line(expected);
    snprintf(expected, sizeof(expected), OUTPUT "bytes=61 shown=60 text=\"%s\"", most);
    expect_line(expected);
    snprintf(expected, sizeof(expected), OUTPUT "bytes=100000 shown=60 text=\"%s\"", most);
    expect_line(expected);
}

Test(handler_element, log_level_only_rises)
{
    open_fakes(&all_verbs);
    logged.log = (struct log){.program = "server", .level = LOG_LEVEL_DEBUG};
    log_element_over(&logged.factory, &application.factory, &logged.log);
    cr_assert_eq(logged.log.level, LOG_LEVEL_DEBUG);
    logged.log.level = LOG_LEVEL_ERROR;
    log_element_over(&logged.factory, &application.factory, &logged.log);
    cr_assert_eq(logged.log.level, LOG_LEVEL_INFO);
}

/* ---- throttle ---- */

/* --suspicious and --throttle, as a command line says them. */
static int parse_choice(struct throttle_choice *choice, const char *suspicious, const char *rate)
{
    struct options options;
    char first[64];
    char second[64];
    char program[] = "server";
    char *argv[] = {program, first, second};
    snprintf(first, sizeof(first), "--suspicious=%s", suspicious);
    snprintf(second, sizeof(second), "--throttle=%s", rate);
    options_init(&options, program, "");
    throttle_options(&options, choice);
    return options_parse(&options, 3, argv);
}

/* The rate that a client from there gets; 0: none. */
static uint64_t rate_for(const char *suspicious, const char *peer)
{
    struct throttle_element_factory factory;
    struct throttle_choice choice;
    open_fakes(&all_verbs);
    cr_assert_eq(parse_choice(&choice, suspicious, "1234"), OPTIONS_SERVE);
    cr_assert(endpoint_parse(&channel.peer, peer, 1));
    struct input_handler_factory *made =
        throttle_element_over(&factory, &application.factory, &choice);
    struct input_handler *handler = create_in_memory(made);
    cr_assert_not_null(handler);
    application.channel = &channel;
    handler->verbs->starting(handler, &channel.facade);
    expect_calls("1");
    cr_assert_eq(application.rate_at_start, channel.rate, "the application could send before");
    handler->verbs->stopped(handler, &channel.facade);
    cr_assert_eq(channel.references, 1);
    return channel.rate;
}

Test(handler_element, throttle_is_for_suspicious_networks)
{
    cr_assert_eq(rate_for("10.0.0.0/8", "10.1.2.3"), 1234u);
    cr_assert_eq(rate_for("10.0.0.0/8", "11.1.2.3"), 0u);
    cr_assert_eq(rate_for("10.0.0.0/8", "::ffff:10.1.2.3"), 1234u);
    cr_assert_eq(rate_for("2001:db8::/32", "2001:db8::7"), 1234u);
    cr_assert_eq(rate_for("2001:db8::/32", "2001:db9::7"), 0u);
    cr_assert_eq(rate_for("0.0.0.0/0", "2001:db9::7"), 0u);
    cr_assert_eq(rate_for("10.0.0.0/8,2001:db8::/32", "2001:db8::7"), 1234u);
    cr_assert_eq(rate_for("10.0.0.0/8,2001:db8::/32", "192.0.2.1"), 0u);
}

/* A gatekeeper of somebody's own, to whom every other client is suspicious. */
struct alternating {
    struct gatekeeper gatekeeper;
    int asked;
};

static bool is_every_other(struct gatekeeper *self, const struct endpoint *peer)
{
    (void)peer;
    return ((struct alternating *)self)->asked++ % 2 == 1;
}

Test(handler_element, throttle_asks_whatever_gatekeeper_there_is)
{
    struct alternating alternating = {.gatekeeper.is_suspicious = is_every_other};
    struct throttle_choice choice = {.gatekeeper = &alternating.gatekeeper, .bytes_per_second = 77};
    for (int i = 0; i < 4; i++) {
        struct throttle_element_factory factory;
        open_fakes(&all_verbs);
        struct input_handler_factory *made =
            throttle_element_over(&factory, &application.factory, &choice);
        struct input_handler *handler = create_in_memory(made);
        application.channel = &channel;
        handler->verbs->starting(handler, &channel.facade);
        cr_assert_eq(channel.rate, i % 2 == 1 ? 77u : 0u);
        handler->verbs->stopped(handler, &channel.facade);
    }
    cr_assert_eq(alternating.asked, 4);
}

Test(handler_element, factories_whose_application_has_no_memory)
{
    struct input_handler_factory *inner, *outer;
    open_chain(&inner, &outer);
    application.create_fails = true;
    cr_assert_null(create_in_memory(inner));
    cr_assert_null(create_in_memory(outer));
    expect_calls("");
}

Test(handler_element, throttle_options_are_read)
{
    struct throttle_choice choice = {0};
    cr_assert_eq(parse_choice(&choice, "none", "5"), OPTIONS_SERVE);
    cr_assert_null(choice.gatekeeper);
    cr_assert_eq(parse_choice(&choice, "10.0.0.0/8", "10000000000"), OPTIONS_SERVE);
    cr_assert_not_null(choice.gatekeeper);
    cr_assert_eq(choice.bytes_per_second, UINT64_C(10000000000));
    struct capture capture;
    char complaint[512];
    capture_start(&capture, STDERR_FILENO);
    int too_fast = parse_choice(&choice, "10.0.0.0/8", "10000000001");
    int too_slow = parse_choice(&choice, "10.0.0.0/8", "0");
    int nowhere = parse_choice(&choice, "10.0.0.0/33", "5");
    capture_stop(&capture, complaint, sizeof(complaint));
    cr_assert(too_fast == 2 && too_slow == 2 && nowhere == 2);
    cr_assert_str_eq(
        complaint,
        "server: --throttle: expected a number from 1 to 10000000000, got '10000000001'\n"
        "server: --throttle: expected a number from 1 to 10000000000, got '0'\n"
        "server: --suspicious: expected networks, such as 10.0.0.0/8,2001:db8::/32, or none, "
        "got '10.0.0.0/33'\n");
}
