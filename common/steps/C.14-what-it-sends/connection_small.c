/*
 * Stands in for common/server/connection*.c until steps C.12 to C.16: what was in server.c until
 * now, and no more. A handler hears nothing of its life.
 */
#include "common/base/clock.h"
#include "common/server/connection_parts.h"

/* ---- Beginning and end ----------------------------------------------------------------------- */

void connection_open(struct connection *connection, const struct connection_home *home, int fd,
                     struct input_handler *handler)
{
    *connection = (struct connection){.facade.verbs = &connection_facade_verbs,
                                      .handler = handler,
                                      .traits = (uint8_t)input_handler_traits(handler),
                                      .marks = MARK_NEW | MARK_SILENT,
                                      .phase = CONNECTION_OPEN};
    input_queue_init(&connection->input, NULL,
                     line_framing_input_limit(home->server->settings.max_line));
    output_chain_init(&connection->output, &home->output, fd);
    deadlines_start(&connection->deadlines, clock_ms());
}

int connection_detach(struct connection *connection)
{
    output_chain_close(&connection->output);
    input_queue_clear(&connection->input);
    return connection->output.fd;
}

/* ---- What is asked of it, and why it ends ---------------------------------------------------- */

void connection_set_handler(struct connection *connection, struct input_handler *handler)
{
    connection->handler = handler;
    connection->traits = (uint8_t)input_handler_traits(handler);
}

bool connection_ask(struct connection *connection, unsigned set, unsigned reset)
{
    unsigned char before = connection->asked;
    connection->asked = (unsigned char)((before | set) & ~reset);
    return connection->asked != before;
}

void connection_end_because(struct connection *connection, enum end_reason reason)
{
    if (connection->end_reason == END_NONE)
        connection->end_reason = (unsigned char)reason;
}

void connection_fail(struct connection *connection, enum end_reason reason)
{
    connection_end_because(connection, reason);
    connection->marks |= MARK_BROKEN;
}

void connection_out_of_memory(struct connection *connection)
{
    connection_fail(connection, END_RESOURCES);
}

void connection_advance(struct connection *connection, enum connection_life goal)
{
    connection_mark(connection, MARK_NEW, false);
    if (connection->life < goal)
        connection->life = (uint8_t)goal;
}

void connection_log_close(const struct connection *connection, const char *why)
{
    log_write(&connection_server(connection)->log, LOG_LEVEL_INFO,
              "event=closed fd=%d reason=\"%s\"", connection->output.fd, why);
}

void connection_lose(struct connection *connection)
{
    connection_end_because(connection, END_PEER_LOST);
}

void connection_forget_coming(struct connection *connection)
{
    (void)connection;
}

/* ---- Between runs ---------------------------------------------------------------------------- */

unsigned connection_wants(struct connection *connection)
{
    enum output_result output = output_chain_look(&connection->output);
    bool open = connection->phase == CONNECTION_OPEN;
    bool more = open && connection_is(connection, MARK_MORE | MARK_INPUT_OVER);
    if (connection_is_over(connection))
        return CONNECTION_OVER;
    if (more && output < OUTPUT_CHOKED)
        return CONNECTION_RUN;
    bool reads =
        !connection_is(connection, MARK_PEER_ENDED) && (!open || (!more && output < OUTPUT_CHOKED));
    return (reads ? SELECT_READ : 0u) | (output != OUTPUT_FLOWING ? SELECT_WRITE : 0u);
}
