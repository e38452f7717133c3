/*
 * What a hash of crypt(3) says of a password. Where a system has no crypt(3), `make CRYPT=none`
 * chooses a variant in which no hash can be compared.
 */
#ifndef COMMON_APPS_POP3_HASH_H
#define COMMON_APPS_POP3_HASH_H

#include <stdbool.h>

enum pop3_hash_outcome {
    POP3_HASH_SAME,
    POP3_HASH_OTHER,
    POP3_HASH_UNUSABLE, /**< not a hash that is known here */
    POP3_HASH_NO_MEMORY
};

/** Whether any hash can be compared. */
extern const bool pop3_hash_known;

/** Compares a password with what the hash was made of. Takes as long as the hash was made to take.
 */
enum pop3_hash_outcome pop3_hash_compare(const char *hash, const char *password);

#endif
