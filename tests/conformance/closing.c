/*
 * The end of a connection: it comes once, whatever brings it about, and so does the end of every
 * reply that is still on its way.
 */
#include "support/client.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(closing, .timeout = 120);

/* Several reasons to close at a time: an error, the end of the stream, a timeout, a reset. */
static void end_in_many_ways(int client, int way, const char *too_long, size_t length)
{
    double end = test_deadline();
    client_send_text(client, "one\ntwo\nthree\n");
    if (way & 1) {
        client_try_send(client, too_long, length, end);
    }
    if (way & 2) {
        client_half_close(client);
    }
    if (way & 4) {
        client_reset(client);
    } else {
        client_close(client);
    }
}

/*
 * One that closed twice would close the descriptor of somebody who came in between; one that wrote
 * after the close would write to him. So there are others all the time, who come and stay.
 */
ServerTest(closing, case_26_closed_once_and_not_written_to_afterwards,
           "--max-line 100 --block-ms 1 --stats")
{
    enum { ROUNDS = 24, OTHERS = 8 };
    size_t length;
    char *too_long = line_of(200, "\n", &length);
    long before = probe_descriptors(server->pid);
    int others[OTHERS];
    clients_connect(server, others, OTHERS, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        int place = round % OTHERS;
        end_in_many_ways(client_connect(server), round % 8, too_long, length);
        client_close(others[place]);
        others[place] = client_connect_echo(server, "came just now\n");
        client_echo(others[(place + 1) % OTHERS], "was there all the time\n");
    }
    for (int i = 0; i < OTHERS; i++) {
        client_echo(others[i], "nobody else's end was mine\n");
        client_close(others[i]);
    }
    cr_assert(probe_await_descriptors(server->pid, before), "descriptors are left: %ld, before %ld",
              probe_descriptors(server->pid), before);
    server_await_counter(server, "closed", 2 * ROUNDS + OTHERS);
    long long closed = server_counter(server, "closed");
    long long accepted = server_counter(server, "accepted");
    cr_assert_eq(closed, accepted, "%lld accepted, %lld closed", accepted, closed);
    free(too_long);
    server_stop(server);
}

/* What is sent is counted once: all of it where all was read, never more than that elsewhere. */
ServerTest(closing, case_05_each_reply_is_sent_once_or_dropped, "--send-buffer 16384")
{
    enum { CLIENTS = 12 };
    size_t length;
    char *lines = lines_numbered("exactly once", 5000, &length);
    for (int i = 0; i < CLIENTS; i++) {
        int client = client_connect(server);
        client_exchange(client, lines, length, lines, length);
        client_half_close(client);
        client_expect_end(client); /* and nothing behind it */
        client_close(client);
    }
    server_await_counter(server, "closed", CLIENTS);
    long long sent = server_counter(server, "bytes_out");
    long long all = (long long)length * CLIENTS;
    cr_assert_eq(sent, all, "%lld bytes were read, %lld are counted", all, sent);

    for (int i = 0; i < CLIENTS; i++) {
        int client = client_connect_with(server, (struct client_buffers){.receive = 4096});
        client_push(client, lines, length, length, 5);
        client_reset(client);
    }
    server_await_counter(server, "closed", 2 * CLIENTS);
    sent = server_counter(server, "bytes_out");
    long long received = server_counter(server, "bytes_in");
    cr_assert(sent >= all && sent <= received, "%lld bytes received, %lld sent", received, sent);
    free(lines);
}

/* Sends lines and throws away what comes back, until the server will have no more of it. */
static void *send_for_ever(void *argument)
{
    const int *client = argument;
    char lines[4096];
    char thrown_away[65536];
    bool open = true;
    memset(lines, 'x', sizeof lines);
    for (size_t i = 31; i < sizeof lines; i += 32) {
        lines[i] = '\n';
    }
    while (open && test_await(*client, POLLIN | POLLOUT, test_now() + 30)) {
        send(*client, lines, sizeof lines, MSG_NOSIGNAL | MSG_DONTWAIT);
        ssize_t got = recv(*client, thrown_away, sizeof thrown_away, MSG_DONTWAIT);
        open = got > 0 || (got < 0 && errno == EAGAIN);
    }
    return NULL;
}

/* What arrives at the end is answered as far as it goes: it need not end by itself. */
ServerTest(closing, case_39_one_that_never_stops_sending_does_not_hold_up_the_end,
           "--drain-timeout 60")
{
    int client = client_connect(server);
    pthread_t sender;
    client_echo(client, "about to begin\n");
    cr_assert_eq(pthread_create(&sender, NULL, send_for_ever, &client), 0);
    server_await_counter(server, "messages", 20000);
    server_stop(server);
    pthread_join(sender, NULL);
}
