/*
 * Where tasks wait for a worker: the kinds of task queue that Lea's "Using PooledExecutor" lists.
 *
 *   direct      holds nothing: a task is taken only by a worker that waits for one (a hand-off)
 *   bounded:N   holds N tasks, first in, first out
 *   unbounded   holds any number, first in, first out
 *   priority    holds any number; urgent tasks first, but every eighth is the one that has waited
 *               longest among the others, so that they do not starve
 *
 * A kind is a pair of verbs and nothing else. What is left to decide is the executor's; it offers
 * the queue only what no worker waits for.
 *
 * Interface:
 * - No lock of its own: the executor calls with its lock held.
 * - Tasks are linked through themselves: queueing allocates nothing and cannot fail for memory.
 */
#ifndef COMMON_TASK_QUEUE_H
#define COMMON_TASK_QUEUE_H

#include "common/base/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task;

enum {
    /** A moment keeps its lower 30 bits in a task: no wait is longer than twelve days. */
    TASK_SINCE_MASK = (1 << 30) - 1,
};

struct task_verbs {
    /** The work: called once for each time the task was accepted, unless dropped is. */
    void (*run)(struct task *self);
    /** Called instead of run if an accepted task will not run after all. */
    void (*dropped)(struct task *self);
};

/** A piece of work, embedded in what it works on. */
struct task {
    const struct task_verbs *verbs;
    struct task *next; /* the queue's; its owner's while it is in none */
    int fd;            /* of the connection that it is for, for traces and for main's looks */
    /* There may be a hundred thousand tasks, so these share a word. */
    bool urgent : 1;     /* goes first in a priority queue */
    bool late : 1;       /* when run is called: it has waited longer than the executor's max_wait */
    unsigned since : 30; /* when it was submitted, in ms; the executor's */
};

/** Runs a task. Its owner may call an application in it, or free it. */
static inline void task_run(struct task *task) NO_LOCK_HELD
{
    task->verbs->run(task);
}

/** Lets the owner of an accepted task know that it will not run. */
static inline void task_drop(struct task *task) NO_LOCK_HELD
{
    task->verbs->dropped(task);
}

/** Tasks in order, first in, first out. All zero: none. */
struct task_list {
    struct task *first;
    struct task *last;
};

/** Adds a task at the end. */
void task_list_append(struct task_list *list, struct task *task);

/** Takes the first task out; NULL if there is none. */
struct task *task_list_remove_first(struct task_list *list);

struct task_queue_kind;

struct task_queue {
    const struct task_queue_kind *kind;
    size_t limit;             /* for a bounded queue */
    size_t length;            /* tasks that wait */
    unsigned urgent_in_a_row; /* taken since the last one that was not */
    struct task_list urgent;
    struct task_list others;
};

struct task_queue_kind {
    const char *name;
    /** Takes a task in; false if it is full. */
    bool (*offer)(struct task_queue *queue, struct task *task);
    /** Gives out the task whose turn it is. One waits at least. */
    struct task *(*take)(struct task_queue *queue);
};

extern const struct task_queue_kind task_queue_direct;
extern const struct task_queue_kind task_queue_bounded;
extern const struct task_queue_kind task_queue_unbounded;
extern const struct task_queue_kind task_queue_priority;

/** An empty queue. limit counts for the bounded kind only. */
void task_queue_init(struct task_queue *queue, const struct task_queue_kind *kind, size_t limit);

/** Takes a task in; false if it is full. */
bool task_queue_offer(struct task_queue *queue, struct task *task);

/** Takes a task in, even if the kind or the limit would refuse it: true. */
bool task_queue_insist(struct task_queue *queue, struct task *task);

/** Gives out the task whose turn it is; NULL if none waits. */
struct task *task_queue_take(struct task_queue *queue);

#endif
