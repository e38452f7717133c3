/*
 * A second floor: the same as raw_epoll.c on a ring (io_uring(7)), by system calls only. The
 * program does not ask which sockets are ready. It asks the kernel to accept, to receive and to
 * send, and hears when that has been done: a proactor. One io_uring_enter(2) submits what the last
 * round has asked for and waits for whatever is done next, so with many connections there is far
 * less than a system call for each message.
 *
 * Where a kernel or a sandbox forbids io_uring it says so and ends with 77, which stands for
 * "skipped".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ENTRIES = 1024,
    BUFFER_SIZE = 16384,
    MOST_CONNECTIONS = 65536,
    SKIPPED = 77,
};

enum operation { ACCEPT, RECEIVE, SEND };

/* What is shared with the kernel: requests that wait for it, and results that wait for us. */
static struct {
    int fd;
    unsigned *submit_head, *submit_tail, submit_mask;
    unsigned *done_head, *done_tail, done_mask;
    struct io_uring_sqe *requests;
    struct io_uring_cqe *results;
    unsigned unsubmitted;
} ring;

static unsigned char *buffers[MOST_CONNECTIONS]; /* by descriptor; kept for the next one */

static void *map(size_t size, off_t what)
{
    void *start =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, what);
    if (start == MAP_FAILED)
        exit(1);
    return start;
}

static void ring_open(void)
{
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER |
                                              IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                     .cq_entries = MOST_CONNECTIONS};
    ring.fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
    if (ring.fd < 0) {
        printf("raw-uring: io_uring_setup: %s\n", strerror(errno));
        exit(SKIPPED);
    }
    unsigned char *submit =
        map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    unsigned char *done = map(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
                              IORING_OFF_CQ_RING);
    ring.requests = map(params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    ring.submit_head = (unsigned *)(submit + params.sq_off.head);
    ring.submit_tail = (unsigned *)(submit + params.sq_off.tail);
    ring.submit_mask = params.sq_entries - 1;
    ring.done_head = (unsigned *)(done + params.cq_off.head);
    ring.done_tail = (unsigned *)(done + params.cq_off.tail);
    ring.done_mask = params.cq_entries - 1;
    ring.results = (struct io_uring_cqe *)(done + params.cq_off.cqes);
    for (unsigned i = 0; i < params.sq_entries; i++)
        ((unsigned *)(submit + params.sq_off.array))[i] = i;
}

/* Hands over what was asked for, and waits until that many results are there. */
static void enter(unsigned results)
{
    unsigned flags = results > 0 ? IORING_ENTER_GETEVENTS : 0;
    long submitted =
        syscall(SYS_io_uring_enter, ring.fd, ring.unsubmitted, results, flags, NULL, (size_t)0);
    if (submitted > 0)
        ring.unsubmitted -= (unsigned)submitted;
}

static void ask(enum operation operation, int fd, const void *bytes, unsigned length)
{
    if (ring.unsubmitted > ring.submit_mask)
        enter(0);
    unsigned tail = *ring.submit_tail;
    ring.requests[tail & ring.submit_mask] =
        (struct io_uring_sqe){.opcode = operation == ACCEPT    ? IORING_OP_ACCEPT
                                        : operation == RECEIVE ? IORING_OP_RECV
                                                               : IORING_OP_SEND,
                              .ioprio = operation == ACCEPT ? IORING_ACCEPT_MULTISHOT : 0,
                              .msg_flags = operation == SEND ? MSG_NOSIGNAL | MSG_WAITALL : 0,
                              .fd = fd,
                              .addr = (__u64)(uintptr_t)bytes,
                              .len = length,
                              .user_data = (__u64)fd << 8 | operation};
    __atomic_store_n(ring.submit_tail, tail + 1, __ATOMIC_RELEASE);
    ring.unsubmitted++;
}

static void receive(int fd)
{
    if (buffers[fd] == NULL && (buffers[fd] = malloc(BUFFER_SIZE)) == NULL)
        exit(1);
    ask(RECEIVE, fd, buffers[fd], BUFFER_SIZE);
}

static void take(int listener, const struct io_uring_cqe *result)
{
    int fd = (int)(result->user_data >> 8);
    enum operation operation = (enum operation)(result->user_data & 255);
    if (operation == ACCEPT) {
        if (result->res >= 0 && result->res < MOST_CONNECTIONS)
            receive(result->res);
        if ((result->flags & IORING_CQE_F_MORE) == 0)
            ask(ACCEPT, listener, NULL, 0);
    } else if (result->res <= 0) {
        close(fd);
    } else if (operation == RECEIVE) {
        ask(SEND, fd, buffers[fd], (unsigned)result->res);
    } else {
        receive(fd);
    }
}

static int listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        exit(1);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* connections inherit it */
    printf("raw-uring: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    ring_open();
    int listener = listen_anywhere();
    ask(ACCEPT, listener, NULL, 0);
    for (;;) {
        enter(1);
        unsigned head = *ring.done_head;
        unsigned tail = __atomic_load_n(ring.done_tail, __ATOMIC_ACQUIRE);
        for (; head != tail; head++)
            take(listener, &ring.results[head & ring.done_mask]);
        __atomic_store_n(ring.done_head, head, __ATOMIC_RELEASE);
    }
}
