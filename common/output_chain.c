#include "output_chain.h"

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

void output_chain_init(struct output_chain *chain, const struct output_settings *settings, int fd)
{
    *chain = (struct output_chain){.settings = settings, .fd = fd};
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
static void drop_head(struct output_chain *chain)
{
    struct segment *dropped = chain->head;
    chain->head = dropped->next;
    if (chain->head == NULL)
        chain->tail = NULL;
    dropped->next = NULL;
    if (is_reference(dropped))
        free_reference(dropped);
    else
        buffer_factory_give_back(chain->settings->buffers, dropped);
}

void output_chain_clear(struct output_chain *chain)
{
    while (chain->head != NULL)
        drop_head(chain);
    chain->length = 0;
}

/* A byte was lost, or will be: no later one may follow it on the stream. */
static enum output_result break_chain(struct output_chain *chain, int error)
{
    output_chain_clear(chain);
    chain->broken = true;
    errno = error;
    return OUTPUT_BROKEN;
}

/* What the chain's state means for the caller; choked lasts from the high mark to the low one. */
static enum output_result result_of(struct output_chain *chain)
{
    if (chain->length > chain->settings->high_mark)
        chain->choked = true;
    else if (chain->length <= chain->settings->low_mark)
        chain->choked = false;

    if (chain->choked)
        return OUTPUT_CHOKED;
    return chain->length == 0 || chain->corked ? OUTPUT_FLOWING : OUTPUT_WAITING;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many bytes may be written now, of so many that wait. */
static size_t allowed(const struct output_chain *chain, size_t waiting)
{
    if (chain->pace.rate == 0)
        return waiting;
    return smaller(pace_allowance(&chain->pace, clock_ns()), waiting);
}

/* The socket took so many bytes. */
static void count_written(struct output_chain *chain, size_t written)
{
    trace_event(TRACE_SEND, chain->fd, (int64_t)written);
    chain->sent += written;
    if (chain->pace.rate != 0)
        pace_spend(&chain->pace, written, clock_ns());
}

/* The socket's answer to a write of wanted bytes: how many it took, or -1 if the peer is gone. */
static ssize_t write_some(struct output_chain *chain, const struct iovec *iov, int count)
{
    ssize_t written = socket_send(chain->fd, iov, count);
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        written = 0;
    if (written > 0)
        count_written(chain, (size_t)written);
    return written;
}

static const unsigned char *bytes_of(const struct segment *segment)
{
    return (segment->shared != NULL ? segment->shared->data : segment->data) + segment->start;
}

/* Points iov at the front of the chain, `most` bytes and no file; *total is what it comes to. */
static int gather(const struct output_chain *chain, struct iovec *iov, size_t most, size_t *total)
{
    int count = 0;
    *total = 0;
    for (const struct segment *segment = chain->head;
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
static void consume(struct output_chain *chain, size_t count)
{
    chain->length -= count;
    while (count > 0) {
        size_t here = segment_length(chain->head);
        if (count < here) {
            chain->head->start += count;
            return;
        }
        count -= here;
        drop_head(chain);
    }
}

/* Offers the socket `most` bytes of the memory that the chain begins with; as write_some(). */
static ssize_t write_memory(struct output_chain *chain, size_t most, size_t *offered)
{
    struct iovec iov[WRITE_SEGMENTS];
    int count = gather(chain, iov, most, offered);
    return write_some(chain, iov, count);
}

/* Offers the socket, from the file that the chain begins with, `most` bytes; as write_some(). */
static ssize_t write_file(struct output_chain *chain, size_t most, size_t *offered)
{
    const struct segment *head = chain->head;
    *offered = smaller(segment_length(head), most);
    ssize_t written = file_sender_send(chain->fd, head->file->fd, (off_t)head->start, *offered);
    if (written > 0)
        count_written(chain, (size_t)written);
    return written;
}

/*
 * A socket that takes less than it was offered is full; asking again would only say so. And who has
 * used up what a rate allows would be allowed the few bytes of the time since, over and over.
 */
enum output_result output_chain_drain(struct output_chain *chain)
{
    size_t of_files = OUTPUT_FILE_BATCH;
    size_t most;
    if (chain->broken)
        return break_chain(chain, EPIPE);
    while (of_files > 0 && (most = allowed(chain, chain->length)) > 0) {
        bool is_file = chain->head->file != NULL;
        bool is_held_back = most < chain->length;
        size_t offered;
        ssize_t written = is_file ? write_file(chain, smaller(most, of_files), &offered)
                                  : write_memory(chain, smaller(most, OUTPUT_BATCH), &offered);
        if (written < 0)
            return break_chain(chain, errno);
        consume(chain, (size_t)written);
        if ((size_t)written < offered || (is_held_back && offered == most))
            break;
        of_files -= is_file ? offered : 0;
    }
    return result_of(chain);
}

static void append_segment(struct output_chain *chain, struct segment *segment)
{
    segment->next = NULL;
    if (chain->tail == NULL)
        chain->head = segment;
    else
        chain->tail->next = segment;
    chain->tail = segment;
}

/* Copies bytes behind the tail; false if there is no memory for all of them. */
static bool append_copy(struct output_chain *chain, const unsigned char *data, size_t length)
{
    while (length > 0) {
        struct segment *tail = chain->tail;
        if (tail == NULL || is_reference(tail) || segment_room(tail) == 0) {
            tail = buffer_factory_take(chain->settings->buffers, 1);
            if (tail == NULL)
                return false;
            append_segment(chain, tail);
        }
        size_t here = segment_room(tail) < length ? segment_room(tail) : length;
        memcpy(tail->data + tail->end, data, here);
        tail->end += here;
        chain->length += here;
        data += here;
        length -= here;
    }
    return true;
}

/* A link without room of its own: start is this chain's position in the shared message. */
static bool append_reference(struct output_chain *chain, struct shared_message *message,
                             size_t start)
{
    struct segment *reference = malloc(sizeof(*reference));
    if (reference == NULL)
        return false;
    shared_message_retain(message);
    *reference = (struct segment){.start = start, .end = message->length, .shared = message};
    append_segment(chain, reference);
    chain->length += message->length - start;
    return true;
}

/* A link without room of its own, from offset to end of the file. */
static bool append_file(struct output_chain *chain, struct shared_file *file, size_t offset,
                        size_t length)
{
    struct segment *reference = malloc(sizeof(*reference));
    if (reference == NULL)
        return false;
    shared_file_retain(file);
    *reference = (struct segment){.start = offset, .end = offset + length, .file = file};
    append_segment(chain, reference);
    chain->length += length;
    return true;
}

/* Before anything is accepted: BROKEN and REFUSED say no, FLOWING says go on. */
static enum output_result admit(struct output_chain *chain)
{
    if (chain->broken) {
        errno = EPIPE;
        return OUTPUT_BROKEN;
    }
    return chain->length > chain->settings->cap ? OUTPUT_REFUSED : OUTPUT_FLOWING;
}

/* Tries the socket first if nothing waits; how much of the message it took, -1 if it broke. */
static ssize_t write_first(struct output_chain *chain, struct message message)
{
    if (chain->corked || chain->length > 0)
        return 0;
    struct iovec iov = {(void *)(uintptr_t)message.data, allowed(chain, message.length)};
    return iov.iov_len > 0 ? write_some(chain, &iov, 1) : 0;
}

enum output_result output_chain_enqueue(struct output_chain *chain, struct message message)
{
    enum output_result result = admit(chain);
    if (result != OUTPUT_FLOWING)
        return result;
    ssize_t taken = write_first(chain, message);
    if (taken < 0)
        return break_chain(chain, errno);
    if (!append_copy(chain, message.data + taken, message.length - (size_t)taken))
        return break_chain(chain, ENOMEM);
    return result_of(chain);
}

enum output_result output_chain_enqueue_shared(struct output_chain *chain,
                                               struct shared_message *message)
{
    enum output_result result = admit(chain);
    if (result != OUTPUT_FLOWING)
        return result;
    ssize_t taken = write_first(chain, (struct message){message->data, message->length});
    if (taken < 0)
        return break_chain(chain, errno);
    if ((size_t)taken < message->length && !append_reference(chain, message, (size_t)taken))
        return break_chain(chain, ENOMEM);
    return result_of(chain);
}

/* Whether all that the chain counts can still be counted with the range. */
static bool is_countable(const struct output_chain *chain, size_t offset, size_t length)
{
    return length <= SIZE_MAX - offset && length <= SIZE_MAX - chain->length;
}

enum output_result output_chain_enqueue_file(struct output_chain *chain, struct shared_file *file,
                                             size_t offset, size_t length)
{
    enum output_result result = admit(chain);
    if (result != OUTPUT_FLOWING)
        return result;
    bool first = chain->length == 0 && !chain->corked;
    if (!is_countable(chain, offset, length))
        return break_chain(chain, EOVERFLOW);
    if (length > 0 && !append_file(chain, file, offset, length))
        return break_chain(chain, ENOMEM);
    return first ? output_chain_drain(chain) : result_of(chain);
}

void output_chain_cork(struct output_chain *chain)
{
    chain->corked = true;
}

enum output_result output_chain_uncork(struct output_chain *chain)
{
    chain->corked = false;
    return output_chain_drain(chain);
}

void output_chain_close(struct output_chain *chain)
{
    break_chain(chain, EPIPE);
}

enum output_result output_chain_look(struct output_chain *chain)
{
    return chain->broken ? OUTPUT_BROKEN : result_of(chain);
}

void output_chain_set_rate(struct output_chain *chain, uint64_t bytes_per_second)
{
    pace_set(&chain->pace, bytes_per_second, clock_ns());
}

int64_t output_chain_due(const struct output_chain *chain)
{
    if (chain->pace.rate == 0 || chain->length == 0)
        return 0;
    int64_t due = pace_due(&chain->pace, chain->length);
    return due > clock_ns() ? due / 1000000 + 1 : 0;
}

size_t output_chain_length(const struct output_chain *chain)
{
    return chain->length;
}

uint64_t output_chain_newly_sent(struct output_chain *chain)
{
    uint64_t sent = chain->sent;
    chain->sent = 0;
    return sent;
}
