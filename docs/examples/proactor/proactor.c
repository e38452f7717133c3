#include "proactor.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "handler.h"

#include <poll.h>
#include <string.h>

static void proactor_on_signal(struct operation *self,
                               const struct completion *completion) NO_LOCK_HELD;

int proactor_open(struct proactor *proactor, struct server *server,
                  struct input_handler_factory *factory)
{
    memset(proactor, 0, sizeof(*proactor));
    proactor->server = server;
    proactor->factory = factory;
    proactor->now = clock_ms();
    proactor->signals.done = proactor_on_signal;
    if (ring_open(&proactor->ring) != 0)
        return -1;
    admission_init(&proactor->admission, server);
    timer_heap_init(&proactor->timers);
    if (timer_heap_set(&proactor->timers, &proactor->accept_timer, INT64_MAX) &&
        timer_heap_set(&proactor->timers, &proactor->end_timer, INT64_MAX)) {
        acceptor_open(&proactor->acceptor, proactor, &server->listener);
        ring_poll(&proactor->ring, &proactor->signals, server->signals.fd, POLLIN);
        return 0;
    }
    proactor_close(proactor);
    return -1;
}

void proactor_close(struct proactor *proactor)
{
    timer_heap_destroy(&proactor->timers);
    admission_destroy(&proactor->admission);
    ring_close(&proactor->ring);
}

void proactor_accept_at(struct proactor *proactor, int64_t moment)
{
    timer_heap_set(&proactor->timers, &proactor->accept_timer, moment);
}

void proactor_stop(struct proactor *proactor)
{
    proactor->stopping = true;
    timer_heap_set_all(&proactor->timers, proactor->now);
    timer_heap_set(&proactor->timers, &proactor->accept_timer, INT64_MAX);
    timer_heap_set(&proactor->timers, &proactor->end_timer,
                   proactor->now + 1 + proactor->server->settings.drain_timeout); /* after those */
}

/* A signal completes a request like any other; so does a place that has become free. */
static void proactor_on_signal(struct operation *self, const struct completion *completion)
{
    struct proactor *proactor = container_of(self, struct proactor, signals);
    struct server *server = proactor->server;
    (void)completion;
    signals_take(&server->signals);
    ring_poll(&proactor->ring, &proactor->signals, server->signals.fd, POLLIN);
    acceptor_update(&proactor->acceptor);
    if (server->signals.report)
        counters_print(&server->counters, server->name);
    if (server->signals.stop && !proactor->acceptor.stopping)
        acceptor_stop(&proactor->acceptor);
}

/* Runs every timer that is due. A handler may close itself then, but never another one. */
static void proactor_check_timers(struct proactor *proactor) NO_LOCK_HELD
{
    struct timer *timer;
    while ((timer = timer_heap_due(&proactor->timers, proactor->now)) != NULL) {
        if (timer == &proactor->end_timer)
            return;
        if (timer == &proactor->accept_timer)
            acceptor_update(&proactor->acceptor);
        else
            handler_expire(handler_of_timer(timer));
    }
}

/* One round: waits, and tells each operation that it is done. */
static void proactor_dispatch(struct proactor *proactor, int timeout)
{
    struct completion completion;
    ring_wait(&proactor->ring, timeout);
    proactor->now = clock_ms();
    while (ring_take(&proactor->ring, &completion))
        completion.operation->done(completion.operation, &completion);
}

/* Whether there is still something to do. */
static bool proactor_goes_on(struct proactor *proactor)
{
    return !proactor->stopping || (proactor->now < proactor->end_timer.moment &&
                                   !admission_is_empty(&proactor->admission));
}

/* Ends those that have not come to their end in time, and waits until the kernel lets them go. */
static void proactor_cut_off(struct proactor *proactor) NO_LOCK_HELD
{
    struct timer *timer;
    timer_heap_cancel(&proactor->timers, &proactor->accept_timer);
    timer_heap_cancel(&proactor->timers, &proactor->end_timer);
    while ((timer = timer_heap_first(&proactor->timers)) != NULL)
        handler_close(handler_of_timer(timer));
    while (!admission_is_empty(&proactor->admission))
        proactor_dispatch(proactor, -1);
}

void proactor_run(struct proactor *proactor)
{
    while (proactor_goes_on(proactor)) {
        proactor_dispatch(proactor, timer_heap_timeout(&proactor->timers, clock_ms()));
        proactor_check_timers(proactor);
    }
    proactor_cut_off(proactor);
}
