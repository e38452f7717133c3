/*
 * Posts: calls in a connection's own context, from any thread (channel_post()). All tests begin
 * with a connection that rests.
 */
#include "framework.h"

#include "inside/notes.h"
#include "inside/one_client.h"

#include <criterion/criterion.h>
#include <pthread.h>

TestSuite(stage4_posts, .timeout = 120);

#define POSTS_CLOSE  "connection: before it takes no more posts"
#define POST_BETWEEN "connection: between a post and its request"

static struct note note;

static int begin(const char *ways, const char *options)
{
    recorder_init(&recorder);
    note_init(&note, &recorder);
    recorder.notes = &note;
    return begin_serving(ways, options);
}

/* Nothing happens on the socket: it is the post that has the connection run. */
OneClientTest(stage4_posts, wakes_a_connection_that_rests, "")
{
    note_post(&note);
    recorder_await_at(HERE, "runs", &note.runs, 1);
    framework_await_asleep(&framework);
    note_expect(&note, 1, 0);
}

/* The run has looked for posts, and is not done yet. */
OneClientTest(stage4_posts, comes_too_late_for_a_run, "")
{
    test_point_hold(RUN_ENDED);
    client_send_text(client, "one\n");
    test_point_await_held(RUN_ENDED, 1);
    note_post(&note);
    note_expect(&note, 0, 0);
    test_point_release(RUN_ENDED);
    recorder_await_at(HERE, "runs", &note.runs, 1);
    client_expect_text(client, "one\n");
    framework_close(&framework);
    note_expect(&note, 1, 0);
}

static void *post_it(void *argument)
{
    note_post(argument);
    return NULL;
}

/* A run looks between the two steps of a post, and hears of neither or of both. */
OneClientTest(stage4_posts, comes_in_two_steps_of_which_none_is_lost, "")
{
    pthread_t thread;
    test_point_hold(RUN_BEGINS);
    test_point_hold(RUN_ENDED);
    test_point_hold(POST_BETWEEN);
    client_send_text(client, "one\n");
    test_point_await_held(RUN_BEGINS, 1);
    cr_assert_eq(pthread_create(&thread, NULL, post_it, &note), 0);
    test_point_await_held(POST_BETWEEN, 1);
    test_point_release(RUN_BEGINS);
    test_point_await_held(RUN_ENDED, 1);
    test_point_release(POST_BETWEEN);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    test_point_release(RUN_ENDED);
    recorder_await_at(HERE, "runs", &note.runs, 1);
    client_expect_text(client, "one\n");
}

/* Neither what the client sends nor what it does not read has to do with it. */
OneClientTest(stage4_posts, runs_while_input_is_suspended, "")
{
    client_send_text(client, "suspend\n");
    recorder_await(&recorder, messages, 2);
    framework_await_asleep(&framework);
    note_post(&note);
    recorder_await_at(HERE, "runs", &note.runs, 1);
}

OneClientTest(stage4_posts, posts_itself_again, "")
{
    note.again = 99;
    note_post(&note);
    recorder_await_at(HERE, "runs", &note.runs, 100);
    framework_close(&framework);
    note_expect(&note, 100, 0);
}

/* The handler fails in the run that the post would have been for. */
OneClientTest(stage4_posts, is_dropped_if_the_connection_ends_first, "")
{
    test_point_hold(POSTS_CLOSE);
    client_send_text(client, "fail\n");
    test_point_await_held(POSTS_CLOSE, 1);
    note_post(&note);
    note_expect(&note, 0, 0);
    test_point_release(POSTS_CLOSE);
    client_expect_end(client);
    client_half_close(client); /* which is what a linger waits for */
    framework_await_closed(&framework, 1);
    note_expect(&note, 0, 1);
}

OneClientTest(stage4_posts, is_dropped_at_once_after_the_end, "")
{
    client_send_text(client, "fail\n");
    client_expect_end(client);
    client_half_close(client); /* which is what a linger waits for */
    framework_await_closed(&framework, 1);
    note_post(&note);
    note_expect(&note, 0, 1);
}

OneClientTest(stage4_posts, many_threads_post, "")
{
    enum { EACH = 500, LINES = 200 };
    static struct note notes[EACH * NOTES_THREADS];
    for (int i = 0; i < LINES; i++) {
        client_send_text(client, "and lines come, too\n");
    }
    notes_post_from_threads(notes, EACH, &recorder);
    for (int i = 0; i < LINES; i++) {
        client_expect_text(client, "and lines come, too\n");
    }
    client_echo(client, "the last\n");
    framework_close(&framework);
    notes_expect_all_ran(notes, EACH);
}

/* Four threads post one note over and over: it runs once at least, and never beside itself. */
OneClientTest(stage4_posts, many_threads_post_the_same, "")
{
    enum { EACH = 2000 };
    int queued = note_post_from_threads(&note, EACH);
    client_echo(client, "is anybody there\n");
    framework_close(&framework);
    cr_assert_gt(queued, 0);
    note_expect(&note, queued, 0);
}
