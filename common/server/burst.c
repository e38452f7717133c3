#include "common/server/burst.h"

#include "common/base/clock.h"
#include "common/base/test_point.h"
#include "common/server/connection.h"
#include "common/server/connection_shared.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    FIRST_CAPACITY = 64,
};

void burst_end(struct burst *burst)
{
    if (burst->count > 0)
        burst_flush(burst);
    free(burst->held);
}

void burst_flush(struct burst *burst)
{
    TEST_POINT("burst: before flush");
    for (size_t i = 0; i < burst->count; i++) {
        struct connection *connection = burst->held[i];
        enum output_result result = connection_release_output(connection);
        connection_home(connection)->sharing->released(connection, result);
        channel_release(&connection->facade);
    }
    burst->count = 0;
}

void burst_flush_old(struct burst *burst)
{
    if (clock_ms() - burst->since >= BURST_MS)
        burst_flush(burst);
}

static bool make_room(struct burst *burst)
{
    size_t capacity = burst->capacity > 0 ? 2 * burst->capacity : FIRST_CAPACITY;
    struct connection **held = realloc(burst->held, capacity * sizeof(*held));
    if (held == NULL)
        return false;
    burst->held = held;
    burst->capacity = capacity;
    burst->end = burst_end;
    return true;
}

/* Few bursts hold anything back, so threads seldom meet at this counter. */
uint32_t burst_number(struct burst *burst)
{
    static atomic_uint_least32_t numbers;
    while (burst->number == 0)
        burst->number = (uint32_t)(atomic_fetch_add(&numbers, 1) + 1);
    return burst->number;
}

bool burst_add(struct burst *burst, struct connection *connection)
{
    if (burst->count == burst->capacity && !make_room(burst))
        return false;
    if (burst->count == 0)
        burst->since = clock_ms();
    channel_retain(&connection->facade);
    burst->held[burst->count++] = connection;
    return true;
}
