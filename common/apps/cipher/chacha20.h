/*
 * ChaCha20 (RFC 8439, section 2.4): a stream cipher. A key and a nonce make a stream of bytes that
 * nobody can tell from random ones without the key; XORed with it, clear text becomes ciphertext,
 * and ciphertext becomes clear text.
 *
 * It hides and does nothing else. Whoever flips a bit of the ciphertext has flipped that bit of the
 * clear text, and nobody notices.
 *
 * Interface:
 * - Two clear texts must never be encrypted with the same key, nonce and position: their XOR would
 *   then be that of the two ciphertexts, which everybody can see.
 * - The stream can be entered anywhere, so a position is a parameter and nothing is kept. A
 *   struct chacha20 does not change once it is initialised; any thread may use it.
 */
#ifndef COMMON_CHACHA20_H
#define COMMON_CHACHA20_H

#include <stddef.h>
#include <stdint.h>

enum {
    CHACHA20_KEY_SIZE = 32,
    CHACHA20_NONCE_SIZE = 12,
    CHACHA20_BLOCK_SIZE = 64,
};

/** The length of a stream in bytes: its blocks are counted in 32 bits. */
#define CHACHA20_LENGTH (UINT64_C(64) << 32)

struct chacha20 {
    uint32_t key[8];
    uint32_t nonce[3];
};

/** A stream: CHACHA20_KEY_SIZE bytes of key, CHACHA20_NONCE_SIZE bytes of nonce. */
void chacha20_init(struct chacha20 *stream, const unsigned char *key, const unsigned char *nonce);

/**
 * Encrypts or decrypts length bytes with the stream from `position` on, which is a number of bytes;
 * position + length must not be beyond CHACHA20_LENGTH. `to` may be `from`.
 */
void chacha20_xor(const struct chacha20 *stream, uint64_t position, unsigned char *to,
                  const unsigned char *from, size_t length);

#endif
