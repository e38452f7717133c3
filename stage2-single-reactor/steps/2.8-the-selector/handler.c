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

bool handler_create(struct reactor *reactor, int fd)
{
    struct input_handler_factory *factory = reactor->server->listener.factory;
    struct handler *handler = calloc(1, sizeof(*handler) + factory->handler_size);
    struct input_handler *input =
        handler != NULL ? input_handler_create(factory, handler->memory) : NULL;
    if (input == NULL) {
        free(handler);
        return false;
    }
    connection_open(&handler->connection, &reactor->server->home, fd, input);
    connection_advance(&handler->connection, LIFE_STARTING);
    if (selector_register(&reactor->selector, &handler->key, fd, SELECT_READ, &reading) != 0) {
        connection_detach(&handler->connection);
        free(handler);
        return false;
    }
    handler_process(handler);
    return true;
}

/* Frees the handler, too, so a call that may close must be the last of its function. */
static void handler_close(struct handler *handler) NO_LOCK_HELD
{
    struct reactor *reactor = reactor_of(&handler->key);
    selector_cancel(&handler->key);
    close(connection_detach(&handler->connection));
    admission_leave(&reactor->admission);
    free(handler);
}

/* What the connection waits for decides which of Lea's two states comes next. */
static void handler_wait(struct handler *handler) NO_LOCK_HELD
{
    unsigned wants = connection_wants(&handler->connection);
    if (wants == CONNECTION_RUN) {
        list_append(&reactor_of(&handler->key)->again, &handler->again); /* the others go first */
        wants = SELECT_NOTHING;
    }
    if (wants == CONNECTION_OVER ||
        (wants != handler->key.interest && selector_interest(&handler->key, wants) != 0)) {
        handler_close(handler);
        return;
    }
    handler->key.attachment = (wants & SELECT_READ) != 0 ? &reading : &sending;
}

static void handler_process(struct handler *handler)
{
    struct run run = {0};
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

/* One that has more to do after its turn is in the list again, for the next round. */
void handler_take_turns(struct list_link *list)
{
    struct list_link turns;
    list_move(&turns, list);
    while (!list_is_empty(&turns)) {
        struct handler *handler = container_of(turns.next, struct handler, again);
        list_remove(&handler->again);
        handler_process(handler);
    }
}
