/*
 * The core's steps: the server of step 2.5, with a queue, a chain, an application (echo.c) that
 * sees neither epoll nor a socket, and a listener that has an answer when no descriptor is left.
 *
 * Left out on purpose: a limit to the time for which a client that has to go may stay (C.8), and to
 * the number of clients (C.9).
 */
#include "common/base/container_of.h"
#include "common/events/selection.h"
#include "common/server/input_handler_calls.h"
#include "common/server/run.h"
#include "common/server/sockets.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 65536, MESSAGES_PER_TURN = 64 };

static const struct output_settings settings = {
    .high_mark = 65536, .low_mark = 16384, .cap = 1048576};

/* What a thread would keep on its stack: how far this client has got. */
struct client {
    struct channel_facade facade; /* what the handler holds */
    struct input_handler *handler;
    int fd;
    unsigned interest; /* what epoll reports: EPOLLIN, or EPOLLOUT while there is work left */
    struct input_queue input;
    enum framing_result found; /* what the last search for a line has found */
    bool ends;                 /* no further line is answered */
    bool peer_ended;           /* it has sent its last byte */
    struct output_chain output;
};

extern struct input_handler_verbs echo_verbs;
extern struct input_handler echo_handler;

static int epoll;
static struct listener listener;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void listen_on(long port)
{
    struct endpoint place;
    char text[ENDPOINT_TEXT_SIZE];
    endpoint_parse(&place, "127.0.0.1", (unsigned)port);
    if (listener_open(&listener, &place, 0) != 0)
        die("listen");
    endpoint_format(&listener.endpoint, text);
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
    input_handler_end_of_input(client->handler, &client->facade);
    input_handler_stopping(client->handler, &client->facade);
    output_chain_close(&client->output);
    input_handler_stopped(client->handler, &client->facade);
    input_queue_clear(&client->input);
    close(client->fd); /* epoll forgets a descriptor that is closed */
    free(client);
}

/* ---- What the handler may call --------------------------------------------------------------- */

static struct client *client_of(struct channel_facade *facade)
{
    return container_of(facade, struct client, facade);
}

static struct input_queue *facade_input(struct channel_facade *facade)
{
    return &client_of(facade)->input;
}

static enum output_result facade_enqueue(struct channel_facade *facade, struct piece piece)
{
    return output_chain_enqueue(&client_of(facade)->output, piece);
}

static void facade_close(struct channel_facade *facade)
{
    client_of(facade)->ends = true;
}

static const struct channel_facade_verbs facade_verbs = {
    .input = facade_input, .enqueue = facade_enqueue, .close = facade_close};

/* ---- A run ----------------------------------------------------------------------------------- */

/* Holds the answers back until the end of the run, unless a message came alone. */
static void client_hand_over(struct client *client, struct run *run,
                             struct message message) NO_LOCK_HELD
{
    bool alone = input_queue_is_empty(&client->input);
    if (!run->corks && !(alone && (input_handler_traits(client->handler) & TRAIT_ONE_PIECE) != 0)) {
        run->corks = true;
        output_chain_cork(&client->output);
    }
    if (!input_handler_handle_input(client->handler, message, &client->facade))
        channel_close(&client->facade);
}

/* Has a turn of messages handled. */
static void client_answer(struct client *client, struct run *run) NO_LOCK_HELD
{
    struct message message;
    int messages = MESSAGES_PER_TURN;
    do {
        client->found = input_handler_next_message(client->handler, &client->facade, &message);
        if (client->found == FRAMING_MESSAGE)
            client_hand_over(client, run, message);
    } while (client->found == FRAMING_MESSAGE && !client->ends && --messages > 0);
    input_queue_retire(&client->input);
    if (client->found == FRAMING_TOO_LONG)
        channel_close(&client->facade);
}

/* Whether there may be another message, which no event will tell of. */
static bool client_has_message(const struct client *client)
{
    return client->found == FRAMING_MESSAGE && !input_queue_is_empty(&client->input);
}

/* Reads what has arrived into the input. False if the connection is lost. */
static bool client_read(struct client *client)
{
    ssize_t n = input_queue_fill(&client->input, client->fd);
    if (n == 0)
        client->ends = client->peer_ended = true;
    return n >= 0 || errno == EAGAIN;
}

/* What it sends is dropped until it closes: a close of ours would reset what it has not read. */
static bool client_drop(struct client *client)
{
    char dropped[4096];
    ssize_t n = recv(client->fd, dropped, sizeof(dropped), 0);
    if (n == 0)
        client->peer_ended = true;
    return n >= 0 || errno == EAGAIN;
}

/*
 * What the client waits for. One that has messages left after its turn waits for room to write, as
 * in step 2.5; so does one whose output waits. One that is choked is not read.
 */
static enum selection client_wants(const struct client *client)
{
    enum output_result output = output_chain_look(&client->output);
    bool has_message = !client->ends && client_has_message(client);
    bool reads = client->ends || (!has_message && output < OUTPUT_CHOKED);
    return (output != OUTPUT_FLOWING || has_message ? SELECT_WRITE : 0u) |
           (reads && !client->peer_ended ? SELECT_READ : 0u);
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
    return epoll_ctl(epoll, EPOLL_CTL_MOD, client->fd, &event) == 0;
}

/* A run: read, handle a turn's worth of messages, send. False if the connection is over. */
static bool client_serve(struct client *client) NO_LOCK_HELD
{
    bool open = true;
    struct run run = {.corks = false};
    if (client->ends && !client->peer_ended) {
        open = client_drop(client);
    } else if (output_chain_look(&client->output) < OUTPUT_CHOKED) {
        if (!client_has_message(client))
            open = client_read(client);
        if (open && !client->ends)
            client_answer(client, &run);
    }
    enum output_result output = output_chain_uncork(&client->output);
    if (!open || output == OUTPUT_BROKEN)
        return false;
    if (client->ends && output == OUTPUT_FLOWING) {
        if (client->peer_ended)
            return false;
        shutdown(client->fd, SHUT_WR);
    }
    return client_wait(client);
}

static void client_run(struct client *client) NO_LOCK_HELD
{
    if (!client_serve(client))
        client_close(client);
}

/* Takes in the next one. Whoever cannot be served is told so. */
static void accept_client(void) NO_LOCK_HELD
{
    const struct log log_of_ours = {program_invocation_short_name, LOG_LEVEL_WARN};
    int fd;
    if (listener_accept(&listener, SOCK_NONBLOCK, &log_of_ours, &fd) != ACCEPT_CONNECTION)
        return;
    struct client *client = malloc(sizeof(*client));
    if (client == NULL || watch(fd, client) != 0) {
        free(client);
        socket_turn_away(fd, listener.turn_away);
        return;
    }
    client->facade.verbs = &facade_verbs;
    client->handler = &echo_handler;
    client->fd = fd;
    client->interest = EPOLLIN;
    client->ends = client->peer_ended = false;
    client->found = FRAMING_INCOMPLETE;
    output_chain_init(&client->output, &settings, fd);
    input_queue_init(&client->input, NULL, line_framing_input_limit(LINE_MAX_BYTES));
    input_handler_starting(client->handler, &client->facade);
    input_handler_started(client->handler, &client->facade);
} /* epoll has the address now: NOLINT(clang-analyzer-unix.Malloc) */

int main(int argc, char **argv)
{
    long port = argc == 3 && strcmp(argv[1], "--port") == 0 ? strtol(argv[2], NULL, 10) : 7002;
    thread_holds_no_lock_yet();
    input_handler_complete(&echo_verbs);
    listen_on(port);
    signal(SIGPIPE, SIG_IGN); /* writev(2) cannot be told MSG_NOSIGNAL (step 1.2) */
    epoll = epoll_create1(0);
    if (epoll < 0 || watch(listener.fd, &listener) != 0)
        die("epoll");
    for (;;) {
        struct epoll_event ready[64];
        int count = epoll_wait(epoll, ready, 64, -1);
        for (int i = 0; i < count; i++) {
            if (ready[i].data.ptr == &listener)
                accept_client();
            else
                client_run(ready[i].data.ptr);
        }
    }
}
