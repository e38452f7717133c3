/*
 * How many connections there are, and whether one more is welcome: for an acceptor whose
 * connections end in other threads.
 *
 * Interface: all calls are safe from any thread.
 */
#ifndef COMMON_ADMISSION_H
#define COMMON_ADMISSION_H

#include "lock.h"

#include <stddef.h>

struct admission {
    struct mutex lock;
    size_t count GUARDED_BY(&lock);
    bool wanted GUARDED_BY(&lock); /* somebody waits for a place */
};

void admission_init(struct admission *admission);
void admission_destroy(struct admission *admission);

/** Whether there are fewer connections than most. If not, signals_ring() follows as one ends. */
bool admission_has_place(struct admission *admission, size_t most);

/** A connection begins, and is over. */
void admission_enter(struct admission *admission);
void admission_leave(struct admission *admission);

#endif
