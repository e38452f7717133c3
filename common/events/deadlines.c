#include "common/events/deadlines.h"

static const char *const names[] = {
    [DEADLINE_NONE] = "none",
    [DEADLINE_IDLE] = "idle timeout",
    [DEADLINE_REQUEST] = "request timeout",
    [DEADLINE_LIFETIME] = "lifetime",
    [DEADLINE_PROGRESS] = "progress timeout",
};

/* Since when something runs; never 0, which says that it does not: it may be a millisecond late. */
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
    *deadlines = (struct deadlines){.born = stamp(now), .active = (uint32_t)now};
}

void deadlines_received(struct deadlines *deadlines, int64_t now)
{
    deadlines->active = (uint32_t)now;
}

void deadlines_restart_input(struct deadlines *deadlines, int64_t now)
{
    deadlines->active = (uint32_t)now;
    if (deadlines->request != 0)
        deadlines->request = stamp(now);
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

/* As after a run that has left a message as it was: begun or not. */
void deadlines_sent(struct deadlines *deadlines, int64_t now, uint64_t sent)
{
    deadlines_ran(deadlines, now, true, deadlines->request != 0, sent);
}

/* More than the largest number is never owed. */
void deadlines_ran(struct deadlines *deadlines, int64_t now, bool received, bool partial,
                   uint64_t sent)
{
    if (received || sent > 0)
        deadlines->active = (uint32_t)now;
    if (partial || deadlines->request != 0)
        deadlines_framed(deadlines, now, partial);
    bool fits = sent < UINT32_MAX - deadlines->owed;
    deadlines->owed = fits ? deadlines->owed + (uint32_t)sent : UINT32_MAX;
}

void deadlines_output(struct deadlines *deadlines, int64_t now, bool waits)
{
    if (!waits)
        deadlines->progress = 0;
    else if (deadlines->progress == 0)
        deadlines_restart_progress(deadlines, now);
}

/* If all is acknowledged now, it is unknown since when: then `active` stays what it was. */
bool deadlines_acknowledged(struct deadlines *deadlines, int64_t now, uint32_t unacknowledged)
{
    bool known = deadlines->owed > unacknowledged;
    uint32_t taken = known ? deadlines->owed - unacknowledged : 0;
    deadlines->owed = unacknowledged;
    if (deadlines->progress != 0) {
        if (taken >= DEADLINES_QUANTUM - deadlines->taken)
            deadlines_restart_progress(deadlines, now);
        else
            deadlines->taken += taken; /* the period runs on */
    }
    return taken > 0 && unacknowledged > 0;
}

void deadlines_moved(struct deadlines *deadlines, int64_t moment)
{
    if (moment > moment_of(deadlines->active, moment))
        deadlines->active = (uint32_t)moment;
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
    if (limits->idle != 0 && now >= moment_of(deadlines->active, now) + limits->idle)
        return DEADLINE_IDLE;
    return DEADLINE_NONE;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Each run asks for this, and mostly no other time runs than the idle one. */
int64_t deadlines_next(const struct deadlines *deadlines, const struct deadline_limits *limits,
                       int64_t now)
{
    int64_t next = INT64_MAX;
    if (limits->idle != 0)
        next = moment_of(deadlines->active, now) + limits->idle;
    if (limits->lifetime != 0)
        next = earlier(next, end_of(deadlines->born, limits->lifetime, now));
    if (deadlines->request != 0)
        next = earlier(next, end_of(deadlines->request, limits->request, now));
    if (deadlines->progress != 0)
        next = earlier(next, end_of(deadlines->progress, limits->progress, now));
    return next;
}

int64_t deadlines_born(const struct deadlines *deadlines, int64_t now)
{
    return moment_of(deadlines->born, now);
}

int64_t deadlines_active(const struct deadlines *deadlines, int64_t now)
{
    return moment_of(deadlines->active, now);
}

const char *deadline_name(enum deadline deadline)
{
    return names[deadline];
}
