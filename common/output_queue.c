#include "output_queue.h"

#include "clock.h"
#include "file_sender.h"
#include "sockets.h"
#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    WRITE_SEGMENTS = 17, /* enough for a whole batch out of segments of our own */
};

void output_queue_init(struct output_queue *queue, struct buffer_factory *factory,
                       const struct output_limits *limits, int fd)
{
    *queue = (struct output_queue){.factory = factory, .limits = limits, .fd = fd};
    mutex_init(&queue->lock);
}

/* A link without room of its own. */
static bool is_reference(const struct segment *segment)
{
    return segment->shared != NULL || segment->file != NULL;
}

static void free_reference(struct segment *reference)
{
    if (reference->shared != NULL)
        shared_message_release(reference->shared);
    else
        shared_file_release(reference->file);
    free(reference);
}

/* Takes the first segment out of the chain and gives it back to where it came from. */
static void drop_head(struct output_queue *queue) REQUIRES(&queue->lock)
{
    struct segment *dropped = queue->head;
    queue->head = dropped->next;
    if (queue->head == NULL)
        queue->tail = NULL;
    dropped->next = NULL;
    if (is_reference(dropped))
        free_reference(dropped);
    else
        buffer_factory_give_back(queue->factory, dropped);
}

static void drop_all(struct output_queue *queue) REQUIRES(&queue->lock)
{
    while (queue->head != NULL)
        drop_head(queue);
    queue->length = 0;
}

void output_queue_destroy(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    drop_all(queue);
    mutex_unlock(&queue->lock);
    mutex_destroy(&queue->lock);
}

/* A byte was lost, or will be: no later one may follow it on the stream. */
static enum output_result break_queue(struct output_queue *queue, int error) REQUIRES(&queue->lock)
{
    drop_all(queue);
    queue->broken = true;
    errno = error;
    return OUTPUT_BROKEN;
}

/* What the queue's state means for the caller; choked lasts from the high mark to the low one. */
static enum output_result result_of(struct output_queue *queue) REQUIRES(&queue->lock)
{
    if (queue->length > queue->limits->high_mark)
        queue->choked = true;
    else if (queue->length <= queue->limits->low_mark)
        queue->choked = false;

    if (queue->choked)
        return OUTPUT_CHOKED;
    return queue->length == 0 || queue->corked ? OUTPUT_FLOWING : OUTPUT_WAITING;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many bytes may be written now, of so many that wait. */
static size_t allowed(const struct output_queue *queue, size_t waiting) REQUIRES(&queue->lock)
{
    if (queue->pace.rate == 0)
        return waiting;
    return smaller(pace_allowance(&queue->pace, clock_ns()), waiting);
}

/* The socket took so many bytes. */
static void count_written(struct output_queue *queue, size_t written) REQUIRES(&queue->lock)
{
    trace_event(TRACE_SEND, queue->fd, (int64_t)written);
    queue->sent += written;
    if (queue->pace.rate != 0)
        pace_spend(&queue->pace, written, clock_ns());
}

/* The socket's answer to a write of wanted bytes: how many it took, or -1 if the peer is gone. */
static ssize_t write_some(struct output_queue *queue, const struct iovec *iov, int count)
    REQUIRES(&queue->lock)
{
    ssize_t written = socket_send(queue->fd, iov, count);
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        written = 0;
    if (written > 0)
        count_written(queue, (size_t)written);
    return written;
}

static const unsigned char *bytes_of(const struct segment *segment)
{
    return (segment->shared != NULL ? segment->shared->data : segment->data) + segment->start;
}

/* Points iov at the front of the chain, `most` bytes and no file; *total is what it comes to. */
static int gather(const struct output_queue *queue, struct iovec *iov, size_t most, size_t *total)
    REQUIRES(&queue->lock)
{
    int count = 0;
    *total = 0;
    for (const struct segment *segment = queue->head;
         segment != NULL && segment->file == NULL && count < WRITE_SEGMENTS && *total < most;
         segment = segment->next) {
        size_t room = most - *total;
        size_t here = segment_length(segment) < room ? segment_length(segment) : room;
        iov[count++] = (struct iovec){(void *)(uintptr_t)bytes_of(segment), here};
        *total += here;
    }
    return count;
}

/* The socket took count bytes from the front. */
static void consume(struct output_queue *queue, size_t count) REQUIRES(&queue->lock)
{
    queue->length -= count;
    while (count > 0) {
        size_t here = segment_length(queue->head);
        if (count < here) {
            queue->head->start += count;
            return;
        }
        count -= here;
        drop_head(queue);
    }
}

/* Offers the socket `most` bytes of the memory that the chain begins with; as write_some(). */
static ssize_t write_memory(struct output_queue *queue, size_t most, size_t *offered)
    REQUIRES(&queue->lock)
{
    struct iovec iov[WRITE_SEGMENTS];
    int count = gather(queue, iov, most, offered);
    return write_some(queue, iov, count);
}

/* Offers the socket, from the file that the chain begins with, `most` bytes; as write_some(). */
static ssize_t write_file(struct output_queue *queue, size_t most, size_t *offered)
    REQUIRES(&queue->lock)
{
    const struct segment *head = queue->head;
    *offered = smaller(segment_length(head), most);
    ssize_t written = file_sender_send(queue->fd, head->file->fd, (off_t)head->start, *offered);
    if (written > 0)
        count_written(queue, (size_t)written);
    return written;
}

/*
 * A socket that takes less than it was offered is full; asking again would only say so. And who has
 * used up what a rate allows would be allowed the few bytes of the time since, over and over.
 */
static enum output_result drain(struct output_queue *queue) REQUIRES(&queue->lock)
{
    size_t of_files = OUTPUT_QUEUE_FILE_BATCH;
    size_t most;
    if (queue->broken)
        return break_queue(queue, EPIPE);
    while (of_files > 0 && (most = allowed(queue, queue->length)) > 0) {
        bool is_file = queue->head->file != NULL;
        bool is_held_back = most < queue->length;
        size_t offered;
        ssize_t written = is_file
                              ? write_file(queue, smaller(most, of_files), &offered)
                              : write_memory(queue, smaller(most, OUTPUT_QUEUE_BATCH), &offered);
        if (written < 0)
            return break_queue(queue, errno);
        consume(queue, (size_t)written);
        if ((size_t)written < offered || (is_held_back && offered == most))
            break;
        of_files -= is_file ? offered : 0;
    }
    return result_of(queue);
}

static void append_segment(struct output_queue *queue, struct segment *segment)
    REQUIRES(&queue->lock)
{
    segment->next = NULL;
    if (queue->tail == NULL)
        queue->head = segment;
    else
        queue->tail->next = segment;
    queue->tail = segment;
}

/* Copies bytes behind the tail; false if there is no memory for all of them. */
static bool append_copy(struct output_queue *queue, const unsigned char *data, size_t length)
    REQUIRES(&queue->lock)
{
    while (length > 0) {
        struct segment *tail = queue->tail;
        if (tail == NULL || is_reference(tail) || segment_room(tail) == 0) {
            tail = buffer_factory_take(queue->factory, 1);
            if (tail == NULL)
                return false;
            append_segment(queue, tail);
        }
        size_t here = segment_room(tail) < length ? segment_room(tail) : length;
        memcpy(tail->data + tail->end, data, here);
        tail->end += here;
        queue->length += here;
        data += here;
        length -= here;
    }
    return true;
}

/* A link without room of its own: start is this queue's position in the shared message. */
static bool append_reference(struct output_queue *queue, struct shared_message *message,
                             size_t start) REQUIRES(&queue->lock)
{
    struct segment *reference = malloc(sizeof(*reference));
    if (reference == NULL)
        return false;
    shared_message_retain(message);
    *reference = (struct segment){.start = start, .end = message->length, .shared = message};
    append_segment(queue, reference);
    queue->length += message->length - start;
    return true;
}

/* A link without room of its own, from offset to end of the file. */
static bool append_file(struct output_queue *queue, struct shared_file *file, size_t offset,
                        size_t length) REQUIRES(&queue->lock)
{
    struct segment *reference = malloc(sizeof(*reference));
    if (reference == NULL)
        return false;
    shared_file_retain(file);
    *reference = (struct segment){.start = offset, .end = offset + length, .file = file};
    append_segment(queue, reference);
    queue->length += length;
    return true;
}

/* Before anything is accepted: BROKEN and REFUSED say no, FLOWING says go on. */
static enum output_result admit(struct output_queue *queue) REQUIRES(&queue->lock)
{
    if (queue->broken) {
        errno = EPIPE;
        return OUTPUT_BROKEN;
    }
    return queue->length > queue->limits->cap ? OUTPUT_REFUSED : OUTPUT_FLOWING;
}

/* Tries the socket first if nothing waits; how much of the message it took, -1 if it broke. */
static ssize_t write_first(struct output_queue *queue, struct message message)
    REQUIRES(&queue->lock)
{
    if (queue->corked || queue->length > 0)
        return 0;
    struct iovec iov = {(void *)(uintptr_t)message.data, allowed(queue, message.length)};
    return iov.iov_len > 0 ? write_some(queue, &iov, 1) : 0;
}

enum output_result output_queue_enqueue(struct output_queue *queue, struct message message)
{
    mutex_lock(&queue->lock);
    enum output_result result = admit(queue);
    if (result == OUTPUT_FLOWING) {
        ssize_t taken = write_first(queue, message);
        if (taken < 0)
            result = break_queue(queue, errno);
        else if (!append_copy(queue, message.data + taken, message.length - (size_t)taken))
            result = break_queue(queue, ENOMEM);
        else
            result = result_of(queue);
    }
    mutex_unlock(&queue->lock);
    return result;
}

enum output_result output_queue_enqueue_shared(struct output_queue *queue,
                                               struct shared_message *message)
{
    mutex_lock(&queue->lock);
    enum output_result result = admit(queue);
    if (result == OUTPUT_FLOWING) {
        ssize_t taken = write_first(queue, (struct message){message->data, message->length});
        if (taken < 0)
            result = break_queue(queue, errno);
        else if ((size_t)taken < message->length &&
                 !append_reference(queue, message, (size_t)taken))
            result = break_queue(queue, ENOMEM);
        else
            result = result_of(queue);
    }
    mutex_unlock(&queue->lock);
    return result;
}

/* Whether all that the queue counts can still be counted with the range. */
static bool is_countable(struct output_queue *queue, size_t offset, size_t length)
    REQUIRES(&queue->lock)
{
    return length <= SIZE_MAX - offset && length <= SIZE_MAX - queue->length;
}

enum output_result output_queue_enqueue_file(struct output_queue *queue, struct shared_file *file,
                                             size_t offset, size_t length)
{
    mutex_lock(&queue->lock);
    enum output_result result = admit(queue);
    if (result == OUTPUT_FLOWING) {
        bool first = queue->length == 0 && !queue->corked;
        if (!is_countable(queue, offset, length))
            result = break_queue(queue, EOVERFLOW);
        else if (length > 0 && !append_file(queue, file, offset, length))
            result = break_queue(queue, ENOMEM);
        else
            result = first ? drain(queue) : result_of(queue);
    }
    mutex_unlock(&queue->lock);
    return result;
}

enum output_result output_queue_drain(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    enum output_result result = drain(queue);
    mutex_unlock(&queue->lock);
    return result;
}

void output_queue_cork(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    queue->corked = true;
    mutex_unlock(&queue->lock);
}

enum output_result output_queue_uncork(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    queue->corked = false;
    enum output_result result = drain(queue);
    mutex_unlock(&queue->lock);
    return result;
}

void output_queue_close(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    break_queue(queue, EPIPE);
    mutex_unlock(&queue->lock);
}

enum output_result output_queue_look(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    enum output_result result = queue->broken ? OUTPUT_BROKEN : result_of(queue);
    mutex_unlock(&queue->lock);
    return result;
}

void output_queue_set_rate(struct output_queue *queue, uint64_t bytes_per_second)
{
    mutex_lock(&queue->lock);
    pace_set(&queue->pace, bytes_per_second, clock_ns());
    mutex_unlock(&queue->lock);
}

int64_t output_queue_due(struct output_queue *queue)
{
    int64_t due = 0;
    mutex_lock(&queue->lock);
    if (queue->pace.rate != 0 && queue->length > 0) {
        due = pace_due(&queue->pace, queue->length);
        due = due > clock_ns() ? due / 1000000 + 1 : 0;
    }
    mutex_unlock(&queue->lock);
    return due;
}

size_t output_queue_length(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    size_t length = queue->length;
    mutex_unlock(&queue->lock);
    return length;
}

uint64_t output_queue_newly_sent(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    uint64_t sent = queue->sent;
    queue->sent = 0;
    mutex_unlock(&queue->lock);
    return sent;
}
