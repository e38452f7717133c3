#include "deadlines.h"

static const char *const names[] = {
    [DEADLINE_NONE] = "none",
    [DEADLINE_IDLE] = "idle timeout",
    [DEADLINE_REQUEST] = "request timeout",
    [DEADLINE_LIFETIME] = "lifetime",
    [DEADLINE_PROGRESS] = "progress timeout",
};

void deadlines_start(struct deadlines *deadlines, int64_t now)
{
    *deadlines = (struct deadlines){.born = now, .active = now};
}

void deadlines_received(struct deadlines *deadlines, int64_t now)
{
    deadlines->active = now;
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
        deadlines->request = now;
}

void deadlines_output(struct deadlines *deadlines, int64_t now, uint64_t sent, bool waiting)
{
    if (sent != deadlines->sent)
        deadlines->active = now;
    deadlines->taken += sent - deadlines->sent;
    deadlines->sent = sent;

    bool quantum_taken = deadlines->taken >= DEADLINES_QUANTUM;
    if (!waiting)
        deadlines->progress = 0;
    else if (deadlines->progress == 0 || quantum_taken)
        deadlines->progress = now;
    else
        return; /* the period runs on, and what is sent in it adds up */
    deadlines->taken = 0;
}

void deadlines_restart_progress(struct deadlines *deadlines, int64_t now)
{
    deadlines->progress = now;
    deadlines->taken = 0;
}

/* The moment at which a limit is passed; INT64_MAX if it is off or its time does not run. */
static int64_t moment(int64_t since, int64_t limit)
{
    return since == 0 || limit == 0 ? INT64_MAX : since + limit;
}

enum deadline deadlines_passed(const struct deadlines *deadlines,
                               const struct deadline_limits *limits, int64_t now)
{
    if (now >= moment(deadlines->born, limits->lifetime))
        return DEADLINE_LIFETIME;
    if (now >= moment(deadlines->request, limits->request))
        return DEADLINE_REQUEST;
    if (now >= moment(deadlines->progress, limits->progress))
        return DEADLINE_PROGRESS;
    if (now >= moment(deadlines->active, limits->idle))
        return DEADLINE_IDLE;
    return DEADLINE_NONE;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t deadlines_next(const struct deadlines *deadlines, const struct deadline_limits *limits)
{
    int64_t next = moment(deadlines->born, limits->lifetime);
    next = earlier(next, moment(deadlines->request, limits->request));
    next = earlier(next, moment(deadlines->progress, limits->progress));
    return earlier(next, moment(deadlines->active, limits->idle));
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
