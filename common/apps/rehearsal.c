/*
 * The connections are those of the stages, each on one end of a pair of local sockets; the test has
 * the other end. What a stage does by threads and a selector is one loop here, settle(): whoever
 * has something to do has its turn, until nobody has.
 */
#include "common/apps/rehearsal.h"

#include "common/apps/application_choice.h"
#include "common/server/connection.h"
#include "common/server/strand.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { POOLED = 16, TIMERS_MAX = 1024 };

struct rehearsed {
    struct connection connection;
    struct rehearsal *rehearsal;
    struct rehearsed *next;
    int fd; /* the client's end; -1: it has left */
    bool is_over;
    size_t references; /* of the application; the memory stays until rehearsal_close() */
    char *read;        /* what rehearsed_read_bytes() has returned */
    alignas(max_align_t) unsigned char memory[];
};

/* ---- Turns ----------------------------------------------------------------------------------- */

static bool is_ready(const struct connection *connection, unsigned wants)
{
    struct pollfd ready = {.fd = connection->output.fd,
                           .events = (short)(((wants & SELECT_READ) != 0 ? POLLIN : 0) |
                                             ((wants & SELECT_WRITE) != 0 ? POLLOUT : 0))};
    return poll(&ready, 1, 0) > 0 &&
           (ready.revents & (ready.events | (wants != 0 ? POLLHUP | POLLERR : 0))) != 0;
}

static void end_facade_if_unused(struct rehearsed *client)
{
    if (client->is_over && client->references == 0)
        channel_facade_end(&client->connection.facade);
}

static void end(struct rehearsed *client) NO_LOCK_HELD
{
    close(connection_detach(&client->connection));
    client->is_over = true;
    end_facade_if_unused(client);
}

static bool is_over(struct rehearsed *client) NO_LOCK_HELD
{
    if (!client->is_over && connection_wants(&client->connection) == CONNECTION_OVER)
        end(client);
    return client->is_over;
}

static struct rehearsed *client_of(struct channel_facade *facade)
{
    return container_of(facade, struct rehearsed, connection.facade);
}

static void retain(struct channel_facade *facade)
{
    client_of(facade)->references++;
}

static void release(struct channel_facade *facade)
{
    struct rehearsed *client = client_of(facade);
    assert(client->references > 0); /* channel_release() without a channel_retain() */
    client->references--;
    end_facade_if_unused(client);
}

/* Unlike one of stages 1 to 3 it counts references. */
static void count_references(struct channel_facade *facade)
{
    static struct channel_facade_verbs verbs;
    verbs = *facade->verbs;
    verbs.retain = retain;
    verbs.release = release;
    facade->verbs = &verbs;
}

static bool take_turn(struct rehearsed *client) NO_LOCK_HELD
{
    struct connection *connection = &client->connection;
    int64_t now = clock_ms();
    struct run run;
    if (is_over(client))
        return false;
    if (connection_deadline(connection, now) <= now)
        connection_expire(connection, now);
    unsigned wants = connection_wants(connection);
    if (wants != CONNECTION_RUN && !is_ready(connection, wants))
        return false;
    run_begin(&run, connection);
    if ((wants & SELECT_READ) != 0)
        connection_receive(connection);
    connection_handle(connection, &run, HANDLE_MESSAGES);
    run_make_calls(&run);
    connection_send(connection, &run);
    run_end(&run);
    return true;
}

static void settle(struct rehearsal *rehearsal) NO_LOCK_HELD
{
    bool any;
    do {
        any = rehearsal->strands.calls != NULL && atomic_load(&rehearsal->strands.asked);
        if (rehearsal->strands.calls != NULL)
            strand_host_look(&rehearsal->strands, clock_ms());
        for (struct rehearsed *client = rehearsal->clients; client != NULL; client = client->next)
            any = take_turn(client) || any;
    } while (any);
}

/* ---- Strands --------------------------------------------------------------------------------- */

/* settle() looks. */
static void wake(struct strand_host *host)
{
    atomic_store(&host->asked, true);
}

static int cannot_connect(struct strand_host *host, const struct endpoint *to, int64_t timeout,
                          struct input_handler_factory *factory)
{
    (void)host;
    (void)to;
    (void)timeout;
    (void)factory;
    return EOPNOTSUPP;
}

/* ---- The application ------------------------------------------------------------------------- */

enum { WORDS_MAX = 64 };

/* What a stage's main() does with its command line. */
static bool read_options(struct rehearsal *rehearsal, const char *const *given)
{
    const struct application *application = rehearsal->application;
    struct options options;
    char *words[WORDS_MAX + 1] = {"rehearsal"};
    int count = 1;
    for (; given != NULL && *given != NULL && count < WORDS_MAX; given++)
        words[count++] = (char *)(uintptr_t)*given;
    options_init(&options, words[0], "An application without a server.");
    server_options(&options, &rehearsal->server.settings, "0");
    if (application->options != NULL)
        application->options(&options);
    return options_parse(&options, count, words) == OPTIONS_SERVE &&
           application_set_defaults(&options, application);
}

/* What server_open() does, but for what listens. */
static void init_server(struct server *server)
{
    const struct server_settings *settings = &server->settings;
    server->name = "rehearsal";
    server->listener = (struct listener){.fd = -1, .reserve = -1};
    server->log = (struct log){.program = server->name, .level = settings->log_level};
    server->home = (struct connection_home){.server = server,
                                            .counters = &server->counters,
                                            .output = {.buffers = &server->buffers,
                                                       .low_mark = settings->output_low_mark,
                                                       .high_mark = settings->output_high_mark,
                                                       .cap = settings->output_cap}};
    buffer_factory_init(&server->buffers, POOLED);
    segment_cache_open(&server->cache, &server->buffers, 0);
    service_init(&server->service);
}

static void destroy_server(struct server *server)
{
    service_destroy(&server->service);
    segment_cache_close(&server->cache);
    buffer_factory_destroy(&server->buffers);
}

bool rehearsal_open(struct rehearsal *rehearsal, const struct application *application,
                    const char *const *options)
{
    static const struct strand_host_verbs verbs = {.wake = wake, .connect = cannot_connect};
    memset(rehearsal, 0, sizeof(*rehearsal));
    rehearsal->application = application;
    if ((application->needs & (OFFERS_CONNECTIONS | OFFERS_WRITE_RATE)) != 0) {
        fprintf(stderr,
                "rehearsal: %s needs outgoing connections or a write rate, which need a "
                "server: make test-app\n",
                application->name);
        return false;
    }
    if (!read_options(rehearsal, options))
        return false;
    init_server(&rehearsal->server);
    rehearsal->strands.verbs = &verbs;
    rehearsal->strands.registered = &rehearsal->registered;
    rehearsal->server.strands = &rehearsal->strands;
    rehearsal->factory = application_open(application, &rehearsal->server);
    if (rehearsal->factory == NULL)
        destroy_server(&rehearsal->server);
    else
        strand_host_begin(&rehearsal->strands);
    return rehearsal->factory != NULL;
}

/* The connection ends itself when its peer has gone. */
void rehearsal_close(struct rehearsal *rehearsal)
{
    strand_host_stop(&rehearsal->strands);
    for (struct rehearsed *client = rehearsal->clients; client != NULL; client = client->next)
        rehearsed_leave(client);
    for (struct rehearsed *client = rehearsal->clients; client != NULL; client = client->next) {
        if (!client->is_over)
            end(client);
    }
    strand_host_end(&rehearsal->strands);
    application_close(rehearsal->application, rehearsal->factory);
    while (rehearsal->clients != NULL) {
        struct rehearsed *client = rehearsal->clients;
        rehearsal->clients = client->next;
        assert(client->references == 0); /* else a channel_release() was forgotten */
        free(client->read);
        free(client);
    }
    destroy_server(&rehearsal->server);
}

/* ---- Clients --------------------------------------------------------------------------------- */

static bool open_ends(int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return false;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    return true;
}

struct rehearsed *rehearsal_connect(struct rehearsal *rehearsal)
{
    size_t size = sizeof(struct rehearsed) + rehearsal->factory->handler_size;
    struct rehearsed *client = aligned_alloc(
        alignof(struct rehearsed), (size + alignof(struct rehearsed) - 1) /
                                       alignof(struct rehearsed) * alignof(struct rehearsed));
    int ends[2];
    if (client == NULL || !open_ends(ends)) {
        free(client);
        return NULL;
    }
    memset(client, 0, size);
    struct input_handler *handler = rehearsal->factory->create(rehearsal->factory, client->memory);
    if (handler == NULL) {
        close(ends[0]);
        close(ends[1]);
        free(client);
        return NULL;
    }
    client->rehearsal = rehearsal;
    client->fd = ends[1];
    struct rehearsed **last = &rehearsal->clients;
    while (*last != NULL)
        last = &(*last)->next;
    *last = client;
    connection_open(&client->connection, &rehearsal->server.home, ends[0], handler);
    count_references(&client->connection.facade);
    connection_advance(&client->connection, LIFE_STARTED);
    settle(rehearsal);
    return client;
}

/* What does not fit waits for the application, or is dropped with the connection. */
void rehearsed_send(struct rehearsed *client, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    while (length > 0 && client->fd >= 0 && !is_over(client)) {
        ssize_t sent = send(client->fd, at, length, MSG_NOSIGNAL);
        settle(client->rehearsal);
        if (sent < 0 && errno != EAGAIN)
            return;
        assert(sent > 0 || is_over(client)); /* else it suspends input for longer than fits */
        at += sent > 0 ? sent : 0;
        length -= sent > 0 ? (size_t)sent : 0;
    }
}

const char *rehearsed_read_bytes(struct rehearsed *client, size_t *length)
{
    size_t used = 0;
    ssize_t got = 1;
    while (client->fd >= 0 && got > 0) {
        char *more = realloc(client->read, used + OUTPUT_BATCH + 1);
        if (more == NULL)
            break;
        client->read = more;
        got = recv(client->fd, more + used, OUTPUT_BATCH, 0);
        used += got > 0 ? (size_t)got : 0;
        settle(client->rehearsal); /* there is room for more */
    }
    if (client->read != NULL)
        client->read[used] = '\0';
    if (length != NULL)
        *length = used;
    return client->read != NULL ? client->read : "";
}

void rehearsed_finish(struct rehearsed *client)
{
    if (client->fd >= 0)
        shutdown(client->fd, SHUT_WR);
    settle(client->rehearsal);
}

void rehearsed_leave(struct rehearsed *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    settle(client->rehearsal);
}

/* It lingers until its peer has ended, too; then it ended when the peer could see that it had. */
bool rehearsed_is_over(struct rehearsed *client)
{
    char byte;
    return client->is_over || client->fd < 0 || recv(client->fd, &byte, 1, MSG_PEEK) == 0;
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* Each timer is due that much sooner. */
static void bring_nearer(struct timer_tree *timers, int64_t milliseconds)
{
    struct tree_timer *all[TIMERS_MAX];
    size_t count = 0;
    while ((all[count] = timer_tree_take_due(timers, INT64_MAX)) != NULL && count + 1 < TIMERS_MAX)
        count++;
    for (size_t i = 0; i < count; i++)
        timer_tree_set(timers, all[i], all[i]->moment - milliseconds);
}

static int64_t next_moment(const struct rehearsal *rehearsal)
{
    int64_t next = INT64_MAX;
    for (struct rehearsed *client = rehearsal->clients; client != NULL; client = client->next) {
        bool fires = client->connection.life < LIFE_STOPPING;
        int64_t moment = fires ? timer_tree_moment(&client->connection.timers) : INT64_MAX;
        next = moment < next ? moment : next;
    }
    for (struct strand *strand = rehearsal->strands.first; strand != NULL; strand = strand->next) {
        int64_t moment = timer_tree_moment(&strand->timers);
        next = moment < next ? moment : next;
    }
    return next;
}

static void pass(struct rehearsal *rehearsal, int64_t milliseconds) NO_LOCK_HELD
{
    for (struct rehearsed *client = rehearsal->clients; client != NULL; client = client->next)
        bring_nearer(&client->connection.timers, milliseconds);
    for (struct strand *strand = rehearsal->strands.first; strand != NULL; strand = strand->next) {
        bring_nearer(&strand->timers, milliseconds);
        atomic_store(&strand->due, timer_tree_moment(&strand->timers));
    }
    if (rehearsal->strands.calls != NULL)
        wake(&rehearsal->strands);
    settle(rehearsal);
}

void rehearsal_pass_time(struct rehearsal *rehearsal, int64_t milliseconds)
{
    int64_t next;
    while ((next = next_moment(rehearsal) - clock_ms()) <= milliseconds && milliseconds > 0) {
        int64_t step = next > 0 ? next : 0;
        pass(rehearsal, step);
        milliseconds -= step;
    }
    if (milliseconds > 0)
        pass(rehearsal, milliseconds);
}
