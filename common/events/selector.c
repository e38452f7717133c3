#include "common/events/selector.h"

#include "common/base/trace.h"
#include "common/events/selector_provider.h"

#include <stdlib.h>
#include <string.h>

/*
 * Where the selecting thread is, so that a wakeup knows whether it has to be written.
 *
 *   AWAKE  --select--> ASLEEP --return--> AWAKE
 *   AWAKE  --wakeup--> CALLED             no system call: the next select will not sleep
 *   ASLEEP --wakeup--> CALLED             one system call: the sleep ends
 *   CALLED --wakeup--> CALLED             nothing: a call is pending
 *   CALLED --return--> AWAKE
 *
 * All of it is one atomic variable, so a wakeup comes either before the step to ASLEEP, which then
 * fails, or after it, and then it is written. None is lost in between.
 */
enum selector_sleep { AWAKE, ASLEEP, CALLED };

/* Each thread has one: its address tells which thread it is. */
static _Thread_local char own_mark;

int selector_open(struct selector *selector, const struct selector_provider *provider)
{
    memset(selector, 0, sizeof(*selector));
    selector->provider = provider;
    selector->provider_state = provider->open();
    if (selector->provider_state == NULL)
        return -1;
    atomic_init(&selector->sleep, AWAKE);
    mutex_init(&selector->lock);
    return 0;
}

void selector_close(struct selector *selector)
{
    mutex_lock(&selector->lock);
    assert(selector->key_count == 0);
    mutex_unlock(&selector->lock);
    mutex_destroy(&selector->lock);
    selector->provider->close(selector->provider_state);
}

/* Makes the kernel's view of a key what `watch` says. */
static int watch(struct selector *selector, struct selection_key *key, unsigned watch)
    REQUIRES(&selector->lock)
{
    if (watch == key->watched)
        return 0;
    if (selector->provider->watch(selector->provider_state, key, watch) != 0)
        return -1;
    key->watched = (uint8_t)watch;
    return 0;
}

int selector_register(struct selector *selector, struct selection_key *key, int fd,
                      unsigned interest, void *attachment)
{
    mutex_lock(&selector->lock);
    *key = (struct selection_key){
        .selector = selector, .attachment = attachment, .fd = fd, .interest = (uint8_t)interest};
    int result = watch(selector, key, interest);
    if (result == 0)
        selector->key_count++;
    else
        key->selector = NULL;
    if (result == 0)
        trace_event(TRACE_REGISTER, fd, (int64_t)interest);
    mutex_unlock(&selector->lock);
    return result;
}

/*
 * Keeps the event that the key was selected for from being delivered. Only in the selecting thread,
 * or with the lock, so nobody selects meanwhile.
 */
static void deselect(struct selector *selector, struct selection_key *key)
{
    _Atomic(struct selection_key *) *place = &selector->selected[key->selected];
    if (atomic_load_explicit(place, memory_order_relaxed) == key)
        atomic_store_explicit(place, NULL, memory_order_relaxed);
}

void selector_cancel(struct selection_key *key)
{
    struct selector *selector = key->selector;
    if (selector == NULL)
        return;
    mutex_lock(&selector->lock);
    watch(selector, key, SELECT_NOTHING);
    selector->key_count--;
    deselect(selector, key);
    key->selector = NULL;
    mutex_unlock(&selector->lock);
}

/* Whether the kernel would not report all that the interest asks for. Loss it reports with all. */
static bool has_to_grow(const struct selection_key *key, unsigned interest)
{
    unsigned watched = key->watched;
    if ((watched & (SELECT_READ | SELECT_WRITE)) != 0)
        watched |= SELECT_LOSS;
    bool ends = (watched & SELECT_ONCE) != 0 && (interest & SELECT_ONCE) == 0;
    return (interest & ~watched) != 0 || (ends && interest != SELECT_NOTHING);
}

/* What is known of the key outside the kernel: the owner's wish, and whether it stays selected. */
static void set_interest(struct selection_key *key, unsigned interest)
{
    trace_event(TRACE_INTEREST, key->fd, (int64_t)interest);
    key->interest = (uint8_t)interest;
    key->ready &= key->interest;
    if (key->ready == 0)
        deselect(key->selector, key);
}

int selector_interest(struct selection_key *key, unsigned interest)
{
    struct selector *selector = key->selector;
    if (interest == SELECT_ONCE)
        interest = SELECT_NOTHING;
    /* Whether this thread is the one that selects: then nobody is in select now. */
    bool own = atomic_load_explicit(&selector->thread, memory_order_relaxed) == &own_mark;
    if (own && !has_to_grow(key, interest)) {
        set_interest(key, interest); /* touches nothing but the key */
        return 0;
    }
    int result = 0;
    mutex_lock(&selector->lock);
    if (own || has_to_grow(key, interest))
        result = watch(selector, key, interest);
    set_interest(key, result == 0 ? interest : SELECT_NOTHING);
    mutex_unlock(&selector->lock);
    return result;
}

/*
 * Selects the key of an event, if its owner still wants it. If not, its place is at the other end:
 * the owner has until the next select to want it again.
 */
static void select_key(struct selector *selector, const struct ready_event *event)
    REQUIRES(&selector->lock)
{
    struct selection_key *key = event->key;
    key->ready = (uint8_t)(event->ready & key->interest);
    if (key->ready != 0 && (key->interest & SELECT_ONCE) != 0)
        key->interest = SELECT_NOTHING;
    if (key->ready != 0)
        key->selected = (uint32_t)selector->selected_count++;
    else
        key->selected = SELECTOR_BATCH - (uint32_t)++selector->unwanted_count;
    atomic_store_explicit(&selector->selected[key->selected], key, memory_order_relaxed);
}

/* Tells the kernel of the interest of those whose event still nobody wants. */
static void tell_of_unwanted(struct selector *selector) REQUIRES(&selector->lock)
{
    for (; selector->unwanted_count > 0; selector->unwanted_count--) {
        size_t place = SELECTOR_BATCH - selector->unwanted_count;
        struct selection_key *key =
            atomic_load_explicit(&selector->selected[place], memory_order_relaxed);
        if (key != NULL)
            watch(selector, key, key->interest);
    }
}

/* Sleeps, unless a wakeup has come since the last select. Returns events found, or -1. */
static int wait_for_events(struct selector *selector, struct ready_event events[SELECTOR_BATCH],
                           int timeout_ms) REQUIRES(&selector->lock)
{
    int awake = AWAKE;
    if (timeout_ms != 0 && !atomic_compare_exchange_strong(&selector->sleep, &awake, ASLEEP))
        timeout_ms = 0;
    int count = selector->provider->wait(selector->provider_state, events, timeout_ms);
    atomic_exchange(&selector->sleep, AWAKE);
    return count;
}

size_t selector_select(struct selector *selector, int timeout_ms)
{
    struct ready_event events[SELECTOR_BATCH];
    atomic_store_explicit(&selector->thread, &own_mark, memory_order_relaxed);
    mutex_lock(&selector->lock);
    trace_event(TRACE_SELECT, TRACE_NO_CONNECTION, (intptr_t)selector);
    selector->selected_count = 0;
    if (selector->unwanted_count > 0)
        tell_of_unwanted(selector);
    int count = wait_for_events(selector, events, timeout_ms);
    for (int i = 0; i < count; i++)
        select_key(selector, &events[i]);
    size_t selected = selector->selected_count;
    trace_event(TRACE_SELECTED, TRACE_NO_CONNECTION, (int64_t)selected);
    mutex_unlock(&selector->lock);
    return selected;
}

struct selection_key *selector_selected(struct selector *selector, size_t i)
{
    assert(i < selector->selected_count);
    return atomic_load_explicit(&selector->selected[i], memory_order_relaxed);
}

void selector_wakeup(struct selector *selector)
{
    atomic_fetch_add_explicit(&selector->wakeups_asked, 1, memory_order_relaxed);
    bool asleep = atomic_exchange(&selector->sleep, CALLED) == ASLEEP;
    trace_event(asleep ? TRACE_WAKEUP : TRACE_WAKEUP_COALESCED, TRACE_NO_CONNECTION,
                (intptr_t)selector);
    if (!asleep)
        return;
    atomic_fetch_add_explicit(&selector->wakeups_written, 1, memory_order_relaxed);
    selector->provider->wakeup(selector->provider_state);
}
