#include "common/apps/pop3/pop3_users.h"

#include "common/apps/pop3/pop3_hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pop3_users_init(struct pop3_users *users)
{
    *users = (struct pop3_users){0};
}

void pop3_users_destroy(struct pop3_users *users)
{
    for (size_t i = 0; i < users->count; i++) {
        free(users->users[i].name);
        free(users->users[i].hash);
    }
    free(users->users);
    pop3_users_init(users);
}

/* ---- Passwords ----------------------------------------------------------------------------- */

static const struct pop3_user *find(const struct pop3_users *users, const char *name)
{
    for (size_t i = 0; i < users->count; i++)
        if (strcmp(users->users[i].name, name) == 0)
            return &users->users[i];
    return NULL;
}

enum pop3_password pop3_users_check(const struct pop3_users *users, const char *name,
                                    const char *password)
{
    const struct pop3_user *user = find(users, name);
    enum pop3_hash_outcome outcome = POP3_HASH_UNUSABLE;
    bool right = false;
    if (user != NULL) {
        outcome = pop3_hash_compare(user->hash, password);
        right = outcome == POP3_HASH_SAME;
    }
    if (outcome == POP3_HASH_UNUSABLE)
        outcome = pop3_hash_compare(users->stand_in, password);
    if (outcome == POP3_HASH_NO_MEMORY)
        return POP3_PASSWORD_NOT_TOLD;
    return right ? POP3_PASSWORD_RIGHT : POP3_PASSWORD_WRONG;
}

/* ---- The list ------------------------------------------------------------------------------ */

static bool is_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length >= POP3_USER_SIZE || name[0] == '.')
        return false;
    for (; *name != '\0'; name++)
        if (*name <= ' ' || *name > '~' || *name == '/')
            return false;
    return true;
}

static bool make_room(struct pop3_users *users)
{
    size_t count = users->count + 1;
    struct pop3_user *grown = reallocarray(users->users, count, sizeof(*users->users));
    if (grown != NULL)
        users->users = grown;
    return grown != NULL;
}

bool pop3_users_add(struct pop3_users *users, const char *name, const char *hash)
{
    errno = EINVAL;
    if (!is_name(name) || find(users, name) != NULL || !make_room(users))
        return false;
    struct pop3_user user = {.name = strdup(name), .hash = strdup(hash)};
    if (user.name == NULL || user.hash == NULL) {
        free(user.name);
        free(user.hash);
        return false;
    }
    users->users[users->count++] = user;
    if (users->stand_in == NULL && pop3_hash_compare(user.hash, "") != POP3_HASH_UNUSABLE)
        users->stand_in = user.hash;
    return true;
}

/* `name:hash`, perhaps with more behind a further colon. The line is changed. */
static bool add_line(struct pop3_users *users, char *line)
{
    char *hash = strchr(line, ':');
    errno = EINVAL;
    if (hash == NULL)
        return false;
    *hash++ = '\0';
    hash[strcspn(hash, ":\r\n")] = '\0';
    return pop3_users_add(users, line, hash);
}

static bool is_comment(const char *line)
{
    return line[0] == '#' || line[strspn(line, " \t\r\n")] == '\0';
}

/* Reads lines up to the end, or to one that is wrong; the number of that, 0 if all is well. */
static unsigned long add_lines(struct pop3_users *users, FILE *stream)
{
    char *line = NULL;
    size_t size = 0;
    unsigned long number = 0;
    bool good = true;
    while (good && getline(&line, &size, stream) >= 0) {
        number++;
        good = is_comment(line) || add_line(users, line);
    }
    int error = errno;
    free(line);
    errno = error;
    return good ? 0 : number;
}

bool pop3_users_read(struct pop3_users *users, const char *file, const char *program)
{
    FILE *stream = fopen(file, "re");
    unsigned long wrong = stream != NULL ? add_lines(users, stream) : 0;
    bool read = stream != NULL && !ferror(stream);
    int error = errno;
    if (stream != NULL)
        fclose(stream);
    if (!read)
        fprintf(stderr, "%s: cannot read the users from %s: %s\n", program, file, strerror(error));
    else if (wrong != 0)
        fprintf(stderr, "%s: %s:%lu: not a new user's name and hash: %s\n", program, file, wrong,
                strerror(error));
    else if (users->stand_in == NULL)
        fprintf(stderr, "%s: %s: nobody in it has a hash that crypt(3) knows\n", program, file);
    return read && wrong == 0 && users->stand_in != NULL;
}
