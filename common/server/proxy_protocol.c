#include "common/server/proxy_protocol.h"

#include <string.h>

/* Where the parts stand. */
enum {
    SIGNATURE_LENGTH = 12,
    AT_COMMAND = 12,
    AT_FAMILY = 13,
    AT_LENGTH = 14,
};

/* What the parts say. */
enum {
    VERSION_2_LOCAL = 0x20,
    VERSION_2_PROXY = 0x21,
    TCP_OVER_IPV4 = 0x11,
    TCP_OVER_IPV6 = 0x21,
    IPV4_BYTES = 12,
    IPV6_BYTES = 36,
};

static const unsigned char signature[] = "\r\n\r\n\0\r\nQUIT\n";

/* The bytes behind the fixed part. */
static size_t rest_of(const struct proxy_header *header)
{
    return (size_t)header->bytes[AT_LENGTH] << 8 | header->bytes[AT_LENGTH + 1];
}

size_t proxy_header_lacks(const struct proxy_header *header)
{
    if (header->taken < PROXY_HEADER_FIXED)
        return PROXY_HEADER_FIXED - header->taken;
    return PROXY_HEADER_FIXED + rest_of(header) - header->taken;
}

static const char *fault_of_addresses(const struct proxy_header *header)
{
    size_t wanted;
    switch (header->bytes[AT_FAMILY]) {
    case TCP_OVER_IPV4: wanted = IPV4_BYTES; break;
    case TCP_OVER_IPV6: wanted = IPV6_BYTES; break;
    default: return "expected TCP over IPv4 or IPv6, got another family";
    }
    return rest_of(header) < wanted ? "too short for its addresses" : NULL;
}

/* What is wrong with the bytes that are there. NULL: nothing yet. */
static const char *fault_of(const struct proxy_header *header)
{
    size_t there = header->taken < SIGNATURE_LENGTH ? header->taken : SIGNATURE_LENGTH;
    if (memcmp(header->bytes, signature, there) != 0)
        return "expected a header of version 2, got other bytes";
    if (header->taken < PROXY_HEADER_FIXED)
        return NULL;
    if (PROXY_HEADER_FIXED + rest_of(header) > PROXY_HEADER_MAX)
        return "longer than 4096 bytes";
    switch (header->bytes[AT_COMMAND]) {
    case VERSION_2_LOCAL: return NULL; /* addresses do not matter */
    case VERSION_2_PROXY: return fault_of_addresses(header);
    default: return "expected the command PROXY or LOCAL of version 2";
    }
}

static void keep_ipv4(struct endpoint *client, const unsigned char *addresses)
{
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)&client->address;
    ipv4->sin_family = AF_INET;
    memcpy(&ipv4->sin_addr, addresses, 4);
    memcpy(&ipv4->sin_port, addresses + 8, 2);
    client->length = sizeof(*ipv4);
}

static void keep_ipv6(struct endpoint *client, const unsigned char *addresses)
{
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&client->address;
    ipv6->sin6_family = AF_INET6;
    memcpy(&ipv6->sin6_addr, addresses, 16);
    memcpy(&ipv6->sin6_port, addresses + 32, 2);
    client->length = sizeof(*ipv6);
}

static void finish(struct proxy_header *header)
{
    const unsigned char *addresses = header->bytes + PROXY_HEADER_FIXED;
    header->is_local = header->bytes[AT_COMMAND] == VERSION_2_LOCAL;
    if (header->is_local)
        return;
    if (header->bytes[AT_FAMILY] == TCP_OVER_IPV4)
        keep_ipv4(&header->client, addresses);
    else
        keep_ipv6(&header->client, addresses);
}

/* Takes the bytes that are sure to belong to it, and keeps those that tell something. */
static size_t take_part(struct proxy_header *header, const unsigned char *bytes, size_t length)
{
    size_t lacks = proxy_header_lacks(header);
    size_t taken = length < lacks ? length : lacks;
    if (header->taken < PROXY_HEADER_KEPT) {
        size_t room = PROXY_HEADER_KEPT - header->taken;
        memcpy(header->bytes + header->taken, bytes, taken < room ? taken : room);
    }
    header->taken += (uint32_t)taken;
    return taken;
}

enum proxy_header_result proxy_header_take(struct proxy_header *header, const unsigned char *bytes,
                                           size_t length, size_t *taken)
{
    *taken = 0;
    while (*taken < length && proxy_header_lacks(header) > 0) {
        *taken += take_part(header, bytes + *taken, length - *taken);
        header->fault = fault_of(header);
        if (header->fault != NULL)
            return PROXY_HEADER_BAD;
    }
    if (proxy_header_lacks(header) > 0)
        return PROXY_HEADER_MORE;
    finish(header);
    return PROXY_HEADER_DONE;
}
