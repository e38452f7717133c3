/*
 * Two hundred logins at a time: crypt(3) and the mailboxes keep the helpers busy, and nobody else
 * waits for that, although the handlers run in the dispatcher itself.
 */
#include "framework.h"

#include "common/apps/pop3/pop3_hash.h"
#include "common/apps/pop3/pop3_session.h"
#include "common/base/container_of.h"
#include "support/configure.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Password `sesame`. Of each address eight may log in at a time. */
#define HASH "$5$rounds=1000$salt$rloU6KpfKKm9G.NUT4Kh3.lZ3eQ67D/GrlYTTZlly7."
enum { LOGINS = 200, OF_AN_ADDRESS = 8 };

static struct framework framework;
static char folder[64];
static int clients[LOGINS];
static struct pop3_session *sessions[LOGINS + 1]; /* the last that each user had */

static const char *path(const char *format, ...) __attribute__((format(printf, 1, 2)));

static const char *path(const char *format, ...)
{
    static char path[256];
    int used = snprintf(path, sizeof path, "%s/", folder);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path + used, sizeof path - (size_t)used, format, arguments);
    va_end(arguments);
    return path;
}

static void make_file(const char *name, const char *mode, const char *text)
{
    FILE *file = fopen(name, mode);
    cr_assert_not_null(file, "%s", name);
    fputs(text, file);
    fclose(file);
}

/** A user and a mailbox, in which there is a message for every second one. */
static void make_user(int number)
{
    char line[256];
    snprintf(line, sizeof line, "user%d:%s\n", number, HASH);
    make_file(path("users"), "ae", line);
    cr_assert_eq(mkdir(path("user%d", number), 0700), 0);
    cr_assert_eq(mkdir(path("user%d/new", number), 0700), 0);
    cr_assert_eq(mkdir(path("user%d/cur", number), 0700), 0);
    if (number % 2 != 0) {
        make_file(path("user%d/new/1.one", number), "we", "one\n");
    }
}

static void make_mailboxes(void)
{
    snprintf(folder, sizeof folder, "/tmp/logins-test.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    for (int i = 0; i <= LOGINS; i++) {
        make_user(i);
    }
}

static int remove_one(const char *file, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(file);
}

static void remove_mailboxes(void)
{
    if (folder[0]) {
        nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
}

TestSuite(stage5_logins, .timeout = 120, .init = make_mailboxes, .fini = remove_mailboxes);

/* ---- the application in the framework ---- */

extern const struct application pop3_application;
static char users[128];

static struct input_handler_factory *start(const char *ways)
{
    if (!pop3_hash_known) {
        cr_skip_test("this build has no crypt(3)");
    }
    test_point_count(HELPER_ENDS); /* from now on */
    framework_start(&framework, "%s --helpers 2", ways);
    snprintf(users, sizeof users, "%s", path("users"));
    const char *const words[] = {"--mail-dir", folder, "--users", users, NULL};
    cr_assert(configure(&pop3_application, words));
    struct input_handler_factory *factory = application_open(&pop3_application, &framework.server);
    cr_assert_not_null(factory);
    return factory;
}

static int say_all(struct input_handler_factory *factory, int number, const char *password,
                   const char *more)
{
    char text[256];
    framework.buffers = (struct client_buffers){.source = 2 + number / OF_AN_ADDRESS};
    static struct pop3_session memory[LOGINS + 1 + OF_AN_ADDRESS]; /* the connections' otherwise */
    static int used;
    struct pop3_session *session = &memory[used++];
    struct input_handler *handler = factory->create(factory, session);
    sessions[number] = session;
    int client = framework_connect(&framework, handler);
    snprintf(text, sizeof text, "USER user%d\r\nPASS %s\r\n%s", number, password, more);
    client_ask(client, text, "+OK this is a POP3 server\r\n+OK now the password\r\n");
    return client;
}

static bool is_wrong(int number)
{
    return number % OF_AN_ADDRESS == 3;
}

static void expect_answers(int client, int number)
{
    if (is_wrong(number)) {
        client_expect_text(client, "-ERR [AUTH] this is not a user with that password\r\n"
                                   "-ERR not before the password\r\n+OK goodbye\r\n");
    } else if (number % 2 != 0) {
        client_expect_text(client, "+OK 1 messages\r\n+OK 1 5\r\n+OK goodbye\r\n");
    } else {
        client_expect_text(client, "+OK 0 messages\r\n+OK 0 0\r\n+OK goodbye\r\n");
    }
    client_expect_end(client);
}

/* Each client has sent all it has to say, so an answer in the wrong place would show. */
static void nobody_waits_for_two_hundred(const char *ways)
{
    struct input_handler_factory *factory = start(ways);
    int other = say_all(factory, LOGINS, "sesame", "");
    client_expect_text(other, "+OK 0 messages\r\n");
    test_point_hold(HELPER_BEGINS);
    test_point_hold(HELPER_BEGINS);
    for (int i = 0; i < LOGINS; i++) {
        clients[i] = say_all(factory, i, is_wrong(i) ? "simsim" : "sesame", "STAT\r\nQUIT\r\n");
    }
    test_point_await_held(HELPER_BEGINS, 2);
    framework_await_asleep(&framework);
    cr_assert_eq(executor_stats(&framework.helpers).waiting, LOGINS - 2);
    client_ask(other, "NOOP\r\n", "+OK\r\n");
    for (int i = 0; i < LOGINS; i++) {
        client_expect_silence(clients[i], 0);
    }
    test_point_release(HELPER_BEGINS);
    test_point_release(HELPER_BEGINS);
    for (int i = 0; i < LOGINS; i++) {
        expect_answers(clients[i], i);
        client_close(clients[i]);
    }
    framework_close(&framework);
    pop3_application.close(factory);
}

Test(stage5_logins, nobody_waits_for_two_hundred_with_handlers_in_the_dispatcher)
{
    nobody_waits_for_two_hundred("--workers 0");
}

Test(stage5_logins, nobody_waits_for_two_hundred_with_one_worker)
{
    nobody_waits_for_two_hundred("--workers 1");
}

/*
 * Eight of an address wait, and a ninth is put off. Then they are cut off, and the place is theirs
 * again: neither the two that helpers had begun with nor the six that they had not are forgotten.
 */
Test(stage5_logins, those_that_are_cut_off_are_in_nobodys_way)
{
    struct input_handler_factory *factory = start("--workers 0");
    test_point_hold(HELPER_BEGINS);
    test_point_hold(HELPER_BEGINS);
    for (int i = 0; i < OF_AN_ADDRESS; i++) {
        clients[i] = say_all(factory, i, "sesame", "");
    }
    test_point_await_held(HELPER_BEGINS, 2);
    framework_await_asleep(&framework);
    for (int i = 0; i < OF_AN_ADDRESS; i++) {
        framework_cut_off(sessions[i]->facade);
    }
    framework_await_closed(&framework, OF_AN_ADDRESS);
    test_point_release(HELPER_BEGINS);
    test_point_release(HELPER_BEGINS);
    test_point_await_count(HELPER_ENDS, OF_AN_ADDRESS);
    for (int i = 0; i < OF_AN_ADDRESS; i++) {
        client_expect_gone(clients[i]);
        client_close(clients[i]);
    }
    test_point_hold(HELPER_BEGINS);
    test_point_hold(HELPER_BEGINS);
    for (int i = 0; i < OF_AN_ADDRESS; i++) {
        clients[i] = say_all(factory, i, "sesame", "");
    }
    test_point_await_held(HELPER_BEGINS, 2);
    framework_await_asleep(&framework);
    cr_assert_eq(executor_stats(&framework.helpers).waiting, OF_AN_ADDRESS - 2);
    test_point_release(HELPER_BEGINS);
    test_point_release(HELPER_BEGINS);
    for (int i = 0; i < OF_AN_ADDRESS; i++) {
        client_expect_text(clients[i], i % 2 != 0 ? "+OK 1 messages\r\n" : "+OK 0 messages\r\n");
        client_close(clients[i]);
    }
    framework_stop(&framework);
    pop3_application.close(factory);
}
