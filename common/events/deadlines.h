/*
 * How long a connection may take for each thing that a useless client can drag out.
 *
 * An idle timeout alone is not enough: any byte resets it, so one byte in each period keeps a
 * useless connection forever (erratum 20). So there are also a deadline for a request that was
 * begun, one for output that is not read, and a limit to the whole connection's life.
 *
 * This only keeps the times. The stage decides which thread checks them, and when.
 *
 * Interface: one thread at a time, without a lock. Times are milliseconds of clock_ms(). Of these
 * a connection keeps the lower 32 bits, because there may be a hundred thousand connections. They
 * are unambiguous up to 24 days before or after `now`. A limit is shorter than that (see
 * option_parse_seconds()), and the stage checks it before it is over.
 */
#ifndef COMMON_DEADLINES_H
#define COMMON_DEADLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Milliseconds; 0 is no limit. One set serves all clients, another one those whom we connect to.
 */
struct deadline_limits {
    int64_t idle;     /* --idle-timeout: nothing received and nothing sent */
    int64_t request;  /* --request-timeout: from the first byte of a message to its last */
    int64_t lifetime; /* --lifetime: from accept on */
    int64_t progress; /* --progress-timeout: for a peer to take DEADLINES_QUANTUM or all */
};

enum {
    /** What a peer has to take of the output that waits, in each progress timeout; bytes. */
    DEADLINES_QUANTUM = 65536,
};

/** A connection's times, ms. `active` always runs; of the others, 0: it does not. */
struct deadlines {
    uint32_t born;
    uint32_t active;   /* when a byte last moved in either direction */
    uint32_t request;  /* since when part of a message is there */
    uint32_t progress; /* since when output waits, or a quantum of it was last taken */
    uint32_t taken;    /* bytes that the peer has acknowledged since then; less than a quantum */
    uint32_t owed;     /* bytes sent that it had not acknowledged when we last looked, and newer */
};

/** Which limit was passed. */
enum deadline {
    DEADLINE_NONE,
    DEADLINE_IDLE,
    DEADLINE_REQUEST,
    DEADLINE_LIFETIME,
    DEADLINE_PROGRESS,
};

/** At accept. */
void deadlines_start(struct deadlines *deadlines, int64_t now);

/** Some bytes were received. */
void deadlines_received(struct deadlines *deadlines, int64_t now);

/** Nothing was read for a while, for reasons of our own: the time to send something begins anew. */
void deadlines_restart_input(struct deadlines *deadlines, int64_t now);

/** A whole message was taken out. What follows it is another one, whose time has not begun yet. */
void deadlines_message(struct deadlines *deadlines);

/** All whole messages have been taken out; partial says whether the beginning of one is left. */
void deadlines_framed(struct deadlines *deadlines, int64_t now, bool partial);

/** The socket took bytes: they are on their way, which does not mean that the peer has them. */
void deadlines_sent(struct deadlines *deadlines, int64_t now, uint64_t sent);

/** A run is over: what deadlines_received(), deadlines_framed() and deadlines_sent() say, at once.
 */
void deadlines_ran(struct deadlines *deadlines, int64_t now, bool received, bool partial,
                   uint64_t sent);

/** Whether output waits that the socket did not take. Its time begins when that begins. */
void deadlines_output(struct deadlines *deadlines, int64_t now, bool waits);

/**
 * Of what the socket took, this many bytes are not acknowledged yet by the peer; what it has
 * acknowledged since the last call is its progress. The socket's buffer may hold megabytes, so a
 * client can read steadily for minutes before the socket takes anything new from us. True if it has
 * taken a part, so that it was not idle: the caller says when, by deadlines_moved().
 */
bool deadlines_acknowledged(struct deadlines *deadlines, int64_t now, uint32_t unacknowledged);

/** A byte moved at that moment, which may be a while ago. */
void deadlines_moved(struct deadlines *deadlines, int64_t moment);

/** Whether output waits: what the last call of deadlines_output() said. */
static inline bool deadlines_output_waits(const struct deadlines *deadlines)
{
    return deadlines->progress != 0;
}

/** The peer is not to blame for what it has not taken: its time begins anew. */
void deadlines_restart_progress(struct deadlines *deadlines, int64_t now);

/** The limit that is passed at that moment. */
enum deadline deadlines_passed(const struct deadlines *deadlines,
                               const struct deadline_limits *limits, int64_t now);

/** The moment at which the first limit will be passed if nothing happens; INT64_MAX if none. */
int64_t deadlines_next(const struct deadlines *deadlines, const struct deadline_limits *limits,
                       int64_t now);

/** When the connection began. */
int64_t deadlines_born(const struct deadlines *deadlines, int64_t now);

/** When a byte last moved, in either direction. */
int64_t deadlines_active(const struct deadlines *deadlines, int64_t now);

/** "idle timeout" and so on, for the log. */
const char *deadline_name(enum deadline deadline);

#endif
