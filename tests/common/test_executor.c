/*
 * The pool of workers: when it starts threads and ends them, what each saturation policy does with
 * a task too many, and that every accepted task is run or dropped, once.
 *
 * Jobs stop at a gate until the test lets them go on, so that a test says how many workers are
 * busy. Nothing depends on a pause being long enough. Which task goes where, random steps compare
 * with a model: the rules of executor.h, in a few lines without threads.
 */
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/thread.h"
#include "common/workers/executor.h"
#include "faults.h"
#include "helpers.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LONG = 60000, /* ms, for a keep-alive time that does not end in a test */
};

static const struct task_queue_kind *const kinds[] = {&task_queue_direct, &task_queue_bounded,
                                                      &task_queue_unbounded, &task_queue_priority};
static const struct saturation_policy *const policies[] = {
    &saturation_abort, &saturation_caller_runs, &saturation_discard, &saturation_discard_oldest,
    &saturation_block};

enum { KINDS = sizeof(kinds) / sizeof(*kinds), POLICIES = sizeof(policies) / sizeof(*policies) };

/* Fails with a message if the condition does not become true in time. */
#define AWAIT_OR(condition, ...)                                                                   \
    do {                                                                                           \
        WAIT_FOR(condition);                                                                       \
        cr_assert(condition, __VA_ARGS__);                                                         \
    } while (0)

#define AWAIT(condition) AWAIT_OR(condition, "waited for: %s", #condition)

/* ---- jobs ---- */

/* Where jobs wait until the test lets one of them after the other go on. */
struct gate {
    struct mutex lock;
    struct condition changed;
    int inside;
    int let;
};

struct job {
    struct task task;
    bool waits; /* at the gate */
    atomic_int runs;
    atomic_int drops;
    atomic_int thread; /* that ran or dropped it */
    int turn;          /* of all that ran, the how manieth; from 0 */
};

static atomic_int turns;

/* The executor that a test has, and the gate at which its jobs wait. */
static struct executor executor;
static struct gate gate;

static void begin(void)
{
    mutex_init(&gate.lock);
    condition_init(&gate.changed);
}

TestSuite(executor, .timeout = 120, .init = begin);

static void gate_pass(void)
{
    int64_t end = clock_ms() + 3 * test_deadline_ms();
    bool in_time = true;
    mutex_lock(&gate.lock);
    gate.inside++;
    condition_broadcast(&gate.changed);
    while (gate.let == 0 && in_time)
        in_time = condition_wait_until(&gate.changed, &gate.lock, end);
    gate.let--;
    gate.inside--;
    mutex_unlock(&gate.lock);
}

/* So many jobs stand at the gate. */
static void gate_await(int inside)
{
    int64_t end = clock_ms() + test_deadline_ms();
    bool in_time = true;
    mutex_lock(&gate.lock);
    while (gate.inside != inside && in_time)
        in_time = condition_wait_until(&gate.changed, &gate.lock, end);
    int now = gate.inside;
    mutex_unlock(&gate.lock);
    cr_assert_eq(now, inside, "%d jobs run, and not %d", now, inside);
}

static void gate_let(int count)
{
    mutex_lock(&gate.lock);
    gate.let += count;
    condition_broadcast(&gate.changed);
    mutex_unlock(&gate.lock);
}

/* Asking for the counters would never return if a lock were held here. */
static void visit(struct job *job)
{
    executor_stats(&executor);
    atomic_store(&job->thread, gettid());
}

static void job_run(struct task *task)
{
    struct job *job = (struct job *)task;
    visit(job);
    job->turn = atomic_fetch_add(&turns, 1);
    if (job->waits)
        gate_pass();
    atomic_fetch_add(&job->runs, 1);
}

static void job_dropped(struct task *task)
{
    struct job *job = (struct job *)task;
    visit(job);
    atomic_fetch_add(&job->drops, 1);
}

static const struct task_verbs job_verbs = {job_run, job_dropped};

static void jobs_init(struct job *jobs, size_t count, bool wait)
{
    for (size_t i = 0; i < count; i++)
        jobs[i] = (struct job){.task = {.verbs = &job_verbs}, .waits = wait};
}

static void expect_fate(const struct job *job, int runs, int drops)
{
    cr_assert_eq(atomic_load(&job->runs), runs, "it ran %d times, and not %d",
                 atomic_load(&job->runs), runs);
    cr_assert_eq(atomic_load(&job->drops), drops, "it was dropped %d times, and not %d",
                 atomic_load(&job->drops), drops);
}

/* A stand-in for pthread_create(). */
static int no_thread(void)
{
    return EAGAIN;
}

/* ---- executors ---- */

static struct executor_settings settings_of(size_t core, size_t max,
                                            const struct task_queue_kind *kind, size_t limit,
                                            const struct saturation_policy *policy)
{
    return (struct executor_settings){.core = core,
                                      .max = max,
                                      .keep_alive = LONG,
                                      .queue_kind = kind,
                                      .queue_limit = limit,
                                      .policy = policy};
}

static void open_with(size_t core, size_t max, const struct task_queue_kind *kind, size_t limit,
                      const struct saturation_policy *policy)
{
    struct executor_settings settings = settings_of(core, max, kind, limit, policy);
    executor_open(&executor, &settings);
}

static int64_t deadline(void)
{
    return clock_ms() + test_deadline_ms();
}

/* Whether all its threads have ended, at that moment at the latest. */
static bool ends_until(int64_t moment)
{
    while (executor_stats(&executor).threads > 0 && clock_ms() < moment)
        test_pause_ms(1);
    return executor_stats(&executor).threads == 0;
}

/* An orderly end. */
static void finish(void)
{
    executor_shutdown(&executor, false);
    cr_assert(ends_until(deadline()), "%zu threads do not end", executor_stats(&executor).threads);
    executor_close(&executor);
}

static void submit_all(struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert(executor_submit(&executor, &jobs[i].task), "job %zu", i);
}

static void expect_load(size_t threads, size_t waiting)
{
    struct executor_stats stats = executor_stats(&executor);
    cr_assert(stats.threads == threads && stats.waiting == waiting,
              "expected %zu threads and %zu tasks that wait; there are %zu and %zu", threads,
              waiting, stats.threads, stats.waiting);
}

/* ---- threads ---- */

Test(executor, runs_a_task_in_a_thread_of_its_own)
{
    struct job job;
    open_with(1, 1, &task_queue_unbounded, 0, &saturation_abort);
    jobs_init(&job, 1, false);
    cr_assert(executor_submit(&executor, &job.task));
    AWAIT(executor_stats(&executor).completed == 1);
    expect_fate(&job, 1, 0);
    cr_assert_neq(atomic_load(&job.thread), gettid());
    finish();
    expect_fate(&job, 1, 0);
}

/* ---- random steps, against a model ---- */

enum { ACTORS = 400 };

enum fate { NOT_ACCEPTED, WAITS, RUNS, HAS_RUN, DROPPED };

/* A job that runs until the test lets it, but in the submitter not for a moment. */
static struct actor {
    struct task task;
    struct task in_model; /* in the model's queue */
    bool let;             /* with the gate's lock, as its fate */
    enum fate fate;
    enum fate expected;
} actors[ACTORS];

static struct model {
    struct executor_settings settings;
    struct executor_stats stats;
    struct task_queue queue; /* which has its own tests, for the order of each kind */
    bool closing;
    size_t used; /* of the actors */
} model;

static void actor_fate(struct actor *actor, enum fate fate)
{
    mutex_lock(&gate.lock);
    actor->fate = fate;
    mutex_unlock(&gate.lock);
}

static void actor_run(struct task *task)
{
    struct actor *actor = (struct actor *)task;
    int64_t end = clock_ms() + 3 * test_deadline_ms();
    bool in_time = gettid() != getpid();
    actor_fate(actor, RUNS);
    mutex_lock(&gate.lock);
    while (!actor->let && in_time)
        in_time = condition_wait_until(&gate.changed, &gate.lock, end);
    actor->fate = HAS_RUN;
    mutex_unlock(&gate.lock);
}

static void actor_dropped(struct task *task)
{
    actor_fate((struct actor *)task, DROPPED);
}

static struct actor *in_queue(struct task *task)
{
    return task == NULL ? NULL : container_of(task, struct actor, in_model);
}

/* A thread has nothing to do. */
static void model_take(void)
{
    struct actor *next = in_queue(task_queue_take(&model.queue));
    if (next != NULL)
        next->expected = RUNS;
    model.stats.idle += next == NULL && !model.closing;
    model.stats.threads -= next == NULL && model.closing;
}

/* In the order of executor.h. */
static bool model_place(struct actor *actor, bool insisted)
{
    struct executor_stats *stats = &model.stats;
    bool starts = stats->threads == 0 || stats->threads < model.settings.core;
    actor->expected = RUNS;
    if (!starts && stats->idle > 0) {
        stats->idle--;
        return true;
    }
    actor->expected = WAITS;
    if (!starts &&
        (insisted ? task_queue_insist : task_queue_offer)(&model.queue, &actor->in_model))
        return true;
    starts = starts || stats->threads < model.settings.max;
    actor->expected = starts ? RUNS : NOT_ACCEPTED;
    stats->threads += starts;
    stats->max_threads += stats->threads > stats->max_threads;
    return starts;
}

static void model_drop(struct actor *actor)
{
    actor->expected = DROPPED;
    model.stats.discarded++;
}

static bool model_submit(struct actor *actor)
{
    const struct saturation_policy *policy = model.settings.policy;
    if (model.closing || model_place(actor, false))
        return !model.closing;
    if (policy == &saturation_abort) {
        model.stats.aborted++;
        return false;
    }
    if (policy == &saturation_caller_runs) {
        model.stats.run_by_caller++;
        actor->expected = HAS_RUN;
    } else if (policy == &saturation_discard) {
        model_drop(actor);
    } else {
        struct actor *oldest = actor;
        for (size_t tries = model.queue.length; tries > 0; tries--) {
            oldest = in_queue(task_queue_take(&model.queue));
            model_drop(oldest);
            if (model_place(actor, false))
                return true;
        }
        model_drop(actor);
    }
    return true;
}

static struct actor *new_actor(struct rng *rng)
{
    static const struct task_verbs verbs = {actor_run, actor_dropped};
    struct actor *actor = &actors[model.used++];
    *actor = (struct actor){.task.verbs = &verbs};
    actor->task.urgent = actor->in_model.urgent = rng_below(rng, 2) == 0;
    return actor;
}

/* Several that are handed over together: those that come back are the model's, in their order. */
static void submit_some(struct rng *rng)
{
    struct task_list round = {0};
    struct actor *refused[4];
    size_t count = rng_between(rng, 1, 4), back = 0;
    for (size_t i = 0; i < count; i++) {
        struct actor *actor = new_actor(rng);
        task_list_append(&round, &actor->task);
        if (!model_submit(actor))
            refused[back++] = actor;
    }
    executor_submit_all(&executor, &round);
    for (size_t i = 0; i < back; i++)
        cr_assert_eq(task_list_remove_first(&round), &refused[i]->task, "%zu of a round", i);
    cr_assert_null(task_list_remove_first(&round));
}

static void let_one_go(struct rng *rng)
{
    size_t first = rng_below(rng, model.used + 1);
    for (size_t i = 0; i < model.used; i++) {
        struct actor *actor = &actors[(first + i) % model.used];
        if (actor->expected != RUNS)
            continue;
        actor->expected = HAS_RUN;
        model.stats.completed++;
        mutex_lock(&gate.lock);
        actor->let = true;
        condition_broadcast(&gate.changed);
        mutex_unlock(&gate.lock);
        model_take();
        return;
    }
}

static void shut_down(bool now)
{
    executor_shutdown(&executor, now);
    model.closing = true;
    model.stats.threads -= model.stats.idle;
    model.stats.idle = 0;
    struct actor *waiting;
    while (now && (waiting = in_queue(task_queue_take(&model.queue))) != NULL)
        model_drop(waiting);
}

/* The first actor whose fate is another one; NULL: all is as the model says. */
static const struct actor *first_difference(void)
{
    const struct actor *found = NULL;
    mutex_lock(&gate.lock);
    for (size_t i = 0; i < model.used && found == NULL; i++) {
        enum fate expected = actors[i].expected == WAITS ? NOT_ACCEPTED : actors[i].expected;
        found = actors[i].fate != expected ? &actors[i] : NULL;
    }
    mutex_unlock(&gate.lock);
    return found;
}

static bool stats_are_as_expected(void)
{
    struct executor_stats stats = executor_stats(&executor);
    model.stats.waiting = model.queue.length;
    return memcmp(&stats, &model.stats, sizeof(stats)) == 0;
}

static void compare_with_model(const char *where, size_t step)
{
    AWAIT_OR(first_difference() == NULL, "%s, step %zu: task %zu: %d, not %d", where, step,
             (size_t)(first_difference() - actors), first_difference()->fate,
             first_difference()->expected);
    AWAIT_OR(stats_are_as_expected(), "%s, step %zu: %zu threads, %zu idle, %zu wait", where, step,
             executor_stats(&executor).threads, executor_stats(&executor).idle,
             executor_stats(&executor).waiting);
}

static void take_steps(const struct executor_settings *settings, struct rng *rng)
{
    char where[100];
    model = (struct model){.settings = *settings};
    task_queue_init(&model.queue, settings->queue_kind, settings->queue_limit);
    executor_open(&executor, settings);
    snprintf(where, sizeof(where), "%s, %s, %zu to %zu", settings->policy->name,
             settings->queue_kind->name, settings->core, settings->max);
    cr_assert(stats_are_as_expected(), "%s: a thread before there is a task", where);
    for (size_t step = 0; step < 80 || model.stats.threads > 0; step++) {
        size_t kind = step < 80 ? rng_below(rng, 8) : 7;
        if (step == 70 || step == 75)
            shut_down(rng_below(rng, 2) == 0);
        else if (kind < 3)
            submit_some(rng);
        else if (kind > 3)
            let_one_go(rng);
        else {
            struct actor *actor = new_actor(rng);
            bool accepted = model_place(actor, true);
            cr_assert_eq(executor_insist(&executor, &actor->task), accepted);
        }
        compare_with_model(where, step);
    }
    executor_close(&executor);
}

/* To block is for threads of their own, unless nothing is ever full. */
Test(executor, each_task_goes_where_the_rules_say)
{
    struct rng rng = rng_from(1);
    long before = probe_own_threads(getpid());
    for (int i = 0; i < 40; i++) {
        size_t core = rng_below(&rng, 4), kind = (size_t)i % KINDS, policy = (size_t)i / KINDS;
        struct executor_settings settings =
            settings_of(core, rng_between(&rng, core > 0 ? core : 1, 4), kinds[kind],
                        rng_below(&rng, 5), policies[policy % (kind < 2 ? 4 : 5)]);
        take_steps(&settings, &rng);
    }
    cr_assert(probe_await_own_threads(getpid(), before), "there are still %ld threads",
              probe_own_threads(getpid()));
}

/* ---- keep-alive ---- */

/* Grows to `most` threads and lets them all become idle; the moment at which the first could. */
static int64_t grow(struct job *jobs, size_t most)
{
    jobs_init(jobs, most, true);
    submit_all(jobs, most);
    cr_assert_eq(executor_stats(&executor).threads, most);
    int64_t begin = clock_ms();
    gate_let((int)most);
    return begin;
}

Test(executor, threads_above_core_end_after_keep_alive)
{
    enum { CORE = 1, MOST = 4, KEEP_ALIVE = 100 };
    struct job jobs[MOST];
    struct executor_settings settings =
        settings_of(CORE, MOST, &task_queue_direct, 0, &saturation_abort);
    long before = probe_own_threads(getpid());
    settings.keep_alive = KEEP_ALIVE;
    executor_open(&executor, &settings);
    for (int round = 0; round < 2; round++) {
        int64_t begin = grow(jobs, MOST);
        AWAIT_OR(executor_stats(&executor).threads == CORE, "%zu threads, and not %d",
                 executor_stats(&executor).threads, CORE);
        cr_assert_geq(clock_ms() - begin, KEEP_ALIVE, "that was too early");
        AWAIT(executor_stats(&executor).idle == CORE);
    }
    cr_assert(probe_await_own_threads(getpid(), before + CORE));
    finish();
}

Test(executor, threads_up_to_core_stay)
{
    enum { CORE = 3 };
    struct job jobs[CORE + 1];
    struct executor_settings settings =
        settings_of(CORE, CORE + 1, &task_queue_direct, 0, &saturation_abort);
    settings.keep_alive = 0;
    executor_open(&executor, &settings);
    grow(jobs, CORE + 1);
    AWAIT(executor_stats(&executor).threads == CORE && executor_stats(&executor).idle == CORE);
    jobs_init(jobs, CORE, true);
    submit_all(jobs, CORE);
    expect_load(CORE, executor_stats(&executor).waiting);
    gate_let(CORE);
    finish();
}

/* They are there, and asleep, before the first task, and the first tasks start no others. */
Test(executor, warm_threads_wait_for_the_first_task)
{
    enum { CORE = 3 };
    struct job jobs[CORE];
    struct executor_settings settings =
        settings_of(CORE, CORE + 1, &task_queue_direct, 0, &saturation_abort);
    settings.warm = true;
    executor_open(&executor, &settings);
    AWAIT(executor_stats(&executor).idle == CORE);
    jobs_init(jobs, CORE, true);
    submit_all(jobs, CORE);
    AWAIT(executor_stats(&executor).idle == 0);
    cr_assert_eq(executor_stats(&executor).max_threads, CORE);
    gate_let(CORE);
    finish();
}

/* A thread that gets a task in time does not end, though it had been idle for a while. */
Test(executor, without_core_threads_all_end_and_come_again)
{
    struct job job;
    struct executor_settings settings =
        settings_of(0, 2, &task_queue_unbounded, 0, &saturation_abort);
    settings.keep_alive = 20;
    executor_open(&executor, &settings);
    for (int round = 0; round < 3; round++) {
        jobs_init(&job, 1, false);
        cr_assert(executor_submit(&executor, &job.task));
        AWAIT_OR(executor_stats(&executor).threads == 0, "round %d: the thread stays", round);
        expect_fate(&job, 1, 0);
    }
    cr_assert_eq(executor_stats(&executor).max_threads, 1);
    finish();
}

/* ---- saturation ---- */

/* One worker with a job, a queue of one with another: full. */
static struct job busy;
static struct job oldest;
static struct job one_more;

static void saturate(const struct saturation_policy *policy)
{
    open_with(1, 1, &task_queue_bounded, 1, policy);
    jobs_init(&busy, 1, true);
    jobs_init(&oldest, 1, false);
    jobs_init(&one_more, 1, false);
    cr_assert(executor_submit(&executor, &busy.task));
    gate_await(1);
    cr_assert(executor_submit(&executor, &oldest.task));
    expect_load(1, 1);
}

static void let_and_finish(void)
{
    gate_let(1);
    finish();
}

Test(executor, caller_runs_runs_it_in_the_submitter)
{
    saturate(&saturation_caller_runs);
    cr_assert(executor_submit(&executor, &one_more.task));
    expect_fate(&one_more, 1, 0);
    cr_assert_eq(atomic_load(&one_more.thread), gettid());
    cr_assert_eq(executor_stats(&executor).run_by_caller, 1);
    cr_assert_eq(executor_stats(&executor).completed, 0, "that counts the workers'");
    let_and_finish();
    expect_fate(&oldest, 1, 0);
    expect_fate(&one_more, 1, 0);
}

static void drop_and_shut_down(struct task *task)
{
    job_dropped(task);
    executor_shutdown(&executor, false);
}

/*
 * More wait than there is room for (one was insisted on), so that dropping one makes no room; and
 * what is dropped has the executor shut down. Nobody tries on in one that takes nothing any more.
 */
Test(executor, discard_oldest_ends_when_it_is_shut_down_meanwhile)
{
    struct job insisted;
    saturate(&saturation_discard_oldest);
    static const struct task_verbs last_wish = {job_run, drop_and_shut_down};
    oldest.task.verbs = &last_wish;
    jobs_init(&insisted, 1, false);
    cr_assert(executor_insist(&executor, &insisted.task));
    expect_load(1, 2);
    cr_assert_not(executor_submit(&executor, &one_more.task));
    expect_load(1, 1);
    let_and_finish();
    expect_fate(&oldest, 0, 1);
    expect_fate(&one_more, 0, 0);
    expect_fate(&insisted, 1, 0);
}

/* A thread that submits one job, and what came of it. */
struct submission {
    struct job *job;
    pthread_t thread;
    atomic_int result; /* -1 while it is in the call */
};

static void *submit_one(void *argument)
{
    struct submission *submission = argument;
    bool accepted = executor_submit(&executor, &submission->job->task);
    atomic_store(&submission->result, accepted);
    return NULL;
}

static void submit_in_thread(struct submission *submission, struct job *job)
{
    *submission = (struct submission){.job = job, .result = -1};
    cr_assert_eq(pthread_create(&submission->thread, NULL, submit_one, submission), 0);
}

static void expect_result(struct submission *submission, bool accepted)
{
    AWAIT_OR(atomic_load(&submission->result) != -1, "the submitter is still blocked");
    pthread_join(submission->thread, NULL);
    cr_assert_eq(atomic_load(&submission->result), accepted);
}

Test(executor, block_has_the_submitter_wait_for_room)
{
    struct submission submission;
    saturate(&saturation_block);
    oldest.waits = true;
    submit_in_thread(&submission, &one_more);
    AWAIT(executor_stats(&executor).blocked == 1);
    cr_assert_eq(atomic_load(&submission.result), -1);
    expect_load(1, 1);
    struct counters counters = {0};
    executor_count(&executor, &counters);
    cr_assert_eq(counters_get(&counters, COUNTER_TASKS_BLOCKED), 1);
    gate_let(1);
    expect_result(&submission, true); /* the worker is busy again, but there is room */
    expect_load(1, 1);
    let_and_finish();
    expect_fate(&oldest, 1, 0);
    expect_fate(&one_more, 1, 0);
    cr_assert_eq(executor.stats.blocked, 1);
}

Test(executor, block_lets_all_who_wait_in_one_after_the_other)
{
    enum { SUBMITTERS = 8 };
    for (int kind = 0; kind < 2; kind++) {
        struct job jobs[SUBMITTERS];
        struct submission submissions[SUBMITTERS];
        open_with(1, 1, kinds[kind], 1, &saturation_block);
        jobs_init(&busy, 1, true);
        jobs_init(jobs, SUBMITTERS, true);
        cr_assert(executor_submit(&executor, &busy.task));
        for (int i = 0; i < SUBMITTERS; i++)
            submit_in_thread(&submissions[i], &jobs[i]);
        AWAIT(executor_stats(&executor).blocked + executor_stats(&executor).waiting >= SUBMITTERS);
        for (int i = 0; i < SUBMITTERS + 1; i++) {
            gate_await(1);
            gate_let(1);
        }
        for (int i = 0; i < SUBMITTERS; i++)
            expect_result(&submissions[i], true);
        finish();
        for (int i = 0; i < SUBMITTERS; i++)
            expect_fate(&jobs[i], 1, 0);
    }
}

/*
 * Without core threads the last one may end just when a submitter was told that there is room:
 * then it is the submitter's turn to start one.
 */
Test(executor, block_never_waits_for_a_thread_that_has_ended)
{
    enum { SUBMITTERS = 4, ROUNDS = 300 };
    for (int kind = 0; kind < 2; kind++) {
        struct job jobs[SUBMITTERS];
        struct submission submissions[SUBMITTERS];
        struct executor_settings settings = settings_of(0, 1, kinds[kind], 1, &saturation_block);
        settings.keep_alive = 0;
        executor_open(&executor, &settings);
        for (int round = 0; round < ROUNDS; round++) {
            jobs_init(jobs, SUBMITTERS, false);
            for (int i = 0; i < SUBMITTERS; i++)
                submit_in_thread(&submissions[i], &jobs[i]);
            for (int i = 0; i < SUBMITTERS; i++)
                expect_result(&submissions[i], true);
            for (int i = 0; i < SUBMITTERS; i++)
                AWAIT_OR(atomic_load(&jobs[i].runs) == 1, "%s, round %d: accepted and never run",
                         kinds[kind]->name, round);
        }
        finish();
    }
}

/* Several submitters are blocked, the last thread ends, and there is no other. */
static void block_without_threads(const struct executor_settings *settings)
{
    enum { BLOCKED = 4 };
    struct job jobs[BLOCKED];
    struct submission submissions[BLOCKED];
    executor_open(&executor, settings);
    jobs_init(&busy, 1, true);
    jobs_init(jobs, BLOCKED, false);
    cr_assert(executor_submit(&executor, &busy.task));
    for (int i = 0; i < BLOCKED; i++)
        submit_in_thread(&submissions[i], &jobs[i]);
    AWAIT(executor_stats(&executor).blocked == BLOCKED);
    faults.thread = no_thread;
    gate_let(1);
    for (int i = 0; i < BLOCKED; i++) {
        AWAIT_OR(atomic_load(&submissions[i].result) != -1, "the submitter is still blocked");
        pthread_join(submissions[i].thread, NULL);
    }
    faults.thread = NULL;
    finish();
    for (int i = 0; i < BLOCKED; i++) /* some may have got in while the thread had not ended yet */
        expect_fate(&jobs[i], atomic_load(&submissions[i].result), 0);
}

Test(executor, block_ends_when_the_last_thread_has_ended_and_no_other_can_be_had)
{
    struct executor_settings settings = settings_of(0, 1, &task_queue_direct, 0, &saturation_block);
    settings.keep_alive = 0;
    for (int round = 0; round < 50; round++)
        block_without_threads(&settings);
}

/* What never is full never asks its policy. */
Test(executor, with_an_unbounded_queue_no_policy_is_asked)
{
    for (int i = 0; i < 2 * POLICIES; i++) {
        struct job jobs[50];
        open_with(1, 2, i % 2 == 0 ? &task_queue_unbounded : &task_queue_priority, 0,
                  policies[i / 2]);
        jobs_init(jobs, 50, true);
        submit_all(jobs, 50);
        gate_let(50);
        finish();
        for (int j = 0; j < 50; j++)
            expect_fate(&jobs[j], 1, 0);
        cr_assert_eq(executor.stats.completed, 50, "%s", policies[i / 2]->name);
    }
}

Test(executor, policies_have_the_names_that_users_type)
{
    cr_assert_str_eq(saturation_abort.name, "abort");
    cr_assert_str_eq(saturation_block.name, "block");
    cr_assert_str_eq(saturation_caller_runs.name, "caller-runs");
    cr_assert_str_eq(saturation_discard.name, "discard");
    cr_assert_str_eq(saturation_discard_oldest.name, "discard-oldest");
}

/* ---- no thread to be had ---- */

/* Whatever the policy: a task that waits for a first thread could wait forever. */
Test(executor, without_a_single_thread_nothing_is_accepted)
{
    for (int i = 0; i < POLICIES; i++) {
        struct job job;
        open_with(2, 4, &task_queue_unbounded, 0, policies[i]);
        jobs_init(&job, 1, false);
        faults.thread = no_thread;
        cr_assert_not(executor_submit(&executor, &job.task), "%s", policies[i]->name);
        cr_assert_eq(executor_stats(&executor).aborted, 1);
        cr_assert_not(executor_insist(&executor, &job.task), "%s", policies[i]->name);
        faults.thread = NULL;
        expect_fate(&job, 0, 0);
        expect_load(0, 0);

        while (!executor_submit(&executor, &job.task)) /* now there are, after a moment */
            sched_yield();
        AWAIT(executor_stats(&executor).completed == 1);
        finish();
        expect_fate(&job, 1, 0);
    }
}

Test(executor, one_thread_does_without_the_others)
{
    struct job jobs[5];
    open_with(4, 4, &task_queue_unbounded, 0, &saturation_abort);
    jobs_init(jobs, 5, true);
    cr_assert(executor_submit(&executor, &jobs[0].task));
    faults.thread = no_thread;
    submit_all(jobs + 1, 3);
    expect_load(1, 3);
    faults.thread = NULL;
    cr_assert(executor_submit(&executor, &jobs[4].task), "there may be no other thread yet");
    gate_let(5);
    finish();
    for (int i = 0; i < 5; i++)
        expect_fate(&jobs[i], 1, 0);
}

static atomic_int attempts;

static int no_thread_again(void)
{
    atomic_fetch_add(&attempts, 1);
    return EAGAIN;
}

/* An attempt takes a system call, with the lock held: not one for each message. */
Test(executor, backs_off_when_no_thread_can_be_started)
{
    enum { BACK_OFF_MS = 100 };
    struct job job;
    int64_t submissions = 0;
    open_with(8, 8, &task_queue_unbounded, 0, &saturation_abort);
    jobs_init(&job, 1, false);
    faults.thread = no_thread_again;
    int64_t begin = clock_ms();
    while (clock_ms() < begin + 3 * BACK_OFF_MS) {
        cr_assert_not(executor_submit(&executor, &job.task));
        submissions++;
    }
    int tried = atomic_load(&attempts);
    int64_t most = (clock_ms() - begin) / BACK_OFF_MS + 2;
    faults.thread = NULL;
    cr_assert(tried <= most && tried < submissions, "%d attempts for %ld tasks, expected %ld",
              tried, (long)submissions, (long)most);
    cr_assert_geq(tried, 3, "it never tries again after a while");
    finish();
}

/* Failures that a start came between have nothing to do with each other. */
Test(executor, that_could_start_a_thread_has_forgotten_earlier_failures)
{
    struct job jobs[3];
    open_with(8, 8, &task_queue_unbounded, 0, &saturation_abort);
    jobs_init(jobs, 3, false);
    faults.thread = no_thread_again;
    cr_assert_not(executor_submit(&executor, &jobs[0].task));
    cr_assert_not(executor_submit(&executor, &jobs[0].task));
    faults.thread = NULL;
    while (!executor_submit(&executor, &jobs[0].task)) /* until it tries again */
        sched_yield();
    faults.thread = no_thread_again;
    int before = atomic_load(&attempts);
    cr_assert(executor_submit(&executor, &jobs[1].task));
    cr_assert(executor_submit(&executor, &jobs[2].task));
    faults.thread = NULL;
    cr_assert_eq(atomic_load(&attempts) - before, 2, "it backs off after a single failure");
    finish();
    for (int i = 0; i < 3; i++)
        expect_fate(&jobs[i], 1, 0);
}

/* Threads that are warm take no task, so nothing but the end of their executor ends them. */
Test(executor, that_has_warm_threads_can_be_closed_at_once)
{
    enum { CORE = 3 };
    struct executor_settings settings =
        settings_of(CORE, CORE, &task_queue_unbounded, 0, &saturation_abort);
    long before = probe_own_threads(getpid());
    settings.warm = true;
    executor_open(&executor, &settings);
    cr_assert_eq(executor_stats(&executor).threads, CORE);
    executor_close(&executor);
    cr_assert(probe_await_own_threads(getpid(), before), "there are still %ld threads",
              probe_own_threads(getpid()));
}

Test(executor, what_cannot_grow_is_saturated)
{
    struct job jobs[3];
    open_with(1, 4, &task_queue_bounded, 1, &saturation_discard);
    jobs_init(jobs, 3, true);
    submit_all(jobs, 2);
    faults.thread = no_thread;
    cr_assert(executor_submit(&executor, &jobs[2].task));
    faults.thread = NULL;
    expect_fate(&jobs[2], 0, 1);
    gate_let(2);
    finish();
}

/* ---- what must not be lost ---- */

/*
 * A spare thread that is called while it waits for the end of its keep-alive time: nothing else
 * orders what its caller has written and what it writes when it falls asleep again. For
 * ThreadSanitizer, which has to know that.
 */
Test(executor, a_spare_thread_hears_its_call)
{
    enum { ROUNDS = 20 };
    struct job jobs[ROUNDS];
    struct executor_settings settings =
        settings_of(0, 1, &task_queue_unbounded, 0, &saturation_abort);
    settings.keep_alive = 3 * test_deadline_ms();
    executor_open(&executor, &settings);
    jobs_init(jobs, ROUNDS, false);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert(executor_submit(&executor, &jobs[i].task));
        AWAIT(atomic_load(&jobs[i].runs) == 1);
        test_pause_ms(2); /* it takes no lock of the executor's meanwhile, and falls asleep */
    }
    cr_assert_eq(executor_stats(&executor).max_threads, 1);
    finish();
}

/* ---- a round's tasks ---- */

/* So many threads, which have nothing to do. */
static void open_idle(struct job *jobs, size_t count, const struct task_queue_kind *kind,
                      const struct saturation_policy *policy)
{
    open_with(count, count, kind, 1, policy);
    jobs_init(jobs, count, true);
    submit_all(jobs, count);
    gate_let((int)count);
    AWAIT(executor_stats(&executor).idle == count);
}

/* Hands them over together; how many come back. */
static size_t submit_round(struct job *jobs, size_t count)
{
    struct task_list round = {0};
    size_t refused = 0;
    for (size_t i = 0; i < count; i++)
        task_list_append(&round, &jobs[i].task);
    executor_submit_all(&executor, &round);
    while (task_list_remove_first(&round) != NULL)
        refused++;
    return refused;
}

Test(executor, each_task_of_a_round_wakes_a_worker)
{
    enum { COUNT = 3 };
    struct job jobs[COUNT];
    open_idle(jobs, COUNT, &task_queue_unbounded, &saturation_abort);
    jobs_init(jobs, COUNT, true);
    cr_assert_eq(submit_round(jobs, COUNT), 0);
    cr_assert_eq(executor_stats(&executor).idle, 0, "each has its task already");
    gate_await(COUNT);
    gate_let(COUNT);
    finish();
}

static atomic_int yields;

/* Instead of the C library's, for all of this program. */
int sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    return (int)syscall(SYS_sched_yield);
}

/*
 * A loop hands its round over at the end, and insists for one client after the other: on a machine
 * with much to do, each time that it offers the processor costs a turn of all others.
 */
Test(executor, a_loop_offers_the_processor_once_a_round)
{
    enum { COUNT = 3 };
    struct job jobs[COUNT];
    open_idle(jobs, COUNT, &task_queue_unbounded, &saturation_abort);
    jobs_init(jobs, COUNT, true);
    for (int i = 0; i < COUNT; i++)
        cr_assert(executor_insist(&executor, &jobs[i].task));
    cr_expect_eq(atomic_load(&yields), 0, "insists, and offers others the processor");
    gate_await(COUNT);
    gate_let(COUNT);
    AWAIT(executor_stats(&executor).idle == COUNT);
    jobs_init(jobs, COUNT, false);
    cr_assert_eq(submit_round(jobs, COUNT), 0);
    cr_expect_eq(atomic_load(&yields), 1);
    finish();
}

/* Under these two policies the submitter itself waits, or works: the worker must be at it. */
Test(executor, a_round_that_has_to_wait_for_room_gets_it)
{
    static const struct saturation_policy *const patient[] = {&saturation_block,
                                                              &saturation_caller_runs};
    for (int i = 0; i < 2; i++) {
        struct job jobs[4];
        open_idle(jobs, 1, &task_queue_bounded, patient[i]);
        jobs_init(jobs, 4, false);
        cr_assert_eq(submit_round(jobs, 4), 0); /* there is room for one */
        finish();
        for (int j = 0; j < 4; j++)
            expect_fate(&jobs[j], 1, 0);
    }
}

/* A job that is run by its submitter and waits there until the worker has done the one before. */
struct follower {
    struct job job;
    struct job *before;
};

static void await_the_one_before(struct task *task)
{
    struct follower *follower = (struct follower *)task;
    AWAIT_OR(atomic_load(&follower->before->runs) == 1, "the worker has not been woken");
    job_run(task);
}

Test(executor, a_submitter_that_runs_a_task_has_woken_the_workers_before)
{
    static const struct task_verbs verbs = {await_the_one_before, job_dropped};
    struct job first;
    struct follower second;
    struct task_list round = {0};
    open_idle(&first, 1, &task_queue_direct, &saturation_caller_runs);
    jobs_init(&first, 1, false);
    jobs_init(&second.job, 1, false);
    second.job.task.verbs = &verbs;
    second.before = &first;
    task_list_append(&round, &first.task);
    task_list_append(&round, &second.job.task);
    executor_submit_all(&executor, &round);
    expect_fate(&second.job, 1, 0);
    finish();
}

Test(executor, its_counters_go_to_the_server_s)
{
    static const enum counter expected[] = {COUNTER_TASKS_ABORTED, COUNTER_TASKS_BY_CALLER,
                                            COUNTER_TASKS_DISCARDED};
    for (int i = 0; i < 3; i++) {
        struct counters counters = {0};
        saturate(policies[i]);
        executor_submit(&executor, &one_more.task);
        executor_count(&executor, &counters);
        for (int j = 0; j < 3; j++)
            cr_assert_eq(counters_get(&counters, expected[j]), i == j, "%s", policies[i]->name);
        cr_assert_eq(counters_get(&counters, COUNTER_MAX_THREADS), 1);
        cr_assert_eq(counters_get(&counters, COUNTER_TASKS_COMPLETED), 0);
        gate_let(1);
        AWAIT(executor_stats(&executor).completed == 2);
        executor_count(&executor, &counters);
        cr_assert_eq(counters_get(&counters, COUNTER_TASKS_COMPLETED), 2);
        finish();
    }
}

/* The first task starts at once, the second when the first has let it, which is late. */
Test(executor, what_has_waited_too_long_is_late)
{
    struct job jobs[2];
    struct executor_settings settings =
        settings_of(1, 1, &task_queue_unbounded, 0, &saturation_abort);
    settings.max_wait = 500; /* a thread starts in less, however busy the machine is */
    executor_open(&executor, &settings);
    jobs_init(jobs, 2, true);
    submit_all(jobs, 2);
    int64_t since = clock_ms();
    AWAIT(clock_ms() > since + 600);
    gate_let(2);
    AWAIT(executor_stats(&executor).completed == 2);
    cr_assert_not(jobs[0].task.late);
    cr_assert(jobs[1].task.late);
    cr_assert_eq(executor_stats(&executor).late, 1);
    jobs_init(jobs, 1, false);
    submit_all(jobs, 1);
    AWAIT(executor_stats(&executor).completed == 3);
    cr_assert_not(jobs[0].task.late, "a worker waited for it");
    jobs_init(jobs, 1, false);
    cr_assert(executor_insist(&executor, &jobs[0].task));
    AWAIT(executor_stats(&executor).completed == 4);
    cr_assert_not(jobs[0].task.late, "its waiting has only begun");
    finish();
}

/* ---- shutdown ---- */

/* The thread is woken twice, for the task and for the end: the task comes first. */
Test(executor, an_orderly_shutdown_runs_what_was_submitted_a_moment_before)
{
    for (int round = 0; round < 200; round++) {
        struct job jobs[2];
        open_with(1, 1, &task_queue_unbounded, 0, &saturation_abort);
        jobs_init(jobs, 2, false);
        cr_assert(executor_submit(&executor, &jobs[0].task));
        AWAIT(executor_stats(&executor).idle == 1);
        cr_assert(executor_submit(&executor, &jobs[1].task));
        finish();
        expect_fate(&jobs[1], 1, 0);
    }
}

Test(executor, shutdown_without_a_thread_is_complete_at_once)
{
    open_with(4, 4, &task_queue_unbounded, 0, &saturation_abort);
    executor_shutdown(&executor, true);
    cr_assert(ends_until(clock_ms()));
    executor_close(&executor);
}

Test(executor, shutdown_releases_a_blocked_submitter)
{
    for (int now = 0; now < 2; now++) {
        struct job jobs[3];
        struct submission submissions[3];
        saturate(&saturation_block);
        jobs_init(jobs, 3, false);
        for (int i = 0; i < 3; i++)
            submit_in_thread(&submissions[i], &jobs[i]);
        AWAIT(executor_stats(&executor).blocked == 3);
        executor_shutdown(&executor, now);
        for (int i = 0; i < 3; i++) {
            expect_result(&submissions[i], false);
            expect_fate(&jobs[i], 0, 0);
        }
        let_and_finish();
        expect_fate(&oldest, !now, now);
    }
}

/* ---- once, and only once ---- */

/* A task that submits itself again, until it has run often enough. */
struct returning {
    struct job job;
    int rounds;
    atomic_bool refused;
};

static void run_and_return(struct task *task)
{
    struct returning *returning = (struct returning *)task;
    bool again = atomic_fetch_add(&returning->job.runs, 1) + 1 < returning->rounds;
    if (again && !executor_submit(&executor, task))
        atomic_store(&returning->refused, true);
}

Test(executor, a_task_may_submit_itself_again)
{
    static const struct task_verbs returning_verbs = {run_and_return, job_dropped};
    enum { TASKS = 4, ROUNDS = 5000 };
    struct returning returning[TASKS];
    open_with(2, 2, &task_queue_unbounded, 0, &saturation_abort);
    for (int i = 0; i < TASKS; i++) {
        returning[i] = (struct returning){.rounds = ROUNDS};
        jobs_init(&returning[i].job, 1, false);
        returning[i].job.task.verbs = &returning_verbs;
        cr_assert(executor_submit(&executor, &returning[i].job.task));
    }
    AWAIT(executor_stats(&executor).completed == TASKS * ROUNDS);
    finish();
    for (int i = 0; i < TASKS; i++) {
        cr_assert_not(atomic_load(&returning[i].refused));
        expect_fate(&returning[i].job, ROUNDS, 0);
    }
}

enum {
    SUBMITTERS = 8,
    EACH = 400,
};

/* A thread that submits jobs as fast as it can. */
struct producer {
    struct job *jobs;
    bool accepted[EACH];
    atomic_int submitted;
    atomic_bool done;
    pthread_t thread;
};

static void *produce(void *argument)
{
    struct producer *producer = argument;
    for (int i = 0; i < EACH; i++) {
        producer->accepted[i] = executor_submit(&executor, &producer->jobs[i].task);
        atomic_fetch_add(&producer->submitted, 1);
    }
    atomic_store(&producer->done, true);
    return NULL;
}

/* Eight of them; if shutdown_at is not negative, an immediate shutdown after so many jobs. */
static void produce_with(const struct executor_settings *settings, int shutdown_at)
{
    static struct job jobs[SUBMITTERS][EACH];
    static struct producer producers[SUBMITTERS];
    executor_open(&executor, settings);
    for (int i = 0; i < SUBMITTERS; i++) {
        jobs_init(jobs[i], EACH, false);
        for (int j = 0; j < EACH; j++)
            jobs[i][j].task.urgent = (i + j) % 3 == 0;
        producers[i] = (struct producer){.jobs = jobs[i]};
        cr_assert_eq(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    if (shutdown_at >= 0) {
        AWAIT(atomic_load(&producers[0].submitted) >= shutdown_at);
        executor_shutdown(&executor, true);
    }
    for (int i = 0; i < SUBMITTERS; i++) {
        AWAIT_OR(atomic_load(&producers[i].done), "%s, %s: a submitter does not return",
                 settings->queue_kind->name, settings->policy->name);
        pthread_join(producers[i].thread, NULL);
    }
    finish();

    uint64_t accepted = 0;
    for (int i = 0; i < SUBMITTERS; i++) {
        for (int j = 0; j < EACH; j++) {
            int fates = atomic_load(&jobs[i][j].runs) + atomic_load(&jobs[i][j].drops);
            accepted += producers[i].accepted[j];
            cr_assert_eq(fates, producers[i].accepted[j],
                         "%s, %s: a job that was %s was run %d times and dropped %d times",
                         settings->queue_kind->name, settings->policy->name,
                         producers[i].accepted[j] ? "accepted" : "refused",
                         atomic_load(&jobs[i][j].runs), atomic_load(&jobs[i][j].drops));
        }
    }
    const struct executor_stats *stats = &executor.stats;
    cr_assert_eq(stats->completed + stats->run_by_caller + stats->discarded, accepted);
    if (shutdown_at < 0)
        cr_assert_eq(accepted + stats->aborted, SUBMITTERS * EACH);
    cr_assert_leq(stats->max_threads, settings->max);
}

/* With each kind of queue; keep-alive 0, so that threads come and go. */
static void produce_under(const struct saturation_policy *policy, int shutdown_at)
{
    for (int i = 0; i < KINDS; i++) {
        struct executor_settings settings = settings_of(1, 3, kinds[i], 3, policy);
        settings.keep_alive = 0;
        produce_with(&settings, shutdown_at);
    }
}

ParameterizedTestParameters(executor, each_task_once_under_each_policy)
{
    static size_t all[POLICIES] = {0, 1, 2, 3, 4};
    return cr_make_param_array(size_t, all, POLICIES);
}

ParameterizedTest(size_t *policy, executor, each_task_once_under_each_policy)
{
    produce_under(policies[*policy], -1);
}

Test(executor, each_task_once_though_it_is_shut_down)
{
    for (int i = 0; i < POLICIES; i++)
        produce_under(policies[i], EACH / 4);
}
