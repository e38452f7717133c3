#include "deadlines.h"

static const char *const names[] = {
    [DEADLINE_NONE] = "none",
    [DEADLINE_IDLE] = "idle timeout",
    [DEADLINE_REQUEST] = "request timeout",
    [DEADLINE_LIFETIME] = "lifetime",
    [DEADLINE_PROGRESS] = "progress timeout",
};

/* A moment as it is kept; never 0, for which it may be a millisecond late. */
static uint32_t stamp(int64_t moment)
{
    uint32_t kept = (uint32_t)moment;
    return kept != 0 ? kept : 1;
}

/* The moment that was kept, which is near to now. */
static int64_t moment_of(uint32_t kept, int64_t now)
{
    return now + (int32_t)(kept - (uint32_t)now);
}

void deadlines_start(struct deadlines *deadlines, int64_t now)
{
    *deadlines = (struct deadlines){.born = stamp(now), .active = stamp(now)};
}

void deadlines_received(struct deadlines *deadlines, int64_t now)
{
    deadlines->active = stamp(now);
}

void deadlines_message(struct deadlines *deadlines)
{
    deadlines->request = 0;
}

/* A partial message that was there before is still the same one: its time runs on. */
void deadlines_framed(struct deadlines *deadlines, int64_t now, bool partial)
{
    if (!partial)
        deadlines->request = 0;
    else if (deadlines->request == 0)
        deadlines->request = stamp(now);
}

void deadlines_output(struct deadlines *deadlines, int64_t now, uint64_t sent, bool waiting)
{
    if (sent > 0)
        deadlines->active = stamp(now);

    bool quantum_taken = sent >= DEADLINES_QUANTUM - deadlines->taken;
    if (!waiting)
        deadlines->progress = 0;
    else if (deadlines->progress == 0 || quantum_taken)
        deadlines_restart_progress(deadlines, now);
    else
        deadlines->taken += (uint32_t)sent; /* the period runs on */
}

void deadlines_restart_progress(struct deadlines *deadlines, int64_t now)
{
    deadlines->progress = stamp(now);
    deadlines->taken = 0;
}

/* The moment at which a limit is passed; INT64_MAX if it is off or its time does not run. */
static int64_t end_of(uint32_t since, int64_t limit, int64_t now)
{
    return since == 0 || limit == 0 ? INT64_MAX : moment_of(since, now) + limit;
}

enum deadline deadlines_passed(const struct deadlines *deadlines,
                               const struct deadline_limits *limits, int64_t now)
{
    if (now >= end_of(deadlines->born, limits->lifetime, now))
        return DEADLINE_LIFETIME;
    if (now >= end_of(deadlines->request, limits->request, now))
        return DEADLINE_REQUEST;
    if (now >= end_of(deadlines->progress, limits->progress, now))
        return DEADLINE_PROGRESS;
    if (now >= end_of(deadlines->active, limits->idle, now))
        return DEADLINE_IDLE;
    return DEADLINE_NONE;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t deadlines_next(const struct deadlines *deadlines, const struct deadline_limits *limits,
                       int64_t now)
{
    int64_t next = end_of(deadlines->born, limits->lifetime, now);
    next = earlier(next, end_of(deadlines->request, limits->request, now));
    next = earlier(next, end_of(deadlines->progress, limits->progress, now));
    return earlier(next, end_of(deadlines->active, limits->idle, now));
}

int64_t deadlines_born(const struct deadlines *deadlines, int64_t now)
{
    return moment_of(deadlines->born, now);
}

int64_t deadlines_active(const struct deadlines *deadlines, int64_t now)
{
    return moment_of(deadlines->active, now);
}

bool deadline_limits_any(const struct deadline_limits *limits)
{
    return limits->idle != 0 || limits->request != 0 || limits->lifetime != 0 ||
           limits->progress != 0;
}

int64_t deadline_limits_shortest(const struct deadline_limits *limits)
{
    const int64_t all[] = {limits->idle, limits->request, limits->lifetime, limits->progress};
    int64_t shortest = INT64_MAX;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i] != 0)
            shortest = earlier(shortest, all[i]);
    return shortest;
}

const char *deadline_name(enum deadline deadline)
{
    return names[deadline];
}
