/*
 * The header of the PROXY protocol, version 2: what a proxy sends ahead of its client's bytes, so
 * that the server learns the client's address (HAProxy, "The PROXY protocol", section 2.2).
 *
 *   12 bytes  a signature that no other protocol begins with
 *    1        version 2 and the command: PROXY, or LOCAL for a connection of the proxy's own
 *    1        family and transport
 *    2        how many bytes follow
 *   12 or 36  source and destination address, source and destination port; IPv4 or IPv6
 *    ...      TLVs: more about the client, of which nothing is needed here, so they are skipped
 *
 * This is a parser over bytes, which come in any pieces. It neither reads nor allocates.
 *
 * Interface:
 * - Starts as all zero. Give it what comes until the result is not PROXY_HEADER_MORE.
 * - It takes no byte behind the header. proxy_header_lacks() says how many bytes are sure to belong
 *   to the header, so a reader that asks its socket for no more leaves the client's bytes there.
 * - A header is refused as soon as its bytes show that it is wrong: a client that speaks another
 *   protocol need not send 16 bytes to find out.
 */
#ifndef COMMON_PROXY_PROTOCOL_H
#define COMMON_PROXY_PROTOCOL_H

#include "common/server/sockets.h"

enum {
    /** The part with a fixed length; and what is kept of a header: that, and two IPv6 addresses. */
    PROXY_HEADER_FIXED = 16,
    PROXY_HEADER_KEPT = PROXY_HEADER_FIXED + 36,

    /** The longest header that is accepted, TLVs included; what is longer is refused. */
    PROXY_HEADER_MAX = 4096,
};

enum proxy_header_result {
    PROXY_HEADER_MORE, /* it goes on */
    PROXY_HEADER_DONE, /* it is whole */
    PROXY_HEADER_BAD,  /* it is wrong: see the fault */
};

struct proxy_header {
    unsigned char bytes[PROXY_HEADER_KEPT];
    uint32_t taken;         /* bytes so far; those that are not kept count, too */
    const char *fault;      /* PROXY_HEADER_BAD: what is wrong, for the log */
    bool is_local;          /* PROXY_HEADER_DONE: the proxy itself has connected */
    struct endpoint client; /* PROXY_HEADER_DONE, and not local: who has connected to the proxy */
};

/** Takes the next bytes; *taken is how many of them belong to the header. */
enum proxy_header_result proxy_header_take(struct proxy_header *header, const unsigned char *bytes,
                                           size_t length, size_t *taken);

/** How many more bytes there are at least; 0: it is whole. */
size_t proxy_header_lacks(const struct proxy_header *header);

#endif
