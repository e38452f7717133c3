/*
 * What a run sends, and how it goes on when that has left.
 */
#include "common/base/clock.h"
#include "common/base/trace.h"
#include "common/bytes/output_parts.h"
#include "common/server/connection_parts.h"

#include <sys/socket.h>

/* ---- How it goes on ------------------------------------------------------------------------- */

/* Whether a server that stops closes without lingering: the peer has all, and sends nothing. */
static bool need_not_linger(struct connection *connection, int64_t now)
{
    return connection_is_asked(connection, ASK_STOP) && !connection_is(connection, MARK_SENDS) &&
           connection_is_quiet(connection, now);
}

static void end(struct connection *connection)
{
    connection_forget_coming(connection);
    if (connection_is_asked(connection, ASK_RESET))
        socket_reset_on_close(connection->output.fd);
    connection->phase = CONNECTION_ENDED;
}

/* All is sent. A reset would destroy what the peer's system does not have yet. */
static void finish_by_reset(struct connection *connection)
{
    connection->marks |= MARK_CLOCK;
    connection->phase = CONNECTION_RESETTING;
    if (socket_unacknowledged(connection->output.fd) == 0)
        end(connection);
}

/*
 * All is sent. The peer may be sending still, and the system would answer its next bytes after a
 * close with a reset, which destroys what is still in our send buffer. So the connection lingers:
 * it drops what comes until the peer has closed, too, or for SERVER_LINGER_MS after the peer's
 * system has got all. Without lingering, too, a line on its way may turn the close into a reset, so
 * we end our stream first.
 */
static void finish(struct connection *connection, int64_t now)
{
    if (connection_is_asked(connection, ASK_RESET)) {
        finish_by_reset(connection);
        return;
    }
    connection_dropped(connection, socket_discard(connection->output.fd));
    bool is_over = connection_is(connection, MARK_PEER_ENDED);
    bool lingers = !is_over && !need_not_linger(connection, now);
    connection->phase = lingers ? CONNECTION_LINGERING : CONNECTION_ENDED;
    if (!is_over)
        shutdown(connection->output.fd, SHUT_WR);
    if (lingers) {
        deadlines_received(&connection->deadlines, now);
        connection_output_waits(connection, now, true);
    }
}

/* All output has left, and there will be none any more. */
static void finish_output(struct connection *connection)
{
    if (connection->phase == CONNECTION_OPEN && !connection_is(connection, MARK_FINISHED))
        shutdown(connection->output.fd, SHUT_WR);
    connection->marks |= MARK_FINISHED;
}

/*
 * Nothing can be sent any more, but what the peer has sent before may still be there. If a handler
 * keeps the two directions apart, it gets that, too, unless it does not read at the moment.
 */
bool connection_reads_on(const struct connection *connection, unsigned asked)
{
    return connection->phase == CONNECTION_OPEN &&
           !connection_is(connection, MARK_BROKEN | MARK_INPUT_OVER) &&
           (asked & (ASK_SUSPEND | ASK_CLOSE | ASK_END)) == 0 &&
           (connection->traits & TRAIT_DUPLEX) != 0 && socket_is_readable(connection->output.fd);
}

/* Others may send until here, and what is accepted leaves before the end. */
static bool takes_no_more(struct connection *connection)
{
    connection_lock_output(connection);
    bool is_all = output_chain_finish(&connection->output);
    connection_unlock_output(connection);
    return is_all;
}

/* Something is asked, or is not as it mostly is. */
static void decide(struct connection *connection, enum output_result output, unsigned asked,
                   int64_t now) NO_LOCK_HELD
{
    bool lost = output == OUTPUT_BROKEN && !connection_reads_on(connection, asked);
    bool is_draining = connection->phase == CONNECTION_DRAINING;
    if (lost || connection_is(connection, MARK_BROKEN) || (asked & ASK_END) != 0)
        end(connection);
    else if ((is_draining || (asked & ASK_FINISH) != 0) && output == OUTPUT_FLOWING &&
             takes_no_more(connection)) {
        if (is_draining)
            finish(connection, now);
        else
            finish_output(connection);
    }
    if (connection->phase == CONNECTION_ENDED)
        connection_advance(connection, LIFE_STOPPED);
}

/* ---- Sending --------------------------------------------------------------------------------- */

/*
 * Has the progress timeout run while output waits, and while messages wait that the turn has put
 * off, because the socket may have taken all there was and be full now. Messages that wait for a
 * task or a hold do not count.
 */
static void look_whether_it_waits(struct connection *connection, enum output_result output,
                                  int64_t now)
{
    bool waits = output != OUTPUT_FLOWING ||
                 (connection->marks & (MARK_MORE | MARK_WAITS | MARK_HELD)) == MARK_MORE;
    if (waits != deadlines_output_waits(&connection->deadlines))
        connection_output_waits(connection, now, waits);
}

/* Sends what was held back and what waited. */
static enum output_result send_output(struct connection *connection, uint64_t *sent)
{
    const struct connection_home *home = connection_home(connection);
    struct output_chain *output = &connection->output;
    if (home->sharing != NULL)
        home->sharing->lock_output(connection);
    if (connection->blocks)
        trace_event(TRACE_BLOCKED_WRITE, output->fd, 0);
    enum output_result result = output_chain_uncork(output);
    if (connection->blocks)
        trace_event(TRACE_BLOCKED_WRITE_DONE, output->fd, 0);
    *sent += output_chain_newly_sent(output);
    bool no_memory = output->no_memory;
    if (home->sharing != NULL)
        home->sharing->unlock_output(connection);
    if (result != OUTPUT_BROKEN)
        return result;
    if (no_memory)
        connection_end_because(connection, END_RESOURCES);
    else
        connection_lose(connection);
    return result;
}

void connection_count_output(struct connection *connection, enum output_result output, int64_t now)
{
    connection_lock_output(connection);
    uint64_t sent = output_chain_newly_sent(&connection->output);
    bool is_held_back = output_chain_due(&connection->output) != 0;
    connection_unlock_output(connection);
    connection_mark(connection, MARK_HELD_BACK, is_held_back);
    if (sent > 0) {
        connection_count(connection, COUNTER_BYTES_OUT, sent);
        deadlines_sent(&connection->deadlines, now, sent);
    }
    look_whether_it_waits(connection, output, now);
}

/*
 * A run that has held nothing back, and from which the socket has taken all, has nothing to send.
 * Then it takes no lock. What others send at this moment leaves by their calls, or
 * connection_wants() finds it.
 */
void connection_send(struct connection *connection, struct run *run)
{
    const struct connection_home *home = connection_home(connection);
    int64_t now = run->now = clock_ms();
    bool sends =
        connection->phase != CONNECTION_LINGERING && connection->phase != CONNECTION_CONNECTING;
    uint64_t sent = run->sent;
    enum output_result output = sends ? output_chain_look(&connection->output) : OUTPUT_FLOWING;
    if (sends && (run->corks || output != OUTPUT_FLOWING))
        output = send_output(connection, &sent);
    else if (home->sharing == NULL)
        sent = output_chain_newly_sent(&connection->output);
    if (sent > 0)
        counters_add(home->counters, COUNTER_BYTES_OUT, sent);
    deadlines_ran(&connection->deadlines, now, (connection->marks & MARK_RECEIVED) != 0,
                  (connection->marks & MARK_PART) != 0, sent);
    connection->marks &= ~(unsigned)MARK_RECEIVED;
    if (sends)
        look_whether_it_waits(connection, output, now);
    if (connection->phase == CONNECTION_LINGERING || home->server->settings.deadlines.lifetime != 0)
        connection_look_at_age(connection, now);
    unsigned asked = atomic_load(&connection->asked);
    if (asked != 0 || output != OUTPUT_FLOWING || connection->phase != CONNECTION_OPEN ||
        (connection->marks & MARK_BROKEN) != 0)
        decide(connection, output, asked, now);
    trace_event(TRACE_RUN_DONE, connection->output.fd, 0);
}
