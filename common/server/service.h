/*
 * What a server does with a message: Lea's process(), between decode and encode.
 *
 * The line-echo service answers each message with itself. So that the stages can be compared, it
 * can be made to cost something: CPU time, as a computation would, or waiting, as a database would.
 * What the two do to the other clients is the difference between the stages.
 */
#ifndef COMMON_SERVICE_H
#define COMMON_SERVICE_H

#include "common/base/lock.h"
#include "common/bytes/input_queue.h"

#include <stdatomic.h>

struct service {
    size_t work_us;       /* --work-us: CPU time that a message costs */
    size_t block_ms;      /* --block-ms: waiting that a message costs */
    size_t cost_every;    /* --cost-every: one message in this many pays */
    const char *cost_for; /* --cost-for: of those that have this in them; NULL: of all */
    atomic_uint_least64_t served;
    atomic_bool cut_short;
    struct mutex lock;
    struct condition cut; /* cut_short has become true */
};

void service_init(struct service *service);

void service_destroy(struct service *service);

/** Whether no message costs anything. */
static inline bool service_is_free(const struct service *service)
{
    return service->work_us == 0 && service->block_ms == 0;
}

/** Processes one request: pays its cost and returns the reply, which is the request. Any thread. */
struct message service_process(struct service *service, struct message request);

/**
 * Whether a message makes its thread wait: then a handler should flush the answers it has already,
 * or they wait as well.
 */
static inline bool service_blocks(const struct service *service)
{
    return service->block_ms > 0;
}

/** Ends every cost that is being paid, and makes later ones free. Any thread. */
void service_cut_short(struct service *service);

#endif
