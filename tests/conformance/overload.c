/*
 * More clients than places: --max-connections and --overload. And a flood of connections beside
 * clients that are being served.
 */
#include "support/client.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

TestSuite(overload, .timeout = 120);

#define BUSY "ERR server busy\n"

/** Connects until there is a place: the server may take a moment to notice that another has left.
 */
static int connect_until_served(const struct server_process *server)
{
    double end = test_deadline();
    while (test_left_ms(end) > 0) {
        int client = client_connect(server);
        if (client_try_echo(client, "is there a place\n", end)) {
            return client;
        }
        client_close(client);
        test_pause_ms(2);
    }
    cr_assert_fail("a client has left, and %d ms later a new one still gets no answer",
                   test_deadline_ms());
    return -1;
}

static void leave(int client)
{
    client_half_close(client);
    client_expect_end(client);
    client_close(client);
}

ServerTest(overload, case_21_client_over_the_limit_is_told, "--max-connections 3")
{
    int clients[3];
    clients_connect(server, clients, 3, "I have a place\n");
    for (int i = 0; i < 20; i++) {
        int fourth = client_connect(server);
        client_expect_text(fourth, BUSY);
        client_expect_end(fourth);
        client_close(fourth);
    }
    clients_echo(clients, 3, "I still have it\n");
}

/* It may be reset instead of told, because the server does not read what it sends; but not be
 * served. */
ServerTest(overload, case_21_client_over_the_limit_is_not_served,
           "--max-connections 1 --overload reject")
{
    client_connect_echo(server, "I have the place\n");
    for (int i = 0; i < 20; i++) {
        char reply[64];
        size_t got;
        int second = client_connect(server);
        client_try_send(second, "served?\n", 8, test_now() + 1);
        enum client_outcome outcome =
            client_try_receive(second, reply, sizeof reply, test_deadline(), &got);
        bool told = got == strlen(BUSY) && memcmp(reply, BUSY, got) == 0;
        cr_assert((outcome == CLIENT_ENDED && told) || (outcome == CLIENT_RESET && (told || !got)),
                  "client 2 of 1 sent `served?`: expected `ERR server busy` and a close (or a "
                  "reset), got `%.*s`, then %s",
                  (int)got, reply, client_outcome_text(outcome));
        client_close(second);
    }
}

ServerTest(overload, case_21_redirect_names_the_other_server,
           "--max-connections=1 --overload=redirect=other.example:7002")
{
    int first = client_connect_echo(server, "I have the place\n");
    int second = client_connect(server);
    client_expect_text(second, "ERR server busy, try other.example:7002\n");
    client_expect_end(second);
    client_close(second);
    client_echo(first, "I still have it\n");
}

ServerTest(overload, case_22_one_leaves_the_next_gets_in, "--max-connections 2")
{
    int stays = client_connect_echo(server, "I stay\n");
    for (int i = 0; i < 20; i++) {
        int client = connect_until_served(server);
        int third = client_connect(server);
        client_expect_text(third, BUSY);
        client_close(third);
        if (i % 2) {
            leave(client);
        } else {
            client_reset(client);
        }
    }
    client_echo(stays, "I am still here\n");
}

ServerTest(overload, case_22_wait_serves_the_next_when_one_leaves,
           "--max-connections 2 --overload wait")
{
    int first = client_connect(server);
    int second = client_connect(server);
    client_echo(first, "I have a place\n");
    client_echo(second, "so have I\n");
    int third = client_connect(server); /* by the system, on behalf of the server */
    client_send_text(third, "I wait\n");
    client_expect_silence(third, 150);
    client_echo(first, "still served\n");
    leave(second);
    client_expect_text(third, "I wait\n");
}

ServerTest(overload, case_22_wait_serves_all_in_turn, "--max-connections 1 --overload wait")
{
    enum { CLIENTS = 20 };
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_send(server, "in turn\n");
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], "in turn\n");
        leave(clients[i]);
    }
    server_stop(server);
}

/* Connections come and go as fast as they can, until one who was there before has been served. */

struct flood {
    const struct server_process *server;
    atomic_bool stop;
    atomic_int connected;
};

static void *flood_run(void *argument)
{
    struct flood *flood = argument;
    while (!atomic_load(&flood->stop)) {
        int client = client_try_connect(flood->server, (struct client_buffers){0});
        if (client >= 0) {
            atomic_fetch_add(&flood->connected, 1);
            client_reset(client);
        }
    }
    return NULL;
}

/* Where each connection has its turn, an answer waits for no more others than may be there. */
ServerTest(overload, case_30_connect_flood_starves_nobody, "")
{
    enum { ANSWERS = 20, FLOOD = 1000 };
    struct flood flood = {.server = server};
    int client = client_connect_echo(server, "before the flood\n");
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, flood_run, &flood), 0);
    bool answered = true;
    for (int i = 0; answered && (i < ANSWERS || atomic_load(&flood.connected) < FLOOD); i++)
        answered = client_try_echo(client, "during the flood\n", test_deadline());
    atomic_store(&flood.stop, true);
    pthread_join(thread, NULL);
    cr_assert(answered, "a client that was served before a flood of %d connections is not answered",
              flood.connected);
}

/*
 * A message that has waited too long for a worker is refused, because its client has probably given
 * up. Only stages with workers have the option.
 */
Test(overload, a_message_that_has_waited_too_long_is_refused)
{
    if (!server_has_option("--max-wait-ms")) {
        return;
    }
    struct server_process server =
        server_start("--workers 1 --block-ms 1500 --cost-for question --max-wait-ms 200 --stats");
    int busy = client_connect(&server);
    int waits = client_connect_echo(&server, "a first run is never refused\n");
    client_send_text(busy, "a question that takes its time\n");
    server_await_counter(&server, "messages", 2);
    client_send_text(waits, "how long must I wait\n");
    client_expect_text(busy, "a question that takes its time\n");
    client_expect_text(waits, "ERR server busy\n");
    client_echo(waits, "the connection still serves\n");
    cr_assert_eq(server_counter(&server, "tasks_late"), 1);
    server_close_all(&server);
}
