/*
 * The exercises of docs/stage5.md: tests that fail until one has been done.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(exercise_stage5, .timeout = 60);

/** A counter of one dispatcher, from the last line that the server has printed for it. */
static long long dispatcher_counter(const struct server_process *server, int number,
                                    const char *name)
{
    static char text[65536];
    char start[128];
    char pattern[64];
    snprintf(start, sizeof start, "%s: dispatcher %d: stats ", server_name(), number);
    snprintf(pattern, sizeof pattern, " %s=", name);
    char *line = NULL;
    double end = test_now() + test_deadline_ms() / 1000.0;
    do { /* the lines of the dispatchers come behind the one that was waited for */
        test_pause_ms(1);
        server_errors(server, text, sizeof text);
        for (char *at = text; (at = strstr(at, start)) != NULL; at++) {
            line = at;
        }
    } while ((!line || !strchr(line, '\n')) && test_left_ms(end) > 0);
    cr_assert(line && strchr(line, '\n'), "no line with `%s` in: %s", start, text);
    *strchr(line, '\n') = '\0';
    const char *value = strstr(line, pattern);
    return value ? strtoll(value + strlen(pattern), NULL, 10) : 0;
}

/* Small: a connection goes to the dispatcher with the fewest. */
Test(exercise_stage5, small_the_dispatcher_with_the_fewest_is_next)
{
    enum { DISPATCHERS = 2, EACH = 5 };
    int staying[DISPATCHERS * EACH];
    struct server_process server = server_start("--dispatchers %d", DISPATCHERS);
    for (int i = 0; i < DISPATCHERS * EACH; i++) {
        staying[i] = client_connect(&server);
        client_echo(staying[i], "I stay\n");
        int leaving = client_connect(&server);
        client_echo(leaving, "I do not\n");
        client_close(leaving);
        server_await_counter(&server, "closed", i + 1);
    }
    for (int i = 1; i <= DISPATCHERS; i++) {
        long long here =
            dispatcher_counter(&server, i, "accepted") - dispatcher_counter(&server, i, "closed");
        /* A connection counts as closed a moment before it is one less. */
        cr_assert(here >= EACH - 1 && here <= EACH + 1,
                  "every second client stays, and of %d dispatcher %d has %lld", DISPATCHERS * EACH,
                  i, here);
    }
    for (int i = 0; i < DISPATCHERS * EACH; i++) {
        client_close(staying[i]);
    }
    server_stop(&server);
}

/** Takes one line without its end. */
static void take_line(int client, char *line, size_t size)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    size_t length = 0;
    do {
        size_t got = 0;
        enum client_outcome outcome = client_try_receive(client, line + length, 1, end, &got);
        cr_assert(outcome == CLIENT_GOT, "no line: %s", client_outcome_text(outcome));
        cr_assert_lt(length + 1, size);
    } while (line[length++] != '\n');
    line[length - 1] = '\0';
}

static void expect_a_rate(const char *options)
{
    enum { RATE = 5, LINES = 200 };
    size_t length;
    char *lines = lines_numbered("fast", LINES, &length);
    struct server_process server = server_start("--message-rate %d %s", RATE, options);
    int fast = client_connect(&server);
    int other = client_connect(&server);
    double begin = test_now();
    int handled = 0;
    client_send(fast, lines, length);
    for (int i = 0; i < LINES; i++) {
        char line[64];
        char wanted[64];
        take_line(fast, line, sizeof line);
        snprintf(wanted, sizeof wanted, "fast %06d", i);
        if (strcmp(line, wanted) == 0) {
            handled++;
        } else {
            cr_assert_str_eq(line, "ERR server busy", "instead of `%s`: %s", wanted, line);
            cr_assert(handled >= RATE, "only %d were handled before one was refused", handled);
        }
    }
    double took = test_now() - begin;
    cr_assert(handled <= RATE * (took + 2), "in %.2f s %d were handled", took, handled);
    client_echo(other, "I have sent nothing yet\n");
    test_pause_ms(1100); /* a second has to pass for the fast one, too */
    client_echo(fast, "and now slowly\n");
    client_close(fast);
    client_close(other);
    server_stop(&server);
    free(lines);
}

/* Medium: --message-rate N, above which a client's messages are refused. */
Test(exercise_stage5, medium_messages_that_come_too_fast_are_refused)
{
    expect_a_rate("");
}

Test(exercise_stage5, medium_with_workers_too)
{
    expect_a_rate("--workers 2");
}

/** How many sockets listen on the server's port. */
static int listening_sockets(const struct server_process *server)
{
    enum { TCP_LISTEN_STATE = 0x0a };
    char line[512];
    int count = 0;
    FILE *table = fopen("/proc/net/tcp", "re");
    cr_assert_not_null(table);
    while (fgets(line, sizeof line, table)) {
        unsigned port;
        unsigned state;
        if (sscanf(line, " %*d: %*x:%x %*x:%*x %x", &port, &state) == 2 &&
            (int)port == server->port && state == TCP_LISTEN_STATE) {
            count++;
        }
    }
    fclose(table);
    return count;
}

/* Large: --reuse-port gives each dispatcher a listening socket of its own. */
Test(exercise_stage5, large_each_dispatcher_accepts_its_own)
{
    enum { DISPATCHERS = 3, CLIENTS = 90 };
    static int clients[CLIENTS];
    struct server_process server = server_start("--dispatchers %d --reuse-port", DISPATCHERS);
    cr_assert_eq(listening_sockets(&server), DISPATCHERS);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect(&server);
        client_echo(clients[i], "hello\n");
    }
    cr_assert_eq(server_counter(&server, "accepted"), CLIENTS);
    for (int i = 1; i <= DISPATCHERS; i++) { /* the system chooses; never none of ninety */
        cr_assert(dispatcher_counter(&server, i, "accepted") > 0, "dispatcher %d has no client", i);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_close(clients[i]);
    }
    server_stop(&server);
}

/* The limit holds for all of them together, also when all accept at the same time, as far as chance
 * has them meet. */
Test(exercise_stage5, large_the_limit_is_for_all_dispatchers)
{
    enum { MOST = 2, CLIENTS = 12, ROUNDS = 300 };
    static int clients[CLIENTS];
    int all = 0;
    struct server_process server =
        server_start("--dispatchers 4 --reuse-port --max-connections %d", MOST);
    for (int round = 1; round <= ROUNDS; round++) {
        int served = 0;
        server_signal(&server, SIGSTOP); /* so that all dispatchers have clients at once */
        for (int i = 0; i < CLIENTS; i++) {
            clients[i] = client_connect(&server);
        }
        server_signal(&server, SIGCONT);
        for (int i = 0; i < CLIENTS; i++) {
            double end = test_now() + test_deadline_ms() / 1000.0;
            char line[64];
            size_t got;
            client_try_send(clients[i], "hello\n", 6, end); /* may be turned away by now */
            take_line(clients[i], line, sizeof line);
            if (strcmp(line, "hello") == 0) {
                served++;
                continue;
            }
            cr_assert_str_eq(line, "ERR server busy");
            cr_assert_neq(client_try_receive(clients[i], line, 1, end, &got), CLIENT_GOT);
        }
        /* Later, a connection counts as closed a moment before its place is free. */
        cr_assert(served <= MOST && (served == MOST || round > 1),
                  "%d clients were served at one time", served);
        all += served;
        for (int i = 0; i < CLIENTS; i++) {
            client_close(clients[i]);
        }
        server_await_counter(&server, "closed", all);
    }
    server_stop(&server);
}

/* Who waits for a place gets it, whichever dispatcher loses a client. */
Test(exercise_stage5, large_who_waits_is_served_later)
{
    enum { CLIENTS = 12 };
    int clients[CLIENTS];
    struct server_process server =
        server_start("--dispatchers 3 --reuse-port --max-connections 1 --overload wait");
    clients[0] = client_connect(&server);
    client_echo(clients[0], "I have the place\n");
    for (int i = 1; i < CLIENTS; i++) {
        clients[i] = client_connect(&server);
        client_send_text(clients[i], "I wait\n");
    }
    client_expect_silence(clients[1], 200);
    cr_assert_eq(server_counter(&server, "accepted"), 1);
    client_close(clients[0]);
    for (int left = CLIENTS - 1; left > 0; left--) { /* in any order, one after the other */
        int served = 0;
        double end = test_now() + test_deadline_ms() / 1000.0;
        while (served == 0 && test_left_ms(end) > 0) {
            for (int i = 1; i < CLIENTS && served == 0; i++) {
                if (clients[i] >= 0 && test_await(clients[i], POLLIN, test_now() + 0.001)) {
                    served = i;
                }
            }
        }
        cr_assert(served > 0, "nobody is served, and %d wait", left);
        client_expect_text(clients[served], "I wait\n");
        client_close(clients[served]);
        clients[served] = -1;
    }
    server_stop(&server);
}
