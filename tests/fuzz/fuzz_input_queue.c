/*
 * Input queue and line framing against flat bytes.
 *
 * The input says how long a line may be, and then what happens: so many bytes arrive, a line is
 * taken, a byte is looked for, some bytes are dropped. The reference holds the same bytes in one
 * array and looks for line ends in it from the beginning each time.
 */
#include "common/bytes/input_queue_more.h"
#include "fuzz.h"

#include <errno.h>
#include <string.h>

enum {
    REFERENCE_MOST = 1 << 16,
};

/* What the queue should hold. */
struct reference {
    unsigned char bytes[REFERENCE_MOST];
    size_t length;
};

static struct reference reference;

static void reference_add(const uint8_t *data, size_t length)
{
    memcpy(reference.bytes + reference.length, data, length);
    reference.length += length;
}

static void reference_drop(size_t count)
{
    memmove(reference.bytes, reference.bytes + count, reference.length - count);
    reference.length -= count;
}

/* A line is text, perhaps a CR, and an LF; text longer than max_line is too long. */
static enum framing_result reference_line(size_t max_line, size_t *length)
{
    size_t text = 0;
    while (text < reference.length && reference.bytes[text] != '\n') {
        text++;
    }
    bool whole = text < reference.length;
    *length = text + 1;
    if (text > 0 && reference.bytes[text - 1] == '\r') {
        text--;
    }
    if (text > max_line) {
        return FRAMING_TOO_LONG;
    }
    return whole ? FRAMING_MESSAGE : FRAMING_INCOMPLETE;
}

static void arrive(struct input_queue *queue, struct message bytes, bool ended)
{
    size_t room = queue->limit - input_queue_length(queue);
    fuzz_stream = (struct fuzz_stream){bytes.data, bytes.length, ended};
    ssize_t got = input_queue_fill(queue, 0);
    if (room == 0) {
        fuzz_check(got == -1 && errno == ENOBUFS, "%zd", got);
    } else if (bytes.length == 0) {
        fuzz_check(ended ? got == 0 : got == -1 && errno == EAGAIN, "%zd", got);
    } else {
        fuzz_check(got > 0 && (size_t)got <= bytes.length && (size_t)got <= room, "%zd", got);
        reference_add(bytes.data, (size_t)got);
    }
}

/* So many bytes, all the same: the longest lines are longer than the inputs of a fuzzer. */
static void arrive_alike(struct input_queue *queue, uint8_t byte, size_t count, bool ended)
{
    static uint8_t bytes[255 * 64];
    memset(bytes, byte, count);
    arrive(queue, (struct message){bytes, count}, ended);
}

static void take_line(struct input_queue *queue, size_t max_line)
{
    struct message line = {NULL, 0};
    size_t length;
    enum framing_result expected = reference_line(max_line, &length);
    enum framing_result taken = line_framing_next(queue, max_line, &line);
    fuzz_check(taken == expected, "taken %d, expected %d", (int)taken, (int)expected);
    if (expected != FRAMING_MESSAGE) {
        return;
    }
    fuzz_check(line.length == length, "%zu bytes, expected %zu", line.length, length);
    fuzz_check(memcmp(line.data, reference.bytes, length) == 0, "other bytes");
    reference_drop(length);
}

static void look_for(struct input_queue *queue, uint8_t wanted)
{
    size_t index = 0;
    const unsigned char *found = memchr(reference.bytes, wanted, reference.length);
    bool there = input_queue_index_of(queue, wanted, &index);
    fuzz_check(there == (found != NULL), "%d", there);
    fuzz_check(!there || index == (size_t)(found - reference.bytes), "%zu", index);
}

static void drop(struct input_queue *queue, size_t count)
{
    size_t dropped = count < reference.length ? count : reference.length;
    input_queue_discard(queue, dropped);
    reference_drop(dropped);
}

static void take(struct input_queue *queue, size_t count)
{
    struct message message;
    size_t taken = count < reference.length ? count : reference.length;
    if (taken == 0) {
        return;
    }
    message = input_queue_dequeue(queue, taken);
    fuzz_check(message.length == taken, "%zu", message.length);
    fuzz_check(memcmp(message.data, reference.bytes, taken) == 0, "other bytes");
    reference_drop(taken);
}

static void step(struct input_queue *queue, size_t max_line, struct fuzz_input *input)
{
    uint8_t what = fuzz_byte(input);
    size_t count = fuzz_byte(input);
    switch (what % 8) {
    case 0:
    case 1: arrive(queue, fuzz_bytes(input, count), what >= 128); break;
    case 2: arrive_alike(queue, fuzz_byte(input), count * 64, what >= 128); break;
    case 3:
    case 4: take_line(queue, max_line); break;
    case 5: look_for(queue, (uint8_t)count); break;
    case 6: drop(queue, count * (what >= 128 ? 64 : 1)); break;
    case 7: take(queue, count * (what >= 128 ? 64 : 1)); break;
    }
    fuzz_check(input_queue_length(queue) == reference.length, "%zu", input_queue_length(queue));
    fuzz_check(input_queue_is_empty(queue) == (reference.length == 0), "empty");
    if (reference.length > 0) {
        size_t place = count % reference.length;
        fuzz_check(input_queue_at(queue, place) == reference.bytes[place], "at %zu", place);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct buffer_factory factory;
    struct input_queue queue;
    size_t max_line = fuzz_byte(&input);
    max_line = max_line >= 128 ? (max_line - 127) * 128 : max_line + 1;
    buffer_factory_init(&factory, max_line % 3); /* reused, or freed at once */
    input_queue_init(&queue, &factory, line_framing_input_limit(max_line));
    reference.length = 0;
    while (input.size > 0) {
        step(&queue, max_line, &input);
    }
    size_t nowhere;
    drop(&queue, reference.length);
    input_queue_index_of(&queue, '\n', &nowhere);
    fuzz_check(buffer_factory_out(&factory) == 0, "an empty queue holds memory");
    input_queue_clear(&queue);
    buffer_factory_destroy(&factory);
    return 0;
}
