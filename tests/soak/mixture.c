/*
 * All kinds of clients at a time, for as long as one likes: well-behaved, slow, stalled, resetting,
 * half-closing, flooding, malformed. Every second the server is looked at: its memory and its
 * descriptors stay within their bounds, and somebody who only wants a line back gets it.
 *
 * make soak MINUTES=10 STAGE=2: a line of progress every ten seconds.
 */
#include "ways.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(soak_mixture, .timeout = 90000);

enum {
    THREADS = 32,
    MAX_LINE = 20000,
    HIGH_MARK = 65536,
    MAX_CONNECTIONS = 200,
    PROGRESS_S = 10,
    WITNESS_MS = 5000, /* for an echo among all of them, on a machine that is busy */
};

/* As in bounds.c, for all places; and what belongs to no client. */
static long bound_kib(void)
{
    long one = 3 * (MAX_LINE + 2) + HIGH_MARK + 8 * 4096 + 2048 + 64 * 1024;
    return MAX_CONNECTIONS * one / 1024 + 8192;
}

struct sight {
    long descriptors;
    long resident;
    int witness_ms;
};

static struct sight look(const struct server_process *server, long descriptors_before)
{
    struct sight sight;
    double begin = test_now();
    int witness = client_connect_echo(server, "is all well?\n");
    client_close(witness);
    sight.witness_ms = (int)((test_now() - begin) * 1000);
    sight.descriptors = probe_descriptors(server->pid);
    sight.resident = probe_resident_kib(server->pid);
    cr_assert_leq(sight.descriptors, descriptors_before + MAX_CONNECTIONS + 1,
                  "%ld descriptors are open, %ld were, and %d clients may be there",
                  sight.descriptors, descriptors_before, MAX_CONNECTIONS);
    cr_assert(probe_sanitized() || sight.resident < bound_kib(), "%ld KiB are resident, %ld may be",
              sight.resident, bound_kib());
    cr_assert_lt(sight.witness_ms, WITNESS_MS, "a line came back after %d ms", sight.witness_ms);
    return sight;
}

static void tell(const struct crowd *crowd, double seconds, struct sight sight)
{
    fprintf(stderr,
            "%s: %.0f s, %ld connections, %.1f MB right, worst of the crowd %d ms; now %ld "
            "descriptors, %ld KiB, a line back in %d ms\n",
            server_name(), seconds, atomic_load(&crowd->connections),
            (double)atomic_load(&crowd->bytes) / 1e6, atomic_load(&crowd->worst_ms),
            sight.descriptors, sight.resident, sight.witness_ms);
}

Test(soak_mixture, all_kinds_of_clients)
{
    static struct crowd crowd;
    long seconds = soak_number("SOAK_SECONDS", 0);
    if (seconds == 0) {
        cr_skip_test("for `make soak`");
    }
    struct server_process server =
        server_start("--max-line %d --output-high-mark %d --max-connections %d --send-buffer 16384 "
                     "--idle-timeout 4 --request-timeout 3 --progress-timeout 3 --stats",
                     MAX_LINE, HIGH_MARK, MAX_CONNECTIONS);
    long descriptors = probe_descriptors(server.pid);
    crowd = (struct crowd){.server = &server, .max_line = MAX_LINE, .most = 1000000000};
    double begin = test_now();
    struct sight sight = {0};
    uint64_t seed = (uint64_t)(begin * 1000);
    fprintf(stderr, "%s: seed %llu\n", server_name(), (unsigned long long)seed);
    crowd_start(&crowd, THREADS, seed);
    for (long second = 1; second <= seconds && !atomic_load(&crowd.over); second++) {
        crowd_await(&crowd, begin + (double)second);
        sight = look(&server, descriptors);
        if (second % PROGRESS_S == 0) {
            tell(&crowd, test_now() - begin, sight);
        }
    }
    crowd_end(&crowd);
    cr_assert(probe_await_descriptors(server.pid, descriptors),
              "all have gone; %ld descriptors are open, %ld were", probe_descriptors(server.pid),
              descriptors);
    tell(&crowd, test_now() - begin, look(&server, descriptors));
    server_await_counter(&server, "closed", server_counter(&server, "accepted"));
    server_stop(&server);
}
