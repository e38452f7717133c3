/*
 * A server full of clients that take all they can get: it says at its start how much memory that
 * can be, and it is no more, and not much less. Those who behave are answered meanwhile. Under a
 * sanitizer, whose own memory hides the server's, a tenth of those come who read nothing: it looks
 * at what is done, and that is the same for each of them.
 */
#include "ways.h"

#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(soak_memory, .timeout = 900);

enum {
    HIGH_MARK = 32768,
    BUFFER = 8192,                   /* of each socket; the system may take twice that */
    ENOUGH = HIGH_MARK + 8 * BUFFER, /* to fill all that is between a client and itself */
    MAX_LINE = 1000,
    HONEST = 200,
    READ_NOTHING = 1700, /* they take as much output as there may be */
    NEVER_END = 100,     /* a line that is as long as it may be, without its end */
    ALL_AT_ONCE = 100,   /* more messages than workers and their queue have room for */
    NEVER_ARRIVE = 100,  /* the longest header of a proxy, without its last byte */
    GREEDY = READ_NOTHING + NEVER_END + ALL_AT_ONCE + NEVER_ARRIVE,
    CLIENTS = GREEDY + HONEST,
    HEADER = 4096,
};

_Static_assert(GREEDY == 2000, "as many as the page says");

/* Of a proxy, from 203.0.113.7: the addresses, and more that nobody has asked for. */
static const unsigned char *header(size_t length)
{
    static const unsigned char start[] = {13, 10, 13, 10, 0,  13,   10,
                                          81, 85, 73, 84, 10, 0x21, 0x11};
    static const unsigned char addresses[] = {203, 0, 113, 7, 127, 0, 0, 1, 18, 103, 0, 80};
    static unsigned char made[HEADER];
    memset(made, 0, sizeof made);
    memcpy(made, start, sizeof start);
    made[14] = (unsigned char)((length - 16) >> 8);
    made[15] = (unsigned char)(length - 16);
    memcpy(made + 16, addresses, sizeof addresses);
    return made;
}

static int come(const struct server_process *server)
{
    int client = client_connect_with(server, (struct client_buffers){.receive = BUFFER});
    client_send(client, header(28), 28);
    return client;
}

/* Each sends enough lines, as far as the server takes them, and reads nothing. */
static void send_to_all(const int clients[], int count, const char *line, size_t length)
{
    static size_t sent[READ_NOTHING];
    static char data[ENOUGH]; /* all at once, as a call costs as much as thousands of bytes */
    for (size_t at = 0; at < ENOUGH; at++) {
        data[at] = line[at % length];
    }
    double end = test_now() + 3 * test_deadline_ms() / 1000.0;
    for (int done = 0; done < count;) {
        bool progress = false;
        done = 0;
        for (int i = 0; i < count; i++) {
            ssize_t took = 0;
            if (sent[i] < ENOUGH) {
                took =
                    send(clients[i], data + sent[i], ENOUGH - sent[i], MSG_DONTWAIT | MSG_NOSIGNAL);
            }
            cr_assert(took >= 0 || errno == EAGAIN, "client %d was closed: %s", i, strerror(errno));
            sent[i] += took > 0 ? (size_t)took : 0;
            progress |= took > 0;
            done += sent[i] >= ENOUGH;
        }
        cr_assert(done == count || test_now() < end, "%d of %d clients could send enough", done,
                  count);
        if (!progress) {
            test_pause_ms(5);
        }
    }
}

/* The greedy ones' bytes may still be on their way. */
static long await_resident(const struct server_process *server, long wanted)
{
    double end = test_now() + 2 * test_deadline_ms() / 1000.0;
    while (probe_resident_kib(server->pid) < wanted && test_now() < end) {
        test_pause_ms(20);
    }
    return probe_resident_kib(server->pid);
}

Test(soak_memory, case_11_a_full_server_needs_what_it_has_said_and_answers_the_honest)
{
    static int greedy[GREEDY], honest[HONEST];
    const int read_nothing = probe_sanitized() ? READ_NOTHING / 10 : READ_NOTHING;
    const int all_greedy = GREEDY - READ_NOTHING + read_nothing, all = all_greedy + HONEST;
    if (descriptors_raise() < 2 * CLIENTS) {
        cr_skip_test("a process may not have enough descriptors here");
    }
    const char *tasks = server_has_option("--workers")
                            ? "--workers 2 --queue bounded:50 --saturation caller-runs"
                            : "";
    struct server_process server = server_start(
        "--log info --stats --proxy-protocol 127.0.0.1 --max-connections %d --max-line %d "
        "--output-high-mark %d --output-low-mark 16384 --send-buffer %d --work-us 200 "
        "--cost-for costly --idle-timeout 0 --request-timeout 0 %s",
        all, MAX_LINE, HIGH_MARK, BUFFER, tasks);
    long long bound = soak_bound(&server, "bytes") / 1024;
    size_t length, costly_length;
    char *line = line_of(MAX_LINE - 1, "\n", &length);
    char *costly = lines_numbered("costly", 20, &costly_length);
    for (int i = 0; i < HONEST; i++) {
        honest[i] = come(&server);
    }
    clients_echo(honest, HONEST, "we were here first\n");
    int next = 0;
    for (int i = 0; i < NEVER_ARRIVE; i++) {
        greedy[next] = client_connect(&server);
        client_send(greedy[next++], header(HEADER), HEADER - 1);
    }
    for (int i = 0; i < NEVER_END; i++) {
        greedy[next] = come(&server);
        client_send(greedy[next++], line, length - 1);
    }
    int *silent = greedy + next;
    for (int i = 0; i < read_nothing; i++) {
        greedy[next++] = come(&server);
    }
    send_to_all(silent, read_nothing, line, length);
    for (int i = 0; i < ALL_AT_ONCE; i++) {
        greedy[next] = come(&server);
        client_send(greedy[next++], costly, costly_length);
    }
    clients_echo(honest, HONEST, "and are answered\n");
    for (int i = all_greedy - ALL_AT_ONCE; i < all_greedy; i++) {
        client_expect(greedy[i], costly, costly_length);
    }
    bool waits = strstr(server_name(), "stage1") != NULL; /* with one answer, until that is read */
    long resident =
        probe_sanitized() ? 0 : await_resident(&server, waits ? 0 : (long)(bound / 2 + 1));
    fprintf(stderr, "%s: %d clients, %ld KiB resident of %lld KiB\n", server_name(), all, resident,
            bound);
    cr_assert(!server_has_option("--workers") || server_counter(&server, "tasks_by_caller") > 0,
              "the queue of the workers was never full");
    cr_assert_eq(server_counter(&server, "accepted"), all, "all are there");
    cr_assert_eq(server_counter(&server, "closed"), 0, "nobody was closed");
    cr_assert(probe_sanitized() || resident <= bound, "%s said %lld KiB, and has %ld",
              server_name(), bound, resident);
    cr_assert(probe_sanitized() || waits || 2 * resident >= bound,
              "%s said %lld KiB, and all that clients can do is %ld", server_name(), bound,
              resident);
    clients_echo(honest, HONEST, "until the end\n");
    for (int i = 0; i < all_greedy; i++) {
        client_reset(greedy[i]);
    }
    server_await_counter(&server, "closed", all_greedy); /* a stop waits for them for 5 s only */
    free(line);
    free(costly);
    server_close_all(&server);
}
