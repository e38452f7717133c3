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

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    /** `[` an IPv6 address `]:` a port, with the closing zero. */
    ENDPOINT_TEXT_SIZE = INET6_ADDRSTRLEN + 8,
};

/** An IPv4 or IPv6 address with a port. */
struct endpoint {
    struct sockaddr_storage address;
    socklen_t length;
};

/** An endpoint in 24 bytes instead of 136, because each connection keeps one. */
struct short_endpoint {
    union {
        struct in_addr v4;
        struct in6_addr v6;
    } address;
    uint32_t scope; /* of an IPv6 address */
    in_port_t port;
    sa_family_t family; /* AF_UNSPEC: it is not known */
};

/** The short form; its family is AF_UNSPEC if the address is neither IPv4 nor IPv6. */
struct short_endpoint endpoint_shorten(const struct endpoint *endpoint);

/** The long form of a short endpoint; all zero if that is not known. */
void endpoint_of_short(struct endpoint *endpoint, const struct short_endpoint *from);

/** From a numeric address and a port; false if it is neither IPv4 nor IPv6. */
bool endpoint_parse(struct endpoint *endpoint, const char *address, unsigned port);

/** `127.0.0.1:7002` or `[::1]:7002`. */
void endpoint_format(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_SIZE]);

/** The address at the other end of a connected socket; all zero if the system has forgotten it. */
void endpoint_of_peer(struct endpoint *endpoint, int fd);

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
 * to us goes on listening if anybody else has it. */
void listener_close(struct listener *listener);

/**
 * Accepts the next connection, with SOCK_NONBLOCK or 0 as flags. Peers that gave up before they
 * were accepted (ECONNABORTED) are passed over, a few at a time: an error that looks like that
 * but stays is ACCEPT_EXHAUSTED. If there is no free descriptor, the reserve is closed, and its
 * number accepts the peer, which gets an answer and a close instead of a silent wait. The listener
 * would stay readable, so a loop that ignored the error would spin (erratum 6, case 19).
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

/** Has close(2) reset the connection. What the peer has not acknowledged by then is lost. */
void socket_reset_on_close(int fd);

/** Whether a write would be taken at this moment, or fail. */
bool socket_is_writable(int fd);

/** Whether a read would find something at this moment: bytes, the end of the stream, an error. */
bool socket_is_readable(int fd);

/**
 * Whether the connection is lost: the peer has reset it, or the system has given it up. It reads
 * nothing. Both directions may also have ended in order, which is no loss: then *over is true.
 */
bool socket_is_lost(int fd, bool *over);

/**
 * Whether the peer has ended its stream, though bytes may be unread before its end. It reads
 * nothing. False where the system does not say.
 */
bool socket_has_ended(int fd);

/**
 * How many of the bytes that the socket took the peer has not acknowledged yet; 0 where the system
 * does not say.
 */
uint32_t socket_unacknowledged(int fd);

/**
 * Milliseconds since the system last sent the peer some of the bytes that the socket took; a peer
 * that has no room gets none. 0 where the system does not say.
 */
uint32_t socket_send_age(int fd);

/** What became of input that nobody wants. */
enum socket_dropped {
    DROPPED_END, /* nothing more can come */
    DROPPED_NOTHING,
    DROPPED_BYTES,
};

/**
 * Reads and drops once; waits if the socket does. What was read is overwritten, because it may have
 * been a password.
 */
enum socket_dropped socket_drop(int fd);

/** As socket_drop(), what has arrived, without waiting. */
enum socket_dropped socket_discard(int fd);

#endif
