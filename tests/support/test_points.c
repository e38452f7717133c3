/*
 * Points at which a test holds threads: see test_points.h.
 */
#define TEST_POINTS
#include "test_points.h"

#include "common/base/clock.h"
#include "common/base/lock.h"
#include "common/base/test_point.h"
#include "deadline.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { POINTS_MAX = 16 };

struct point {
    const char *name;
    atomic_long count;
    atomic_int visitor;
    atomic_int wanted; /* so many of the next visitors are to be held */
    long held;         /* so far; under the lock */
    long released;     /* so far; under the lock */
};

static struct point points[POINTS_MAX];
static atomic_int known;
static struct mutex lock = {PTHREAD_MUTEX_INITIALIZER};
static struct condition changed; /* some held or released */

static struct point *find(const char *name)
{
    int count = atomic_load_explicit(&known, memory_order_acquire);
    for (int i = 0; i < count; i++) {
        if (strcmp(points[i].name, name) == 0) {
            return &points[i];
        }
    }
    return NULL;
}

/** The point of that name, from now on known. The main thread only. */
static struct point *point_named(const char *name)
{
    struct point *point = find(name);
    int count = atomic_load(&known);
    if (point) {
        return point;
    }
    cr_assert_lt(count, POINTS_MAX, "more than %d test points", POINTS_MAX);
    if (count == 0) {
        condition_init(&changed);
    }
    points[count].name = name;
    atomic_store_explicit(&known, count + 1, memory_order_release);
    return &points[count];
}

/* ---- the threads' side ---- */

static bool is_to_be_held(struct point *point)
{
    int wanted = atomic_load_explicit(&point->wanted, memory_order_relaxed);
    while (wanted > 0) {
        if (atomic_compare_exchange_weak(&point->wanted, &wanted, wanted - 1)) {
            return true;
        }
    }
    return false;
}

static void stay(struct point *point)
{
    int64_t end = clock_ms() + (int64_t)TEST_POINT_DEADLINES * test_deadline_ms();
    bool in_time = true;
    mutex_lock(&lock);
    long ticket = point->held++;
    condition_broadcast(&changed);
    while (point->released <= ticket && in_time) {
        in_time = condition_wait_until(&changed, &lock, end);
    }
    mutex_unlock(&lock);
}

void test_point(const char *name, const char *function, const char *file, int line)
{
    (void)function, (void)file, (void)line; /* for those who look on: tests/slow */
    struct point *point = find(name);
    if (!point) {
        return;
    }
    atomic_store_explicit(&point->visitor, gettid(), memory_order_relaxed);
    atomic_fetch_add_explicit(&point->count, 1, memory_order_relaxed);
    if (is_to_be_held(point)) {
        stay(point);
    }
}

/* ---- the test's side ---- */

void test_point_hold(const char *name)
{
    atomic_fetch_add(&point_named(name)->wanted, 1);
}

void test_point_await_held_at(const char *where, const char *name, int count)
{
    struct point *point = point_named(name);
    int64_t end = clock_ms() + test_deadline_ms();
    bool in_time = true;
    mutex_lock(&lock);
    while (point->held - point->released < count && in_time) {
        in_time = condition_wait_until(&changed, &lock, end);
    }
    long held = point->held - point->released;
    mutex_unlock(&lock);
    cr_assert_geq(held, count, "%s: waited %d ms for %d threads at \"%s\"; there are %ld", where,
                  test_deadline_ms(), count, name, held);
}

void test_point_release_at(const char *where, const char *name)
{
    struct point *point = point_named(name);
    mutex_lock(&lock);
    bool somebody = point->held > point->released;
    if (somebody) {
        point->released++;
    }
    condition_broadcast(&changed);
    mutex_unlock(&lock);
    cr_assert(somebody, "%s: no thread is held at \"%s\"", where, name);
}

long test_point_count(const char *name)
{
    return atomic_load_explicit(&point_named(name)->count, memory_order_relaxed);
}

void test_point_await_count_at(const char *where, const char *name, long least)
{
    double end = test_deadline();
    while (test_point_count(name) < least && test_left_ms(end) > 0) {
        test_pause_ms(1); /* an event would put the threads in order */
    }
    cr_assert_geq(test_point_count(name), least,
                  "%s: waited %d ms for threads to come to \"%s\" %ld times; they came %ld times",
                  where, test_deadline_ms(), name, least, test_point_count(name));
}

void test_point_expect_no_more_at(const char *where, const char *name, long most, int milliseconds)
{
    double end = test_now() + milliseconds / 1000.0;
    while (test_point_count(name) <= most && test_left_ms(end) > 0) {
        test_pause_ms(1);
    }
    cr_assert_leq(test_point_count(name), most,
                  "%s: threads came to \"%s\" %ld times, and not more than %ld times was expected",
                  where, name, test_point_count(name), most);
}

pid_t test_point_visitor(const char *name)
{
    return atomic_load_explicit(&point_named(name)->visitor, memory_order_relaxed);
}
