/*
 * How fast an output chain may be drained: a gate with a pace.
 */
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/bytes/output_parts.h"
#include "common/bytes/pace.h"

#include <stdlib.h>

struct rate {
    struct output_gate gate;
    struct pace pace;
};

static size_t allowance(struct output_gate *gate)
{
    return pace_allowance(&container_of(gate, struct rate, gate)->pace, clock_ns());
}

static void spend(struct output_gate *gate, size_t bytes)
{
    pace_spend(&container_of(gate, struct rate, gate)->pace, bytes, clock_ns());
}

static int64_t due(const struct output_gate *gate, uint64_t waiting)
{
    const struct pace *pace = &container_of(gate, const struct rate, gate)->pace;
    if (pace->rate == 0)
        return 0;
    int64_t moment = pace_due(pace, waiting < SIZE_MAX ? (size_t)waiting : SIZE_MAX);
    return moment > clock_ns() ? moment / 1000000 + 1 : 0;
}

static void rate_close(struct output_gate *gate)
{
    free(container_of(gate, struct rate, gate));
}

static const struct output_gate_verbs rate_verbs = {allowance, spend, due, rate_close};

bool output_chain_set_rate(struct output_chain *chain, uint64_t bytes_per_second)
{
    if (chain->gate == NULL && chain->state != OUTPUT_BROKEN) {
        struct rate *rate = malloc(sizeof(*rate));
        if (rate == NULL)
            return false;
        rate->gate.verbs = &rate_verbs;
        chain->gate = &rate->gate;
    }
    if (chain->gate == NULL)
        return false;
    pace_set(&container_of(chain->gate, struct rate, gate)->pace, bytes_per_second, clock_ns());
    return true;
}
