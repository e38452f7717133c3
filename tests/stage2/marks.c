/*
 * Stage 2's bound on waiting output: above the high mark a client is not read, under the low mark
 * it is read again, and nothing is lost on the way.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stage2_marks, .timeout = 120);

enum { LINE = 10000, QUIET_MS = 150 };

static const struct client_buffers small = {.receive = 8192, .send = 65536};

static long long held(const struct server_process *server)
{
    return server_counter(server, "bytes_in") - server_counter(server, "bytes_out");
}

/** A client that has sent what the server takes, and read nothing. */
static int connect_non_reader(const struct server_process *server, const char *data, size_t length,
                              size_t *taken)
{
    int client = client_connect_with(server, small);
    *taken = client_push(client, data, length, length, QUIET_MS);
    cr_assert_lt(*taken, length, "the server took all of %zu bytes from a client that never reads",
                 length);
    return client;
}

/** Lines of LINE bytes, 48 MiB of them. */
static char *long_lines(size_t *length)
{
    size_t one;
    char *line = line_of(LINE - 1, "\n", &one);
    *length = one * 5000;
    char *lines = malloc(*length);
    cr_assert_not_null(lines);
    for (size_t at = 0; at < *length; at += one) {
        memcpy(lines + at, line, one);
        lines[at] = (char)('A' + at / one % 26);
    }
    free(line);
    return lines;
}

/* The larger the mark, the more is answered for a client that does not read; and never much more
 * than it. */
Test(stage2_marks, reading_stops_above_the_high_mark)
{
    static const int marks[] = {20000, 200000};
    size_t length;
    char *lines = long_lines(&length);
    for (size_t i = 0; i < 2; i++) {
        struct server_process server =
            server_start("--send-buffer 8192 --max-line %d --output-high-mark %d", LINE, marks[i]);
        size_t taken;
        int client = connect_non_reader(&server, lines, length, &taken);
        long long bytes = held(&server);
        long long most = marks[i] + 2LL * LINE + 65536;
        cr_assert(bytes <= most,
                  "--output-high-mark %d: the server holds %lld bytes, more than %lld", marks[i],
                  bytes, most);
        client_close(client);
        server_stop(&server);
    }
    free(lines);
}

ServerTest(stage2_marks, reading_resumes_under_the_low_mark,
           "--send-buffer 8192 --output-high-mark 40000 --output-low-mark 10000")
{
    size_t length;
    char *lines = long_lines(&length);
    size_t taken;
    int client = connect_non_reader(server, lines, length, &taken);
    long long read_before = server_counter(server, "bytes_in");
    size_t whole = taken - taken % LINE;
    client_expect(client, lines, whole);
    size_t rest = LINE - taken % LINE;
    client_send(client, lines + taken, rest);
    client_expect(client, lines + whole, LINE);
    cr_assert_gt(server_counter(server, "bytes_in"), read_before);
    client_half_close(client);
    client_expect_end(client);
    free(lines);
}

/* Somebody else's waiting output is no reason not to be read. */
ServerTest(stage2_marks, each_client_has_its_own_marks, "--send-buffer 8192")
{
    size_t length;
    char *lines = long_lines(&length);
    size_t taken;
    connect_non_reader(server, lines, length, &taken);
    int other = client_connect(server);
    client_exchange(other, lines, 100 * LINE, lines, 100 * LINE);
    free(lines);
}
