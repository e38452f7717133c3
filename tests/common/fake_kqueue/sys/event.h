/*
 * As much of the BSDs' <sys/event.h> as common/selector_kqueue.c uses, so that it can be compiled
 * and tested on Linux. See tests/common/kqueue_on_poll.c for what stands behind it.
 */
#ifndef TESTS_COMMON_FAKE_KQUEUE_SYS_EVENT_H
#define TESTS_COMMON_FAKE_KQUEUE_SYS_EVENT_H

#include <stdint.h>
#include <time.h>

enum {
    EVFILT_READ = -1,
    EVFILT_WRITE = -2,
    EVFILT_USER = -10,

    EV_ADD = 0x0001,
    EV_DELETE = 0x0002,
    EV_CLEAR = 0x0020,

    NOTE_TRIGGER = 0x01000000,
};

struct kevent {
    uintptr_t ident;
    short filter;
    unsigned short flags;
    unsigned int fflags;
    intptr_t data;
    void *udata;
};

#define EV_SET(event, ident_, filter_, flags_, fflags_, data_, udata_)                             \
    (*(event) = (struct kevent){.ident = (uintptr_t)(ident_),                                      \
                                .filter = (short)(filter_),                                        \
                                .flags = (unsigned short)(flags_),                                 \
                                .fflags = (fflags_),                                               \
                                .data = (data_),                                                   \
                                .udata = (udata_)})

int kqueue(void);

int kevent(int kqueue, const struct kevent *changes, int change_count, struct kevent *events,
           int event_count, const struct timespec *timeout);

#endif
