#include "common/server/network.h"

#include "common/base/options.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    MAPPED_BITS = 96, /* in front of an IPv4 address, as IPv6 writes it: ::ffff:0:0/96 */
    ALL_BITS = 128,
};

/* The address in the form of IPv6; false if it is of neither kind. */
static bool as_ipv6(unsigned char address[16], const struct endpoint *endpoint)
{
    static const unsigned char mapped[16] = {[10] = 0xff, [11] = 0xff};
    if (endpoint->address.ss_family == AF_INET6) {
        memcpy(address, &((const struct sockaddr_in6 *)&endpoint->address)->sin6_addr, 16);
        return true;
    }
    memcpy(address, mapped, 16);
    memcpy(address + 12, &((const struct sockaddr_in *)&endpoint->address)->sin_addr, 4);
    return endpoint->address.ss_family == AF_INET;
}

/* How many bits a text without a length stands for, and what the kind puts in front of them. */
static bool read_bits(struct network *network, const char *text, bool is_ipv4)
{
    size_t bits = is_ipv4 ? ALL_BITS - MAPPED_BITS : ALL_BITS;
    struct option number = {.target = &bits, .max = bits};
    if (text != NULL && !option_parse_number(&number, text))
        return false;
    network->bits = (unsigned)bits + (is_ipv4 ? MAPPED_BITS : 0);
    return true;
}

bool network_parse(struct network *network, const char *text)
{
    char address[INET6_ADDRSTRLEN];
    struct endpoint endpoint;
    const char *slash = strchr(text, '/');
    size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);
    if (length >= sizeof(address))
        return false;
    memcpy(address, text, length);
    address[length] = '\0';
    return endpoint_parse(&endpoint, address, 0) && as_ipv6(network->address, &endpoint) &&
           read_bits(network, slash != NULL ? slash + 1 : NULL,
                     endpoint.address.ss_family == AF_INET);
}

bool network_contains(const struct network *network, const struct endpoint *endpoint)
{
    unsigned char address[16];
    unsigned bytes = network->bits / 8;
    unsigned bits = network->bits % 8;
    if (!as_ipv6(address, endpoint) || memcmp(address, network->address, bytes) != 0)
        return false;
    return bits == 0 || (address[bytes] ^ network->address[bytes]) >> (8 - bits) == 0;
}

static bool add_network(struct network_list *list, const char *text, size_t length)
{
    char one[INET6_ADDRSTRLEN + sizeof("/128")];
    if (length >= sizeof(one) || list->count == NETWORKS_MAX)
        return false;
    memcpy(one, text, length);
    one[length] = '\0';
    return network_parse(&list->networks[list->count++], one);
}

bool network_list_parse(struct network_list *list, const char *text)
{
    const char *comma;
    list->count = 0;
    for (; (comma = strchr(text, ',')) != NULL; text = comma + 1)
        if (!add_network(list, text, (size_t)(comma - text)))
            return false;
    return add_network(list, text, strlen(text));
}

bool network_list_contains(const struct network_list *list, const struct endpoint *endpoint)
{
    for (size_t i = 0; i < list->count; i++)
        if (network_contains(&list->networks[i], endpoint))
            return true;
    return false;
}
