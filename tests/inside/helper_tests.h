/*
 * Whether a server has helpers, seen from outside: for the suites of stages 4 and 5.
 */
#ifndef TESTS_INSIDE_HELPER_TESTS_H
#define TESTS_INSIDE_HELPER_TESTS_H

#include "common/apps/pop3/pop3_hash.h"
#include "support/client.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

/** Whether the program has a thread of that name. */
static bool has_thread(const struct server_process *server, const char *wanted)
{
    char name[64];
    bool has = false;
    snprintf(name, sizeof name, "/proc/%d/task", (int)server->pid);
    DIR *tasks = opendir(name);
    cr_assert_not_null(tasks);
    for (const struct dirent *task; !has && (task = readdir(tasks)) != NULL;) {
        char place[512];
        char read[64] = "";
        snprintf(place, sizeof place, "%s/%s/comm", name, task->d_name);
        FILE *file = fopen(place, "re");
        if (file) {
            has = fgets(read, sizeof read, file) && strncmp(read, wanted, strlen(wanted)) == 0;
            fclose(file);
        }
    }
    closedir(tasks);
    return has;
}

static void log_in_with(const char *options, bool has_helper)
{
    if (!pop3_hash_known) {
        cr_skip_test("this build has no crypt(3)");
    }
    struct server_process server = server_start("--app pop3 %s", options);
    int client = client_connect(&server);
    client_send_text(client, "USER mrose\r\nPASS tanstaaf\r\n");
    client_expect_text(client, "+OK this is a POP3 server\r\n+OK now the password\r\n+OK ");
    cr_assert_eq(has_thread(&server, "helper"), has_helper);
    client_close(client);
    server_stop(&server);
}

#endif
