/*
 * What one can wait for at a descriptor: the selector's words (selector.h), which a connection uses
 * to say what it wants, too. It knows no selector.
 */
#ifndef COMMON_SELECTION_H
#define COMMON_SELECTION_H

/** What a key can be interested in and ready for, and for how long. Bits. */
enum selection {
    SELECT_NOTHING = 0,
    SELECT_READ = 1,  /* a read will not block: data, a new connection, end of stream or an error */
    SELECT_WRITE = 2, /* a write will not block: room in the send buffer, or an error */
    SELECT_ONCE = 4,  /* with others: the interest ends when the key is selected */
    SELECT_LOSS = 8,  /* neither, but the descriptor is in error or hung up: it may be lost */
    SELECT_END = 16,  /* with SELECT_LOSS: the peer has ended its stream, behind what is unread */
};

#endif
