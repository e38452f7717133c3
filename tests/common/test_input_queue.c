/*
 * The input queue: bytes come out as they went in, however often the block grows or is closed up,
 * nothing is read past the limit, nothing is searched twice, what was handed out stays right until
 * the next call, and a secret leaves no copy.
 */
#include "common/bytes/input_queue_more.h"
#include "faults.h"
#include "helpers.h"
#include "support/deadline.h"
#include "support/mapped.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

TestSuite(input_queue, .timeout = 120);

enum {
    POOL = 64,
    ROOMY = 1 << 24, /* a limit that no test reaches by accident */
};

/* A queue with a connection that ends in it. */
struct bench {
    struct buffer_factory factory;
    struct input_queue queue;
    int ends[2]; /* written to, read from */
};

static void bench_open(struct bench *bench, uint32_t limit)
{
    buffer_factory_init(&bench->factory, POOL);
    input_queue_init(&bench->queue, &bench->factory, limit);
    pair_open(bench->ends);
}

/* Nothing may be left behind: the factory insists on having all segments back. */
static void bench_close(struct bench *bench)
{
    input_queue_clear(&bench->queue);
    cr_assert_eq(buffer_factory_out(&bench->factory), 0);
    buffer_factory_destroy(&bench->factory);
    pair_close(bench->ends);
}

/* A test that has `bench`, whose queue has this limit. */
#define BenchTest(suite, name, limit)                                                              \
    TestWith(suite, name, struct bench, bench, bench_open(bench, limit), bench_close(bench))

static ssize_t fill(struct bench *bench)
{
    return input_queue_fill(&bench->queue, bench->ends[1]);
}

/* Sends the bytes and takes them all into the queue. */
static void feed(struct bench *bench, const void *data, size_t length)
{
    const unsigned char *rest = data;
    while (length > 0) {
        size_t piece = length < 16384 ? length : 16384;
        put(bench->ends[0], rest, piece);
        for (size_t got = 0; got < piece;) {
            ssize_t received = fill(bench);
            cr_assert_gt(received, 0, "%s", strerror(errno));
            got += (size_t)received;
        }
        rest += piece;
        length -= piece;
    }
}

static void feed_text(struct bench *bench, const char *text)
{
    feed(bench, text, strlen(text));
}

static void expect_taken(struct bench *bench, const void *expected, size_t length)
{
    struct message message = input_queue_dequeue(&bench->queue, length);
    cr_assert_eq(message.length, length);
    cr_assert_eq(memcmp(message.data, expected, length), 0, "%zu bytes differ", length);
}

static void expect_found(struct bench *bench, unsigned char wanted, size_t expected)
{
    size_t index = SIZE_MAX;
    cr_assert(input_queue_index_of(&bench->queue, wanted, &index), "no %#x", wanted);
    cr_assert_eq(index, expected, "%#x at %zu, not %zu", wanted, index, expected);
}

static void expect_not_found(struct bench *bench, unsigned char wanted)
{
    size_t index;
    cr_assert_not(input_queue_index_of(&bench->queue, wanted, &index), "%#x at %zu", wanted, index);
}

static size_t out(struct bench *bench)
{
    return buffer_factory_out(&bench->factory);
}

/* Bytes that the queue's block has room for; 0: it has none. */
static size_t capacity(const struct bench *bench)
{
    return bench->queue.block != NULL ? bench->queue.block->capacity : 0;
}

/* ---- empty ---- */

BenchTest(input_queue, an_idle_connection_holds_no_segment, ROOMY)
{
    cr_assert_eq(fill(bench), -1);
    cr_assert_eq(errno, EAGAIN);
    cr_assert_eq(out(bench), 0, "after a read that found nothing");

    feed_text(bench, "hello\n");
    cr_assert_eq(out(bench), 1);
    expect_taken(bench, "hello\n", 6);
    cr_assert(input_queue_retire(&bench->queue));
    cr_assert_eq(out(bench), 0, "after the last message was used");

    feed_text(bench, "again\n");
    input_queue_discard(&bench->queue, 6);
    cr_assert_eq(out(bench), 0, "after all was discarded");
}

/* ---- end of stream, errors ---- */

BenchTest(input_queue, tells_end_of_stream_from_nothing_to_read, ROOMY)
{
    put(bench->ends[0], "last", 4);
    close(bench->ends[0]);
    cr_assert_eq(fill(bench), 4);
    cr_assert_eq(fill(bench), 0);
    cr_assert_eq(fill(bench), 0);
    cr_assert_eq(input_queue_length(&bench->queue), 4, "what came before the end is still there");
    expect_taken(bench, "last", 4);
    cr_assert_eq(fill(bench), 0);
    cr_assert_eq(out(bench), 0);
    bench->ends[0] = dup(bench->ends[1]);
}

static int answers; /* how many more calls are answered with an error */
static int error_to_answer;

static ssize_t fail_some_reads(int fd, const struct iovec *iov, int count)
{
    if (answers-- > 0) {
        errno = error_to_answer;
        return -1;
    }
    return real_readv(fd, iov, count);
}

BenchTest(input_queue, an_error_leaves_the_queue_as_it_was, ROOMY)
{
    static const int errors[] = {EAGAIN, ECONNRESET, ETIMEDOUT, EIO};
    feed_text(bench, "ab");
    faults.readv = fail_some_reads;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        answers = 1;
        error_to_answer = errors[i];
        errno = 0;
        cr_assert_eq(fill(bench), -1);
        cr_assert_eq(errno, errors[i], "%s, not %s", strerror(errno), strerror(errors[i]));
        cr_assert_eq(input_queue_length(&bench->queue), 2);
        cr_assert_eq(out(bench), 1);
    }
    feed_text(bench, "cd");
    expect_taken(bench, "abcd", 4);
}

BenchTest(input_queue, an_interrupted_read_is_tried_again, ROOMY)
{
    put(bench->ends[0], "abc", 3);
    faults.readv = fail_some_reads;
    answers = 1000;
    error_to_answer = EINTR;
    cr_assert_eq(fill(bench), 3);
    expect_taken(bench, "abc", 3);
}

BenchTest(input_queue, a_reset_peer_is_an_error_and_no_end_of_stream, ROOMY)
{
    pair_close(bench->ends);
    tcp_pair_open(bench->ends);
    close_with_reset(bench->ends[0]);
    cr_assert(test_await(bench->ends[1], POLLIN, test_deadline()));
    cr_assert_eq(fill(bench), -1);
    cr_assert_eq(errno, ECONNRESET);
    bench->ends[0] = dup(bench->ends[1]);
}

/* ---- one read, and how much it offers ---- */

static int calls;
static size_t offered;
static size_t most_to_take;

/* Takes note of what is offered, and takes a part of it. */
static ssize_t note_offer(int fd, const struct iovec *iov, int count)
{
    struct iovec cut[16];
    size_t left = most_to_take;
    cr_assert_leq(count, 16);
    calls++;
    offered = 0;
    for (int i = 0; i < count; i++) {
        offered += iov[i].iov_len;
        cut[i] = iov[i];
        if (cut[i].iov_len > left)
            cut[i].iov_len = left;
        left -= cut[i].iov_len;
    }
    return real_readv(fd, cut, count);
}

BenchTest(input_queue, one_fill_is_one_read_and_a_full_one_is_offered_more, ROOMY)
{
    static unsigned char data[100000];
    fill_pattern(data, sizeof(data), 1);
    put(bench->ends[0], data, sizeof(data));
    faults.readv = note_offer;

    most_to_take = 100;
    cr_assert_eq(fill(bench), 100);
    cr_assert_eq(offered, SEGMENT_SIZE, "one segment to begin with");
    most_to_take = SIZE_MAX;
    cr_assert_eq(fill(bench), SEGMENT_SIZE - 100);
    cr_assert_eq(offered, SEGMENT_SIZE - 100, "the rest of it");
    fill(bench);
    cr_assert_eq(offered, 4 * SEGMENT_SIZE, "what fills all it is offered is offered more");
    fill(bench);
    cr_assert_geq(offered, 4 * SEGMENT_SIZE);
    cr_assert_eq(calls, 4);

    most_to_take = 1;
    fill(bench);
    size_t before = capacity(bench);
    fill(bench);
    cr_assert_eq(capacity(bench), before, "what takes less is offered what is left");
    expect_taken(bench, data, input_queue_length(&bench->queue));
}

BenchTest(input_queue, small_reads_share_a_block, ROOMY)
{
    feed_text(bench, "x");
    const struct segment *block = bench->queue.block;
    for (int i = 1; i < SEGMENT_SIZE / 2; i++)
        feed_text(bench, "x");
    cr_assert_eq(bench->queue.block, block);
    cr_assert_eq(out(bench), 1);
}

/* A hundred lines that are too long for a segment, and have not ended yet. */
Test(input_queue, a_long_line_takes_no_more_than_the_limit)
{
    enum { QUEUES = 100, LIMIT = 65538 };
    static struct bench benches[QUEUES];
    static unsigned char data[LIMIT];
    for (int i = 0; i < QUEUES; i++) {
        bench_open(&benches[i], LIMIT);
        for (size_t length = 0; length < LIMIT - 1; length += 1237) {
            size_t more = LIMIT - 1 - length < 1237 ? LIMIT - 1 - length : 1237;
            feed(&benches[i], data, more);
            size_t bound = 2 * (length + more) + 5 * (size_t)SEGMENT_SIZE;
            cr_assert_leq(capacity(&benches[i]), bound < LIMIT ? bound : LIMIT);
        }
        cr_assert_eq(out(&benches[i]), 0, "it holds the segment that it has outgrown");
    }
    for (int i = 0; i < QUEUES; i++) {
        input_queue_discard(&benches[i].queue, LIMIT - 1);
        cr_assert_eq(capacity(&benches[i]), 0, "a line that is gone holds memory");
        bench_close(&benches[i]);
    }
}

/* ---- the limit ---- */

static void reach_limit(uint32_t limit)
{
    struct bench bench;
    unsigned char *data = malloc(limit + 100);
    bench_open(&bench, limit);
    fill_pattern(data, limit + 100, limit);
    put(bench.ends[0], data, limit + 100);
    faults.readv = note_offer;
    most_to_take = SIZE_MAX;
    ssize_t received;
    while ((received = fill(&bench)) > 0)
        cr_assert_leq(input_queue_length(&bench.queue), limit);
    cr_assert_leq(capacity(&bench), limit < SEGMENT_SIZE ? SEGMENT_SIZE : limit);
    cr_assert_eq(errno, ENOBUFS, "limit %u: %s", limit, strerror(errno));
    cr_assert_eq(input_queue_length(&bench.queue), limit, "reached exactly");

    calls = 0;
    cr_assert_eq(fill(&bench), -1);
    cr_assert_eq(errno, ENOBUFS);
    cr_assert_eq(calls, 0, "a full queue does not even ask the socket");
    int unread = 0;
    ioctl(bench.ends[1], FIONREAD, &unread);
    cr_assert_eq(unread, 100, "limit %u: the socket keeps the rest: %d", limit, unread);

    input_queue_discard(&bench.queue, 1);
    cr_assert_eq(fill(&bench), 1, "one byte gone, one byte of room");
    expect_taken(&bench, data + 1, limit);
    free(data);
    bench_close(&bench);
}

Test(input_queue, is_full_at_its_limit_exactly)
{
    static const uint32_t limits[] = {
        1, 2, 100, SEGMENT_SIZE - 1, SEGMENT_SIZE, SEGMENT_SIZE + 1, 2 * SEGMENT_SIZE, 65538};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        reach_limit(limits[i]);
}

BenchTest(input_queue, with_a_limit_of_zero_takes_nothing, 0)
{
    put(bench->ends[0], "x", 1);
    cr_assert_eq(fill(bench), -1);
    cr_assert_eq(errno, ENOBUFS);
}

/* Hitchens' queue stops forever at its 1024th byte: a read of nothing, again and again. */
BenchTest(input_queue, erratum_01_a_full_queue_never_reads_zero_bytes, 1024)
{
    static char line[3000];
    memset(line, 'x', sizeof(line));
    put(bench->ends[0], line, sizeof(line));
    int fills = 0;
    while (fill(bench) > 0)
        fills++;
    cr_assert_eq(errno, ENOBUFS, "a full queue says so, and not that the stream has ended");
    cr_assert_leq(fills, 2);
}

/* ---- borders ---- */

BenchTest(input_queue, messages_come_out_right_wherever_the_borders_are, ROOMY)
{
    static unsigned char data[5 * SEGMENT_SIZE];
    fill_pattern(data, sizeof(data), 31);
    for (size_t start = SEGMENT_SIZE - 1; start <= SEGMENT_SIZE + 1; start++) {
        for (size_t end = 2 * SEGMENT_SIZE - 1; end <= 2 * SEGMENT_SIZE + 1; end++) {
            feed(bench, data, sizeof(data));
            expect_taken(bench, data, start);
            expect_taken(bench, data + start, end - start);
            expect_taken(bench, data + end, sizeof(data) - end);
            cr_assert(input_queue_is_empty(&bench->queue));
        }
    }
}

Test(input_queue, the_block_goes_back_with_its_last_byte)
{
    static unsigned char data[5 * SEGMENT_SIZE];
    struct bench bench;
    for (size_t length = SEGMENT_SIZE / 2; length <= sizeof(data); length *= 2) {
        bench_open(&bench, ROOMY);
        feed(&bench, data, length);
        input_queue_discard(&bench.queue, length - 1);
        cr_assert_gt(capacity(&bench), 0, "one byte of it is still wanted");
        input_queue_discard(&bench.queue, 1);
        cr_assert_eq(capacity(&bench), 0);
        cr_assert_eq(out(&bench), 0);
        bench_close(&bench);
    }
}

BenchTest(input_queue, a_message_is_handed_out_where_it_lies, ROOMY)
{
    static unsigned char data[3 * SEGMENT_SIZE];
    feed(bench, data, sizeof(data));
    const unsigned char *front = bench->queue.block->data;
    cr_assert_eq(input_queue_dequeue(&bench->queue, 10).data, front);
    cr_assert_eq(input_queue_peek(&bench->queue, 2 * SEGMENT_SIZE).data, front + 10);
    cr_assert_eq(input_queue_dequeue(&bench->queue, 2 * SEGMENT_SIZE).data, front + 10);
    cr_assert_eq(input_queue_dequeue(&bench->queue, 5).data, front + 10 + 2 * SEGMENT_SIZE);
}

/* The bytes that are left move to the front of the block when there is too little room behind. */
BenchTest(input_queue, the_room_of_what_has_gone_is_used_again, ROOMY)
{
    static unsigned char data[SEGMENT_SIZE];
    fill_pattern(data, sizeof(data), 9);
    feed(bench, data, SEGMENT_SIZE - 100);
    const struct segment *block = bench->queue.block;
    for (int i = 0; i < 20; i++) {
        input_queue_discard(&bench->queue, SEGMENT_SIZE - 200);
        feed(bench, data + SEGMENT_SIZE - 100, 100);
        feed(bench, data, SEGMENT_SIZE - 300);
        cr_assert_eq(bench->queue.block, block);
        cr_assert_eq(out(bench), 1);
        input_queue_discard(&bench->queue, 100);
        expect_taken(bench, data + SEGMENT_SIZE - 100, 100);
        input_queue_discard(&bench->queue, SEGMENT_SIZE - 400);
        feed(bench, data, SEGMENT_SIZE - 200);
        input_queue_discard(&bench->queue, 0);
        cr_assert_eq(input_queue_length(&bench->queue), SEGMENT_SIZE - 100);
    }
}

/* ---- searching ---- */

Test(input_queue, finds_a_byte_at_every_place_around_a_border)
{
    for (size_t place = SEGMENT_SIZE - 2; place <= SEGMENT_SIZE + 2; place++) {
        static unsigned char data[2 * SEGMENT_SIZE];
        struct bench bench;
        bench_open(&bench, ROOMY);
        memset(data, 'x', sizeof(data));
        data[place] = '\n';
        feed(&bench, data, sizeof(data));
        expect_found(&bench, '\n', place);
        input_queue_discard(&bench.queue, place);
        expect_found(&bench, '\n', 0);
        input_queue_discard(&bench.queue, 1);
        expect_not_found(&bench, '\n');
        bench_close(&bench);
    }
}

/*
 * What was searched is not searched again: a wanted byte that is planted there behind the queue's
 * back stays unseen. That is how a test can see work that is not done.
 */
BenchTest(input_queue, a_search_goes_on_where_the_last_one_gave_up, ROOMY)
{
    static unsigned char data[SEGMENT_SIZE + 100];
    memset(data, 'x', sizeof(data));
    feed(bench, data, SEGMENT_SIZE - 100);
    expect_not_found(bench, '\n');
    memset(bench->queue.block->data, '\n', SEGMENT_SIZE - 100);
    expect_not_found(bench, '\n');
    feed(bench, data, sizeof(data));
    cr_assert_gt(capacity(bench), SEGMENT_SIZE);
    expect_not_found(bench, '\n');

    memset(bench->queue.block->data, '\n', 2 * SEGMENT_SIZE);
    input_queue_discard(&bench->queue, SEGMENT_SIZE);
    expect_not_found(bench, '\n');
    feed(bench, data, sizeof(data)); /* closed up, or grown */
    feed_text(bench, "yy\n");
    expect_found(bench, '\n', 2 * SEGMENT_SIZE + 102);
}

/* ---- what was handed out ---- */

/*
 * While a message is in use other connections take segments from the same factory. If its own had
 * been given back too early, they would write over it.
 */
static void stays_valid(size_t skipped, size_t length)
{
    static unsigned char data[4 * SEGMENT_SIZE];
    static unsigned char noise[8 * SEGMENT_SIZE];
    struct bench bench;
    bench_open(&bench, ROOMY);
    fill_pattern(data, sizeof(data), length);
    memset(noise, 0x55, sizeof(noise));
    feed(&bench, data, skipped + length);
    if (skipped > 0)
        input_queue_discard(&bench.queue, skipped);
    struct message message = input_queue_dequeue(&bench.queue, length);

    struct input_queue other;
    input_queue_init(&other, &bench.factory, ROOMY);
    put(bench.ends[0], noise, sizeof(noise));
    while (input_queue_fill(&other, bench.ends[1]) > 0) {
    }
    cr_assert_eq(input_queue_length(&other), sizeof(noise));
    cr_assert_eq(input_queue_length(&bench.queue), 0);
    cr_assert(input_queue_is_empty(&bench.queue));
    cr_assert_eq(memcmp(message.data, data + skipped, length), 0, "%zu bytes after %zu", length,
                 skipped);
    input_queue_clear(&other);
    bench_close(&bench);
}

Test(input_queue, a_message_stays_right_until_the_next_call)
{
    static const size_t lengths[] = {1,
                                     100,
                                     SEGMENT_SIZE - 1,
                                     SEGMENT_SIZE,
                                     SEGMENT_SIZE + 1,
                                     2 * SEGMENT_SIZE,
                                     2 * SEGMENT_SIZE + 1};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        stays_valid(0, lengths[i]);
        stays_valid(1, lengths[i]);
        stays_valid(SEGMENT_SIZE - 1, lengths[i]);
        stays_valid(SEGMENT_SIZE, lengths[i]);
    }
}

/* ---- against a reference ---- */

/* The bytes of a queue, in one array that only ever grows at its end. */
struct reference {
    unsigned char *data;
    size_t front;
    size_t end;
};

static struct reference reference;

enum { REFERENCE_SIZE = 1 << 20 };

static bool reference_index_from(unsigned char wanted, size_t from, size_t *index)
{
    for (size_t i = reference.front + from; i < reference.end; i++) {
        if (reference.data[i] == wanted) {
            *index = i - reference.front;
            return true;
        }
    }
    return false;
}

/* From 1 to most: few, many, or about as many as a segment or two have room for. */
static size_t some(struct rng *rng, size_t most)
{
    size_t border = rng_between(rng, 1, 2) * SEGMENT_SIZE - 2 + rng_below(rng, 5);
    size_t length = rng_between(rng, 1, most);
    switch (rng_below(rng, 3)) {
    case 0: return length < 60 ? length : length % 60 + 1;
    case 1: return border < most ? border : length;
    default: return length;
    }
}

/* Few different bytes, so that searches find something now and then. */
static void step_fill(struct bench *bench, struct rng *rng)
{
    unsigned char piece[3 * SEGMENT_SIZE];
    size_t length = some(rng, sizeof(piece));
    if (reference.end + length > REFERENCE_SIZE)
        return;
    fill_pattern(piece, length, rng_below(rng, SIZE_MAX));
    for (size_t i = 0; i < length; i++)
        piece[i] = (unsigned char)('a' + piece[i] % 3);
    for (size_t i = some(rng, 8000); i < length; i += some(rng, 8000))
        piece[i] = 'n';
    put(bench->ends[0], piece, length);
    memcpy(reference.data + reference.end, piece, length);
    while (length > 0) {
        ssize_t received = fill(bench);
        if (received < 0 && errno == ENOBUFS)
            break;
        cr_assert_gt(received, 0);
        reference.end += (size_t)received;
        length -= (size_t)received;
    }
    take_now(bench->ends[1], piece, sizeof(piece)); /* what was past the limit is forgotten */
}

static void step_append(struct bench *bench, struct rng *rng)
{
    unsigned char piece[2 * SEGMENT_SIZE];
    size_t length = some(rng, sizeof(piece)) - 1;
    if (reference.end + length > REFERENCE_SIZE)
        return;
    memset(piece, 'a' + (int)rng_below(rng, 3), length);
    bool fits = length <= bench->queue.limit - (reference.end - reference.front);
    cr_assert_eq(input_queue_append(&bench->queue, piece, length), fits);
    if (!fits)
        return;
    memcpy(reference.data + reference.end, piece, length);
    reference.end += length;
}

static void step_search(struct bench *bench, struct rng *rng)
{
    unsigned char wanted = (unsigned char)"nnnnnabcz"[rng_below(rng, 9)];
    size_t expected = SIZE_MAX;
    size_t index = SIZE_MAX;
    bool found = reference_index_from(wanted, 0, &expected);
    cr_assert_eq(input_queue_index_of(&bench->queue, wanted, &index), found, "'%c'", wanted);
    cr_assert_eq(index, expected, "'%c' at %zu, not %zu", wanted, index, expected);

    size_t from = some(rng, reference.end - reference.front + 3) - 1;
    index = expected = SIZE_MAX;
    found = reference_index_from(wanted, from, &expected);
    cr_assert_eq(input_queue_index_from(&bench->queue, wanted, from, &index), found);
    cr_assert_eq(index, expected, "'%c' from %zu: %zu, not %zu", wanted, from, index, expected);
}

static void step_take(struct bench *bench, struct rng *rng)
{
    size_t length = reference.end - reference.front;
    if (length == 0)
        return;
    size_t count = some(rng, length);
    bool discarded = rng_below(rng, 4) == 0;
    if (discarded)
        input_queue_discard(&bench->queue, count);
    else
        expect_taken(bench, reference.data + reference.front, count);
    reference.front += count;
    cr_assert_eq(capacity(bench) == 0, discarded && count == length, "%zu of %zu bytes", count,
                 length);
}

static void step_clear(struct bench *bench, struct rng *rng)
{
    if (rng_below(rng, 20) != 0)
        return;
    input_queue_clear(&bench->queue);
    reference.front = reference.end;
    cr_assert_eq(capacity(bench), 0);
}

static void step_look(struct bench *bench, struct rng *rng)
{
    size_t length = reference.end - reference.front;
    if (length == 0)
        return;
    size_t index = rng_below(rng, length);
    cr_assert_eq(input_queue_at(&bench->queue, index), reference.data[reference.front + index]);
    struct message some_of_it = input_queue_peek(&bench->queue, some(rng, length));
    cr_assert_eq(memcmp(some_of_it.data, reference.data + reference.front, some_of_it.length), 0);
}

/* As from now on, what is in it may be secret or not: that changes nothing that one can see. */
static void step_secret(struct bench *bench, struct rng *rng)
{
    input_queue_set_secret(&bench->queue, rng_below(rng, 2) == 0);
}

static void compare_with_reference(uint64_t seed, uint32_t limit)
{
    static void (*const steps[])(struct bench *, struct rng *) = {
        step_fill, step_search, step_take, step_look, step_append, step_secret, step_clear};
    struct rng rng = rng_from(seed);
    struct bench bench;
    reference.front = reference.end = 0;
    bench_open(&bench, limit);
    for (int step = 0; step < 500; step++) {
        steps[rng_below(&rng, sizeof(steps) / sizeof(steps[0]))](&bench, &rng);
        size_t length = reference.end - reference.front;
        cr_assert_eq(input_queue_length(&bench.queue), length, "seed %llu, step %d",
                     (unsigned long long)seed, step);
        cr_assert_eq(input_queue_is_empty(&bench.queue), length == 0);
        cr_assert_leq(out(&bench), 1);
        cr_assert_leq(capacity(&bench), limit < SEGMENT_SIZE ? SEGMENT_SIZE : limit);
    }
    bench_close(&bench);
}

Test(input_queue, does_what_a_plain_array_does)
{
    static const uint32_t limits[] = {100, SEGMENT_SIZE, 20000, ROOMY};
    reference.data = mapped(REFERENCE_SIZE);
    for (uint64_t seed = 1; seed <= 40; seed++)
        compare_with_reference(seed, limits[seed % 4]);
}

/* ---- no memory ---- */

Test(no_memory, input_queue_fill_says_so_and_leaves_the_bytes_in_the_socket)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    struct bench bench;
    bench_open(&bench, ROOMY);
    put(bench.ends[0], "abc", 3);
    memory_take_all();
    ssize_t received = fill(&bench);
    int error = errno;
    memory_give_back();
    cr_assert_eq(received, -1);
    cr_assert_eq(error, ENOMEM, "%s", strerror(error));
    cr_assert_eq(out(&bench), 0);
    cr_assert_eq(fill(&bench), 3);
    expect_taken(&bench, "abc", 3);
    bench_close(&bench);
}

Test(no_memory, an_input_queue_that_cannot_grow_says_so_and_keeps_its_bytes)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    static unsigned char data[4 * SEGMENT_SIZE];
    struct bench bench;
    for (size_t full = SEGMENT_SIZE; full <= 2 * SEGMENT_SIZE; full += SEGMENT_SIZE) {
        bench_open(&bench, ROOMY);
        fill_pattern(data, sizeof(data), 3);
        feed(&bench, data, full);
        cr_assert(input_queue_append(&bench.queue, data + full, capacity(&bench) - full));
        size_t length = input_queue_length(&bench.queue);
        put(bench.ends[0], data + length, 10);
        memory_take_all();
        errno = 0;
        ssize_t received = fill(&bench);
        int error = errno;
        bool appended = input_queue_append(&bench.queue, data, 1);
        memory_give_back();
        cr_assert_eq(received, -1);
        cr_assert_eq(error, ENOMEM, "%s", strerror(error));
        cr_assert_not(appended);
        cr_assert_eq(input_queue_length(&bench.queue), length);
        cr_assert_eq(fill(&bench), 10);
        expect_taken(&bench, data, length + 10);
        bench_close(&bench);
    }
}

/* ---- secrets ---- */

static bool all_zero(const unsigned char *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (data[i] != 0)
            return false;
    return true;
}

/* The factory keeps the segments, so that one can look at them. */
BenchTest(input_queue, what_is_secret_is_wiped_when_it_has_been_used, ROOMY)
{
    feed_text(bench, "secretplain");
    input_queue_set_secret(&bench->queue, true);
    struct message secret = input_queue_dequeue(&bench->queue, 6);
    cr_assert_eq(memcmp(secret.data, "secret", 6), 0, "it is good until the next call");
    input_queue_set_secret(&bench->queue, false);
    cr_assert(all_zero(secret.data, 6), "`%.6s`", (const char *)secret.data);
    struct message plain = input_queue_dequeue(&bench->queue, 5);
    cr_assert_eq(memcmp(plain.data, "plain", 5), 0, "what comes behind it is not touched");
    input_queue_clear(&bench->queue);
    cr_assert_eq(memcmp(plain.data, "plain", 5), 0, "and what is no secret is not either");
}

BenchTest(input_queue, what_is_secret_is_wiped_when_the_next_one_is_taken, ROOMY)
{
    feed_text(bench, "secretagain");
    input_queue_set_secret(&bench->queue, true);
    struct message secret = input_queue_dequeue(&bench->queue, 6);
    struct message again = input_queue_dequeue(&bench->queue, 5);
    cr_assert(all_zero(secret.data, 6), "`%.6s`", (const char *)secret.data);
    cr_assert_eq(memcmp(again.data, "again", 5), 0, "it is good until the next call");
}

BenchTest(input_queue, a_secret_that_nobody_took_is_wiped_with_the_rest, ROOMY)
{
    input_queue_set_secret(&bench->queue, true);
    feed_text(bench, "user, secr");
    struct message message = input_queue_dequeue(&bench->queue, 6);
    input_queue_clear(&bench->queue);
    cr_assert(all_zero(message.data, 10), "`%.10s`", (const char *)message.data);
    feed_text(bench, "secret");
    message = input_queue_peek(&bench->queue, 6);
    input_queue_discard(&bench->queue, 6);
    cr_assert(all_zero(message.data, 6), "a queue that was cleared keeps its secrets");
}

/* The factory keeps the segment that was outgrown, so that one can look at it. */
Test(input_queue, a_secret_is_wiped_where_it_lay_before_the_block_grew)
{
    static unsigned char bytes[4 * SEGMENT_SIZE];
    struct bench bench;
    memset(bytes, 's', sizeof(bytes));
    bench_open(&bench, ROOMY);
    input_queue_set_secret(&bench.queue, true);
    feed(&bench, bytes, SEGMENT_SIZE);
    const struct segment *outgrown = bench.queue.block;
    feed(&bench, bytes, 1);
    cr_assert_neq(bench.queue.block, outgrown);
    cr_assert_eq(out(&bench), 0);
    cr_assert(all_zero(outgrown->data, SEGMENT_SIZE));
    bench_close(&bench);
}

/* realloc() could leave the bytes behind, so a secret moves to a block that is there beside the
 * old. */
BenchTest(input_queue, a_secret_is_not_moved_by_the_heap, ROOMY)
{
    static unsigned char bytes[SEGMENT_SIZE];
    input_queue_set_secret(&bench->queue, true);
    feed(bench, bytes, sizeof(bytes));
    feed(bench, bytes, 1);
    for (int i = 0; i < 8; i++) {
        const struct segment *before = bench->queue.block;
        size_t size = capacity(bench);
        while (capacity(bench) == size)
            cr_assert(input_queue_append(&bench->queue, bytes, 1000));
        cr_assert_neq(bench->queue.block, before, "%zu bytes were reallocated", size);
    }
}

Test(input_queue, a_secret_leaves_nothing_behind_when_its_rest_moves_to_the_front)
{
    static unsigned char bytes[SEGMENT_SIZE - 100];
    struct bench bench;
    memset(bytes, 's', sizeof(bytes));
    bench_open(&bench, ROOMY);
    input_queue_set_secret(&bench.queue, true);
    feed(&bench, bytes, sizeof(bytes));
    const struct segment *block = bench.queue.block;
    input_queue_discard(&bench.queue, sizeof(bytes) - 50);
    feed_text(&bench, "ss");
    cr_assert_eq(bench.queue.block, block);
    cr_assert_eq(block->end, 52, "the rest has not moved");
    cr_assert(all_zero(block->data + 52, sizeof(bytes) - 52), "a copy is left");
    bench_close(&bench);
}
