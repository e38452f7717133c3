/*
 * A connection's output. In stages 1 to 3 only the runner sends, and there is no lock. In stages 4
 * and 5 the handler of another connection may send at any time, so the adapter lends a lock.
 */
#include "common/base/clock.h"
#include "common/base/trace.h"
#include "common/bytes/output_parts.h"
#include "common/server/burst.h"
#include "common/server/connection_parts.h"

/* Which lock it is the compiler cannot know, so what it guards is not annotated. */
static inline void lock_output(const struct connection *connection) NO_THREAD_SAFETY_ANALYSIS
{
    if (connection->output_lock != NULL)
        mutex_lock(connection->output_lock);
}

static inline void unlock_output(const struct connection *connection) NO_THREAD_SAFETY_ANALYSIS
{
    if (connection->output_lock != NULL)
        mutex_unlock(connection->output_lock);
}

/* ---- Any thread's -------------------------------------------------------------------------- */

/*
 * As connection_enqueue(), in a run that has more messages to handle: holds the piece back, and
 * counts what it costs. Under the lock it is known which calls were made for this piece.
 */
static enum output_result enqueue_held(struct connection *connection, struct piece piece,
                                       struct burst *burst)
{
    struct output_chain *chain = &connection->output;
    lock_output(connection);
    uint32_t calls = chain->calls;
    bool is_new = output_chain_hold(chain, burst_number(burst));
    enum output_result result = output_chain_enqueue(chain, piece);
    calls = chain->calls - calls;
    unlock_output(connection);
    burst->work += 1 + calls * BURST_WORK_OF_CALL;
    return is_new && !burst_add(burst, connection) ? connection_release_output(connection) : result;
}

/* What leaves now takes along what a burst has held back before it, whosever burst that is. */
enum output_result connection_enqueue(struct connection *connection, struct piece piece)
{
    struct burst *burst = burst_own;
    if (burst != NULL && burst->more)
        return enqueue_held(connection, piece, burst);
    lock_output(connection);
    enum output_result result = output_chain_enqueue(&connection->output, piece);
    if (connection->output.holder != 0 && result < OUTPUT_REFUSED)
        result = output_chain_release(&connection->output);
    unlock_output(connection);
    return result;
}

enum output_result connection_release_output(struct connection *connection)
{
    lock_output(connection);
    enum output_result result = output_chain_release(&connection->output);
    unlock_output(connection);
    return result;
}

enum output_result connection_flush(struct connection *connection)
{
    if (burst_own != NULL && burst_own->count > 0)
        burst_flush(burst_own);
    lock_output(connection);
    enum output_result result = output_chain_flush(&connection->output);
    unlock_output(connection);
    return result;
}

bool connection_set_write_rate(struct connection *connection, uint64_t rate)
{
    lock_output(connection);
    bool set = output_chain_set_rate(&connection->output, rate);
    unlock_output(connection);
    return set;
}

/* ---- The runner's -------------------------------------------------------------------------- */

/*
 * Counts bytes that have left, and has the time of output run while some of it waits. Messages that
 * were put off wait for the socket, too: it may have taken all there was and be full now. Those
 * that wait for a result do not.
 */
static void count(struct connection *connection, enum output_result output, uint64_t sent,
                  int64_t now)
{
    if (sent > 0) {
        connection_count(connection, COUNTER_BYTES_OUT, sent);
        deadlines_sent(&connection->deadlines, now, sent);
    }
    bool waits = output != OUTPUT_FLOWING ||
                 (connection->more_to_handle && !connection_waits_for_task(connection));
    if (waits != deadlines_output_waits(&connection->deadlines))
        connection_output_waits(connection, now, waits);
}

enum output_result connection_send_output(struct connection *connection, int64_t now)
{
    lock_output(connection);
    if (connection->blocks)
        trace_event(TRACE_BLOCKED_WRITE, connection->output.fd, 0);
    enum output_result output = output_chain_uncork(&connection->output);
    if (connection->blocks)
        trace_event(TRACE_BLOCKED_WRITE_DONE, connection->output.fd, 0);
    uint64_t sent = output_chain_newly_sent(&connection->output);
    bool no_memory = connection->output.no_memory;
    unlock_output(connection);
    if (output == OUTPUT_BROKEN && no_memory)
        connection_end_because(connection, END_RESOURCES);
    else if (output == OUTPUT_BROKEN)
        connection_lose(connection);
    count(connection, output, sent, now);
    return output;
}

void connection_count_output(struct connection *connection, enum output_result output, int64_t now)
{
    lock_output(connection);
    uint64_t sent = output_chain_newly_sent(&connection->output);
    connection->held_back = output_chain_due(&connection->output) != 0;
    unlock_output(connection);
    count(connection, output, sent, now);
}

int64_t connection_output_due(const struct connection *connection)
{
    lock_output(connection);
    int64_t due = output_chain_due(&connection->output);
    unlock_output(connection);
    return due;
}

void connection_close_output(struct connection *connection)
{
    lock_output(connection);
    connection_count(connection, COUNTER_WRITES, output_chain_new_calls(&connection->output));
    output_chain_close(&connection->output);
    unlock_output(connection);
}
