/*
 * The sockets of a server: an address to listen on, connections to accept, and what to do when the
 * system has no descriptor left.
 *
 * Interface:
 * - A listener belongs to one thread: its reserve descriptor has one owner.
 * - An accepted descriptor belongs to the caller, who closes it.
 * - Every descriptor is close-on-exec. Options that a connection inherits (no delay, the size of
 *   the send buffer) are set once, on the listener.
 */
#ifndef COMMON_SOCKETS_H
#define COMMON_SOCKETS_H

#include "common/base/log.h"
#include "common/server/endpoint.h"
#include "common/server/socket_state.h"

#include <stdbool.h>
#include <stddef.h>

struct input_handler_factory;
struct network_list;

struct listener {
    int fd;                   /* non-blocking: an accept never waits */
    int reserve;              /* closed when no other descriptor is left, to have one; or -1 */
    struct endpoint endpoint; /* where it really listens: port 0 has become a number */
    struct log_limit limit;
    bool is_given; /* it was opened by another process, which may have it still */

    /** Sent to a client that there is no descriptor for; has to outlive the listener. */
    const char *turn_away;

    /**
     * Only those that `admits` finds in this list may connect; NULL: all. The list has to outlive
     * the listener.
     */
    const struct network_list *proxies;
    bool (*admits)(const struct network_list *proxies, const struct endpoint *peer);

    /** Makes the handler of the client that was accepted last; the stage says so at its start. */
    struct input_handler_factory *factory;

    /**
     * Clients may come to several sockets, and `fd` becomes readable for any of them
     * (application_listen.h). `find` returns one at which a client waits, if there is any, and sets
     * `factory`; `close_others` leaves the first one. NULL: there is only one.
     */
    struct listener_set *set;
    int (*find)(struct listener *listener);
    void (*close_others)(struct listener *listener);
};

/** What became of an attempt to accept. */
enum accept_result {
    ACCEPT_CONNECTION, /* there is a new connection */
    ACCEPT_NOTHING,    /* no client is waiting */
    ACCEPT_SHED,       /* a client was rejected: no descriptor, or it is no proxy of ours */
    ACCEPT_EXHAUSTED,  /* a client waits and cannot even be rejected: try again later */
};

/**
 * Listens. send_buffer is the size of every connection's send buffer in bytes; 0 leaves it to the
 * system. 0, or -1 with errno; nothing is held then. Its turn_away is "ERR server busy" until the
 * caller sets another.
 */
int listener_open(struct listener *listener, const struct endpoint *endpoint, int send_buffer);

/**
 * The same for a descriptor that listens already, because another process has opened it for us. It
 * is the listener's from now on, whatever comes of it.
 */
int listener_adopt(struct listener *listener, int fd, int send_buffer);

/** Stops listening: the system rejects clients from now on. May be called twice. One that was given
 * to us goes on listening if anybody else has it. The file of one in the file system is removed, if
 * we have made it. */
void listener_close(struct listener *listener);

/**
 * Accepts the next connection, with SOCK_NONBLOCK or 0 as flags. Peers that gave up before they
 * were accepted (ECONNABORTED) are passed over, a few at a time: an error that looks like that
 * but stays is ACCEPT_EXHAUSTED. If there is no free descriptor and a peer waits, the reserve is
 * closed, and its number accepts the peer, which gets an answer and a close instead of a silent
 * wait. The listener would stay readable, so a loop that ignored the error would spin (erratum 6,
 * case 19). Another thread may take the number of the reserve. Then the reserve is opened again
 * before the next connection is accepted: else those behind that would wait in silence.
 */
enum accept_result listener_accept(struct listener *listener, int flags, const struct log *log,
                                   int *fd);

/**
 * The same for a connection of that peer that was accepted in another way: ACCEPT_CONNECTION; or
 * ACCEPT_SHED, and it is closed, because it is no proxy of ours.
 */
enum accept_result listener_take(struct listener *listener, const struct log *log, int fd,
                                 const struct endpoint *peer);

/**
 * Begins to connect, without waiting: a non-blocking socket with the options of an accepted one, or
 * -1 with errno. It becomes writable when it has connected, or has failed to.
 */
int socket_connect(const struct endpoint *to, int send_buffer);

/** Closes an accepted socket that will not be served. */
void socket_abandon(int fd);

/** Whether connecting has ended; then *error is 0, or an errno: why there is no connection. */
bool socket_has_connected(int fd, int *error);

/** Sends a short text if the socket takes it, and closes. The text arrives before the close. */
void socket_turn_away(int fd, const char *text);

#endif
