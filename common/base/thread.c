#include "common/base/thread.h"

#include "common/base/trace.h"

#include <limits.h>
#include <stdio.h>

/* Some systems want more than we do. */
static size_t stack_size(void)
{
    size_t min = (size_t)PTHREAD_STACK_MIN;
    return THREAD_STACK_SIZE > min ? THREAD_STACK_SIZE : min;
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    pthread_t nobody_joins;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    error = pthread_attr_setstacksize(&attributes, stack_size());
    if (error == 0 && thread == NULL)
        error = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (error == 0)
        error = pthread_create(thread != NULL ? thread : &nobody_joins, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    return error;
}

void thread_set_name(const char *name)
{
    char cut[THREAD_NAME_SIZE];
    snprintf(cut, sizeof(cut), "%s", name);
    pthread_setname_np(pthread_self(), cut);
    trace_thread(cut);
}

void thread_name(char name[THREAD_NAME_SIZE])
{
    if (pthread_getname_np(pthread_self(), name, THREAD_NAME_SIZE) != 0)
        snprintf(name, THREAD_NAME_SIZE, "?");
}
