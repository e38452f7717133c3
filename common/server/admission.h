/*
 * Admission: which new connections a server takes in, and when. All stages share the policy. What
 * differs is who accepts, and what an accepted connection becomes.
 *
 * - Past --max-connections a client is turned away, or has to wait (--overload).
 * - When accept(2) fails because the system is out of something, nothing is accepted for
 *   SERVER_BACK_OFF_MS, because the listener stays readable and a loop would spin.
 * - One round accepts a limited number, so that signals and other events get their turn.
 *
 * Interface:
 * - admission_enter(), admission_leave() and admission_is_empty() are safe from any thread; the
 *   rest is the acceptor's.
 */
#ifndef COMMON_ADMISSION_H
#define COMMON_ADMISSION_H

#include "common/base/lock.h"
#include "common/server/server.h"

#include <stddef.h>

struct admission {
    struct server *server;
    int64_t resume_at; /* nothing is accepted before that moment; 0: no back-off */
    struct mutex lock;
    size_t count GUARDED_BY(&lock); /* connections that are in */
    bool wanted GUARDED_BY(&lock);  /* the acceptor waits for a place */
};

/** Begins to serve a connection. False if that is not possible; fd stays the caller's then. */
typedef bool admission_server(void *context, int fd);

void admission_init(struct admission *admission, struct server *server);

/** Every connection that was in has left, and so every reference to one was given back. */
void admission_destroy(struct admission *admission);

/**
 * Whether to look for new connections now. If there is no place for one, signals_ring() follows
 * when a connection leaves; if the system is out of something, admission_resumes() says when.
 */
bool admission_is_open(struct admission *admission);

/** When to ask again, in ms of clock_ms(); INT64_MAX: no back-off. */
static inline int64_t admission_resumes(const struct admission *admission)
{
    return admission->resume_at != 0 ? admission->resume_at : INT64_MAX;
}

/** Whether nothing is accepted because the system was out of something. */
static inline bool admission_is_backing_off(const struct admission *admission)
{
    return admission->resume_at != 0;
}

/** Nothing is accepted for a while, because the system is out of something. */
void admission_back_off(struct admission *admission);

/**
 * Accepts a round of those that wait at a listener (which may be closed), with SOCK_NONBLOCK or 0
 * as flags. Each is counted in and given to serve, or turned away.
 */
void admission_accept(struct admission *admission, struct listener *listener, int flags,
                      admission_server *serve, void *context);

/**
 * The server stops: accepts all that have connected already, as admission_accept() does, and closes
 * the listener. At most as many as its queue can hold, because others may go on coming, and until
 * half a second past the drain timeout, because a stop has a limit; whoever is left is reset. A
 * listener that was given to us is only closed: those in its queue are for whoever else has it.
 */
void admission_accept_last(struct admission *admission, struct listener *listener, int flags,
                           admission_server *serve, void *context);

/** Gives a connection of that peer, which was accepted in another way, to serve, or turns it away.
 */
void admission_take(struct admission *admission, struct listener *listener, int fd,
                    const struct endpoint *peer, admission_server *serve, void *context);

/** A connection is in that admission_accept() did not give to serve. */
void admission_enter(struct admission *admission);

/** A connection that was in is over, and nothing that was begun for it is left. */
void admission_leave(struct admission *admission);

/** Whether no connection is in. */
bool admission_is_empty(struct admission *admission);

#endif
