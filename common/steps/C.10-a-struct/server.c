/*
 * The core's steps: the server of step 2.5, with a queue, a chain, an application (echo.c) that
 * sees neither epoll nor a socket, limits to times and places, and one struct for what a client is
 * like at the moment, which is the connection of all our servers.
 *
 * Left out on purpose: a way to the next client whose time is over that does not lead past all of
 * them (C.26 has a heap).
 */
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

enum { MESSAGES_PER_TURN = 64 };

static const struct output_settings output_settings = {
    .high_mark = 65536, .low_mark = 16384, .cap = 1048576};

struct client {
    struct connection connection; /* what a thread would keep on its stack */
    unsigned interest;            /* what epoll reports */
    struct list_link link;        /* in clients */
};

extern struct input_handler_verbs echo_verbs;
extern struct input_handler echo_handler;

static int epoll;
static bool listens; /* epoll reports new clients */
static struct server server;
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
    input_handler_end_of_input(client->connection.handler, &client->connection.facade);
    input_handler_stopping(client->connection.handler, &client->connection.facade);
    output_chain_close(&client->connection.output);
    input_handler_stopped(client->connection.handler, &client->connection.facade);
    input_queue_clear(&client->connection.input);
    list_remove(&client->link);
    close(client->connection.output.fd); /* epoll forgets a descriptor that is closed */
    free(client);
    admission_leave(&admission);
}

/* ---- What the handler may call --------------------------------------------------------------- */

static struct client *client_of(struct channel_facade *facade)
{
    return container_of(facade, struct client, connection.facade);
}

static struct input_queue *facade_input(struct channel_facade *facade)
{
    return &client_of(facade)->connection.input;
}

static enum output_result facade_enqueue(struct channel_facade *facade, struct piece piece)
{
    return output_chain_enqueue(&client_of(facade)->connection.output, piece);
}

static void facade_close(struct channel_facade *facade)
{
    atomic_fetch_or(&client_of(facade)->connection.asked, ASK_CLOSE);
}

static const struct channel_facade_verbs facade_verbs = {
    .input = facade_input, .enqueue = facade_enqueue, .close = facade_close};

static bool client_is_asked(const struct client *client, unsigned requests)
{
    return connection_is_asked(&client->connection, requests);
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* Holds the answers back until the end of the run, unless a message came alone. */
static void client_hand_over(struct client *client, struct run *run,
                             struct message message) NO_LOCK_HELD
{
    bool alone = input_queue_is_empty(&client->connection.input);
    deadlines_message(&client->connection.deadlines);
    if (!run->corks &&
        !(alone && (input_handler_traits(client->connection.handler) & TRAIT_ONE_PIECE) != 0)) {
        run->corks = true;
        output_chain_cork(&client->connection.output);
    }
    if (!input_handler_handle_input(client->connection.handler, message,
                                    &client->connection.facade))
        channel_close(&client->connection.facade);
}

/* Has a turn of messages handled. What is left is more of them, or a part of one. */
static void client_answer(struct client *client, struct run *run) NO_LOCK_HELD
{
    struct message message;
    int messages = MESSAGES_PER_TURN;
    enum framing_result found;
    do {
        found = input_handler_next_message(client->connection.handler, &client->connection.facade,
                                           &message);
        if (found == FRAMING_MESSAGE)
            client_hand_over(client, run, message);
    } while (found == FRAMING_MESSAGE && !client_is_asked(client, ASK_CLOSE) && --messages > 0);
    input_queue_retire(&client->connection.input);
    client->connection.marks &= ~(unsigned)(MARK_MORE | MARK_PART);
    if (!input_queue_is_empty(&client->connection.input))
        client->connection.marks |= found == FRAMING_MESSAGE ? MARK_MORE : MARK_PART;
    if (found == FRAMING_TOO_LONG)
        channel_close(&client->connection.facade);
}

/* Reads what has arrived into the input. False if the connection is lost. */
static bool client_read(struct client *client)
{
    ssize_t n = input_queue_fill(&client->connection.input, client->connection.output.fd);
    if (n >= 0)
        client->connection.marks |= n > 0 ? MARK_RECEIVED : MARK_PEER_ENDED | MARK_INPUT_OVER;
    return n >= 0 || errno == EAGAIN;
}

/* What it sends is dropped until it closes: a close of ours would reset what it has not read. */
static bool client_drop(struct client *client)
{
    char dropped[4096];
    ssize_t n = recv(client->connection.output.fd, dropped, sizeof(dropped), 0);
    if (n == 0)
        client->connection.marks |= MARK_PEER_ENDED;
    return n >= 0 || errno == EAGAIN;
}

/*
 * What the client waits for. One that has messages left after its turn waits for room to write, as
 * in step 2.5; so does one whose output waits. One that is choked is not read.
 */
static enum selection client_wants(const struct client *client)
{
    enum output_result output = output_chain_look(&client->connection.output);
    bool has_message =
        client->connection.phase == CONNECTION_OPEN && (client->connection.marks & MARK_MORE) != 0;
    bool reads =
        client->connection.phase != CONNECTION_OPEN || (!has_message && output < OUTPUT_CHOKED);
    return (output != OUTPUT_FLOWING || has_message ? SELECT_WRITE : 0u) |
           (reads && (client->connection.marks & MARK_PEER_ENDED) == 0 ? SELECT_READ : 0u);
}

static bool client_wait(struct client *client)
{
    enum selection wanted = client_wants(client);
    unsigned interest = ((wanted & SELECT_WRITE) != 0 ? EPOLLOUT : 0u) |
                        ((wanted & SELECT_READ) != 0 ? EPOLLIN : 0u);
    struct epoll_event event = {.events = interest, .data.ptr = client};
    if (interest == client->interest)
        return true;
    client->interest = interest;
    return epoll_ctl(epoll, EPOLL_CTL_MOD, client->connection.output.fd, &event) == 0;
}

/* What moved in this run, and what has not come to its end: that is when times begin and end. */
static void client_ran(struct client *client, int64_t now, enum output_result output)
{
    deadlines_ran(
        &client->connection.deadlines, now, (client->connection.marks & MARK_RECEIVED) != 0,
        client->connection.phase == CONNECTION_OPEN && (client->connection.marks & MARK_PART) != 0,
        output_chain_newly_sent(&client->connection.output));
    deadlines_output(&client->connection.deadlines, now, output != OUTPUT_FLOWING);
    client->connection.marks &= ~(unsigned)MARK_RECEIVED;
}

/* All is sent: the peer has a moment to read it, and to close. */
static void client_linger(struct client *client, int64_t now)
{
    deadlines_received(&client->connection.deadlines, now);
    client->connection.phase = CONNECTION_LINGERING;
    shutdown(client->connection.output.fd, SHUT_WR);
}

/* How far it is when a run is over. Phases only go forward. */
static void client_decide(struct client *client, enum output_result output, int64_t now)
{
    if (client->connection.phase == CONNECTION_OPEN &&
        (client_is_asked(client, ASK_CLOSE) ||
         (client->connection.marks & (MARK_INPUT_OVER | MARK_MORE)) == MARK_INPUT_OVER))
        client->connection.phase = CONNECTION_DRAINING;
    if (client->connection.phase == CONNECTION_DRAINING && output == OUTPUT_FLOWING)
        client_linger(client, now);
    if (client->connection.phase == CONNECTION_LINGERING &&
        (client->connection.marks & MARK_PEER_ENDED) != 0)
        client->connection.phase = CONNECTION_ENDED;
}

/* A run: read, handle a turn's worth of messages, send. False if the connection is over. */
static bool client_serve(struct client *client) NO_LOCK_HELD
{
    bool open = true;
    struct run run = {.now = clock_ms()};
    if (client->connection.phase != CONNECTION_OPEN) {
        open = client_drop(client);
    } else if (output_chain_look(&client->connection.output) < OUTPUT_CHOKED) {
        if ((client->connection.marks & (MARK_MORE | MARK_INPUT_OVER)) == 0)
            open = client_read(client);
        if (open)
            client_answer(client, &run);
    }
    enum output_result output = output_chain_uncork(&client->connection.output);
    if (!open || output == OUTPUT_BROKEN)
        return false;
    client_ran(client, run.now, output);
    client_decide(client, output, run.now);
    return client->connection.phase != CONNECTION_ENDED && client_wait(client);
}

static void client_run(struct client *client) NO_LOCK_HELD
{
    if (!client_serve(client))
        client_close(client);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static int64_t client_deadline(const struct client *client, int64_t now)
{
    return client->connection.phase == CONNECTION_LINGERING
               ? deadlines_active(&client->connection.deadlines, now) + SERVER_LINGER_MS
               : deadlines_next(&client->connection.deadlines, &server.settings.deadlines, now);
}

/* A client that reads is not idle, even if the socket has been full for it all the time. */
static void client_look_at_peer(struct client *client, int64_t now)
{
    if (deadlines_acknowledged(&client->connection.deadlines, now,
                               socket_unacknowledged(client->connection.output.fd)))
        deadlines_moved(&client->connection.deadlines,
                        now - socket_send_age(client->connection.output.fd));
}

/* Disconnects all whose time is over; for how long epoll may sleep until the next one's is. */
static int clients_expire(void) NO_LOCK_HELD
{
    int64_t now = clock_ms(), next = INT64_MAX;
    for (struct list_link *link = clients.next, *behind; link != &clients; link = behind) {
        struct client *client = container_of(link, struct client, link);
        behind = link->next;
        if (client_deadline(client, now) <= now)
            client_look_at_peer(client, now);
        int64_t until = client_deadline(client, now);
        if (until <= now)
            client_close(client);
        else if (until < next)
            next = until;
    }
    return next < now + INT32_MAX ? (int)(next - now) : -1;
}

/* Begins to serve one. False if that is not possible: then admission tells it so. */
static bool client_open(void *context, int fd) NO_LOCK_HELD
{
    (void)context;
    struct client *client = malloc(sizeof(*client));
    if (client == NULL || watch(fd, client) != 0) {
        free(client);
        return false;
    }
    *client = (struct client){.interest = EPOLLIN};
    client->connection.facade.verbs = &facade_verbs;
    client->connection.handler = &echo_handler;
    client->connection.phase = CONNECTION_OPEN;
    deadlines_start(&client->connection.deadlines, clock_ms());
    list_append(&clients, &client->link);
    output_chain_init(&client->connection.output, &output_settings, fd);
    input_queue_init(&client->connection.input, NULL,
                     line_framing_input_limit(server.settings.max_line));
    input_handler_starting(client->connection.handler, &client->connection.facade);
    input_handler_started(client->connection.handler, &client->connection.facade);
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
    input_handler_complete(&echo_verbs);
    options_init(&options, program_invocation_short_name, "Echo on one thread, with limits.");
    server_options(&options, &server.settings, "7002");
    int status = options_parse(&options, argc, argv);
    if (status != OPTIONS_SERVE)
        return status;
    if (server.settings.max_connections == 0)
        server.settings.max_connections = SERVER_MAX_CONNECTIONS;
    admission_init(&admission, &server);
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
                client_run(ready[i].data.ptr);
        }
    }
}
