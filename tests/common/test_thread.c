/*
 * Starting threads: the stack, the name, threads that nobody joins, and none to be had.
 */
#include "common/base/thread.h"
#include "helpers.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(thread, .timeout = 60);

static void *hand_back(void *argument)
{
    return argument;
}

Test(thread, runs_its_function_with_its_argument)
{
    pthread_t thread;
    int value;
    void *result = NULL;
    cr_assert_eq(thread_start(&thread, hand_back, &value), 0);
    cr_assert_eq(pthread_join(thread, &result), 0);
    cr_assert_eq(result, &value);
}

static void *raise_flag(void *argument)
{
    atomic_store((atomic_bool *)argument, true);
    return NULL;
}

static bool await_flag(const atomic_bool *flag)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (!atomic_load(flag)) {
        if (test_left_ms(end) == 0)
            return false;
        sched_yield();
    }
    return true;
}

Test(thread, that_nobody_joins_goes_away_by_itself)
{
    static atomic_bool ran;
    long before = probe_own_threads(getpid());
    cr_assert_eq(thread_start(NULL, raise_flag, &ran), 0);
    cr_assert(await_flag(&ran));
    cr_assert(probe_await_own_threads(getpid(), before), "its thread is still there");
}

/* A thread that could still be joined would keep its stack forever. */
Test(thread, that_nobody_joins_leaves_nothing_behind)
{
    enum { MANY = 500 };
    static atomic_bool ran[MANY];
    long before = probe_virtual_kib(getpid());
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(thread_start(NULL, raise_flag, &ran[i]), 0);
        cr_assert(await_flag(&ran[i]));
    }
    long more = probe_virtual_kib(getpid()) - before;
    if (!probe_sanitized())
        cr_assert_lt(more, MANY * (THREAD_STACK_SIZE / 1024) / 2, "%ld KiB more", more);
}

#ifdef __GLIBC__
static void *own_stack_size(void *argument)
{
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstacksize(&attributes, argument);
    pthread_attr_destroy(&attributes);
    return NULL;
}

Test(thread, has_a_small_stack)
{
    pthread_t thread;
    size_t size = 0;
    cr_assert_eq(thread_start(&thread, own_stack_size, &size), 0);
    pthread_join(thread, NULL);
    cr_assert_geq(size, THREAD_STACK_SIZE);
    if (!probe_sanitized()) /* a sanitizer makes it larger */
        cr_assert_leq(size, THREAD_STACK_SIZE + 64 * 1024, "%zu bytes", size);
}
#endif

/* Half of the stack is the function's to use; a guard page or a crash would end the test. */
static void *use_stack(void *argument)
{
    volatile unsigned char used[THREAD_STACK_SIZE / 2];
    for (size_t i = 0; i < sizeof(used); i += 512)
        used[i] = 1;
    return used[512] == 1 ? argument : NULL;
}

Test(thread, can_use_its_stack)
{
    pthread_t thread;
    void *result;
    int value;
    cr_assert_eq(thread_start(&thread, use_stack, &value), 0);
    pthread_join(thread, &result);
    cr_assert_eq(result, &value);
}

Test(thread, has_a_name_of_its_own)
{
    char name[THREAD_NAME_SIZE];
    thread_set_name("dispatcher-1");
    thread_name(name);
    cr_assert_str_eq(name, "dispatcher-1");
}

Test(thread, cuts_a_name_that_is_too_long)
{
    char name[THREAD_NAME_SIZE];
    thread_set_name("123456789012345");
    thread_name(name);
    cr_assert_str_eq(name, "123456789012345");
    thread_set_name("abcdefghijklmnopqrstuvwxyz");
    thread_name(name);
    cr_assert_str_eq(name, "abcdefghijklmno");
    thread_set_name("");
    thread_name(name);
    cr_assert_str_eq(name, "");
}

static void *take_name(void *argument)
{
    thread_set_name("another");
    thread_name(argument);
    return NULL;
}

Test(thread, names_are_the_threads_own)
{
    char here[THREAD_NAME_SIZE];
    char there[THREAD_NAME_SIZE];
    pthread_t thread;
    thread_set_name("one");
    cr_assert_eq(thread_start(&thread, take_name, there), 0);
    pthread_join(thread, NULL);
    thread_name(here);
    cr_assert_str_eq(here, "one");
    cr_assert_str_eq(there, "another");
}

Test(no_memory, thread_that_has_no_room_is_an_error_and_no_abort)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    pthread_t thread;
    atomic_bool ran = false;
    long before = probe_own_threads(getpid());
    memory_take_all();
    int error = thread_start(&thread, raise_flag, &ran);
    int unjoined = thread_start(NULL, raise_flag, &ran);
    memory_give_back();
    cr_assert(error == EAGAIN || error == ENOMEM, "%s", strerror(error));
    cr_assert(unjoined == EAGAIN || unjoined == ENOMEM, "%s", strerror(unjoined));
    cr_assert_eq(probe_own_threads(getpid()), before);
    cr_assert_not(atomic_load(&ran));

    cr_assert_eq(thread_start(&thread, raise_flag, &ran), 0, "there is room again");
    pthread_join(thread, NULL);
    cr_assert(atomic_load(&ran));
}
