#include "common/events/timer_heap.h"

#include <limits.h>
#include <stdlib.h>

void timer_heap_init(struct timer_heap *heap)
{
    *heap = (struct timer_heap){0};
}

void timer_heap_destroy(struct timer_heap *heap)
{
    free(heap->timers);
}

/* Counted from one, the children of place n are at 2n and 2n + 1. */
static struct timer *at(const struct timer_heap *heap, size_t place)
{
    return heap->timers[place - 1];
}

static void put(struct timer_heap *heap, size_t place, struct timer *timer)
{
    heap->timers[place - 1] = timer;
    timer->place = place;
}

/* From a free place up: later timers come down until it is the timer's own. */
static size_t rise(struct timer_heap *heap, size_t place, int64_t moment)
{
    while (place > 1 && at(heap, place / 2)->moment > moment) {
        put(heap, place, at(heap, place / 2));
        place /= 2;
    }
    return place;
}

/* The place of the earlier child of a place; 0 if it has none. */
static size_t earlier_child(const struct timer_heap *heap, size_t place)
{
    size_t left = 2 * place;
    if (left > heap->count)
        return 0;
    bool right = left < heap->count && at(heap, left + 1)->moment < at(heap, left)->moment;
    return right ? left + 1 : left;
}

/* From a free place down: earlier timers come up. */
static size_t sink(struct timer_heap *heap, size_t place, int64_t moment)
{
    size_t child = earlier_child(heap, place);
    while (child != 0 && at(heap, child)->moment < moment) {
        put(heap, place, at(heap, child));
        place = child;
        child = earlier_child(heap, place);
    }
    return place;
}

/* Puts a timer where it belongs, beginning at a free place. */
static void settle(struct timer_heap *heap, size_t place, struct timer *timer)
{
    place = rise(heap, place, timer->moment);
    put(heap, sink(heap, place, timer->moment), timer);
}

static bool grow(struct timer_heap *heap)
{
    if (heap->count < heap->capacity)
        return true;
    size_t capacity = heap->capacity == 0 ? 16 : heap->capacity * 2;
    struct timer **timers = realloc(heap->timers, capacity * sizeof(struct timer *));
    if (timers == NULL)
        return false;
    heap->timers = timers;
    heap->capacity = capacity;
    return true;
}

bool timer_heap_set(struct timer_heap *heap, struct timer *timer, int64_t moment)
{
    if (!timer_is_set(timer)) {
        if (!grow(heap))
            return false;
        timer->place = ++heap->count;
    }
    timer->moment = moment;
    settle(heap, timer->place, timer);
    return true;
}

/* The last timer takes the place of the one that leaves. */
void timer_heap_cancel(struct timer_heap *heap, struct timer *timer)
{
    if (!timer_is_set(timer))
        return;
    struct timer *last = at(heap, heap->count--);
    if (last != timer)
        settle(heap, timer->place, last);
    timer->place = 0;
}

struct timer *timer_heap_first(const struct timer_heap *heap)
{
    return heap->count > 0 ? heap->timers[0] : NULL;
}

struct timer *timer_heap_due(const struct timer_heap *heap, int64_t now)
{
    return heap->count > 0 && heap->timers[0]->moment <= now ? heap->timers[0] : NULL;
}

int timer_heap_timeout(const struct timer_heap *heap, int64_t now)
{
    int64_t moment = heap->count > 0 ? heap->timers[0]->moment : INT64_MAX;
    if (moment == INT64_MAX)
        return -1;
    int64_t left = moment - now;
    if (left > INT_MAX)
        return INT_MAX;
    return left > 0 ? (int)left : 0;
}

/* Where all moments are the same, each is in order wherever it is. */
void timer_heap_set_all(struct timer_heap *heap, int64_t moment)
{
    for (size_t place = 1; place <= heap->count; place++)
        at(heap, place)->moment = moment;
}
