/*
 * As the framework makes the calls of posts and tasks (channel_calls.h). For the files that do, and
 * for no application: each is made once for a post or a task that was taken, in the context of the
 * connection or the strand, or in any thread when that has ended. It is its owner's again before
 * the call, which may use it anew; the exchange reads what the last channel_post() that came in
 * vain has written, so all that its thread had written before is seen.
 */
#ifndef COMMON_CHANNEL_CALLS_BACK_H
#define COMMON_CHANNEL_CALLS_BACK_H

#include "common/server/channel_calls.h"

static inline void channel_task_give_back(struct channel_task *task)
{
    bool was_taken = atomic_exchange(&task->begun, false);
    assert(was_taken); /* else its owner has written it meanwhile, which was not his */
    (void)was_taken;
}

static inline void channel_post_give_back(struct channel_post *post)
{
    bool is_as_posted = atomic_exchange(&post->waits, NULL) == post->run;
    assert(is_as_posted); /* else its owner has written it meanwhile, which was not his */
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
