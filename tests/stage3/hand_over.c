/*
 * How a task gets from a thread that submits to a worker that sleeps: both are held, and let go in
 * an order that could fail. An executor alone, without the stage.
 *
 * Between the section in which a task is promised to a worker, and the signal that wakes one, the
 * lock is free (but not before a policy decides). Most of these tests hold the submitter there,
 * BEFORE_CALL.
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

TestSuite(stage3_hand_over, .timeout = 120);

#define BEFORE_CALL   "executor: before a call"
#define FINDS_NOTHING "worker: finds nothing"
#define JOB_RUNS      "job: runs"

enum { QUIET_MS = 60, LONG = 60000 };

static struct executor executor;

struct job {
    struct task task;
    atomic_int runs;
    atomic_int drops;
    int turn; /* 1: it was the first to run */
};

static struct job jobs[6];

static atomic_int turns;

static void job_run(struct task *task)
{
    struct job *job = (struct job *)task;
    TEST_POINT(JOB_RUNS);
    job->turn = atomic_fetch_add(&turns, 1) + 1;
    atomic_fetch_add(&job->runs, 1);
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

/* ---- a call that is on its way ---- */

/** So many workers, which all sleep; each has run a job. */
static void begin_with_sleepers(size_t count, size_t core, int64_t keep_alive)
{
    begin(core, count, keep_alive);
    for (size_t i = 0; i < count; i++) {
        test_point_hold(JOB_RUNS); /* so that the next one needs a thread of its own */
        cr_assert(executor_submit(&executor, &jobs[i].task));
    }
    test_point_await_held(JOB_RUNS, (int)count);
    for (size_t i = 0; i < count; i++)
        test_point_release(JOB_RUNS);
    await_idle(count);
}

static struct job *again(struct job *job)
{
    *job = (struct job){.task.verbs = &job_verbs};
    return job;
}

/* ---- tests ---- */

/*
 * It has found nothing in the queue, and does not sleep yet. A task that came into the queue now
 * would be for no thread: so a thread that submits waits until the worker can be called.
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
    cr_assert_eq(test_point_count(BEFORE_CALL), 1, "no worker was called for it");
    executor_close(&executor);
}

/*
 * A round of two tasks is one signal. The worker that gets up leaves a task, so it calls the other
 * one, which runs while the first is still busy.
 */
Test(stage3_hand_over, a_worker_that_gets_up_calls_the_next_one)
{
    begin_with_sleepers(2, 2, LONG);
    long calls = test_point_count(BEFORE_CALL);
    test_point_hold(JOB_RUNS);
    test_point_hold(JOB_RUNS);
    again(&jobs[1]);
    again(&jobs[2]);
    submit_two(NULL);
    test_point_await_held(JOB_RUNS, 2);
    cr_assert_eq(test_point_count(BEFORE_CALL), calls + 2);
    test_point_release(JOB_RUNS);
    test_point_release(JOB_RUNS);
    await_idle(2);
    executor_close(&executor);
    expect_runs(&jobs[1], 1);
    expect_runs(&jobs[2], 1);
}

/* Two sleep. To wake the other one would be a system call, or two, for nothing. */
Test(stage3_hand_over, a_task_wakes_one_worker_of_those_that_sleep)
{
    begin_with_sleepers(2, 2, LONG);
    cr_assert_eq(test_point_count(BEFORE_CALL), 0, "a thread that starts was called");
    cr_assert(executor_submit(&executor, &again(&jobs[0])->task));
    cr_assert_eq(test_point_count(BEFORE_CALL), 1);
    await_run(&jobs[0]);
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
 * A task is promised to a worker that sleeps, but another one is done first: the task is for
 * whoever comes first. From then on the sleeper counts as idle again, before any signal. It gets up
 * in vain, and sleeps again, to be called again.
 */
Test(stage3_hand_over, a_worker_that_is_free_takes_what_a_sleeping_one_was_called_for)
{
    pthread_t other;
    begin_with_sleepers(2, 2, LONG);
    test_point_hold(JOB_RUNS);
    cr_assert(executor_submit(&executor, &again(&jobs[0])->task));
    test_point_await_held(JOB_RUNS, 1);
    long calls = test_point_count(BEFORE_CALL);
    test_point_hold(BEFORE_CALL);
    cr_assert_eq(thread_start(&other, submit_second, again(&jobs[1])), 0);
    test_point_await_held(BEFORE_CALL, 1);
    expect_runs(&jobs[1], 0);
    test_point_release(JOB_RUNS);
    await_run(&jobs[1]);
    await_idle(2);
    test_point_release(BEFORE_CALL);
    pthread_join(other, NULL);
    await_idle(2);
    cr_assert_eq(test_point_count(BEFORE_CALL), calls + 1);
    cr_assert(executor_submit(&executor, &jobs[2].task));
    await_run(&jobs[2]);
    cr_assert_eq(test_point_count(BEFORE_CALL), calls + 2);
    executor_close(&executor);
}

static void *submit_three(void *argument)
{
    struct task_list round = {0};
    for (int i = 1; i <= 3; i++)
        task_list_append(&round, &again(&jobs[i])->task);
    executor_submit_all(&executor, &round);
    cr_assert_null(round.first);
    return argument;
}

static void *submit_fifth(void *argument)
{
    cr_assert(executor_submit(&executor, &jobs[4].task));
    return argument;
}

/*
 * Two of three workers sleep: the third task of a round is queued. The busy one takes the first, so
 * somebody who sleeps has no task promised any more. What comes now goes behind the third all the
 * same.
 */
Test(stage3_hand_over, a_task_does_not_pass_one_that_was_queued)
{
    pthread_t three, fifth;
    begin_with_sleepers(3, 3, LONG);
    test_point_hold(JOB_RUNS);
    cr_assert(executor_submit(&executor, &again(&jobs[0])->task));
    test_point_await_held(JOB_RUNS, 1);
    test_point_hold(BEFORE_CALL);
    cr_assert_eq(thread_start(&three, submit_three, NULL), 0);
    test_point_await_held(BEFORE_CALL, 1);
    cr_assert_eq(executor_stats(&executor).waiting, 1);
    test_point_hold(JOB_RUNS);
    test_point_release(JOB_RUNS);
    await_run(&jobs[0]);
    test_point_await_held(JOB_RUNS, 1); /* with the first task of the round */
    test_point_hold(BEFORE_CALL);
    cr_assert_eq(thread_start(&fifth, submit_fifth, NULL), 0);
    test_point_await_held(BEFORE_CALL, 2);
    test_point_release(JOB_RUNS);
    await_run(&jobs[3]);
    await_run(&jobs[4]);
    cr_assert_lt(jobs[3].turn, jobs[4].turn, "it passed the one that was queued before it");
    test_point_release(BEFORE_CALL);
    test_point_release(BEFORE_CALL);
    pthread_join(three, NULL);
    pthread_join(fifth, NULL);
    await_idle(3);
    executor_close(&executor);
}

/*
 * Its time is over when it has been called and the signal is on its way. It finds the task, and
 * only then ends; what is signalled later wakes nobody. If it ended at once, the task would have no
 * thread.
 */
Test(stage3_hand_over, a_worker_that_has_slept_long_enough_takes_what_it_was_called_for)
{
    pthread_t other;
    bool called = false;
    test_point_hold(BEFORE_CALL);
    while (!called) { /* on a busy machine its time may be over before */
        long calls = test_point_count(BEFORE_CALL);
        begin(0, 1, 200);
        cr_assert(executor_submit(&executor, &jobs[0].task));
        while (executor_stats(&executor).idle == 0 && executor_stats(&executor).threads > 0)
            test_pause_ms(1);
        cr_assert_eq(thread_start(&other, submit_second, NULL), 0);
        await_run(&jobs[1]);
        await_idle(0);
        called = test_point_count(BEFORE_CALL) > calls;
        if (called)
            test_point_release(BEFORE_CALL);
        pthread_join(other, NULL);
        executor_close(&executor);
    }
    expect_runs(&jobs[1], 1);
}

/* One of two is called for a task, and then both to end, before that signal: the task comes first.
 */
Test(stage3_hand_over, a_worker_that_is_called_hears_of_the_end)
{
    pthread_t other;
    begin_with_sleepers(2, 2, LONG);
    test_point_hold(BEFORE_CALL);
    cr_assert_eq(thread_start(&other, submit_second, again(&jobs[1])), 0);
    test_point_await_held(BEFORE_CALL, 1);
    executor_shutdown(&executor, false);
    await_run(&jobs[1]);
    await_idle(0);
    test_point_release(BEFORE_CALL);
    pthread_join(other, NULL);
    executor_close(&executor);
    expect_runs(&jobs[1], 1);
}

/*
 * A round has a task for each worker, and its thread stands still before the signal. A task that
 * comes now finds no worker idle; but whoever submits it signals, too, and the worker that gets up
 * calls the next one. So no task waits for a thread that does not run, or for a signal that the C
 * library has lost.
 */
Test(stage3_hand_over, a_worker_that_does_not_come_is_called_again_with_the_next_task)
{
    enum { WORKERS = 2 };
    pthread_t other;
    begin_with_sleepers(WORKERS, WORKERS, LONG);
    test_point_hold(BEFORE_CALL);
    cr_assert_eq(thread_start(&other, submit_two, again(&jobs[1])), 0);
    test_point_await_held(BEFORE_CALL, 1);
    cr_assert_eq(executor_stats(&executor).idle, 0);
    test_pause_ms(QUIET_MS);
    for (int i = 1; i <= WORKERS; i++)
        expect_runs(&jobs[i], 0);
    test_point_hold(JOB_RUNS);
    test_point_hold(JOB_RUNS);
    cr_assert(executor_submit(&executor, &again(&jobs[0])->task));
    test_point_await_held(JOB_RUNS, WORKERS);
    cr_assert_eq(executor_stats(&executor).waiting, 1, "it had to wait for its turn");
    test_point_release(JOB_RUNS);
    test_point_release(JOB_RUNS);
    for (int i = 0; i <= WORKERS; i++)
        await_run(&jobs[i]);
    test_point_release(BEFORE_CALL);
    pthread_join(other, NULL);
    await_idle(WORKERS);
    executor_close(&executor);
    for (int i = 0; i <= WORKERS; i++)
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

/* A worker is called for it, and has not come yet. So the future is over, but not done. */
Test(stage3_hand_over, a_future_that_is_cancelled_before_the_call_does_not_run)
{
    pthread_t other;
    begin_with_sleepers(1, 1, LONG);
    future_task_init(&future, NULL, count_call, count_done);
    test_point_hold(BEFORE_CALL);
    cr_assert_eq(thread_start(&other, submit_future, NULL), 0);
    test_point_await_held(BEFORE_CALL, 1);
    cr_assert(future_task_cancel(&future), "it has not begun");
    cr_assert(future_task_is_over(&future));
    cr_assert_eq(atomic_load(&dones), 0, "the executor still has it");
    test_point_release(BEFORE_CALL);
    pthread_join(other, NULL);
    executor_close(&executor);
    cr_assert_eq(atomic_load(&calls), 0, "it ran");
    cr_assert_eq(atomic_load(&dones), 1);
}
