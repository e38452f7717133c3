#include "common/apps/relay/relay_targets.h"

#include "common/base/clock.h"

#include <stdio.h>
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
    struct relay_target *target = &targets->all[targets->count];
    struct relay_address *address = &targets->addresses[targets->count++];
    memcpy(target->name, text, length);
    target->name[length] = '\0';
    *address = (struct relay_address){.is_known = false};
    target->is_name = !host_port_read(target->name, &address->endpoint);
}

bool relay_targets_open(struct relay_targets *targets, const char *text, const char *program)
{
    if (text == NULL) {
        fprintf(stderr, "%s: relay needs --to: the servers to connect to\n", program);
        return false;
    }
    mutex_init(&targets->lock);
    mutex_lock(&targets->lock);
    targets->count = 0;
    while (*text != '\0') {
        size_t length = length_of(text);
        add_target(targets, text, length);
        text += length + (text[length] == ',' ? 1 : 0);
    }
    memset(targets->connections, 0, sizeof(targets->connections));
    mutex_unlock(&targets->lock);
    return true;
}

void relay_targets_close(struct relay_targets *targets)
{
    mutex_destroy(&targets->lock);
}

/* ---- Where it is ---------------------------------------------------------------------------- */

bool relay_targets_address(struct relay_targets *targets, size_t target, struct endpoint *address)
{
    bool is_name = targets->all[target].is_name;
    int64_t now = is_name ? clock_ms() : 0;
    mutex_lock(&targets->lock);
    struct relay_address *known = &targets->addresses[target];
    bool is_fresh =
        !is_name || (known->is_known && now - known->looked_up < RELAY_ADDRESS_FRESH_MS);
    *address = known->endpoint;
    if (!is_fresh)
        known->looked_up = now;
    mutex_unlock(&targets->lock);
    return is_fresh;
}

void relay_targets_found(struct relay_targets *targets, size_t target,
                         const struct endpoint *address)
{
    int64_t now = clock_ms();
    mutex_lock(&targets->lock);
    targets->addresses[target] =
        (struct relay_address){.endpoint = *address, .is_known = true, .looked_up = now};
    mutex_unlock(&targets->lock);
}

bool relay_targets_not_found(struct relay_targets *targets, size_t target, struct endpoint *address)
{
    mutex_lock(&targets->lock);
    bool is_known = targets->addresses[target].is_known;
    *address = targets->addresses[target].endpoint;
    mutex_unlock(&targets->lock);
    return is_known;
}

/* ---- Fewest connections first --------------------------------------------------------------- */

size_t relay_targets_choose(struct relay_targets *targets, uint32_t tried)
{
    size_t best = RELAY_NO_TARGET;
    mutex_lock(&targets->lock);
    for (size_t i = 0; i < targets->count; i++) {
        bool was_tried = (tried >> i & 1) != 0;
        if (!was_tried &&
            (best == RELAY_NO_TARGET || targets->connections[i] < targets->connections[best]))
            best = i;
    }
    if (best != RELAY_NO_TARGET)
        targets->connections[best]++;
    mutex_unlock(&targets->lock);
    return best;
}

void relay_targets_give_back(struct relay_targets *targets, size_t target)
{
    mutex_lock(&targets->lock);
    targets->connections[target]--;
    mutex_unlock(&targets->lock);
}
