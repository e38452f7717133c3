/*
 * What is posted to a connection that nobody shares, as in stages 1 to 3: it runs when the call
 * that posted it has returned, and before the next message.
 */
#include "common/base/container_of.h"
#include "common/server/channel_calls.h"
#include "common/server/connection.h"
#include "common/server/connection_feed.h"
#include "common/server/connection_find.h"
#include "helpers.h"
#include "noting.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(connection_posts, .timeout = 120);

enum { POSTS = 3 };

/* Each line is answered with itself, and posts so many notes as its first byte says. */
struct poster {
    struct input_handler handler;
    struct server server;
    struct connection connection;
    int ends[2];
    char calls[64]; /* a letter for each */
    struct note {
        struct channel_post post;
        struct poster *poster;
        char name;
    } notes[POSTS];
    bool posts_when_stopping;
};

static struct poster *poster_of(struct input_handler *handler)
{
    return container_of(handler, struct poster, handler);
}

static void write_down(struct poster *poster, char call)
{
    poster->calls[strlen(poster->calls)] = call;
}

static void run_note(struct channel_post *post, struct channel_facade *facade)
{
    struct note *note = container_of(post, struct note, post);
    cr_assert_eq(facade, &note->poster->connection.facade);
    write_down(note->poster, note->name);
}

static void drop_note(struct channel_post *post)
{
    struct note *note = container_of(post, struct note, post);
    write_down(note->poster, (char)(note->name - 'a' + 'A'));
}

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    (void)self;
    return line_framing_next(channel_input(facade), 100, message);
}

static void post_notes(struct poster *poster, struct channel_facade *facade, int count)
{
    for (int i = 0; i < count; i++)
        channel_post(facade, &poster->notes[i].post);
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct poster *poster = poster_of(self);
    post_notes(poster, facade, message.data[0] - '0');
    write_down(poster, '.');
    return true;
}

static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)message;
    post_notes(poster_of(self), facade, 1);
    write_down(poster_of(self), '-');
}

static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    if (poster_of(self)->posts_when_stopping)
        post_notes(poster_of(self), facade, 1);
    write_down(poster_of(self), '4');
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    write_down(poster_of(self), '5');
}

static struct input_handler_verbs verbs = {
    .next_message = next_message,
    .handle_input = handle_input,
    .refuse_input = refuse_input,
    .stopping = stopping,
    .stopped = stopped,
};

static void open_poster(struct poster *poster)
{
    struct server *server = &poster->server;
    memset(poster, 0, sizeof(*poster));
    poster->handler.verbs = input_handler_complete(&verbs);
    bare_server_init(server, 1 << 24);
    for (int i = 0; i < POSTS; i++)
        poster->notes[i] = (struct note){.post = {.run = run_note, .dropped = drop_note},
                                         .poster = poster,
                                         .name = (char)('a' + i)};
    pair_open(poster->ends);
    connection_open(&poster->connection, &server->home, poster->ends[0], &poster->handler);
    connection_advance(&poster->connection, LIFE_STARTED);
}

static void close_poster(struct poster *poster)
{
    connection_detach(&poster->connection);
    buffer_factory_destroy(&poster->server.buffers);
    pair_close(poster->ends);
}

static void give(struct poster *poster, const char *text)
{
    cr_assert(connection_feed(&poster->connection, (const unsigned char *)text, strlen(text)));
}

static unsigned run(struct poster *poster, enum connection_messages how)
{
    struct run turn = {0};
    connection_handle(&poster->connection, &turn, how);
    connection_send(&poster->connection, &turn);
    return connection_wants(&poster->connection);
}

/* A test of a connection whose handler posts. */
#define PosterTest(suite, name)                                                                    \
    TestWith(suite, name, struct poster, poster, open_poster(poster), close_poster(poster))

PosterTest(connection_posts, run_before_the_next_message_and_in_their_order)
{
    give(poster, "3\n0\n");
    cr_assert_eq(run(poster, HANDLE_MESSAGES), SELECT_READ);
    cr_assert_str_eq(poster->calls, ".abc.");
}

/* Such a call may be made in a thread that must not wait; what it posts is left for a run. */
PosterTest(connection_posts, of_a_refusal_wait_for_a_run)
{
    struct run turn = {0};
    struct connection_message found;
    give(poster, "0\n");
    cr_assert_eq(run(poster, REFUSE_MESSAGE), CONNECTION_RUN);
    cr_assert_str_eq(poster->calls, "-");
    cr_assert(connection_must_run(&poster->connection));
    cr_assert(connection_find(&poster->connection, &found));
    turn.found = &found;
    connection_handle(&poster->connection, &turn, HANDLE_MESSAGES);
    connection_send(&poster->connection, &turn);
    cr_assert_eq(connection_wants(&poster->connection), SELECT_READ);
    cr_assert_str_eq(poster->calls, "-a");
}

Test(connection_posts, are_dropped_after_stopped)
{
    struct poster poster;
    open_poster(&poster);
    post_notes(&poster, &poster.connection.facade, 3);
    connection_ask(&poster.connection, ASK_END, 0);
    cr_assert_eq(run(&poster, HANDLE_MESSAGES), CONNECTION_OVER);
    cr_assert_str_eq(poster.calls, "45ABC");
    channel_post(&poster.connection.facade, &poster.notes[0].post);
    cr_assert_str_eq(poster.calls, "45ABCA");
    close_poster(&poster);
    cr_assert_str_eq(poster.calls, "45ABCA");
}

PosterTest(connection_posts, of_stopping_do_not_run_any_more)
{
    poster->posts_when_stopping = true;
    give(poster, "");
    cr_assert_eq(run(poster, HANDLE_MESSAGES), CONNECTION_OVER);
    cr_assert_str_eq(poster->calls, "45A");
}

/* ---- Posted twice --------------------------------------------------------------------------- */

PosterTest(connection_posts, that_wait_already_are_not_queued_again)
{
    struct channel_facade *facade = &poster->connection.facade;
    post_notes(poster, facade, 2);
    post_notes(poster, facade, POSTS); /* the third one is new */
    cr_assert_not(channel_post(facade, &poster->notes[0].post));
    cr_assert_eq(run(poster, HANDLE_MESSAGES), SELECT_READ);
    cr_assert_str_eq(poster->calls, "abc");
    cr_assert(channel_post(facade, &poster->notes[0].post), "it does not wait any more");
    cr_assert_eq(run(poster, HANDLE_MESSAGES), SELECT_READ);
    cr_assert_str_eq(poster->calls, "abca");
}

/* Neither to the same connection nor to another one, while it waits. */
PosterTest(connection_posts, that_wait_at_one_connection_are_not_queued_at_another)
{
    struct poster other;
    open_poster(&other);
    struct channel_post *post = &poster->notes[0].post;
    cr_assert(channel_post(&poster->connection.facade, post));
    cr_assert_not(channel_post(&other.connection.facade, post));
    cr_assert_eq(run(&other, HANDLE_MESSAGES), SELECT_READ);
    cr_assert_eq(run(poster, HANDLE_MESSAGES), SELECT_READ);
    cr_assert_str_eq(poster->calls, "a");
    close_poster(&other);
}

/* Each drop makes it the caller's again. */
PosterTest(connection_posts, that_are_dropped_can_be_posted_again)
{
    post_notes(poster, &poster->connection.facade, 1);
    connection_ask(&poster->connection, ASK_END, 0);
    cr_assert_eq(run(poster, HANDLE_MESSAGES), CONNECTION_OVER);
    cr_assert(channel_post(&poster->connection.facade, &poster->notes[0].post));
    cr_assert(channel_post(&poster->connection.facade, &poster->notes[0].post));
    cr_assert_str_eq(poster->calls, "45AAA");
}
