/*
 * A pool of worker threads that run tasks (Lea, "Using PooledExecutor"; java.util.concurrent's
 * ThreadPoolExecutor, whose rules it follows).
 *
 * A task that is submitted goes, in this order, to
 *   1. a new thread, while there are fewer than `core`;
 *   2. a worker that sleeps, or else the task queue, if it takes it;
 *   3. a new thread, while there are fewer than `max`;
 *   4. the saturation policy.
 * So with an unbounded queue there are never more than `core` threads: the queue is never full.
 * Threads above core end when they have had nothing to do for the keep-alive time.
 *
 * Interface:
 * - All calls are safe from any thread, but executor_close() is the last.
 * - A task belongs to its owner, which keeps it alive until run or dropped was called, and does not
 *   submit it again before. Submitting allocates nothing (a new thread is the system's).
 * - run and dropped are called without any lock. run is called in a worker, or in the submitter
 *   under the policy caller-runs; dropped is called in the thread that drops the task.
 * - If a new thread cannot be started, the executor carries on with those it has. If that happens
 *   twice in a row, it does not try again for a moment: an attempt takes time, with the lock held.
 *   Only with no thread at all does it fail.
 */
#ifndef COMMON_EXECUTOR_H
#define COMMON_EXECUTOR_H

#include "common/base/counters.h"
#include "common/base/list.h"
#include "common/base/lock.h"
#include "common/base/thread.h"
#include "common/base/watched.h"
#include "common/bytes/buffer_factory.h"
#include "common/workers/saturation.h"
#include "common/workers/task_queue.h"

#include <stdatomic.h>

struct executor;

extern const struct saturation_policy saturation_abort;          /* the submitter gets false */
extern const struct saturation_policy saturation_block;          /* the submitter waits */
extern const struct saturation_policy saturation_caller_runs;    /* the submitter runs it */
extern const struct saturation_policy saturation_discard;        /* it is dropped */
extern const struct saturation_policy saturation_discard_oldest; /* the one next in turn is */

struct executor_settings {
    const char *name; /* of its threads, which are numbered; NULL: worker */
    size_t core;
    size_t max;         /* not less than core */
    int64_t keep_alive; /* ms */
    bool warm;          /* start the core threads at once, and not when there is a task for each */
    const struct task_queue_kind *queue_kind;
    size_t queue_limit; /* for the bounded kind */
    const struct saturation_policy *policy;
    uint32_t max_wait;              /* ms after which a task that begins is late; 0: it never is */
    struct buffer_factory *buffers; /* each worker has a segment_cache of it; NULL: none */
};

/** What an executor has done so far, and does at this moment. */
struct executor_stats {
    size_t threads;
    size_t max_threads; /* at any one time */
    size_t waiting;     /* tasks */
    size_t idle;        /* threads that sleep or start, but for those with a task promised */
    uint64_t completed;
    uint64_t aborted;
    uint64_t blocked; /* times that a submitter had to wait */
    uint64_t run_by_caller;
    uint64_t discarded;
    uint64_t late; /* began later than max_wait after they were submitted */
};

/** Where a worker is, for others to read: it takes no lock to say so. In the executor's list. */
struct executor_place {
    struct list_link link;
    char name[THREAD_NAME_SIZE];
    atomic_int fd;             /* of the connection that its task is for; -1: none */
    atomic_uint turn;          /* changes with each task */
    struct watched_place seen; /* whoever looks */
};

struct executor {
    struct executor_settings settings;
    struct mutex lock;
    struct condition work; /* a worker is called, or all are to end */
    struct condition room; /* a task was taken: a blocked submitter may try again */
    struct condition gone; /* the last thread has ended */
    struct task_list first_tasks GUARDED_BY(&lock); /* promised to workers that sleep or start */
    struct task_queue queue GUARDED_BY(&lock);
    size_t promised GUARDED_BY(&lock); /* how many those are: at most sleeping + starting */
    size_t sleeping GUARDED_BY(&lock); /* workers, until they have the lock again */
    size_t starting GUARDED_BY(&lock); /* workers that have not looked for a task yet */
    struct executor_stats stats GUARDED_BY(&lock); /* but waiting and idle: see executor_stats() */
    struct list_link places GUARDED_BY(&lock);     /* of its threads */
    atomic_size_t named;                           /* threads so far: worker 1, worker 2, ... */
    size_t submitters GUARDED_BY(&lock);           /* those that wait for room */
    bool closing GUARDED_BY(&lock);
    unsigned failed_starts GUARDED_BY(&lock); /* of threads, in a row */
    int64_t start_again GUARDED_BY(&lock); /* after more than one of these: not before that, ms */
};

/**
 * An executor. It has no thread before there is a task, unless its threads are to be warm: then a
 * task does not wait for the start of its thread. A warm thread that cannot be started is tried
 * again with a task.
 */
void executor_open(struct executor *executor, const struct executor_settings *settings);

/**
 * Has the task run, some time, by some thread. False: it was not accepted, by the policy abort or
 * because the executor is closing, and neither run nor dropped will be called. True: one of the two
 * is called, perhaps before this returns.
 */
bool executor_submit(struct executor *executor, struct task *task) EXCLUDES(any_lock);

/** Whether its queue gives out urgent tasks first, so that it is worthwhile to mark them. */
bool executor_has_priorities(const struct executor *executor);

/**
 * As executor_submit() for each task of the list, in this order, but takes the lock once for all of
 * them, and wakes a worker when it has released it. A thread that finds several tasks in a round
 * of its loop collects them in a list, which task_list_append() does without any lock. What was not
 * accepted is in the list when this returns.
 */
void executor_submit_all(struct executor *executor, struct task_list *tasks) EXCLUDES(any_lock);

/**
 * As executor_submit(), for what must not be lost: no limit and no policy keeps it out of the
 * queue, nor does it matter that the executor is closing; what waits for its end waits for this
 * task, too. It starts a thread while there are fewer than `core`. False only if there is not a
 * single thread and none can be started.
 */
bool executor_insist(struct executor *executor, struct task *task);

/**
 * Takes no more tasks. Those in the queue still run, or, if `now`, are dropped; those that run are
 * not disturbed. A submitter that is blocked returns.
 */
void executor_shutdown(struct executor *executor, bool now) EXCLUDES(any_lock);

/** Shuts down, if that has not been done yet, and waits until all threads have ended. */
void executor_end(struct executor *executor, bool now) EXCLUDES(any_lock);

/** Frees it. An executor that has not ended is ended first, and its queue is dropped. */
void executor_close(struct executor *executor) EXCLUDES(any_lock);

/** Brings the server's counters of tasks and workers up to date. */
void executor_count(struct executor *executor, struct counters *counters);

/** Calls `see` for each worker, with the lock held: it must not call the executor. */
void executor_look(struct executor *executor,
                   void (*see)(void *context, struct executor_place *place), void *context);

/** The same for a signal handler: does nothing if the lock is not free. */
void executor_try_look(struct executor *executor,
                       void (*see)(void *context, struct executor_place *place), void *context);

/** A copy of the counters, with what waits and who is idle at this moment. */
struct executor_stats executor_stats(struct executor *executor);

#endif
