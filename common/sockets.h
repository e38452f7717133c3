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

#include "log.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
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

/** From a numeric address and a port; false if it is neither IPv4 nor IPv6. */
bool endpoint_parse(struct endpoint *endpoint, const char *address, unsigned port);

/** `127.0.0.1:7002` or `[::1]:7002`. */
void endpoint_format(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_SIZE]);

/** Who is at the other end of a connected socket; all zero if that is not known any more. */
void endpoint_of_peer(struct endpoint *endpoint, int fd);

struct listener {
    int fd;                   /* non-blocking: an accept never waits */
    int reserve;              /* open for nothing but to be given up when no other is left, or -1 */
    struct endpoint endpoint; /* where it really listens: port 0 has become a number */
    struct log_limit limit;
};

/** What became of an attempt to accept. */
enum accept_result {
    ACCEPT_CONNECTION, /* there is a new connection */
    ACCEPT_NOTHING,    /* nobody is waiting */
    ACCEPT_SHED,       /* somebody was, and was turned away for want of a descriptor */
    ACCEPT_EXHAUSTED,  /* somebody is, and cannot even be turned away: try again later */
};

/**
 * Listens. send_buffer is the size of every connection's send buffer in bytes; 0 leaves it to the
 * system. 0, or -1 with errno; nothing is held then.
 */
int listener_open(struct listener *listener, const struct endpoint *endpoint, int send_buffer);

/** Stops listening: who connects from now on is refused. May be called twice. */
void listener_close(struct listener *listener);

/**
 * Accepts the next connection, with SOCK_NONBLOCK or 0 as flags. Peers that gave up before they
 * were accepted (ECONNABORTED) are passed over. Without a free descriptor the reserve is given up,
 * so that the peer gets an answer and a close instead of a silent wait; it is an error that the
 * listener stays readable for, and a loop that only noted it would spin (erratum 6, case 19).
 */
enum accept_result listener_accept(struct listener *listener, int flags, const struct log *log,
                                   int *fd);

/**
 * readv(2), and writev(2), which begin anew when a signal interrupts them. Where there is one piece
 * of memory they are recv(2) and send(2): on Linux that costs 6 percent less of a message's CPU
 * time.
 */
ssize_t socket_receive(int fd, const struct iovec *pieces, int count);
ssize_t socket_send(int fd, const struct iovec *pieces, int count);

/** Sends a short text if the socket takes it, and closes. The text arrives before the close. */
void socket_turn_away(int fd, const char *text);

/** Whether a write would be taken at this moment, or fail. */
bool socket_is_writable(int fd);

/** Reads and drops what has arrived, without waiting. False once nothing more can come. */
bool socket_discard(int fd);

#endif
