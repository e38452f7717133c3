/*
 * A pair: two connections, a client's and one that is opened for it. What arrives at one end is
 * passed to the other, as it is or rewritten, until either side ends.
 *
 * Lines to and fro between a client and one server are no more than this:
 *
 *   static void began(struct pair *pair) NO_LOCK_HELD
 *   {
 *       if (pair_connect(pair, &server_endpoint, 5000) != 0)
 *           channel_close(pair->client.channel);
 *   }
 *
 *   static void not_connected(struct pair *pair, int error)
 *   {
 *       channel_printf(pair->client.channel, "no server: %s\n", strerror(error));
 *       channel_close(pair->client.channel);
 *   }
 *
 *   static const struct pair_verbs verbs = {
 *       .began = began, .not_connected = not_connected, .next_message = pair_next_line};
 *
 *   static void *start(struct server *server)
 *   {
 *       static struct pairing pairing[] = {{.verbs = &verbs}};
 *       (void)server;
 *       return pairing;
 *   }
 *
 *   const struct application mine_application = {.name = "mine",
 *                                                .needs = PAIR_NEEDS,
 *                                                .descriptors = 2,
 *                                                .verbs = &pair_verbs_of_client,
 *                                                .handler_size = sizeof(struct pair),
 *                                                .start = start};
 *
 * If a user names the server, pair_upstream.h has the option, the look-up and both functions.
 *
 * Interface:
 * - An application of pairs gives `&pair_verbs_of_client` as its verbs, the size of a struct that
 *   begins with a pair as its handler_size, and a `start` that returns a pairing, or a struct that
 *   begins with one. It needs PAIR_NEEDS, and two `descriptors` a client.
 * - Its verbs say where to connect to, and may rewrite what passes. All else is done here:
 *   - Nothing is read from the client before it is connected.
 *   - Backpressure: an end whose peer takes its bytes too slowly is not read until that has
 *     drained. So a stream of any length costs no more memory than the marks of the output.
 *   - A half-close is passed on, behind all bytes before it; so is a reset, or that we have cut one
 *     of them off (channel_reset()); and the end of one is the end of both.
 *   - No message is refused, because a stream with a gap is worse than none.
 * - A pair in which nothing passes for --idle-timeout is cut off, by its client's end; the server's
 *   has no such clock. At both ends part of a message has --request-timeout to become a whole one.
 *   Where a long quiet is good, `defaults` has {"--idle-timeout", "0", NULL}.
 * - The two ends may run in two threads at the same time. `began`, `not_connected` and `left` are
 *   the client's own calls, and `pass` is that of the end whose message it is; so what both ends
 *   use in `pass` needs a lock, or is atomic.
 * - The pair is in the client's memory, and stays until both ends are over.
 */
#ifndef COMMON_PAIR_H
#define COMMON_PAIR_H

#include "common/apps/application.h"
#include "common/server/channel_calls.h"

struct pair;
struct pair_end;

enum { PAIR_NEEDS = OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_POST | OFFERS_CONNECTIONS };

/** What an application does with pairs. All but the first may be NULL; without that none starts. */
struct pair_verbs {
    /** A client has come: calls pair_connect(), now or in one of its later calls. */
    void (*began)(struct pair *pair);

    /**
     * It could not be connected: an errno, as with channel_connect(). One of the client's own
     * calls, which may call pair_connect() for another address (NO_LOCK_HELD), and what it likes of
     * the client's channel; if it does neither, the client waits. NULL: the client's connection is
     * closed.
     */
    void (*not_connected)(struct pair *pair, int error);

    /** Takes the next message out of an end's input, as in input_handler.h. NULL: all there is. */
    enum framing_result (*next_message)(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message);

    /**
     * Passes a message to the other end with pair_send(), in pieces, changed, or not at all. NULL:
     * it is passed as it is.
     */
    void (*pass)(struct pair *pair, struct pair_end *from, struct message message);

    /** The client's connection is over. */
    void (*left)(struct pair *pair);

    /**
     * What pair_connect() began is over: the connection that it opened (0), or, for a client that
     * has left before, the attempt (an errno). Any thread, after `left` or before it.
     */
    void (*ended)(struct pair *pair, int error);
};

/** What an application of pairs keeps begins with this. */
struct pairing {
    const struct pair_verbs *verbs;
};

/** One of the two connections, whose handler touches nothing else. */
struct pair_end {
    struct input_handler handler;
    struct pair *pair;
    struct channel_facade *channel; /* its own */
    struct channel_facade *other;   /* with a reference; NULL: not known yet, or not any more */
    bool has_broken; /* next_message has said that no message follows: it is not asked again */
};

/** What an application keeps for a client begins with this. All zero at first. */
struct pair {
    struct pair_end client;
    const struct pair_verbs *verbs;
    struct input_handler_factory factory; /* makes the other end */

    /* From the other end to this one. */
    struct channel_post news;
    int error;                     /* why there is no connection; 0: there is one */
    struct channel_facade *server; /* to that, with a reference */
};

/** Whether an end is the client's. */
static inline bool pair_is_client(const struct pair_end *end)
{
    return end == &end->pair->client;
}

/**
 * Connects a client that is not connected: channel_connect(), with its timeout and its result. If
 * that is not 0, nothing else comes of it. The client's own calls only.
 */
int pair_connect(struct pair *pair, const struct endpoint *to, int64_t timeout) NO_LOCK_HELD;

/** Sends to the other end. In `pass` only, of that end; any number of times. */
void pair_send(struct pair_end *from, struct piece piece);

/**
 * A next_message for lines of at most --max-line bytes. A longer one is a stream that was cut off:
 * what came before it is passed, and the other end is reset, when this one is over: within
 * SERVER_LINGER_MS. A client is told why, as by input_handler_next_line(); a server is not, because
 * it would take the words for its client's. Of a stream that ends in the middle of a line that part
 * is not passed.
 */
enum framing_result pair_next_line(struct input_handler *self, struct channel_facade *facade,
                                   struct message *line);

/** A client's handler. */
extern const struct input_handler_verbs pair_verbs_of_client;

#endif
