#include "common/server/endpoint.h"

#include "common/base/text.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

static bool parse_path(struct endpoint *endpoint, const char *path)
{
    struct sockaddr_un *local = (struct sockaddr_un *)&endpoint->address;
    size_t size = strlen(path) + 1;
    if (size > sizeof(local->sun_path))
        return false;
    local->sun_family = AF_UNIX;
    memcpy(local->sun_path, path, size);
    endpoint->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    return true;
}

bool endpoint_parse(struct endpoint *endpoint, const char *address, unsigned port)
{
    memset(endpoint, 0, sizeof(*endpoint));
    if (address[0] == '/')
        return parse_path(endpoint, address);
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)&endpoint->address;
    if (inet_pton(AF_INET, address, &ipv4->sin_addr) == 1) {
        ipv4->sin_family = AF_INET;
        ipv4->sin_port = htons((uint16_t)port);
        endpoint->length = sizeof(*ipv4);
        return true;
    }
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&endpoint->address;
    if (inet_pton(AF_INET6, address, &ipv6->sin6_addr) == 1) {
        ipv6->sin6_family = AF_INET6;
        ipv6->sin6_port = htons((uint16_t)port);
        endpoint->length = sizeof(*ipv6);
        return true;
    }
    return false;
}

/* ---- Text, for a signal handler too -------------------------------------------------------- */

enum {
    GROUPS = 8, /* of 16 bits */
};

static void append_ipv4(struct growing_text *text, const unsigned char bytes[4])
{
    for (int i = 0; i < 4; i++) {
        text_append(text, i == 0 ? "" : ".");
        text_append_number(text, bytes[i], 10);
    }
}

static unsigned group_of(const unsigned char *bytes, size_t i)
{
    return bytes[2 * i] * 256u + bytes[2 * i + 1];
}

/* The first of the longest runs of zero groups; GROUPS: none has two. */
static unsigned find_zeros(const unsigned char *bytes, unsigned *length)
{
    unsigned start = GROUPS;
    *length = 1;
    for (unsigned i = 0, run = 0; i < GROUPS; i++) {
        run = group_of(bytes, i) == 0 ? run + 1 : 0;
        if (run > *length) {
            *length = run;
            start = i + 1 - run;
        }
    }
    return start;
}

/* As RFC 5952 has it, so that an address has one spelling: the zeros are "::". */
static void append_ipv6(struct growing_text *text, const unsigned char *bytes)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff}; /* an address of IPv4 */
    unsigned length, zeros = find_zeros(bytes, &length);
    if (memcmp(bytes, mapped, sizeof(mapped)) == 0) {
        text_append(text, "::ffff:");
        append_ipv4(text, bytes + sizeof(mapped));
        return;
    }
    for (unsigned i = 0; i < GROUPS; i++) {
        if (i == zeros) {
            text_append(text, "::");
            i += length - 1;
            continue;
        }
        text_append(text, i == 0 || (zeros < GROUPS && i == zeros + length) ? "" : ":");
        text_append_number(text, group_of(bytes, i), 16);
    }
}

void endpoint_format(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_SIZE])
{
    struct growing_text growing = {text, ENDPOINT_TEXT_SIZE, 0};
    const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)&endpoint->address;
    const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)&endpoint->address;
    bool is_ipv4 = endpoint->address.ss_family == AF_INET;
    if (endpoint->address.ss_family == AF_UNIX) {
        text_append(&growing, "local");
        return;
    }
    text_append(&growing, is_ipv4 ? "" : "[");
    if (is_ipv4)
        append_ipv4(&growing, (const unsigned char *)&ipv4->sin_addr);
    else
        append_ipv6(&growing, ipv6->sin6_addr.s6_addr);
    text_append(&growing, is_ipv4 ? ":" : "]:");
    text_append_number(&growing, ntohs(is_ipv4 ? ipv4->sin_port : ipv6->sin6_port), 10);
}

const char *endpoint_path(const struct endpoint *endpoint)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)&endpoint->address;
    return local->sun_family == AF_UNIX && local->sun_path[0] == '/' ? local->sun_path : NULL;
}
