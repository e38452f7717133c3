/*
 * Stands in for common/events/selector_epoll.c until step C.25: what a selector asks of the kernel,
 * for one selector, and without a wakeup, because there is one thread.
 */
#include "common/events/selector_provider.h"

#include <sys/epoll.h>
#include <unistd.h>

static int epoll;

static void *small_open(void)
{
    epoll = epoll_create1(EPOLL_CLOEXEC);
    return epoll < 0 ? NULL : &epoll;
}

static void small_close(void *state)
{
    (void)state;
    close(epoll);
}

static int small_watch(void *state, struct selection_key *key, unsigned watch)
{
    (void)state;
    struct epoll_event event = {.data.ptr = key};
    event.events = ((watch & SELECT_READ) != 0 ? EPOLLIN : 0u) |
                   ((watch & SELECT_WRITE) != 0 ? EPOLLOUT : 0u);
    int change = key->watched == SELECT_NOTHING ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    return epoll_ctl(epoll, watch == SELECT_NOTHING ? EPOLL_CTL_DEL : change, key->fd, &event);
}

static int small_wait(void *state, struct ready_event events[SELECTOR_BATCH], int timeout_ms)
{
    (void)state;
    struct epoll_event found[SELECTOR_BATCH];
    int count = epoll_wait(epoll, found, SELECTOR_BATCH, timeout_ms);
    for (int i = 0; i < count; i++) {
        bool hung_up = (found[i].events & (EPOLLERR | EPOLLHUP)) != 0;
        events[i].key = found[i].data.ptr;
        events[i].ready =
            (hung_up ? SELECT_READ | SELECT_WRITE | SELECT_LOSS : SELECT_NOTHING) |
            ((found[i].events & EPOLLIN) != 0 ? SELECT_READ : SELECT_NOTHING) |
            ((found[i].events & EPOLLOUT) != 0 ? SELECT_WRITE : SELECT_NOTHING);
    }
    return count;
}

const struct selector_provider selector_epoll = {
    .open = small_open, .close = small_close, .watch = small_watch, .wait = small_wait};
