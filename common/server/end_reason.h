/*
 * Why a connection ends: what channel_end_reason() tells, and its words for a log.
 *
 * It is the first cause that counts. A client that closes its half and is then too slow to take the
 * last answer has closed; an application that closes has closed, even if the client is gone before
 * all output has left.
 */
#ifndef COMMON_END_REASON_H
#define COMMON_END_REASON_H

enum end_reason {
    END_NONE,        /* it has not begun to end */
    END_PEER_CLOSED, /* the peer sends no more: it closed, or its half */
    END_PEER_LOST,   /* a read or a write failed: a reset, a host that is gone */
    END_CLOSED,      /* the application has closed it, or its handler has failed */
    END_TOO_LONG,    /* a message was longer than the application takes */
    END_REFUSED,     /* what came is no message, says the application */
    END_IDLE,        /* a timeout: nothing was received and nothing sent */
    END_REQUEST,     /* a timeout: a message was begun and not ended */
    END_PROGRESS,    /* a timeout: the peer did not take output */
    END_LIFETIME,    /* it was as old as a connection may become */
    END_CAP,         /* more output waited for the peer than may */
    END_SERVER,      /* the server stops */
    END_RESOURCES,   /* there was no memory, or no thread, to serve it */
};

/** In a few words, to stand behind a colon. */
const char *end_reason_text(enum end_reason reason);

#endif
