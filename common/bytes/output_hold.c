/*
 * Output that is held back until somebody releases it: what a run sends to other connections
 * (burst.h).
 */
#include "common/bytes/output_parts.h"

bool output_chain_hold(struct output_chain *chain, uint32_t holder)
{
    bool is_idle =
        chain->length == 0 && chain->state != OUTPUT_BROKEN && !chain->corked && !chain->finished;
    if (chain->holder == holder || (chain->holder == 0 && !is_idle))
        return false;
    chain->holder = holder;
    return true;
}

enum output_result output_chain_release(struct output_chain *chain)
{
    if (chain->holder == 0)
        return OUTPUT_FLOWING;
    return chain->corked ? output_chain_settle(chain) : output_chain_drain(chain);
}
