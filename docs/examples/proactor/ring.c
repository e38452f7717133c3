#include "ring.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    REQUESTS = 4096, /* a power of two; more of them are handed over earlier */
    BUFFERS = 1024,  /* a power of two; a receive that finds none left is asked for again */
    BUFFERS_SIZE = BUFFERS * (RING_BUFFER_SIZE + (int)sizeof(struct io_uring_buf)),
};

static void *map(int fd, size_t size, off_t what)
{
    int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, what);
    return start != MAP_FAILED ? start : NULL;
}

/* What we share with the kernel: four indexes, and two arrays. */
static int map_queues(struct ring *ring, const struct io_uring_params *params)
{
    const struct io_sqring_offsets *in = &params->sq_off;
    const struct io_cqring_offsets *out = &params->cq_off;
    size_t in_size = in->array + params->sq_entries * sizeof(unsigned);
    size_t out_size = out->cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    ring->completions_size = in_size > out_size ? in_size : out_size; /* one mapping for both */
    ring->requests_size = params->sq_entries * sizeof(struct io_uring_sqe);
    unsigned char *start = ring->completions_start =
        map(ring->fd, ring->completions_size, IORING_OFF_CQ_RING);
    ring->requests = ring->requests_start = map(ring->fd, ring->requests_size, IORING_OFF_SQES);
    if (start == NULL || ring->requests == NULL)
        return -1;
    ring->requests_head = (_Atomic unsigned *)(start + in->head);
    ring->requests_tail = (_Atomic unsigned *)(start + in->tail);
    ring->completions_head = (_Atomic unsigned *)(start + out->head);
    ring->completions_tail = (_Atomic unsigned *)(start + out->tail);
    ring->completions = (struct io_uring_cqe *)(start + out->cqes);
    ring->requests_mask = params->sq_entries - 1;
    ring->completions_mask = params->cq_entries - 1;
    for (unsigned i = 0; i < params->sq_entries; i++)
        ((unsigned *)(start + in->array))[i] = i; /* in the order in which we write them */
    return 0;
}

/* Their ring is what the memory begins with, the buffers are behind it. */
static int open_buffers(struct ring *ring)
{
    unsigned char *start = map(-1, BUFFERS_SIZE, 0);
    if (start == NULL)
        return -1;
    ring->free_buffers = (struct io_uring_buf_ring *)start;
    ring->buffers = start + BUFFERS * sizeof(struct io_uring_buf);
    struct io_uring_buf_reg group = {.ring_addr = (uintptr_t)start, .ring_entries = BUFFERS};
    if (syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_PBUF_RING, &group, 1) != 0)
        return -1;
    for (int i = 0; i < BUFFERS; i++)
        ring_give_back(ring, i);
    return 0;
}

int ring_open(struct ring *ring)
{
    /* There is one thread, and the kernel does nothing for it before it waits. */
    struct io_uring_params params = {.flags =
                                         IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    memset(ring, 0, sizeof(*ring));
    ring->fd = (int)syscall(SYS_io_uring_setup, REQUESTS, &params);
    if (ring->fd >= 0 && map_queues(ring, &params) == 0 && open_buffers(ring) == 0)
        return 0;
    int error = errno;
    ring_close(ring);
    errno = error;
    return -1;
}

void ring_close(struct ring *ring)
{
    if (ring->fd > 0)
        close(ring->fd);
    if (ring->completions_start != NULL)
        munmap(ring->completions_start, ring->completions_size);
    if (ring->requests_start != NULL)
        munmap(ring->requests_start, ring->requests_size);
    if (ring->free_buffers != NULL)
        munmap(ring->free_buffers, BUFFERS_SIZE);
    memset(ring, 0, sizeof(*ring));
}

/* The tail is published last: the kernel reads no request before that is complete. */
static void enter(struct ring *ring, unsigned completions, unsigned flags, void *argument,
                  size_t size)
{
    atomic_store_explicit(ring->requests_tail, ring->tail, memory_order_release);
    unsigned waiting = ring->tail - atomic_load_explicit(ring->requests_head, memory_order_acquire);
    syscall(SYS_io_uring_enter, ring->fd, waiting, completions, flags, argument, size);
}

struct io_uring_sqe *ring_request(struct ring *ring, struct operation *operation, int opcode,
                                  int fd)
{
    while (ring->tail - atomic_load_explicit(ring->requests_head, memory_order_acquire) >
           ring->requests_mask)
        enter(ring, 0, 0, NULL, 0);
    struct io_uring_sqe *request = &ring->requests[ring->tail++ & ring->requests_mask];
    *request = (struct io_uring_sqe){
        .opcode = (unsigned char)opcode, .fd = fd, .user_data = (uintptr_t)operation};
    if (operation != NULL)
        operation->pending = true;
    return request;
}

void ring_receive(struct ring *ring, struct operation *operation, int fd, size_t most)
{
    struct io_uring_sqe *request = ring_request(ring, operation, IORING_OP_RECV, fd);
    request->flags = IOSQE_BUFFER_SELECT;
    request->ioprio = IORING_RECVSEND_POLL_FIRST; /* mostly nothing has come yet */
    request->len = (unsigned)(most < RING_BUFFER_SIZE ? most : RING_BUFFER_SIZE);
}

void ring_poll(struct ring *ring, struct operation *operation, int fd, unsigned events)
{
    ring_request(ring, operation, IORING_OP_POLL_ADD, fd)->poll32_events = events;
}

void ring_cancel(struct ring *ring, const struct operation *operation)
{
    if (operation->pending)
        ring_request(ring, NULL, IORING_OP_ASYNC_CANCEL, -1)->addr = (uintptr_t)operation;
}

/* Whether the wait has ended by a completion, in time or by a signal is seen by what is there. */
void ring_wait(struct ring *ring, int timeout)
{
    struct __kernel_timespec time = {timeout / 1000, timeout % 1000 * 1000000LL};
    struct io_uring_getevents_arg argument = {.ts = timeout >= 0 ? (uintptr_t)&time : 0};
    enter(ring, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument, sizeof(argument));
}

bool ring_take(struct ring *ring, struct completion *completion)
{
    unsigned head = atomic_load_explicit(ring->completions_head, memory_order_relaxed);
    while (head != atomic_load_explicit(ring->completions_tail, memory_order_acquire)) {
        const struct io_uring_cqe *from = &ring->completions[head & ring->completions_mask];
        *completion =
            (struct completion){.operation = (struct operation *)(uintptr_t)from->user_data,
                                .result = from->res,
                                .buffer = (from->flags & IORING_CQE_F_BUFFER) != 0
                                              ? (int)(from->flags >> IORING_CQE_BUFFER_SHIFT)
                                              : -1};
        atomic_store_explicit(ring->completions_head, ++head, memory_order_release);
        if (completion->operation == NULL)
            continue; /* of a cancel: what it has cancelled completes by itself */
        completion->operation->pending = false;
        return true;
    }
    return false;
}

unsigned char *ring_buffer(const struct ring *ring, int buffer)
{
    return ring->buffers + (size_t)buffer * RING_BUFFER_SIZE;
}

void ring_give_back(struct ring *ring, int buffer)
{
    struct io_uring_buf *free = &ring->free_buffers->bufs[ring->buffers_tail % BUFFERS];
    free->addr = (uintptr_t)ring_buffer(ring, buffer);
    free->len = RING_BUFFER_SIZE;
    free->bid = (unsigned short)buffer;
    atomic_store_explicit((_Atomic unsigned short *)&ring->free_buffers->tail, ++ring->buffers_tail,
                          memory_order_release);
}
