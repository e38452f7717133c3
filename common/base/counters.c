#include "common/base/counters.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const names[COUNTERS] = {
    [COUNTER_ACCEPTED] = "accepted",
    [COUNTER_REJECTED] = "rejected",
    [COUNTER_CLOSED] = "closed",
    [COUNTER_TIMED_OUT] = "timed_out",
    [COUNTER_MESSAGES] = "messages",
    [COUNTER_TOO_LONG] = "too_long",
    [COUNTER_BYTES_IN] = "bytes_in",
    [COUNTER_BYTES_OUT] = "bytes_out",
    [COUNTER_WRITES] = "writes",
    [COUNTER_WAKEUPS_ASKED] = "wakeups_asked",
    [COUNTER_WAKEUPS_WRITTEN] = "wakeups_written",
    [COUNTER_TASKS_COMPLETED] = "tasks_completed",
    [COUNTER_TASKS_ABORTED] = "tasks_aborted",
    [COUNTER_TASKS_BLOCKED] = "tasks_blocked",
    [COUNTER_TASKS_BY_CALLER] = "tasks_by_caller",
    [COUNTER_TASKS_DISCARDED] = "tasks_discarded",
    [COUNTER_TASKS_LATE] = "tasks_late",
    [COUNTER_MAX_THREADS] = "max_threads",
    [COUNTER_NO_MEMORY] = "no_memory",
    [COUNTER_CONNECTS] = "connects",
    [COUNTER_CONNECTS_FAILED] = "connects_failed",
    [COUNTER_LINES_PUBLISHED] = "lines_published",
    [COUNTER_LINES_HEARD] = "lines_heard",
    [COUNTER_LINES_LOST] = "lines_lost",
    [COUNTER_LINES_MISSED] = "lines_missed",
};

const char *counter_name(enum counter counter)
{
    return names[counter];
}

void counters_print(const struct counters *counters, const char *program)
{
    counters_print_with(counters, NULL, program);
}

/* Standard error is unbuffered; collecting the line first keeps other threads out of its middle. */
void counters_print_with(const struct counters *counters, const struct own_counter *own,
                         const char *program)
{
    char line[2048];
    size_t used = (size_t)snprintf(line, sizeof(line), "%s: stats", program);
    for (int i = 0; i < COUNTERS && used < sizeof(line); i++) {
        uint64_t value = counters_get(counters, (enum counter)i);
        if (value > 0 || i < COUNTER_WAKEUPS_ASKED)
            used +=
                (size_t)snprintf(line + used, sizeof(line) - used, " %s=%" PRIu64, names[i], value);
    }
    for (; own != NULL && used < sizeof(line); own = own->next)
        used += (size_t)snprintf(line + used, sizeof(line) - used, " %s=%" PRIu64, own->name,
                                 own_counter_get(own));
    fprintf(stderr, "%s\n", line);
}
