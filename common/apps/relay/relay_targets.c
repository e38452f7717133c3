#include "common/apps/relay/relay_targets.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/thread.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What the user types -------------------------------------------------------------------- */

/* The length of the target that the text begins with: up to a comma or the end. */
static size_t length_of(const char *text)
{
    return strcspn(text, ",");
}

bool relay_targets_parse(const struct option *option, const char *text)
{
    const char **target = option->target;
    size_t count = 0;
    *target = NULL;
    if (strcmp(text, "none") == 0)
        return true;
    for (const char *next = text;; next += length_of(next) + 1) {
        if (++count > RELAY_TARGETS_MAX || !host_port_is_one(next, length_of(next)))
            return false;
        if (next[length_of(next)] == '\0')
            break;
    }
    *target = text;
    return true;
}

/* ---- What it stands for --------------------------------------------------------------------- */

static void add_target(struct relay_targets *targets, const char *text, size_t length)
    REQUIRES(&targets->lock)
{
    struct relay_target_state *state = &targets->states[targets->count];
    struct relay_target *target = &targets->all[targets->count++];
    memcpy(target->name, text, length);
    target->name[length] = '\0';
    target->targets = targets;
    target->is_name = !host_port_read(target->name, &state->addresses.all[0]);
    state->addresses.count = target->is_name ? 0 : 1;
    list_init(&state->waiters);
}

struct relay_targets *relay_targets_open(const char *text, const char *program)
{
    if (text == NULL) {
        fprintf(stderr, "%s: relay needs --to: the servers to connect to\n", program);
        return NULL;
    }
    struct relay_targets *targets = calloc(1, sizeof(*targets));
    if (targets == NULL) {
        fprintf(stderr, "%s: cannot open relay: %s\n", program, strerror(errno));
        return NULL;
    }
    mutex_init(&targets->lock);
    condition_init(&targets->idle);
    mutex_lock(&targets->lock);
    targets->references = 1;
    while (*text != '\0') {
        size_t length = length_of(text);
        add_target(targets, text, length);
        text += length + (text[length] == ',' ? 1 : 0);
    }
    mutex_unlock(&targets->lock);
    return targets;
}

static void release(struct relay_targets *targets)
{
    mutex_lock(&targets->lock);
    bool is_last = --targets->references == 0;
    mutex_unlock(&targets->lock);
    if (!is_last)
        return;
    condition_destroy(&targets->idle);
    mutex_destroy(&targets->lock);
    free(targets);
}

/* Whoever is being called back has gone by then, but the thread that does it is not done yet. */
void relay_targets_close(struct relay_targets *targets)
{
    mutex_lock(&targets->lock);
    while (targets->posting > 0)
        condition_wait(&targets->idle, &targets->lock);
    mutex_unlock(&targets->lock);
    release(targets);
}

/* ---- Where it is ---------------------------------------------------------------------------- */

static bool is_fresh(const struct relay_target *target, const struct relay_target_state *state,
                     int64_t now)
{
    return !target->is_name ||
           (state->addresses.count > 0 && now - state->looked_up < RELAY_ADDRESS_FRESH_MS);
}

/* Takes all waiters out of their list, into another one. */
static void move_all(struct list_link *to, struct list_link *from)
{
    while (!list_is_empty(from)) {
        struct list_link *first = from->next;
        list_remove(first);
        list_insert_behind(to->previous, first);
    }
}

/* The first waiter, which does not wait any more; NULL: none is left. */
static struct relay_waiter *take_first(struct relay_targets *targets, struct list_link *waiters)
{
    struct relay_waiter *waiter = NULL;
    mutex_lock(&targets->lock);
    if (!list_is_empty(waiters)) {
        waiter = container_of(waiters->next, struct relay_waiter, link);
        list_remove(&waiter->link);
    }
    mutex_unlock(&targets->lock);
    return waiter;
}

/* Once it is posted the waiter is its client's, and may wait for something else or be gone. */
static void call_back(struct relay_targets *targets, struct list_link *waiters) NO_LOCK_HELD
{
    struct relay_waiter *waiter;
    while ((waiter = take_first(targets, waiters)) != NULL) {
        struct channel_facade *channel = waiter->channel;
        channel_post(channel, &waiter->post);
        channel_release(channel);
    }
    mutex_lock(&targets->lock);
    if (--targets->posting == 0)
        condition_broadcast(&targets->idle);
    mutex_unlock(&targets->lock);
}

/* A lookup is over. Those that waited for it are called back; who comes now finds the result. */
static void end_lookup(const struct relay_target *target, int error,
                       const struct host_port_addresses *found) NO_LOCK_HELD
{
    struct relay_targets *targets = target->targets;
    struct list_link waiters;
    list_init(&waiters);
    int64_t now = clock_ms();
    mutex_lock(&targets->lock);
    struct relay_target_state *state = &targets->states[target - targets->all];
    state->is_looked_up = false;
    state->looked_up = now;
    state->error = error;
    if (error == 0)
        state->addresses = *found;
    targets->posting++;
    move_all(&waiters, &state->waiters);
    mutex_unlock(&targets->lock);
    call_back(targets, &waiters);
}

static void *look_up(void *argument)
{
    struct relay_target *target = argument;
    struct relay_targets *targets = target->targets;
    struct host_port_addresses found;
    thread_holds_no_lock_yet();
    thread_set_name("lookup");
    end_lookup(target, host_port_look_up(target->name, &found), &found);
    release(targets);
    return NULL;
}

static void begin_lookup(struct relay_target *target) NO_LOCK_HELD
{
    if (thread_start(NULL, look_up, target) == 0)
        return;
    end_lookup(target, EAI_AGAIN, NULL);
    release(target->targets);
}

bool relay_targets_find(struct relay_targets *targets, size_t number, struct relay_waiter *waiter,
                        struct channel_facade *channel)
{
    struct relay_target *target = &targets->all[number];
    int64_t now = target->is_name ? clock_ms() : 0;
    mutex_lock(&targets->lock);
    struct relay_target_state *state = &targets->states[number];
    bool is_known = is_fresh(target, state, now);
    bool begins = !is_known && !state->is_looked_up;
    if (!is_known) {
        state->looked_up = now; /* who comes meanwhile uses old addresses, if there are any */
        state->is_looked_up = true;
        waiter->channel = channel;
        list_insert_behind(state->waiters.previous, &waiter->link);
        channel_retain(channel);
    }
    targets->references += begins ? 1 : 0;
    mutex_unlock(&targets->lock);
    if (begins)
        begin_lookup(target);
    return is_known;
}

bool relay_targets_stop_waiting(struct relay_targets *targets, struct relay_waiter *waiter)
{
    mutex_lock(&targets->lock);
    bool has_waited = waiter->link.next != NULL && !list_is_empty(&waiter->link);
    if (has_waited)
        list_remove(&waiter->link);
    mutex_unlock(&targets->lock);
    if (has_waited)
        channel_release(waiter->channel);
    return has_waited;
}

size_t relay_targets_address(struct relay_targets *targets, size_t target, size_t n,
                             struct endpoint *address)
{
    mutex_lock(&targets->lock);
    const struct host_port_addresses *addresses = &targets->states[target].addresses;
    size_t left = n < addresses->count ? addresses->count - n : 0;
    if (left > 0)
        *address = addresses->all[n];
    mutex_unlock(&targets->lock);
    return left;
}

int relay_targets_error(struct relay_targets *targets, size_t target)
{
    mutex_lock(&targets->lock);
    int error = targets->states[target].error;
    mutex_unlock(&targets->lock);
    return error;
}

/* ---- Fewest connections first --------------------------------------------------------------- */

size_t relay_targets_choose(struct relay_targets *targets, uint32_t tried)
{
    size_t best = RELAY_NO_TARGET;
    mutex_lock(&targets->lock);
    const struct relay_target_state *states = targets->states;
    for (size_t i = 0; i < targets->count; i++) {
        bool was_tried = (tried >> i & 1) != 0;
        if (!was_tried &&
            (best == RELAY_NO_TARGET || states[i].connections < states[best].connections))
            best = i;
    }
    if (best != RELAY_NO_TARGET)
        targets->states[best].connections++;
    mutex_unlock(&targets->lock);
    return best;
}

void relay_targets_give_back(struct relay_targets *targets, size_t target)
{
    mutex_lock(&targets->lock);
    targets->states[target].connections--;
    mutex_unlock(&targets->lock);
}
