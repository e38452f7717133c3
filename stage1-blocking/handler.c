#include "handler.h"

#include "common/base/clock.h"
#include "common/base/trace.h"
#include "handler_threads.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/time.h>

enum {
    RECEIVE_MS = 50, /* how long recv waits for a client that has just been answered */
};

/*
 * Takes the segment that the thread will read into from the heap now, in the acceptor's thread,
 * because here we can still tell the client that there is no memory. It also saves memory: the C
 * library makes a cache for each thread that calls malloc.
 */
struct handler *handler_create(struct handler_threads *threads, int fd)
{
    struct server *server = threads->server;
    struct input_handler_factory *factory = server->listener.factory;
    struct handler *handler = calloc(1, sizeof(*handler) + factory->handler_size);
    struct input_handler *input = NULL;
    if (handler != NULL && buffer_factory_stock(&server->buffers))
        input = input_handler_create(factory, handler->memory);
    if (input == NULL) {
        free(handler);
        return NULL;
    }
    handler->threads = threads;
    handler->deadline = INT64_MAX;
    connection_open(&handler->connection, &server->home, fd, input);
    return handler;
}

int handler_release(struct handler *handler)
{
    int fd = connection_detach(&handler->connection);
    wakeup_close(&handler->wakeup);
    free(handler);
    return fd;
}

void handler_wake(struct connection *connection, struct channel_hold *hold)
{
    (void)hold;
    wakeup_ring(&container_of(connection, struct handler, connection)->wakeup);
}

/*
 * Sleeps until the socket is ready for what is wanted, the next deadline comes, the server begins
 * to stop, or another thread tells its handler to go on. A recv would wait for the first of these
 * only. Without a descriptor to be woken by it looks round again soon. True: it can be read.
 */
static bool sleep_until(struct handler *handler, unsigned wants, int64_t now)
{
    struct connection *connection = &handler->connection;
    handler->deadline = connection_deadline(connection, now);
    int64_t left = handler->deadline > now ? handler->deadline - now : 0;
    bool is_deaf = (connection->marks & MARK_HELD) != 0 && !wakeup_open(&handler->wakeup);
    if (connection_is_asked(connection, ASK_CALLS)) /* before it could be woken */
        left = 0;
    else if (is_deaf && left > RECEIVE_MS)
        left = RECEIVE_MS;
    short events = (wants & SELECT_READ) != 0 ? POLLIN : 0; /* a reset comes unasked */
    events |= (wants & SELECT_WRITE) != 0 ? POLLOUT : 0;
    struct pollfd fds[] = {
        {.fd = wants != SELECT_NOTHING ? connection->output.fd : -1, .events = events},
        {.fd = handler->knows_stop ? -1 : handler->threads->stop, .events = POLLIN},
        {.fd = wakeup_fd(&handler->wakeup), .events = POLLIN},
    };
    poll(fds, 3, left < INT_MAX ? (int)left : -1);
    if (fds[2].revents != 0)
        wakeup_hear(&handler->wakeup);
    return (fds[0].revents & ~POLLOUT) != 0;
}

/*
 * Whether to wait in recv, for RECEIVE_MS at most. Most clients send the next line that soon, and
 * then one system call is enough. For a client that is quiet for longer the thread sleeps in poll.
 * So it hears of a stop, and of a deadline, at most RECEIVE_MS late.
 */
static bool receives_at_once(const struct handler *handler, unsigned wants)
{
    return !handler->is_quiet && wants == SELECT_READ &&
           (handler->connection.marks & MARK_HELD) == 0 &&
           handler->connection.phase == CONNECTION_OPEN;
}

static void receive(struct handler *handler, unsigned wants, int64_t now)
{
    struct connection *connection = &handler->connection;
    trace_event(TRACE_BLOCKED_READ, connection->output.fd, 0);
    if (receives_at_once(handler, wants)) {
        if (connection->marks != 0) /* else the deadline has not come nearer */
            handler->deadline = connection_deadline(connection, now);
        handler->is_quiet = !connection_receive(connection);
    } else if (sleep_until(handler, wants, now)) {
        handler->is_quiet = !connection_receive(connection) || !handler->has_patience;
    }
    trace_event(TRACE_BLOCKED_READ_DONE, connection->output.fd, 0);
}

static bool set_socket_timeout(int fd, int option, int64_t ms)
{
    struct timeval timeout = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    return setsockopt(fd, SOL_SOCKET, option, &timeout, sizeof(timeout)) == 0;
}

/* Lets the next send last until the next deadline, and no longer. */
static void set_timeout(struct handler *handler, int64_t now)
{
    struct connection *connection = &handler->connection;
    int64_t next = connection_deadline(connection, now);
    handler->deadline = next;
    if (next == INT64_MAX && !handler->has_timeout)
        return;
    int64_t left = next == INT64_MAX ? 0 : next > now ? next - now : 1; /* 0: none at all */
    set_socket_timeout(connection->output.fd, SO_SNDTIMEO, left);
    handler->has_timeout = true;
}

/*
 * Only what could not leave at once can make it wait. A connection that is to close must not wait
 * in send, because a client that first sends all it has reads nothing before: so it waits in poll,
 * for either. Returns what time it is then.
 */
static int64_t send_all(struct handler *handler, struct run *run) NO_LOCK_HELD
{
    struct connection *connection = &handler->connection;
    if (!connection_will_block(connection)) {
        connection_send(connection, run);
        return run->now;
    }
    if (connection->phase == CONNECTION_DRAINING)
        fcntl(connection->output.fd, F_SETFL, O_NONBLOCK);
    else
        set_timeout(handler, clock_ms());
    connection_send(connection, run);
    return clock_ms();
}

/* Read, process, write. There is no selector: the thread waits for its client's bytes, and room. */
void handler_run(struct handler *handler)
{
    struct connection *connection = &handler->connection;
    unsigned wants = CONNECTION_RUN;
    int64_t now = clock_ms();
    handler->has_patience = set_socket_timeout(connection->output.fd, SO_RCVTIMEO, RECEIVE_MS);
    handler->is_quiet = !handler->has_patience; /* recv would wait forever */
    connection_advance(connection, LIFE_STARTING);
    while (wants != CONNECTION_OVER) {
        struct run run = {0};
        if ((wants & SELECT_READ) != 0)
            receive(handler, wants, now);
        else if (wants != CONNECTION_RUN) /* there is no room, or input is suspended */
            sleep_until(handler, wants, now);
        handler->knows_stop = connection_is_asked(connection, ASK_STOP);
        connection_handle(connection, &run, HANDLE_MESSAGES);
        now = send_all(handler, &run);
        if (now >= handler->deadline && !connection_is_over(connection))
            connection_expire(connection, now);
        wants = connection_wants(connection);
    }
}
