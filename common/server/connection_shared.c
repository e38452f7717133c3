/*
 * A connection to which others send as well, in any thread: stages 4 and 5. Its stage lends a lock
 * for its output, and what a run sends to others is held back while more messages wait (burst.h).
 */
#include "common/server/connection_shared.h"
#include "common/bytes/output_parts.h"
#include "common/server/connection_parts.h"

#include <assert.h>

/* Every connection has to be closed to posts, even if none came, so that a later one is dropped. */
void connection_share(struct connection_home *home, const struct connection_sharing *sharing)
{
    home->sharing = sharing;
    atomic_store_explicit(&home->server->parts[PART_POSTS], &connection_posts_part,
                          memory_order_relaxed);
}

/*
 * As connection_enqueue(), in a run that has more messages to handle: holds the piece back, and
 * counts what it costs. Under the lock it is known which calls were made for this piece.
 */
static enum output_result enqueue_held(struct connection *connection, struct piece piece,
                                       struct burst *burst)
{
    struct output_chain *chain = &connection->output;
    connection_lock_output(connection);
    uint32_t calls = chain->calls;
    bool is_new = output_chain_hold(chain, burst_number(burst));
    enum output_result result = output_chain_enqueue(chain, piece);
    calls = chain->calls - calls;
    connection_unlock_output(connection);
    burst->work += 1 + calls * BURST_WORK_OF_CALL;
    return is_new && !burst_add(burst, connection) ? connection_release_output(connection) : result;
}

/*
 * What leaves now takes along what a burst has held back before it, whosever burst that is. What
 * the run answers its own client is counted here, under the lock, so that connection_send() need
 * not take it again.
 */
enum output_result connection_enqueue(struct connection *connection, struct piece piece)
{
    struct run *run = run_own;
    if (run != NULL && run->burst.more)
        return enqueue_held(connection, piece, &run->burst);
    const struct connection_sharing *sharing = connection_home(connection)->sharing;
    sharing->lock_output(connection);
    enum output_result result = output_chain_enqueue(&connection->output, piece);
    if (connection->output.holder != 0 && result < OUTPUT_REFUSED)
        result = output_chain_release(&connection->output);
    if (run != NULL && run->connection == connection)
        run->sent += output_chain_newly_sent(&connection->output);
    sharing->unlock_output(connection);
    return result;
}

enum output_result connection_release_output(struct connection *connection)
{
    connection_lock_output(connection);
    enum output_result result = output_chain_release(&connection->output);
    connection_unlock_output(connection);
    return result;
}

enum output_result connection_shared_flush(struct channel_facade *facade)
{
    struct connection *connection = connection_of(facade);
    struct run *run = run_own;
    assert(connection_is_own_run(connection));
    if (run != NULL && run->burst.count > 0)
        burst_flush(&run->burst);
    connection_lock_output(connection);
    enum output_result result = output_chain_flush(&connection->output);
    connection_unlock_output(connection);
    return result;
}
