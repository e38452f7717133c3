/*
 * Who may read a mailbox: names and password hashes of crypt(3), from a file with lines such as
 *
 *   ann:$y$j9T$...        (`openssl passwd -6` makes such a second part)
 *
 * Empty lines and those that begin with # are passed over. A further colon ends the hash, so that
 * lines of /etc/shadow can be used as they are. With a hash that crypt(3) does not know, "*" say,
 * no password is right.
 *
 * Interface:
 * - Reading and adding come before serving; from then on nothing changes, and any thread may ask.
 * - Only a name of the file can be anybody's, so a client cannot make one up. A name is a folder's
 *   name as well: it begins with no dot and has no slash in it.
 * - To ask takes as long for a name that is not there as for a wrong password: a hash is computed
 *   either way. That holds if all users' hashes are of one kind; if not, the time tells which kind
 *   a name has.
 */
#ifndef COMMON_APPS_POP3_USERS_H
#define COMMON_APPS_POP3_USERS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    /** The longest name, with the closing zero. */
    POP3_USER_SIZE = 65,
};

struct pop3_user {
    char *name;
    char *hash;
};

struct pop3_users {
    struct pop3_user *users;
    size_t count;
    const char *stand_in; /* for names that are not there: the first hash that crypt(3) knows */
};

/** What becomes of a password. */
enum pop3_password {
    POP3_PASSWORD_RIGHT,
    POP3_PASSWORD_WRONG,    /* or there is no such user; the answer is the same */
    POP3_PASSWORD_NOT_TOLD, /* there is no memory to find out */
};

/** An empty list. */
void pop3_users_init(struct pop3_users *users);

/** Forgets all. */
void pop3_users_destroy(struct pop3_users *users);

/** Adds a user. False with errno: EINVAL for what cannot be a name or is one already, ENOMEM. */
bool pop3_users_add(struct pop3_users *users, const char *name, const char *hash);

/**
 * Adds all that a file lists. False if it cannot be read, or nobody could log in then; one line on
 * standard error, with the program's name in front, tells why.
 */
bool pop3_users_read(struct pop3_users *users, const char *file, const char *program);

/** Compares a password with that of the user. Takes as long as the hash was made to take. */
enum pop3_password pop3_users_check(const struct pop3_users *users, const char *name,
                                    const char *password);

#endif
