/*
 * The core's steps: a thread runs the loop, with an application and the connection that all servers
 * of this course share between them. Main waits for signals.
 *
 * Told to stop, the loop answers what has arrived, and ends when all clients have. Main waits for
 * that end, but not for ever: after a time it cuts short what holds the loop up.
 *
 * Each client's output may have a rate. What that holds back waits for a moment, which the client's
 * timer knows, and not for the socket.
 */
#include "common/apps/application_choice.h"
#include "common/apps/chain_service.h"
#include "common/base/list.h"
#include "common/base/thread.h"
#include "common/events/selector_provider.h"
#include "common/events/timer_heap.h"
#include "common/server/admission.h"
#include "common/server/connection_parts.h"
#include "common/server/watch.h"
#include "common/workers/future_task.h"
#include "common/server/connection_shared.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* What --app may choose: echo. */
static const struct application *const applications[] = {&echo_application, NULL};

struct client {
    struct connection connection;            /* what a thread would keep on its stack */
    struct selection_key key;                /* what it is waited for, and what has come */
    struct list_link link;                   /* in clients */
    struct timer timer;                      /* when to look at it, though nothing happens */
    alignas(int64_t) unsigned char memory[]; /* the application's handler */
};

static struct selector selector;
static struct selection_key listening;
static struct server server;
static struct input_handler_factory *factory; /* of the application, or of an element before it */
static struct admission admission;
static struct list_link clients;
static struct timer_heap timers; /* one for each client */
static struct loop loop;         /* how late it is, for whoever asks */
static struct watch watch;
static struct watched_loop watched;
static struct future_task life;                /* of the loop, from beginning to end */
static struct future_monitor monitor;          /* where main waits for that end */
static _Atomic int64_t cut_off_at = INT64_MAX; /* main's word to the loop that it is to end */
static size_t bytes_per_second;                /* for each client; 0: as many as it takes */
static struct channel_facade_verbs verbs;      /* those of a connection, with a rate */

static void client_close(struct client *client) NO_LOCK_HELD
{
    int fd = connection_detach(&client->connection);
    list_remove(&client->link);
    timer_heap_cancel(&timers, &client->timer);
    selector_cancel(&client->key); /* first, so that no event of it is delivered any more */
    close(fd);
    free(client);
    admission_leave(&admission);
}

/*
 * Waits for what the connection wants. One that has more to do waits for room to write, as in step
 * 2.5: there nearly always is some. False if the connection is over.
 */
static bool client_wait(struct client *client)
{
    unsigned wants = connection_wants(&client->connection);
    if (wants == CONNECTION_RUN)
        wants = SELECT_WRITE;
    return wants != CONNECTION_OVER && selector_interest(&client->key, wants) == 0;
}

/* A run: receive, handle, send. */
static void client_run(struct client *client, bool ready) NO_LOCK_HELD
{
    struct run run = {0};
    loop_serves(&loop, client->key.fd);
    if (ready)
        connection_receive(&client->connection);
    connection_handle(&client->connection, &run, HANDLE_MESSAGES);
    connection_send(&client->connection, &run);
    if (client_wait(client))
        timer_heap_set_by(&timers, &client->timer,
                          connection_deadline(&client->connection, run.now));
    else
        client_close(client);
}

/* ---- Times ----------------------------------------------------------------------------------- */

/*
 * Runs all whose time is over; for how long the selector may sleep until the next one's is. A timer
 * that fires too early, because its client has done something since, is only set again.
 */
static int clients_expire(void) NO_LOCK_HELD
{
    int64_t now = clock_ms();
    struct timer *timer;
    while ((timer = timer_heap_due(&timers, now)) != NULL) {
        struct client *client = container_of(timer, struct client, timer);
        timer_heap_set(&timers, timer, INT64_MAX);
        if (connection_expire(&client->connection, now))
            client_run(client, false);
        else
            timer_heap_set(&timers, timer, connection_deadline(&client->connection, now));
    }
    return timer_heap_timeout(&timers, loop_sleeps(&loop, timers.count));
}

/* ---- A rate ---------------------------------------------------------------------------------- */

static bool client_set_write_rate(struct channel_facade *facade, uint64_t rate)
{
    struct connection *connection = connection_of(facade);
    bool set = connection_set_write_rate(connection, rate);
    if (!set) { /* no memory: better no connection than one at full speed */
        connection_end_because(connection, END_RESOURCES);
        connection_ask(connection, ASK_END, 0);
    }
    return set;
}

static void add_throttle(struct options *options)
{
    options_add(options, (struct option){.name = "--throttle",
                                         .value = "BYTES",
                                         .default_text = "0",
                                         .help = "send each client at most BYTES bytes per second; "
                                                 "0: as fast as it reads",
                                         .parse = option_parse_number,
                                         .target = &bytes_per_second,
                                         .max = SIZE_MAX});
}

/* ---- Clients that come and go ---------------------------------------------------------------- */

/* Begins to serve one. False if that is not possible: then admission tells it so. */
static bool client_open(void *context, int fd) NO_LOCK_HELD
{
    (void)context;
    loop_serves(&loop, fd);
    struct client *client = calloc(1, sizeof(*client) + factory->handler_size);
    if (client == NULL || !timer_heap_set(&timers, &client->timer, INT64_MAX)) {
        free(client);
        return false;
    }
    if (selector_register(&selector, &client->key, fd, SELECT_READ, client) != 0) {
        timer_heap_cancel(&timers, &client->timer);
        free(client);
        return false;
    }
    list_append(&clients, &client->link);
    connection_open(&client->connection, &server.home, fd,
                    input_handler_create(factory, client->memory));
    client->connection.facade.verbs = &verbs;
    if (bytes_per_second > 0) /* before its life begins, so that not a byte leaves faster */
        channel_set_write_rate(&client->connection.facade, bytes_per_second);
    connection_advance(&client->connection, LIFE_STARTING);
    client_run(client, false); /* the handler's life begins without an event */
    return true;
} /* the selector has the address now: NOLINT(clang-analyzer-unix.Malloc) */

/* Waits for new clients while they can be served; for how long it may sleep, in ms. */
static int listen_while_open(int sleep)
{
    selector_interest(&listening, admission_is_open(&admission) ? SELECT_READ : SELECT_NOTHING);
    return admission_is_backing_off(&admission) ? SERVER_BACK_OFF_MS : sleep;
}

/* Nobody else is accepted, and whoever is here learns that the server stops. */
static void clients_stop(void) NO_LOCK_HELD
{
    admission_accept_last(&admission, &server.listener, SOCK_NONBLOCK, client_open, NULL);
    for (struct list_link *link = clients.next, *behind; link != &clients; link = behind) {
        struct client *client = container_of(link, struct client, link);
        behind = link->next;
        connection_ask(&client->connection, ASK_STOP, 0);
        client_run(client, false);
    }
}

/* What the clients hold at this moment. */
static void count_held(void)
{
    uint64_t output = 0, input = 0;
    for (struct list_link *link = clients.next; link != &clients; link = link->next) {
        const struct client *client = container_of(link, struct client, link);
        output += output_chain_length(&client->connection.output);
        input += input_queue_length(&client->connection.input);
    }
    loop_answers(&loop, output, input);
}

/* What has happened, or nothing if the time is over. */
static void take_events(int sleep) NO_LOCK_HELD
{
    size_t count = selector_select(&selector, sleep);
    loop_woke(&loop);
    if (loop_is_asked(&loop))
        count_held();
    for (size_t i = 0; i < count; i++) {
        struct selection_key *key = selector_selected(&selector, i);
        if (key == &listening)
            admission_accept(&admission, &server.listener, SOCK_NONBLOCK, client_open, NULL);
        else if (key != NULL) /* cancelled since it was selected */
            client_run(key->attachment, (key->ready & SELECT_READ) != 0);
    }
}

static int live(struct future_task *future) NO_LOCK_HELD
{
    (void)future;
    while (atomic_load(&cut_off_at) == INT64_MAX)
        take_events(listen_while_open(clients_expire()));
    clients_stop();
    for (int64_t left; (left = cut_off_at - clock_ms()) > 0;) {
        int sleep = clients_expire();
        if (list_is_empty(&clients))
            break;
        take_events(sleep >= 0 && sleep < left ? sleep : (int)left);
    }
    while (!list_is_empty(&clients))
        client_close(container_of(clients.next, struct client, link));
    return 0;
}

/* ---- Two threads ----------------------------------------------------------------------------- */

static void *loop_thread(void *argument)
{
    struct segment_cache cache;
    thread_holds_no_lock_yet();
    thread_set_name("loop");
    segment_cache_open(&cache, &server.buffers, SEGMENT_CACHE_LIMIT);
    task_run(&life.task);
    segment_cache_close(&cache);
    return argument;
}

static void wait_for_stop(void)
{
    struct pollfd signals = {.fd = server.signals.fd, .events = POLLIN};
    while (!server.signals.stop) {
        poll(&signals, 1, server_look_timeout(&server));
        signals_take(&server.signals);
        if (server.signals.report)
            server_report(&server);
    }
}

/* The loop may be asleep, or in a handler that hangs. */
static void stop_loop(pthread_t thread)
{
    int64_t end = clock_ms() + server.settings.drain_timeout;
    atomic_store(&cut_off_at, end);
    selector_wakeup(&selector);
    if (future_task_get(&life, end) == ETIMEDOUT)
        service_cut_short(&server.service);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    struct options options;
    struct application_choice choice;
    const struct selector_provider *provider;
    thread_holds_no_lock_yet();
    options_init(&options, program_invocation_short_name, "Echo on one thread, with limits.");
    server_options(&options, &server.settings, "7002");
    server_proxy_option(&options, &server.settings);
    application_options(&options, &choice, applications, OFFERS_WRITE_RATE);
    options_add(&options, selector_provider_option(&provider));
    log_service.options(&options);
    add_throttle(&options);
    int status = options_parse(&options, argc, argv);
    if (status == OPTIONS_SERVE)
        status = application_settle(&choice, &options, NULL);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, program_invocation_short_name) != 0)
        return EXIT_FAILURE;
    struct input_handler_factory *application = application_open(choice.chosen, &server);
    if (application == NULL || selector_open(&selector, provider) != 0 ||
        selector_register(&selector, &listening, server.listener.fd, SELECT_READ, NULL) != 0)
        return EXIT_FAILURE;
    factory = log_service.over(application, &server);
    verbs = connection_facade_verbs;
    verbs.set_write_rate = client_set_write_rate;
    list_init(&clients);
    timer_heap_init(&timers);
    admission_init(&admission, &server);
    future_monitor_init(&monitor);
    future_task_init(&life, &monitor, live, NULL);
    watch_open(&watch, &server, &watched);
    watch_add_loop(&watch, &loop, &selector, &server.counters, "loop");
    server_announce(&server, choice.chosen->name); /* settles how many clients there may be */
    pthread_t thread;
    if (thread_start(&thread, loop_thread, NULL) != 0)
        return EXIT_FAILURE;
    wait_for_stop();
    stop_loop(thread);
    watch_close(&watch);
    application_close(choice.chosen, application);
    timer_heap_destroy(&timers);
    server_close(&server);
    return EXIT_SUCCESS;
}
