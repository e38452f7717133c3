#include "common/bytes/output_chain.h"

#include "common/base/trace.h"
#include "common/bytes/output_parts.h"
#include "common/bytes/socket_io.h"

#include <errno.h>
#include <string.h>

enum {
    WRITE_SEGMENTS = 64, /* a burst of references; a batch out of our own segments takes 17 */
};

/* How bytes are written: as the socket does it, or never waiting. */
typedef ssize_t write_call(int fd, const struct iovec *pieces, int count);

void output_chain_init(struct output_chain *chain, const struct output_settings *settings, int fd)
{
    *chain = (struct output_chain){.settings = settings, .fd = fd};
}

/* ---- The links ------------------------------------------------------------------------------ */

void output_chain_append_link(struct output_chain *chain, struct segment *link)
{
    struct segment *last = chain->last;
    link->next = last != NULL ? last->next : link;
    if (last != NULL)
        last->next = link;
    chain->last = link;
}

int output_chain_append_copy(struct output_chain *chain, const unsigned char *data, size_t length)
{
    while (length > 0) {
        struct segment *last = chain->last;
        if (last == NULL || last->verbs != NULL || last->end == (size_t)SEGMENT_SIZE) {
            last = buffer_factory_take(chain->settings->buffers);
            if (last == NULL)
                return ENOMEM;
            output_chain_append_link(chain, last);
        }
        size_t room = (size_t)SEGMENT_SIZE - last->end;
        size_t here = length < room ? length : room;
        memcpy(last->data + last->end, data, here);
        last->end += here;
        chain->length += here;
        data += here;
        length -= here;
    }
    return 0;
}

/* It goes back to where it came from. */
void output_chain_drop_first(struct output_chain *chain)
{
    struct segment *first = chain->last->next;
    chain->last->next = first->next;
    if (first == chain->last)
        chain->last = NULL;
    if (first->verbs != NULL)
        first->verbs->release(chain, first);
    else
        buffer_factory_give_back(chain->settings->buffers, first);
}

void output_chain_consume(struct output_chain *chain, size_t count)
{
    chain->length -= count;
    while (count > 0 && chain->last != NULL) {
        struct segment *first = chain->last->next;
        size_t here = segment_length(first);
        if (count < here) {
            first->start += count;
            return;
        }
        count -= here;
        output_chain_drop_first(chain);
    }
}

/* ---- The state ------------------------------------------------------------------------------ */

/* Whether output waits for a call, and not for the socket. */
static bool waits_for_call(const struct output_chain *chain)
{
    return chain->corked || chain->holder != 0;
}

/* Choked lasts from the high mark to the low one. */
enum output_result output_chain_settle(struct output_chain *chain)
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

enum output_result output_chain_break(struct output_chain *chain, int error)
{
    while (chain->last != NULL)
        output_chain_drop_first(chain);
    chain->length = 0;
    chain->holder = 0;
    chain->no_memory |= error == ENOMEM && chain->state != OUTPUT_BROKEN;
    atomic_store_explicit(&chain->state, OUTPUT_BROKEN, memory_order_relaxed);
    errno = error;
    return OUTPUT_BROKEN;
}

void output_chain_close(struct output_chain *chain)
{
    output_chain_break(chain, EPIPE);
    if (chain->gate != NULL)
        chain->gate->verbs->close(chain->gate);
    chain->gate = NULL;
}

/* ---- To the socket -------------------------------------------------------------------------- */

/* How many bytes may leave now. */
static size_t allowance(const struct output_chain *chain)
{
    return chain->gate == NULL ? SIZE_MAX : chain->gate->verbs->allowance(chain->gate);
}

ssize_t output_chain_wrote(struct output_chain *chain, ssize_t written)
{
    chain->calls++;
    if (written <= 0)
        return written == 0 || errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    trace_event(TRACE_SEND, chain->fd, (int64_t)written);
    chain->sent += (uint32_t)written;
    if (chain->gate != NULL)
        chain->gate->verbs->spend(chain->gate, (size_t)written);
    return written;
}

static bool is_in_memory(const struct segment *link)
{
    return link->verbs == NULL || link->verbs->bytes != NULL;
}

/*
 * Offers the socket `most` bytes of the memory that the chain begins with. An iovec has no const,
 * but writev(2) only reads.
 */
static ssize_t write_memory(struct output_chain *chain, write_call *call, size_t most,
                            size_t *offered)
{
    struct iovec iov[WRITE_SEGMENTS];
    const struct segment *link = chain->last->next;
    int count = 0;
    *offered = 0;
    while (is_in_memory(link) && count < WRITE_SEGMENTS && *offered < most) {
        const unsigned char *bytes = link->verbs != NULL ? link->verbs->bytes(link) : link->data;
        size_t left = most - *offered;
        size_t here = segment_length(link) < left ? segment_length(link) : left;
        iov[count++] = (struct iovec){(void *)(uintptr_t)(bytes + link->start), here};
        *offered += here;
        if (link == chain->last)
            break;
        link = link->next;
    }
    ssize_t written = output_chain_wrote(chain, call(chain->fd, iov, count));
    if (written > 0)
        output_chain_consume(chain, (size_t)written);
    return written;
}

/*
 * Writes until the socket takes no more, or all of `of_files` has been offered that is not in
 * memory. A socket that takes less than it was offered is full, so we stop. And once the gate's
 * allowance is used up we stop, too: otherwise we would loop, sending the few bytes that a rate
 * allows each microsecond.
 */
static enum output_result write_out(struct output_chain *chain, write_call *call, size_t of_files)
{
    if (chain->state == OUTPUT_BROKEN)
        return output_chain_break(chain, EPIPE);
    while (chain->last != NULL) {
        struct segment *first = chain->last->next;
        bool in_memory = is_in_memory(first);
        size_t allowed = allowance(chain);
        bool is_held_back = allowed < chain->length;
        size_t most = in_memory ? OUTPUT_BATCH : of_files;
        most = allowed < most ? allowed : most;
        size_t offered;
        if (most == 0)
            break;
        ssize_t written = in_memory ? write_memory(chain, call, most, &offered)
                                    : first->verbs->write(chain, first, most, &offered);
        if (written < 0)
            return output_chain_break(chain, errno);
        if ((size_t)written < offered || (is_held_back && offered == allowed))
            break;
        of_files -= in_memory ? 0 : offered;
    }
    return output_chain_settle(chain);
}

enum output_result output_chain_drain(struct output_chain *chain)
{
    chain->holder = 0;
    return write_out(chain, socket_send, OUTPUT_FILE_BATCH);
}

enum output_result output_chain_flush(struct output_chain *chain)
{
    return write_out(chain, socket_send_now, 0);
}

/*
 * Offers a piece that lies in memory to the socket, before it is in the chain; how much it took, -1
 * if the peer is gone.
 */
static ssize_t write_first(struct output_chain *chain, const struct message *bytes)
{
    struct iovec iov = {(void *)(uintptr_t)bytes->data, bytes->length};
    if (chain->gate != NULL) {
        size_t allowed = allowance(chain);
        iov.iov_len = bytes->length < allowed ? bytes->length : allowed;
    }
    if (iov.iov_len == 0)
        return 0;
    return output_chain_wrote(chain, socket_send_now(chain->fd, &iov, 1));
}

/* Whether more is held back than one call should take along. */
static bool is_full(const struct output_chain *chain)
{
    size_t high_mark = chain->settings->high_mark;
    return !chain->corked &&
           chain->length + chain->overhead >= (high_mark < OUTPUT_BATCH ? high_mark : OUTPUT_BATCH);
}

/* Puts what the socket has not taken of a piece into the chain. */
static enum output_result append(struct output_chain *chain, const struct piece *piece,
                                 size_t taken, bool first)
{
    int error = piece->verbs != NULL ? piece->verbs->append(chain, piece, taken)
                                     : output_chain_append_copy(chain, piece->bytes.data + taken,
                                                                piece->bytes.length - taken);
    if (error != 0)
        return output_chain_break(chain, error);
    if ((first && piece->kind == PIECE_FILE) || (chain->holder != 0 && is_full(chain)))
        return output_chain_drain(chain);
    return output_chain_settle(chain);
}

/* Offers bytes in memory to the socket first: what it takes at once is not copied. */
enum output_result output_chain_enqueue(struct output_chain *chain, struct piece piece)
{
    bool first = chain->length == 0 && !waits_for_call(chain);
    ssize_t taken = 0;
    if (chain->state == OUTPUT_BROKEN || chain->finished) {
        errno = EPIPE;
        return OUTPUT_BROKEN;
    }
    if (chain->length + chain->overhead > chain->settings->cap)
        return OUTPUT_REFUSED;
    if (first && piece.kind != PIECE_FILE) {
        taken = write_first(chain, &piece.bytes);
        if (taken < 0)
            return output_chain_break(chain, errno);
        if ((size_t)taken == piece.bytes.length)
            return OUTPUT_FLOWING;
    }
    return append(chain, &piece, (size_t)taken, first);
}

/* ---- What the runner does ------------------------------------------------------------------- */

void output_chain_cork(struct output_chain *chain)
{
    atomic_store_explicit(&chain->corked, true, memory_order_relaxed);
}

void output_chain_lift_cork(struct output_chain *chain)
{
    atomic_store_explicit(&chain->corked, false, memory_order_relaxed);
}

/* If nothing waits, nothing changes: not even what others have promised to release. */
enum output_result output_chain_uncork(struct output_chain *chain)
{
    output_chain_lift_cork(chain);
    if (chain->length == 0 && chain->state == OUTPUT_FLOWING)
        return OUTPUT_FLOWING;
    return output_chain_drain(chain);
}

bool output_chain_finish(struct output_chain *chain)
{
    chain->finished = chain->length == 0 || output_chain_drain(chain) == OUTPUT_FLOWING;
    return chain->finished;
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
