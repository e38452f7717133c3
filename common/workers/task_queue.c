#include "common/workers/task_queue.h"

#include "common/base/trace.h"

enum {
    URGENT_IN_A_ROW = 7, /* then one of the others gets its turn */
};

void task_list_append(struct task_list *list, struct task *task)
{
    task->next = NULL;
    if (list->first == NULL)
        list->first = task;
    else
        list->last->next = task;
    list->last = task;
}

struct task *task_list_remove_first(struct task_list *list)
{
    struct task *task = list->first;
    if (task != NULL)
        list->first = task->next;
    return task;
}

static bool direct_offer(struct task_queue *queue, struct task *task)
{
    (void)queue;
    (void)task;
    return false;
}

static bool bounded_offer(struct task_queue *queue, struct task *task)
{
    if (queue->length >= queue->limit)
        return false;
    task_list_append(&queue->others, task);
    return true;
}

static bool unbounded_offer(struct task_queue *queue, struct task *task)
{
    task_list_append(&queue->others, task);
    return true;
}

static bool priority_offer(struct task_queue *queue, struct task *task)
{
    task_list_append(task->urgent ? &queue->urgent : &queue->others, task);
    return true;
}

static struct task *first_in_first_out(struct task_queue *queue)
{
    return task_list_remove_first(&queue->others);
}

static struct task *priority_take(struct task_queue *queue)
{
    bool others_turn = queue->urgent_in_a_row >= URGENT_IN_A_ROW && queue->others.first != NULL;
    if (queue->urgent.first == NULL || others_turn) {
        queue->urgent_in_a_row = 0;
        return task_list_remove_first(&queue->others);
    }
    queue->urgent_in_a_row++;
    return task_list_remove_first(&queue->urgent);
}

const struct task_queue_kind task_queue_direct = {"direct", direct_offer, first_in_first_out};
const struct task_queue_kind task_queue_bounded = {"bounded", bounded_offer, first_in_first_out};
const struct task_queue_kind task_queue_unbounded = {"unbounded", unbounded_offer,
                                                     first_in_first_out};
const struct task_queue_kind task_queue_priority = {"priority", priority_offer, priority_take};

void task_queue_init(struct task_queue *queue, const struct task_queue_kind *kind, size_t limit)
{
    *queue = (struct task_queue){.kind = kind, .limit = limit};
}

bool task_queue_offer(struct task_queue *queue, struct task *task)
{
    if (!queue->kind->offer(queue, task))
        return false;
    trace_event(TRACE_TASK_QUEUED, task->fd, (intptr_t)task);
    queue->length++;
    return true;
}

bool task_queue_insist(struct task_queue *queue, struct task *task)
{
    trace_event(TRACE_TASK_QUEUED, task->fd, (intptr_t)task);
    task_list_append(&queue->others, task);
    queue->length++;
    return true;
}

struct task *task_queue_take(struct task_queue *queue)
{
    if (queue->length == 0)
        return NULL;
    queue->length--;
    return queue->kind->take(queue);
}
