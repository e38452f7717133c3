#include "common/server/admission.h"

#include "common/base/clock.h"
#include "common/base/signals.h"
#include "common/server/socket_state.h"

#include <assert.h>
#include <sys/socket.h>

enum {
    ROUND_SIZE = 16, /* then signals and the other events get their turn */
    ROUNDS_AT_STOP = SOMAXCONN / ROUND_SIZE + 1, /* for all that a listener's queue can hold */
    ACCEPT_LAST_MS = 500, /* past the drain timeout: half of the time that a stop has then */
};

void admission_init(struct admission *admission, struct server *server)
{
    *admission = (struct admission){.server = server};
    mutex_init(&admission->lock);
}

/* No thread is left that could give one back. */
void admission_destroy(struct admission *admission)
{
    assert(admission_is_empty(admission)); /* else a channel_release() was forgotten */
    mutex_destroy(&admission->lock);
}

static bool has_place(struct admission *admission)
{
    mutex_lock(&admission->lock);
    bool place = admission->count < admission->server->settings.max_connections;
    admission->wanted = !place;
    mutex_unlock(&admission->lock);
    return place;
}

bool admission_is_open(struct admission *admission)
{
    if (admission->resume_at != 0 && clock_ms() < admission->resume_at)
        return false;
    admission->resume_at = 0;
    return admission->server->settings.overload != OVERLOAD_WAIT || has_place(admission);
}

void admission_back_off(struct admission *admission)
{
    admission->resume_at = clock_ms() + SERVER_BACK_OFF_MS;
}

void admission_enter(struct admission *admission)
{
    mutex_lock(&admission->lock);
    admission->count++;
    mutex_unlock(&admission->lock);
}

void admission_leave(struct admission *admission)
{
    mutex_lock(&admission->lock);
    admission->count--;
    bool wanted = admission->wanted;
    admission->wanted = false;
    mutex_unlock(&admission->lock);
    if (wanted)
        signals_ring();
}

bool admission_is_empty(struct admission *admission)
{
    mutex_lock(&admission->lock);
    bool empty = admission->count == 0;
    mutex_unlock(&admission->lock);
    return empty;
}

static void turn_away(struct admission *admission, int fd)
{
    struct server *server = admission->server;
    counters_add(&server->counters, COUNTER_REJECTED, 1);
    socket_turn_away(fd, server->settings.turn_away);
}

/* A new connection: it is served, if there is a place, and memory or whatever else that takes. */
static void admit(struct admission *admission, int fd, admission_server *serve, void *context)
{
    if (!has_place(admission)) {
        turn_away(admission, fd);
        return;
    }
    admission_enter(admission);
    if (serve(context, fd))
        return;
    turn_away(admission, fd);
    admission_leave(admission);
}

void admission_accept(struct admission *admission, struct listener *listener, int flags,
                      admission_server *serve, void *context)
{
    struct server *server = admission->server;
    for (int i = 0; i < ROUND_SIZE && listener->fd >= 0 && admission_is_open(admission); i++) {
        int fd;
        switch (listener_accept(listener, flags, &server->log, &fd)) {
        case ACCEPT_CONNECTION: admit(admission, fd, serve, context); break;
        case ACCEPT_SHED: counters_add(&server->counters, COUNTER_REJECTED, 1); break;
        case ACCEPT_EXHAUSTED: admission_back_off(admission); return;
        case ACCEPT_NOTHING: return;
        }
    }
}

void admission_accept_last(struct admission *admission, struct listener *listener, int flags,
                           admission_server *serve, void *context)
{
    int64_t end = clock_ms() + admission->server->settings.drain_timeout + ACCEPT_LAST_MS;
    int rounds = listener->is_given ? 0 : ROUNDS_AT_STOP;
    for (; rounds > 0 && socket_is_readable(listener->fd) && clock_ms() < end; rounds--)
        admission_accept(admission, listener, flags, serve, context);
    listener_close(listener);
}

void admission_take(struct admission *admission, struct listener *listener, int fd,
                    const struct endpoint *peer, admission_server *serve, void *context)
{
    if (listener_take(listener, &admission->server->log, fd, peer) == ACCEPT_CONNECTION)
        admit(admission, fd, serve, context);
    else
        counters_add(&admission->server->counters, COUNTER_REJECTED, 1);
}
