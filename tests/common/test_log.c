/*
 * The log: what a line looks like, which levels are written, and that a hostile peer cannot fill a
 * disk. The limit's clock is moved by hand, so that no test waits for a second to pass.
 */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_value.h"
#include "common/base/thread.h"
#include "helpers.h"
#include "support/deadline.h"
#include "support/mapped.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(log, .timeout = 120);

enum {
    THREADS = 8,
    LINES = 200,
};

static const struct log everything = {.program = "prog", .level = LOG_LEVEL_DEBUG};

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        lines++;
    return lines;
}

Test(log, a_line_names_program_level_and_thread)
{
    char text[1024];
    thread_set_name("worker-3");
    CAPTURED(STDERR_FILENO, text,
             log_write(&everything, LOG_LEVEL_WARN, "cannot %s: %d", "fly", 42));
    cr_assert_str_eq(text, "prog: warn: [worker-3] cannot fly: 42\n");
}

Test(log, writes_its_level_and_what_is_more_urgent)
{
    for (unsigned level = 0; log_level_name(level) != NULL; level++) {
        char text[1024];
        struct capture capture;
        struct log log = {.program = "prog", .level = (enum log_level)level};
        capture_start(&capture, STDERR_FILENO);
        for (unsigned i = 0; log_level_name(i) != NULL; i++)
            log_write(&log, (enum log_level)i, "%s", "text");
        capture_stop(&capture, text, sizeof(text));
        cr_assert_eq(count_lines(text), level + 1, "%s: %s", log_level_name(level), text);
        for (unsigned i = 0; log_level_name(i) != NULL; i++) {
            char start[64];
            snprintf(start, sizeof(start), "prog: %s: ", log_level_name(i));
            cr_assert_eq(strstr(text, start) != NULL, i <= level, "%s at level %s", start,
                         log_level_name(level));
        }
    }
}

Test(log, names_its_levels)
{
    cr_assert_str_eq(log_level_name(LOG_LEVEL_ERROR), "error");
    cr_assert_str_eq(log_level_name(LOG_LEVEL_WARN), "warn");
    cr_assert_str_eq(log_level_name(LOG_LEVEL_INFO), "info");
    cr_assert_str_eq(log_level_name(LOG_LEVEL_DEBUG), "debug");
    cr_assert_null(log_level_name(LOG_LEVEL_DEBUG + 1));
    cr_assert_null(log_level_name(1000000));
}

Test(log, cuts_a_long_line_and_ends_it_all_the_same)
{
    char longer[5000];
    char text[8192];
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    CAPTURED(STDERR_FILENO, text, log_write(&everything, LOG_LEVEL_ERROR, "%s", longer));
    cr_assert_eq(count_lines(text), 1);
    cr_assert_eq(text[strlen(text) - 1], '\n');
    cr_assert_gt(strlen(text), 200);
    cr_assert_lt(strlen(text), 1024);
}

static void *write_lines(void *argument)
{
    char line[400];
    memset(line, *(const char *)argument, sizeof(line));
    line[sizeof(line) - 1] = '\0';
    for (int i = 0; i < LINES; i++)
        log_write(&everything, LOG_LEVEL_INFO, "%s", line);
    return NULL;
}

/* The letters of one line are all the same, or else a line got into another one. */
static size_t count_whole_lines(char *text)
{
    size_t whole = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        const char *letters = strstr(line, "] ");
        if (letters == NULL)
            continue;
        letters += 2;
        whole += strlen(letters) == 399 && strspn(letters, (char[]){letters[0], '\0'}) == 399;
    }
    return whole;
}

/* Half an escape would take the quote behind it for its own. */
Test(log, a_value_is_spelled_as_in_c_and_cut_between_two_bytes)
{
    static const char odd[] = "a\"\\\n\r\t\x1b\xff\0z";
    static const char spelled[] = "a\\\"\\\\\\n\\r\\t\\x1b\\xff\\x00z";
    static const size_t ends[] = {0, 1, 3, 5, 7, 9, 11, 15, 19, 23, 24};
    char text[sizeof spelled + 8];
    log_value(text, sizeof(text), odd, sizeof(odd) - 1);
    cr_assert_str_eq(text, spelled);
    for (size_t size = 1, whole = 0; size <= sizeof(spelled); size++) {
        while (whole + 1 < sizeof(ends) / sizeof(ends[0]) && ends[whole + 1] < size)
            whole++;
        memset(text, '#', sizeof(text));
        log_value(text, size, odd, sizeof(odd) - 1);
        cr_assert_eq(strlen(text), ends[whole], "%zu bytes: `%s`", size, text);
        cr_assert_eq(memcmp(text, spelled, ends[whole]), 0, "%zu bytes: `%s`", size, text);
        cr_assert_eq(text[size], '#', "%zu bytes: it writes more", size);
    }
}

Test(log, keeps_the_lines_of_threads_apart)
{
    size_t size = 1 << 20;
    char *text = malloc(size);
    char letters[THREADS];
    pthread_t threads[THREADS];
    struct capture capture;
    capture_start(&capture, STDERR_FILENO);
    for (int i = 0; i < THREADS; i++) {
        letters[i] = (char)('a' + i);
        pthread_create(&threads[i], NULL, write_lines, &letters[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    capture_stop(&capture, text, size);
    size_t lines = count_lines(text);
    size_t whole = count_whole_lines(text);
    free(text);
    cr_assert_eq(lines, THREADS * LINES);
    cr_assert_eq(whole, THREADS * LINES, "%zu of %d lines are whole", whole, THREADS * LINES);
}

static void limited(struct log_limit *limit, const struct log *log, int times, char *text,
                    size_t size)
{
    struct capture capture;
    capture_start(&capture, STDERR_FILENO);
    for (int i = 0; i < times; i++)
        log_limited(log, limit, LOG_LEVEL_WARN, "no %s", "descriptors");
    capture_stop(&capture, text, size);
}

Test(log, what_a_peer_can_provoke_comes_once_a_second_with_a_count)
{
    char text[4096];
    char line[128];
    struct log_limit limit = {0};

    limited(&limit, &everything, 1, text, sizeof(text));
    cr_assert_str_eq(text, "prog: warn: [main] no descriptors\n");
    int64_t soon = atomic_load(&limit.next_ms) - clock_ms();
    cr_assert(soon > -60000 && soon <= 1000, "the next line is due in %lld ms", (long long)soon);

    atomic_store(&limit.next_ms, clock_ms() + 1000000);
    limited(&limit, &everything, 1000, text, sizeof(text));
    cr_assert_str_eq(text, "");

    atomic_store(&limit.next_ms, clock_ms());
    limited(&limit, &everything, 1, text, sizeof(text));
    snprintf(line, sizeof(line), "prog: warn: [main] no descriptors left_out=%d\n", 1000);
    cr_assert_str_eq(text, line);

    atomic_store(&limit.next_ms, clock_ms());
    limited(&limit, &everything, 1, text, sizeof(text));
    cr_assert_str_eq(text, "prog: warn: [main] no descriptors\n", "the count starts anew: %s",
                     text);
}

Test(log, a_level_that_is_not_wanted_is_neither_written_nor_counted)
{
    char text[4096];
    struct log quiet = {.program = "prog", .level = LOG_LEVEL_ERROR};
    struct log_limit limit = {0};
    limited(&limit, &quiet, 10, text, sizeof(text));
    cr_assert_str_eq(text, "");
    cr_assert_eq(atomic_load(&limit.left_out), 0);
    cr_assert_eq(atomic_load(&limit.next_ms), 0);
}

/* Two threads that come to the same limit at the same moment, again and again. */
struct race {
    struct log_limit limit;
    atomic_int arrived;
    double slowest; /* round, in seconds */
};

enum {
    RACES = 4000,
};

/* As a barrier, but who waits does not sleep, so that both go on at the same moment. */
static void meet(struct race *race, int arrivals)
{
    atomic_fetch_add(&race->arrived, 1);
    while (atomic_load(&race->arrived) < arrivals)
        sched_yield();
}

static void *race_to_the_limit(void *argument)
{
    struct race *race = argument;
    for (int round = 0; round < RACES; round++) {
        meet(race, 4 * round + 2);
        log_limited(&everything, &race->limit, LOG_LEVEL_WARN, "%s", "together");
        meet(race, 4 * round + 4);
    }
    return NULL;
}

/* Lets the next round begin with a limit that lets one line pass. */
static void start_rounds(struct race *race)
{
    for (int round = 0; round < RACES; round++) {
        double began = test_now();
        meet(race, 4 * round + 2);
        log_limited(&everything, &race->limit, LOG_LEVEL_WARN, "%s", "together");
        while (atomic_load(&race->arrived) < 4 * round + 3)
            sched_yield();
        if (test_now() - began > race->slowest)
            race->slowest = test_now() - began;
        atomic_store(&race->limit.next_ms, 0);
        meet(race, 4 * round + 4);
    }
}

static uint64_t count_left_out(const char *text)
{
    uint64_t left_out = 0;
    static const char key[] = " left_out=";
    for (; (text = strstr(text, key)) != NULL; text++)
        left_out += strtoull(text + strlen(key), NULL, 10);
    return left_out;
}

Test(log, of_two_threads_at_the_same_moment_one_writes_and_the_other_is_counted)
{
    enum { SIZE = 200 * RACES };
    char *text = mapped(SIZE);
    struct race race = {.slowest = 0};
    struct capture capture;
    pthread_t thread;
    capture_start(&capture, STDERR_FILENO);
    pthread_create(&thread, NULL, race_to_the_limit, &race);
    start_rounds(&race);
    pthread_join(thread, NULL);
    capture_stop(&capture, text, SIZE);
    size_t lines = count_lines(text);
    uint64_t counted = count_left_out(text) + atomic_load(&race.limit.left_out);
    cr_assert_eq(lines + counted, 2 * RACES, "%zu lines, %zu left out", lines, (size_t)counted);
    if (race.slowest < 1.0)
        cr_assert_eq(lines, RACES, "%zu lines in %d rounds", lines, RACES);
}

/* What the pipe holds after its filling, as text. */
static void read_log(int fd, char *text, size_t size)
{
    ssize_t length = read(fd, text, size - 1);
    text[length > 0 ? length : 0] = '\0';
}

/* Nobody reads, and there is no room for one line more: nobody waits, and the count is kept. */
Test(log, that_nobody_reads_loses_lines_and_counts_them)
{
    char bytes[4096] = "";
    char text[1024];
    int ends[2];
    int own = dup(STDERR_FILENO);
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof(bytes)) > 0)
        ;
    cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        log_write(&everything, LOG_LEVEL_WARN, "line %d", i);
    cr_assert_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    while (read(ends[0], bytes, sizeof(bytes)) > 0)
        ;
    log_write(&everything, LOG_LEVEL_WARN, "somebody reads");
    read_log(ends[0], text, sizeof(text));
    log_write(&everything, LOG_LEVEL_WARN, "and again");
    read_log(ends[0], bytes, sizeof(bytes));
    dup2(own, STDERR_FILENO);
    cr_assert_not_null(strstr(text, "] somebody reads lost=3\n"), "%s", text);
    cr_assert_not_null(strstr(bytes, "] and again\n"), "it is told once: %s", bytes);
    close(own);
    close(ends[0]);
    close(ends[1]);
}
