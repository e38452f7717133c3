/*
 * The kinds of task queue: what each takes, and in which order it gives it out again. Random steps
 * compare each with a model, a plain array; what a user types, and an example of the priority, have
 * tests of their own.
 */
#include "common/workers/task_queue.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(task_queue, .timeout = 120);

enum {
    MANY = 100,
};

static const struct task_queue_kind *const kinds[] = {&task_queue_direct, &task_queue_bounded,
                                                      &task_queue_unbounded, &task_queue_priority};

/* The task's place among those of the test; -1 for none. */
static int number(const struct task *task, const struct task *tasks)
{
    return task == NULL ? -1 : (int)(task - tasks);
}

/* Takes everything out: 'u' for a task that is urgent, '.' for one that is not. */
static const char *urgency(struct task_queue *queue, size_t most)
{
    static char text[MANY + 1];
    size_t length = 0;
    for (struct task *task; length < most && (task = task_queue_take(queue)) != NULL;)
        text[length++] = task->urgent ? 'u' : '.';
    text[length] = '\0';
    return text;
}

static void offer_all(struct task_queue *queue, struct task *tasks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert(task_queue_offer(queue, &tasks[i]), "task %zu", i);
}

/* A task still carries the link of the list it was in last, here the other one. */
Test(task_queue, a_list_is_first_in_first_out)
{
    struct task_list lists[2] = {{0}};
    struct task tasks[3];
    for (int round = 0; round < 4; round++) {
        struct task_list *list = &lists[round % 2];
        cr_assert_null(task_list_remove_first(list));
        for (int i = 0; i < 3; i++)
            task_list_append(list, &tasks[i]);
        for (int i = 0; i < 3; i++)
            cr_assert_eq(number(task_list_remove_first(list), tasks), i, "round %d", round);
        cr_assert_null(task_list_remove_first(list));
    }
}

Test(task_queue, kinds_have_the_names_that_users_type)
{
    cr_assert_str_eq(task_queue_direct.name, "direct");
    cr_assert_str_eq(task_queue_bounded.name, "bounded");
    cr_assert_str_eq(task_queue_unbounded.name, "unbounded");
    cr_assert_str_eq(task_queue_priority.name, "priority");
}

/* ---- random steps, against a model ---- */

/* What waits, in the order in which it came, and how many urgent ones went since another one did.
 * What was insisted on is not urgent. */
static struct {
    struct {
        struct task *task;
        bool urgent;
    } waiting[MANY];
    size_t count;
    size_t in_a_row;
} model;

/* The first that waits and is urgent, or is not; the number that wait if there is none. */
static size_t first_of(bool urgent)
{
    size_t i = 0;
    while (i < model.count && model.waiting[i].urgent != urgent)
        i++;
    return i;
}

static struct task *model_take(const struct task_queue_kind *kind)
{
    size_t turn = 0;
    if (model.count == 0)
        return NULL;
    if (kind == &task_queue_priority) {
        size_t urgent = first_of(true), other = first_of(false);
        bool is_others = urgent == model.count || (other < model.count && model.in_a_row >= 7);
        turn = is_others ? other : urgent;
        model.in_a_row = is_others ? 0 : model.in_a_row + 1;
    }
    struct task *task = model.waiting[turn].task;
    memmove(&model.waiting[turn], &model.waiting[turn + 1],
            (--model.count - turn) * sizeof(model.waiting[0]));
    return task;
}

static bool model_has_room(const struct task_queue *queue)
{
    return queue->kind != &task_queue_direct &&
           (queue->kind != &task_queue_bounded || model.count < queue->limit);
}

/* Each of the tasks waits or is one of `idle`, from which a step takes it at random. It comes more
 * often than one goes, or less: then the queue is mostly long, or mostly empty. */
static void take_steps(const struct task_queue_kind *kind, struct rng *rng)
{
    static struct task tasks[MANY];
    struct task *idle[MANY];
    struct task_queue queue;
    size_t bias = rng_between(rng, 1, 3), urgent = rng_between(rng, 0, 4);
    memset(&queue, 0xa5, sizeof(queue));
    memset(&model, 0, sizeof(model));
    task_queue_init(&queue, kind, rng_below(rng, 8));
    for (size_t i = 0; i < MANY; i++)
        idle[i] = &tasks[i];
    for (int step = 0; step < 2000; step++) {
        if (rng_below(rng, 4) < bias && model.count < MANY) {
            struct task **place = &idle[rng_below(rng, MANY - model.count)], *task = *place;
            bool insists = rng_below(rng, 8) == 0, taken = insists || model_has_room(&queue);
            task->urgent = rng_below(rng, 4) < urgent;
            cr_assert_eq((insists ? task_queue_insist : task_queue_offer)(&queue, task), taken,
                         "%s, limit %zu, step %d: %d", kind->name, queue.limit, step, !taken);
            if (taken) {
                *place = idle[MANY - 1 - model.count];
                model.waiting[model.count].task = task;
                model.waiting[model.count++].urgent = task->urgent && !insists;
            }
        } else {
            struct task *expected = model_take(kind), *task = task_queue_take(&queue);
            cr_assert_eq(task, expected, "%s, limit %zu, step %d: task %d, not %d", kind->name,
                         queue.limit, step, number(task, tasks), number(expected, tasks));
            if (task != NULL)
                idle[MANY - 1 - model.count] = task;
        }
        cr_assert_eq(queue.length, model.count, "%s, limit %zu, step %d: %zu wait, not %zu",
                     kind->name, queue.limit, step, queue.length, model.count);
    }
}

Test(task_queue, each_kind_takes_and_gives_what_its_rule_says)
{
    struct rng rng = rng_from(1);
    for (int round = 0; round < 80; round++)
        take_steps(kinds[round % 4], &rng);
}

/* ---- bounded ---- */

Test(task_queue, bounded_has_room_again_after_a_take)
{
    struct task_queue queue;
    struct task tasks[4];
    task_queue_init(&queue, &task_queue_bounded, 2);
    offer_all(&queue, tasks, 2);
    cr_assert_eq(number(task_queue_take(&queue), tasks), 0);
    cr_assert(task_queue_offer(&queue, &tasks[2]));
    cr_assert_not(task_queue_offer(&queue, &tasks[3]));
    cr_assert_eq(number(task_queue_take(&queue), tasks), 1);
    cr_assert_eq(number(task_queue_take(&queue), tasks), 2);
    cr_assert_eq(number(task_queue_take(&queue), tasks), -1);
}

/* ---- priority ---- */

/* A queue of so many urgent tasks, and so many others. */
static void fill_priority(struct task_queue *queue, struct task *tasks, size_t urgent,
                          size_t others)
{
    task_queue_init(queue, &task_queue_priority, 1);
    for (size_t i = 0; i < urgent + others; i++)
        tasks[i] = (struct task){.urgent = i < urgent};
    offer_all(queue, tasks + urgent, others); /* they were there first */
    offer_all(queue, tasks, urgent);
}

Test(task_queue, priority_gives_every_eighth_to_the_others)
{
    struct task_queue queue;
    struct task tasks[MANY];
    fill_priority(&queue, tasks, 24, 5);
    cr_assert_str_eq(urgency(&queue, MANY), "uuuuuuu."
                                            "uuuuuuu."
                                            "uuuuuuu."
                                            "uuu..");
}

/* Urgent tasks while nobody else waits count, too: who comes then has its turn at once. */
Test(task_queue, priority_lets_in_who_comes_after_a_long_run_of_urgent_ones)
{
    struct task_queue queue;
    struct task tasks[MANY];
    struct task late = {0};
    fill_priority(&queue, tasks, 30, 0);
    cr_assert_str_eq(urgency(&queue, 20), "uuuuuuuuuuuuuuuuuuuu");
    cr_assert(task_queue_offer(&queue, &late));
    cr_assert_str_eq(urgency(&queue, MANY), ".uuuuuuuuuu");
}
