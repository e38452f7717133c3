/*
 * What an application author writes (Hitchens, "A Handler's View of the World"): what a message is,
 * and what to do with one. All else is the framework's.
 *
 * One handler serves one connection. Its calls come in this order, each life-cycle call exactly
 * once, whatever becomes of the connection:
 *
 *   starting  started  { next_message  handle_input  continue_output* }*  end_of_input  stopping
 *   stopped
 *
 * Interface:
 * - The calls for one connection never overlap, and each sees what those before it did; but they
 *   may come in different threads. starting comes in the thread that accepts, before anybody else
 *   knows of the connection; the others come in a worker, or wherever the framework runs handlers.
 * - No lock of the framework is held during a call.
 * - next_message, continue_output and refuse_input must not block: with a saturated executor they
 *   are called in the dispatcher's thread.
 * - A handler never sees a socket, a key or a selector.
 */
#ifndef COMMON_INPUT_HANDLER_H
#define COMMON_INPUT_HANDLER_H

#include "channel_facade.h"
#include "line_framing.h"

struct input_handler;

struct input_handler_verbs {
    /**
     * Takes the next whole message out of the facade's input queue. FRAMING_TOO_LONG: the handler
     * has already told the client what it had to tell, and nothing more is read from it.
     */
    enum framing_result (*next_message)(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message);

    /** Does what the message asks for. False ends this connection at once, and no other. */
    bool (*handle_input)(struct input_handler *self, struct message message,
                         struct channel_facade *facade);

    /** Instead of handle_input, when no worker takes the message. NULL: it goes unanswered. */
    void (*refuse_input)(struct input_handler *self, struct message message,
                         struct channel_facade *facade);

    /**
     * Puts the next piece of a long answer into the output queue; true as long as there is more of
     * it. Called until it says false, and before the next message is taken, but only while the
     * output is not choked: so an answer of any size needs no more memory than the high mark and a
     * piece. NULL: answers are never that long.
     */
    bool (*continue_output)(struct input_handler *self, struct channel_facade *facade);

    /**
     * A message was begun, and its end did not come within the request timeout. The last chance to
     * say so: nothing more is read, and the connection is closed when the output has left. NULL:
     * it ends at once.
     */
    void (*timed_out)(struct input_handler *self, struct channel_facade *facade);

    /**
     * There is no memory for the connection: the handler is not going to be used, and hears nothing
     * else. NULL: there is nothing to do then. The thread that accepts.
     */
    void (*unused)(struct input_handler *self);

    /* The life cycle; NULL: there is nothing to do then. */

    /** There is a connection; output may be queued already. */
    void (*starting)(struct input_handler *self, struct channel_facade *facade);

    /** It is registered: from now on others may be told of the facade. */
    void (*started)(struct input_handler *self, struct channel_facade *facade);

    /** The peer sends no more, or can be heard no more. What is queued will still be sent. */
    void (*end_of_input)(struct input_handler *self, struct channel_facade *facade);

    /** It is going to be closed. The last chance to queue output. */
    void (*stopping)(struct input_handler *self, struct channel_facade *facade);

    /** It is over. The handler is not called again and may free itself. */
    void (*stopped)(struct input_handler *self, struct channel_facade *facade);
};

/** An application's handler begins with this. */
struct input_handler {
    const struct input_handler_verbs *verbs;
};

/** Makes the handlers: the framework asks for one for each connection. */
struct input_handler_factory {
    /** NULL if there is no memory: the connection is turned away. The acceptor's thread. */
    struct input_handler *(*create)(struct input_handler_factory *self);
};

#endif
