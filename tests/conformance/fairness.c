/*
 * One client that sends as fast as it can must not keep the others waiting.
 */
#include "support/client.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>

TestSuite(fairness, .timeout = 120);

/* Sends without a pause and reads all replies, until it is told to stop. */
struct firehose {
    int fd;
    const char *lines;
    size_t length;
    atomic_bool stop;
};

static void *firehose_run(void *argument)
{
    static char replies[65536];
    struct firehose *firehose = argument;
    size_t at = 0;
    while (!atomic_load(&firehose->stop)) {
        test_await(firehose->fd, POLLIN | POLLOUT, test_now() + 0.1);
        ssize_t sent =
            send(firehose->fd, firehose->lines + at, firehose->length - at, MSG_NOSIGNAL);
        if (sent > 0) {
            at = (at + (size_t)sent) % firehose->length;
        }
        ssize_t got = recv(firehose->fd, replies, sizeof replies, 0);
        if (got == 0 || (sent == -1 && errno != EAGAIN)) {
            break;
        }
    }
    return NULL;
}

/* Each message costs 0.1 ms, so that there is always another one when the server looks. */
ServerTest(fairness, case_29_firehose_starves_nobody, "--work-us 100")
{
    enum { CLIENTS = 20, ROUNDS = 3 };
    int clients[CLIENTS];
    clients_connect(server, clients, CLIENTS, "before\n");
    struct firehose firehose = {.fd = client_connect(server)};
    char *lines = lines_numbered("firehose", 20000, &firehose.length);
    firehose.lines = lines;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, firehose_run, &firehose), 0);
    server_await_counter(server, "messages", CLIENTS + 100); /* it is under way */

    int answered = 0;
    double slowest = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = test_now();
        double end = begin + test_deadline_ms() / 1000.0;
        for (int i = 0; i < CLIENTS; i++) {
            client_try_send(clients[i], "in between\n", 11, end);
        }
        for (int i = 0; i < CLIENTS; i++) {
            char reply[11];
            size_t got;
            answered +=
                client_try_receive(clients[i], reply, sizeof reply, end, &got) == CLIENT_GOT;
        }
        double took = test_now() - begin;
        slowest = took > slowest ? took : slowest;
    }
    atomic_store(&firehose.stop, true);
    pthread_join(thread, NULL);
    client_reset(firehose.fd);
    cr_assert_eq(answered, CLIENTS * ROUNDS,
                 "beside a client that sends without a pause, %d of %d requests were answered in "
                 "time; the slowest round took %.1f s",
                 answered, CLIENTS * ROUNDS, slowest);
    free(lines);
}
