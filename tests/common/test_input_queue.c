/*
 * The input queue: bytes come out as they went in, wherever the borders of segments lie, nothing is
 * read past the limit, nothing is searched twice, and what was handed out stays right until the
 * next call.
 */
#include "common/bytes/input_queue.h"
#include "faults.h"
#include "helpers.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

TestSuite(input_queue, .timeout = 60);

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
    struct message message;
    cr_assert(input_queue_dequeue(&bench->queue, length, &message));
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

/* ---- empty ---- */

Test(input_queue, is_empty_and_holds_nothing_at_first)
{
    struct bench bench;
    bench_open(&bench, ROOMY);
    cr_assert(input_queue_is_empty(&bench.queue));
    cr_assert_eq(input_queue_length(&bench.queue), 0);
    expect_not_found(&bench, '\n');
    cr_assert_eq(out(&bench), 0);
    bench_close(&bench);
}

Test(input_queue, an_idle_connection_holds_no_segment)
{
    struct bench bench;
    bench_open(&bench, ROOMY);
    cr_assert_eq(fill(&bench), -1);
    cr_assert_eq(errno, EAGAIN);
    cr_assert_eq(out(&bench), 0, "after a read that found nothing");

    feed_text(&bench, "hello\n");
    cr_assert_eq(out(&bench), 1);
    expect_taken(&bench, "hello\n", 6);
    cr_assert(input_queue_retire(&bench.queue));
    cr_assert_eq(out(&bench), 0, "after the last message was used");

    feed_text(&bench, "again\n");
    input_queue_discard(&bench.queue, 6);
    cr_assert_eq(out(&bench), 0, "after all was discarded");
    bench_close(&bench);
}

Test(input_queue, clearing_gives_all_back_and_leaves_a_queue_to_use)
{
    static unsigned char data[3 * SEGMENT_SIZE];
    struct bench bench;
    struct message joined;
    bench_open(&bench, ROOMY);
    feed(&bench, data, sizeof(data));
    cr_assert(input_queue_dequeue(&bench.queue, SEGMENT_SIZE + 1, &joined));
    input_queue_clear(&bench.queue);
    cr_assert_eq(out(&bench), 0);
    cr_assert(input_queue_is_empty(&bench.queue));
    expect_not_found(&bench, 0);
    feed_text(&bench, "new");
    expect_taken(&bench, "new", 3);
    input_queue_clear(&bench.queue);
    input_queue_clear(&bench.queue);
    bench_close(&bench);
}

/* ---- end of stream, errors ---- */

/* Bytes of which some come by the socket and some from elsewhere, at every border. */
Test(input_queue, appended_bytes_stand_behind_those_that_were_read)
{
    static unsigned char data[3 * SEGMENT_SIZE];
    struct bench bench;
    fill_pattern(data, sizeof(data), 5);
    for (size_t first = SEGMENT_SIZE - 2; first <= SEGMENT_SIZE + 2; first++) {
        for (size_t second = SEGMENT_SIZE - 2; second <= SEGMENT_SIZE + 2; second++) {
            bench_open(&bench, sizeof(data));
            feed(&bench, data, first);
            cr_assert(input_queue_append(&bench.queue, data + first, second));
            feed(&bench, data + first + second, 100);
            expect_taken(&bench, data, first + second + 100);
            cr_assert(input_queue_retire(&bench.queue));
            cr_assert_eq(out(&bench), 0);
            bench_close(&bench);
        }
    }
}

Test(input_queue, more_bytes_than_the_limit_allows_are_not_appended)
{
    struct bench bench;
    bench_open(&bench, 10);
    cr_assert(input_queue_append(&bench.queue, (const unsigned char *)"12345678", 8));
    cr_assert_not(input_queue_append(&bench.queue, (const unsigned char *)"abc", 3));
    cr_assert(input_queue_append(&bench.queue, (const unsigned char *)"90", 2));
    expect_taken(&bench, "1234567890", 10);
    bench_close(&bench);
}

Test(input_queue, tells_end_of_stream_from_nothing_to_read)
{
    struct bench bench;
    bench_open(&bench, ROOMY);
    put(bench.ends[0], "last", 4);
    close(bench.ends[0]);
    cr_assert_eq(fill(&bench), 4);
    cr_assert_eq(fill(&bench), 0);
    cr_assert_eq(fill(&bench), 0);
    cr_assert_eq(input_queue_length(&bench.queue), 4, "what came before the end is still there");
    expect_taken(&bench, "last", 4);
    cr_assert_eq(fill(&bench), 0);
    cr_assert_eq(out(&bench), 0);
    bench.ends[0] = dup(bench.ends[1]);
    bench_close(&bench);
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

Test(input_queue, an_error_leaves_the_queue_as_it_was)
{
    static const int errors[] = {EAGAIN, ECONNRESET, ETIMEDOUT, EIO};
    struct bench bench;
    bench_open(&bench, ROOMY);
    feed_text(&bench, "ab");
    faults.readv = fail_some_reads;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        answers = 1;
        error_to_answer = errors[i];
        errno = 0;
        cr_assert_eq(fill(&bench), -1);
        cr_assert_eq(errno, errors[i], "%s, not %s", strerror(errno), strerror(errors[i]));
        cr_assert_eq(input_queue_length(&bench.queue), 2);
        cr_assert_eq(out(&bench), 1);
    }
    feed_text(&bench, "cd");
    expect_taken(&bench, "abcd", 4);
    bench_close(&bench);
}

Test(input_queue, an_interrupted_read_is_tried_again)
{
    struct bench bench;
    bench_open(&bench, ROOMY);
    put(bench.ends[0], "abc", 3);
    faults.readv = fail_some_reads;
    answers = 1000;
    error_to_answer = EINTR;
    cr_assert_eq(fill(&bench), 3);
    expect_taken(&bench, "abc", 3);
    bench_close(&bench);
}

Test(input_queue, a_reset_peer_is_an_error_and_no_end_of_stream)
{
    struct bench bench;
    bench_open(&bench, ROOMY);
    pair_close(bench.ends);
    tcp_pair_open(bench.ends);
    close_with_reset(bench.ends[0]);
    cr_assert(test_await(bench.ends[1], POLLIN, test_now() + test_deadline_ms() / 1000.0));
    cr_assert_eq(fill(&bench), -1);
    cr_assert_eq(errno, ECONNRESET);
    bench.ends[0] = dup(bench.ends[1]);
    bench_close(&bench);
}

/* ---- one readv, and how much it offers ---- */

static int calls;
static size_t offered;
static size_t offered_where; /* how many pieces */
static size_t most_to_take;

/* Takes note of what is offered, and takes a part of it. */
static ssize_t note_offer(int fd, const struct iovec *iov, int count)
{
    struct iovec cut[16];
    size_t left = most_to_take;
    cr_assert_leq(count, 16);
    calls++;
    offered = 0;
    offered_where = (size_t)count;
    for (int i = 0; i < count; i++) {
        offered += iov[i].iov_len;
        cut[i] = iov[i];
        if (cut[i].iov_len > left)
            cut[i].iov_len = left;
        left -= cut[i].iov_len;
    }
    return real_readv(fd, cut, count);
}

Test(input_queue, one_fill_is_one_readv_into_old_and_new_room)
{
    static unsigned char data[100000];
    struct bench bench;
    bench_open(&bench, ROOMY);
    fill_pattern(data, sizeof(data), 1);
    put(bench.ends[0], data, sizeof(data));
    faults.readv = note_offer;
    most_to_take = SIZE_MAX;

    most_to_take = 100;
    cr_assert_eq(fill(&bench), 100);
    cr_assert_eq(offered, SEGMENT_SIZE, "one segment to begin with");
    most_to_take = SIZE_MAX;
    cr_assert_eq(fill(&bench), 2 * SEGMENT_SIZE - 100);
    cr_assert_eq(offered, 2 * SEGMENT_SIZE - 100, "the rest of the first and a new one");
    fill(&bench);
    cr_assert_eq(offered, 2 * SEGMENT_SIZE, "what fills all it is offered is offered more");
    fill(&bench);
    cr_assert_eq(offered, 4 * SEGMENT_SIZE);
    fill(&bench);
    cr_assert_eq(offered, 4 * SEGMENT_SIZE, "and no more than that");
    cr_assert_leq(offered_where, 1 + INPUT_QUEUE_MAX_FRESH);
    cr_assert_eq(calls, 5);
    cr_assert_eq(out(&bench), 12, "%zu segments for %zu bytes", out(&bench),
                 input_queue_length(&bench.queue));

    most_to_take = 1;
    fill(&bench);
    most_to_take = SIZE_MAX;
    fill(&bench);
    cr_assert_eq(offered, 2 * SEGMENT_SIZE - 1, "what takes less is offered one again");
    expect_taken(&bench, data, input_queue_length(&bench.queue));
    bench_close(&bench);
}

Test(input_queue, small_reads_share_a_segment)
{
    struct bench bench;
    bench_open(&bench, ROOMY);
    for (int i = 0; i < SEGMENT_SIZE; i++)
        feed_text(&bench, "x");
    cr_assert_eq(out(&bench), 1);
    feed_text(&bench, "y");
    cr_assert_eq(out(&bench), 2);
    expect_found(&bench, 'y', SEGMENT_SIZE);
    bench_close(&bench);
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

Test(input_queue, with_a_limit_of_zero_takes_nothing)
{
    struct bench bench;
    bench_open(&bench, 0);
    put(bench.ends[0], "x", 1);
    cr_assert_eq(fill(&bench), -1);
    cr_assert_eq(errno, ENOBUFS);
    bench_close(&bench);
}

/* Hitchens' queue stops forever at its 1024th byte: a read of nothing, again and again. */
Test(input_queue, erratum_01_a_full_queue_never_reads_zero_bytes)
{
    struct bench bench;
    static char line[3000];
    bench_open(&bench, 1024);
    memset(line, 'x', sizeof(line));
    put(bench.ends[0], line, sizeof(line));
    int fills = 0;
    while (fill(&bench) > 0)
        fills++;
    cr_assert_eq(errno, ENOBUFS, "a full queue says so, and not that the stream has ended");
    cr_assert_leq(fills, 2);
    bench_close(&bench);
}

/* ---- borders ---- */

/* One message before it, so that it starts and ends where the test wants. */
static void take_across(size_t start, size_t length)
{
    struct bench bench;
    size_t total = start + length + 10;
    unsigned char *data = malloc(total);
    bench_open(&bench, ROOMY);
    fill_pattern(data, total, start * 31 + length);
    feed(&bench, data, total);
    if (start > 0)
        expect_taken(&bench, data, start);
    expect_taken(&bench, data + start, length);
    cr_assert_eq(input_queue_length(&bench.queue), 10);
    expect_taken(&bench, data + start + length, 10);
    cr_assert(input_queue_is_empty(&bench.queue));
    free(data);
    bench_close(&bench);
}

Test(input_queue, messages_come_out_right_wherever_the_borders_are)
{
    static const size_t places[] = {0,
                                    1,
                                    100,
                                    SEGMENT_SIZE - 1,
                                    SEGMENT_SIZE,
                                    SEGMENT_SIZE + 1,
                                    2 * SEGMENT_SIZE - 1,
                                    2 * SEGMENT_SIZE,
                                    2 * SEGMENT_SIZE + 1,
                                    7 * SEGMENT_SIZE};
    const size_t count = sizeof(places) / sizeof(places[0]);
    for (size_t start = 0; start < count; start++)
        for (size_t end = start + 1; end < count; end++)
            take_across(places[start], places[end] - places[start]);
}

Test(input_queue, a_message_in_one_segment_is_handed_out_where_it_lies)
{
    static unsigned char data[2 * SEGMENT_SIZE];
    struct bench bench;
    struct message message;
    bench_open(&bench, ROOMY);
    feed(&bench, data, sizeof(data));
    const struct segment *first = bench.queue.last->next;
    const struct segment *second = first->next;
    cr_assert(input_queue_dequeue(&bench.queue, 10, &message));
    cr_assert_eq(message.data, first->data);
    cr_assert(input_queue_dequeue(&bench.queue, SEGMENT_SIZE - 10, &message));
    cr_assert_eq(message.data, first->data + 10, "up to the last byte of a segment");
    cr_assert(input_queue_dequeue(&bench.queue, SEGMENT_SIZE, &message));
    cr_assert_eq(message.data, second->data, "a whole segment");
    bench_close(&bench);
}

/* A search that walked from the head would make a long line cost quadratic time. */
Test(input_queue, a_search_goes_on_in_the_segment_where_the_last_one_ended)
{
    static unsigned char data[4 * SEGMENT_SIZE];
    static unsigned char more[2 * SEGMENT_SIZE];
    struct bench bench;
    size_t index = 0;
    bench_open(&bench, ROOMY);
    memset(data, 'a', sizeof(data));
    memset(more, 'b', sizeof(more));
    more[SEGMENT_SIZE + 7] = '\n';
    feed(&bench, data, sizeof(data) - 10);
    cr_assert_not(input_queue_index_of(&bench.queue, '\n', &index));
    struct segment *cut_off = bench.queue.last->next->next;
    bench.queue.last->next->next = NULL;
    feed(&bench, more, sizeof(more));
    bool found = input_queue_index_of(&bench.queue, '\n', &index);
    bench.queue.last->next->next = cut_off;
    cr_assert(found, "it went through the segments in front once more");
    cr_assert_eq(index, sizeof(data) - 10 + SEGMENT_SIZE + 7);
    cr_assert(input_queue_index_of(&bench.queue, '\n', &index));
    cr_assert_eq(index, sizeof(data) - 10 + SEGMENT_SIZE + 7, "asked again");
    struct message line;
    cr_assert(input_queue_peek(&bench.queue, index + 1, &line));
    cr_assert(input_queue_index_of(&bench.queue, '\n', &index));
    cr_assert_eq(index, line.length - 1, "asked again when it was joined");
    cr_assert(input_queue_dequeue(&bench.queue, index + 1, &line));
    cr_assert_not(input_queue_index_of(&bench.queue, '\n', &index));
    bench_close(&bench);
}

Test(input_queue, segments_that_are_used_up_go_back_at_once)
{
    static unsigned char data[5 * SEGMENT_SIZE];
    struct bench bench;
    bench_open(&bench, ROOMY);
    feed(&bench, data, sizeof(data));
    cr_assert_eq(out(&bench), 5);
    for (size_t left = 5; left > 0; left--) {
        input_queue_discard(&bench.queue, SEGMENT_SIZE - 1);
        cr_assert_eq(out(&bench), left, "one byte of it is still wanted");
        input_queue_discard(&bench.queue, 1);
        cr_assert_eq(out(&bench), left - 1);
    }
    bench_close(&bench);
}

Test(input_queue, at_tells_every_byte)
{
    static unsigned char data[3 * SEGMENT_SIZE];
    struct bench bench;
    bench_open(&bench, ROOMY);
    fill_pattern(data, sizeof(data), 7);
    feed(&bench, data, sizeof(data));
    for (size_t gone = 0; gone < SEGMENT_SIZE + 2; gone += SEGMENT_SIZE / 2 + 1) {
        for (size_t i = 0; gone + i < sizeof(data); i += i < SEGMENT_SIZE - 4 ? 97 : 1)
            cr_assert_eq(input_queue_at(&bench.queue, i), data[gone + i], "%zu after %zu", i, gone);
        input_queue_discard(&bench.queue, SEGMENT_SIZE / 2 + 1);
    }
    bench_close(&bench);
}

/* ---- searching ---- */

Test(input_queue, finds_the_first_of_several_and_finds_it_again)
{
    struct bench bench;
    bench_open(&bench, ROOMY);
    feed_text(&bench, "ab\ncd\n\nef");
    expect_found(&bench, '\n', 2);
    expect_found(&bench, '\n', 2);
    expect_found(&bench, 'a', 0);
    expect_found(&bench, '\n', 2);
    expect_taken(&bench, "ab\n", 3);
    expect_found(&bench, '\n', 2);
    expect_taken(&bench, "cd\n", 3);
    expect_found(&bench, '\n', 0);
    expect_taken(&bench, "\n", 1);
    expect_not_found(&bench, '\n');
    expect_found(&bench, 'f', 1);
    expect_not_found(&bench, '\n');
    bench_close(&bench);
}

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
Test(input_queue, a_search_goes_on_where_the_last_one_gave_up)
{
    static unsigned char data[SEGMENT_SIZE + 100];
    struct bench bench;
    bench_open(&bench, ROOMY);
    memset(data, 'x', sizeof(data));
    feed(&bench, data, sizeof(data));
    expect_not_found(&bench, '\n');
    bench.queue.last->next->data[0] = '\n';
    bench.queue.last->next->data[SEGMENT_SIZE - 1] = '\n';
    bench.queue.last->data[99] = '\n';
    expect_not_found(&bench, '\n');
    feed_text(&bench, "yy\n");
    expect_found(&bench, '\n', SEGMENT_SIZE + 102);

    input_queue_discard(&bench.queue, 50);
    bench.queue.last->next->data[60] = '\n';
    expect_found(&bench, '\n', SEGMENT_SIZE + 52);
    bench_close(&bench);
}

Test(input_queue, a_search_for_another_byte_starts_from_the_front)
{
    struct bench bench;
    bench_open(&bench, ROOMY);
    feed_text(&bench, "a b c");
    expect_not_found(&bench, '\n');
    expect_found(&bench, ' ', 1);
    expect_found(&bench, 'a', 0);
    expect_not_found(&bench, 0);
    expect_not_found(&bench, 0xff);
    bench_close(&bench);
}

Test(input_queue, what_follows_a_discarded_part_is_searched)
{
    struct bench bench;
    bench_open(&bench, ROOMY);
    feed_text(&bench, "aaaa");
    expect_not_found(&bench, '\n');
    input_queue_discard(&bench.queue, 4);
    feed_text(&bench, "\nb");
    expect_found(&bench, '\n', 0);
    input_queue_clear(&bench.queue);
    feed_text(&bench, "b\n");
    expect_found(&bench, '\n', 1);
    bench_close(&bench);
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
    struct message message;
    bench_open(&bench, ROOMY);
    fill_pattern(data, sizeof(data), length);
    memset(noise, 0x55, sizeof(noise));
    feed(&bench, data, skipped + length);
    if (skipped > 0)
        input_queue_discard(&bench.queue, skipped);
    cr_assert(input_queue_dequeue(&bench.queue, length, &message));

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
    unsigned char data[1 << 20];
    size_t front;
    size_t end;
    size_t in_use; /* bytes of the message handed out by the last call */
};

static struct reference reference;

static bool reference_index_of(unsigned char wanted, size_t *index)
{
    for (size_t i = reference.front; i < reference.end; i++) {
        if (reference.data[i] == wanted) {
            *index = i - reference.front;
            return true;
        }
    }
    return false;
}

/* Few different bytes, so that searches find something now and then. */
static void step_fill(struct bench *bench, struct rng *rng)
{
    unsigned char piece[3 * SEGMENT_SIZE];
    size_t most = rng_below(rng, 3) == 0 ? sizeof(piece) : 50;
    size_t length = rng_between(rng, 1, most);
    if (reference.end + length > sizeof(reference.data))
        return;
    for (size_t i = 0; i < length; i++)
        piece[i] = (unsigned char)(rng_below(rng, 4000) == 0 ? 'n' : 'a' + rng_below(rng, 3));
    put(bench->ends[0], piece, length);
    memcpy(reference.data + reference.end, piece, length);
    reference.in_use = 0;
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

static void step_search(struct bench *bench, struct rng *rng)
{
    unsigned char wanted = (unsigned char)"nnnnnabcz"[rng_below(rng, 9)];
    size_t expected = SIZE_MAX;
    size_t index = SIZE_MAX;
    bool found = reference_index_of(wanted, &expected);
    cr_assert_eq(input_queue_index_of(&bench->queue, wanted, &index), found, "'%c'", wanted);
    cr_assert_eq(index, expected, "'%c' at %zu, not %zu", wanted, index, expected);
}

static void step_take(struct bench *bench, struct rng *rng)
{
    size_t length = reference.end - reference.front;
    if (length == 0)
        return;
    size_t count = rng_between(rng, 1, rng_below(rng, 2) == 0 && length > 60 ? 60 : length);
    bool discarded = rng_below(rng, 4) == 0;
    if (discarded)
        input_queue_discard(&bench->queue, count);
    else
        expect_taken(bench, reference.data + reference.front, count);
    reference.front += count;
    reference.in_use = discarded ? 0 : count;
}

static void step_look(struct bench *bench, struct rng *rng)
{
    size_t length = reference.end - reference.front;
    if (length == 0)
        return;
    size_t index = rng_below(rng, length);
    cr_assert_eq(input_queue_at(&bench->queue, index), reference.data[reference.front + index]);
}

static void compare_with_reference(uint64_t seed, uint32_t limit)
{
    static void (*const steps[])(struct bench *, struct rng *) = {step_fill, step_search, step_take,
                                                                  step_look};
    struct rng rng = rng_from(seed);
    struct bench bench;
    reference.front = reference.end = reference.in_use = 0;
    bench_open(&bench, limit);
    for (int step = 0; step < 400; step++) {
        steps[rng_below(&rng, 4)](&bench, &rng);
        size_t length = reference.end - reference.front;
        cr_assert_eq(input_queue_length(&bench.queue), length, "seed %llu, step %d",
                     (unsigned long long)seed, step);
        cr_assert_eq(input_queue_is_empty(&bench.queue), length == 0);
        cr_assert_leq(out(&bench), (length + reference.in_use) / SEGMENT_SIZE + 2,
                      "seed %llu, step %d: %zu segments", (unsigned long long)seed, step,
                      out(&bench));
    }
    bench_close(&bench);
}

Test(input_queue, does_what_a_plain_array_does)
{
    static const uint32_t limits[] = {100, SEGMENT_SIZE, 20000, ROOMY};
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

Test(no_memory, input_queue_dequeue_fails_and_leaves_the_message_there)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    static unsigned char data[2 * SEGMENT_SIZE];
    struct bench bench;
    struct message message;
    bench_open(&bench, ROOMY);
    fill_pattern(data, sizeof(data), 3);
    feed(&bench, data, sizeof(data));
    memory_take_all();
    bool joined = input_queue_dequeue(&bench.queue, SEGMENT_SIZE + 1, &message);
    bool within = input_queue_dequeue(&bench.queue, 10, &message);
    memory_give_back();
    cr_assert_not(joined);
    cr_assert(within, "a message in one segment needs no memory");
    cr_assert_eq(memcmp(message.data, data, 10), 0);
    cr_assert_eq(input_queue_length(&bench.queue), sizeof(data) - 10);
    expect_taken(&bench, data + 10, SEGMENT_SIZE + 1);
    bench_close(&bench);
}

/* ---- looking without taking ---- */

Test(input_queue, a_peek_leaves_the_bytes_where_they_are)
{
    static unsigned char data[3 * SEGMENT_SIZE];
    const size_t lengths[] = {1, 100, SEGMENT_SIZE, SEGMENT_SIZE + 1, sizeof(data)};
    struct bench bench;
    bench_open(&bench, ROOMY);
    fill_pattern(data, sizeof(data), 3);
    feed(&bench, data, sizeof(data));
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct message message;
        cr_assert(input_queue_peek(&bench.queue, lengths[i], &message));
        cr_assert_eq(message.length, lengths[i]);
        cr_assert_eq(memcmp(message.data, data, lengths[i]), 0, "%zu bytes", lengths[i]);
        cr_assert_eq(input_queue_length(&bench.queue), sizeof(data));
    }
    input_queue_discard(&bench.queue, SEGMENT_SIZE + 1);
    cr_assert_eq(out(&bench), 0, "what was joined for a peek is in no segment of the factory");
    expect_taken(&bench, data + SEGMENT_SIZE + 1, sizeof(data) - SEGMENT_SIZE - 1);
    bench_close(&bench);
}

Test(input_queue, a_message_in_one_segment_is_seen_where_it_lies)
{
    struct bench bench;
    struct message peeked;
    struct message taken;
    bench_open(&bench, ROOMY);
    feed_text(&bench, "one two");
    cr_assert(input_queue_peek(&bench.queue, 3, &peeked));
    cr_assert(input_queue_dequeue(&bench.queue, 3, &taken));
    cr_assert_eq(peeked.data, taken.data);
    bench_close(&bench);
}

Test(input_queue, a_search_can_begin_anywhere)
{
    static unsigned char data[3 * SEGMENT_SIZE];
    struct bench bench;
    size_t index;
    bench_open(&bench, ROOMY);
    data[10] = data[SEGMENT_SIZE - 1] = data[SEGMENT_SIZE] = data[2 * SEGMENT_SIZE + 5] = 'x';
    feed(&bench, data, sizeof(data));
    for (size_t from = 0; from < sizeof(data) + 2; from++) {
        size_t expected = from;
        while (expected < sizeof(data) && data[expected] != 'x')
            expected++;
        bool found = input_queue_index_from(&bench.queue, 'x', from, &index);
        cr_assert_eq(found, expected < sizeof(data), "from %zu", from);
        if (found)
            cr_assert_eq(index, expected, "from %zu: %zu, not %zu", from, index, expected);
    }
    expect_found(&bench, 'x', 10);
    bench_close(&bench);
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
Test(input_queue, what_is_secret_is_wiped_when_it_has_been_used)
{
    struct bench bench;
    struct message secret;
    struct message plain;
    bench_open(&bench, ROOMY);
    feed_text(&bench, "secretplain");
    input_queue_set_secret(&bench.queue, true);
    cr_assert(input_queue_dequeue(&bench.queue, 6, &secret));
    cr_assert_eq(memcmp(secret.data, "secret", 6), 0, "it is good until the next call");
    input_queue_set_secret(&bench.queue, false);
    cr_assert(all_zero(secret.data, 6), "`%.6s`", (const char *)secret.data);
    cr_assert(input_queue_dequeue(&bench.queue, 5, &plain));
    cr_assert_eq(memcmp(plain.data, "plain", 5), 0, "what comes behind it is not touched");
    input_queue_clear(&bench.queue);
    cr_assert_eq(memcmp(plain.data, "plain", 5), 0, "and what is no secret is not either");
    bench_close(&bench);
}

Test(input_queue, a_secret_that_nobody_took_is_wiped_with_the_rest)
{
    struct bench bench;
    struct message message;
    bench_open(&bench, ROOMY);
    input_queue_set_secret(&bench.queue, true);
    feed_text(&bench, "user, secr");
    cr_assert(input_queue_dequeue(&bench.queue, 6, &message));
    input_queue_clear(&bench.queue);
    cr_assert(all_zero(message.data, 10), "`%.10s`", (const char *)message.data);
    feed_text(&bench, "secret");
    cr_assert(input_queue_peek(&bench.queue, 6, &message));
    input_queue_discard(&bench.queue, 6);
    cr_assert(all_zero(message.data, 6), "a queue that was cleared keeps its secrets");
    bench_close(&bench);
}

/* Across a border: the bytes are in two segments then, and in a block that joins them. */
Test(input_queue, a_secret_across_a_border_is_wiped_in_both_segments)
{
    static unsigned char bytes[SEGMENT_SIZE + 6];
    struct bench bench;
    struct message message;
    memset(bytes, 's', sizeof(bytes));
    bench_open(&bench, ROOMY);
    feed(&bench, bytes, sizeof(bytes));
    const struct segment *segments[] = {bench.queue.last->next, bench.queue.last};
    cr_assert_neq(segments[0], segments[1]);
    input_queue_set_secret(&bench.queue, true);
    input_queue_discard(&bench.queue, SEGMENT_SIZE - 6);
    cr_assert(input_queue_dequeue(&bench.queue, 12, &message));
    cr_assert(input_queue_is_empty(&bench.queue));
    size_t index;
    cr_assert_not(input_queue_index_of(&bench.queue, 's', &index));
    cr_assert(all_zero(segments[0]->data, SEGMENT_SIZE));
    cr_assert(all_zero(segments[1]->data, 6));
    bench_close(&bench);
}
