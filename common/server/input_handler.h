/*
 * What the author of an application writes (Hitchens, "A Handler's View of the World"): what to do
 * with a message. The framework does everything else. Echo is no more than this (echo.c):
 *
 *   static bool echo(struct input_handler *self, struct message line,
 *                    struct channel_facade *facade)
 *   {
 *       channel_enqueue(facade, piece_copy(line));
 *       return true;
 *   }
 *
 *   static const struct input_handler_verbs verbs = {.handle_input = echo, .one_piece = true};
 *
 * All other verbs may be left out: read what one does when you need it.
 *
 * Interface:
 * - One handler serves one connection. Its calls never overlap, and each sees what those before it
 *   did, though they may come in different threads. In which order they come, in which threads, and
 *   which of them may block: input_handler_calls.h.
 * - A message lies in the input queue. It is valid until the call returns that got it, or until the
 *   next use of the queue; copy what you need for longer.
 * - Output is held back during a turn and leaves at its end by one system call (but see one_piece).
 *   Before something slow, call channel_flush(), or begin a task (channel_begin()) instead.
 * - The framework holds no lock during a call.
 * - A handler sees no socket, no key and no selector.
 */
#ifndef COMMON_INPUT_HANDLER_H
#define COMMON_INPUT_HANDLER_H

#include "common/base/lock.h"
#include "common/bytes/line_framing.h"
#include "common/server/channel_facade.h"

#include <stdalign.h>
#include <stddef.h>

struct application;
struct input_handler;

/**
 * What a handler does; NULL: what the comment of the verb says, or nothing. The framework never
 * asks whether one is NULL: input_handler_complete() has filled it in.
 */
struct input_handler_verbs {
    /**
     * Does what the message asks for. False ends this connection, and no other, as channel_close()
     * does: what was enqueued before still leaves, and no further message is handed over. NULL: it
     * is dropped.
     */
    bool (*handle_input)(struct input_handler *self, struct message message,
                         struct channel_facade *facade);

    /**
     * Takes the next whole message out of the facade's input queue.
     * - FRAMING_INCOMPLETE: there is none; it is asked again when more has come.
     * - FRAMING_TOO_LONG: the handler has already enqueued its error, and the framework reads no
     *   more from the client. If a full queue is INCOMPLETE, the rest can never come: then the
     *   framework does the same, and nothing is said.
     * - FRAMING_REFUSED: as TOO_LONG, but it is no message (END_REFUSED).
     * - FRAMING_NO_MEMORY: the connection ends.
     * It is not called while messages are held (channel_hold(), CHANNEL_WAITS); nor while output is
     * choked, unless the handler is `duplex`; nor while input is suspended, unless the server
     * stops. NULL: a message is a line of at most --max-line bytes (input_handler_next_line()).
     */
    enum framing_result (*next_message)(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message);

    /**
     * Whether handle_input enqueues one piece at most. The answer to a message that came alone is
     * then sent from where the piece lies, and not copied to leave with others.
     */
    bool one_piece;

    /**
     * Instead of handle_input, when no worker takes the message, or it has waited too long for one.
     * What the message asks for is not done. NULL: it goes unanswered; but of an application with
     * `verbs` the client reads `server_busy_text`.
     */
    void (*refuse_input)(struct input_handler *self, struct message message,
                         struct channel_facade *facade);

    /* Answers that wait, and two directions. */

    /**
     * Puts the next piece of a long answer into the output queue and returns true, or returns false
     * if no answer goes on. It is called before each next_message, until it returns false, and only
     * while the output is not choked: so an answer of any size needs no more memory than the high
     * mark and a piece. NULL: answers are never that long.
     */
    bool (*continue_output)(struct input_handler *self, struct channel_facade *facade);

    /**
     * Output that was choked (OUTPUT_CHOKED: above the high mark) has fallen below the low mark: an
     * application that has stopped sending may go on. Once for each time it was choked, or for
     * several together, and before the next message. NULL: the handler does not wait for it, and it
     * costs no run.
     */
    void (*drained)(struct input_handler *self, struct channel_facade *facade);

    /**
     * The two directions are independent of each other, as a relay needs it. Input is handled while
     * output is choked. The peer's end of stream is not the end of the connection: after
     * `end_of_input` it stays open for output, until channel_finish() or channel_close(). And one
     * that was opened by channel_connect() goes on when the server stops, because it serves another
     * one that stops; what is left is cut off at the drain timeout.
     */
    bool duplex;

    /**
     * While the handler holds messages (channel_hold()): none comes any more, because the client
     * has sent its last byte, so it may be gone, or because the server stops (END_SERVER of
     * channel_end_reason()). Once for each hold. A handler that answers a client that has only
     * ended its half returns, and goes on later; the bytes of the messages that wait are still
     * there. NULL: the connection is closed, as by channel_close().
     */
    void (*left)(struct input_handler *self, struct channel_facade *facade);

    /* Clocks that have run out. */

    /**
     * A message was begun, and its end did not come within the request timeout. The last chance to
     * say so: nothing more is read, and the connection is closed when the output has left. NULL:
     * it ends at once.
     */
    void (*timed_out)(struct input_handler *self, struct channel_facade *facade);

    /**
     * Nothing was received and nothing sent within the idle timeout, and all output has left. The
     * last chance to tell the client why it is disconnected, as with timed_out. NULL: the
     * connection is closed without a word, as HTTP and POP3 expect it.
     */
    void (*idle)(struct input_handler *self, struct channel_facade *facade);

    /* The life cycle. */

    /** There is a connection, and from now on its handler may enqueue output. */
    void (*starting)(struct input_handler *self, struct channel_facade *facade);

    /** It is registered: from now on the handler may give its facade to other threads. */
    void (*started)(struct input_handler *self, struct channel_facade *facade);

    /**
     * No message comes any more: the peer has sent its last one, the application has closed, or the
     * connection is lost (channel_end_reason()). What is queued will still be sent, if it can be.
     */
    void (*end_of_input)(struct input_handler *self, struct channel_facade *facade);

    /**
     * It is going to be closed. The last chance to queue output. From here on no timer fires. If
     * the handler has given its facade to other threads, it has to take it back from them now.
     */
    void (*stopping)(struct input_handler *self, struct channel_facade *facade);

    /**
     * It is over: the handler is not called again, and the facade takes nothing. What was posted or
     * begun and not called is dropped next. The handler's memory stays until the last reference to
     * the facade is given back.
     */
    void (*stopped)(struct input_handler *self, struct channel_facade *facade);

    /**
     * There is no memory for the connection, or it ended before it was known whose it is: the
     * handler is not going to be used, and hears nothing else. NULL: there is nothing to do then.
     * The thread that accepts, or, with --proxy-protocol, whichever runs handlers.
     */
    void (*unused)(struct input_handler *self);

    /**
     * For a handler of channel_connect(): there is no connection after all, and it hears nothing
     * else. The error is an errno: ECONNREFUSED and others of connect(2); ETIMEDOUT, also after
     * the timeout of channel_connect(); ECANCELED if the server stops and there is no answer within
     * a second. NULL: there is nothing to do then.
     */
    void (*not_connected)(struct input_handler *self, int error);

    /* For few: messages that overtake, elements between. */

    /**
     * Whether the message that comes next goes first: before those of other connections that wait
     * for a worker. It looks at the beginning of the facade's input queue and takes nothing; all of
     * the message need not be there. It is asked where a priority queue is used (--queue priority),
     * before a worker is looked for, in the reactor's or the dispatcher's thread, so it must not
     * block. NULL: no message is urgent. Every eighth run that a worker takes is one that is not
     * urgent, if there is one, so no connection starves.
     */
    bool (*is_urgent)(struct input_handler *self, struct channel_facade *facade);

    /**
     * For an element that takes bytes out of the channel's input before the handler behind it asks
     * for them (handler_element.h): whether it holds some that are in no message yet, or waits for
     * some before there can be one. To the framework they are like bytes in the channel's input:
     * another message may follow, and one was begun, whose time runs (--request-timeout). It comes
     * between runs, too, and touches nothing but what the handler's own calls touch. NULL: the
     * channel's input is all there is.
     */
    bool (*holds_input)(const struct input_handler *self);

    /**
     * For verbs that are made for other authors, as those of pairs: what an application with them
     * lacks, in the words "expected ..., got ..."; NULL: nothing. application_open() asks before
     * `start`, with NULL, and behind it, with what that has returned. NULL: any will do.
     */
    const char *(*fault)(const struct application *application, const void *data);

    /* The framework's: enum handler_trait, by input_handler_complete(). */
    unsigned traits;
};

/**
 * Fills in what a table leaves out, once, and returns it. The framework does that for the `verbs`
 * of an application. An author who gives a handler another table, in the `create` of a factory or
 * for channel_set_handler(), does it there: handler->verbs = input_handler_complete(&verbs). Any
 * thread.
 */
const struct input_handler_verbs *input_handler_complete(struct input_handler_verbs *verbs);

/**
 * What a handler without a next_message does: takes the next line, of at most --max-line bytes. If
 * it is longer, the client is told so.
 */
enum framing_result input_handler_next_line(struct input_handler *self,
                                            struct channel_facade *facade, struct message *line);

/**
 * No function holds this role, so the compiler lets no function read a handler's verbs except those
 * below, which are exempt. That makes them the only way into an application.
 */
struct CAPABILITY("role") application_door {
    int unused;
};
extern struct application_door application_door;

/** An application's handler begins with this. Its verbs are complete (input_handler_complete()). */
struct input_handler {
    const struct input_handler_verbs *verbs PT_GUARDED_BY(application_door);
};

/** Makes the handlers: the framework asks for one for each connection. */
struct input_handler_factory {
    /**
     * The bytes that a handler needs. They come with the connection, in one block of memory, and go
     * with the last reference to its facade: so an application need not allocate or free anything,
     * and what it keeps for a connection stays valid while any thread may use the facade. 0: it
     * has handlers of its own, or one for all.
     */
    size_t handler_size;

    /**
     * Begins a handler in that memory, which is all zero and aligned for 64-bit numbers. NULL if it
     * lacks something: there is no connection. The acceptor's thread, or channel_connect()'s.
     */
    struct input_handler *(*create)(struct input_handler_factory *self, void *memory);
};

#endif
