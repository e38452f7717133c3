#include "workers.h"

#include "common/base/thread.h"
#include "handler.h"

/* Takes the first of the queue; sleeps while it is empty. NULL: nothing comes any more. */
static struct handler *workers_next(struct workers *workers)
{
    mutex_lock(&workers->lock);
    while (workers->waiting == 0 && !workers->end)
        condition_wait(&workers->work, &workers->lock);
    struct handler *handler = NULL;
    if (workers->waiting > 0) {
        handler = workers->first;
        workers->first = handler->next;
        workers->waiting--;
    }
    mutex_unlock(&workers->lock);
    return handler;
}

/* Each worker's thread. */
static void *workers_run(void *argument)
{
    struct workers *workers = argument;
    struct handler *handler;
    thread_holds_no_lock_yet();
    thread_set_name("worker");
    while ((handler = workers_next(workers)) != NULL) {
        handler_call(handler);
        handler_hand_back(handler);
    }
    return NULL;
}

int workers_start(struct workers *workers)
{
    int error = 0;
    *workers = (struct workers){0};
    mutex_init(&workers->lock);
    condition_init(&workers->work);
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

bool workers_take(struct workers *workers, struct handler *handler)
{
    mutex_lock(&workers->lock);
    bool room = workers->waiting < QUEUE_MAX;
    if (room) {
        handler->next = NULL;
        if (workers->waiting++ == 0)
            workers->first = handler;
        else
            workers->last->next = handler;
        workers->last = handler;
    }
    mutex_unlock(&workers->lock);
    if (room)
        condition_signal(&workers->work);
    return room;
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
