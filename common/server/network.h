/*
 * A network, as `10.0.0.0/8` or `2001:db8::/32` names one: who is in it and who is not.
 */
#ifndef COMMON_NETWORK_H
#define COMMON_NETWORK_H

#include "common/server/endpoint.h"

/** Addresses that begin with the same bits. An IPv4 network is kept as the IPv6 one it maps to. */
struct network {
    unsigned char address[16];
    unsigned bits;
};

/** From ADDRESS/BITS, or an address alone, IPv4 or IPv6; false if it is neither. */
bool network_parse(struct network *network, const char *text);

/** Whether an address is in it. One of IPv4 that came to an IPv6 socket is one of IPv4. */
bool network_contains(const struct network *network, const struct endpoint *endpoint);

enum {
    NETWORKS_MAX = 16, /* in a list */
};

/** Several of them. */
struct network_list {
    struct network networks[NETWORKS_MAX];
    size_t count;
};

/** From networks with commas between them; false if one of them is none, or there are too many. */
bool network_list_parse(struct network_list *list, const char *text);

/** Whether an address is in one of them. */
bool network_list_contains(const struct network_list *list, const struct endpoint *endpoint);

#endif
