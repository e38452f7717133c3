/*
 * How the framework makes the calls of posts and tasks (channel_calls.h). For the files that make
 * them, and for no application: in the context of the connection or the strand; a `dropped` also in
 * any thread, when that has ended. A post or a task is its owner's before the call, which may use
 * it again. The exchange also shows what a thread wrote before a channel_post() that returned
 * false.
 */
#ifndef COMMON_CHANNEL_CALLS_BACK_H
#define COMMON_CHANNEL_CALLS_BACK_H

#include "common/server/channel_calls.h"

static inline void channel_task_give_back(struct channel_task *task)
{
    bool was_taken = atomic_exchange(&task->begun, false);
    assert(was_taken); /* else its owner has written it while it was ours */
    (void)was_taken;
}

static inline void channel_post_give_back(struct channel_post *post)
{
    bool is_as_posted = atomic_exchange(&post->waits, NULL) == post->run;
    assert(is_as_posted); /* else its owner has written it while it was ours */
    (void)is_as_posted;
}

static inline void channel_task_complete(struct channel_task *task) NO_LOCK_HELD
{
    struct channel_facade *facade = task->facade;
    channel_task_give_back(task);
    task->completed(task, facade);
}

static inline void channel_task_drop(struct channel_task *task) NO_LOCK_HELD
{
    channel_task_give_back(task);
    if (task->dropped != NULL)
        task->dropped(task);
}

static inline void channel_post_run(struct channel_post *post) NO_LOCK_HELD
{
    struct channel_facade *facade = post->facade;
    channel_post_give_back(post);
    post->run(post, facade);
}

static inline void channel_post_drop(struct channel_post *post) NO_LOCK_HELD
{
    channel_post_give_back(post);
    if (post->dropped != NULL)
        post->dropped(post);
}

#endif
