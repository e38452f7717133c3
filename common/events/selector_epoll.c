/*
 * The provider on top of epoll(7): the kernel keeps the set, and a wait costs only what is ready.
 */
#include "common/events/selector_provider.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct epoll_state {
    int epoll;
    int wakeup; /* an eventfd(2), watched with no key */
};

/* Edge-triggered: each write wakes once, so the counter need not be read back. */
static int watch_wakeup(const struct epoll_state *epoll)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    return epoll_ctl(epoll->epoll, EPOLL_CTL_ADD, epoll->wakeup, &event);
}

static void epoll_close(void *state)
{
    struct epoll_state *epoll = state;
    if (epoll->wakeup >= 0)
        close(epoll->wakeup);
    if (epoll->epoll >= 0)
        close(epoll->epoll);
    free(epoll);
}

static void *epoll_open(void)
{
    struct epoll_state *epoll = malloc(sizeof(*epoll));
    if (epoll == NULL)
        return NULL;
    epoll->epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll->epoll < 0 || epoll->wakeup < 0 || watch_wakeup(epoll) != 0) {
        int error = errno;
        epoll_close(epoll);
        errno = error;
        return NULL;
    }
    return epoll;
}

static int epoll_watch(void *state, struct selection_key *key, unsigned watch)
{
    const struct epoll_state *epoll = state;
    struct epoll_event event = {.data.ptr = key};
    if (watch & SELECT_READ)
        event.events |= EPOLLIN;
    if (watch & SELECT_WRITE)
        event.events |= EPOLLOUT;
    if (watch & SELECT_END)
        event.events |= EPOLLRDHUP;
    if (watch & SELECT_ONCE)
        event.events |= EPOLLONESHOT;

    /* An event mask of 0 still reports errors, forever: that is SELECT_LOSS. For SELECT_NOTHING the
     * descriptor leaves the set. */
    int operation = EPOLL_CTL_MOD;
    if (watch == SELECT_NOTHING)
        operation = EPOLL_CTL_DEL;
    else if (key->watched == SELECT_NOTHING)
        operation = EPOLL_CTL_ADD;
    return epoll_ctl(epoll->epoll, operation, key->fd, &event);
}

static unsigned ready_of(uint32_t events)
{
    if (events & (EPOLLERR | EPOLLHUP))
        return SELECT_READ | SELECT_WRITE | SELECT_LOSS;
    return (events & EPOLLIN ? (unsigned)SELECT_READ : 0) |
           (events & EPOLLOUT ? (unsigned)SELECT_WRITE : 0) |
           (events & EPOLLRDHUP ? (unsigned)SELECT_END : 0);
}

static int epoll_wait_events(void *state, struct ready_event events[SELECTOR_BATCH], int timeout_ms)
{
    const struct epoll_state *epoll = state;
    struct epoll_event found[SELECTOR_BATCH];
    int count = epoll_wait(epoll->epoll, found, SELECTOR_BATCH, timeout_ms);
    if (count < 0)
        return -1;

    int used = 0;
    for (int i = 0; i < count; i++) {
        if (found[i].data.ptr == NULL)
            continue; /* the wakeup: it has done its work by ending the wait */
        struct selection_key *key = found[i].data.ptr;
        if (key->watched & SELECT_ONCE)
            key->watched = SELECT_ONCE; /* still in the set, and watched for nothing */
        events[used++] = (struct ready_event){key, ready_of(found[i].events)};
    }
    return used;
}

static void epoll_wakeup(void *state)
{
    const struct epoll_state *epoll = state;
    const uint64_t one = 1;
    ssize_t written;
    do
        written = write(epoll->wakeup, &one, sizeof(one));
    while (written < 0 && errno == EINTR);
}

const struct selector_provider selector_epoll = {
    .name = "epoll",
    .open = epoll_open,
    .close = epoll_close,
    .watch = epoll_watch,
    .wait = epoll_wait_events,
    .wakeup = epoll_wakeup,
};
