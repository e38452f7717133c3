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
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(thread, .timeout = 120);

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
    WAIT_FOR(atomic_load(flag));
    return atomic_load(flag);
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
    thread_name(name);
    cr_assert_str_eq(name, "main");
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
    thread_set_name("%s", "");
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

/* Without an order between the two threads, so that ThreadSanitizer sees what they share. */
static atomic_bool has_read_its_name;
static atomic_bool may_end;

static void *read_name_and_stay(void *argument)
{
    take_name(argument);
    atomic_store_explicit(&has_read_its_name, true, memory_order_relaxed);
    while (!atomic_load_explicit(&may_end, memory_order_relaxed)) {
        sched_yield();
    }
    return NULL;
}

/* The one that comes after it in the list changes its link. */
Test(thread, reads_its_name_without_the_lists_lock)
{
    char names[2][THREAD_NAME_SIZE];
    pthread_t threads[2];
    double end = test_deadline();
    cr_assert_eq(thread_start(&threads[0], read_name_and_stay, names[0]), 0);
    while (!atomic_load_explicit(&has_read_its_name, memory_order_relaxed)) {
        cr_assert_gt(test_left_ms(end), 0);
        sched_yield();
    }
    cr_assert_eq(thread_start(&threads[1], take_name, names[1]), 0);
    pthread_join(threads[1], NULL);
    atomic_store_explicit(&may_end, true, memory_order_relaxed);
    pthread_join(threads[0], NULL);
    cr_assert_str_eq(names[0], "another");
    cr_assert_str_eq(names[1], "another");
}

/* ---- Signals ---- */

static void *take_mask(void *mask)
{
    pthread_sigmask(SIG_BLOCK, NULL, mask);
    return NULL;
}

/* Only main takes them: whichever thread took SIGTERM could be one that is just ending. */
Test(thread, takes_none_of_the_signals_that_the_program_handles)
{
    static const int handled[] = {SIGTERM, SIGINT, SIGUSR1, SIGALRM};
    pthread_t thread;
    sigset_t there;
    sigset_t here;
    sigemptyset(&there);
    cr_assert_eq(thread_start(&thread, take_mask, &there), 0);
    pthread_join(thread, NULL);
    take_mask(&here);
    for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++) {
        cr_assert(sigismember(&there, handled[i]), "it takes %s", strsignal(handled[i]));
        cr_assert_not(sigismember(&here, handled[i]), "main does not: %s", strsignal(handled[i]));
    }
    cr_assert_not(sigismember(&there, SIGSEGV), "what a thread does wrong is its own");
}

/* ---- The list ---- */

struct resident {
    const char *name;
    pthread_t thread;
    atomic_bool named;
    atomic_bool goes;
};

static void *reside(void *argument)
{
    struct resident *resident = argument;
    thread_set_name("%s", resident->name);
    atomic_store(&resident->named, true);
    await_flag(&resident->goes);
    return NULL;
}

static void move_in(struct resident *resident, const char *name)
{
    *resident = (struct resident){.name = name};
    cr_assert_eq(thread_start(&resident->thread, reside, resident), 0);
    cr_assert(await_flag(&resident->named));
}

static void move_out(struct resident *resident)
{
    atomic_store(&resident->goes, true);
    pthread_join(resident->thread, NULL);
}

static void expect_list(const char *expected)
{
    char text[200];
    size_t length = thread_list(text, sizeof(text));
    cr_assert_str_eq(text, expected, "got \"%s\"", text);
    cr_assert_eq(length, strlen(expected));
}

Test(thread, that_has_a_name_is_listed_until_it_ends)
{
    struct resident first;
    struct resident second;
    expect_list("");
    move_in(&first, "dispatcher");
    expect_list("dispatcher");
    move_in(&second, "worker 12");
    expect_list("dispatcher, worker 12");
    move_out(&first);
    expect_list("worker 12");
    move_out(&second);
    expect_list("");
}

static void *take_two_names(void *unused)
{
    thread_set_name("worker %d", 1);
    thread_set_name("worker %d", 2);
    expect_list("worker 2");
    return unused;
}

Test(thread, with_a_second_name_is_listed_once)
{
    pthread_t thread;
    cr_assert_eq(thread_start(&thread, take_two_names, NULL), 0);
    pthread_join(thread, NULL);
    expect_list("");
}

Test(thread, threads_of_one_name_are_counted)
{
    struct resident residents[4];
    for (int i = 0; i < 4; i++)
        move_in(&residents[i], i < 3 ? "handler" : "pool");
    expect_list("handler (3 of them), pool");
    for (int i = 0; i < 4; i++)
        move_out(&residents[i]);
}

/* Its size is the caller's, and there may be ten thousand threads. */
Test(thread, list_is_cut_between_two_names)
{
    enum { MANY = 20, SIZE = 100 };
    static struct resident residents[MANY];
    char names[MANY][THREAD_NAME_SIZE];
    char text[SIZE + 1];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "worker %d", i + 1);
        move_in(&residents[i], names[i]);
    }
    memset(text, '#', sizeof(text));
    size_t length = thread_list(text, SIZE);
    cr_assert_eq(length, strlen(text));
    cr_assert_eq(text[SIZE], '#', "it wrote past the end");
    cr_assert_eq(strncmp(text, "worker 1, worker 2, ", 20), 0, "%s", text);
    cr_assert_str_eq(text + length - 5, ", ...", "%s", text);
    for (int i = 0; i < MANY; i++)
        move_out(&residents[i]);
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
