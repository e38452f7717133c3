/*
 * What a client can cost at most, as a formula of the options; and what a stop under load owes.
 */
#include "ways.h"

#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(soak_bounds, .timeout = 900);

/* As much as each is taken from by a client that sends all it can and reads nothing. */
static void check_memory(long max_line, long high_mark)
{
    enum { CLIENTS = 16, AROUND_KIB = 3072 /* the pool of segments, and the program's own */ };
    struct server_process server =
        server_start("--max-line %ld --output-high-mark %ld --output-low-mark %ld "
                     "--output-cap 100000000 --send-buffer 16384 --max-connections 100 --log info",
                     max_line, high_mark, high_mark / 4);
    int clients[CLIENTS];
    size_t length;
    char *line = line_of((size_t)max_line - 1, "\n", &length);
    int witness = client_connect_echo(&server, "here\n");
    long before = probe_resident_kib(server.pid);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] =
            client_connect_with(&server, (struct client_buffers){.receive = 16384, .send = 65536});
        client_push(clients[i], line, length, 32 << 20, 20);
    }
    long grown = probe_resident_kib(server.pid) - before;
    long bound = (long)(CLIENTS * soak_bound(&server, "each") / 1024);
    fprintf(stderr, "%s: max-line %ld, high mark %ld: %ld KiB for each client, %ld allowed\n",
            server_name(), max_line, high_mark, grown / CLIENTS, bound / CLIENTS);
    cr_assert(probe_sanitized() || grown < bound + AROUND_KIB,
              "%d clients that read nothing cost %s %ld KiB; %ld are allowed", CLIENTS,
              server_name(), grown, bound + AROUND_KIB);
    client_echo(witness, "served all the time\n");
    for (int i = 0; i < CLIENTS; i++) {
        client_reset(clients[i]);
    }
    free(line);
    server_close_all(&server);
}

Test(soak_bounds, case_11_memory_is_bounded_by_the_line)
{
    check_memory(262144, 4096);
}

Test(soak_bounds, case_11_memory_is_bounded_by_the_high_mark)
{
    check_memory(1000, 262144);
}

/*
 * Everybody has sent, the server's system has it all, and the server is far behind when it is told
 * to stop: each line is answered, in order, and then comes the end.
 */
ServerTest(soak_bounds, case_39_a_stop_under_load_loses_no_reply,
           "--work-us 30 --drain-timeout 60 --max-connections 100")
{
    enum { CLIENTS = 24, LINES = 300 };
    int clients[CLIENTS];
    size_t length;
    char *lines = lines_numbered("promised to the client", LINES, &length);
    clients_connect(server, clients, CLIENTS, "served\n");
    for (int i = 0; i < CLIENTS; i++) {
        client_send(clients[i], lines, length);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_await_delivered(clients[i]);
    }
    server_signal(server, SIGTERM);
    for (int i = CLIENTS - 1; i >= 0; i--) {
        client_expect(clients[i], lines, length);
        client_expect_end(clients[i]);
        client_close(clients[i]);
    }
    free(lines);
    server_expect_exit(server);
}
