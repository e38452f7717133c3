/*
 * Nothing is left of connections that came and went, in every way in which one can end: no
 * descriptor, no memory. And while nothing happens, nothing is done.
 */
#include "ways.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(soak_nothing_left, .timeout = 900);

enum {
    THREADS = 8,
    SLACK_KIB = 1024, /* what an allocator may hold on to, and the pool of segments */
};

static void send_crowd(const struct server_process *server, long connections, uint64_t seed)
{
    static struct crowd crowd;
    crowd = (struct crowd){.server = server, .max_line = 1000, .most = connections, .fast = true};
    crowd_start(&crowd, THREADS, seed);
    crowd_await(&crowd, test_now() + 800);
    crowd_end(&crowd);
}

/* After the first tenth everything has been used once, and has taken what it keeps. */
ServerTest(soak_nothing_left, connections_leave_nothing_behind, "--max-line 1000")
{
    long connections = soak_number("SOAK_CONNECTIONS", 3000);
    long descriptors = probe_descriptors(server->pid);
    double begin = test_now();
    send_crowd(server, connections / 10, 1);
    long before = probe_resident_kib(server->pid);
    send_crowd(server, connections, 2);
    cr_assert(probe_await_descriptors(server->pid, descriptors),
              "%ld connections have come and gone; %ld descriptors are open, %ld were", connections,
              probe_descriptors(server->pid), descriptors);
    server_await_counter(server, "closed", server_counter(server, "accepted"));
    long after = probe_resident_kib(server->pid);
    double took = test_now() - begin;
    fprintf(stderr,
            "%s: %ld connections in %.1f s; descriptors %ld -> %ld, resident %ld -> %ld KiB\n",
            server_name(), connections + connections / 10, took, descriptors,
            probe_descriptors(server->pid), before, after);
    cr_assert(probe_sanitized() || after - before < SLACK_KIB,
              "%ld connections have come and gone, and %s has grown from %ld to %ld KiB",
              connections, server_name(), before, after);
}

/* Idle connections with every timeout running: looking after them is no work to speak of. */
Test(soak_nothing_left, idle_connections_use_no_cpu)
{
    long wanted = soak_number("SOAK_IDLE", 400);
    long possible = descriptors_raise() - 100;
    long count = wanted < possible ? wanted : possible;
    int *clients = calloc((size_t)count, sizeof *clients);
    cr_assert_not_null(clients);
    struct server_process server = server_start(
        "--idle-timeout 600 --request-timeout 600 --lifetime 600 --progress-timeout 600");
    long before = probe_resident_kib(server.pid);
    for (long i = 0; i < count; i++) {
        clients[i] =
            client_connect_with(&server, (struct client_buffers){.source = 2 + (int)i % 8});
    }
    for (long i = 0; i < count; i++) {
        client_echo(clients[i], "here I am\n");
    }
    long resident = probe_resident_kib(server.pid) - before;
    double busy = probe_busy_during(server.pid, wanted > 1000 ? 3000 : 300);
    fprintf(stderr, "%s: %ld idle connections: busy for %.2f %% of the time, %.1f KiB each\n",
            server_name(), count, busy * 100, (double)resident / (double)count);
    cr_assert_lt(busy, wanted > 1000 ? 0.03 : 0.3,
                 "%ld idle connections kept %s busy for %.1f %% of the time", count, server_name(),
                 busy * 100);
    client_echo(clients[count / 2], "still here\n");
    for (long i = 0; i < count; i++) {
        client_close(clients[i]);
    }
    free(clients);
    server_stop(&server);
}
