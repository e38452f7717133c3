/*
 * What an executor does when it is full. Apart from the executor itself, so that a program without
 * workers can ask for the name of a policy.
 */
#ifndef COMMON_SATURATION_H
#define COMMON_SATURATION_H

#include <stdbool.h>

struct executor;
struct task;

/** What happens to a task that neither a thread nor the queue takes. */
struct saturation_policy {
    const char *name;
    bool drops; /* a task that was accepted may never run */
    /** Called with the lock held; holds it on return, and may release it in between. */
    bool (*saturated)(struct executor *executor, struct task *task);
};

#endif
