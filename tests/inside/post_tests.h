/*
 * What channel_post() promises, for the suites of stages 4 and 5: each includes its own framework.h
 * and then this, and makes tests of the functions. All begin with a connection that rests.
 */
#ifndef TESTS_INSIDE_POST_TESTS_H
#define TESTS_INSIDE_POST_TESTS_H

#include "notes.h"
#include "one_client.h"

#include <criterion/criterion.h>

#define POSTS_CLOSE "connection: before it takes no more posts"

static struct note note;

static int begin(const char *options)
{
    recorder_init(&recorder);
    note_init(&note, &recorder);
    recorder.notes = &note;
    return begin_serving("", options);
}

/* Nothing happens on the socket: it is the post that has the connection run. */
static void wakes_a_connection_that_rests(const char *options)
{
    int client = begin(options);
    note_post(&note);
    recorder_await_at(HERE, "runs", &note.runs, 1);
    framework_await_asleep(&framework);
    note_expect(&note, 1, 0);
    end(client);
}

/* The run has looked for posts, and is not done yet. */
static void comes_too_late_for_a_run(const char *options)
{
    int client = begin(options);
    test_point_hold(RUN_ENDED);
    client_send_text(client, "one\n");
    test_point_await_held(RUN_ENDED, 1);
    note_post(&note);
    note_expect(&note, 0, 0);
    test_point_release(RUN_ENDED);
    recorder_await_at(HERE, "runs", &note.runs, 1);
    client_expect_text(client, "one\n");
    end(client);
    note_expect(&note, 1, 0);
}

/* Neither what the client sends nor what it does not read has to do with it. */
static void runs_while_input_is_suspended(const char *options)
{
    int client = begin(options);
    client_send_text(client, "suspend\n");
    recorder_await(&recorder, messages, 2);
    framework_await_asleep(&framework);
    note_post(&note);
    recorder_await_at(HERE, "runs", &note.runs, 1);
    end(client);
}

static void posts_itself_again(const char *options)
{
    int client = begin(options);
    note.again = 99;
    note_post(&note);
    recorder_await_at(HERE, "runs", &note.runs, 100);
    end(client);
    note_expect(&note, 100, 0);
}

/* The handler fails in the run that the post would have been for. */
static void is_dropped_if_the_connection_ends_first(const char *options)
{
    int client = begin(options);
    test_point_hold(POSTS_CLOSE);
    client_send_text(client, "fail\n");
    test_point_await_held(POSTS_CLOSE, 1);
    note_post(&note);
    note_expect(&note, 0, 0);
    test_point_release(POSTS_CLOSE);
    framework_await_closed(&framework, 1);
    note_expect(&note, 0, 1);
    end(client);
}

static void is_dropped_at_once_after_the_end(const char *options)
{
    int client = begin(options);
    client_send_text(client, "fail\n");
    framework_await_closed(&framework, 1);
    note_post(&note);
    note_expect(&note, 0, 1);
    end(client);
}

static void many_threads_post(const char *options)
{
    enum { EACH = 500, LINES = 200 };
    static struct note notes[EACH * NOTES_THREADS];
    int client = begin(options);
    for (int i = 0; i < LINES; i++) {
        client_send_text(client, "and lines come, too\n");
    }
    notes_post_from_threads(notes, EACH, &recorder);
    for (int i = 0; i < LINES; i++) {
        client_expect_text(client, "and lines come, too\n");
    }
    client_echo(client, "the last\n");
    end(client);
    notes_expect_all_ran(notes, EACH);
}

/* Four threads post one note over and over: it runs once at least, and never beside itself. */
static void many_threads_post_the_same(const char *options)
{
    enum { EACH = 2000 };
    int client = begin(options);
    int queued = note_post_from_threads(&note, EACH);
    client_echo(client, "is anybody there\n");
    end(client);
    cr_assert_gt(queued, 0);
    note_expect(&note, queued, 0);
}

#endif
