#include "workers.h"

#include "common/base/thread.h"
#include "handler.h"

/* Sleeps until there is something to do. NULL: nothing any more. */
static struct handler *workers_next(struct workers *workers)
{
    mutex_lock(&workers->lock);
    while (workers->job == NULL && !workers->end)
        condition_wait(&workers->work, &workers->lock);
    struct handler *job = workers->job;
    mutex_unlock(&workers->lock);
    return job;
}

static void workers_set_idle(struct workers *workers)
{
    mutex_lock(&workers->lock);
    workers->job = NULL;
    mutex_unlock(&workers->lock);
}

/* The worker's thread. */
static void *workers_run(void *argument)
{
    struct workers *workers = argument;
    struct handler *handler;
    thread_holds_no_lock_yet();
    thread_set_name("worker");
    while ((handler = workers_next(workers)) != NULL) {
        handler_call(handler);
        workers_set_idle(workers); /* before the reactor can have another job for it */
        handler_hand_back(handler);
    }
    return NULL;
}

int workers_start(struct workers *workers)
{
    *workers = (struct workers){0};
    mutex_init(&workers->lock);
    condition_init(&workers->work);
    int error = thread_start(&workers->thread, workers_run, workers);
    if (error != 0) {
        condition_destroy(&workers->work);
        mutex_destroy(&workers->lock);
    }
    return error;
}

bool workers_take(struct workers *workers, struct handler *handler)
{
    mutex_lock(&workers->lock);
    bool idle = workers->job == NULL;
    if (idle)
        workers->job = handler;
    mutex_unlock(&workers->lock);
    if (idle)
        condition_signal(&workers->work);
    return idle;
}

void workers_end(struct workers *workers)
{
    mutex_lock(&workers->lock);
    workers->end = true;
    mutex_unlock(&workers->lock);
    condition_signal(&workers->work);
    pthread_join(workers->thread, NULL);
    condition_destroy(&workers->work);
    mutex_destroy(&workers->lock);
}
