/*
 * An address with a port: whom one talks to, or where one listens. On one machine that may also be
 * a socket in the file system (unix(7)), which has a path and no port; a client of such a socket
 * has no address at all.
 */
#ifndef COMMON_ENDPOINT_H
#define COMMON_ENDPOINT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

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

/** The short form; its family is AF_UNSPEC if the address is not known. A path is left out. */
struct short_endpoint endpoint_shorten(const struct endpoint *endpoint);

/** The long form of a short endpoint; all zero if that is not known. */
void endpoint_of_short(struct endpoint *endpoint, const struct short_endpoint *from);

/**
 * From a numeric address and a port, or from a path that begins with a slash. False if it is
 * neither IPv4 nor IPv6, or if the path is longer than a socket's can be.
 */
bool endpoint_parse(struct endpoint *endpoint, const char *address, unsigned port);

/**
 * `127.0.0.1:7002`, `[::1]:7002`, or `local` for a socket in the file system. May be called in a
 * signal handler.
 */
void endpoint_format(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_SIZE]);

/** The path of a socket in the file system; NULL: it is none, or has none. */
const char *endpoint_path(const struct endpoint *endpoint);

/**
 * The address at the other end of a socket that is connected, or was until its peer reset; all zero
 * if the system has forgotten it. May be called in a signal handler.
 */
void endpoint_of_peer(struct endpoint *endpoint, int fd);

#endif
