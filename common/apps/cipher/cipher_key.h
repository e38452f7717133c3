/*
 * The key of encrypted connections (cipher_element.h): a file with 64 hexadecimal digits, which the
 * two sides have got from each other in some other way.
 */
#ifndef COMMON_CIPHER_KEY_H
#define COMMON_CIPHER_KEY_H

#include "common/apps/cipher/chacha20.h"
#include "common/base/log.h"
#include "common/base/options.h"

/** What the options say, and the keys once they are read. */
struct cipher_choice {
    const char *clients; /* --cipher: a key file; NULL: clients send clear text */
    const char *servers; /* --cipher-to: the same for the servers that we connect to */
    unsigned char clients_key[CHACHA20_KEY_SIZE];
    unsigned char servers_key[CHACHA20_KEY_SIZE];
};

/** Adds --cipher and --cipher-to. */
void cipher_options(struct options *options, struct cipher_choice *choice);

/**
 * Reads the keys that were chosen. False if there is a file that cannot be read or has no key in
 * it; standard error says which and why. The log warns of a file that everybody can read.
 */
bool cipher_read_keys(struct cipher_choice *choice, const struct log *log);

#endif
