#include "handler.h"

#include "common/base/container_of.h"

#include <stdlib.h>
#include <unistd.h>

static void handler_read(struct runnable *self) NO_LOCK_HELD;
static void handler_send(struct runnable *self) NO_LOCK_HELD;
static void handler_process(struct handler *handler) NO_LOCK_HELD;

/* ---- In the reactor's thread --------------------------------------------------------------- */

static bool handler_register(struct handler *handler, int fd)
{
    struct reactor *reactor = handler->reactor;
    return timer_heap_set(&reactor->timers, &handler->timer, INT64_MAX) &&
           selector_register(&reactor->selector, &handler->key, fd, SELECT_READ,
                             &handler->runnable) == 0;
}

bool handler_create(struct reactor *reactor, int fd)
{
    struct handler *handler = calloc(1, sizeof(*handler) + reactor->factory->handler_size);
    struct input_handler *input =
        handler != NULL ? input_handler_create(reactor->factory, handler->memory) : NULL;
    if (input == NULL) {
        free(handler);
        return false;
    }
    handler->runnable.run = handler_read;
    handler->reactor = reactor;
    connection_open(&handler->connection, &reactor->server->home, fd, input);
    connection_live_to(&handler->connection, LIFE_STARTING);
    if (!handler_register(handler, fd)) {
        timer_heap_cancel(&reactor->timers, &handler->timer);
        connection_detach(&handler->connection);
        free(handler);
        return false;
    }
    handler_process(handler);
    return true;
}

void handler_close(struct handler *handler)
{
    struct reactor *reactor = handler->reactor;
    timer_heap_cancel(&reactor->timers, &handler->timer);
    selector_cancel(&handler->key);
    close(connection_detach(&handler->connection));
    admission_leave(&reactor->admission);
    free(handler);
}

/* What the connection waits for decides which of Lea's two states comes next. */
static void handler_wait(struct handler *handler) NO_LOCK_HELD
{
    struct reactor *reactor = handler->reactor;
    unsigned wants = connection_wants(&handler->connection);
    if (wants == CONNECTION_RUN)
        wants = SELECT_WRITE; /* the others go first; a socket nearly always has room soon */
    if (wants == CONNECTION_OVER ||
        (wants != handler->key.interest && selector_interest(&handler->key, wants) != 0)) {
        handler_close(handler);
        return;
    }
    handler->runnable.run = (wants & SELECT_READ) != 0 ? handler_read : handler_send;
    timer_heap_set_by(&reactor->timers, &handler->timer,
                      connection_deadline(&handler->connection, reactor->now));
}

/*
 * Gives a whole request to a worker. If none takes it, or there is less than a request, the
 * reactor does it itself.
 */
static void handler_process(struct handler *handler)
{
    if (connection_find(&handler->connection, &handler->found)) {
        selector_interest(&handler->key, SELECT_NOTHING);
        handler->processing = true;
        if (workers_take(&handler->reactor->workers, handler))
            return;
        handler->processing = false;
    }
    handler_work(handler);
    handler_wait(handler);
}

/* State "reading": input has come, or room for what could not be sent before. */
static void handler_read(struct runnable *self)
{
    struct handler *handler = container_of(self, struct handler, runnable);
    if ((handler->key.ready & SELECT_READ) != 0)
        connection_receive(&handler->connection);
    handler_process(handler);
}

/* State "sending": there is room for output, and nothing is read before that has left. */
static void handler_send(struct runnable *self)
{
    handler_process(container_of(self, struct handler, runnable));
}

/* A timer that fires too early, because its clock has begun anew, is only set again. */
void handler_expire(struct handler *handler)
{
    struct reactor *reactor = handler->reactor;
    timer_heap_set(&reactor->timers, &handler->timer, INT64_MAX);
    if (handler->processing)
        return; /* its timer is set again when it is back */
    bool stops = reactor->stopping && connection_ask(&handler->connection, ASK_STOP, 0);
    if (connection_expire(&handler->connection, reactor->now) || stops)
        handler_process(handler);
    else
        handler_wait(handler);
}

void handler_go_on(struct handler *handler)
{
    handler->processing = false;
    if (handler->reactor->stopping && connection_ask(&handler->connection, ASK_STOP, 0))
        handler_process(handler);
    else
        handler_wait(handler);
}

struct handler *handler_of_timer(struct timer *timer)
{
    return container_of(timer, struct handler, timer);
}

/* ---- In a worker --------------------------------------------------------------------------- */

void handler_work(struct handler *handler)
{
    connection_handle_found(&handler->connection, HANDLE_MESSAGES, &handler->found);
    connection_send(&handler->connection);
}

void handler_hand_back(struct handler *handler)
{
    reactor_hand_back(handler->reactor, handler);
}
