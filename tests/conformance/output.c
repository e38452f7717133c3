/*
 * Output that waits: for a client that reads slowly, late, or never. Memory stays bounded, nothing
 * is lost, and nobody else notices.
 */
#include "support/client.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(output, .timeout = 120);

enum { MIB = 1 << 20, MOST_PUSHED = 48 * MIB, QUIET_MS = 200 };

static const struct client_buffers ethernet = {.segment = CLIENT_ETHERNET_SEGMENT};
static const struct client_buffers small_buffers = {.receive = 16384, .send = 65536};

/** A buffer of whole lines. */
static char *many_lines(size_t *length)
{
    return lines_numbered("a line that nobody may ever read", 100000, length);
}

/** The most that the system keeps between two sockets, one way: tcp_rmem and tcp_wmem, in bytes. */
static size_t system_keeps(void)
{
    static const char *const limits[] = {"/proc/sys/net/ipv4/tcp_rmem",
                                         "/proc/sys/net/ipv4/tcp_wmem"};
    size_t kept = 0;
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(limits[i], "r");
        size_t most = 0;
        cr_assert(file && fscanf(file, "%*s %*s %zu", &most) == 1, "%s", limits[i]);
        fclose(file);
        kept += most;
    }
    return kept;
}

ServerTest(output, case_11_client_never_reads, "--send-buffer 16384")
{
    size_t length;
    char *lines = many_lines(&length);
    int client = client_connect_with(server, small_buffers);
    /* To a relay (make test-relayed), to the server, and back: to the client there is no room. The
     * servers themselves keep less than a mebibyte each. */
    size_t most = 3 * system_keeps() + 2 * MIB;
    size_t taken = client_push(client, lines, length, most, QUIET_MS);
    cr_assert_lt(
        taken, most,
        "a client that never reads could send %zu bytes: the server has to stop reading it "
        "above --output-high-mark",
        taken);
    client_connect_echo(server, "others are served\n");
    free(lines);
}

enum { MAX_LINE = 10000, HIGH_MARK = 50000, SEGMENTS = 65536 };

/* What a server has taken in and not given out again, it holds. */
ServerTest(output, case_11_what_the_server_holds_is_bounded,
           "--send-buffer 16384 --max-line %d --output-high-mark %d", MAX_LINE, HIGH_MARK)
{
    for (size_t content = 10; content <= MAX_LINE; content *= 10) {
        size_t length;
        char *line = line_of(content, "\n", &length);
        int client = client_connect_with(server, small_buffers);
        long long before = server_counter(server, "bytes_in") - server_counter(server, "bytes_out");
        client_push(client, line, length, MOST_PUSHED, QUIET_MS);
        long long held = server_counter(server, "bytes_in") - server_counter(server, "bytes_out");
        held -= before;
        cr_assert(held <= MAX_LINE + HIGH_MARK + MAX_LINE + SEGMENTS,
                  "lines of %zu bytes to a client that never reads: bytes_in - bytes_out grew by "
                  "%lld; expected at most --output-high-mark %d, two lines of %d, and a few "
                  "segments",
                  length, held, HIGH_MARK, MAX_LINE);
        client_close(client);
        free(line);
    }
}

/* The slides' output queue had no limit: such a client grew the server by 161 MiB in 4 s. */
Test(output, erratum_05_memory_is_bounded)
{
    enum { CLIENTS = 4 };
    if (probe_sanitized()) {
        cr_skip_test("a sanitizer's own memory hides the server's");
    }
    struct server_process server = server_start("--send-buffer 16384");
    size_t length;
    char *lines = many_lines(&length);
    int clients[CLIENTS];
    long before = probe_resident_kib(server.pid);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_with(&server, small_buffers);
        client_push(clients[i], lines, length, 16 * MIB, QUIET_MS);
    }
    long grown = probe_resident_kib(server.pid) - before;
    cr_assert_lt(grown, 24 * 1024, "%d clients that send and never read grew the server by %ld KiB",
                 CLIENTS, grown);
    free(lines);
    server_close_all(&server);
}

ServerTest(output, reading_resumes_under_the_low_mark,
           "--send-buffer 8192 --output-high-mark 30000 --output-low-mark 5000")
{
    size_t length;
    char *lines = lines_numbered("all of it comes back in the end", 250000, &length);
    struct client_buffers small = {.receive = 8192, .send = 65536};
    int client = client_connect_with(server, small);
    size_t taken = client_push(client, lines, length, length, QUIET_MS);
    cr_assert_lt(taken, length, "a client that does not read could send %zu bytes", taken);
    /* Now it reads, and sends what the server did not take before. */
    client_exchange(client, lines + taken, length - taken, lines, length);
    client_half_close(client);
    client_expect_end(client);
    free(lines);
}

/* Over the mark and back under it, again and again. */
ServerTest(output, stop_and_go,
           "--send-buffer 4096 --output-high-mark 10000 --output-low-mark 1000")
{
    enum { ROUNDS = 20 };
    size_t length;
    char *lines = lines_numbered("stop and go", 5000, &length);
    int client = client_connect_with(server, (struct client_buffers){.receive = 4096});
    for (int round = 0; round < ROUNDS; round++) {
        client_send(client, lines, length);
        client_expect(client, lines, length);
    }
    free(lines);
}

ServerTest(output, client_that_never_reads_delays_nobody, "--send-buffer 16384")
{
    size_t length;
    char *lines = many_lines(&length);
    int other = client_connect(server);
    int stuck[3];
    for (int i = 0; i < 3; i++) {
        stuck[i] = client_connect_with(server, small_buffers);
        client_push(stuck[i], lines, length, 4 * MIB, 100);
        client_echo(other, "another client never reads\n");
    }
    clients_close(stuck, 3);
    client_echo(other, "they are gone\n");
    free(lines);
}

ServerTest(output, case_04_one_line_of_16_mib_through_a_small_send_buffer,
           "--max-line 16777216 --send-buffer 16384")
{
    int client = client_connect_with(server, ethernet);
    size_t length;
    char *line = line_of(16 * MIB, "\n", &length);
    client_exchange(client, line, length, line, length);
    client_echo(client, "and a short one\n");
    free(line);
}

ServerTest(output, case_04_lines_of_16_mib_through_a_small_send_buffer, "--send-buffer 16384")
{
    int client = client_connect_with(server, ethernet);
    size_t length;
    char *lines = malloc(16 * MIB);
    cr_assert_not_null(lines);
    for (size_t at = 0; at < 16 * MIB; at += 65536) {
        char *line = line_of(65535, "\n", &length);
        line[0] = (char)('A' + at / 65536 % 26);
        memcpy(lines + at, line, length);
        free(line);
    }
    client_exchange(client, lines, 16 * MIB, lines, 16 * MIB);
    client_half_close(client);
    client_expect_end(client);
    free(lines);
}
