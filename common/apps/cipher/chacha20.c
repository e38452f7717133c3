#include "common/apps/cipher/chacha20.h"

#include <assert.h>
#include <string.h>

enum {
    WORDS = CHACHA20_BLOCK_SIZE / 4,
    DOUBLE_ROUNDS = 10,
};

static uint32_t load(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static void store(unsigned char *bytes, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(word >> 8 * i);
}

static uint32_t rotate(uint32_t word, int bits)
{
    return word << bits | word >> (32 - bits);
}

void chacha20_init(struct chacha20 *stream, const unsigned char *key, const unsigned char *nonce)
{
    for (size_t i = 0; i < sizeof(stream->key) / 4; i++)
        stream->key[i] = load(key + 4 * i);
    for (size_t i = 0; i < sizeof(stream->nonce) / 4; i++)
        stream->nonce[i] = load(nonce + 4 * i);
}

static inline void quarter_round(uint32_t *words, int a, int b, int c, int d)
{
    words[a] += words[b];
    words[d] = rotate(words[d] ^ words[a], 16);
    words[c] += words[d];
    words[b] = rotate(words[b] ^ words[c], 12);
    words[a] += words[b];
    words[d] = rotate(words[d] ^ words[a], 8);
    words[c] += words[d];
    words[b] = rotate(words[b] ^ words[c], 7);
}

/* The words are a square of four by four: first its columns, then its diagonals. */
static inline void double_round(uint32_t *words)
{
    quarter_round(words, 0, 4, 8, 12);
    quarter_round(words, 1, 5, 9, 13);
    quarter_round(words, 2, 6, 10, 14);
    quarter_round(words, 3, 7, 11, 15);
    quarter_round(words, 0, 5, 10, 15);
    quarter_round(words, 1, 6, 11, 12);
    quarter_round(words, 2, 7, 8, 13);
    quarter_round(words, 3, 4, 9, 14);
}

/* The stream's bytes from 64 * counter on. */
static void make_block(const struct chacha20 *stream, uint32_t counter, unsigned char *block)
{
    uint32_t start[WORDS] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}; /* the RFC's */
    uint32_t words[WORDS];
    memcpy(start + 4, stream->key, sizeof(stream->key));
    start[12] = counter;
    memcpy(start + 13, stream->nonce, sizeof(stream->nonce));
    memcpy(words, start, sizeof(words));
    for (int i = 0; i < DOUBLE_ROUNDS; i++)
        double_round(words);
    for (size_t i = 0; i < WORDS; i++)
        store(block + 4 * i, words[i] + start[i]);
}

void chacha20_xor(const struct chacha20 *stream, uint64_t position, unsigned char *to,
                  const unsigned char *from, size_t length)
{
    unsigned char block[CHACHA20_BLOCK_SIZE];
    assert(position <= CHACHA20_LENGTH && length <= CHACHA20_LENGTH - position);
    while (length > 0) {
        size_t skipped = position % CHACHA20_BLOCK_SIZE;
        size_t here =
            CHACHA20_BLOCK_SIZE - skipped < length ? CHACHA20_BLOCK_SIZE - skipped : length;
        make_block(stream, (uint32_t)(position / CHACHA20_BLOCK_SIZE), block);
        for (size_t i = 0; i < here; i++)
            to[i] = from[i] ^ block[skipped + i];
        position += here;
        to += here;
        from += here;
        length -= here;
    }
}
