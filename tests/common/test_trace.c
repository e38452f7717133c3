/*
 * The trace: what is kept and what is told about the rest, whose an event is, the arrows, and that
 * without a trace there is nothing at all.
 */
#include "common/clock.h"
#include "common/thread.h"
#include "common/trace.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(trace, .timeout = 60);

static char file_name[64];
static char text[8 * 1024 * 1024];

static void begin(void)
{
    snprintf(file_name, sizeof(file_name), "/tmp/trace-test-%ld.json", (long)getpid());
    cr_assert_eq(trace_open(file_name), 0, "%s: %s", file_name, strerror(errno));
}

/* Ends the trace: what was written. */
static void end(void)
{
    cr_assert_eq(trace_close("program"), 0);
    FILE *file = fopen(file_name, "r");
    cr_assert_not_null(file);
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    text[length] = '\0';
    fclose(file);
    unlink(file_name);
    cr_assert(length > 3 && strcmp(text + length - 3, "]}\n") == 0, "it is whole");
}

static unsigned count(const char *wanted)
{
    unsigned found = 0;
    for (const char *at = text; (at = strstr(at, wanted)) != NULL; at++)
        found++;
    return found;
}

/* Both are there once, in this order. */
static void expect_order(const char *first, const char *second)
{
    const char *at = strstr(text, first);
    cr_assert_not_null(at, "no %s in:\n%.2000s", first, text);
    cr_assert_not_null(strstr(at, second), "no %s behind %s in:\n%.2000s", second, first, text);
}

/* Runs a thread to its end. */
static void run_thread(void *(*run)(void *))
{
    pthread_t thread;
    cr_assert_eq(thread_start(&thread, run, NULL), 0);
    pthread_join(thread, NULL);
}

Test(trace, without_a_file_nothing_is_recorded)
{
    cr_assert_eq(trace_open(NULL), 0);
    cr_assert_not(atomic_load(&trace_is_on));
    trace_thread("nobody");
    trace_accepted(5);
    trace_event(TRACE_RECEIVE, 5, 1);
    cr_assert_eq(trace_close("program"), 0);
}

Test(trace, a_file_that_cannot_be_written_is_told_at_once)
{
    cr_assert_eq(trace_open("/nowhere/at/all"), -1);
    cr_assert_eq(errno, ENOENT);
    cr_assert_not(atomic_load(&trace_is_on));
}

Test(trace, the_process_number_can_be_part_of_the_name)
{
    struct stat status;
    cr_assert_eq(trace_open("/tmp/trace-test-%p.name"), 0);
    cr_assert_eq(trace_close("program"), 0);
    snprintf(file_name, sizeof(file_name), "/tmp/trace-test-%ld.name", (long)getpid());
    cr_assert_eq(stat(file_name, &status), 0, "no %s", file_name);
    unlink(file_name);
}

Test(trace, an_event_says_what_happened_when_and_to_whom)
{
    begin();
    trace_accepted(5);
    trace_event(TRACE_RECEIVE, 5, 77);
    trace_event(TRACE_INTEREST, 6, 1); /* a descriptor, and no connection */
    end();
    expect_order("\"name\":\"main\"", "\"name\":\"accept\"");
    expect_order(
        "\"name\":\"accept\",\"s\":\"t\",\"args\":{\"connection\":\"5#1\"}}",
        "\"name\":\"receive\",\"s\":\"t\",\"args\":{\"connection\":\"5#1\",\"bytes\":77}}");
    cr_assert_eq(count("\"name\":\"interest\",\"s\":\"t\",\"args\":{\"interest\":1}}"), 1, "%s",
                 text);
    cr_assert_eq(count("\"program\":\"program\""), 1);
}

Test(trace, a_descriptor_that_is_used_again_is_another_connection)
{
    begin();
    trace_accepted(5);
    trace_event(TRACE_CLOSE, 5, 0);
    trace_accepted(5);
    trace_event(TRACE_SEND, 5, 1);
    end();
    expect_order("\"name\":\"close\",\"s\":\"t\",\"args\":{\"connection\":\"5#1\"}",
                 "\"name\":\"accept\",\"s\":\"t\",\"args\":{\"connection\":\"5#2\"}");
    cr_assert_eq(count("{\"connection\":\"5#2\",\"bytes\":1}"), 1, "%s", text);
}

static void *work(void *unused)
{
    thread_set_name("worker");
    trace_event(TRACE_TASK, TRACE_NO_CONNECTION, 16);
    trace_event(TRACE_TASK_FINISHED, TRACE_NO_CONNECTION, 0);
    return unused;
}

Test(trace, threads_are_merged_by_time_and_told_apart)
{
    begin();
    trace_event(TRACE_RECEIVE, TRACE_NO_CONNECTION, 1);
    run_thread(work);
    trace_event(TRACE_RECEIVE, TRACE_NO_CONNECTION, 2);
    run_thread(work);
    end();
    expect_order("\"name\":\"worker 1\"", "\"name\":\"worker 2\"");
    expect_order("\"bytes\":1", "\"tid\":2");
    expect_order("\"ph\":\"B\",\"pid\":1,\"tid\":2", "\"bytes\":2");
    expect_order("\"bytes\":2", "\"ph\":\"B\",\"pid\":1,\"tid\":3");
}

static void *be_nobody(void *unused)
{
    trace_event(TRACE_RECEIVE, TRACE_NO_CONNECTION, 1);
    return unused;
}

Test(trace, a_thread_that_was_not_announced_is_not_recorded)
{
    begin();
    run_thread(be_nobody);
    end();
    cr_assert_eq(count("\"name\":\"receive\""), 0);
}

Test(trace, the_last_events_are_kept_and_the_others_are_counted)
{
    begin();
    for (int i = 0; i < TRACE_RING_EVENTS + 10; i++)
        trace_event(TRACE_SEND, TRACE_NO_CONNECTION, i);
    end();
    cr_assert_eq(count("\"name\":\"send\""), TRACE_RING_EVENTS);
    cr_assert_eq(count("\"overwritten\":10}"), 1);
    cr_assert_eq(count("\"bytes\":9}"), 0);
    expect_order("\"bytes\":10}", "\"bytes\":11}");
}

Test(trace, an_end_whose_beginning_was_overwritten_is_left_out)
{
    begin();
    trace_event(TRACE_RUN, TRACE_NO_CONNECTION, 0);
    for (int i = 0; i < TRACE_RING_EVENTS; i++)
        trace_event(TRACE_SEND, TRACE_NO_CONNECTION, i);
    trace_event(TRACE_RUN_DONE, TRACE_NO_CONNECTION, 0);
    trace_event(TRACE_RUN, TRACE_NO_CONNECTION, 0);
    trace_event(TRACE_RUN_DONE, TRACE_NO_CONNECTION, 0);
    end();
    cr_assert_eq(count("\"ph\":\"B\""), 1);
    cr_assert_eq(count("\"ph\":\"E\""), 1);
    expect_order("\"ph\":\"B\"", "\"ph\":\"E\"");
}

Test(trace, arrows_lead_from_cause_to_effect)
{
    begin();
    trace_accepted(5);
    trace_event(TRACE_TASK_QUEUED, 5, 16);
    trace_event(TRACE_CHANGE_QUEUED, 5, 0);
    trace_event(TRACE_TASK, 5, 16);
    trace_event(TRACE_CHANGE_APPLIED, 5, 0);
    trace_event(TRACE_TASK_FINISHED, TRACE_NO_CONNECTION, 0);
    trace_event(TRACE_SELECT, TRACE_NO_CONNECTION, 32);
    trace_event(TRACE_WAKEUP, TRACE_NO_CONNECTION, 32);
    trace_event(TRACE_SELECTED, TRACE_NO_CONNECTION, 1);
    end();
    cr_assert_eq(count("\"ph\":\"s\""), 3, "%s", text);
    cr_assert_eq(count("\"ph\":\"f\""), 3, "%s", text);
    expect_order("\"name\":\"task\",\"cat\":\"arrow\",\"id\":1",
                 "\"name\":\"task\",\"cat\":\"arrow\",\"id\":1");
    expect_order("\"name\":\"change\",\"cat\":\"arrow\",\"id\":2",
                 "\"name\":\"change\",\"cat\":\"arrow\",\"id\":2");
    expect_order("\"name\":\"wakeup\",\"cat\":\"arrow\",\"id\":3",
                 "\"name\":\"wakeup\",\"cat\":\"arrow\",\"id\":3");
}

Test(trace, no_arrow_ends_that_has_not_begun)
{
    begin();
    trace_event(TRACE_TASK_QUEUED, TRACE_NO_CONNECTION, 16);
    trace_event(TRACE_TASK, TRACE_NO_CONNECTION, 17); /* another one */
    trace_event(TRACE_TASK_FINISHED, TRACE_NO_CONNECTION, 0);
    trace_event(TRACE_SELECT, TRACE_NO_CONNECTION, 32);
    trace_event(TRACE_SELECTED, TRACE_NO_CONNECTION, 1); /* by an event, not by a wakeup */
    end();
    cr_assert_eq(count("\"ph\":\"f\""), 0, "%s", text);
}

static void *pass(void *unused)
{
    trace_thread("passing");
    return unused;
}

Test(trace, threads_past_the_limit_are_counted)
{
    if (!memory_can_run_out()) /* a ring is a megabyte, which a sanitizer takes seriously */
        cr_skip("under a sanitizer");
    begin();
    for (int i = 0; i < TRACE_MOST_THREADS + 2; i++)
        run_thread(pass);
    end();
    cr_assert_eq(count("\"threads_left_out\":3}"), 1, "main is one that was recorded");
    cr_assert_eq(count("thread_name"), TRACE_MOST_THREADS);
}
