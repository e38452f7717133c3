/*
 * common/selector_kqueue.c on Linux: the provider as it is, on top of a kqueue(2) made of poll(2).
 *
 * So the provider is compiled, by all compilers and under all sanitizers, and passes the tests that
 * every provider passes, before anybody tries it on a BSD. It shows that the provider keeps its
 * side of the contract; the kernel's side is only as good as this imitation, which has
 * - EVFILT_READ and EVFILT_WRITE, level-triggered, one registration for each descriptor and filter;
 *   ready also at end of stream, hang-up and error; ENOENT for a deletion of what is not there;
 * - one EVFILT_USER event with EV_CLEAR, which any thread may trigger, even during a wait;
 * - fairness: what did not fit into one answer comes first in the next;
 * and nothing else. A wait and all changes but the trigger come from one thread at a time (here,
 * under the selector's lock).
 *
 * The Makefile puts tests/common/fake_kqueue in front of the system's headers for this file only.
 * Where there is a real kqueue, this file is empty.
 */
#ifdef __linux__
#include "common/selector_kqueue.c"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

enum {
    MOST_QUEUES = 4,
    MOST_FILTERS = 4096,
};

/* A descriptor and a filter that are watched. */
struct filter {
    int fd;
    short filter;
    void *udata;
};

/* In use while fd is open. The trigger of the user event is a write to it. */
static struct queue {
    int fd;
    void *user_data;
    struct filter filters[MOST_FILTERS];
    size_t count;
    size_t next; /* where the next answer begins */
} queues[MOST_QUEUES];

static bool is_open(int fd)
{
    return fd > 0 && fcntl(fd, F_GETFD) != -1;
}

/* Its descriptor may have been closed and belong to something else by now. */
static struct queue *free_queue(int fd)
{
    for (int i = 0; i < MOST_QUEUES; i++)
        if (queues[i].fd == fd || !is_open(queues[i].fd))
            return &queues[i];
    return NULL;
}

int kqueue(void)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct queue *queue = fd < 0 ? NULL : free_queue(fd);
    if (queue == NULL) {
        close(fd);
        errno = EMFILE;
        return -1;
    }
    queue->fd = fd;
    queue->count = queue->next = 0;
    return fd;
}

static struct queue *find_queue(int fd)
{
    for (int i = 0; i < MOST_QUEUES; i++)
        if (queues[i].fd == fd)
            return &queues[i];
    return NULL;
}

static struct filter *find_filter(struct queue *queue, const struct kevent *wanted)
{
    for (size_t i = 0; i < queue->count; i++)
        if (queue->filters[i].fd == (int)wanted->ident &&
            queue->filters[i].filter == wanted->filter)
            return &queue->filters[i];
    return NULL;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

static int change_user_event(struct queue *queue, const struct kevent *wanted)
{
    const uint64_t one = 1;
    if ((wanted->flags & EV_ADD) != 0)
        queue->user_data = wanted->udata;
    if ((wanted->fflags & NOTE_TRIGGER) == 0)
        return 0;
    return write(queue->fd, &one, sizeof(one)) < 0 && errno != EAGAIN ? -1 : 0;
}

static int add_filter(struct queue *queue, const struct kevent *wanted)
{
    struct filter *filter = find_filter(queue, wanted);
    if (!is_open((int)wanted->ident))
        return fail(EBADF);
    if (filter == NULL && queue->count == MOST_FILTERS)
        return fail(ENOMEM);
    if (filter == NULL)
        filter = &queue->filters[queue->count++];
    *filter = (struct filter){(int)wanted->ident, wanted->filter, wanted->udata};
    return 0;
}

static int apply(struct queue *queue, const struct kevent *wanted)
{
    if (wanted->filter == EVFILT_USER)
        return change_user_event(queue, wanted);
    if ((wanted->flags & EV_ADD) != 0)
        return add_filter(queue, wanted);
    struct filter *filter = find_filter(queue, wanted);
    if (filter == NULL)
        return fail(ENOENT);
    *filter = queue->filters[--queue->count];
    return 0;
}

static void report(struct kevent *event, const struct filter *filter)
{
    EV_SET(event, filter->fd, filter->filter, EV_ADD, 0, 0, filter->udata);
}

static int collect_ready(struct queue *queue, const struct pollfd *fds, struct kevent *events,
                         int most)
{
    int found = 0;
    if ((fds[queue->count].revents & POLLIN) != 0) {
        uint64_t triggers;
        if (read(queue->fd, &triggers, sizeof(triggers)) > 0)
            EV_SET(&events[found++], WAKEUP_IDENT, EVFILT_USER, EV_CLEAR, 0, 0, queue->user_data);
    }
    size_t start = queue->next;
    for (size_t i = 0; i < queue->count && found < most; i++) {
        size_t at = (start + i) % queue->count;
        if (fds[at].revents == 0)
            continue;
        report(&events[found++], &queue->filters[at]);
        queue->next = at + 1;
    }
    return found;
}

static int wait_for_ready(struct queue *queue, struct kevent *events, int most,
                          const struct timespec *timeout)
{
    static _Thread_local struct pollfd fds[MOST_FILTERS + 1];
    for (size_t i = 0; i < queue->count; i++)
        fds[i] =
            (struct pollfd){.fd = queue->filters[i].fd,
                            .events = queue->filters[i].filter == EVFILT_READ ? POLLIN : POLLOUT};
    fds[queue->count] = (struct pollfd){.fd = queue->fd, .events = POLLIN};
    if (ppoll(fds, (nfds_t)queue->count + 1, timeout, NULL) < 0)
        return -1;
    return collect_ready(queue, fds, events, most);
}

int kevent(int fd, const struct kevent *changes, int wantedcount, struct kevent *events,
           int event_count, const struct timespec *timeout)
{
    struct queue *queue = find_queue(fd);
    if (queue == NULL)
        return fail(EBADF);
    for (int i = 0; i < wantedcount; i++)
        if (apply(queue, &changes[i]) != 0)
            return -1;
    return event_count == 0 ? 0 : wait_for_ready(queue, events, event_count, timeout);
}
#endif
