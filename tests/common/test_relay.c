/*
 * The relay's two ends without a framework: channels that the test plays, so that each order of
 * what happens between two threads can be had.
 */
#include "common/apps/pair.h"
#include "common/apps/relay/relay_targets.h"
#include "common/base/container_of.h"
#include "common/bytes/input_queue_more.h"
#include "common/server/channel_calls_back.h"
#include "common/server/input_handler_calls.h"
#include "common/server/server.h"
#include "faults.h"
#include "names.h"
#include "support/configure.h"
#include "support/deadline.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

TestSuite(relay, .timeout = 120);

extern const struct application relay_application;

/* ---- a channel ---- */

struct channel {
    struct channel_facade facade;
    struct input_handler *handler;
    void *memory;
    struct input_queue input; /* empty */
    bool suspended;
    bool closed;
    bool reset;
    enum end_reason reason;
    bool finished;
    atomic_int references;
    int enqueued;                  /* so many pieces */
    enum output_result results[4]; /* of the next enqueues, the last one first */
    int result_count;
    _Atomic(struct channel_post *) post; /* that waits; a lookup's comes from another thread */
    struct channel_timer *timer;         /* that is set */
    int64_t milliseconds;
    struct channel *opened; /* by channel_connect() */
    struct endpoint to;     /* where it was to connect last */
    int64_t timeout;
};

static struct channel *of(struct channel_facade *facade)
{
    return container_of(facade, struct channel, facade);
}

static struct input_queue *input(struct channel_facade *facade)
{
    return &of(facade)->input;
}

static enum output_result enqueue(struct channel_facade *facade, struct piece piece)
{
    struct channel *channel = of(facade);
    (void)piece;
    channel->enqueued++;
    return channel->result_count > 0 ? channel->results[--channel->result_count] : OUTPUT_FLOWING;
}

static void suspend(struct channel_facade *facade)
{
    of(facade)->suspended = true;
}

static void resume(struct channel_facade *facade)
{
    of(facade)->suspended = false;
}

static void finish(struct channel_facade *facade)
{
    of(facade)->finished = true;
}

static void close_channel(struct channel_facade *facade)
{
    of(facade)->closed = true;
}

static void reset_channel(struct channel_facade *facade)
{
    of(facade)->closed = true;
    of(facade)->reset = true;
}

static enum end_reason end_reason(struct channel_facade *facade)
{
    return of(facade)->reason;
}

static void post(struct channel_facade *facade, struct channel_post *made)
{
    of(facade)->post = made;
}

static void set_timer(struct channel_facade *facade, struct channel_timer *timer,
                      int64_t milliseconds)
{
    of(facade)->timer = timer;
    of(facade)->milliseconds = milliseconds;
}

static void cancel_timer(struct channel_facade *facade, struct channel_timer *timer)
{
    (void)timer;
    of(facade)->timer = NULL;
}

static int connect_channel(struct channel_facade *facade, const struct endpoint *to,
                           int64_t timeout, struct input_handler_factory *factory)
{
    struct channel *opened = of(facade)->opened;
    of(facade)->to = *to;
    of(facade)->timeout = timeout;
    free(opened->memory);
    opened->memory = calloc(1, factory->handler_size);
    opened->handler = factory->create(factory, opened->memory);
    return 0;
}

static void retain(struct channel_facade *facade)
{
    of(facade)->references++;
}

static void release(struct channel_facade *facade)
{
    of(facade)->references--;
}

static int peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    (void)facade;
    endpoint_parse(endpoint, "192.0.2.7", 4321);
    return 9;
}

static const struct channel_facade_verbs channel_verbs = {.peer = peer,
                                                          .input = input,
                                                          .enqueue = enqueue,
                                                          .suspend = suspend,
                                                          .resume = resume,
                                                          .close = close_channel,
                                                          .reset = reset_channel,
                                                          .end_reason = end_reason,
                                                          .finish = finish,
                                                          .connect = connect_channel,
                                                          .post = post,
                                                          .set_timer = set_timer,
                                                          .cancel_timer = cancel_timer,
                                                          .retain = retain,
                                                          .release = release};

/* ---- a pair ---- */

struct scene {
    struct server server;
    struct input_handler_factory *relay;
    struct channel client;
    struct channel backend;
    struct channel other; /* one more client, and her server */
    struct channel its_server;
};

static void comes(struct scene *scene, struct channel *client, struct channel *backend)
{
    client->facade.verbs = backend->facade.verbs = &channel_verbs;
    client->opened = backend;
    client->memory = calloc(1, scene->relay->handler_size);
    client->handler = scene->relay->create(scene->relay, client->memory);
    input_handler_starting(client->handler, &client->facade);
    cr_assert(client->suspended, "nobody can take its bytes yet");
    input_handler_started(client->handler, &client->facade);
}

static void client_comes(struct scene *scene)
{
    comes(scene, &scene->client, &scene->backend);
}

static void other_comes(struct scene *scene)
{
    comes(scene, &scene->other, &scene->its_server);
}

static void scene_prepare(struct scene *scene, const char *targets)
{
    memset(scene, 0, sizeof(*scene));
    scene->server.settings.connect_timeout = 1000;
    scene->client.reason = scene->backend.reason = END_CLOSED;
    scene->server.name = "test";
    scene->server.log = (struct log){.program = "test", .level = LOG_LEVEL_ERROR};
    const char *const words[] = {"--to", targets, NULL};
    cr_assert(configure(&relay_application, words));
    scene->relay = application_open(&relay_application, &scene->server);
    cr_assert_not_null(scene->relay);
}

static void scene_open_to(struct scene *scene, const char *targets)
{
    scene_prepare(scene, targets);
    client_comes(scene);
}

static void scene_open(struct scene *scene)
{
    scene_open_to(scene, "127.0.0.1:9");
}

static void run_post(struct channel *channel)
{
    struct channel_post *waiting = atomic_exchange(&channel->post, NULL);
    cr_assert_not_null(waiting);
    channel_post_run(waiting);
}

/* The server answers. */
static void begins(struct channel *backend)
{
    input_handler_starting(backend->handler, &backend->facade);
    input_handler_started(backend->handler, &backend->facade);
}

static void goes(struct channel *channel)
{
    input_handler_stopped(channel->handler, &channel->facade);
}

static void scene_join(struct scene *scene)
{
    scene_open(scene);
    begins(&scene->backend);
    cr_assert(scene->client.suspended, "it has not heard of its server yet");
    run_post(&scene->client);
    cr_assert_not(scene->client.suspended);
}

static void scene_close(struct scene *scene)
{
    application_close(&relay_application,
                      scene->relay); /* a lookup's thread may still give a reference back */
    struct channel *channels[] = {&scene->client, &scene->backend, &scene->other,
                                  &scene->its_server};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(channels[i]->references, 0, "channel %d", i);
        free(channels[i]->memory);
    }
}

static void scene_end(struct scene *scene)
{
    goes(&scene->client);
    cr_assert(scene->backend.closed);
    goes(&scene->backend);
    scene_close(scene);
}

/* A test of a client and its server, who have heard of each other. */
#define JoinedTest(suite, name)                                                                    \
    TestWith(suite, name, struct scene, scene, scene_join(scene), scene_end(scene))

/* A test of a client who has come, and wants one of these targets. */
#define WaitingTest(suite, name, targets)                                                          \
    TestWith(suite, name, struct scene, scene, scene_open_to(scene, targets), scene_close(scene))

static void send_bytes(struct channel *from)
{
    input_handler_handle_input(from->handler, (struct message){(const unsigned char *)"x", 1},
                               &from->facade);
}

JoinedTest(relay, one_whose_peer_is_choked_is_suspended_until_that_has_drained)
{
    scene->backend.results[0] = scene->backend.results[1] = OUTPUT_CHOKED;
    scene->backend.result_count = 2;
    send_bytes(&scene->client);
    cr_assert(scene->client.suspended);
    input_handler_drained(scene->backend.handler, &scene->backend.facade);
    cr_assert_not(scene->client.suspended);
}

/* It drains before the client is suspended, so nobody is going to resume it later. */
JoinedTest(relay, output_that_drains_before_the_suspension_does_not_leave_it_suspended)
{
    scene->backend.results[0] = OUTPUT_FLOWING;
    scene->backend.results[1] = OUTPUT_CHOKED;
    scene->backend.result_count = 2;
    send_bytes(&scene->client);
    cr_assert_not(scene->client.suspended);
}

/* The server has sent more than the client took, before the client's end has heard of it. */
Test(relay, a_server_that_was_suspended_before_the_ends_were_joined_is_resumed)
{
    struct scene scene;
    scene_open(&scene);
    begins(&scene.backend);
    scene.client.results[0] = scene.client.results[1] = OUTPUT_CHOKED;
    scene.client.result_count = 2;
    send_bytes(&scene.backend);
    cr_assert(scene.backend.suspended);
    input_handler_drained(scene.client.handler, &scene.client.facade);
    run_post(&scene.client);
    cr_assert_not(scene.backend.suspended);
    scene_end(&scene);
}

WaitingTest(relay, news_for_a_client_that_has_gone_close_its_server, "127.0.0.1:9")
{
    goes(&scene->client);
    begins(&scene->backend);
    channel_post_drop(atomic_load(&scene->client.post));
    cr_assert(scene->backend.closed);
    goes(&scene->backend);
}

WaitingTest(relay, a_client_whose_only_server_does_not_answer_is_closed, "127.0.0.1:9")
{
    input_handler_not_connected(scene->backend.handler, 111);
    run_post(&scene->client);
    cr_assert(scene->client.closed);
    goes(&scene->client);
}

static void ends_in_order(enum end_reason reason)
{
    struct scene scene;
    scene_join(&scene);
    scene.client.reason = scene.backend.reason = reason;
    input_handler_end_of_input(scene.client.handler, &scene.client.facade);
    cr_assert(scene.backend.finished);
    cr_assert_not(scene.client.closed);
    input_handler_end_of_input(scene.backend.handler, &scene.backend.facade);
    cr_assert(scene.client.finished);
    cr_assert_not(scene.client.reset || scene.backend.reset);
    scene_end(&scene);
}

Test(relay, an_end_of_input_ends_the_other_ones_output)
{
    ends_in_order(END_PEER_CLOSED);
}

Test(relay, a_server_that_stops_ends_the_other_ones_output)
{
    ends_in_order(END_SERVER);
}

/* Whatever has cut a stream off, the other side must not take it for a whole one. */
Test(relay, a_stream_that_was_cut_off_is_reset_on_the_other_side)
{
    static const enum end_reason cuts[] = {END_PEER_LOST, END_TOO_LONG, END_IDLE, END_REQUEST,
                                           END_PROGRESS,  END_LIFETIME, END_CAP,  END_RESOURCES};
    for (size_t i = 0; i < 2 * sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct scene scene;
        scene_join(&scene);
        struct channel *cut = i % 2 == 0 ? &scene.client : &scene.backend;
        struct channel *other = i % 2 == 0 ? &scene.backend : &scene.client;
        cut->reason = cuts[i / 2];
        input_handler_end_of_input(cut->handler, &cut->facade);
        cr_assert_not(other->finished, "reason %d: an orderly end", (int)cut->reason);
        goes(cut);
        cr_assert(other->reset, "reason %d: no reset", (int)cut->reason);
        other->reason = END_CLOSED;
        goes(other);
        scene_close(&scene);
    }
}

/* It was suspended when that came: what it has read goes before the reset. */
JoinedTest(relay, what_a_lost_peer_has_sent_is_passed_on)
{
    buffer_factory_init(&scene->server.buffers, 16);
    input_queue_init(&scene->client.input, &scene->server.buffers, 100);
    cr_assert(input_queue_append(&scene->client.input, (const unsigned char *)"rest", 4));
    scene->backend.results[0] = OUTPUT_FLOWING;
    scene->backend.result_count = 1;
    scene->client.reason = END_PEER_LOST;
    input_handler_end_of_input(scene->client.handler, &scene->client.facade);
    cr_assert_eq(scene->backend.result_count, 0, "nothing was enqueued");
    cr_assert_not(scene->backend.finished);
    input_queue_clear(&scene->client.input);
    buffer_factory_destroy(&scene->server.buffers);
}

/* ---- lines ---- */

enum { LONGEST_LINE = 10 };

static const struct pair_verbs line_verbs = {.began = NULL, .next_message = pair_next_line};

/* A line that is too long comes at one end, behind a good one. How often each is sent something. */
static void sends_too_long_a_line(bool client_does, int told, int passed)
{
    static const char text[] = "first\n01234567890123456789\n";
    struct scene scene;
    struct message line;
    scene_join(&scene);
    struct channel *from = client_does ? &scene.client : &scene.backend;
    struct channel *to = client_does ? &scene.backend : &scene.client;
    container_of(scene.client.handler, struct pair, client.handler)->verbs = &line_verbs;
    buffer_factory_init(&scene.server.buffers, 16);
    input_queue_init(&from->input, &scene.server.buffers, line_framing_input_limit(sizeof(text)));
    cr_assert(input_queue_append(&from->input, (const unsigned char *)text, strlen(text)));
    from->input.limit = line_framing_input_limit(LONGEST_LINE);
    cr_assert_eq(input_handler_next_message(from->handler, &from->facade, &line), FRAMING_MESSAGE);
    input_handler_handle_input(from->handler, line, &from->facade);
    cr_assert_eq(input_handler_next_message(from->handler, &from->facade, &line), FRAMING_TOO_LONG);
    from->reason = END_TOO_LONG;
    input_handler_end_of_input(from->handler, &from->facade);
    cr_assert_eq(from->enqueued, told, "the sender was told so %d times", from->enqueued);
    cr_assert_eq(to->enqueued, passed, "%d pieces were passed", to->enqueued);
    cr_assert_not(to->finished, "an orderly end");
    goes(from);
    cr_assert(to->reset);
    input_queue_clear(&from->input);
    buffer_factory_destroy(&scene.server.buffers);
    to->reason = END_CLOSED;
    goes(to);
    scene_close(&scene);
}

Test(relay, a_client_whose_line_is_too_long_is_told_so_once)
{
    sends_too_long_a_line(true, 1, 1);
}

/* It would take the words for something that its client has said. */
Test(relay, a_server_whose_line_is_too_long_is_told_nothing)
{
    sends_too_long_a_line(false, 0, 1);
}

/* ---- names ---- */

/** Waits for the result of a lookup. */
static void await_lookup(struct channel *channel)
{
    double end = test_deadline();
    while (atomic_load(&channel->post) == NULL) {
        cr_assert_gt(test_left_ms(end), 0, "the lookup has no end");
        sched_yield();
    }
}

/** The same, and has it heard in the client's context. */
static void hear_lookup(struct channel *channel)
{
    await_lookup(channel);
    run_post(channel);
}

static void fire_timer(struct channel *channel)
{
    struct channel_timer *timer = channel->timer;
    cr_assert_not_null(timer, "nothing bounds the wait");
    channel->timer = NULL;
    channel_timer_fire(timer);
}

static void expect_to(const struct channel *channel, const char *wanted)
{
    char text[ENDPOINT_TEXT_SIZE];
    endpoint_format(&channel->to, text);
    cr_assert_str_eq(text, wanted);
}

/** The server answers, and both ends end. */
static void ends(struct channel *client)
{
    struct channel *backend = client->opened;
    cr_assert_not_null(backend->handler, "no server was asked");
    begins(backend);
    run_post(client);
    goes(client);
    goes(backend);
}

static void forget(struct channel *client)
{
    cr_assert_eq(client->references, 0);
    free(client->memory);
    if (client->opened->memory != NULL)
        cr_assert_eq(client->opened->references, 0);
    free(client->opened->memory);
}

Test(relay, a_name_that_is_not_found_is_a_target_that_does_not_answer)
{
    struct scene scene;
    struct addrinfo *found;
    if (getaddrinfo("localhost", NULL, NULL, &found) != 0)
        cr_skip_test("localhost has no address here");
    freeaddrinfo(found);
    scene_open_to(&scene, "a..b:9,localhost:9"); /* no name is like the first one */
    hear_lookup(&scene.client);
    cr_assert_null(scene.backend.handler, "the next one has a name, too");
    hear_lookup(&scene.client);
    ends(&scene.client);
    scene_close(&scene);
}

Test(relay, clients_that_wait_for_one_name_share_one_lookup)
{
    enum { CLIENTS = 16 };
    static struct channel clients[CLIENTS];
    static struct channel backends[CLIENTS];
    struct scene scene;
    scene_prepare(&scene, "slow.test:9");
    for (int i = 0; i < CLIENTS; i++) {
        comes(&scene, &clients[i], &backends[i]);
        names_await_asked(1);
    }
    names_answer(true);
    for (int i = 0; i < CLIENTS; i++) {
        hear_lookup(&clients[i]);
        cr_assert_null(clients[i].timer, "it waits no longer");
        expect_to(&clients[i], NAMES_SLOW ":9");
        ends(&clients[i]);
    }
    names_await_asked(1);
    application_close(&relay_application, scene.relay);
    for (int i = 0; i < CLIENTS; i++)
        forget(&clients[i]);
}

/* Nobody has to wait for the name of a target that he does not need. */
WaitingTest(relay, a_name_that_hangs_holds_up_no_other_target, "slow.test:9,dual.test:9")
{
    names_await_asked(1);
    other_comes(scene);
    hear_lookup(&scene->other);
    expect_to(&scene->other, "[" NAMES_FIRST "]:9");
    ends(&scene->other);
    names_answer(true);
    hear_lookup(&scene->client);
    ends(&scene->client);
}

Test(relay, a_lookup_has_the_connect_timeout_and_then_the_next_target_is_tried)
{
    struct scene scene;
    scene_open_to(&scene, "slow.test:9,127.0.0.1:7");
    cr_assert_eq(scene.client.milliseconds, 1000);
    names_await_asked(1);
    fire_timer(&scene.client);
    expect_to(&scene.client, "127.0.0.1:7");
    names_answer(true); /* for nobody */
    ends(&scene.client);
    scene_close(&scene);
    cr_assert_null(atomic_load(&scene.client.post));
}

/* The lookup is over, and its result on the way, when the time has passed. */
WaitingTest(relay, a_lookup_that_is_over_just_in_time_counts, "slow.test:9")
{
    names_answer(true);
    await_lookup(&scene->client);
    fire_timer(&scene->client);
    cr_assert_not(scene->client.closed);
    cr_assert_null(scene->backend.handler);
    hear_lookup(&scene->client);
    ends(&scene->client);
}

/* Two clients wait, for each target one, and go: the third one has the first target again. */
Test(relay, a_client_that_goes_while_a_name_is_looked_up_leaves_nothing_behind)
{
    struct channel other = {0};
    struct channel server = {0};
    struct scene scene;
    scene_open_to(&scene, "slow.test:9,127.0.0.1:9");
    names_await_asked(1);
    cr_assert_eq(scene.client.references, 1);
    goes(&scene.client);
    cr_assert_eq(scene.client.references, 0);
    comes(&scene, &other, &server);
    cr_assert_null(server.handler, "the first target has no connection, so it is the next");
    goes(&other);
    forget(&scene.client);
    forget(&other);
    application_close(&relay_application, scene.relay); /* and does not wait for the name */
    names_await_asked(1);
    names_answer(true);
}

/* It goes when the result has been posted: that is dropped, by whichever thread. */
WaitingTest(relay, a_result_that_comes_too_late_is_dropped, "slow.test:9,127.0.0.1:9")
{
    names_answer(true);
    await_lookup(&scene->client);
    goes(&scene->client);
    channel_post_drop(atomic_load(&scene->client.post));
    other_comes(scene);
    expect_to(&scene->other, NAMES_SLOW ":9"); /* it has no connection, so it is the next */
    ends(&scene->other);
}

static void refuses(struct channel *client, int error)
{
    input_handler_not_connected(client->opened->handler, error);
    run_post(client);
}

WaitingTest(relay, all_addresses_of_a_name_are_tried_within_the_connect_timeout,
            "dual.test:9,127.0.0.1:7")
{
    hear_lookup(&scene->client);
    expect_to(&scene->client, "[" NAMES_FIRST "]:9");
    cr_assert(scene->client.timeout > 0 && scene->client.timeout <= 500, "half of the time");
    refuses(&scene->client, ECONNREFUSED);
    expect_to(&scene->client, NAMES_SECOND ":9");
    cr_assert(scene->client.timeout > 0 && scene->client.timeout <= 1000, "all that is left");
    faults.later = 1;
    refuses(&scene->client, ETIMEDOUT);
    expect_to(&scene->client, "127.0.0.1:7");
    cr_assert_gt(scene->client.timeout, 500, "the next target has its own time");
    refuses(&scene->client, ECONNREFUSED);
    cr_assert(scene->client.closed);
    goes(&scene->client);
}

Test(relay, without_a_connect_timeout_nothing_is_bounded)
{
    struct scene scene;
    scene_prepare(&scene, "dual.test:9");
    scene.server.settings.connect_timeout = 0;
    client_comes(&scene);
    cr_assert_null(scene.client.timer);
    hear_lookup(&scene.client);
    cr_assert_eq(scene.client.timeout, 0);
    ends(&scene.client);
    scene_close(&scene);
}

/* A name server that does not answer any more must not cost a target that is where it was. */
WaitingTest(relay, a_lookup_leaves_half_of_the_time_to_the_addresses_that_were_known, "slow.test:9")
{
    names_answer(true);
    hear_lookup(&scene->client);
    ends(&scene->client);
    names_wait();
    faults.later = RELAY_ADDRESS_FRESH_MS / 1000;
    other_comes(scene);
    cr_assert_null(scene->its_server.handler, "the addresses are old");
    cr_assert_eq(scene->other.milliseconds, 500);
    fire_timer(&scene->other);
    expect_to(&scene->other, NAMES_SLOW ":9");
    names_answer(true); /* for nobody */
    ends(&scene->other);
}

/* Half a minute later it is looked up again. */
static void make_old(struct relay_targets *targets)
{
    mutex_lock(&targets->lock);
    targets->states[0].looked_up -= RELAY_ADDRESS_FRESH_MS;
    mutex_unlock(&targets->lock);
}

static void note_result(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    (void)facade;
}

Test(relay, one_client_looks_an_old_address_up_again_and_the_others_use_it)
{
    struct channel channel = {.facade.verbs = &channel_verbs};
    struct relay_waiter waiter = {.post.run = note_result};
    struct relay_targets *targets = relay_targets_open("slow.test:9,127.0.0.1:9", "test");
    struct endpoint address;
    cr_assert(relay_targets_find(targets, 1, &waiter, &channel.facade), "it is no name");
    cr_assert_eq(relay_targets_address(targets, 1, 0, &address), 1);
    cr_assert_eq(relay_targets_address(targets, 0, 0, &address), 0);
    names_answer(false);
    cr_assert_not(relay_targets_find(targets, 0, &waiter, &channel.facade));
    hear_lookup(&channel);
    cr_assert_eq(relay_targets_address(targets, 0, 0, &address), 0);
    cr_assert_eq(relay_targets_error(targets, 0), EAI_AGAIN);
    names_answer(true);
    cr_assert_not(relay_targets_find(targets, 0, &waiter, &channel.facade));
    hear_lookup(&channel);
    cr_assert_eq(relay_targets_address(targets, 0, 0, &address), 1);
    cr_assert_eq(relay_targets_error(targets, 0), 0);
    cr_assert(relay_targets_find(targets, 0, &waiter, &channel.facade));
    make_old(targets);
    names_answer(false);
    cr_assert_not(relay_targets_find(targets, 0, &waiter, &channel.facade));
    cr_assert(relay_targets_find(targets, 0, &waiter, &channel.facade), "this one need not wait");
    hear_lookup(&channel);
    cr_assert_eq(relay_targets_address(targets, 0, 0, &address), 1, "old is better than none");
    relay_targets_close(targets);
    cr_assert_eq(channel.references, 0);
}
