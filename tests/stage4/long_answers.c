/*
 * An answer that is longer than what may wait: the handler makes it piece by piece, as the client
 * takes it (continue_output).
 */
#include "framework.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(stage4_long_answers, .timeout = 120);

enum {
    PIECE = 4096,
    PIECES = 4096, /* 16 MiB, which no send buffer takes */
};

/* Serves lines: "long" is answered with PIECES pieces, each filled with one letter; others by
 * themselves. */
struct narrator {
    struct input_handler handler;
    int left;          /* pieces still to be made: the runner's */
    atomic_int made;   /* pieces in all */
    atomic_bool ended; /* `stopped` has come */
};

static struct framework framework;
static struct narrator narrator;

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    (void)self;
    return line_framing_next(channel_input(facade), 100, message);
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    if (message.length == 5 && memcmp(message.data, "long\n", 5) == 0)
        ((struct narrator *)self)->left = PIECES;
    else
        channel_enqueue(facade, piece_copy(message));
    return true;
}

static bool continue_output(struct input_handler *self, struct channel_facade *facade)
{
    struct narrator *teller = (struct narrator *)self;
    unsigned char piece[PIECE];
    if (teller->left == 0)
        return false;
    memset(piece, 'a' + teller->left % 26, sizeof(piece));
    channel_enqueue(facade, piece_bytes(piece, sizeof(piece)));
    teller->left--;
    atomic_fetch_add(&teller->made, 1);
    return true;
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    atomic_store(&((struct narrator *)self)->ended, true);
}

static struct input_handler_verbs verbs = {
    .next_message = next_message,
    .handle_input = handle_input,
    .continue_output = continue_output,
    .stopped = stopped,
};

static int begin(const char *options)
{
    memset(&narrator, 0, sizeof(narrator));
    narrator.handler.verbs = input_handler_complete(&verbs);
    framework_start(&framework, "%s", options);
    return framework_connect(&framework, &narrator.handler);
}

static void expect_long_answer(int client)
{
    static unsigned char wanted[PIECE];
    for (int left = PIECES; left > 0; left--) {
        memset(wanted, 'a' + left % 26, sizeof(wanted));
        client_expect(client, wanted, sizeof(wanted));
    }
}

/* No more of it is made than may wait; the rest follows as the client reads. */
Test(stage4_long_answers, made_as_the_client_takes_it)
{
    int client = begin("--output-high-mark 65536");
    client_send_text(client, "long\n");
    framework_await_asleep(&framework);
    int made = atomic_load(&narrator.made);
    cr_assert_lt(made, PIECES, "all of it was made although nobody reads");
    expect_long_answer(client);
    client_echo(client, "what follows is answered, too\n");
    cr_assert_eq(atomic_load(&narrator.made), PIECES);
    framework_close(&framework);
}

/* A message behind it waits for its end, although it is there in the same read. */
Test(stage4_long_answers, the_next_message_waits_for_the_end)
{
    int client = begin("");
    client_ask(client, "before\nlong\nafter\nlong\n", "before\n");
    expect_long_answer(client);
    client_expect_text(client, "after\n");
    expect_long_answer(client);
    framework_close(&framework);
}

/* The client's end of stream does not cut it short, and the connection ends behind it. */
Test(stage4_long_answers, outlives_the_end_of_input)
{
    int client = begin("");
    client_send_text(client, "long\n");
    shutdown(client, SHUT_WR);
    expect_long_answer(client);
    client_expect_end(client);
    framework_await_closed(&framework, 1);
    cr_assert(atomic_load(&narrator.ended));
    framework_close(&framework);
}

/* Neither does the stop of the server. */
Test(stage4_long_answers, outlives_the_stop)
{
    int client = begin("--drain-timeout 30");
    client_send_text(client, "long\n");
    client_expect_text(client, "o"); /* it has begun: PIECES % 26 is 14 */
    dispatcher_stop(&framework.dispatcher);
    static unsigned char wanted[PIECE];
    memset(wanted, 'a' + PIECES % 26, sizeof(wanted));
    client_expect(client, wanted + 1, PIECE - 1);
    for (int left = PIECES - 1; left > 0; left--) {
        memset(wanted, 'a' + left % 26, sizeof(wanted));
        client_expect(client, wanted, sizeof(wanted));
    }
    client_expect_end(client);
    client_close(client);
    framework_end(&framework);
}
