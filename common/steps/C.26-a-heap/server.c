/*
 * The core's steps: one thread, an application, and the connection that all servers of
 * this course share between them. What is left here is how a thread waits.
 *
 * Told to stop, it answers what has arrived, and ends when all clients have, or after a time. Clients
 * may come through a proxy that says who they are (--proxy-protocol).
 */
#include "common/apps/application_choice.h"
#include "common/base/list.h"
#include "common/events/selector_provider.h"
#include "common/events/timer_heap.h"
#include "common/server/admission.h"
#include "common/server/connection.h"

#include <errno.h>
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
static struct selection_key listening, signalled;
static struct server server;
static struct input_handler_factory *factory;
static struct admission admission;
static struct list_link clients;
static struct timer_heap timers; /* one for each client */

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
    return timer_heap_timeout(&timers, now);
}

/* Begins to serve one. False if that is not possible: then admission tells it so. */
static bool client_open(void *context, int fd) NO_LOCK_HELD
{
    (void)context;
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

static void take_signals(void)
{
    signals_take(&server.signals);
    if (server.signals.report)
        server_report(&server);
}

/* What has happened, or nothing if the time is over. */
static void take_events(int sleep) NO_LOCK_HELD
{
    size_t count = selector_select(&selector, sleep);
    for (size_t i = 0; i < count; i++) {
        struct selection_key *key = selector_selected(&selector, i);
        if (key == &listening)
            admission_accept(&admission, &server.listener, SOCK_NONBLOCK, client_open, NULL);
        else if (key == &signalled)
            take_signals();
        else if (key != NULL) /* cancelled since it was selected */
            client_run(key->attachment, (key->ready & SELECT_READ) != 0);
    }
}

static void serve(void) NO_LOCK_HELD
{
    while (!server.signals.stop)
        take_events(listen_while_open(clients_expire()));
    int64_t end = clock_ms() + server.settings.drain_timeout;
    clients_stop();
    for (int64_t left; (left = end - clock_ms()) > 0;) {
        int sleep = clients_expire();
        if (list_is_empty(&clients))
            break;
        take_events(sleep >= 0 && sleep < left ? sleep : (int)left);
    }
    while (!list_is_empty(&clients))
        client_close(container_of(clients.next, struct client, link));
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
    application_options(&options, &choice, applications, 0);
    options_add(&options, selector_provider_option(&provider));
    int status = options_parse(&options, argc, argv);
    if (status == OPTIONS_SERVE)
        status = application_settle(&choice, &options, NULL);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, program_invocation_short_name) != 0)
        return EXIT_FAILURE;
    factory = application_open(choice.chosen, &server);
    if (factory == NULL || selector_open(&selector, provider) != 0 ||
        selector_register(&selector, &listening, server.listener.fd, SELECT_READ, NULL) != 0 ||
        selector_register(&selector, &signalled, server.signals.fd, SELECT_READ, NULL) != 0)
        return EXIT_FAILURE;
    list_init(&clients);
    timer_heap_init(&timers);
    admission_init(&admission, &server);
    server_announce(&server, choice.chosen->name);
    serve();
    application_close(choice.chosen, factory);
    timer_heap_destroy(&timers);
    server_close(&server);
    return EXIT_SUCCESS;
}
