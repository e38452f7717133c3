/*
 * How a task gets from a thread that submits to a worker that sleeps: both threads are held where
 * it matters, and let go in the order that could go wrong. An executor alone, without the stage.
 */
#define TEST_POINTS /* for the jobs, which are held, too */
#include "common/base/test_point.h"
#include "common/base/thread.h"
#include "common/workers/executor.h"
#include "common/workers/future_task.h"
#include "support/deadline.h"
#include "support/test_points.h"

#include <criterion/criterion.h>
#include <stdatomic.h>

TestSuite(stage3_hand_over, .timeout = 60);

#define BEFORE_CALL    "executor: before a call"
#define FINDS_NOTHING  "worker: finds nothing"
#define ABOUT_TO_SLEEP "worker: about to sleep"
#define SLEPT_ENOUGH   "worker: has slept long enough"
#define JOB_RUNS       "job: runs"

enum { QUIET_MS = 60, LONG = 60000 };

static struct executor executor;

struct job {
    struct task task;
    atomic_int runs;
    atomic_int drops;
};

static struct job jobs[6];

static void job_run(struct task *task)
{
    TEST_POINT(JOB_RUNS);
    atomic_fetch_add(&((struct job *)task)->runs, 1);
}

static void job_dropped(struct task *task)
{
    atomic_fetch_add(&((struct job *)task)->drops, 1);
}

static const struct task_verbs job_verbs = {job_run, job_dropped};

static void begin(size_t core, size_t max, int64_t keep_alive)
{
    struct executor_settings settings = {.core = core,
                                         .max = max,
                                         .keep_alive = keep_alive,
                                         .queue_kind = &task_queue_unbounded,
                                         .policy = &saturation_abort};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        jobs[i] = (struct job){.task.verbs = &job_verbs};
    test_point_count(BEFORE_CALL);
    executor_open(&executor, &settings);
}

static void expect_runs(const struct job *job, int runs)
{
    cr_assert_eq(atomic_load(&job->runs), runs, "job %d ran %d times, and not %d",
                 (int)(job - jobs), atomic_load(&job->runs), runs);
    cr_assert_eq(atomic_load(&job->drops), 0);
}

static void await_run(const struct job *job)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (atomic_load(&job->runs) == 0 && test_left_ms(end) > 0)
        test_pause_ms(1);
    expect_runs(job, 1);
}

/** Waits until so many threads sleep, and there are no others. */
static void await_idle(size_t count)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    struct executor_stats stats;
    do {
        test_pause_ms(1);
        stats = executor_stats(&executor);
    } while ((stats.idle != count || stats.threads != count) && test_left_ms(end) > 0);
    cr_assert(stats.idle == count && stats.threads == count, "%zu threads, of which %zu sleep",
              stats.threads, stats.idle);
}

static void count_worker(void *count, struct executor_place *place)
{
    (void)place;
    ++*(int *)count;
}

/** Whether no thread holds the executor's lock. */
static bool is_free(void)
{
    int workers = 0;
    executor_try_look(&executor, count_worker, &workers);
    return workers > 0;
}

/* ---- another thread ---- */

static void *submit_second(void *argument)
{
    cr_assert(executor_submit(&executor, &jobs[1].task));
    return argument;
}

static void *submit_two(void *argument)
{
    struct task_list round = {0};
    task_list_append(&round, &jobs[1].task);
    task_list_append(&round, &jobs[2].task);
    executor_submit_all(&executor, &round);
    cr_assert_null(round.first);
    return argument;
}

static void *shut_down(void *argument)
{
    executor_shutdown(&executor, false);
    return argument;
}

/** A worker that has slept long enough, has not taken the lock yet, and is in `idle`. */
static void begin_with_worker_that_slept(void)
{
    begin(0, 1, 1);
    test_point_hold(SLEPT_ENOUGH);
    cr_assert(executor_submit(&executor, &jobs[0].task));
    test_point_await_held(SLEPT_ENOUGH, 1);
    expect_runs(&jobs[0], 1);
}

/* ---- tests ---- */

/*
 * It has found nothing in the queue, and is not in `idle` yet. A task that came into the queue now
 * would be for no thread: so a thread that submits waits until the worker is there.
 */
Test(stage3_hand_over, a_task_that_comes_while_the_last_worker_decides_to_sleep_waits_for_that)
{
    pthread_t other;
    begin(1, 1, LONG);
    test_point_hold(FINDS_NOTHING);
    cr_assert(executor_submit(&executor, &jobs[0].task));
    test_point_await_held(FINDS_NOTHING, 1);
    expect_runs(&jobs[0], 1);
    cr_assert_not(is_free(), "another task can come between the look and the sleep");
    cr_assert_eq(thread_start(&other, submit_second, NULL), 0);
    test_point_release(FINDS_NOTHING);
    await_run(&jobs[1]);
    pthread_join(other, NULL);
    await_idle(1);
    cr_assert_eq(test_point_count(BEFORE_CALL), 1, "it was queued, and not handed over");
    executor_close(&executor);
}

/** The only worker, a spare one if core is 0, is in `idle` and does not sleep yet. */
static void hand_over_to_one_that_is_about_to_sleep(size_t core)
{
    begin(core, 1, LONG);
    long calls = test_point_count(BEFORE_CALL);
    test_point_hold(ABOUT_TO_SLEEP);
    cr_assert(executor_submit(&executor, &jobs[0].task));
    test_point_await_held(ABOUT_TO_SLEEP, 1);
    expect_runs(&jobs[0], 1);
    cr_assert(is_free(), "it sleeps with the lock");
    cr_assert(executor_submit(&executor, &jobs[1].task));
    cr_assert_eq(executor_stats(&executor).waiting, 0, "it was queued, and not handed over");
    cr_assert_eq(test_point_count(BEFORE_CALL), calls + 1);
    expect_runs(&jobs[1], 0);
    test_point_release(ABOUT_TO_SLEEP);
    await_run(&jobs[1]);
    await_idle(1);
    executor_close(&executor);
}

/* It gets its task and its call before it sleeps, and so does not. */
Test(stage3_hand_over, a_task_that_comes_when_the_last_worker_has_decided_to_sleep_is_not_lost)
{
    hand_over_to_one_that_is_about_to_sleep(1);
    hand_over_to_one_that_is_about_to_sleep(0);
}

/* Two sleep. To wake the other one would be a system call, or two, for nothing. */
Test(stage3_hand_over, a_task_wakes_one_worker_of_those_that_sleep)
{
    enum { WORKERS = 2 };
    begin(WORKERS, WORKERS, LONG);
    for (int i = 0; i < WORKERS; i++)
        cr_assert(executor_submit(&executor, &jobs[i].task)); /* each starts a thread */
    await_idle(WORKERS);
    cr_assert_eq(test_point_count(BEFORE_CALL), 0);
    cr_assert(executor_submit(&executor, &jobs[WORKERS].task));
    cr_assert_eq(test_point_count(BEFORE_CALL), 1);
    await_run(&jobs[WORKERS]);
    executor_close(&executor);
}

/*
 * Two workers, of which one gets a slow task and the other is free soon. A worker that took several
 * tasks at once would keep those behind the slow one.
 */
Test(stage3_hand_over, what_is_behind_a_slow_task_does_not_wait_while_another_worker_is_free)
{
    enum { WORKERS = 2, SLOW = 2, JOBS = 6 };
    struct task_list round = {0};
    begin(WORKERS, WORKERS, LONG);
    for (int i = 0; i < WORKERS; i++) {
        test_point_hold(JOB_RUNS);
        cr_assert(executor_submit(&executor, &jobs[i].task));
    }
    test_point_await_held(JOB_RUNS, WORKERS);
    test_point_hold(JOB_RUNS); /* the slow one, which is the next */
    for (int i = SLOW; i < JOBS; i++)
        task_list_append(&round, &jobs[i].task);
    executor_submit_all(&executor, &round);
    cr_assert_eq(executor_stats(&executor).waiting, JOBS - WORKERS);
    test_point_release(JOB_RUNS);
    test_point_await_held(JOB_RUNS, WORKERS); /* one of the first two, and the slow one */
    test_point_release(JOB_RUNS);
    for (int i = SLOW + 1; i < JOBS; i++)
        await_run(&jobs[i]);
    expect_runs(&jobs[SLOW], 0);
    test_point_release(JOB_RUNS);
    await_run(&jobs[SLOW]);
    await_idle(WORKERS);
    executor_close(&executor);
}

/*
 * It has its task, and its call is on the way. If it did not wait for the call, it would find the
 * task, run it, end, and its semaphore with it, which the other thread is about to post to.
 */
Test(stage3_hand_over, a_worker_that_has_slept_long_enough_waits_for_its_call)
{
    pthread_t other;
    begin_with_worker_that_slept();
    test_point_hold(BEFORE_CALL);
    cr_assert_eq(thread_start(&other, submit_second, NULL), 0);
    test_point_await_held(BEFORE_CALL, 1);
    test_point_release(SLEPT_ENOUGH);
    test_pause_ms(QUIET_MS);
    expect_runs(&jobs[1], 0);
    cr_assert_eq(executor_stats(&executor).threads, 1, "it has ended before its call");
    test_point_release(BEFORE_CALL);
    await_run(&jobs[1]);
    pthread_join(other, NULL);
    executor_close(&executor);
    expect_runs(&jobs[1], 1);
}

/* The same, but it is called to end. */
Test(stage3_hand_over, a_worker_that_has_slept_long_enough_hears_of_the_end)
{
    pthread_t other;
    begin_with_worker_that_slept();
    test_point_hold(BEFORE_CALL);
    cr_assert_eq(thread_start(&other, shut_down, NULL), 0);
    test_point_await_held(BEFORE_CALL, 1);
    test_point_release(SLEPT_ENOUGH);
    test_pause_ms(QUIET_MS);
    cr_assert_eq(executor_stats(&executor).threads, 1, "it has ended before its call");
    test_point_release(BEFORE_CALL);
    pthread_join(other, NULL);
    executor_close(&executor);
}

/* It has called itself, so nobody hands it a task; but it looks into the queue before it ends. */
Test(stage3_hand_over, a_worker_that_gets_up_by_itself_finds_what_was_queued_meanwhile)
{
    begin(0, 1, 1);
    test_point_hold(BEFORE_CALL);
    cr_assert(executor_submit(&executor, &jobs[0].task));
    test_point_await_held(BEFORE_CALL, 1); /* by the worker itself */
    cr_assert(executor_submit(&executor, &jobs[1].task));
    cr_assert_eq(executor_stats(&executor).waiting, 1, "it was handed to a worker that gets up");
    expect_runs(&jobs[1], 0);
    test_point_release(BEFORE_CALL);
    await_run(&jobs[1]);
    cr_assert_eq(executor_stats(&executor).max_threads, 1);
    executor_close(&executor);
}

/*
 * A round's tasks are handed over, and its thread has released the lock. What another thread
 * submits now is for nobody who is about to be called, and that thread calls nobody.
 */
Test(stage3_hand_over, a_task_between_hand_over_and_call_waits_its_turn)
{
    enum { WORKERS = 2 };
    pthread_t other;
    begin(WORKERS, WORKERS, LONG);
    cr_assert(executor_submit(&executor, &jobs[0].task));
    await_run(&jobs[0]);
    cr_assert(executor_submit(&executor, &jobs[3].task)); /* starts the second one */
    await_run(&jobs[3]);
    await_idle(WORKERS);
    long calls = test_point_count(BEFORE_CALL);
    test_point_hold(BEFORE_CALL);
    cr_assert_eq(thread_start(&other, submit_two, NULL), 0);
    test_point_await_held(BEFORE_CALL, 1);
    jobs[0] = (struct job){.task.verbs = &job_verbs};
    cr_assert(executor_submit(&executor, &jobs[0].task));
    cr_assert_eq(executor_stats(&executor).waiting, 1);
    cr_assert_eq(executor_stats(&executor).idle, 0);
    test_point_expect_no_more(BEFORE_CALL, calls + 1, QUIET_MS);
    for (int i = 0; i < 3; i++)
        expect_runs(&jobs[i], 0);
    test_point_release(BEFORE_CALL);
    for (int i = 0; i < 3; i++)
        await_run(&jobs[i]);
    pthread_join(other, NULL);
    await_idle(WORKERS);
    cr_assert_eq(test_point_count(BEFORE_CALL), calls + WORKERS, "one call for each");
    executor_close(&executor);
    for (int i = 0; i < 4; i++)
        expect_runs(&jobs[i], 1);
}

/* ---- a future ---- */

static struct future_task future;
static atomic_int calls, dones;

static int count_call(struct future_task *self)
{
    (void)self;
    return atomic_fetch_add(&calls, 1);
}

static void count_done(struct future_task *self)
{
    (void)self;
    atomic_fetch_add(&dones, 1);
}

static void *submit_future(void *argument)
{
    cr_assert(executor_submit(&executor, &future.task));
    return argument;
}

/* A worker has it, and has not been called yet. So the queue cannot be asked for it any more. */
Test(stage3_hand_over, a_future_that_is_cancelled_between_hand_over_and_call_does_not_run)
{
    pthread_t other;
    begin(1, 1, LONG);
    cr_assert(executor_submit(&executor, &jobs[0].task));
    await_run(&jobs[0]);
    await_idle(1);
    future_task_init(&future, NULL, count_call, count_done);
    test_point_hold(BEFORE_CALL);
    cr_assert_eq(thread_start(&other, submit_future, NULL), 0);
    test_point_await_held(BEFORE_CALL, 1);
    cr_assert(future_task_cancel(&future), "it has not begun");
    cr_assert(future_task_is_over(&future));
    cr_assert_eq(atomic_load(&dones), 0, "its worker still has it");
    test_point_release(BEFORE_CALL);
    pthread_join(other, NULL);
    executor_close(&executor);
    cr_assert_eq(atomic_load(&calls), 0, "it ran");
    cr_assert_eq(atomic_load(&dones), 1);
}
