/*
 * Clients that take too long: --idle-timeout, --request-timeout, --lifetime, --progress-timeout.
 *
 * Times are checked as lower bounds, less what a clock may round; the upper bound is the deadline
 * of every wait. The limits here are far apart from the pauses of the client, so that a slow
 * machine fails nothing.
 */
#include "support/client.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(timeouts, .timeout = 120);

static void expect_not_before(double begin, double seconds)
{
    double passed = test_now() - begin;
    cr_assert(passed >= seconds - 0.05, "closed after %.3f s, before its %.1f s had passed", passed,
              seconds);
}

ServerTest(timeouts, idle_client_is_closed, "--idle-timeout 0.5")
{
    double begin = test_now();
    int client = client_connect(server);
    client_expect_end(client);
    expect_not_before(begin, 0.5);
}

ClientTest(timeouts, case_16_idle_timeout_fires_again, "--idle-timeout=0.6")
{
    for (int i = 0; i < 5; i++) {
        test_pause_ms(150);
        client_echo(client, "traffic puts it off\n");
    }
    client_expect_end(client);
    client_close(client);
    double begin = test_now();
    client = client_connect_echo(server, "and the next client\n");
    client_expect_end(client);
    expect_not_before(begin, 0.6);
}

ClientTest(timeouts, case_14_half_a_line_then_silence, "--request-timeout 0.5")
{
    client_echo(client, "a whole line\n");
    double begin = test_now();
    client_send_text(client, "half a li");
    client_expect_gone(client);
    expect_not_before(begin, 0.5);
}

ClientTest(timeouts, case_15_one_byte_at_a_time, "--request-timeout 0.5")
{
    double begin = test_now();
    double end = begin + test_deadline_ms() / 1000.0;
    do {
        cr_assert(test_left_ms(end) > 0,
                  "one byte every 50 ms and never an end of line: expected a close after 0.5 s");
        client_try_send(client, "x", 1, end);
    } while (!test_await(client, POLLIN, test_now() + 0.05));
    expect_not_before(begin, 0.5);
    client_expect_gone(client);
}

/* A server that waits in recv for the next byte has to look at the clock as well. */
ClientTest(timeouts, bytes_that_follow_each_other_buy_no_time, "--request-timeout 0.5")
{
    double begin = test_now();
    double end = begin + test_deadline_ms() / 1000.0;
    do {
        cr_assert(test_left_ms(end) > 0,
                  "a byte every 5 ms and never an end of line: expected a close after 0.5 s");
        client_try_send(client, "x", 1, end);
    } while (!test_await(client, POLLIN, test_now() + 0.005));
    expect_not_before(begin, 0.5);
    client_expect_gone(client);
}

ClientTest(timeouts, request_timeout_spares_quiet_clients, "--request-timeout 0.3")
{
    client_expect_silence(client, 700);
    client_echo(client, "nothing was unfinished\n");
    client_expect_silence(client, 700);
    client_echo(client, "and still nothing\n");
}

/* The end of each line comes together with the beginning of the next. */
ClientTest(timeouts, request_timeout_is_for_each_line_anew, "--request-timeout 1")
{
    client_send_text(client, "a");
    for (int i = 0; i < 8; i++) {
        client_expect_silence(client, 200);
        client_ask(client, "\na", "a\n");
    }
}

/* Whichever thread handles the line, the time of the one behind it has begun. */
ClientTest(timeouts, half_a_line_behind_a_whole_one_has_its_time, "--request-timeout 0.5")
{
    client_ask(client, "whole\nhalf a line", "whole\n");
    client_expect_end(client);
}

ClientTest(timeouts, zero_is_off,
           "--idle-timeout 0 --request-timeout 0 --lifetime 0 "
           "--progress-timeout 0")
{
    client_send_text(client, "half a line, ");
    client_expect_silence(client, 700);
    client_ask(client, "and half\n", "half a line, and half\n");
}

ServerTest(timeouts, lifetime_ends, "--lifetime 0.7")
{
    double begin = test_now();
    double end = begin + test_deadline_ms() / 1000.0;
    int client = client_connect(server);
    while (client_try_echo(client, "busy to the end\n", end)) {
        test_pause_ms(50);
    }
    cr_assert(test_left_ms(end) > 0,
              "a busy client should be closed after 0.7 s, and is served on");
    expect_not_before(begin, 0.7);
    client_close(client);
    client = client_connect_echo(server, "a new life\n");
}

/** Sends without a pause, and reads what comes. True when the connection has ended. */
static bool talk_until(int client, const char *lines, size_t length, double end)
{
    char got[65536];
    struct pollfd poller = {.fd = client, .events = POLLIN | POLLOUT};
    while (test_left_ms(end) > 0) {
        poll(&poller, 1, test_left_ms(end));
        if ((poller.revents & POLLOUT) != 0) {
            send(client, lines, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        ssize_t received = recv(client, got, sizeof got, MSG_DONTWAIT);
        if (received == 0 || (received < 0 && errno != EAGAIN)) {
            return true;
        }
    }
    return false;
}

/* Whenever the server looks at him, there is something to read, or a worker is at it. */
ServerTest(timeouts, lifetime_ends_for_one_that_never_pauses, "--lifetime 0.7 --block-ms 5")
{
    double begin = test_now();
    size_t length;
    char *lines = lines_numbered("no end of it", 1000, &length);
    int client = client_connect(server);
    cr_assert(talk_until(client, lines, length, begin + test_deadline_ms() / 1000.0),
              "a client that never pauses should be closed after 0.7 s, and is served on");
    expect_not_before(begin, 0.7);
    free(lines);
}

/*
 * A client that does not read as it should holds the only place. Whether it was let go shows in the
 * next one being served.
 */
static struct server_process start_for_one(double progress_timeout)
{
    return server_start("--max-connections 1 --overload wait --progress-timeout %.1f "
                        "--send-buffer 4096 --output-high-mark 16384 --output-low-mark 4096",
                        progress_timeout);
}

/** Connects a client that sends lines without reading until the server takes no more. */
static int connect_non_reader(const struct server_process *server)
{
    size_t length;
    char *lines = lines_numbered("not read", 1000, &length);
    struct client_buffers small = {.receive = 4096, .send = 32768};
    int client = client_connect_with(server, small);
    client_push(client, lines, length, 4 << 20, 100);
    free(lines);
    return client;
}

Test(timeouts, case_12_output_stays_over_the_mark)
{
    struct server_process server = start_for_one(0.5);
    double begin = test_now();
    connect_non_reader(&server);
    client_connect_echo(&server, "the place is free\n");
    expect_not_before(begin, 0.5);
    server_close_all(&server);
}

Test(timeouts, case_13_slow_reader)
{
    struct server_process server = start_for_one(0.5);
    double begin = test_now();
    double end = begin + test_deadline_ms() / 1000.0;
    int slow = connect_non_reader(&server);
    int next = client_connect_send(&server, "the place is free\n");
    while (!test_await(next, POLLIN, test_now() + 0.05)) {
        char some[1024];
        size_t got;
        client_try_receive(slow, some, sizeof some, test_now(), &got);
        cr_assert(test_left_ms(end) > 0,
                  "a client that reads 20 KiB a second while output waits should be closed: it "
                  "takes less than 64 KiB in each 0.5 s");
    }
    client_expect_text(next, "the place is free\n");
    expect_not_before(begin, 0.5);
    server_close_all(&server);
}

ServerTest(timeouts, progress_timeout_spares_those_who_read,
           "--progress-timeout 1 --send-buffer 4096 --output-high-mark 16384")
{
    struct client_buffers ethernet = {.segment = CLIENT_ETHERNET_SEGMENT};
    int client = client_connect_with(server, ethernet);
    size_t length;
    char *lines = lines_numbered("read at once", 100000, &length);
    client_exchange(client, lines, length, lines, length);
    client_expect_silence(client, 1300); /* nothing waits: not reading is no fault now */
    client_echo(client, "still here\n");
    free(lines);
}

/*
 * The client reads 400,000 bytes a second, ten times what it is asked for. A server that saw only
 * what its socket takes would disconnect it: a large send buffer says nothing before a third of it
 * is free, megabytes, which take longer than the period.
 */
ClientTest(timeouts, progress_timeout_spares_a_client_that_reads_steadily,
           "--progress-timeout 1.6 --idle-timeout 0")
{
    enum { PIECE = 4000, PIECES = 400, A_SECOND = 400000 };
    static char got[PIECE];
    size_t length;
    char *line = line_of(8000, "\n", &length);
    client_push(client, line, length, 64 << 20, 200);
    double begin = test_now();
    for (int i = 0; i < PIECES; i++) {
        size_t here;
        enum client_outcome outcome =
            client_try_receive(client, got, sizeof got, test_now() + 0.5, &here);
        if (outcome == CLIENT_LATE) {
            break; /* all that the server could take in has come back */
        }
        cr_assert(outcome == CLIENT_GOT,
                  "a client that read %d bytes in %.1f s was disconnected by a progress "
                  "timeout that asks for 65536 in each",
                  i * PIECE, test_now() - begin);
        if (i * PIECE > A_SECOND * (test_now() - begin)) { /* else a busy machine is behind */
            test_pause_ms(10);
        }
    }
    free(line);
}
