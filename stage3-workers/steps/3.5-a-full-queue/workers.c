#include "workers.h"

#include "common/base/thread.h"

/* Takes the first of the queue; sleeps while it is empty. NULL: nothing comes any more. */
static struct task *workers_next(struct workers *workers)
{
    struct task *task;
    mutex_lock(&workers->lock);
    while ((task = task_queue_take(&workers->queue)) == NULL && !workers->end)
        condition_wait(&workers->work, &workers->lock);
    mutex_unlock(&workers->lock);
    return task;
}

/* Each worker's thread. */
static void *workers_run(void *argument)
{
    struct workers *workers = argument;
    struct task *task;
    thread_holds_no_lock_yet();
    thread_set_name("worker");
    while ((task = workers_next(workers)) != NULL)
        task_run(task);
    return NULL;
}

int workers_start(struct workers *workers)
{
    int error = 0;
    *workers = (struct workers){0};
    mutex_init(&workers->lock);
    condition_init(&workers->work);
    task_queue_init(&workers->queue, &task_queue_bounded, QUEUE_MAX);
    while (workers->started < WORKERS && error == 0) {
        error = thread_start(&workers->threads[workers->started], workers_run, workers);
        if (error == 0)
            workers->started++;
    }
    if (workers->started > 0)
        return 0;
    condition_destroy(&workers->work);
    mutex_destroy(&workers->lock);
    return error;
}

void workers_take(struct workers *workers, struct task_list *tasks)
{
    struct task_list refused = {0};
    mutex_lock(&workers->lock);
    while (tasks->first != NULL) {
        struct task *task = task_list_remove_first(tasks);
        if (task_queue_offer(&workers->queue, task))
            condition_signal(&workers->work);
        else
            task_list_append(&refused, task);
    }
    mutex_unlock(&workers->lock);
    *tasks = refused;
}

void workers_end(struct workers *workers)
{
    mutex_lock(&workers->lock);
    workers->end = true;
    mutex_unlock(&workers->lock);
    condition_broadcast(&workers->work);
    for (size_t i = 0; i < workers->started; i++)
        pthread_join(workers->threads[i], NULL);
    condition_destroy(&workers->work);
    mutex_destroy(&workers->lock);
}
