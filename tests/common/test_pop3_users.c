/*
 * Passwords (common/apps/pop3/pop3_users.h): how often crypt(3) is asked. Its time is all the time
 * that a check takes, so whoever cannot be told apart by its calls cannot be told apart by a clock.
 */
#include "common/apps/pop3/pop3_users.h"

#include <criterion/criterion.h>
#include <crypt.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

TestSuite(pop3_users, .timeout = 120);

enum { HASH_SIZE = 256 };

static int calls;
static char last_kind[8]; /* of the last hash: which method it is of */

/** In place of the library's, which it calls. */
char *crypt_r(const char *phrase, const char *setting, struct crypt_data *data)
{
    static char *(*original)(const char *, const char *, struct crypt_data *);
    if (!original) {
        *(void **)&original = dlsym(RTLD_NEXT, "crypt_r");
    }
    char *made = original(phrase, setting, data);
    if (made && made[0] != '*') { /* what is refused takes no time */
        calls++;
        strncpy(last_kind, setting, 3);
    }
    return made;
}

static void add(struct pop3_users *users, const char *name, const char *password,
                const char *setting)
{
    char hash[HASH_SIZE];
    static struct crypt_data data;
    snprintf(hash, sizeof hash, "%s", crypt_r(password, setting, &data));
    cr_assert(pop3_users_add(users, name, hash), "%s", name);
}

static void expect_check(const struct pop3_users *users, const char *name, const char *password,
                         enum pop3_password wanted)
{
    calls = 0;
    last_kind[0] = '\0';
    cr_assert_eq(pop3_users_check(users, name, password), wanted, "%s, `%s`", name, password);
    cr_assert_eq(calls, 1, "%s, `%s`: %d calls", name, password, calls);
    cr_assert_str_eq(last_kind, "$6$", "%s, `%s`", name, password);
}

Test(pop3_users, each_check_asks_once_whoever_it_is)
{
    struct pop3_users users;
    pop3_users_init(&users);
    cr_assert(pop3_users_add(&users, "locked", "*"));
    cr_assert(pop3_users_add(&users, "off", "!$6$rounds=1000$a$b"));
    cr_assert(pop3_users_add(&users, "empty", ""));
    cr_assert_null(users.stand_in, "nobody can log in yet");
    add(&users, "ann", "a", "$6$rounds=1000$salt");
    add(&users, "bob", "b", "$6$rounds=1000$tlas");
    expect_check(&users, "ann", "a", POP3_PASSWORD_RIGHT);
    expect_check(&users, "bob", "b", POP3_PASSWORD_RIGHT);
    expect_check(&users, "ann", "b", POP3_PASSWORD_WRONG);
    expect_check(&users, "ann", "", POP3_PASSWORD_WRONG);
    expect_check(&users, "nobody", "a", POP3_PASSWORD_WRONG); /* the stand-in's own password */
    expect_check(&users, "", "a", POP3_PASSWORD_WRONG);
    expect_check(&users, "locked", "a", POP3_PASSWORD_WRONG);
    expect_check(&users, "locked", "*", POP3_PASSWORD_WRONG);
    expect_check(&users, "off", "a", POP3_PASSWORD_WRONG);
    expect_check(&users, "empty", "", POP3_PASSWORD_WRONG);
    pop3_users_destroy(&users);
}

Test(pop3_users, a_name_is_a_folder_and_is_there_once)
{
    static const char *const bad[] = {"",   ".",   "..",  ".a",   "a/b",
                                      "/a", "a b", "a\n", "\x7f", "\xe4"};
    char longest[POP3_USER_SIZE + 1];
    struct pop3_users users;
    pop3_users_init(&users);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(pop3_users_add(&users, bad[i], "$1$a$b"), "`%s`", bad[i]);
        cr_assert_eq(errno, EINVAL, "`%s`", bad[i]);
    }
    memset(longest, 'a', sizeof longest);
    longest[POP3_USER_SIZE] = '\0';
    cr_assert_not(pop3_users_add(&users, longest, "$1$a$b"));
    longest[POP3_USER_SIZE - 1] = '\0';
    cr_assert(pop3_users_add(&users, longest, "$1$a$b"));
    cr_assert_not(pop3_users_add(&users, longest, "$1$a$b"), "twice");
    cr_assert(pop3_users_add(&users, "..a", "$1$a$b") == false);
    cr_assert(pop3_users_add(&users, "a..b@c-d_e~", "$1$a$b"));
    pop3_users_destroy(&users);
}
