/*
 * The line with a nonce against a reference that sees all bytes at once.
 *
 * The first byte says in what pieces the rest comes, and whose line is expected: however it is cut,
 * the answer is the same.
 */
#include "common/apps/cipher/cipher_nonce.h"
#include "fuzz.h"

#include <string.h>

/* What the line has at its place, if it is one; the first bit of the nonce aside. */
static bool is_good(size_t place, uint8_t byte)
{
    static const char word[] = "chacha20 ";
    if (place < sizeof(word) - 1)
        return byte == (uint8_t)word[place];
    return place == CIPHER_LINE_SIZE - 1 ? byte == '\n'
                                         : byte != '\0' && strchr("0123456789abcdef", byte) != NULL;
}

static enum cipher_nonce_result reference(const uint8_t *data, size_t size, bool of_server)
{
    for (size_t i = 0; i < size && i < CIPHER_LINE_SIZE; i++)
        if (!is_good(i, data[i]) || (i == 9 && (data[i] >= '8') != of_server))
            return CIPHER_NONCE_BAD;
    return size < CIPHER_LINE_SIZE ? CIPHER_NONCE_MORE : CIPHER_NONCE_DONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t how = fuzz_byte(&input);
    size_t step = how % 40 + 1u;
    struct cipher_nonce nonce = {.of_server = how >= 128};
    enum cipher_nonce_result result = CIPHER_NONCE_MORE;
    const uint8_t *all = input.data;
    size_t all_size = input.size;
    while (result == CIPHER_NONCE_MORE && input.size > 0) {
        size_t lacks = cipher_nonce_lacks(&nonce);
        fuzz_check(lacks > 0, "more of nothing");
        struct message piece = fuzz_bytes(&input, step < lacks ? step : lacks);
        result = cipher_nonce_take(&nonce, piece.data, piece.length);
    }
    enum cipher_nonce_result expected = reference(all, all_size, nonce.of_server);
    fuzz_check(result == expected, "%d, expected %d", (int)result, (int)expected);
    if (result != CIPHER_NONCE_DONE)
        return 0;
    char line[CIPHER_LINE_SIZE];
    cipher_nonce_write(&nonce, line);
    fuzz_check(memcmp(line, all, sizeof(line)) == 0, "another line: %.33s", line);
    return 0;
}
