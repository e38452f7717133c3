/*
 * Futures: run once, with a result or an error; cancelled before the start or not at all; done is
 * the last thing that happens to one.
 */
#include "common/base/clock.h"
#include "common/base/thread.h"
#include "common/workers/executor.h"
#include "common/workers/future_task.h"
#include "support/deadline.h"
#include "support/mapped.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(future_task, .timeout = 120);

/* A future, and what became of it. */
struct errand {
    struct future_task future;
    int outcome; /* what its call returns */
    atomic_int calls;
    atomic_int dones;
    atomic_int thread;     /* that called done */
    atomic_bool was_over;  /* as seen by done */
    atomic_bool is_inside; /* the call waits to be let go on */
    atomic_bool let;
    bool waits; /* whether it does so at all */
};

/* All futures of a test share a monitor; one worker runs them, in order. */
struct office {
    struct future_monitor monitor;
    struct executor executor;
    struct errand errand; /* the test's; not submitted yet */
    struct errand busy;   /* inside its call, where the worker is kept busy */
};

static int64_t deadline(void)
{
    return clock_ms() + test_deadline_ms();
}

static bool await_flag(atomic_bool *flag)
{
    WAIT_FOR(atomic_load(flag));
    return atomic_load(flag);
}

static void expect_calls(struct errand *errand, int calls, int dones)
{
    WAIT_FOR(atomic_load(&errand->dones) >= dones);
    cr_assert_eq(atomic_load(&errand->calls), calls, "called %d times", errand->calls);
    cr_assert_eq(atomic_load(&errand->dones), dones, "done %d times", errand->dones);
}

static int errand_call(struct future_task *future)
{
    struct errand *errand = (struct errand *)future;
    atomic_fetch_add(&errand->calls, 1);
    if (errand->waits) {
        atomic_store(&errand->is_inside, true);
        await_flag(&errand->let);
    }
    return errand->outcome;
}

static void errand_done(struct future_task *future)
{
    struct errand *errand = (struct errand *)future;
    atomic_store(&errand->thread, gettid());
    atomic_store(&errand->was_over, future_task_is_over(future));
    atomic_fetch_add(&errand->dones, 1);
}

static void errand_init(struct errand *errand, struct office *office, int outcome)
{
    *errand = (struct errand){.outcome = outcome};
    future_task_init(&errand->future, &office->monitor, errand_call, errand_done);
}

static void submit(struct office *office, struct errand *errand)
{
    cr_assert(executor_submit(&office->executor, &errand->future.task));
}

static void office_open(struct office *office, const struct task_queue_kind *kind,
                        const struct saturation_policy *policy)
{
    struct executor_settings settings = {.core = 1,
                                         .max = 1,
                                         .keep_alive = 60000,
                                         .queue_kind = kind,
                                         .queue_limit = 1,
                                         .policy = policy};
    future_monitor_init(&office->monitor);
    executor_open(&office->executor, &settings);
    errand_init(&office->errand, office, 0);
}

/* The worker is inside the call, and stays there until the test says so. */
static void keep_busy(struct office *office)
{
    errand_init(&office->busy, office, 0);
    office->busy.waits = true;
    submit(office, &office->busy);
    cr_assert(await_flag(&office->busy.is_inside), "the worker does not come");
}

static void let_go_on(struct errand *errand)
{
    atomic_store(&errand->let, true);
}

/* All that was submitted is over, and the worker has ended. */
static void office_empty(struct office *office)
{
    let_go_on(&office->busy);
    executor_end(&office->executor, false);
}

static void office_close(struct office *office)
{
    office_empty(office);
    executor_close(&office->executor);
    future_monitor_destroy(&office->monitor);
}

/* A test with `office`. */
#define OfficeTest(suite, name)                                                                    \
    TestWith(suite, name, struct office, office,                                                   \
             office_open(office, &task_queue_unbounded, &saturation_abort), office_close(office))

/* The same, and its worker is busy until the test lets it go on, or ends. */
#define BusyTest(suite, name, kind, policy)                                                        \
    TestWith(suite, name, struct office, office,                                                   \
             (office_open(office, &task_queue_##kind, &saturation_##policy), keep_busy(office)),   \
             office_close(office))

/* ---- running ---- */

OfficeTest(future_task, is_pending_until_it_has_run)
{
    struct errand *errand = &office->errand;
    int error;
    cr_assert_not(future_task_is_over(&errand->future));
    cr_assert_not(future_task_has_run(&errand->future, &error));
    cr_assert_eq(future_task_get(&errand->future, clock_ms()), ETIMEDOUT);
    expect_calls(errand, 0, 0);
    submit(office, errand);
    cr_assert_eq(future_task_get(&errand->future, deadline()), 0);
    cr_assert(future_task_is_over(&errand->future));
    expect_calls(errand, 1, 1);
    office_empty(office);
    expect_calls(errand, 1, 1);
}

OfficeTest(future_task, hands_out_what_its_call_returned)
{
    static const int outcomes[] = {0, EIO, ECANCELED, -7, 123456};
    struct errand *errand = &office->errand;
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        errand_init(errand, office, outcomes[i]);
        submit(office, errand);
        for (int again = 0; again < 2; again++)
            cr_assert_eq(future_task_get(&errand->future, deadline()), outcomes[i]);
        cr_assert_eq(future_task_get(&errand->future, 0), outcomes[i], "no need to wait");
        int error = -1;
        cr_assert(future_task_has_run(&errand->future, &error), "whatever it returns");
        cr_assert_eq(error, outcomes[i]);
        expect_calls(errand, 1, 1);
    }
}

OfficeTest(future_task, needs_no_done_hook)
{
    struct errand *run = &office->errand, *cancelled = &office->busy;
    errand_init(run, office, 5);
    errand_init(cancelled, office, 6);
    run->future.done = cancelled->future.done = NULL;
    cr_assert(future_task_cancel(&cancelled->future));
    submit(office, cancelled);
    submit(office, run);
    cr_assert_eq(future_task_get(&run->future, deadline()), 5);
    office_empty(office);
    expect_calls(cancelled, 0, 0);
}

OfficeTest(future_task, one_that_is_over_can_be_made_pending_again)
{
    struct errand *errand = &office->errand;
    errand->outcome = 1;
    for (int round = 1; round < 4; round++) {
        future_task_init(&errand->future, &office->monitor, errand_call, errand_done);
        cr_assert_not(future_task_is_over(&errand->future));
        submit(office, errand);
        cr_assert_eq(future_task_get(&errand->future, deadline()), 1);
        expect_calls(errand, round, round);
    }
}

/* ---- waiting ---- */

BusyTest(future_task, get_waits_to_its_deadline, unbounded, abort)
{
    struct errand *errand = &office->busy;
    int64_t until = clock_ms() + 20;
    cr_assert_eq(future_task_get(&errand->future, until), ETIMEDOUT);
    cr_assert_geq(clock_ms(), until, "that was too early");
    cr_assert_not(future_task_is_over(&errand->future));
    let_go_on(errand);
    cr_assert_eq(future_task_get(&errand->future, deadline()), 0);
}

/* A thread that waits for one of the futures that share a monitor. */
struct waiting {
    struct errand *errand;
    pthread_t thread;
    atomic_bool begins;
    atomic_bool ends;
    int got;
};

static void *wait_for_it(void *argument)
{
    struct waiting *waiting = argument;
    atomic_store(&waiting->begins, true);
    waiting->got = future_task_get(&waiting->errand->future, deadline() + 2 * test_deadline_ms());
    atomic_store(&waiting->ends, true);
    return NULL;
}

static void wait_in_thread(struct waiting *waiting, struct errand *errand)
{
    *waiting = (struct waiting){.errand = errand};
    cr_assert_eq(pthread_create(&waiting->thread, NULL, wait_for_it, waiting), 0);
    cr_assert(await_flag(&waiting->begins));
}

static void expect_got(struct waiting *waiting, int outcome)
{
    cr_assert(await_flag(&waiting->ends), "it still waits");
    pthread_join(waiting->thread, NULL);
    cr_assert_eq(waiting->got, outcome, "it got %d, and not %d", waiting->got, outcome);
}

/* Who is woken too early sleeps on, and nobody wakes it again. */
OfficeTest(future_task, is_over_before_anybody_is_woken)
{
    struct errand *errand = &office->errand;
    struct waiting waiting;
    errand->outcome = 100;
    errand->waits = true;
    submit(office, errand);
    wait_in_thread(&waiting, errand);
    WAIT_FOR(atomic_load(&office->monitor.waiting) > 0);
    mutex_lock(&office->monitor.lock); /* without which nobody is woken */
    let_go_on(errand);
    WAIT_FOR(future_task_is_over(&errand->future));
    bool over = future_task_is_over(&errand->future);
    mutex_unlock(&office->monitor.lock);
    expect_got(&waiting, 100);
    cr_assert(over, "who waits is woken first");
}

/* Each gets the outcome of its own, though every change wakes all of them. */
OfficeTest(future_task, any_number_of_threads_may_wait)
{
    enum { ERRANDS = 3, WAITING = 12 };
    static struct errand errands[ERRANDS];
    struct waiting waiting[WAITING];
    for (int i = 0; i < ERRANDS; i++) {
        errand_init(&errands[i], office, 100 + i);
        errands[i].waits = true;
        submit(office, &errands[i]);
    }
    for (int i = 0; i < WAITING; i++)
        wait_in_thread(&waiting[i], &errands[i % ERRANDS]);
    test_pause_ms(10); /* for the last of them to sleep, which makes no difference to the result */
    for (int i = 0; i < ERRANDS; i++)
        let_go_on(&errands[i]);
    for (int i = 0; i < WAITING; i++)
        expect_got(&waiting[i], 100 + i % ERRANDS);
}

/* ---- cancelling ---- */

BusyTest(future_task, cancelled_before_the_start_it_never_runs, unbounded, abort)
{
    struct errand *errand = &office->errand;
    int error;
    submit(office, errand);
    cr_assert(future_task_cancel(&errand->future));
    cr_assert(future_task_is_over(&errand->future));
    cr_assert_eq(future_task_get(&errand->future, 0), ECANCELED);
    cr_assert_not(future_task_has_run(&errand->future, &error));
    cr_assert_not(future_task_cancel(&errand->future), "it is over already");
    expect_calls(errand, 0, 0); /* its executor still has it */

    let_go_on(&office->busy);
    expect_calls(errand, 0, 1);
    cr_assert_eq(future_task_get(&errand->future, 0), ECANCELED);
    office_empty(office);
    expect_calls(errand, 0, 1);
}

OfficeTest(future_task, cancelled_before_it_is_submitted_it_never_runs)
{
    struct errand *errand = &office->errand;
    cr_assert(future_task_cancel(&errand->future));
    submit(office, errand);
    office_empty(office);
    expect_calls(errand, 0, 1);
    cr_assert_eq(future_task_get(&errand->future, 0), ECANCELED);
}

BusyTest(future_task, once_it_runs_it_is_too_late_to_cancel, unbounded, abort)
{
    struct errand *errand = &office->busy;
    errand->outcome = 9;
    cr_assert_not(future_task_cancel(&errand->future));
    cr_assert_not(future_task_is_over(&errand->future));
    let_go_on(errand);
    cr_assert_eq(future_task_get(&errand->future, deadline()), 9);
    cr_assert_not(future_task_cancel(&errand->future), "it is over");
    cr_assert_eq(future_task_get(&errand->future, 0), 9);
    expect_calls(errand, 1, 1);
}

BusyTest(future_task, cancelling_releases_who_waits, unbounded, abort)
{
    struct waiting waiting;
    submit(office, &office->errand);
    wait_in_thread(&waiting, &office->errand);
    cr_assert(future_task_cancel(&office->errand.future));
    expect_got(&waiting, ECANCELED);
}

/* Against a worker that starts them at the same time: either it runs or it was cancelled. */
OfficeTest(future_task, cancelling_and_starting_have_one_winner)
{
    enum { ERRANDS = 3000 };
    struct errand *errands = mapped(ERRANDS * sizeof(*errands));
    static bool cancelled[ERRANDS];
    for (int i = 0; i < ERRANDS; i++)
        errand_init(&errands[i], office, 1);
    for (int i = 0; i < ERRANDS; i++) {
        submit(office, &errands[i]);
        if (i % 2 == 0)
            cancelled[i] = future_task_cancel(&errands[i].future);
    }
    office_empty(office);
    for (int i = 0; i < ERRANDS; i++) {
        int got = future_task_get(&errands[i].future, 0);
        cr_assert_eq(got, cancelled[i] ? ECANCELED : 1, "errand %d", i);
        expect_calls(&errands[i], cancelled[i] ? 0 : 1, 1);
    }
}

/* ---- done ---- */

BusyTest(future_task, done_is_called_in_the_worker_when_it_is_over, unbounded, abort)
{
    struct errand *errand = &office->busy;
    expect_calls(errand, 1, 0);
    let_go_on(errand);
    expect_calls(errand, 1, 1);
    cr_assert(atomic_load(&errand->was_over));
    cr_assert_neq(atomic_load(&errand->thread), gettid());
}

static atomic_int freed;

static void free_owner(struct future_task *future)
{
    free(future);
    atomic_fetch_add(&freed, 1);
}

/* Run, cancelled or dropped: nobody touches it afterwards, or else a sanitizer would tell. */
OfficeTest(future_task, done_may_free_it)
{
    enum { ERRANDS = 300 };
    for (int round = 0; round < 2; round++) {
        keep_busy(office);
        for (int i = 0; i < ERRANDS; i++) {
            struct errand *errand = malloc(sizeof(*errand));
            cr_assert_not_null(errand);
            errand_init(errand, office, 0);
            errand->future.done = free_owner;
            if (i % 3 == 0)
                future_task_cancel(&errand->future);
            submit(office, errand);
        }
        if (round == 1)
            executor_shutdown(&office->executor, true);
        let_go_on(&office->busy);
        expect_calls(&office->busy, 1, 1);
    }
    office_empty(office);
    cr_assert_eq(atomic_load(&freed), 2 * ERRANDS);
}

/* ---- dropped by its executor ---- */

BusyTest(future_task, dropped_by_a_shutdown_it_is_cancelled, unbounded, abort)
{
    struct errand *errand = &office->errand;
    int error;
    submit(office, errand);
    executor_shutdown(&office->executor, true);
    cr_assert_eq(future_task_get(&errand->future, 0), ECANCELED);
    cr_assert_not(future_task_has_run(&errand->future, &error));
    expect_calls(errand, 0, 1);
    cr_assert(atomic_load(&errand->was_over));
    cr_assert_eq(atomic_load(&errand->thread), gettid(), "in the thread that dropped it");
    let_go_on(&office->busy);
    cr_assert_eq(future_task_get(&office->busy.future, deadline()), 0, "what ran runs on");
}

BusyTest(future_task, dropped_by_a_policy_it_is_cancelled, direct, discard)
{
    submit(office, &office->errand);
    cr_assert_eq(future_task_get(&office->errand.future, 0), ECANCELED);
    expect_calls(&office->errand, 0, 1);
}

/* It was cancelled before, and is dropped now: done is called once, all the same. */
BusyTest(future_task, cancelled_and_dropped_it_is_done_once, unbounded, abort)
{
    submit(office, &office->errand);
    cr_assert(future_task_cancel(&office->errand.future));
    executor_shutdown(&office->executor, true);
    expect_calls(&office->errand, 0, 1);
    office_empty(office);
    expect_calls(&office->errand, 0, 1);
}

BusyTest(future_task, under_caller_runs_it_runs_in_the_submitter, direct, caller_runs)
{
    struct errand *errand = &office->errand;
    errand->outcome = 3;
    submit(office, errand);
    cr_assert_eq(future_task_get(&errand->future, 0), 3);
    expect_calls(errand, 1, 1);
    cr_assert_eq(atomic_load(&errand->thread), gettid());
}
