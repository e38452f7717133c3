/*
 * Clients that are sent slowly, seen from outside: at 5 B/s, 10 kB/s and 50 MB/s (case 38), with
 * limits that count what is held back (erratum 19), and to a good end.
 *
 * Too fast is always wrong. Too slow can be the machine: that is tried again, and then compared
 * with what the machine does without a throttle.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stage5_throttle, .timeout = 120);

enum { MIB = 1 << 20, TRIES = 3 };

/* ---- how fast ---- */

/** So many lines of so many bytes each, their ends included. */
static char *make_lines(size_t count, size_t each)
{
    char *lines = malloc(count * each);
    cr_assert_not_null(lines);
    for (size_t i = 0; i < each; i++) {
        lines[i] = i == each - 1 ? '\n' : (char)('a' + i % 26);
    }
    for (size_t i = 1; i < count; i++) {
        memcpy(lines + i * each, lines, each);
        lines[i * each] = (char)('a' + i % 26);
    }
    return lines;
}

/** How long a new client waits for its answer. Its rate is set after the time begins. */
static double answer_time(const struct server_process *server, const char *lines, size_t length)
{
    double begin = test_now();
    int client = client_connect(server);
    client_exchange(client, lines, length, lines, length);
    double took = test_now() - begin;
    client_close(client);
    return took;
}

static double time_without_throttle(const char *lines, size_t length)
{
    struct server_process server = server_start("");
    double took = answer_time(&server, lines, length);
    server_stop(&server);
    return took;
}

/** An answer of so many bytes takes its time, and not a tenth more or less. */
static void expect_rate(unsigned long rate, size_t count, size_t each)
{
    char *lines = make_lines(count, each);
    double wanted = (double)(count * each) / (double)rate;
    double least = 1e9;
    struct server_process server =
        server_start("--suspicious 127.0.0.0/8 --throttle %lu --max-line 1000000", rate);
    for (int i = 0; i < TRIES && least > wanted * 1.1; i++) {
        double took = answer_time(&server, lines, count * each);
        cr_assert(took >= wanted * 0.9, "%lu B/s: %zu bytes after %.3f s; expected %.3f", rate,
                  count * each, took, wanted);
        least = took < least ? took : least;
    }
    server_stop(&server);
    if (least > wanted * 1.1) {
        double unthrottled = time_without_throttle(lines, count * each);
        cr_assert(unthrottled > wanted / 4,
                  "%lu B/s: %zu bytes took %.3f s; expected %.3f. Without a throttle: %.3f s", rate,
                  count * each, least, wanted, unthrottled);
    }
    free(lines);
}

Test(stage5_throttle, case_38_five_bytes_a_second)
{
    expect_rate(5, 1, 10);
}

Test(stage5_throttle, case_38_ten_kilobytes_a_second)
{
    expect_rate(10000, 10, 1000);
}

/* Bytes times nanoseconds: in 32 bits, all above 4.3 MB/s would come out as something slow. */
Test(stage5_throttle, case_38_five_megabytes_a_second)
{
    expect_rate(5000000, 100, 25000);
}

Test(stage5_throttle, case_38_fifty_megabytes_a_second)
{
    expect_rate(50000000, 1000, 50000);
}

/* As fast as it goes: the highest rate that can be asked for holds nothing back. */
Test(stage5_throttle, case_38_ten_gigabytes_a_second)
{
    enum { COUNT = 400, EACH = 50000 };
    char *lines = make_lines(COUNT, EACH);
    struct server_process server =
        server_start("--suspicious 127.0.0.0/8 --throttle 10000000000 --max-line 1000000");
    double took = answer_time(&server, lines, (size_t)COUNT * EACH);
    server_stop(&server);
    cr_assert_lt(took, 20 * time_without_throttle(lines, (size_t)COUNT * EACH) + 1);
    free(lines);
}

/* ---- who ---- */

ServerTest(stage5_throttle, others_are_not_slowed_down,
           "--dispatchers 1 --suspicious 127.0.0.2 "
           "--throttle 20 --drain-timeout 0.1")
{
    enum { COUNT = 20, EACH = 50000 };
    char *lines = make_lines(COUNT, EACH);
    int suspicious = client_connect_with(server, (struct client_buffers){.source = 2});
    int other = client_connect_with(server, (struct client_buffers){.source = 3});
    client_send_text(suspicious, "a line that takes three seconds and more, at twenty bytes\n");
    client_await_reply(suspicious);
    double begin = test_now();
    client_exchange(other, lines, (size_t)COUNT * EACH, lines, (size_t)COUNT * EACH);
    double took = test_now() - begin;
    cr_assert_lt(took, (double)COUNT * EACH / 20 / 10, "it took %.1f s", took);
    free(lines);
}

ServerTest(stage5_throttle, clients_of_ipv6,
           "--bind ::1 --suspicious ::1 --throttle 100 --drain-timeout 0.1")
{
    double begin = test_now();
    client_connect_echo(server, "these are thirty bytes of text\n");
    double took = test_now() - begin;
    cr_assert_gt(took, 0.31 * 0.9, "31 bytes at 100 B/s took %.3f s", took);
}

/* ---- erratum 19: what is held back is output that waits ---- */

Test(stage5_throttle, erratum_19_a_throttled_client_is_not_read_above_the_mark)
{
    enum { HIGH_MARK = 50000, MAX_LINE = 10000, SEGMENTS = 65536 };
    size_t length;
    char *lines = lines_numbered("a line that leaves very slowly", 50000, &length);
    struct server_process server =
        server_start("--suspicious 127.0.0.0/8 --throttle 5 --output-high-mark %d --max-line %d "
                     "--drain-timeout 0.1",
                     HIGH_MARK, MAX_LINE);
    int client = client_connect_with(&server, (struct client_buffers){.send = 65536});
    size_t taken = client_push(client, lines, length, 24 * MIB, 200);
    long long held = server_counter(&server, "bytes_in") - server_counter(&server, "bytes_out");
    cr_assert_lt(taken, (size_t)24 * MIB, "it could send %zu bytes", taken);
    cr_assert(held <= HIGH_MARK + 2 * MAX_LINE + SEGMENTS,
              "the server holds %lld bytes for a throttled client", held);
    free(lines);
    server_close_all(&server);
}

enum { CAP = 100000, LINE = 1000 };

/* What others have to say to a throttled user is not stored without an end: at the cap he goes. */
ServerTest(stage5_throttle, erratum_19_a_throttled_chat_user_is_let_go_at_the_cap,
           "--app chat --suspicious 127.0.0.2 --throttle 5 "
           "--output-high-mark 50000 --output-cap %d",
           CAP)
{
    char line[LINE + 1];
    client_connect_with(server, (struct client_buffers){.source = 2});
    server_await_counter(server, "accepted", 1);
    int talker = client_connect_with(server, (struct client_buffers){.source = 3});
    memset(line, 'x', LINE - 1);
    line[LINE - 1] = '\n';
    double end = test_deadline();
    long long sent = 0;
    while (server_counter(server, "closed") == 0 && test_left_ms(end) > 0) {
        for (int i = 0; i < 10; i++) {
            client_send(talker, line, LINE);
        }
        sent += 10LL * LINE;
        cr_assert_lt(sent, 100LL * CAP, "%lld bytes are held for a throttled user", sent);
    }
    cr_assert_geq(sent, CAP, "he was let go after %lld bytes", sent);
    server_await_counter(server, "closed", 1);
    client_send_text(talker, "/who\n");
    client_await_reply(talker); /* who did not, stays */
    cr_assert_eq(server_counter(server, "closed"), 1);
}

Test(stage5_throttle, erratum_19_memory_is_bounded)
{
    enum { CLIENTS = 8 };
    if (probe_sanitized()) {
        cr_skip_test("a sanitizer's own memory hides the server's");
    }
    int clients[CLIENTS];
    size_t length;
    char *lines = lines_numbered("a line that leaves very slowly", 50000, &length);
    struct server_process server =
        server_start("--suspicious 127.0.0.0/8 --throttle 5 --drain-timeout 0.1");
    long before = probe_resident_kib(server.pid);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_with(&server, (struct client_buffers){.send = 65536});
        client_push(clients[i], lines, length, 4 * MIB, 50);
    }
    long grown = probe_resident_kib(server.pid) - before;
    cr_assert_lt(grown, CLIENTS * 512, "%d throttled clients grew the server by %ld KiB", CLIENTS,
                 grown);
    free(lines);
    server_close_all(&server);
}

/* ---- to a good end ---- */

ServerTest(stage5_throttle, case_38_a_half_closed_client_gets_all_of_it,
           "--suspicious 127.0.0.0/8 --throttle 100 --drain-timeout 0.1")
{
    double begin = test_now();
    int client = client_connect_send(server, "forty bytes and one, in four tenths of a s\nhalf");
    client_half_close(client);
    client_expect_text(client, "forty bytes and one, in four tenths of a s\n");
    client_expect_end(client);
    cr_assert_gt(test_now() - begin, 0.43 * 0.9);
}

/* The server closes, after what it has to say of the line has left at the client's rate. */
ServerTest(stage5_throttle, case_38_a_close_while_throttled_flushes,
           "--suspicious 127.0.0.0/8 --throttle 100 --max-line 20 --drain-timeout 0.1")
{
    double begin = test_now();
    int client = client_connect_send(server, "twenty and no more\nthis one has more than twenty\n");
    client_expect_text(client, "twenty and no more\nERR line too long\n");
    client_expect_end(client);
    cr_assert_gt(test_now() - begin, 0.37 * 0.9);
}

/* An answer that leaves in time. */
ServerTest(stage5_throttle, sigterm_while_throttled_drains,
           "--suspicious 127.0.0.0/8 --throttle 100")
{
    int client = client_connect_send(server, "forty bytes and one, in four tenths of a s\n");
    client_await_reply(client);
    server_signal(server, SIGTERM);
    client_expect_text(client, "forty bytes and one, in four tenths of a s\n");
    client_expect_end(client);
    server_expect_exit(server);
}

/* And one that would take minutes. */
Test(stage5_throttle, sigterm_while_throttled_is_bounded_by_the_drain_timeout)
{
    char *line = make_lines(1, 1000);
    struct server_process server =
        server_start("--suspicious 127.0.0.0/8 --throttle 5 --drain-timeout 0.5");
    int client = client_connect(&server);
    client_send(client, line, 1000);
    client_await_reply(client);
    double begin = test_now();
    server_stop(&server);
    double took = test_now() - begin;
    cr_assert(took > 0.45 && took < 5, "the stop took %.2f s; the drain timeout is 0.5 s", took);
    client_close(client);
    free(line);
}
