/*
 * What a connection asks the system about its socket, and how it drops what nobody wants. Any
 * thread that may use the socket; none of it waits, where nothing else is said.
 */
#ifndef COMMON_SOCKET_STATE_H
#define COMMON_SOCKET_STATE_H

#include <stdbool.h>
#include <stdint.h>

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
 * Reads and drops once; waits if the socket does, also after a signal. What was read is
 * overwritten, because it may have been a password.
 */
enum socket_dropped socket_drop(int fd);

/** As socket_drop(), what has arrived, without waiting. */
enum socket_dropped socket_discard(int fd);

#endif
