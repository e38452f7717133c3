#include "handler.h"

#include "common/base/container_of.h"

#include <stdlib.h>
#include <unistd.h>

static void handler_read(struct selection_key *key) NO_LOCK_HELD;
static void handler_send(struct selection_key *key) NO_LOCK_HELD;
static void handler_process(struct handler *handler) NO_LOCK_HELD;

/* Lea's two states. */
static struct runnable reading = {handler_read};
static struct runnable sending = {handler_send};

static bool handler_register(struct reactor *reactor, struct handler *handler, int fd)
{
    return timer_heap_set(&reactor->timers, &handler->timer, INT64_MAX) &&
           selector_register(&reactor->selector, &handler->key, fd, SELECT_READ, &reading) == 0;
}

bool handler_create(struct reactor *reactor, int fd)
{
    struct input_handler_factory *factory = reactor->server->listener.factory;
    loop_serves(&reactor->loop, fd);
    struct handler *handler = calloc(1, sizeof(*handler) + factory->handler_size);
    struct input_handler *input =
        handler != NULL ? input_handler_create(factory, handler->memory) : NULL;
    if (input == NULL) {
        free(handler);
        return false;
    }
    connection_open(&handler->connection, &reactor->server->home, fd, input);
    connection_advance(&handler->connection, LIFE_STARTING);
    if (!handler_register(reactor, handler, fd)) {
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
    struct reactor *reactor = reactor_of(&handler->key);
    loop_serves(&reactor->loop, handler->key.fd);
    timer_heap_cancel(&reactor->timers, &handler->timer);
    selector_cancel(&handler->key);
    close(connection_detach(&handler->connection));
    told_list_forget(&reactor->told, &handler->connection);
    admission_leave(&reactor->admission);
    free(handler);
}

/* Whether it is in the reactor's list: then the next key there is attached, and no state. */
static bool handler_has_turn(const struct handler *handler)
{
    return handler->key.attachment != &reading && handler->key.attachment != &sending;
}

/* Puts it into the reactor's list, unless it is there: the others go first. */
static void handler_give_turn(struct handler *handler)
{
    if (!handler_has_turn(handler))
        turns_append(&reactor_of(&handler->key)->again, &handler->key);
}

/* What the connection waits for decides which of Lea's two states comes next. */
static void handler_wait(struct handler *handler) NO_LOCK_HELD
{
    unsigned wants = connection_wants(&handler->connection);
    if (wants == CONNECTION_RUN) {
        handler_give_turn(handler);
    } else if (wants == CONNECTION_OVER ||
               (wants != handler->key.interest && selector_interest(&handler->key, wants) != 0)) {
        handler_close(handler);
        return;
    } else {
        handler->key.attachment = (wants & SELECT_READ) != 0 ? &reading : &sending;
    }
    if (handler->connection.marks == 0)
        return; /* the deadline has not come nearer */
    struct reactor *reactor = reactor_of(&handler->key);
    timer_heap_set_by(&reactor->timers, &handler->timer,
                      connection_deadline(&handler->connection, reactor->now));
}

static void handler_process(struct handler *handler)
{
    struct run run = {0};
    loop_serves(&reactor_of(&handler->key)->loop, handler->key.fd);
    connection_handle(&handler->connection, &run, HANDLE_MESSAGES);
    connection_send(&handler->connection, &run);
    handler_wait(handler);
}

/* State "reading": input has come, or room for what could not be sent before. */
static void handler_read(struct selection_key *key)
{
    struct handler *handler = container_of(key, struct handler, key);
    if ((key->ready & SELECT_READ) != 0)
        connection_receive(&handler->connection);
    handler_process(handler);
}

/* State "sending": it waits for room, or for neither. Nothing is read meanwhile. */
static void handler_send(struct selection_key *key)
{
    handler_process(container_of(key, struct handler, key));
}

void handler_wake(struct connection *connection, struct channel_hold *hold)
{
    struct handler *handler = container_of(connection, struct handler, connection);
    struct reactor *reactor = reactor_of(&handler->key);
    told_list_put(&reactor->told, connection, hold);
    selector_wakeup(&reactor->selector);
}

void handler_take_told(struct reactor *reactor)
{
    struct channel_hold *hold = told_list_take(&reactor->told);
    while (hold != NULL) {
        struct connection *connection = told_list_connection(hold, &hold);
        struct handler *handler = container_of(connection, struct handler, connection);
        handler_give_turn(handler);
    }
}

/* One that has more to do after its turn is in the list again, for the next round. */
void handler_take_turns(struct turns *list)
{
    struct turns turns = *list;
    struct selection_key *key;
    list->first = NULL;
    while ((key = turns_take_first(&turns)) != NULL) {
        key->attachment = &reading; /* out of the list: any state will do until handler_wait() */
        handler_process(container_of(key, struct handler, key));
    }
}

/* A timer that fires too early, because its clock has begun anew, is only set again. */
void handler_expire(struct handler *handler)
{
    struct reactor *reactor = reactor_of(&handler->key);
    timer_heap_set(&reactor->timers, &handler->timer, INT64_MAX);
    bool stops = reactor->stopping && connection_ask(&handler->connection, ASK_STOP, 0);
    if (connection_expire(&handler->connection, reactor->now) || stops || handler_has_turn(handler))
        handler_give_turn(handler); /* in this round, if it has none; that sets the timer */
    else
        handler_wait(handler);
}

struct handler *handler_of_timer(struct timer *timer)
{
    return container_of(timer, struct handler, timer);
}

void handler_count_held(const struct handler *handler, uint64_t *output, uint64_t *input)
{
    *output += output_chain_length(&handler->connection.output);
    *input += input_queue_length(&handler->connection.input);
}
