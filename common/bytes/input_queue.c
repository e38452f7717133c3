#include "common/bytes/input_queue.h"

#include "common/base/trace.h"
#include "common/bytes/socket_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void input_queue_init(struct input_queue *queue, struct buffer_factory *factory, uint32_t limit)
{
    *queue = (struct input_queue){.factory = factory, .limit = limit, .fresh_segments = 1};
}

/* The segment at the front; NULL: there is none. */
static struct segment *first_of(const struct input_queue *queue)
{
    return queue->last != NULL ? queue->last->next : NULL;
}

/* The segment behind another; NULL behind the last one. */
static struct segment *behind(const struct input_queue *queue, const struct segment *segment)
{
    return segment != queue->last ? segment->next : NULL;
}

/* Overwrites what has left each segment; or, to `the_end`, all of it. */
static void wipe(struct input_queue *queue, bool the_end)
{
    for (struct segment *segment = first_of(queue); segment != NULL;
         segment = behind(queue, segment))
        explicit_bzero(segment->data, the_end ? segment->end : segment->start);
}

/* Gives the segments in front of `end`, or all if that is NULL, back to where they came from. */
static void drop_until(struct input_queue *queue, const struct segment *end)
{
    struct segment *dropped;
    while (queue->last != NULL && (dropped = queue->last->next) != end) {
        queue->last->next = dropped->next;
        if (dropped == queue->last)
            queue->last = NULL;
        dropped->next = NULL;
        if (dropped->end > SEGMENT_SIZE)
            free(dropped);
        else
            buffer_factory_give_back(queue->factory, dropped);
    }
}

void input_queue_clear(struct input_queue *queue)
{
    bool secret = queue->secret;
    if (secret)
        wipe(queue, true);
    drop_until(queue, NULL);
    input_queue_init(queue, queue->factory, queue->limit);
    queue->secret = secret;
}

bool input_queue_retire(struct input_queue *queue)
{
    if (queue->secret)
        wipe(queue, false);
    if (queue->last == NULL)
        return true;
    struct segment *first = queue->last->next;
    if (first->start < first->end)
        return false;
    while (first != NULL && first->start == first->end)
        first = behind(queue, first);
    drop_until(queue, first);
    return queue->last == NULL;
}

/* The message that is out was handed out under the old word, and is wiped or not by that. */
void input_queue_set_secret(struct input_queue *queue, bool secret)
{
    if (secret == queue->secret)
        return;
    input_queue_retire(queue);
    queue->secret = secret;
}

static size_t room_of_last(const struct input_queue *queue)
{
    return queue->last != NULL ? segment_room(queue->last) : 0;
}

/* Points iov at the room of the last segment and of fresh ones, `room` bytes at most. */
static int offer_room(const struct input_queue *queue, struct segment *fresh, size_t room,
                      struct iovec *iov)
{
    int count = 0;
    struct segment *segment = room_of_last(queue) > 0 ? queue->last : fresh;
    while (segment != NULL && room > 0) {
        size_t here = segment_room(segment);
        here = here < room ? here : room;
        iov[count++] = (struct iovec){segment->data + segment->end, here};
        room -= here;
        segment = segment == queue->last ? fresh : segment->next;
    }
    return count;
}

/* It is the last one from now on, so it has the sums. */
static void append_segment(struct input_queue *queue, struct segment *segment)
{
    struct segment *last = queue->last;
    segment->sum = last != NULL ? last->sum : (struct input_sum){0};
    segment->next = last != NULL ? last->next : segment;
    if (last != NULL)
        last->next = segment;
    queue->last = segment;
}

/*
 * The last segment, which has room; if it has none, the next one of the fresh ones is the last one
 * from now on.
 */
static struct segment *last_with_room(struct input_queue *queue, struct segment **fresh)
{
    if (room_of_last(queue) == 0) {
        struct segment *taken = *fresh;
        *fresh = taken->next;
        append_segment(queue, taken);
    }
    return queue->last;
}

/* So many bytes are new, in the order of offer_room(). What is left of the fresh segments. */
static struct segment *count_new(struct input_queue *queue, struct segment *fresh, size_t count)
{
    while (count > 0) {
        struct segment *last = last_with_room(queue, &fresh);
        size_t here = segment_room(last);
        here = here < count ? here : count;
        last->end += here;
        last->sum.length += (uint32_t)here;
        count -= here;
    }
    return fresh;
}

ssize_t input_queue_fill(struct input_queue *queue, int fd)
{
    input_queue_retire(queue);
    size_t room = queue->limit - input_queue_length(queue);
    if (room == 0) {
        errno = ENOBUFS;
        return -1;
    }
    struct segment *fresh = buffer_factory_take(queue->factory, queue->fresh_segments);
    if (fresh == NULL) {
        errno = ENOMEM;
        return -1;
    }
    struct iovec iov[1 + INPUT_QUEUE_MAX_FRESH];
    int count = offer_room(queue, fresh, room, iov);
    ssize_t received = socket_receive(fd, iov, count);
    int error = errno;
    if (received >= 0)
        trace_event(TRACE_RECEIVE, fd, received);
    fresh = count_new(queue, fresh, received > 0 ? (size_t)received : 0);
    if (fresh != NULL)
        buffer_factory_give_back(queue->factory, fresh);
    if (fresh != NULL || room_of_last(queue) > 0)
        queue->fresh_segments = 1;
    else if (queue->fresh_segments < INPUT_QUEUE_MAX_FRESH)
        queue->fresh_segments *= 2; /* there is more: a socket that fills all that was offered */
    errno = error;
    return received;
}

bool input_queue_append(struct input_queue *queue, const unsigned char *bytes, size_t length)
{
    input_queue_retire(queue);
    if (length > queue->limit - input_queue_length(queue))
        return false;
    size_t room = room_of_last(queue);
    struct segment *fresh = NULL;
    if (length > room) {
        fresh =
            buffer_factory_take(queue->factory, (length - room + SEGMENT_SIZE - 1) / SEGMENT_SIZE);
        if (fresh == NULL)
            return false;
    }
    while (length > 0) {
        struct segment *to = last_with_room(queue, &fresh);
        size_t here = segment_room(to);
        here = here < length ? here : length;
        memcpy(to->data + to->end, bytes, here);
        to->end += here;
        to->sum.length += (uint32_t)here;
        bytes += here;
        length -= here;
    }
    return true;
}

bool input_queue_index_from(struct input_queue *queue, unsigned char wanted, size_t from,
                            size_t *index)
{
    size_t passed = 0;
    for (const struct segment *segment = first_of(queue); segment != NULL;
         segment = behind(queue, segment)) {
        size_t length = segment_length(segment);
        size_t skip = from > passed ? from - passed : 0;
        if (skip < length) {
            const unsigned char *start = segment->data + segment->start;
            const unsigned char *found = memchr(start + skip, wanted, length - skip);
            if (found != NULL) {
                *index = passed + (size_t)(found - start);
                return true;
            }
        }
        passed += length;
    }
    return false;
}

/* The distance from the front to the end of a segment: what follows it is mostly short. */
static size_t distance_to_end(const struct input_queue *queue, const struct segment *segment)
{
    size_t distance = queue->last->sum.length;
    while ((segment = behind(queue, segment)) != NULL)
        distance -= segment_length(segment);
    return distance;
}

/* Looks at no byte in front of `from`, nor at the segments that these are in. */
static bool search_on(struct input_queue *queue, size_t from, size_t *index)
{
    struct input_sum *sum = &queue->last->sum;
    struct segment *segment = sum->unsearched;
    size_t ahead = from == 0 ? segment_length(segment) : distance_to_end(queue, segment);
    for (;; ahead += segment_length(segment)) {
        const unsigned char *end = segment->data + segment->end;
        const unsigned char *found =
            memchr(end - (ahead - from), queue->searched_for, ahead - from);
        sum->unsearched = segment;
        if (found != NULL) {
            *index = ahead - (size_t)(end - found);
            return true;
        }
        if (segment == queue->last)
            return false;
        from = ahead;
        segment = segment->next;
    }
}

bool input_queue_index_of(struct input_queue *queue, unsigned char wanted, size_t *index)
{
    if (input_queue_is_empty(queue))
        return false;
    struct input_sum *sum = &queue->last->sum;
    if (queue->searched_for != wanted || sum->searched == 0) {
        queue->searched_for = wanted;
        sum->searched = 0;
        sum->unsearched = queue->last->next;
    }
    bool found = search_on(queue, sum->searched, index);
    sum->searched = found ? (uint32_t)*index : sum->length;
    return found;
}

/* Moves the front of the queue count bytes on. The segments stay for the message handed out. */
static void advance(struct input_queue *queue, size_t count)
{
    assert(count <= input_queue_length(queue));
    if (count == 0)
        return;
    struct input_sum *sum = &queue->last->sum;
    sum->length -= (uint32_t)count;
    sum->searched = sum->searched > count ? sum->searched - (uint32_t)count : 0;
    for (struct segment *segment = first_of(queue); count > 0; segment = segment->next) {
        size_t here = segment_length(segment);
        here = here < count ? here : count;
        segment->start += here;
        count -= here;
    }
}

/*
 * Makes the first count bytes, which lie in several segments, one segment at the front, which is as
 * large as that takes. False if there is no memory.
 */
static bool join(struct input_queue *queue, size_t count)
{
    struct segment *joined = count <= (size_t)SEGMENT_SIZE ? buffer_factory_take(queue->factory, 1)
                                                           : malloc(sizeof(*joined) + count);
    if (joined == NULL)
        return false;
    *joined = (struct segment){.end = count};
    struct input_sum sum = queue->last->sum;
    struct segment *segment = first_of(queue);
    for (size_t copied = 0; copied < count;) {
        size_t rest = count - copied;
        size_t here = segment_length(segment) < rest ? segment_length(segment) : rest;
        memcpy(joined->data + copied, segment->data + segment->start, here);
        copied += here;
        segment->start += here;
        if (segment->start < segment->end)
            break;
        segment = behind(queue, segment);
    }
    if (queue->secret)
        wipe(queue, false);
    drop_until(queue, segment);
    struct segment *last = queue->last;
    append_segment(queue, joined);
    if (last != NULL)
        queue->last = last; /* in a ring, what stands behind the last one is the first one */
    if (sum.searched <= count)
        sum.unsearched = joined;
    queue->last->sum = sum;
    return true;
}

bool input_queue_peek(struct input_queue *queue, size_t count, struct message *message)
{
    assert(count > 0 && count <= input_queue_length(queue));
    input_queue_retire(queue);
    if (segment_length(queue->last->next) < count && !join(queue, count))
        return false;
    const struct segment *first = queue->last->next;
    *message = (struct message){first->data + first->start, count};
    return true;
}

bool input_queue_dequeue(struct input_queue *queue, size_t count, struct message *message)
{
    if (!input_queue_peek(queue, count, message))
        return false;
    advance(queue, count);
    return true;
}

size_t input_queue_together(struct input_queue *queue)
{
    return input_queue_retire(queue) ? 0 : segment_length(first_of(queue));
}

void input_queue_discard(struct input_queue *queue, size_t count)
{
    advance(queue, count);
    input_queue_retire(queue);
}

unsigned char input_queue_at(const struct input_queue *queue, size_t index)
{
    assert(index < input_queue_length(queue));
    const struct segment *segment = first_of(queue);
    while (index >= segment_length(segment)) {
        index -= segment_length(segment);
        segment = segment->next;
    }
    return segment->data[segment->start + index];
}
