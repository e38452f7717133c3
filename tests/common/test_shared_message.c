/*
 * Shared messages: the count of references, and that the last one frees.
 *
 * What several queues do with one message stands with the output queue. That nothing is freed too
 * early or never is what the address and thread sanitizers see in these tests.
 */
#include "common/bytes/shared_message.h"
#include "helpers.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

TestSuite(shared_message, .timeout = 120);

enum {
    THREADS = 8,
    RACE_MS = 100, /* many turns on the processor for each thread */
};

Test(shared_message, has_one_reference_and_room_for_its_bytes)
{
    struct shared_message *message = shared_message_create(100000);
    cr_assert_not_null(message);
    cr_assert_eq(message->length, 100000);
    cr_assert_eq(atomic_load(&message->references), 1);
    memset(message->data, 'x', message->length);
    shared_message_release(message);
}

Test(shared_message, may_be_empty)
{
    struct shared_message *message = shared_message_create(0);
    cr_assert_not_null(message);
    cr_assert_eq(message->length, 0);
    shared_message_release(message);
}

Test(shared_message, counts_what_is_taken_and_given_back)
{
    struct shared_message *message = shared_message_create(1);
    shared_message_retain(message);
    shared_message_retain(message);
    cr_assert_eq(atomic_load(&message->references), 3);
    shared_message_release(message);
    cr_assert_eq(atomic_load(&message->references), 2);
    shared_message_release(message);
    cr_assert_eq(atomic_load(&message->references), 1);
    shared_message_release(message);
}

static void *retain_and_release(void *argument)
{
    struct shared_message *message = argument;
    double end = test_now() + RACE_MS / 1000.0;
    while (test_now() < end) {
        for (int i = 0; i < 1000; i++) {
            shared_message_retain(message);
            shared_message_release(message);
        }
    }
    return NULL;
}

/* One reference too few would free the message under the others. */
Test(shared_message, loses_no_count_between_threads)
{
    struct shared_message *message = shared_message_create(1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, retain_and_release, message), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(atomic_load(&message->references), 1);
    shared_message_release(message);
}

struct reader {
    struct shared_message *message;
    size_t sum;
};

static void *read_and_release(void *argument)
{
    struct reader *reader = argument;
    for (size_t i = 0; i < reader->message->length; i++)
        reader->sum += reader->message->data[i];
    shared_message_release(reader->message);
    return NULL;
}

Test(shared_message, is_freed_by_whoever_comes_last_and_not_before)
{
    struct reader readers[THREADS];
    pthread_t threads[THREADS];
    for (int round = 0; round < 20; round++) {
        struct shared_message *message = shared_message_create(1000);
        memset(message->data, 1, message->length);
        for (int i = 0; i < THREADS; i++) {
            shared_message_retain(message);
            readers[i] = (struct reader){.message = message};
            cr_assert_eq(pthread_create(&threads[i], NULL, read_and_release, &readers[i]), 0);
        }
        shared_message_release(message);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            cr_assert_eq(readers[i].sum, 1000, "round %d", round);
        }
    }
}

Test(no_memory, shared_message_is_not_made)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    memory_take_all();
    struct shared_message *message = shared_message_create(100);
    memory_give_back();
    cr_assert_null(message);
}
