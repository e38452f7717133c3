#include "common/apps/relay/relay_targets.h"

#include <netdb.h>
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

bool relay_targets_open(struct relay_targets *targets, const char *text, const char *program)
{
    targets->count = 0;
    if (text == NULL) {
        fprintf(stderr, "%s: relay needs --to: the servers to connect to\n", program);
        return false;
    }
    while (*text != '\0') {
        struct relay_target *target = &targets->all[targets->count++];
        size_t length = length_of(text);
        memcpy(target->name, text, length);
        target->name[length] = '\0';
        int error = host_port_look_up(target->name, &target->address);
        if (error != 0) {
            fprintf(stderr, "%s: --to: cannot find %s: %s\n", program, target->name,
                    gai_strerror(error));
            return false;
        }
        text += length + (text[length] == ',' ? 1 : 0);
    }
    mutex_init(&targets->lock);
    memset(targets->connections, 0, sizeof(targets->connections));
    return true;
}

void relay_targets_close(struct relay_targets *targets)
{
    mutex_destroy(&targets->lock);
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
