#include "common/apps/pop3/pop3_hash.h"

#include <crypt.h>
#include <stdlib.h>
#include <string.h>

const bool pop3_hash_known = true;

/*
 * Takes its time. The memory that crypt_r(3) works in is more than a thread's stack should be
 * burdened with, and has seen the password.
 */
enum pop3_hash_outcome pop3_hash_compare(const char *hash, const char *password)
{
    struct crypt_data *work = calloc(1, sizeof(*work));
    if (work == NULL)
        return POP3_HASH_NO_MEMORY;
    const char *made = crypt_r(password, hash, work);
    bool usable = made != NULL && made[0] != '*';
    bool same = usable && strcmp(made, hash) == 0;
    explicit_bzero(work, sizeof(*work));
    free(work);
    if (!usable)
        return POP3_HASH_UNUSABLE;
    return same ? POP3_HASH_SAME : POP3_HASH_OTHER;
}
