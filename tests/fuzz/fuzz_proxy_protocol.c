/*
 * The header of the PROXY protocol against a reference that sees all bytes at once.
 *
 * The first byte says in what pieces the rest comes: however it is cut, the answer and what was
 * taken are the same.
 */
#include "common/server/proxy_protocol.h"
#include "fuzz.h"

#include <arpa/inet.h>
#include <string.h>

/* What the specification says of bytes that are all there. *length: the header's, if it is one. */
static enum proxy_header_result reference(const uint8_t *data, size_t size, size_t *length)
{
    static const uint8_t signature[] = {13, 10, 13, 10, 0, 13, 10, 'Q', 'U', 'I', 'T', 10};
    if (memcmp(data, signature, size < 12 ? size : 12) != 0)
        return PROXY_HEADER_BAD;
    if (size < 16)
        return PROXY_HEADER_MORE;
    size_t rest = data[14] * 256u + data[15];
    *length = 16 + rest;
    if (*length > 4096 || data[12] >> 4 != 2 || (data[12] & 15) > 1)
        return PROXY_HEADER_BAD;
    bool is_proxy = (data[12] & 15) == 1;
    bool is_ipv4 = data[13] == 0x11 && rest >= 12;
    bool is_ipv6 = data[13] == 0x21 && rest >= 36;
    if (is_proxy && !is_ipv4 && !is_ipv6)
        return PROXY_HEADER_BAD;
    return size < *length ? PROXY_HEADER_MORE : PROXY_HEADER_DONE;
}

/*
 * The C library's spelling, but for ::a.b.c.d: that is an address of a kind that is given up
 * (RFC 4291), so RFC 5952 has no such spelling for it, and we write ::x:y.
 */
static void spell(bool is_ipv4, const uint8_t *bytes, char *text, size_t size)
{
    static const uint8_t none[12];
    if (!is_ipv4 && memcmp(bytes, none, sizeof(none)) == 0 && (bytes[12] | bytes[13]) != 0)
        snprintf(text, size, "::%x:%x", bytes[12] * 256u + bytes[13], bytes[14] * 256u + bytes[15]);
    else
        inet_ntop(is_ipv4 ? AF_INET : AF_INET6, bytes, text, (socklen_t)size);
}

static void check_client(const struct proxy_header *header, const uint8_t *data)
{
    char expected[ENDPOINT_TEXT_SIZE];
    char address[INET6_ADDRSTRLEN];
    char text[ENDPOINT_TEXT_SIZE];
    bool is_ipv4 = data[13] == 0x11;
    const uint8_t *port = data + (is_ipv4 ? 16 + 8 : 16 + 32);
    spell(is_ipv4, data + 16, address, sizeof(address));
    snprintf(expected, sizeof(expected), is_ipv4 ? "%s:%u" : "[%s]:%u", address,
             port[0] * 256u + port[1]);
    endpoint_format(&header->client, text);
    fuzz_check(strcmp(text, expected) == 0, "%s, expected %s", text, expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct proxy_header header = {0};
    enum proxy_header_result result = PROXY_HEADER_MORE;
    size_t step = fuzz_byte(&input) % 40 + 1u;
    const uint8_t *all = input.data;
    size_t all_size = input.size;
    size_t length = 0;
    size_t taken = 0;
    while (result == PROXY_HEADER_MORE && input.size > 0) {
        struct message piece = fuzz_bytes(&input, step);
        size_t used;
        fuzz_check(proxy_header_lacks(&header) > 0, "more of nothing");
        result = proxy_header_take(&header, piece.data, piece.length, &used);
        fuzz_check(result == PROXY_HEADER_BAD || used == piece.length ||
                       result == PROXY_HEADER_DONE,
                   "%zu of %zu", used, piece.length);
        taken += used;
    }
    enum proxy_header_result expected = reference(all, all_size, &length);
    fuzz_check(result == expected, "%d, expected %d", (int)result, (int)expected);
    fuzz_check((header.fault != NULL) == (result == PROXY_HEADER_BAD), "a fault");
    if (result != PROXY_HEADER_DONE)
        return 0;
    fuzz_check(taken == length, "%zu bytes, expected %zu", taken, length);
    fuzz_check(header.is_local == (all[12] == 0x20), "local");
    if (!header.is_local)
        check_client(&header, all);
    return 0;
}
