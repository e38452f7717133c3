#include "common/bytes/output_chain.h"

#include "common/base/clock.h"
#include "common/base/trace.h"
#include "common/bytes/file_sender.h"
#include "common/bytes/socket_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    WRITE_SEGMENTS = 64, /* a burst of references; a batch out of our own segments takes 17 */
    READ_PIECE = 16384,  /* of a file that has to pass through our memory */
};

void output_chain_init(struct output_chain *chain, const struct output_settings *settings, int fd)
{
    *chain = (struct output_chain){.settings = settings, .fd = fd};
}

/* Whether output waits for a call, and not for the socket. */
static bool waits_for_call(const struct output_chain *chain)
{
    return chain->corked || chain->holder != 0;
}

/* What it costs that output waits. */
static uint64_t cost_of(const struct output_chain *chain)
{
    return chain->length + chain->references * sizeof(struct segment);
}

/* A link without room of its own. */
static bool is_reference(const struct segment *segment)
{
    return segment->shared != NULL || segment->file != NULL;
}

static void free_reference(struct output_chain *chain, struct segment *reference)
{
    if (reference->shared != NULL) {
        shared_message_release(reference->shared);
        chain->references--;
    } else {
        shared_file_release(reference->file);
    }
    free(reference);
}

/* What leaves next; NULL if nothing waits. */
static struct segment *first_of(const struct output_chain *chain)
{
    return chain->last != NULL ? chain->last->next : NULL;
}

/* Takes the first segment out of the chain and gives it back to where it came from. */
static void drop_first(struct output_chain *chain)
{
    struct segment *dropped = chain->last->next;
    chain->last->next = dropped->next;
    if (dropped == chain->last)
        chain->last = NULL;
    dropped->next = NULL;
    if (is_reference(dropped))
        free_reference(chain, dropped);
    else
        buffer_factory_give_back(chain->settings->buffers, dropped);
}

/* Drops what waits and gives all memory back. */
static void clear(struct output_chain *chain)
{
    while (chain->last != NULL)
        drop_first(chain);
    chain->length = 0;
}

/* Whether somebody else reads what the chain begins with, so it stays where it is. */
static bool is_lent(const struct output_chain *chain)
{
    return chain->settings->write != NULL && chain->settings->is_lent(chain);
}

/* A byte was lost, or will be: no later one may follow it on the stream. */
static enum output_result break_chain(struct output_chain *chain, int error)
{
    if (!is_lent(chain))
        clear(chain);
    chain->holder = 0;
    chain->no_memory |= error == ENOMEM && chain->state != OUTPUT_BROKEN;
    atomic_store_explicit(&chain->state, OUTPUT_BROKEN, memory_order_relaxed);
    errno = error;
    return OUTPUT_BROKEN;
}

/* What the chain's state means for the caller; choked lasts from the high mark to the low one. */
static enum output_result result_of(struct output_chain *chain)
{
    bool was_choked = chain->state == OUTPUT_CHOKED;
    size_t mark = was_choked ? chain->settings->low_mark : chain->settings->high_mark;
    enum output_result result = OUTPUT_WAITING;
    if (chain->length > mark)
        result = OUTPUT_CHOKED;
    else if (chain->length == 0 || waits_for_call(chain))
        result = OUTPUT_FLOWING;
    if (was_choked != (result == OUTPUT_CHOKED))
        atomic_store_explicit(&chain->drained, was_choked, memory_order_relaxed);
    atomic_store_explicit(&chain->state, result, memory_order_relaxed);
    return result;
}

static size_t smaller(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

/* How many bytes may be written now. */
static size_t allowance(const struct output_chain *chain)
{
    return chain->pace == NULL ? SIZE_MAX : pace_allowance(chain->pace, clock_ns());
}

/* The socket has taken these bytes. */
static void count_written(struct output_chain *chain, size_t written)
{
    trace_event(TRACE_SEND, chain->fd, (int64_t)written);
    chain->sent += (uint32_t)written;
    if (chain->pace != NULL)
        pace_spend(chain->pace, written, clock_ns());
}

/* How bytes are written: as the socket does it, or never waiting. */
typedef ssize_t write_call(int fd, const struct iovec *pieces, int count);

/* The socket's answer to a write of wanted bytes: how many it took, or -1 if the peer is gone. */
static ssize_t write_some(struct output_chain *chain, const struct iovec *iov, int count,
                          write_call *call)
{
    ssize_t written = call(chain->fd, iov, count);
    chain->calls++;
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

static uint64_t length_of(const struct segment *link)
{
    return link->file != NULL ? link->file_end - link->file_start : link->end - link->start;
}

/* The socket took count bytes from the front. */
static void consume(struct output_chain *chain, size_t count)
{
    chain->length -= count;
    while (count > 0) {
        struct segment *first = first_of(chain);
        uint64_t here = length_of(first);
        if (count < here) {
            first->start += first->file == NULL ? count : 0;
            first->file_start += first->file != NULL ? count : 0;
            return;
        }
        count -= (size_t)here;
        drop_first(chain);
    }
}

/* As write_some(), with the writer of the settings. */
static ssize_t write_by_writer(struct output_chain *chain, const struct iovec *iov, int count)
{
    ssize_t written = chain->settings->write(chain, iov, count);
    if (written > 0) {
        chain->calls++;
        count_written(chain, (size_t)written);
    }
    return written;
}

/*
 * Offers the socket, or without a call the writer, `most` bytes of the memory that the chain begins
 * with; as write_some().
 */
static ssize_t write_memory(struct output_chain *chain, size_t most, size_t *offered,
                            write_call *call)
{
    struct iovec iov[WRITE_SEGMENTS];
    int count = 0;
    *offered = 0;
    const struct segment *segment = first_of(chain);
    while (segment->file == NULL && count < WRITE_SEGMENTS && *offered < most) {
        size_t here = smaller(segment->end - segment->start, most - *offered);
        iov[count++] = (struct iovec){(void *)(uintptr_t)bytes_of(segment), here};
        *offered += here;
        if (segment == chain->last)
            break;
        segment = segment->next;
    }
    return call != NULL ? write_some(chain, iov, count, call) : write_by_writer(chain, iov, count);
}

/*
 * Reads a piece of the file that the chain begins with, and offers it to the socket. What it does
 * not take is read again the next time: nothing is kept in between.
 */
static ssize_t write_what_is_read(struct output_chain *chain, size_t most, size_t *offered)
{
    unsigned char piece[READ_PIECE];
    const struct segment *first = first_of(chain);
    ssize_t got =
        shared_file_read(first->file, piece, smaller(most, sizeof(piece)), first->file_start);
    if (got <= 0) {
        errno = got == 0 ? ESTALE : errno;
        return -1;
    }
    struct iovec iov = {piece, (size_t)got};
    *offered = (size_t)got;
    return write_some(chain, &iov, 1, socket_send);
}

/* Offers the socket, from the file that the chain begins with, `most` bytes; as write_some(). */
static ssize_t write_file(struct output_chain *chain, size_t most, size_t *offered)
{
    const struct segment *first = first_of(chain);
    *offered = smaller(length_of(first), most);
    if (first->file->verbs != NULL)
        return write_what_is_read(chain, *offered, offered);
    ssize_t written =
        file_sender_send(chain->fd, first->file->fd, (off_t)first->file_start, *offered);
    chain->calls++;
    if (written > 0)
        count_written(chain, (size_t)written);
    return written;
}

/*
 * A socket that takes less than it was offered is full, so we stop. And once the rate is used up we
 * stop, too: otherwise we would loop, sending the few bytes that each microsecond allows.
 */
enum output_result output_chain_drain(struct output_chain *chain)
{
    write_call *call = chain->settings->write == NULL ? socket_send : NULL;
    size_t of_files = OUTPUT_FILE_BATCH;
    size_t most;
    if (chain->state == OUTPUT_BROKEN)
        return break_chain(chain, EPIPE);
    chain->holder = 0;
    while (of_files > 0 && chain->length > 0 && (most = allowance(chain)) > 0) {
        bool is_file = first_of(chain)->file != NULL;
        bool is_held_back = most < chain->length;
        size_t offered;
        ssize_t written = is_file
                              ? write_file(chain, smaller(most, of_files), &offered)
                              : write_memory(chain, smaller(most, OUTPUT_BATCH), &offered, call);
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
    struct segment *last = chain->last;
    segment->next = last != NULL ? last->next : segment;
    if (last != NULL)
        last->next = segment;
    chain->last = segment;
}

/* Copies bytes behind the last one; false if there is no memory for all of them. */
static bool append_copy(struct output_chain *chain, const unsigned char *data, size_t length)
{
    while (length > 0) {
        struct segment *last = chain->last;
        if (last == NULL || is_reference(last) || last->end == (size_t)SEGMENT_SIZE) {
            last = buffer_factory_take(chain->settings->buffers, 1);
            if (last == NULL)
                return false;
            append_segment(chain, last);
        }
        size_t here = smaller(length, (size_t)SEGMENT_SIZE - last->end);
        memcpy(last->data + last->end, data, here);
        last->end += here;
        chain->length += here;
        data += here;
        length -= here;
    }
    return true;
}

/*
 * A link without room of its own: start is this chain's position in the shared message. A short
 * message is copied.
 */
static bool append_shared(struct output_chain *chain, struct shared_message *message, size_t start)
{
    if (message->length < OUTPUT_COPIED || start == message->length)
        return append_copy(chain, message->data + start, message->length - start);
    struct segment *reference = malloc(sizeof(*reference));
    if (reference == NULL)
        return false;
    shared_message_retain(message);
    *reference = (struct segment){.start = start, .end = message->length, .shared = message};
    append_segment(chain, reference);
    chain->references++;
    chain->length += message->length - start;
    return true;
}

/* A link without room of its own, from offset to the end of the range. */
static bool append_file(struct output_chain *chain, struct shared_file *file, uint64_t offset,
                        uint64_t length)
{
    if (length == 0)
        return true;
    struct segment *reference = malloc(sizeof(*reference));
    if (reference == NULL)
        return false;
    shared_file_retain(file);
    *reference = (struct segment){.file = file, .file_start = offset, .file_end = offset + length};
    append_segment(chain, reference);
    chain->length += length;
    return true;
}

/* Appends the piece without its first `taken` bytes; false if there is no memory. */
static bool append(struct output_chain *chain, const struct piece *piece, size_t taken)
{
    switch (piece->kind) {
    case PIECE_COPY:
        return append_copy(chain, piece->copy.data + taken, piece->copy.length - taken);
    case PIECE_SHARED: return append_shared(chain, piece->shared, taken);
    case PIECE_FILE:
        return append_file(chain, piece->range.file, piece->range.offset, piece->range.length);
    }
    return false;
}

/* Whether all that the chain counts can still be counted with the range. */
static bool is_countable(const struct output_chain *chain, uint64_t offset, uint64_t length)
{
    return length <= UINT64_MAX - offset && length <= UINT64_MAX - chain->length;
}

/* Before anything is accepted: BROKEN and REFUSED say no, FLOWING says go on. */
static enum output_result admit(struct output_chain *chain, const struct piece *piece)
{
    if (chain->state == OUTPUT_BROKEN) {
        errno = EPIPE;
        return OUTPUT_BROKEN;
    }
    if (cost_of(chain) > chain->settings->cap)
        return OUTPUT_REFUSED;
    if (piece->kind == PIECE_FILE && !is_countable(chain, piece->range.offset, piece->range.length))
        return break_chain(chain, EOVERFLOW);
    return OUTPUT_FLOWING;
}

/*
 * Offers a piece that lies in memory to the socket; how much it took, -1 if the peer is gone. A
 * writer gets only what lies in the chain: this may be gone before it has been read.
 */
static ssize_t write_first(struct output_chain *chain, const struct piece *piece)
{
    if (chain->settings->write != NULL)
        return 0;
    struct message bytes = piece->kind == PIECE_COPY
                               ? piece->copy
                               : (struct message){piece->shared->data, piece->shared->length};
    struct iovec iov = {(void *)(uintptr_t)bytes.data, smaller(bytes.length, allowance(chain))};
    return iov.iov_len > 0 ? write_some(chain, &iov, 1, socket_send_now) : 0;
}

/* Whether more is held back than one call should take along. */
static bool is_full(const struct output_chain *chain)
{
    uint64_t most = smaller(OUTPUT_BATCH, chain->settings->high_mark);
    return !chain->corked && cost_of(chain) >= most;
}

/* Offers bytes in memory to the socket first: what it takes at once is not copied. */
enum output_result output_chain_enqueue(struct output_chain *chain, struct piece piece)
{
    enum output_result result = admit(chain, &piece);
    if (result != OUTPUT_FLOWING)
        return result;
    bool is_file = piece.kind == PIECE_FILE;
    bool first = chain->length == 0 && !waits_for_call(chain);
    ssize_t taken = first && !is_file ? write_first(chain, &piece) : 0;
    if (taken < 0)
        return break_chain(chain, errno);
    if (!append(chain, &piece, (size_t)taken))
        return break_chain(chain, ENOMEM);
    if ((first && is_file) || (chain->holder != 0 && is_full(chain)))
        return output_chain_drain(chain);
    return result_of(chain);
}

void output_chain_cork(struct output_chain *chain)
{
    atomic_store_explicit(&chain->corked, true, memory_order_relaxed);
}

void output_chain_lift_cork(struct output_chain *chain)
{
    atomic_store_explicit(&chain->corked, false, memory_order_relaxed);
}

enum output_result output_chain_uncork(struct output_chain *chain)
{
    atomic_store_explicit(&chain->corked, false, memory_order_relaxed);
    return output_chain_drain(chain);
}

bool output_chain_hold(struct output_chain *chain, uint32_t holder)
{
    bool is_idle = chain->length == 0 && chain->state != OUTPUT_BROKEN && !chain->corked;
    if (chain->holder == holder || (chain->holder == 0 && !is_idle))
        return false;
    chain->holder = holder;
    return true;
}

enum output_result output_chain_release(struct output_chain *chain)
{
    if (chain->holder == 0)
        return OUTPUT_FLOWING;
    return chain->corked ? result_of(chain) : output_chain_drain(chain);
}

void output_chain_close(struct output_chain *chain)
{
    break_chain(chain, EPIPE);
    free(chain->pace);
    chain->pace = NULL;
}

/* Whether what the chain begins with can be written here and now. */
static bool begins_with_memory(const struct output_chain *chain)
{
    return chain->last != NULL && first_of(chain)->file == NULL && !is_lent(chain);
}

enum output_result output_chain_flush(struct output_chain *chain)
{
    size_t most;
    size_t offered;
    if (chain->state == OUTPUT_BROKEN)
        return break_chain(chain, EPIPE);
    while (begins_with_memory(chain) && (most = allowance(chain)) > 0) {
        ssize_t written =
            write_memory(chain, smaller(most, OUTPUT_BATCH), &offered, socket_send_now);
        if (written < 0)
            return break_chain(chain, errno);
        consume(chain, (size_t)written);
        if ((size_t)written < offered || offered == most)
            break;
    }
    return result_of(chain);
}

bool output_chain_set_rate(struct output_chain *chain, uint64_t bytes_per_second)
{
    if (chain->pace == NULL && chain->state != OUTPUT_BROKEN)
        chain->pace = malloc(sizeof(*chain->pace));
    if (chain->pace == NULL)
        return false;
    pace_set(chain->pace, bytes_per_second, clock_ns());
    return true;
}

int64_t output_chain_due(const struct output_chain *chain)
{
    if (chain->pace == NULL || chain->pace->rate == 0 || chain->length == 0)
        return 0;
    int64_t due = pace_due(chain->pace, smaller(chain->length, SIZE_MAX));
    return due > clock_ns() ? due / 1000000 + 1 : 0;
}

uint64_t output_chain_length(const struct output_chain *chain)
{
    return chain->length;
}

uint64_t output_chain_newly_sent(struct output_chain *chain)
{
    uint64_t sent = chain->sent;
    chain->sent = 0;
    return sent;
}

uint32_t output_chain_new_calls(struct output_chain *chain)
{
    uint32_t calls = chain->calls;
    chain->calls = 0;
    return calls;
}
