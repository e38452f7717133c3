/*
 * Threads that change what connections want to hear of: see changers.h.
 */
#include "changers.h"

#include "common/events/selector.h"

#include <criterion/criterion.h>
#include <pthread.h>

enum { MOST_CHANGERS = 16 };

struct changer {
    struct recorder *recorder;
    int changes;
    pthread_t thread;
};

static void *change(void *argument)
{
    const struct changer *changer = argument;
    struct channel_facade *facade = recorder_facade(changer->recorder);
    for (int i = 0; i < changer->changes; i += 2) {
        channel_suspend(facade);
        channel_resume(facade);
    }
    return NULL;
}

void changers_run(struct recorder recorders[], int count, int changes)
{
    struct changer changers[MOST_CHANGERS];
    cr_assert_leq(count, MOST_CHANGERS);
    for (int i = 0; i < count; i++) {
        changers[i] = (struct changer){.recorder = &recorders[i], .changes = changes};
        cr_assert_eq(pthread_create(&changers[i].thread, NULL, change, &changers[i]), 0);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(changers[i].thread, NULL);
    }
}
