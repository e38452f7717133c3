#include "common/apps/cipher/cipher_nonce.h"

#include <string.h>
#include <unistd.h>

static const char word[] = "chacha20 ";

enum {
    WORD_LENGTH = sizeof(word) - 1,
    SERVER_BIT = 0x80, /* of the first byte */
};

bool cipher_nonce_make(struct cipher_nonce *nonce, bool of_server)
{
    *nonce = (struct cipher_nonce){.taken = CIPHER_LINE_SIZE, .of_server = of_server};
    if (getentropy(nonce->bytes, sizeof(nonce->bytes)) != 0)
        return false;
    nonce->bytes[0] &= (unsigned char)~SERVER_BIT;
    nonce->bytes[0] |= of_server ? SERVER_BIT : 0;
    return true;
}

void cipher_nonce_write(const struct cipher_nonce *nonce, char line[CIPHER_LINE_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    char *next = line + WORD_LENGTH;
    memcpy(line, word, WORD_LENGTH);
    for (size_t i = 0; i < sizeof(nonce->bytes); i++) {
        *next++ = digits[nonce->bytes[i] >> 4];
        *next++ = digits[nonce->bytes[i] & 15];
    }
    *next = '\n';
}

int cipher_digit(unsigned char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The digit at a place of the line; false if there is none, or the nonce is the other side's. */
static bool take_digit(struct cipher_nonce *nonce, size_t place, unsigned char byte)
{
    int digit = cipher_digit(byte);
    unsigned char *into = &nonce->bytes[place / 2];
    if (digit < 0 || (place == 0 && (digit >= 8) != nonce->of_server))
        return false;
    *into = (unsigned char)(*into << 4 | digit);
    return true;
}

static bool take_byte(struct cipher_nonce *nonce, unsigned char byte)
{
    size_t place = nonce->taken;
    if (place < WORD_LENGTH)
        return byte == (unsigned char)word[place];
    if (place < CIPHER_LINE_SIZE - 1)
        return take_digit(nonce, place - WORD_LENGTH, byte);
    return byte == '\n';
}

enum cipher_nonce_result cipher_nonce_take(struct cipher_nonce *nonce, const unsigned char *bytes,
                                           size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!take_byte(nonce, bytes[i]))
            return CIPHER_NONCE_BAD;
        nonce->taken++;
    }
    return cipher_nonce_lacks(nonce) == 0 ? CIPHER_NONCE_DONE : CIPHER_NONCE_MORE;
}
