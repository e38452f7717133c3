/*
 * Many threads that change at the same time what connections want to hear of, as fast as they can:
 * what the status-change queue and the wakeups have to stand.
 */
#ifndef TESTS_INSIDE_CHANGERS_H
#define TESTS_INSIDE_CHANGERS_H

#include "recorder.h"

/**
 * As many threads as recorders: each suspends its own connection and resumes it, so many changes
 * in all, the last of which resumes. Returns when all have done so.
 */
void changers_run(struct recorder recorders[], int count, int changes);

#endif
