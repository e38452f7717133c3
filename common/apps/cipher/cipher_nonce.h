/*
 * The line that each side of an encrypted connection sends first, in clear (cipher_element.h):
 *
 *   chacha20 800102030405060708090a0b
 *
 * The 24 hexadecimal digits are the nonce with which this side is going to encrypt, 12 random
 * bytes. Their first bit is set if a server has made them, and not set if a client has. So the two
 * directions never have the same nonce, even if somebody sends a server's own line back to it.
 *
 * Interface: no lock; a nonce is read by one thread at a time.
 */
#ifndef COMMON_CIPHER_NONCE_H
#define COMMON_CIPHER_NONCE_H

#include "common/apps/cipher/chacha20.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /** The line with its LF; there is no CR. */
    CIPHER_LINE_SIZE = 9 + 2 * CHACHA20_NONCE_SIZE + 1,
};

/** The line as far as it has come. Starts as all zero, but for of_server. */
struct cipher_nonce {
    unsigned char bytes[CHACHA20_NONCE_SIZE];
    uint8_t taken; /* bytes of the line */
    bool of_server;
};

enum cipher_nonce_result {
    CIPHER_NONCE_MORE, /* all good so far */
    CIPHER_NONCE_DONE, /* that was its last byte */
    CIPHER_NONCE_BAD,  /* it is no such line, or not one of that side */
};

/** Makes a random one. False with errno if the system has no random bytes. */
bool cipher_nonce_make(struct cipher_nonce *nonce, bool of_server);

/** Writes its line, which no zero byte ends. */
void cipher_nonce_write(const struct cipher_nonce *nonce, char line[CIPHER_LINE_SIZE]);

/** How many bytes the line lacks. */
static inline size_t cipher_nonce_lacks(const struct cipher_nonce *nonce)
{
    return (size_t)CIPHER_LINE_SIZE - nonce->taken;
}

/** Takes the next bytes of the line, at most as many as it lacks; all of them, unless it is BAD. */
enum cipher_nonce_result cipher_nonce_take(struct cipher_nonce *nonce, const unsigned char *bytes,
                                           size_t length);

/** The value of a hexadecimal digit, small letters only; -1: it is none. */
int cipher_digit(unsigned char byte);

#endif
