/*
 * The core's steps: one thread, an application, and the connection that all servers of
 * this course share between them. What is left here is how a thread waits.
 *
 * Left out on purpose: a way to the next client whose time is over that does not lead past all of
 * them (C.26 has a heap).
 */
#include "common/apps/application.h"
#include "common/base/list.h"
#include "common/server/admission.h"
#include "common/server/connection.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

extern const struct application echo_application;

struct client {
    struct connection connection;            /* what a thread would keep on its stack */
    unsigned interest;                       /* what epoll reports */
    struct list_link link;                   /* in clients */
    int64_t deadline;                        /* when to look at it, though nothing happens */
    alignas(int64_t) unsigned char memory[]; /* the application's handler */
};

static int epoll;
static bool listens; /* epoll reports new clients */
static struct server server;
static struct input_handler_factory *factory;
static struct admission admission;
static struct list_link clients;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void listen_on(unsigned port)
{
    struct endpoint place;
    char text[ENDPOINT_TEXT_SIZE];
    endpoint_parse(&place, "127.0.0.1", port);
    if (listener_open(&server.listener, &place, 0) != 0)
        die("listen");
    endpoint_format(&server.listener.endpoint, text);
    printf("%s: echo on %s\n", program_invocation_short_name, text);
    fflush(stdout);
}

/* Asks epoll to report when there is something to read, and to give us this pointer then. */
static int watch(int fd, void *attachment)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = attachment};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void client_close(struct client *client) NO_LOCK_HELD
{
    int fd = connection_detach(&client->connection);
    list_remove(&client->link);
    close(fd); /* epoll forgets a descriptor that is closed */
    free(client);
    admission_leave(&admission);
}

/*
 * Has epoll wait for what the connection wants. One that has more to do waits for room to write, as
 * in step 2.5: there nearly always is some. False if the connection is over.
 */
static bool client_wait(struct client *client)
{
    unsigned wanted = connection_wants(&client->connection);
    unsigned interest = ((wanted & (SELECT_WRITE | CONNECTION_RUN)) != 0 ? EPOLLOUT : 0u) |
                        ((wanted & SELECT_READ) != 0 ? EPOLLIN : 0u);
    struct epoll_event event = {.events = interest, .data.ptr = client};
    if (wanted == CONNECTION_OVER || interest == client->interest)
        return wanted != CONNECTION_OVER;
    client->interest = interest;
    return epoll_ctl(epoll, EPOLL_CTL_MOD, client->connection.output.fd, &event) == 0;
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
        client->deadline = connection_deadline(&client->connection, run.now);
    else
        client_close(client);
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* Runs all whose time is over; for how long epoll may sleep until the next one's is. */
static int clients_expire(void) NO_LOCK_HELD
{
    int64_t now = clock_ms(), next = INT64_MAX;
    for (struct list_link *link = clients.next, *behind; link != &clients; link = behind) {
        struct client *client = container_of(link, struct client, link);
        behind = link->next;
        if (client->deadline <= now && connection_expire(&client->connection, now)) {
            client_run(client, false);
            next = now; /* its own next one is not looked at yet */
            continue;
        }
        if (client->deadline <= now)
            client->deadline = connection_deadline(&client->connection, now);
        if (client->deadline < next)
            next = client->deadline;
    }
    int64_t left = next > now ? next - now : 0;
    return left < INT32_MAX ? (int)left : -1;
}

/* Begins to serve one. False if that is not possible: then admission tells it so. */
static bool client_open(void *context, int fd) NO_LOCK_HELD
{
    (void)context;
    struct client *client = calloc(1, sizeof(*client) + factory->handler_size);
    if (client == NULL || watch(fd, client) != 0) {
        free(client);
        return false;
    }
    client->interest = EPOLLIN;
    list_append(&clients, &client->link);
    connection_open(&client->connection, &server.home, fd,
                    input_handler_create(factory, client->memory));
    connection_advance(&client->connection, LIFE_STARTING);
    client_run(client, false); /* the handler's life begins without an event */
    return true;
} /* epoll has the address now: NOLINT(clang-analyzer-unix.Malloc) */

/* Has epoll report new clients while they can be served; for how long it may sleep, in ms. */
static int listen_while_open(int sleep)
{
    bool open = admission_is_open(&admission);
    struct epoll_event event = {.events = open ? EPOLLIN : 0u, .data.ptr = &server.listener};
    if (open != listens)
        epoll_ctl(epoll, EPOLL_CTL_MOD, server.listener.fd, &event);
    listens = open;
    return admission_is_backing_off(&admission) ? SERVER_BACK_OFF_MS : sleep;
}

int main(int argc, char **argv)
{
    struct options options;
    thread_holds_no_lock_yet();
    options_init(&options, program_invocation_short_name, "Echo on one thread, with limits.");
    server_options(&options, &server.settings, "7002");
    int status = options_parse(&options, argc, argv);
    if (status != OPTIONS_SERVE)
        return status;
    server.name = program_invocation_short_name;
    if (server.settings.max_connections == 0)
        server.settings.max_connections = SERVER_MAX_CONNECTIONS;
    server.home =
        (struct connection_home){.server = &server,
                                 .counters = &server.counters,
                                 .output = {.high_mark = 65536, .low_mark = 16384, .cap = 1048576}};
    service_init(&server.service);
    server.service.work_us = server.settings.work_us;
    server.service.block_ms = server.settings.block_ms;
    admission_init(&admission, &server);
    factory = application_open(&echo_application, &server);
    if (factory == NULL)
        return EXIT_FAILURE;
    list_init(&clients);
    listen_on((unsigned)server.settings.port);
    signal(SIGPIPE, SIG_IGN); /* writev(2) cannot be told MSG_NOSIGNAL (step 1.2) */
    epoll = epoll_create1(0);
    if (epoll < 0 || watch(server.listener.fd, &server.listener) != 0)
        die("epoll");
    listens = true;
    for (;;) {
        struct epoll_event ready[64];
        int count = epoll_wait(epoll, ready, 64, listen_while_open(clients_expire()));
        for (int i = 0; i < count; i++) {
            if (ready[i].data.ptr == &server.listener)
                admission_accept(&admission, &server.listener, SOCK_NONBLOCK, client_open, NULL);
            else
                client_run(ready[i].data.ptr, (ready[i].events & ~(unsigned)EPOLLOUT) != 0);
        }
    }
}
