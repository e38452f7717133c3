/*
 * Tests with something that is opened before their body and closed behind it: a server, a queue.
 *
 * A check in a Criterion .fini cannot fail a test, so what closes stands in the test itself.
 */
#ifndef TESTS_WITH_H
#define TESTS_WITH_H

#include <criterion/criterion.h>

/**
 * A test whose body has `what`, a pointer to a `type`. `begins` makes it, `ends` is the last thing
 * in the test; both may use the pointer. A suite calls this by a macro of its own:
 *
 *     #define QueueTest(name, size) \
 *         TestWith(queue, name, struct queue, queue, queue_open(queue, size), queue_close(queue))
 *     QueueTest(is_empty_at_first, 10)
 *     {
 *         cr_assert(queue_is_empty(queue));
 *     }
 *
 * Threads that still run when the body returns, until `ends`, may use nothing of the body's own.
 */
#define TestWith(suite, name, type, what, begins, ends)                                            \
    static void suite##_##name##_with(type *what);                                                 \
    Test(suite, name)                                                                              \
    {                                                                                              \
        type of_test;                                                                              \
        type *what = &of_test;                                                                     \
        begins;                                                                                    \
        suite##_##name##_with(what);                                                               \
        ends;                                                                                      \
    }                                                                                              \
    static void suite##_##name##_with(type *what __attribute__((unused)))

#endif
