/*
 * The relay's two ends without a framework: channels that the test plays, so that each order of
 * what happens between two threads can be had.
 */
#include "common/apps/relay/relay_targets.h"
#include "common/base/container_of.h"
#include "common/server/input_handler.h"
#include "common/server/server.h"
#include "support/configure.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(relay, .timeout = 60);

extern const struct application relay_application;

/* ---- a channel ---- */

struct channel {
    struct channel_facade facade;
    struct input_handler *handler;
    void *memory;
    bool suspended;
    bool closed;
    bool finished;
    int references;
    enum output_result results[4]; /* of the next enqueues, the last one first */
    int result_count;
    struct channel_post *post; /* that waits */
    struct channel_task *task; /* that was begun */
    struct channel *opened;    /* by channel_connect() */
};

static struct channel *of(struct channel_facade *facade)
{
    return container_of(facade, struct channel, facade);
}

static enum output_result enqueue(struct channel_facade *facade, struct piece piece)
{
    struct channel *channel = of(facade);
    (void)piece;
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

static void post(struct channel_facade *facade, struct channel_post *made)
{
    of(facade)->post = made;
}

static void begin(struct channel_facade *facade, struct channel_task *task,
                  enum channel_meanwhile meanwhile)
{
    cr_assert_null(of(facade)->task);
    cr_assert_eq(meanwhile, CHANNEL_WAITS);
    of(facade)->task = task;
}

static int connect_channel(struct channel_facade *facade, const struct endpoint *to,
                           struct input_handler_factory *factory)
{
    struct channel *opened = of(facade)->opened;
    (void)to;
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

static const struct channel_facade_verbs channel_verbs = {.enqueue = enqueue,
                                                          .suspend = suspend,
                                                          .resume = resume,
                                                          .close = close_channel,
                                                          .finish = finish,
                                                          .connect = connect_channel,
                                                          .post = post,
                                                          .begin = begin,
                                                          .retain = retain,
                                                          .release = release};

/* ---- a pair ---- */

struct scene {
    struct server server;
    struct input_handler_factory *relay;
    struct channel client;
    struct channel backend;
};

static void client_comes(struct scene *scene)
{
    scene->client.memory = calloc(1, scene->relay->handler_size);
    scene->client.handler = scene->relay->create(scene->relay, scene->client.memory);
    input_handler_starting(scene->client.handler, &scene->client.facade);
    cr_assert(scene->client.suspended, "nobody can take its bytes yet");
    input_handler_started(scene->client.handler, &scene->client.facade);
}

static void scene_open_to(struct scene *scene, const char *targets)
{
    memset(scene, 0, sizeof(*scene));
    scene->server.name = "test";
    scene->server.log = (struct log){.program = "test", .level = LOG_LEVEL_ERROR};
    const char *const words[] = {"--to", targets, NULL};
    cr_assert(configure(&relay_application, words));
    scene->client.facade.verbs = scene->backend.facade.verbs = &channel_verbs;
    scene->client.opened = &scene->backend;
    scene->relay = relay_application.open(&scene->server);
    client_comes(scene);
}

static void scene_open(struct scene *scene)
{
    scene_open_to(scene, "127.0.0.1:9");
}

static void run_post(struct channel *channel)
{
    struct channel_post *waiting = channel->post;
    cr_assert_not_null(waiting);
    channel->post = NULL;
    waiting->facade = &channel->facade;
    channel_post_run(waiting);
}

static void scene_join(struct scene *scene)
{
    scene_open(scene);
    input_handler_starting(scene->backend.handler, &scene->backend.facade);
    input_handler_started(scene->backend.handler, &scene->backend.facade);
    cr_assert(scene->client.suspended, "it has not heard of its server yet");
    run_post(&scene->client);
    cr_assert_not(scene->client.suspended);
}

static void scene_close(struct scene *scene)
{
    cr_assert_eq(scene->client.references, 0);
    cr_assert_eq(scene->backend.references, 0);
    relay_application.close(scene->relay);
    free(scene->client.memory);
    free(scene->backend.memory);
}

static void scene_end(struct scene *scene)
{
    input_handler_stopped(scene->client.handler, &scene->client.facade);
    cr_assert(scene->backend.closed);
    input_handler_stopped(scene->backend.handler, &scene->backend.facade);
    scene_close(scene);
}

static void send_bytes(struct channel *from)
{
    input_handler_handle_input(from->handler, (struct message){(const unsigned char *)"x", 1},
                               &from->facade);
}

Test(relay, one_whose_peer_is_choked_is_suspended_until_that_has_drained)
{
    struct scene scene;
    scene_join(&scene);
    scene.backend.results[0] = scene.backend.results[1] = OUTPUT_CHOKED;
    scene.backend.result_count = 2;
    send_bytes(&scene.client);
    cr_assert(scene.client.suspended);
    input_handler_drained(scene.backend.handler, &scene.backend.facade);
    cr_assert_not(scene.client.suspended);
    scene_end(&scene);
}

/* It drains before the client is suspended, so nobody is going to resume it later. */
Test(relay, output_that_drains_before_the_suspension_does_not_leave_it_suspended)
{
    struct scene scene;
    scene_join(&scene);
    scene.backend.results[0] = OUTPUT_FLOWING;
    scene.backend.results[1] = OUTPUT_CHOKED;
    scene.backend.result_count = 2;
    send_bytes(&scene.client);
    cr_assert_not(scene.client.suspended);
    scene_end(&scene);
}

/* The server has sent more than the client took, before the client's end has heard of it. */
Test(relay, a_server_that_was_suspended_before_the_ends_were_joined_is_resumed)
{
    struct scene scene;
    scene_open(&scene);
    input_handler_starting(scene.backend.handler, &scene.backend.facade);
    input_handler_started(scene.backend.handler, &scene.backend.facade);
    scene.client.results[0] = scene.client.results[1] = OUTPUT_CHOKED;
    scene.client.result_count = 2;
    send_bytes(&scene.backend);
    cr_assert(scene.backend.suspended);
    input_handler_drained(scene.client.handler, &scene.client.facade);
    run_post(&scene.client);
    cr_assert_not(scene.backend.suspended);
    scene_end(&scene);
}

Test(relay, news_for_a_client_that_has_gone_close_its_server)
{
    struct scene scene;
    scene_open(&scene);
    input_handler_stopped(scene.client.handler, &scene.client.facade);
    input_handler_starting(scene.backend.handler, &scene.backend.facade);
    input_handler_started(scene.backend.handler, &scene.backend.facade);
    channel_post_drop(scene.client.post);
    cr_assert(scene.backend.closed);
    input_handler_stopped(scene.backend.handler, &scene.backend.facade);
    scene_close(&scene);
}

Test(relay, a_client_whose_only_server_does_not_answer_is_closed)
{
    struct scene scene;
    scene_open(&scene);
    input_handler_not_connected(scene.backend.handler, 111);
    run_post(&scene.client);
    cr_assert(scene.client.closed);
    input_handler_stopped(scene.client.handler, &scene.client.facade);
    scene_close(&scene);
}

Test(relay, an_end_of_input_ends_the_other_ones_output)
{
    struct scene scene;
    scene_join(&scene);
    input_handler_end_of_input(scene.client.handler, &scene.client.facade);
    cr_assert(scene.backend.finished);
    cr_assert_not(scene.client.closed);
    input_handler_end_of_input(scene.backend.handler, &scene.backend.facade);
    cr_assert(scene.client.finished);
    scene_end(&scene);
}

/** What a helper does, and then the client's thread. */
static void run_task(struct channel *channel)
{
    struct channel_task *task = channel->task;
    cr_assert_not_null(task);
    channel->task = NULL;
    channel_task_run(task);
    channel_task_complete(task);
}

Test(relay, a_name_is_looked_up_by_a_helper)
{
    struct scene scene;
    scene_open_to(&scene, "a..b:9,localhost:9"); /* no name is like the first one */
    run_task(&scene.client);
    cr_assert_null(scene.backend.handler, "the next one has a name, too");
    run_task(&scene.client);
    cr_assert_not_null(scene.backend.handler);
    input_handler_starting(scene.backend.handler, &scene.backend.facade);
    input_handler_started(scene.backend.handler, &scene.backend.facade);
    run_post(&scene.client);
    scene_end(&scene);
}

static void client_goes_while_its_task_is_under_way(struct scene *scene)
{
    cr_assert_not_null(scene->client.task, "the name comes first: no target has a connection");
    input_handler_stopped(scene->client.handler, &scene->client.facade);
    channel_task_drop(scene->client.task);
    scene->client.task = NULL;
    cr_assert_null(scene->backend.handler);
}

Test(relay, a_client_that_goes_while_a_name_is_looked_up_leaves_no_connection_behind)
{
    struct scene scene;
    scene_open_to(&scene, "localhost:9,127.0.0.1:9");
    client_goes_while_its_task_is_under_way(&scene);
    free(scene.client.memory);
    client_comes(&scene);
    client_goes_while_its_task_is_under_way(&scene);
    scene_close(&scene);
}

Test(relay, one_client_looks_an_old_address_up_again_and_the_others_use_it)
{
    struct relay_targets targets;
    struct endpoint found = {.length = 16};
    struct endpoint address = {.length = 0};
    cr_assert(relay_targets_open(&targets, "localhost:9,127.0.0.1:9", "test"));
    cr_assert(relay_targets_address(&targets, 1, &address));
    cr_assert_not(relay_targets_address(&targets, 0, &address));
    cr_assert_not(relay_targets_address(&targets, 0, &address), "there is none to use");
    cr_assert_not(relay_targets_not_found(&targets, 0, &address));
    relay_targets_found(&targets, 0, &found);
    cr_assert(relay_targets_address(&targets, 0, &address));
    cr_assert_eq(address.length, found.length);
    mutex_lock(&targets.lock);
    targets.addresses[0].looked_up -= RELAY_ADDRESS_FRESH_MS;
    mutex_unlock(&targets.lock);
    cr_assert_not(relay_targets_address(&targets, 0, &address));
    cr_assert(relay_targets_address(&targets, 0, &address));
    cr_assert(relay_targets_not_found(&targets, 0, &address), "the old one is better than none");
    relay_targets_close(&targets);
}
