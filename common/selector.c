#include "selector.h"

#include "selector_provider.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>

/*
 * Where the selecting thread is, so that a wakeup knows whether it has to be written.
 *
 *   AWAKE  --select--> ASLEEP --return--> AWAKE
 *   AWAKE  --wakeup--> CALLED             no system call: the next select will not sleep
 *   ASLEEP --wakeup--> CALLED             one system call: the sleep ends
 *   CALLED --wakeup--> CALLED             nothing: somebody has called already
 *   CALLED --return--> AWAKE
 *
 * All of it happens in one atomic variable, so a wakeup either comes before the step to ASLEEP,
 * which then fails, or after it, and then it is written: none is lost between.
 */
enum selector_sleep { AWAKE, ASLEEP, CALLED };

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
    free(selector->keys);
    selector->keys = NULL;
    mutex_unlock(&selector->lock);
    mutex_destroy(&selector->lock);
    selector->provider->close(selector->provider_state);
}

/* Room for one more key; -1 without memory. */
static int grow_key_set(struct selector *selector) REQUIRES(&selector->lock)
{
    if (selector->key_count < selector->key_capacity)
        return 0;
    size_t capacity = selector->key_capacity == 0 ? 16 : selector->key_capacity * 2;
    struct selection_key **keys = realloc(selector->keys, capacity * sizeof(*keys));
    if (keys == NULL)
        return -1;
    selector->keys = keys;
    selector->key_capacity = capacity;
    return 0;
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

/* The last key takes the place of the one that leaves. */
static void remove_from_key_set(struct selector *selector, const struct selection_key *key)
    REQUIRES(&selector->lock)
{
    struct selection_key *last = selector->keys[--selector->key_count];
    if (last == key)
        return;
    size_t from = last->index;
    last->index = key->index;
    selector->keys[last->index] = last;
    selector->provider->moved(selector->provider_state, last, from);
}

int selector_register(struct selector *selector, struct selection_key *key, int fd,
                      unsigned interest, void *attachment)
{
    mutex_lock(&selector->lock);
    int result = grow_key_set(selector);
    if (result == 0) {
        *key = (struct selection_key){.selector = selector,
                                      .attachment = attachment,
                                      .fd = fd,
                                      .index = (uint32_t)selector->key_count,
                                      .interest = (uint8_t)interest};
        selector->keys[selector->key_count++] = key;
        result = watch(selector, key, interest);
        if (result != 0) {
            remove_from_key_set(selector, key);
            key->selector = NULL;
        }
    }
    if (result == 0)
        trace_event(TRACE_REGISTER, fd, (int64_t)interest);
    mutex_unlock(&selector->lock);
    return result;
}

/* The event that the key was selected for is not to be delivered any more. */
static void deselect(struct selector *selector, struct selection_key *key) REQUIRES(&selector->lock)
{
    if (key->selected != 0)
        selector->selected[key->selected - 1] = NULL;
    key->selected = 0;
}

void selector_cancel(struct selection_key *key)
{
    struct selector *selector = key->selector;
    if (selector == NULL)
        return;
    mutex_lock(&selector->lock);
    watch(selector, key, SELECT_NOTHING);
    remove_from_key_set(selector, key);
    deselect(selector, key);
    key->selector = NULL;
    mutex_unlock(&selector->lock);
}

/* Whether the kernel would not report all that the interest asks for. */
static bool has_to_grow(const struct selection_key *key, unsigned interest)
{
    bool ends = (key->watched & SELECT_ONCE) != 0 && (interest & SELECT_ONCE) == 0;
    return (interest & ~(unsigned)key->watched) != 0 || (ends && interest != SELECT_NOTHING);
}

int selector_interest(struct selection_key *key, unsigned interest)
{
    struct selector *selector = key->selector;
    int result = 0;
    if (interest == SELECT_ONCE)
        interest = SELECT_NOTHING;
    mutex_lock(&selector->lock);
    trace_event(TRACE_INTEREST, key->fd, (int64_t)interest);
    key->interest = (uint8_t)interest;
    if (has_to_grow(key, interest))
        result = watch(selector, key, interest);
    if (result != 0)
        key->interest = SELECT_NOTHING;
    key->ready &= key->interest;
    if (key->ready == 0)
        deselect(selector, key);
    mutex_unlock(&selector->lock);
    return result;
}

/* The keys of the last round are selected no more. */
static void clear_selected(struct selector *selector) REQUIRES(&selector->lock)
{
    for (size_t i = 0; i < selector->selected_count; i++)
        if (selector->selected[i] != NULL)
            selector->selected[i]->selected = 0;
    selector->selected_count = 0;
}

/*
 * Selects the key of an event that its owner wants. An event that nobody wants any more is the
 * moment to tell the kernel what the interest has become.
 */
static void select_key(struct selector *selector, const struct ready_event *event)
    REQUIRES(&selector->lock)
{
    struct selection_key *key = event->key;
    key->ready = (uint8_t)(event->ready & key->interest);
    if (key->ready == 0) {
        watch(selector, key, key->interest);
        return;
    }
    if (key->interest & SELECT_ONCE)
        key->interest = SELECT_NOTHING;
    selector->selected[selector->selected_count++] = key;
    key->selected = (uint32_t)selector->selected_count;
}

/* Sleeps, unless somebody has called since the last select. Events found, or -1. */
static int wait_for_events(struct selector *selector, struct ready_event *events, int timeout_ms)
    REQUIRES(&selector->lock)
{
    int awake = AWAKE;
    if (timeout_ms != 0 && !atomic_compare_exchange_strong(&selector->sleep, &awake, ASLEEP))
        timeout_ms = 0;
    int count =
        selector->provider->wait(selector->provider_state, events, SELECTOR_BATCH, timeout_ms);
    atomic_exchange(&selector->sleep, AWAKE);
    return count;
}

size_t selector_select(struct selector *selector, int timeout_ms)
{
    struct ready_event events[SELECTOR_BATCH];
    mutex_lock(&selector->lock);
    trace_event(TRACE_SELECT, TRACE_NO_CONNECTION, trace_id(selector));
    clear_selected(selector);
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
    mutex_lock(&selector->lock);
    assert(i < selector->selected_count);
    struct selection_key *key = selector->selected[i];
    mutex_unlock(&selector->lock);
    return key;
}

void selector_wakeup(struct selector *selector)
{
    atomic_fetch_add_explicit(&selector->wakeups_asked, 1, memory_order_relaxed);
    bool asleep = atomic_exchange(&selector->sleep, CALLED) == ASLEEP;
    trace_event(asleep ? TRACE_WAKEUP : TRACE_WAKEUP_COALESCED, TRACE_NO_CONNECTION,
                trace_id(selector));
    if (!asleep)
        return;
    atomic_fetch_add_explicit(&selector->wakeups_written, 1, memory_order_relaxed);
    selector->provider->wakeup(selector->provider_state);
}

size_t selector_key_count(struct selector *selector)
{
    mutex_lock(&selector->lock);
    size_t count = selector->key_count;
    mutex_unlock(&selector->lock);
    return count;
}
