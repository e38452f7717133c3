/*
 * The output queue: all bytes once and in order, however little the socket takes; marks, cap, cork;
 * shared messages; and many threads at once.
 *
 * Most tests replace writev(2) by a socket of their own that takes exactly as much as they want.
 */
#include "common/bytes/output_parts.h"
#include "common/bytes/shared_message.h"
#include "faults.h"
#include "helpers.h"
#include "support/deadline.h"
#include "support/mapped.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(output_chain, .timeout = 60);

/* ---- a socket that does as it is told ---- */

enum { TAKEN_SIZE = 4 << 20 };

static struct {
    unsigned char *taken; /* what has arrived */
    size_t count;
    size_t room;    /* takes so many bytes more; then EAGAIN */
    size_t at_once; /* and so many in one call at most; 0: no limit */
    int error;      /* fails with that instead */
    int interruptions;
    int calls;
    size_t most_offered;
    int most_pieces;
} pretended;

static void copy_pieces(const struct iovec *iov, int count, size_t length)
{
    cr_assert_leq(pretended.count + length, TAKEN_SIZE);
    for (int i = 0; i < count && length > 0; i++) {
        size_t here = iov[i].iov_len < length ? iov[i].iov_len : length;
        memcpy(pretended.taken + pretended.count, iov[i].iov_base, here);
        pretended.count += here;
        length -= here;
    }
}

static ssize_t answer(int error)
{
    errno = error;
    return -1;
}

static ssize_t pretend_to_write(int fd, const struct iovec *iov, int count)
{
    (void)fd;
    pretended.calls++;
    if (pretended.interruptions > 0) {
        pretended.interruptions--;
        return answer(EINTR);
    }
    size_t offered = 0;
    for (int i = 0; i < count; i++)
        offered += iov[i].iov_len;
    if (offered > pretended.most_offered)
        pretended.most_offered = offered;
    if (count > pretended.most_pieces)
        pretended.most_pieces = count;
    if (pretended.error != 0)
        return answer(pretended.error);
    if (offered > 0 && pretended.room == 0)
        return answer(EAGAIN);
    size_t length = offered < pretended.room ? offered : pretended.room;
    if (pretended.at_once > 0 && length > pretended.at_once)
        length = pretended.at_once;
    copy_pieces(iov, count, length);
    pretended.room -= length;
    return (ssize_t)length;
}

/* ---- a queue in front of it ---- */

struct bench {
    struct buffer_factory factory;
    struct output_settings settings;
    struct output_chain queue;
};

static void bench_open(struct bench *bench, struct output_settings settings)
{
    buffer_factory_init(&bench->factory, 16);
    bench->settings = settings;
    bench->settings.buffers = &bench->factory;
    output_chain_init(&bench->queue, &bench->settings, -1);
    faults.writev = pretend_to_write;
    if (pretended.taken == NULL)
        pretended.taken = mapped(TAKEN_SIZE);
    pretended.count = pretended.room = pretended.at_once = pretended.most_offered = 0;
    pretended.error = pretended.interruptions = pretended.calls = pretended.most_pieces = 0;
}

static const struct output_settings roomy = {
    .low_mark = 1 << 20, .high_mark = 1 << 22, .cap = 1 << 24};

static void bench_close(struct bench *bench)
{
    output_chain_close(&bench->queue);
    cr_assert_eq(buffer_factory_out(&bench->factory), 0);
    buffer_factory_destroy(&bench->factory);
}

/* A test that has `bench`, whose queue has these settings. */
#define BenchTest(suite, name, ...)                                                                \
    TestWith(suite, name, struct bench, bench, bench_open(bench, __VA_ARGS__), bench_close(bench))

static struct message text(const char *bytes)
{
    return (struct message){(const unsigned char *)bytes, strlen(bytes)};
}

static enum output_result enqueue(struct bench *bench, const char *bytes)
{
    return output_chain_enqueue(&bench->queue, piece_copy(text(bytes)));
}

/* Enqueues so many bytes of no interest. */
static enum output_result enqueue_bytes(struct bench *bench, size_t length)
{
    static const unsigned char zeros[1 << 20];
    cr_assert_leq(length, sizeof(zeros));
    return output_chain_enqueue(&bench->queue, piece_bytes(zeros, length));
}

static enum output_result drain(struct bench *bench)
{
    return output_chain_drain(&bench->queue);
}

/* The socket takes so many bytes, and then no more. */
static enum output_result drain_bytes(struct bench *bench, size_t count)
{
    pretended.room = count;
    enum output_result result = drain(bench);
    cr_assert_eq(pretended.room, 0);
    return result;
}

static void expect_written(const char *expected)
{
    cr_assert_eq(pretended.count, strlen(expected), "%.*s, not %s", (int)pretended.count,
                 (const char *)pretended.taken, expected);
    cr_assert_eq(memcmp(pretended.taken, expected, pretended.count), 0, "%.*s, not %s",
                 (int)pretended.count, (const char *)pretended.taken, expected);
}

static void expect_state(struct bench *bench, size_t waiting, size_t segments)
{
    cr_assert_eq(output_chain_length(&bench->queue), waiting, "%zu bytes wait, not %zu",
                 output_chain_length(&bench->queue), waiting);
    cr_assert_eq(buffer_factory_out(&bench->factory), segments, "%zu segments, not %zu",
                 buffer_factory_out(&bench->factory), segments);
}

static size_t references(struct shared_message *message)
{
    return atomic_load(&message->references);
}

static struct shared_message *shared(const char *bytes)
{
    struct shared_message *message = shared_message_create(strlen(bytes));
    memcpy(message->data, bytes, message->length);
    return message;
}

/* One that is long enough not to be copied. */
static struct shared_message *shared_long(size_t seed)
{
    struct shared_message *message = shared_message_create(SHARED_MESSAGE_MIN);
    fill_pattern(message->data, message->length, seed);
    return message;
}

/* ---- the first write ---- */

BenchTest(output_chain, is_empty_and_flows_at_first, roomy)
{
    expect_state(bench, 0, 0);
    cr_assert_eq(drain(bench), OUTPUT_FLOWING);
    cr_assert_eq(output_chain_newly_sent(&bench->queue), 0);
    cr_assert_eq(pretended.calls, 0, "nothing to write, nothing written");
}

/* Hitchens' queue waits for another trip through the selector although the socket would take it. */
Test(output_chain, erratum_10_an_empty_queue_writes_at_once)
{
    int ends[2];
    char got[16];
    struct bench bench;
    bench_open(&bench, roomy);
    faults.writev = NULL;
    pair_open(ends);
    bench.queue.fd = ends[0];
    cr_assert_eq(enqueue(&bench, "hello\n"), OUTPUT_FLOWING);
    cr_assert_eq(take_now(ends[1], got, sizeof(got)), 6, "it is there before any drain");
    cr_assert_eq(memcmp(got, "hello\n", 6), 0);
    expect_state(&bench, 0, 0);
    cr_assert_eq(output_chain_newly_sent(&bench.queue), 6);
    bench_close(&bench);
    pair_close(ends);
}

BenchTest(output_chain, what_the_socket_does_not_take_waits_in_order, roomy)
{
    pretended.room = 3;
    cr_assert_eq(enqueue(bench, "hello "), OUTPUT_WAITING);
    expect_written("hel");
    expect_state(bench, 3, 1);
    cr_assert_eq(output_chain_newly_sent(&bench->queue), 3);

    int calls = pretended.calls;
    pretended.room = 100;
    cr_assert_eq(enqueue(bench, "world\n"), OUTPUT_WAITING);
    cr_assert_eq(pretended.calls, calls, "what waits goes first, so nothing is tried");
    expect_state(bench, 9, 1);
    cr_assert_eq(drain(bench), OUTPUT_FLOWING);
    expect_written("hello world\n");
    expect_state(bench, 0, 0);
    cr_assert_eq(output_chain_newly_sent(&bench->queue), 9, "since it was last asked");
}

BenchTest(output_chain, a_socket_that_takes_nothing_makes_it_wait, roomy)
{
    cr_assert_eq(enqueue(bench, "x"), OUTPUT_WAITING);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(drain(bench), OUTPUT_WAITING);
    expect_state(bench, 1, 1);
    cr_assert_eq(drain_bytes(bench, 1), OUTPUT_FLOWING);
    expect_written("x");
}

BenchTest(output_chain, an_empty_message_changes_nothing, roomy)
{
    struct shared_message *nothing = shared_message_create(0);
    cr_assert_eq(enqueue(bench, ""), OUTPUT_FLOWING);
    cr_assert_eq(output_chain_enqueue(&bench->queue, piece_shared(nothing)), OUTPUT_FLOWING);
    cr_assert_eq(enqueue(bench, "x"), OUTPUT_WAITING);
    cr_assert_eq(enqueue(bench, ""), OUTPUT_WAITING);
    cr_assert_eq(output_chain_enqueue(&bench->queue, piece_shared(nothing)), OUTPUT_WAITING);
    cr_assert_eq(output_chain_length(&bench->queue), 1);
    cr_assert_eq(drain_bytes(bench, 1), OUTPUT_FLOWING);
    cr_assert_eq(references(nothing), 1);
    expect_state(bench, 0, 0);
    shared_message_release(nothing);
}

BenchTest(output_chain, a_full_socket_is_asked_once_a_drain, roomy)
{
    enqueue_bytes(bench, 100000);
    int calls = pretended.calls;
    drain_bytes(bench, 70000);
    cr_assert_eq(pretended.calls - calls, 2, "a whole batch, then less than was offered: full");
}

BenchTest(output_chain, a_drain_goes_on_while_the_socket_takes_all, roomy)
{
    for (int i = 0; i < 5; i++)
        enqueue_bytes(bench, 100000);
    int calls = pretended.calls;
    pretended.most_offered = 0;
    pretended.room = SIZE_MAX;
    cr_assert_eq(drain(bench), OUTPUT_FLOWING);
    cr_assert_eq(pretended.count, 500000);
    cr_assert_eq(pretended.most_offered, OUTPUT_BATCH);
    cr_assert_eq(pretended.calls - calls, 500000 / OUTPUT_BATCH + 1);
}

BenchTest(output_chain, an_interrupted_write_is_tried_again, roomy)
{
    pretended.room = 2;
    pretended.interruptions = 1000;
    cr_assert_eq(enqueue(bench, "abc"), OUTPUT_WAITING);
    expect_written("ab");
    pretended.interruptions = 1000;
    cr_assert_eq(drain_bytes(bench, 1), OUTPUT_FLOWING);
    expect_written("abc");
}

/* ---- segments ---- */

BenchTest(output_chain, small_messages_share_a_segment, roomy)
{
    for (int i = 0; i < SEGMENT_SIZE; i++)
        enqueue(bench, "x");
    expect_state(bench, SEGMENT_SIZE, 1);
    enqueue(bench, "y");
    expect_state(bench, SEGMENT_SIZE + 1, 2);
    drain_bytes(bench, SEGMENT_SIZE - 1);
    expect_state(bench, 2, 2);
    drain_bytes(bench, 1);
    expect_state(bench, 1, 1);
    drain_bytes(bench, 1);
    expect_state(bench, 0, 0);
}

Test(output_chain, cuts_at_every_place_around_a_border_lose_nothing)
{
    static unsigned char data[3 * SEGMENT_SIZE + 5];
    fill_pattern(data, sizeof(data), 5);
    for (size_t border = 1; border <= 3; border++) {
        for (size_t cut = border * SEGMENT_SIZE - 2; cut <= border * SEGMENT_SIZE + 2; cut++) {
            struct bench bench;
            bench_open(&bench, roomy);
            output_chain_enqueue(&bench.queue, piece_bytes(data, sizeof(data)));
            drain_bytes(&bench, cut);
            expect_state(&bench, sizeof(data) - cut, 4 - cut / SEGMENT_SIZE);
            drain_bytes(&bench, sizeof(data) - cut);
            cr_assert_eq(memcmp(pretended.taken, data, sizeof(data)), 0, "cut at %zu", cut);
            bench_close(&bench);
        }
    }
}

/* ---- marks and cap ---- */

static const struct output_settings tight = {.low_mark = 40, .high_mark = 100, .cap = 200};

BenchTest(output_chain, is_choked_from_above_the_high_mark_down_to_the_low_mark, tight)
{
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(enqueue_bytes(bench, 100), OUTPUT_WAITING, "at the high mark");
        cr_assert_eq(enqueue_bytes(bench, 1), OUTPUT_CHOKED, "above it");
        cr_assert_eq(enqueue_bytes(bench, 9), OUTPUT_CHOKED);
        cr_assert_eq(drain_bytes(bench, 10), OUTPUT_CHOKED, "back at the high mark");
        cr_assert_eq(drain_bytes(bench, 59), OUTPUT_CHOKED, "above the low mark: 41");
        cr_assert_eq(enqueue_bytes(bench, 1), OUTPUT_CHOKED);
        cr_assert_eq(drain_bytes(bench, 2), OUTPUT_WAITING, "at the low mark");
        cr_assert_eq(enqueue_bytes(bench, 60), OUTPUT_WAITING, "not choked before it is above");
        cr_assert_eq(drain_bytes(bench, 100), OUTPUT_FLOWING);
    }
}

BenchTest(output_chain, a_low_mark_of_zero_means_empty,
          (struct output_settings){.low_mark = 0, .high_mark = 10, .cap = 100})
{
    cr_assert_eq(enqueue_bytes(bench, 11), OUTPUT_CHOKED);
    cr_assert_eq(drain_bytes(bench, 10), OUTPUT_CHOKED);
    cr_assert_eq(drain_bytes(bench, 1), OUTPUT_FLOWING);
}

BenchTest(output_chain, one_message_may_pass_all_marks, tight)
{
    cr_assert_eq(enqueue_bytes(bench, 1000), OUTPUT_CHOKED, "it was empty, so it is accepted");
    cr_assert_eq(output_chain_length(&bench->queue), 1000);
    cr_assert_eq(enqueue_bytes(bench, 1), OUTPUT_REFUSED);
    cr_assert_eq(drain_bytes(bench, 1000), OUTPUT_FLOWING);
}

BenchTest(output_chain, above_the_cap_nothing_is_accepted_and_nothing_changes, tight)
{
    struct shared_message *message = shared("shared");
    enqueue_bytes(bench, 150);
    cr_assert_eq(enqueue_bytes(bench, 50), OUTPUT_CHOKED);
    cr_assert_eq(enqueue_bytes(bench, 1), OUTPUT_CHOKED, "at the cap one more is accepted");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(enqueue(bench, "refused"), OUTPUT_REFUSED);
        cr_assert_eq(output_chain_enqueue(&bench->queue, piece_shared(message)), OUTPUT_REFUSED);
        expect_state(bench, 201, 1);
        cr_assert_eq(references(message), 1);
        cr_assert_eq(output_chain_newly_sent(&bench->queue), 0);
    }
    drain_bytes(bench, 1);
    pretended.room = 0;
    cr_assert_eq(enqueue(bench, "end"), OUTPUT_CHOKED, "back at the cap it is accepted again");
    pretended.count = 0;
    cr_assert_eq(drain_bytes(bench, 203), OUTPUT_FLOWING);
    cr_assert_eq(memcmp(pretended.taken + 200, "end", 3), 0);
    cr_assert_eq(pretended.count, 203);
    shared_message_release(message);
}

/* Hitchens' queue has no limit: a client that never reads grew the server by 161 MiB in 4 s. */
BenchTest(output_chain, erratum_05_a_peer_that_never_reads_costs_bounded_memory,
          (struct output_settings){.low_mark = 16384, .high_mark = 65536, .cap = 1048576})
{
    static unsigned char message[10000];
    const size_t most = bench->settings.cap + sizeof(message);
    int choked = 0;
    int refused = 0;
    for (int i = 0; i < 10000; i++) {
        enum output_result result =
            output_chain_enqueue(&bench->queue, piece_bytes(message, sizeof(message)));
        choked += result == OUTPUT_CHOKED;
        refused += result == OUTPUT_REFUSED;
        cr_assert_leq(output_chain_length(&bench->queue), most);
        cr_assert_leq(buffer_factory_out(&bench->factory), most / SEGMENT_SIZE + 1);
    }
    cr_assert_gt(choked, 50, "the reader is told to stop long before the cap");
    cr_assert_eq(choked + refused, 10000 - 6);
    cr_assert_gt(refused, 9000);
}

/* ---- cork ---- */

BenchTest(output_chain, a_corked_queue_writes_nothing_and_the_uncork_all_at_once, roomy)
{
    pretended.room = SIZE_MAX;
    output_chain_cork(&bench->queue);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(enqueue(bench, "line\n"), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 0);
    expect_state(bench, 500, 1);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 1);
    cr_assert_eq(pretended.count, 500);
    cr_assert_eq(enqueue(bench, "later"), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 2, "it writes at once again");
}

BenchTest(output_chain, uncorking_an_empty_queue_writes_nothing, roomy)
{
    output_chain_cork(&bench->queue);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 0);
}

BenchTest(output_chain, an_uncork_tells_what_still_waits, tight)
{
    output_chain_cork(&bench->queue);
    enqueue_bytes(bench, 50);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_WAITING);
    output_chain_cork(&bench->queue);
    enqueue_bytes(bench, 1);
    pretended.room = 51;
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_FLOWING);
}

BenchTest(output_chain, a_cork_does_not_lift_the_limits, tight)
{
    pretended.room = SIZE_MAX;
    output_chain_cork(&bench->queue);
    cr_assert_eq(enqueue_bytes(bench, 100), OUTPUT_FLOWING);
    cr_assert_eq(enqueue_bytes(bench, 101), OUTPUT_CHOKED);
    cr_assert_eq(enqueue_bytes(bench, 1), OUTPUT_REFUSED);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.count, 201);
}

/* ---- broken ---- */

static void expect_broken(struct bench *bench, enum output_result result, int error)
{
    int found = errno;
    cr_assert_eq(result, OUTPUT_BROKEN);
    cr_assert_eq(found, error, "%s, not %s", strerror(found), strerror(error));
    expect_state(bench, 0, 0);
}

/* Whatever is called on it: still broken, nothing accepted, nothing written. */
static void expect_stays_broken(struct bench *bench)
{
    struct shared_message *message = shared("shared");
    int calls = pretended.calls;
    pretended.error = 0;
    pretended.room = SIZE_MAX;
    expect_broken(bench, enqueue(bench, "more"), EPIPE);
    expect_broken(bench, output_chain_enqueue(&bench->queue, piece_shared(message)), EPIPE);
    expect_broken(bench, drain(bench), EPIPE);
    output_chain_cork(&bench->queue);
    expect_broken(bench, enqueue(bench, "more"), EPIPE);
    expect_broken(bench, output_chain_uncork(&bench->queue), EPIPE);
    cr_assert_eq(pretended.calls, calls, "no later byte may follow one that was lost");
    cr_assert_eq(references(message), 1);
    shared_message_release(message);
}

BenchTest(output_chain, a_peer_that_is_gone_breaks_it_at_the_first_write, roomy)
{
    pretended.error = ECONNRESET;
    expect_broken(bench, enqueue(bench, "abc"), ECONNRESET);
    expect_stays_broken(bench);
}

BenchTest(output_chain, a_peer_that_is_gone_breaks_it_at_a_drain, roomy)
{
    struct shared_message *message = shared_long(1);
    enqueue_bytes(bench, 10000);
    output_chain_enqueue(&bench->queue, piece_shared(message));
    enqueue_bytes(bench, 10000);
    cr_assert_eq(references(message), 2);
    drain_bytes(bench, 5000);
    pretended.error = EPIPE;
    expect_broken(bench, drain(bench), EPIPE);
    cr_assert_eq(references(message), 1, "what waited is dropped");
    expect_stays_broken(bench);
    cr_assert_eq(output_chain_newly_sent(&bench->queue), 5000);
    shared_message_release(message);
}

BenchTest(output_chain, a_peer_that_is_gone_breaks_it_at_an_uncork, roomy)
{
    output_chain_cork(&bench->queue);
    enqueue_bytes(bench, 10000);
    pretended.error = ETIMEDOUT;
    expect_broken(bench, output_chain_uncork(&bench->queue), ETIMEDOUT);
    expect_stays_broken(bench);
}

BenchTest(output_chain, a_broken_queue_is_not_refusing_or_choked, tight)
{
    enqueue_bytes(bench, 1000);
    pretended.error = EPIPE;
    expect_broken(bench, drain(bench), EPIPE);
    expect_stays_broken(bench);
}

/* Needs SIGPIPE to be ignored, which signals_open() does for every server. */
Test(output_chain, case_10_a_dead_peer_is_an_error_and_no_signal)
{
    int ends[2];
    struct bench bench;
    signal(SIGPIPE, SIG_IGN);
    bench_open(&bench, roomy);
    faults.writev = NULL;
    pair_open(ends);
    bench.queue.fd = ends[0];
    fill_up(ends[0]);
    cr_assert_eq(enqueue(&bench, "waits"), OUTPUT_WAITING);
    close(ends[1]);
    expect_broken(&bench, drain(&bench), EPIPE);
    bench_close(&bench);
    close(ends[0]);
}

Test(output_chain, case_08_a_reset_with_output_pending_breaks_it)
{
    int ends[2];
    struct bench bench;
    signal(SIGPIPE, SIG_IGN);
    bench_open(&bench, roomy);
    faults.writev = NULL;
    tcp_pair_open(ends);
    bench.queue.fd = ends[0];
    fill_up(ends[0]);
    enqueue_bytes(&bench, 100000);
    close_with_reset(ends[1]);
    cr_assert(test_await(ends[0], POLLHUP, test_now() + test_deadline_ms() / 1000.0));
    expect_broken(&bench, drain(&bench), ECONNRESET);
    expect_broken(&bench, enqueue(&bench, "more"), EPIPE);
    bench_close(&bench);
    close(ends[0]);
}

BenchTest(output_chain, a_closed_queue_drops_what_waits_and_leaves_the_socket_alone, roomy)
{
    struct shared_message *message = shared_long(1);
    enqueue_bytes(bench, 10000);
    output_chain_enqueue(&bench->queue, piece_shared(message));
    int calls = pretended.calls;
    output_chain_close(&bench->queue);
    expect_state(bench, 0, 0);
    cr_assert_eq(references(message), 1);
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_BROKEN);
    expect_stays_broken(bench);
    output_chain_close(&bench->queue);
    cr_assert_eq(pretended.calls, calls);
    shared_message_release(message);
}

BenchTest(output_chain, a_look_tells_the_state_and_writes_nothing, tight)
{
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_FLOWING);
    enqueue_bytes(bench, 100);
    int calls = pretended.calls;
    pretended.room = SIZE_MAX;
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_WAITING);
    enqueue_bytes(bench, 1);
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_CHOKED);
    cr_assert_eq(pretended.calls, calls);
    expect_state(bench, 101, 1);
    pretended.room = 0;
    drain_bytes(bench, 60);
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_CHOKED);
    drain_bytes(bench, 1);
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_WAITING);
    pretended.error = EPIPE;
    drain(bench);
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_BROKEN);
}

/* ---- shared messages ---- */

BenchTest(output_chain, a_shared_message_that_is_taken_at_once_is_not_kept, roomy)
{
    struct shared_message *message = shared("all of it");
    pretended.room = 100;
    cr_assert_eq(output_chain_enqueue(&bench->queue, piece_shared(message)), OUTPUT_FLOWING);
    cr_assert_eq(references(message), 1);
    expect_state(bench, 0, 0);
    expect_written("all of it");
    shared_message_release(message);
}

BenchTest(output_chain, a_shared_message_is_kept_and_not_copied, roomy)
{
    struct shared_message *message = shared_long(1);
    pretended.room = message->length - 5;
    cr_assert_eq(output_chain_enqueue(&bench->queue, piece_shared(message)), OUTPUT_WAITING);
    cr_assert_eq(references(message), 2);
    expect_state(bench, 5, 0);
    cr_assert_eq(drain_bytes(bench, 4), OUTPUT_WAITING);
    cr_assert_eq(references(message), 2);
    cr_assert_eq(drain_bytes(bench, 1), OUTPUT_FLOWING);
    cr_assert_eq(references(message), 1);
    cr_assert_eq(memcmp(pretended.taken, message->data, message->length), 0);
    shared_message_release(message);
}

/* Forty bytes for a reference to six would be a bad bargain. */
BenchTest(output_chain, a_short_shared_message_is_copied, roomy)
{
    struct shared_message *message = shared("hello world");
    pretended.room = 6;
    cr_assert_eq(output_chain_enqueue(&bench->queue, piece_shared(message)), OUTPUT_WAITING);
    cr_assert_eq(output_chain_enqueue(&bench->queue, piece_shared(message)), OUTPUT_WAITING);
    cr_assert_eq(references(message), 1);
    expect_state(bench, 5 + 11, 1);
    cr_assert_eq(drain_bytes(bench, 16), OUTPUT_FLOWING);
    expect_written("hello worldhello world");
    shared_message_release(message);
}

BenchTest(output_chain, shared_and_copied_messages_keep_their_order, roomy)
{
    enum { LONG = SHARED_MESSAGE_MIN };
    static const unsigned char order[] = {'a', 1, 'b', 'c', 1, 2, 'd'};
    struct shared_message *one = shared_long(0);
    struct shared_message *two = shared_long(0);
    memset(one->data, 1, LONG);
    memset(two->data, 2, LONG);
    enqueue(bench, "a");
    output_chain_enqueue(&bench->queue, piece_shared(one));
    enqueue(bench, "b");
    enqueue(bench, "c");
    output_chain_enqueue(&bench->queue, piece_shared(one));
    output_chain_enqueue(&bench->queue, piece_shared(two));
    enqueue(bench, "d");
    cr_assert_eq(references(one), 3);
    cr_assert_eq(references(two), 2);
    expect_state(bench, 4 + 3 * LONG, 3);
    for (int i = 0; i < 4 + 3 * LONG; i++)
        drain_bytes(bench, 1);
    const unsigned char *at = pretended.taken;
    for (size_t i = 0; i < sizeof(order); i++)
        for (int left = order[i] < 'a' ? LONG : 1; left > 0; left--)
            cr_assert_eq(*at++, order[i], "message %zu", i);
    cr_assert_eq(references(one), 1);
    cr_assert_eq(references(two), 1);
    shared_message_release(one);
    shared_message_release(two);
}

BenchTest(output_chain, more_shared_messages_than_fit_in_one_write, roomy)
{
    struct shared_message *message = shared_long(0);
    for (int i = 0; i < 1000; i++)
        output_chain_enqueue(&bench->queue, piece_shared(message));
    cr_assert_eq(references(message), 1001);
    pretended.room = SIZE_MAX;
    cr_assert_eq(drain(bench), OUTPUT_FLOWING);
    cr_assert_gt(pretended.most_pieces, 1, "several leave by one call");
    cr_assert_leq(pretended.most_pieces, sysconf(_SC_IOV_MAX), "as many as the system allows");
    cr_assert_eq(pretended.count, 1000 * message->length);
    for (size_t i = 0; i < pretended.count; i += message->length)
        cr_assert_eq(memcmp(pretended.taken + i, message->data, message->length), 0);
    cr_assert_eq(references(message), 1);
    shared_message_release(message);
}

BenchTest(output_chain, a_shared_message_larger_than_a_batch, roomy)
{
    struct shared_message *message = shared_message_create(3 * OUTPUT_BATCH + 1);
    fill_pattern(message->data, message->length, 9);
    output_chain_enqueue(&bench->queue, piece_shared(message));
    pretended.most_offered = 0;
    pretended.room = SIZE_MAX;
    cr_assert_eq(drain(bench), OUTPUT_FLOWING);
    cr_assert_eq(pretended.most_offered, OUTPUT_BATCH);
    cr_assert_eq(pretended.count, message->length);
    cr_assert_eq(memcmp(pretended.taken, message->data, message->length), 0);
    shared_message_release(message);
}

/* One position for all, as Java's ByteBuffer has it, and the first reader consumes the message. */
Test(output_chain, erratum_12_each_receiver_has_its_own_position_in_a_shared_message)
{
    struct bench fast;
    struct bench slow;
    struct shared_message *message = shared_long(1);
    unsigned char copy[SHARED_MESSAGE_MIN];
    memcpy(copy, message->data, sizeof(copy));
    bench_open(&fast, roomy);
    bench_open(&slow, roomy);
    output_chain_enqueue(&fast.queue, piece_shared(message));
    output_chain_enqueue(&slow.queue, piece_shared(message));
    cr_assert_eq(references(message), 3);
    drain_bytes(&slow, 3);
    cr_assert_eq(memcmp(pretended.taken, copy, 3), 0);
    pretended.count = 0;
    drain_bytes(&fast, sizeof(copy));
    cr_assert_eq(memcmp(pretended.taken, copy, sizeof(copy)), 0);
    cr_assert_eq(references(message), 2);
    shared_message_release(message);
    pretended.count = 0;
    drain_bytes(&slow, sizeof(copy) - 3);
    cr_assert_eq(pretended.count, sizeof(copy) - 3);
    cr_assert_eq(memcmp(pretended.taken, copy + 3, sizeof(copy) - 3), 0);
    bench_close(&fast);
    bench_close(&slow);
}

Test(output_chain, destroying_drops_what_waits)
{
    struct bench bench;
    struct shared_message *message = shared_long(1);
    bench_open(&bench, roomy);
    enqueue_bytes(&bench, 10000);
    output_chain_enqueue(&bench.queue, piece_shared(message));
    output_chain_cork(&bench.queue);
    enqueue_bytes(&bench, 10000);
    bench_close(&bench);
    cr_assert_eq(references(message), 1);
    shared_message_release(message);
}

/* ---- against a reference ---- */

static unsigned char *expected;
static size_t expected_count;

static void step_enqueue(struct bench *bench, struct rng *rng, bool share)
{
    unsigned char data[3 * SEGMENT_SIZE];
    size_t length = rng_below(rng, rng_below(rng, 4) == 0 ? sizeof(data) : 200);
    fill_pattern(data, length, expected_count);
    enum output_result result;
    if (share) {
        struct shared_message *message = shared_message_create(length);
        memcpy(message->data, data, length);
        result = output_chain_enqueue(&bench->queue, piece_shared(message));
        shared_message_release(message);
    } else {
        result = output_chain_enqueue(&bench->queue, piece_bytes(data, length));
    }
    cr_assert_neq(result, OUTPUT_BROKEN);
    if (result == OUTPUT_REFUSED)
        return;
    memcpy(expected + expected_count, data, length);
    expected_count += length;
}

static void step_socket(struct rng *rng)
{
    pretended.room = rng_below(rng, 3) == 0 ? 0 : rng_below(rng, 20000);
    pretended.at_once = rng_below(rng, 2) == 0 ? 0 : rng_between(rng, 1, 5000);
    pretended.interruptions = (int)rng_below(rng, 3);
}

static void compare_with_reference(uint64_t seed)
{
    struct rng rng = rng_from(seed);
    struct bench bench;
    expected_count = 0;
    bench_open(&bench,
               (struct output_settings){.low_mark = 10000, .high_mark = 20000, .cap = 40000});
    uint64_t sent = 0;
    for (int step = 0; step < 400; step++) {
        switch (rng_below(&rng, 8)) {
        case 0:
        case 1: step_enqueue(&bench, &rng, false); break;
        case 2: step_enqueue(&bench, &rng, true); break;
        case 3: output_chain_cork(&bench.queue); break;
        case 4: output_chain_uncork(&bench.queue); break;
        case 5: output_chain_drain(&bench.queue); break;
        default: step_socket(&rng); break;
        }
        cr_assert_eq(output_chain_length(&bench.queue), expected_count - pretended.count,
                     "seed %llu, step %d", (unsigned long long)seed, step);
        sent += output_chain_newly_sent(&bench.queue);
        cr_assert_eq(sent, pretended.count, "seed %llu, step %d", (unsigned long long)seed, step);
    }
    pretended.room = SIZE_MAX;
    pretended.at_once = 0;
    cr_assert_eq(output_chain_uncork(&bench.queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.count, expected_count);
    cr_assert_eq(memcmp(pretended.taken, expected, expected_count), 0, "seed %llu",
                 (unsigned long long)seed);
    bench_close(&bench);
}

Test(output_chain, all_bytes_once_and_in_order_whatever_the_socket_takes)
{
    expected = mapped(TAKEN_SIZE);
    for (uint64_t seed = 1; seed <= 40; seed++)
        compare_with_reference(seed);
}

/* The same through a real socket with small buffers, which cuts as it likes. */
Test(output_chain, case_04_a_large_reply_through_a_small_send_buffer)
{
    enum { LARGE = 1 << 21 };
    unsigned char *data = mapped(LARGE);
    unsigned char *got = mapped(LARGE);
    size_t received = 0;
    int ends[2];
    struct bench bench;
    struct rng rng = rng_from(4);
    bench_open(&bench, roomy);
    faults.writev = NULL;
    pair_open_small(ends);
    bench.queue.fd = ends[0];
    fill_pattern(data, LARGE, 4);
    enum output_result result = output_chain_enqueue(&bench.queue, piece_bytes(data, LARGE));
    while (received < LARGE) {
        size_t most = rng_between(&rng, 1, 30000);
        most = most < LARGE - received ? most : LARGE - received;
        received += take_now(ends[1], got + received, most);
        result = output_chain_drain(&bench.queue);
        cr_assert_neq(result, OUTPUT_BROKEN);
        cr_assert_eq(result == OUTPUT_FLOWING, output_chain_length(&bench.queue) == 0);
    }
    cr_assert_eq(result, OUTPUT_FLOWING);
    cr_assert_eq(memcmp(got, data, LARGE), 0);
    bench_close(&bench);
    pair_close(ends);
}

/* ---- no memory ---- */

static void break_for_memory(size_t length, bool share)
{
    struct bench bench;
    struct shared_message *message = shared_message_create(length);
    bench_open(&bench, roomy);
    memory_take_all();
    enum output_result result = share ? output_chain_enqueue(&bench.queue, piece_shared(message))
                                      : enqueue_bytes(&bench, length);
    int error = errno;
    memory_give_back();
    errno = error;
    expect_broken(&bench, result, ENOMEM);
    cr_assert_eq(references(message), 1);
    expect_stays_broken(&bench);
    shared_message_release(message);
    bench_close(&bench);
}

Test(no_memory, output_chain_breaks_because_a_byte_is_lost)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    break_for_memory(100, false);
    break_for_memory(100, true);
}

BenchTest(no_memory, output_chain_that_has_no_room_for_all_of_a_message_drops_it, roomy)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    cr_assert(buffer_factory_stock(&bench->factory));
    cr_assert(buffer_factory_stock(&bench->factory));
    memory_take_all();
    enum output_result result = enqueue_bytes(bench, 10 * SEGMENT_SIZE);
    int error = errno;
    memory_give_back();
    errno = error;
    expect_broken(bench, result, ENOMEM);
}

BenchTest(no_memory, output_chain_needs_none_for_what_the_socket_takes, roomy)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    pretended.room = SIZE_MAX;
    memory_take_all();
    enum output_result result = enqueue_bytes(bench, 10000);
    memory_give_back();
    cr_assert_eq(result, OUTPUT_FLOWING);
    cr_assert_eq(pretended.count, 10000);
}

/* ---- what waiting costs ---- */

/* How many shared messages of that length wait when one more is refused, and what they cost. */
static size_t cost_below_cap(size_t cap, size_t length)
{
    struct bench bench;
    bench_open(&bench, (struct output_settings){.low_mark = 1, .high_mark = 1, .cap = cap});
    enum output_result result;
    size_t links = 0;
    do {
        struct shared_message *message = shared_message_create(length);
        memset(message->data, 'x', length);
        result = output_chain_enqueue(&bench.queue, piece_shared(message));
        links += references(message) > 1;
        shared_message_release(message);
    } while (result != OUTPUT_REFUSED);
    size_t cost = links * sizeof(struct segment) + output_chain_length(&bench.queue);
    bench_close(&bench);
    return cost;
}

/* The cap is what a client that does not read may cost, whatever it was sent. */
Test(output_chain, the_cap_bounds_what_shared_messages_cost)
{
    enum { CAP = 1 << 20 };
    static const size_t lengths[] = {6, SHARED_MESSAGE_MIN - 1, SHARED_MESSAGE_MIN, 5000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        size_t cost = cost_below_cap(CAP, lengths[i]);
        cr_assert_gt(cost, CAP - lengths[i]);
        cr_assert_leq(cost, CAP + lengths[i] + sizeof(struct segment),
                      "%zu bytes below a cap of %d", cost, CAP);
    }
}

/* ---- held back for a burst ---- */

static enum output_result release(struct bench *bench)
{
    return output_chain_release(&bench->queue);
}

static bool hold(struct bench *bench, uint32_t holder)
{
    return output_chain_hold(&bench->queue, holder);
}

enum { ONE = 1, ANOTHER }; /* holders */

BenchTest(output_chain, what_is_held_back_leaves_in_one_call, roomy)
{
    pretended.room = 100;
    cr_assert(hold(bench, ONE));
    cr_assert_eq(enqueue(bench, "first "), OUTPUT_FLOWING);
    cr_assert_not(hold(bench, ONE), "it has been told");
    cr_assert_eq(enqueue(bench, "second "), OUTPUT_FLOWING);
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 0);
    cr_assert_eq(release(bench), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 1);
    cr_assert_eq(release(bench), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 1, "nothing is held back any more");
    cr_assert_eq(enqueue(bench, "third"), OUTPUT_FLOWING);
    expect_written("first second third");
    cr_assert_eq(output_chain_new_calls(&bench->queue), 2);
    cr_assert_eq(output_chain_new_calls(&bench->queue), 0);
}

/* Each of two bursts releases what it held back, and so whichever ends first takes all along. */
BenchTest(output_chain, a_second_holder_has_to_release_too, roomy)
{
    pretended.room = 100;
    cr_assert(hold(bench, ONE));
    enqueue(bench, "of one, ");
    cr_assert(hold(bench, ANOTHER));
    enqueue(bench, "of another, ");
    cr_assert_eq(release(bench), OUTPUT_FLOWING);
    expect_written("of one, of another, ");
    cr_assert(hold(bench, ANOTHER), "what it holds back now, nobody else has to release");
    enqueue(bench, "and more");
    cr_assert_eq(pretended.calls, 1);
    release(bench);
    expect_written("of one, of another, and more");
}

BenchTest(output_chain, what_waits_for_the_socket_is_not_held_back, roomy)
{
    cr_assert_eq(enqueue(bench, "no room, "), OUTPUT_WAITING);
    cr_assert_not(hold(bench, ONE));
    cr_assert_eq(enqueue(bench, "still none"), OUTPUT_WAITING);
    int calls = pretended.calls;
    cr_assert_eq(release(bench), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, calls, "a release is no reason to try a full socket");
    drain_bytes(bench, strlen("no room, still none"));
}

/* The connection's own run has corked it, and will uncork it. */
BenchTest(output_chain, corked_and_held_back_leaves_with_the_uncork, roomy)
{
    pretended.room = 1 << 20;
    output_chain_cork(&bench->queue);
    cr_assert_not(hold(bench, ONE));
    enqueue(bench, "a");
    output_chain_uncork(&bench->queue);
    cr_assert(hold(bench, ONE));
    enqueue(bench, "b");
    output_chain_cork(&bench->queue);
    enqueue_bytes(bench, OUTPUT_BATCH);
    cr_assert_eq(release(bench), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 1);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.count, OUTPUT_BATCH + 2);
    cr_assert(hold(bench, ONE), "the uncork has ended the hold");
}

/* A reader that keeps up is neither choked nor disconnected because somebody else holds back. */
Test(output_chain, no_more_than_a_batch_is_held_back)
{
    static const struct output_settings small = {.low_mark = 10, .high_mark = 2000, .cap = 2000};
    struct shared_message *message = shared_long(1);
    const struct output_settings *settings[] = {&roomy, &small};
    size_t most[] = {OUTPUT_BATCH, small.high_mark};
    for (int i = 0; i < 2; i++) {
        struct bench bench;
        bench_open(&bench, *settings[i]);
        pretended.room = 1 << 20;
        for (int j = 0; j < 1000; j++) {
            hold(&bench, ONE);
            enum output_result result = output_chain_enqueue(
                &bench.queue, j % 2 == 0 ? piece_shared(message) : piece_copy(text("copied")));
            cr_assert_eq(result, OUTPUT_FLOWING, "piece %d: %d", j, result);
            cr_assert_lt(output_chain_length(&bench.queue), most[i]);
        }
        cr_assert_geq(pretended.count,
                      1000 / 2 * (SHARED_MESSAGE_MIN + strlen("copied")) - most[i]);
        cr_assert_leq(pretended.calls, 1000 / 8, "%d calls", pretended.calls);
        bench_close(&bench);
    }
    shared_message_release(message);
}

/* As many lines as a run handles, and none of them short. */
BenchTest(output_chain, references_of_a_burst_leave_in_one_call, roomy)
{
    enum { LINES = 64 };
    struct shared_message *message = shared_long(1);
    pretended.room = 1 << 20;
    for (int i = 0; i < LINES; i++) {
        hold(bench, ONE);
        output_chain_enqueue(&bench->queue, piece_shared(message));
    }
    cr_assert_eq(references(message), 1 + LINES);
    release(bench);
    cr_assert_eq(pretended.calls, 1);
    cr_assert_eq(pretended.count, LINES * SHARED_MESSAGE_MIN);
    cr_assert_eq(references(message), 1);
    shared_message_release(message);
}

BenchTest(output_chain, a_release_tells_what_became_of_it, roomy)
{
    hold(bench, ONE);
    enqueue(bench, "takes a part");
    pretended.room = 5;
    cr_assert_eq(release(bench), OUTPUT_WAITING);
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_WAITING);
    drain_bytes(bench, 7);
    hold(bench, ONE);
    enqueue(bench, "is lost");
    pretended.error = EPIPE;
    cr_assert_eq(release(bench), OUTPUT_BROKEN);
    cr_assert_not(hold(bench, ONE), "nobody has to release a broken chain");
    cr_assert_eq(release(bench), OUTPUT_FLOWING);
}

/* ---- a part's own gate ---- */

struct door {
    struct output_gate gate;
    struct output_chain *queue;
    size_t spent;
    int closed;
};

static struct door *door_of(const struct output_gate *gate)
{
    return (struct door *)(uintptr_t)gate;
}

/* Opens while there is a cork: for a flush, and for nothing else. */
static size_t open_while_corked(struct output_gate *gate)
{
    return door_of(gate)->queue->corked ? SIZE_MAX : 0;
}

static void note_spent(struct output_gate *gate, size_t bytes)
{
    door_of(gate)->spent += bytes;
}

static int64_t never_due(const struct output_gate *gate, uint64_t waiting)
{
    (void)gate;
    (void)waiting;
    return 0;
}

static void note_closed(struct output_gate *gate)
{
    door_of(gate)->closed++;
}

static const struct output_gate_verbs door_verbs = {open_while_corked, note_spent, never_due,
                                                    note_closed};

static void door_open(struct door *door, struct bench *bench)
{
    bench_open(bench, roomy);
    *door = (struct door){.gate.verbs = &door_verbs, .queue = &bench->queue};
    bench->queue.gate = &door->gate;
    pretended.room = 100;
}

/* What the part has written itself. */
static void has_left(struct bench *bench, size_t count)
{
    cr_assert_eq(output_chain_wrote(&bench->queue, (ssize_t)count), (ssize_t)count);
    output_chain_consume(&bench->queue, count);
}

Test(output_chain, behind_a_gate_a_part_writes_by_itself)
{
    struct bench bench;
    struct door door;
    door_open(&door, &bench);
    char bytes[] = "ten bytes.";
    cr_assert_eq(enqueue(&bench, bytes), OUTPUT_WAITING);
    memset(bytes, 'X', 10); /* the caller's memory is the caller's again */
    cr_assert_eq(enqueue(&bench, "more"), OUTPUT_WAITING);
    cr_assert_eq(drain(&bench), OUTPUT_WAITING);
    has_left(&bench, 4);
    cr_assert_eq(drain(&bench), OUTPUT_WAITING);
    const struct segment *first = bench.queue.last->next;
    cr_assert_eq(memcmp(first->data + first->start, "bytes.more", 10), 0);
    expect_state(&bench, 10, 1);
    has_left(&bench, 10);
    cr_assert_eq(drain(&bench), OUTPUT_FLOWING);
    cr_assert_eq(output_chain_newly_sent(&bench.queue), 14);
    cr_assert_eq(door.spent, 14);
    cr_assert_eq(pretended.calls, 0);
    bench_close(&bench);
    cr_assert_eq(door.closed, 1);
}

Test(output_chain, a_gate_may_open_for_a_flush)
{
    struct bench bench;
    struct door door;
    door_open(&door, &bench);
    output_chain_cork(&bench.queue);
    enqueue(&bench, "now");
    cr_assert_eq(output_chain_flush(&bench.queue), OUTPUT_FLOWING);
    expect_written("now");
    enqueue(&bench, "later");
    cr_assert_eq(output_chain_uncork(&bench.queue), OUTPUT_WAITING);
    expect_written("now");
    bench_close(&bench);
}

/* A part that has an error breaks the chain, and nobody waits any more. */
Test(output_chain, a_part_breaks_it)
{
    struct bench bench;
    struct door door;
    door_open(&door, &bench);
    enqueue(&bench, "lost");
    expect_broken(&bench, output_chain_break(&bench.queue, ECONNRESET), ECONNRESET);
    expect_stays_broken(&bench);
    bench_close(&bench);
    cr_assert_eq(door.closed, 1);
}
