/*
 * Another server, as a user names it: HOST:PORT. The host is a name of letters, digits, `-`, `_`
 * and
 * `.`, or an IPv4 address, or an IPv6 address in brackets; the port is a number from 1 to 65535.
 */
#ifndef COMMON_HOST_PORT_H
#define COMMON_HOST_PORT_H

#include "common/base/options.h"
#include "common/server/sockets.h"

enum {
    /** The longest, with the closing zero. */
    HOST_PORT_SIZE = 262,

    /** Of a name with more addresses the others are not used. */
    HOST_PORT_ADDRESSES_MAX = 8,
};

/** The addresses of a name, in the order in which they are to be tried. */
struct host_port_addresses {
    size_t count;
    struct endpoint all[HOST_PORT_ADDRESSES_MAX];
};

/** Whether this many characters are one. Looks nothing up. */
bool host_port_is_one(const char *text, size_t length);

/** For an option whose target is a const char *, which becomes the text, or NULL for "none". */
option_parser host_port_parse;

/** The address of a text that is one and has no name in it. False: there is a name to look up. */
bool host_port_read(const char *text, struct endpoint *address);

/**
 * Looks up the addresses of a text that is one: at least one of them, or an error for
 * gai_strerror(3), and 0 otherwise. It may take minutes if no name server answers, and nothing
 * interrupts it.
 */
int host_port_look_up(const char *text, struct host_port_addresses *found);

#endif
