/*
 * The kinds of task queue: what each takes, and in which order it gives it out again.
 */
#include "common/workers/task_queue.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(task_queue, .timeout = 60);

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

/* Takes everything out: 'a' for the first of the tasks, 'b' for the second, and so on. */
static const char *order(struct task_queue *queue, const struct task *tasks)
{
    static char text[MANY + 1];
    size_t length = 0;
    for (struct task *task; (task = task_queue_take(queue)) != NULL && length < MANY;)
        text[length++] = (char)('a' + (task - tasks));
    text[length] = '\0';
    return text;
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

/* ---- lists ---- */

Test(task_queue, a_list_is_first_in_first_out)
{
    struct task_list list = {0};
    struct task tasks[3];
    cr_assert_null(task_list_remove_first(&list));
    for (int i = 0; i < 3; i++)
        task_list_append(&list, &tasks[i]);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(number(task_list_remove_first(&list), tasks), i);
    cr_assert_null(task_list_remove_first(&list));
}

Test(task_queue, a_list_that_was_emptied_is_used_again)
{
    struct task_list list = {0};
    struct task tasks[2];
    for (int round = 0; round < 3; round++) {
        task_list_append(&list, &tasks[0]);
        cr_assert_eq(task_list_remove_first(&list), &tasks[0]);
        cr_assert_null(task_list_remove_first(&list));
        task_list_append(&list, &tasks[1]);
        task_list_append(&list, &tasks[0]);
        cr_assert_eq(task_list_remove_first(&list), &tasks[1]);
        cr_assert_eq(task_list_remove_first(&list), &tasks[0]);
    }
}

/* A task still carries the link of the queue it was in last. */
Test(task_queue, a_task_may_come_from_another_list)
{
    struct task_list first = {0};
    struct task_list second = {0};
    struct task tasks[3];
    for (int i = 0; i < 3; i++)
        task_list_append(&first, &tasks[i]);
    task_list_append(&second, task_list_remove_first(&first));
    cr_assert_eq(task_list_remove_first(&second), &tasks[0]);
    cr_assert_null(task_list_remove_first(&second));
    cr_assert_eq(task_list_remove_first(&first), &tasks[1]);
}

/* ---- all kinds ---- */

Test(task_queue, a_new_one_is_empty)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct task_queue queue;
        memset(&queue, 0xa5, sizeof(queue));
        task_queue_init(&queue, kinds[i], 5);
        cr_assert_eq(queue.length, 0, "%s", kinds[i]->name);
        cr_assert_null(task_queue_take(&queue), "%s", kinds[i]->name);
        cr_assert_eq(queue.length, 0, "%s: taking nothing", kinds[i]->name);
    }
}

Test(task_queue, kinds_have_the_names_that_users_type)
{
    cr_assert_str_eq(task_queue_direct.name, "direct");
    cr_assert_str_eq(task_queue_bounded.name, "bounded");
    cr_assert_str_eq(task_queue_unbounded.name, "unbounded");
    cr_assert_str_eq(task_queue_priority.name, "priority");
}

Test(task_queue, length_is_what_waits)
{
    for (size_t i = 1; i < sizeof(kinds) / sizeof(kinds[0]); i++) { /* direct keeps none */
        struct task_queue queue;
        struct task tasks[5] = {{.urgent = true}, {0}, {.urgent = true}};
        task_queue_init(&queue, kinds[i], 5);
        for (size_t j = 0; j < 5; j++) {
            cr_assert(task_queue_offer(&queue, &tasks[j]), "%s", kinds[i]->name);
            cr_assert_eq(queue.length, j + 1, "%s", kinds[i]->name);
        }
        for (size_t j = 5; j > 0; j--) {
            cr_assert_not_null(task_queue_take(&queue), "%s", kinds[i]->name);
            cr_assert_eq(queue.length, j - 1, "%s", kinds[i]->name);
        }
        cr_assert_null(task_queue_take(&queue), "%s", kinds[i]->name);
    }
}

/* Against a plain array, for all kinds that keep the order of arrival. */
Test(task_queue, first_in_first_out_at_random)
{
    for (size_t kind = 1; kind < 3; kind++) {
        struct rng rng = rng_from(kind + 1);
        struct task_queue queue;
        struct task tasks[MANY];
        size_t in = 0;
        size_t out = 0;
        task_queue_init(&queue, kinds[kind], MANY);
        for (int step = 0; step < 20000; step++) {
            if (in - out < MANY && rng_below(&rng, 2) == 0) {
                cr_assert(task_queue_offer(&queue, &tasks[in % MANY]));
                in++;
            } else if (in > out) {
                cr_assert_eq(task_queue_take(&queue), &tasks[out % MANY], "%s, step %d",
                             kinds[kind]->name, step);
                out++;
            }
            cr_assert_eq(queue.length, in - out, "%s, step %d", kinds[kind]->name, step);
        }
    }
}

/* ---- direct ---- */

Test(task_queue, direct_takes_nothing_but_what_is_insisted_on)
{
    struct task_queue queue;
    struct task tasks[2];
    task_queue_init(&queue, &task_queue_direct, 5);
    cr_assert_not(task_queue_offer(&queue, &tasks[0]));
    cr_assert_eq(queue.length, 0);
    task_queue_insist(&queue, &tasks[1]);
    cr_assert_not(task_queue_offer(&queue, &tasks[0]));
    cr_assert_eq(queue.length, 1);
    cr_assert_str_eq(order(&queue, tasks), "b");
}

/* ---- bounded ---- */

Test(task_queue, bounded_takes_as_many_as_its_limit)
{
    static const size_t limits[] = {0, 1, 2, 7};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct task_queue queue;
        struct task tasks[8];
        task_queue_init(&queue, &task_queue_bounded, limits[i]);
        offer_all(&queue, tasks, limits[i]);
        cr_assert_not(task_queue_offer(&queue, &tasks[7]), "limit %zu", limits[i]);
        cr_assert_eq(queue.length, limits[i]);
        cr_assert_eq(strlen(order(&queue, tasks)), limits[i]);
    }
}

Test(task_queue, bounded_has_room_again_after_a_take)
{
    struct task_queue queue;
    struct task tasks[4];
    task_queue_init(&queue, &task_queue_bounded, 2);
    offer_all(&queue, tasks, 2);
    cr_assert_eq(number(task_queue_take(&queue), tasks), 0);
    cr_assert(task_queue_offer(&queue, &tasks[2]));
    cr_assert_not(task_queue_offer(&queue, &tasks[3]));
    cr_assert_str_eq(order(&queue, tasks), "bc");
}

/* ---- unbounded ---- */

Test(task_queue, unbounded_is_never_full)
{
    static struct task tasks[10000];
    struct task_queue queue;
    task_queue_init(&queue, &task_queue_unbounded, 1);
    offer_all(&queue, tasks, 10000);
    cr_assert_eq(queue.length, 10000);
    for (int i = 0; i < 10000; i++)
        cr_assert_eq(number(task_queue_take(&queue), tasks), i);
}

Test(task_queue, only_priority_looks_at_urgency)
{
    for (size_t i = 1; i < 3; i++) {
        struct task_queue queue;
        struct task tasks[4] = {{0}, {.urgent = true}, {0}, {.urgent = true}};
        task_queue_init(&queue, kinds[i], 4);
        for (size_t j = 0; j < 4; j++)
            cr_assert(task_queue_offer(&queue, &tasks[j]));
        cr_assert_str_eq(order(&queue, tasks), "abcd", "%s", kinds[i]->name);
    }
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

Test(task_queue, priority_gives_urgent_tasks_first)
{
    struct task_queue queue;
    struct task tasks[6] = {{0}, {.urgent = true}, {0}, {.urgent = true}, {.urgent = true}, {0}};
    task_queue_init(&queue, &task_queue_priority, 0);
    offer_all(&queue, tasks, 6);
    cr_assert_str_eq(order(&queue, tasks), "bdeacf");
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

/* Each of the two keeps the order in which its tasks came. */
Test(task_queue, priority_gives_to_who_has_waited_longest)
{
    struct task_queue queue;
    struct task tasks[MANY];
    size_t next_urgent = 0;
    size_t next_other = 16;
    fill_priority(&queue, tasks, 16, 8);
    for (struct task *task; (task = task_queue_take(&queue)) != NULL;) {
        size_t *next = task->urgent ? &next_urgent : &next_other;
        cr_assert_eq(number(task, tasks), (int)*next);
        (*next)++;
    }
    cr_assert_eq(next_urgent, 16);
    cr_assert_eq(next_other, 24);
}

Test(task_queue, priority_owes_the_others_nothing_once_they_had_a_turn)
{
    struct task_queue queue;
    struct task tasks[MANY];
    struct task more[10];
    fill_priority(&queue, tasks, 4, 2);
    cr_assert_str_eq(urgency(&queue, MANY), "uuuu..");

    for (size_t i = 0; i < 10; i++)
        more[i] = (struct task){.urgent = i != 0};
    offer_all(&queue, more, 10);
    cr_assert_str_eq(urgency(&queue, MANY), "uuuuuuu.uu");
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

/* However many urgent ones keep coming, the others get their eighth. */
Test(task_queue, priority_starves_nobody)
{
    struct task_queue queue;
    struct task tasks[MANY];
    struct task urgent[MANY];
    size_t others = 0;
    fill_priority(&queue, tasks, 0, MANY);
    for (size_t i = 0; i < MANY; i++)
        urgent[i] = (struct task){.urgent = true};
    offer_all(&queue, urgent, MANY);
    for (int i = 0; i < 8 * 50; i++) {
        struct task *task = task_queue_take(&queue);
        others += !task->urgent;
        if (task->urgent)
            cr_assert(task_queue_offer(&queue, task));
    }
    cr_assert_eq(others, 50);
}

/* ---- what must not be lost ---- */

Test(task_queue, insisting_passes_every_limit)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct task_queue queue;
        struct task tasks[3] = {{0}};
        task_queue_init(&queue, kinds[i], 1);
        for (size_t j = 0; j < 3; j++)
            task_queue_insist(&queue, &tasks[j]);
        cr_assert_eq(queue.length, 3, "%s", kinds[i]->name);
        cr_assert_str_eq(order(&queue, tasks), "abc", "%s", kinds[i]->name);
        cr_assert_eq(queue.length, 0, "%s", kinds[i]->name);
    }
}

Test(task_queue, after_insisting_a_bounded_one_takes_nothing_until_it_is_below_its_limit)
{
    struct task_queue queue;
    struct task tasks[4];
    task_queue_init(&queue, &task_queue_bounded, 1);
    task_queue_insist(&queue, &tasks[0]);
    task_queue_insist(&queue, &tasks[1]);
    cr_assert_not(task_queue_offer(&queue, &tasks[2]));
    task_queue_take(&queue);
    cr_assert_not(task_queue_offer(&queue, &tasks[2]));
    task_queue_take(&queue);
    cr_assert(task_queue_offer(&queue, &tasks[2]));
    cr_assert_eq(number(task_queue_take(&queue), tasks), 2);
}
