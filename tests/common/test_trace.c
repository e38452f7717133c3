/*
 * The trace: what is kept and what is told about the rest, whose an event is, the arrows, and that
 * without a trace there is nothing at all.
 */
#include "common/base/clock.h"
#include "common/base/thread.h"
#include "common/base/trace.h"
#include "common/bytes/input_queue.h"
#include "common/bytes/output_chain.h"
#include "common/server/sockets.h"
#include "helpers.h"
#include "support/deadline.h"
#include "support/mapped.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(trace, .timeout = 120);

static char file_name[64];
enum { TEXT_SIZE = 8 << 20 };

static char *text; /* what was written, once there is an end */

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
    if (text == NULL)
        text = mapped(TEXT_SIZE);
    size_t length = fread(text, 1, TEXT_SIZE - 1, file);
    text[length] = '\0';
    fclose(file);
    unlink(file_name);
    cr_assert(length > 3 && strcmp(text + length - 3, "]}\n") == 0, "it is whole");
}

/* What was written, line by line: one stands for each event. */
struct lines {
    const char *at;
    size_t left;
    char line[200];
};

static struct lines lines_of_text(void)
{
    return (struct lines){.at = text, .left = strlen(text)};
}

/*
 * Takes the next line; false if there is none. A sanitizer measures what strstr(3) and sscanf(3)
 * are given, so they get a line and not megabytes.
 */
static bool next_line(struct lines *lines)
{
    const char *end = memchr(lines->at, '\n', lines->left);
    if (end == NULL)
        return false;
    size_t length = (size_t)(end - lines->at);
    cr_assert_lt(length, sizeof(lines->line));
    memcpy(lines->line, lines->at, length);
    lines->line[length] = '\0';
    lines->at += length + 1;
    lines->left -= length + 1;
    return true;
}

/* How many lines have that in them. */
static unsigned count(const char *wanted)
{
    unsigned found = 0;
    for (struct lines lines = lines_of_text(); next_line(&lines);)
        found += strstr(lines.line, wanted) != NULL;
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

/* A part of the name would be the name of another file. */
Test(trace, a_name_is_not_cut)
{
    static char name[2000] = "/tmp/";
    for (size_t i = 5; i < sizeof(name) - 1; i++)
        name[i] = i % 2 == 0 ? '/' : '.';
    cr_assert_eq(trace_open(name), -1);
    cr_assert_eq(errno, ENAMETOOLONG, "%s", strerror(errno));
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

Test(trace, an_event_says_what_happened_when_and_to_whom, .init = begin)
{
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

/* Those parts of a server record what they do: nobody who uses them has to think of it. */
Test(trace, what_passes_through_a_socket_is_recorded, .init = begin)
{
    static const struct log quiet = {.program = "trace-test", .level = LOG_LEVEL_ERROR};
    struct buffer_factory factory;
    const struct output_settings settings = {.buffers = &factory, .high_mark = 100, .cap = 100};
    struct input_queue input;
    struct output_chain output;
    struct endpoint endpoint;
    struct listener listener;
    char event[128];
    int fd;
    cr_assert(endpoint_parse(&endpoint, "127.0.0.1", 0));
    cr_assert_eq(listener_open(&listener, &endpoint, 0), 0, "%s", strerror(errno));
    struct sockaddr_in address;
    memcpy(&address, &listener.endpoint.address, sizeof(address));
    int client = tcp_connect(&address);
    double deadline = test_deadline();
    cr_assert(test_await(listener.fd, POLLIN, deadline));
    cr_assert_eq(listener_accept(&listener, SOCK_NONBLOCK, &quiet, &fd), ACCEPT_CONNECTION);

    buffer_factory_init(&factory, 1);
    input_queue_init(&input, &factory, 100);
    output_chain_init(&output, &settings, fd);
    put(client, "hello", 5);
    cr_assert(test_await(fd, POLLIN, deadline));
    cr_assert_eq(input_queue_fill(&input, fd), 5);
    output_chain_enqueue(&output, piece_bytes("answer", 6));
    input_queue_clear(&input);
    output_chain_close(&output);
    buffer_factory_destroy(&factory);
    socket_turn_away(fd, "enough");
    listener_close(&listener);
    close(client);
    end();

    snprintf(event, sizeof(event),
             "\"name\":\"accept\",\"s\":\"t\",\"args\":{\"connection\":\"%d#1\"}", fd);
    expect_order(event, "\"bytes\":5}");
    expect_order("\"name\":\"receive\"", "\"name\":\"send\"");
    expect_order("\"bytes\":5}", "\"bytes\":6}");
    snprintf(event, sizeof(event),
             "\"name\":\"close\",\"s\":\"t\",\"args\":{\"connection\":\"%d#1\"}", fd);
    expect_order("\"bytes\":6}", event);
}

Test(trace, a_descriptor_that_is_used_again_is_another_connection, .init = begin)
{
    trace_accepted(5);
    trace_event(TRACE_CLOSE, 5, 0);
    trace_accepted(5);
    trace_event(TRACE_SEND, 5, 1);
    end();
    expect_order("\"name\":\"close\",\"s\":\"t\",\"args\":{\"connection\":\"5#1\"}",
                 "\"name\":\"accept\",\"s\":\"t\",\"args\":{\"connection\":\"5#2\"}");
    cr_assert_eq(count("{\"connection\":\"5#2\",\"bytes\":1}"), 1, "%s", text);
}

Test(trace, descriptor_0_may_be_a_connection, .init = begin)
{
    trace_accepted(0);
    trace_event(TRACE_SEND, 0, 1);
    end();
    cr_assert_eq(count("{\"connection\":\"0#1\",\"bytes\":1}"), 1, "%s", text);
}

/* Numbers are kept for as many descriptors as the limit allowed at the beginning. */
Test(trace, what_a_descriptor_past_the_limit_does_belongs_to_no_connection)
{
    enum { LIMIT = 64, PAST = 16 };
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = LIMIT;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    begin();
    for (int fd = LIMIT; fd < LIMIT + PAST; fd++)
        trace_event(TRACE_SEND, fd, 1);
    end();
    cr_assert_eq(count("{\"bytes\":1}"), PAST, "%s", text);
}

static void *work(void *unused)
{
    thread_set_name("worker");
    trace_event(TRACE_TASK, TRACE_NO_CONNECTION, 16);
    trace_event(TRACE_TASK_FINISHED, TRACE_NO_CONNECTION, 0);
    return unused;
}

Test(trace, threads_are_merged_by_time_and_told_apart, .init = begin)
{
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

/* Two threads record at the same time, until each has filled its ring. */

enum { SIDE_BY_SIDE = 2 };

static atomic_int rings_filled;

static void *record_numbers(void *unused)
{
    thread_set_name("side by side");
    for (int i = 0; i < TRACE_RING_EVENTS || atomic_load(&rings_filled) < SIDE_BY_SIDE; i++) {
        trace_event(TRACE_RECEIVE, TRACE_NO_CONNECTION, i);
        if (i == TRACE_RING_EVENTS - 1)
            atomic_fetch_add(&rings_filled, 1);
    }
    return unused;
}

Test(trace, threads_that_record_at_the_same_time_are_merged_in_order, .init = begin)
{
    pthread_t threads[SIDE_BY_SIDE];
    long last[2 + SIDE_BY_SIDE];
    int events = 0;
    double now = 0;
    for (int i = 0; i < SIDE_BY_SIDE; i++)
        cr_assert_eq(thread_start(&threads[i], record_numbers, NULL), 0);
    for (int i = 0; i < SIDE_BY_SIDE; i++)
        pthread_join(threads[i], NULL);
    end();
    memset(last, -1, sizeof(last));
    for (struct lines lines = lines_of_text(); next_line(&lines);) {
        unsigned thread;
        double moment;
        long number;
        if (sscanf(lines.line,
                   "{\"ph\":\"i\",\"pid\":1,\"tid\":%u,\"ts\":%lf,\"name\":\"receive\",\"s\":\"t\","
                   "\"args\":{\"bytes\":%ld}",
                   &thread, &moment, &number) != 3)
            continue;
        events++;
        cr_assert(thread >= 2 && thread < 2 + SIDE_BY_SIDE, "thread %u", thread);
        cr_assert_geq(moment, now, "an event of %f us stands behind one of %f us", moment, now);
        cr_assert(last[thread] < 0 || number == last[thread] + 1,
                  "thread %u: event %ld stands behind event %ld", thread, number, last[thread]);
        last[thread] = number;
        now = moment;
    }
    cr_assert_eq(events, SIDE_BY_SIDE * TRACE_RING_EVENTS);
}

static void *be_nobody(void *unused)
{
    trace_event(TRACE_RECEIVE, TRACE_NO_CONNECTION, 1);
    return unused;
}

Test(trace, a_thread_that_was_not_announced_is_not_recorded, .init = begin)
{
    run_thread(be_nobody);
    end();
    cr_assert_eq(count("\"name\":\"receive\""), 0);
}

Test(trace, the_last_events_are_kept_and_the_others_are_counted, .init = begin)
{
    for (int i = 0; i < TRACE_RING_EVENTS + 10; i++)
        trace_event(TRACE_SEND, TRACE_NO_CONNECTION, i);
    end();
    cr_assert_eq(count("\"name\":\"send\""), TRACE_RING_EVENTS);
    cr_assert_eq(count("\"overwritten\":10}"), 1);
    cr_assert_eq(count("\"bytes\":9}"), 0);
    expect_order("\"bytes\":10}", "\"bytes\":11}");
}

Test(trace, an_end_whose_beginning_was_overwritten_is_left_out, .init = begin)
{
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

Test(trace, arrows_lead_from_cause_to_effect, .init = begin)
{
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

Test(trace, no_arrow_ends_that_has_not_begun, .init = begin)
{
    trace_event(TRACE_TASK_QUEUED, TRACE_NO_CONNECTION, 16);
    trace_event(TRACE_TASK, TRACE_NO_CONNECTION, 17); /* another one */
    trace_event(TRACE_TASK_FINISHED, TRACE_NO_CONNECTION, 0);
    trace_event(TRACE_SELECT, TRACE_NO_CONNECTION, 32);
    trace_event(TRACE_SELECTED, TRACE_NO_CONNECTION, 1); /* by an event, not by a wakeup */
    end();
    cr_assert_eq(count("\"ph\":\"f\""), 0, "%s", text);
}

/* Numbers without a pattern, as addresses are. */
static int64_t task_id(int number)
{
    return 16 * (int64_t)number * number;
}

/* More than a few, so that they get into each other's way in the table of open arrows. */
Test(trace, many_arrows_at_a_time_each_find_their_end, .init = begin)
{
    enum { TASKS = 2000 };
    for (int i = 1; i <= TASKS; i++)
        trace_event(TRACE_TASK_QUEUED, TRACE_NO_CONNECTION, task_id(i));
    for (int i = TASKS; i >= 1; i--) {
        trace_event(TRACE_TASK, TRACE_NO_CONNECTION, task_id(i));
        trace_event(TRACE_TASK_FINISHED, TRACE_NO_CONNECTION, 0);
    }
    end();
    cr_assert_eq(count("\"ph\":\"s\""), TASKS);
    int64_t task = TASKS; /* the arrows' numbers are the order of their beginnings */
    for (struct lines lines = lines_of_text(); next_line(&lines);) {
        const char *number = strstr(lines.line, "\"id\":");
        if (strstr(lines.line, "\"ph\":\"f\"") != NULL)
            cr_assert_eq(strtol(number + strlen("\"id\":"), NULL, 10), task--, "%s", lines.line);
    }
    cr_assert_eq(task, 0, "the arrow of task %d does not end", (int)task);
}

Test(trace, without_memory_it_is_lost_and_that_is_told)
{
    struct stat status;
    if (!memory_can_run_out())
        cr_skip_test("no limit for memory here");
    begin();
    trace_event(TRACE_RECEIVE, TRACE_NO_CONNECTION, 1);
    memory_take_all();
    int result = trace_close("program");
    int error = errno;
    memory_give_back();
    cr_assert_eq(result, -1);
    cr_assert_eq(error, ENOMEM, "%s", strerror(error));
    cr_assert_eq(stat(file_name, &status), 0);
    cr_assert_eq(status.st_size, 0, "nobody takes it for a trace");
    begin(); /* and nothing of it is left over */
    end();
    cr_assert_eq(count("\"bytes\":1}"), 0);
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
    for (int i = 0; i < TRACE_MAX_THREADS + 2; i++)
        run_thread(pass);
    end();
    cr_assert_eq(count("\"threads_left_out\":3,"), 1, "main is one that was recorded");
    cr_assert_eq(count("thread_name"), TRACE_MAX_THREADS);
}
