/*
 * The counters: exact under many threads, and the line they print.
 */
#include "common/base/counters.h"
#include "helpers.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

TestSuite(counters, .timeout = 120);

enum {
    THREADS = 8,
    RACE_MS = 100, /* many turns on the processor for each thread */
};

static struct counters *no_counts(void)
{
    static struct counters counters;
    return &counters;
}

Test(counters, start_at_zero_add_up_and_can_be_set)
{
    struct counters *counters = no_counts();
    for (int i = 0; i < COUNTERS; i++)
        cr_assert_eq(counters_get(counters, (enum counter)i), 0);
    counters_add(counters, COUNTER_BYTES_IN, 40);
    counters_add(counters, COUNTER_BYTES_IN, 2);
    counters_set(counters, COUNTER_WAKEUPS_ASKED, 7);
    counters_set(counters, COUNTER_WAKEUPS_ASKED, 5);
    for (int i = 0; i < COUNTERS; i++) {
        uint64_t expected = i == COUNTER_BYTES_IN ? 42 : i == COUNTER_WAKEUPS_ASKED ? 5 : 0;
        cr_assert_eq(counters_get(counters, (enum counter)i), expected, "counter %d", i);
    }
}

struct teller {
    struct counters *counters;
    uint64_t rounds;
};

static void *count(void *argument)
{
    struct teller *teller = argument;
    double end = test_now() + RACE_MS / 1000.0;
    while (test_now() < end) {
        for (int i = 0; i < 1000; i++, teller->rounds++) {
            counters_add(teller->counters, COUNTER_MESSAGES, 1);
            counters_add(teller->counters, COUNTER_BYTES_OUT, 3);
        }
    }
    return NULL;
}

Test(counters, lose_nothing_between_threads)
{
    struct counters *counters = no_counts();
    struct teller tellers[THREADS];
    pthread_t threads[THREADS];
    uint64_t rounds = 0;
    for (int i = 0; i < THREADS; i++) {
        tellers[i] = (struct teller){.counters = counters};
        cr_assert_eq(pthread_create(&threads[i], NULL, count, &tellers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        rounds += tellers[i].rounds;
    }
    cr_assert_eq(counters_get(counters, COUNTER_MESSAGES), rounds);
    cr_assert_eq(counters_get(counters, COUNTER_BYTES_OUT), 3 * rounds);
}

static void print(const struct counters *counters, const char *program, char *text, size_t size)
{
    struct capture capture;
    capture_start(&capture, STDERR_FILENO);
    counters_print(counters, program);
    capture_stop(&capture, text, size);
}

Test(counters, of_an_application_come_behind_also_if_they_are_zero)
{
    struct own_counter second = {.name = "calls"}, first = {.name = "lines", .next = &second};
    struct counters *counters = no_counts();
    char text[4096];
    own_counter_add(&first, 2);
    own_counter_add(&first, 40);
    CAPTURED(STDERR_FILENO, text, counters_print_with(counters, &first, "stage9-test"));
    cr_assert_not_null(strstr(text, " lines=42 calls=0\n"), "%s", text);
    print(counters, "stage9-test", text, sizeof(text));
    cr_assert_null(strstr(text, "lines"), "%s", text);
}

Test(counters, print_each_name_with_its_value_on_one_line)
{
    static const struct {
        enum counter counter;
        const char *name;
    } named[] = {
        {COUNTER_ACCEPTED, "accepted"},
        {COUNTER_REJECTED, "rejected"},
        {COUNTER_CLOSED, "closed"},
        {COUNTER_TIMED_OUT, "timed_out"},
        {COUNTER_MESSAGES, "messages"},
        {COUNTER_TOO_LONG, "too_long"},
        {COUNTER_BYTES_IN, "bytes_in"},
        {COUNTER_BYTES_OUT, "bytes_out"},
        {COUNTER_WAKEUPS_ASKED, "wakeups_asked"},
        {COUNTER_WAKEUPS_WRITTEN, "wakeups_written"},
    };
    char text[4096];
    struct counters *counters = no_counts();
    for (int i = 0; i < COUNTERS; i++)
        counters_set(counters, (enum counter)i, 1000 + (uint64_t)i);
    print(counters, "stage9-test", text, sizeof(text));

    cr_assert_eq(strncmp(text, "stage9-test: stats ", 19), 0, "%s", text);
    cr_assert_eq(strchr(text, '\n'), text + strlen(text) - 1, "%s", text);
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        char wanted[64];
        snprintf(wanted, sizeof(wanted), " %s=%d", named[i].name, 1000 + (int)named[i].counter);
        const char *found = strstr(text, wanted);
        cr_assert_not_null(found, "no%s in: %s", wanted, text);
        cr_assert_not_null(strchr(" \n", found[strlen(wanted)]), "%s", text);
    }
}

Test(counters, print_every_counter_there_is_even_at_its_largest)
{
    char text[4096];
    struct counters *counters = no_counts();
    int values = 0;
    for (int i = 0; i < COUNTERS; i++)
        counters_set(counters, (enum counter)i, UINT64_MAX);
    print(counters, "stage9-with-a-rather-long-name-for-a-program", text, sizeof(text));
    for (const char *at = text; (at = strstr(at, "=18446744073709551615")) != NULL; at++)
        values++;
    cr_assert_eq(values, COUNTERS, "%s", text);
    cr_assert_null(strstr(text, "(null)"), "a counter has no name: %s", text);
    cr_assert_eq(text[strlen(text) - 1], '\n');
}
