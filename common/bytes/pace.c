#include "common/bytes/pace.h"

static const int64_t second = 1000000000;
static const int64_t millisecond = 1000000;

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What these bytes cost, in time, rounded up; whole seconds apart, so that it cannot overflow. */
static int64_t cost(const struct pace *pace, size_t bytes)
{
    uint64_t whole = bytes / pace->rate;
    uint64_t rest = bytes % pace->rate * (uint64_t)second; /* less than 10^10 times 10^9 */
    return (int64_t)whole * second + (int64_t)((rest + pace->rate - 1) / pace->rate);
}

/* At least the time of two bytes: a slow rate must be able to save for the next one. */
static int64_t burst(const struct pace *pace)
{
    return later(PACE_BURST_MS * millisecond, cost(pace, 2));
}

/* The moment up to which is paid, after what could not be saved is lost. */
static int64_t start(const struct pace *pace, int64_t now)
{
    return later(pace->paid_until, now - burst(pace));
}

void pace_set(struct pace *pace, uint64_t rate, int64_t now)
{
    *pace = (struct pace){.rate = rate < PACE_MAX_RATE ? rate : PACE_MAX_RATE, .paid_until = now};
}

size_t pace_allowance(const struct pace *pace, int64_t now)
{
    if (pace->rate == 0)
        return SIZE_MAX;
    int64_t saved = now - start(pace, now);
    return saved <= 0 ? 0 : (size_t)((uint64_t)saved * pace->rate / (uint64_t)second);
}

void pace_spend(struct pace *pace, size_t bytes, int64_t now)
{
    if (pace->rate != 0)
        pace->paid_until = start(pace, now) + cost(pace, bytes);
}

/* Rather a few bytes at a time than one by one, but never for longer than a quantum. */
int64_t pace_due(const struct pace *pace, size_t waiting)
{
    size_t quantum = (size_t)(pace->rate * PACE_QUANTUM_MS / 1000);
    size_t wanted = waiting < quantum ? waiting : quantum;
    return pace->paid_until + cost(pace, wanted > 0 ? wanted : 1);
}
