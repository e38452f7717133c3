/*
 * Who is on the other servers of a chat, as far as one has heard.
 */
#include "common/apps/broker/roster.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(roster, .timeout = 120);

static void note(void *names, const char *name)
{
    strcat(names, name);
    strcat(names, " ");
}

static void expect_rows(const struct roster *roster, size_t count, const char *row)
{
    char rows[8][CHAT_ROW_SIZE];
    size_t found = 0;
    cr_assert_eq(roster->user_count, count);
    cr_assert_eq(roster_copy(roster, rows, 8), count);
    for (size_t i = 0; i < count; i++) {
        found += strcmp(rows[i], row) == 0;
    }
    cr_assert_eq(found, 1, "%s", row);
}

Test(roster, a_server_goes_with_its_own_users_and_no_others)
{
    struct roster roster = {0};
    char left[64] = "";
    struct roster_server *one = roster_add(&roster, "one", 1);
    struct roster_server *two = roster_add(&roster, "two", 2);
    cr_assert(roster_user_came(&roster, one, "ann"));
    cr_assert(roster_user_came(&roster, two, "ann"));
    cr_assert_not(roster_user_came(&roster, two, "ann"), "she is there already");
    cr_assert(roster_user_came(&roster, one, "bob"));
    cr_assert(roster_user_left(&roster, one, "bob"));
    cr_assert_not(roster_user_left(&roster, one, "bob"));
    roster_remove(&roster, one, note, left);
    cr_assert_str_eq(left, "ann ");
    cr_assert_null(roster_find(&roster, 1));
    cr_assert_eq(roster_find(&roster, 2), two);
    expect_rows(&roster, 1, "ann on two");
    roster_destroy(&roster);
}

Test(roster, a_user_whom_a_new_list_does_not_name_has_left)
{
    struct roster roster = {0};
    char left[64] = "";
    struct roster_server *one = roster_add(&roster, "one", 1);
    struct roster_server *two = roster_add(&roster, "two", 2);
    roster_user_came(&roster, two, "eve");
    roster_user_came(&roster, one, "ann");
    roster_user_came(&roster, one, "bob");
    one->round++;
    roster_user_came(&roster, one, "ann");
    roster_user_came(&roster, one, "carl");
    roster_sweep(&roster, one, note, left);
    cr_assert_str_eq(left, "bob ");
    expect_rows(&roster, 3, "carl on one");
    roster_destroy(&roster);
}

/**
 * A server that dies costs as much as the users that it had. If it cost all users, this would take
 * minutes, and so would a broker that makes servers up, with nobody heard meanwhile.
 */
Test(roster, servers_without_users_cost_nothing_for_those_of_others)
{
    struct roster roster = {0};
    char left[64] = "";
    char name[16];
    struct roster_server *crowd = roster_add(&roster, "crowd", 1);
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "user%d", i);
        roster_user_came(&roster, crowd, name);
    }
    for (uint64_t i = 0; i < 50000; i++) {
        struct roster_server *server = roster_add(&roster, "one", 2);
        left[0] = '\0';
        roster_user_came(&roster, server, "ann");
        roster_remove(&roster, server, note, left);
        cr_assert_str_eq(left, "ann ");
    }
    cr_assert_eq(roster.user_count, 20000);
    roster_destroy(&roster);
}
