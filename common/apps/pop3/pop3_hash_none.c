#include "common/apps/pop3/pop3_hash.h"

const bool pop3_hash_known = false;

enum pop3_hash_outcome pop3_hash_compare(const char *hash, const char *password)
{
    (void)hash;
    (void)password;
    return POP3_HASH_UNUSABLE;
}
