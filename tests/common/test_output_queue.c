/*
 * The output queue: all bytes once and in order, however little the socket takes; marks, cap, cork;
 * shared messages; and many threads at once.
 *
 * Most tests replace writev(2) by a socket of their own that takes exactly as much as they want.
 */
#include "common/output_queue.h"
#include "faults.h"
#include "helpers.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(output_queue, .timeout = 60);

/* ---- a socket that does as it is told ---- */

static struct {
    unsigned char taken[4 << 20]; /* what has arrived */
    size_t count;
    size_t room;    /* takes so many bytes more; then EAGAIN */
    size_t at_once; /* and so many in one call at the most; 0: no limit */
    int error;      /* fails with that instead */
    int interruptions;
    int calls;
    size_t most_offered;
    int most_pieces;
} pretended;

static void copy_pieces(const struct iovec *iov, int count, size_t length)
{
    cr_assert_leq(pretended.count + length, sizeof(pretended.taken));
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
    struct output_queue queue;
};

static void bench_open(struct bench *bench, struct output_settings settings)
{
    buffer_factory_init(&bench->factory, 16);
    bench->settings = settings;
    bench->settings.buffers = &bench->factory;
    output_queue_init(&bench->queue, &bench->settings, -1);
    faults.writev = pretend_to_write;
    pretended.count = pretended.room = pretended.at_once = pretended.most_offered = 0;
    pretended.error = pretended.interruptions = pretended.calls = pretended.most_pieces = 0;
}

static const struct output_settings roomy = {
    .low_mark = 1 << 20, .high_mark = 1 << 22, .cap = 1 << 24};

static void bench_close(struct bench *bench)
{
    output_queue_destroy(&bench->queue);
    cr_assert_eq(buffer_factory_out(&bench->factory), 0);
    buffer_factory_destroy(&bench->factory);
}

static struct message text(const char *bytes)
{
    return (struct message){(const unsigned char *)bytes, strlen(bytes)};
}

static enum output_result enqueue(struct bench *bench, const char *bytes)
{
    return output_queue_enqueue(&bench->queue, text(bytes));
}

/* Enqueues so many bytes of no interest. */
static enum output_result enqueue_bytes(struct bench *bench, size_t length)
{
    static const unsigned char zeros[1 << 20];
    cr_assert_leq(length, sizeof(zeros));
    return output_queue_enqueue(&bench->queue, (struct message){zeros, length});
}

static enum output_result drain(struct bench *bench)
{
    return output_queue_drain(&bench->queue);
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
    cr_assert_eq(output_queue_length(&bench->queue), waiting, "%zu bytes wait, not %zu",
                 output_queue_length(&bench->queue), waiting);
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

/* ---- the first write ---- */

Test(output_queue, is_empty_and_flows_at_first)
{
    struct bench bench;
    bench_open(&bench, roomy);
    expect_state(&bench, 0, 0);
    cr_assert_eq(drain(&bench), OUTPUT_FLOWING);
    cr_assert_eq(output_queue_newly_sent(&bench.queue), 0);
    cr_assert_eq(pretended.calls, 0, "nothing to write, nothing written");
    bench_close(&bench);
}

/* Hitchens' queue waits for another trip through the selector although the socket would take it. */
Test(output_queue, erratum_10_an_empty_queue_writes_at_once)
{
    int ends[2];
    char got[16];
    struct bench bench;
    bench_open(&bench, roomy);
    faults.writev = NULL;
    pair_open(ends);
    bench.queue.chain.fd = ends[0];
    cr_assert_eq(enqueue(&bench, "hello\n"), OUTPUT_FLOWING);
    cr_assert_eq(take_now(ends[1], got, sizeof(got)), 6, "it is there before any drain");
    cr_assert_eq(memcmp(got, "hello\n", 6), 0);
    expect_state(&bench, 0, 0);
    cr_assert_eq(output_queue_newly_sent(&bench.queue), 6);
    bench_close(&bench);
    pair_close(ends);
}

Test(output_queue, what_the_socket_does_not_take_waits_in_order)
{
    struct bench bench;
    bench_open(&bench, roomy);
    pretended.room = 3;
    cr_assert_eq(enqueue(&bench, "hello "), OUTPUT_WAITING);
    expect_written("hel");
    expect_state(&bench, 3, 1);
    cr_assert_eq(output_queue_newly_sent(&bench.queue), 3);

    int calls = pretended.calls;
    pretended.room = 100;
    cr_assert_eq(enqueue(&bench, "world\n"), OUTPUT_WAITING);
    cr_assert_eq(pretended.calls, calls, "what waits goes first, so nothing is tried");
    expect_state(&bench, 9, 1);
    cr_assert_eq(drain(&bench), OUTPUT_FLOWING);
    expect_written("hello world\n");
    expect_state(&bench, 0, 0);
    cr_assert_eq(output_queue_newly_sent(&bench.queue), 9, "since it was last asked");
    bench_close(&bench);
}

Test(output_queue, a_socket_that_takes_nothing_makes_it_wait)
{
    struct bench bench;
    bench_open(&bench, roomy);
    cr_assert_eq(enqueue(&bench, "x"), OUTPUT_WAITING);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(drain(&bench), OUTPUT_WAITING);
    expect_state(&bench, 1, 1);
    cr_assert_eq(drain_bytes(&bench, 1), OUTPUT_FLOWING);
    expect_written("x");
    bench_close(&bench);
}

Test(output_queue, an_empty_message_changes_nothing)
{
    struct bench bench;
    struct shared_message *nothing = shared_message_create(0);
    bench_open(&bench, roomy);
    cr_assert_eq(enqueue(&bench, ""), OUTPUT_FLOWING);
    cr_assert_eq(output_queue_enqueue_shared(&bench.queue, nothing), OUTPUT_FLOWING);
    cr_assert_eq(enqueue(&bench, "x"), OUTPUT_WAITING);
    cr_assert_eq(enqueue(&bench, ""), OUTPUT_WAITING);
    cr_assert_eq(output_queue_enqueue_shared(&bench.queue, nothing), OUTPUT_WAITING);
    cr_assert_eq(output_queue_length(&bench.queue), 1);
    cr_assert_eq(drain_bytes(&bench, 1), OUTPUT_FLOWING);
    cr_assert_eq(references(nothing), 1);
    expect_state(&bench, 0, 0);
    shared_message_release(nothing);
    bench_close(&bench);
}

Test(output_queue, a_full_socket_is_asked_once_a_drain)
{
    struct bench bench;
    bench_open(&bench, roomy);
    enqueue_bytes(&bench, 100000);
    int calls = pretended.calls;
    drain_bytes(&bench, 70000);
    cr_assert_eq(pretended.calls - calls, 2, "a whole batch, then less than was offered: full");
    bench_close(&bench);
}

Test(output_queue, a_drain_goes_on_while_the_socket_takes_all)
{
    struct bench bench;
    bench_open(&bench, roomy);
    for (int i = 0; i < 5; i++)
        enqueue_bytes(&bench, 100000);
    int calls = pretended.calls;
    pretended.most_offered = 0;
    pretended.room = SIZE_MAX;
    cr_assert_eq(drain(&bench), OUTPUT_FLOWING);
    cr_assert_eq(pretended.count, 500000);
    cr_assert_eq(pretended.most_offered, OUTPUT_BATCH);
    cr_assert_eq(pretended.calls - calls, 500000 / OUTPUT_BATCH + 1);
    bench_close(&bench);
}

Test(output_queue, an_interrupted_write_is_tried_again)
{
    struct bench bench;
    bench_open(&bench, roomy);
    pretended.room = 2;
    pretended.interruptions = 1000;
    cr_assert_eq(enqueue(&bench, "abc"), OUTPUT_WAITING);
    expect_written("ab");
    pretended.interruptions = 1000;
    cr_assert_eq(drain_bytes(&bench, 1), OUTPUT_FLOWING);
    expect_written("abc");
    bench_close(&bench);
}

/* ---- segments ---- */

Test(output_queue, small_messages_share_a_segment)
{
    struct bench bench;
    bench_open(&bench, roomy);
    for (int i = 0; i < SEGMENT_SIZE; i++)
        enqueue(&bench, "x");
    expect_state(&bench, SEGMENT_SIZE, 1);
    enqueue(&bench, "y");
    expect_state(&bench, SEGMENT_SIZE + 1, 2);
    drain_bytes(&bench, SEGMENT_SIZE - 1);
    expect_state(&bench, 2, 2);
    drain_bytes(&bench, 1);
    expect_state(&bench, 1, 1);
    drain_bytes(&bench, 1);
    expect_state(&bench, 0, 0);
    bench_close(&bench);
}

Test(output_queue, cuts_at_every_place_around_a_border_lose_nothing)
{
    static unsigned char data[3 * SEGMENT_SIZE + 5];
    fill_pattern(data, sizeof(data), 5);
    for (size_t border = 1; border <= 3; border++) {
        for (size_t cut = border * SEGMENT_SIZE - 2; cut <= border * SEGMENT_SIZE + 2; cut++) {
            struct bench bench;
            bench_open(&bench, roomy);
            output_queue_enqueue(&bench.queue, (struct message){data, sizeof(data)});
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

Test(output_queue, is_choked_from_above_the_high_mark_down_to_the_low_mark)
{
    struct bench bench;
    bench_open(&bench, tight);
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(enqueue_bytes(&bench, 100), OUTPUT_WAITING, "at the high mark");
        cr_assert_eq(enqueue_bytes(&bench, 1), OUTPUT_CHOKED, "above it");
        cr_assert_eq(enqueue_bytes(&bench, 9), OUTPUT_CHOKED);
        cr_assert_eq(drain_bytes(&bench, 10), OUTPUT_CHOKED, "back at the high mark");
        cr_assert_eq(drain_bytes(&bench, 59), OUTPUT_CHOKED, "above the low mark: 41");
        cr_assert_eq(enqueue_bytes(&bench, 1), OUTPUT_CHOKED);
        cr_assert_eq(drain_bytes(&bench, 2), OUTPUT_WAITING, "at the low mark");
        cr_assert_eq(enqueue_bytes(&bench, 60), OUTPUT_WAITING, "not choked before it is above");
        cr_assert_eq(drain_bytes(&bench, 100), OUTPUT_FLOWING);
    }
    bench_close(&bench);
}

Test(output_queue, a_low_mark_of_zero_means_empty)
{
    struct bench bench;
    bench_open(&bench, (struct output_settings){.low_mark = 0, .high_mark = 10, .cap = 100});
    cr_assert_eq(enqueue_bytes(&bench, 11), OUTPUT_CHOKED);
    cr_assert_eq(drain_bytes(&bench, 10), OUTPUT_CHOKED);
    cr_assert_eq(drain_bytes(&bench, 1), OUTPUT_FLOWING);
    bench_close(&bench);
}

Test(output_queue, one_message_may_pass_all_marks)
{
    struct bench bench;
    bench_open(&bench, tight);
    cr_assert_eq(enqueue_bytes(&bench, 1000), OUTPUT_CHOKED, "it was empty, so it is accepted");
    cr_assert_eq(output_queue_length(&bench.queue), 1000);
    cr_assert_eq(enqueue_bytes(&bench, 1), OUTPUT_REFUSED);
    cr_assert_eq(drain_bytes(&bench, 1000), OUTPUT_FLOWING);
    bench_close(&bench);
}

Test(output_queue, above_the_cap_nothing_is_accepted_and_nothing_changes)
{
    struct bench bench;
    struct shared_message *message = shared("shared");
    bench_open(&bench, tight);
    enqueue_bytes(&bench, 150);
    cr_assert_eq(enqueue_bytes(&bench, 50), OUTPUT_CHOKED);
    cr_assert_eq(enqueue_bytes(&bench, 1), OUTPUT_CHOKED, "at the cap one more is accepted");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(enqueue(&bench, "refused"), OUTPUT_REFUSED);
        cr_assert_eq(output_queue_enqueue_shared(&bench.queue, message), OUTPUT_REFUSED);
        expect_state(&bench, 201, 1);
        cr_assert_eq(references(message), 1);
        cr_assert_eq(output_queue_newly_sent(&bench.queue), 0);
    }
    drain_bytes(&bench, 1);
    pretended.room = 0;
    cr_assert_eq(enqueue(&bench, "end"), OUTPUT_CHOKED, "back at the cap it is accepted again");
    pretended.count = 0;
    cr_assert_eq(drain_bytes(&bench, 203), OUTPUT_FLOWING);
    cr_assert_eq(memcmp(pretended.taken + 200, "end", 3), 0);
    cr_assert_eq(pretended.count, 203);
    shared_message_release(message);
    bench_close(&bench);
}

/* Hitchens' queue has no limit: a client that never reads grew the server by 161 MiB in 4 s. */
Test(output_queue, erratum_05_a_peer_that_never_reads_costs_bounded_memory)
{
    static unsigned char message[10000];
    const struct output_settings limits = {.low_mark = 16384, .high_mark = 65536, .cap = 1048576};
    const size_t most = limits.cap + sizeof(message);
    struct bench bench;
    int choked = 0;
    int refused = 0;
    bench_open(&bench, limits);
    for (int i = 0; i < 10000; i++) {
        enum output_result result =
            output_queue_enqueue(&bench.queue, (struct message){message, sizeof(message)});
        choked += result == OUTPUT_CHOKED;
        refused += result == OUTPUT_REFUSED;
        cr_assert_leq(output_queue_length(&bench.queue), most);
        cr_assert_leq(buffer_factory_out(&bench.factory), most / SEGMENT_SIZE + 1);
    }
    cr_assert_gt(choked, 50, "the reader is told to stop long before the cap");
    cr_assert_eq(choked + refused, 10000 - 6);
    cr_assert_gt(refused, 9000);
    bench_close(&bench);
}

/* ---- cork ---- */

Test(output_queue, a_corked_queue_writes_nothing_and_the_uncork_all_at_once)
{
    struct bench bench;
    bench_open(&bench, roomy);
    pretended.room = SIZE_MAX;
    output_queue_cork(&bench.queue);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(enqueue(&bench, "line\n"), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 0);
    expect_state(&bench, 500, 1);
    cr_assert_eq(output_queue_uncork(&bench.queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 1);
    cr_assert_eq(pretended.count, 500);
    cr_assert_eq(enqueue(&bench, "later"), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 2, "it writes at once again");
    bench_close(&bench);
}

Test(output_queue, uncorking_an_empty_queue_writes_nothing)
{
    struct bench bench;
    bench_open(&bench, roomy);
    output_queue_cork(&bench.queue);
    cr_assert_eq(output_queue_uncork(&bench.queue), OUTPUT_FLOWING);
    cr_assert_eq(output_queue_uncork(&bench.queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.calls, 0);
    bench_close(&bench);
}

Test(output_queue, an_uncork_tells_what_still_waits)
{
    struct bench bench;
    bench_open(&bench, tight);
    output_queue_cork(&bench.queue);
    enqueue_bytes(&bench, 50);
    cr_assert_eq(output_queue_uncork(&bench.queue), OUTPUT_WAITING);
    output_queue_cork(&bench.queue);
    enqueue_bytes(&bench, 1);
    pretended.room = 51;
    cr_assert_eq(output_queue_uncork(&bench.queue), OUTPUT_FLOWING);
    bench_close(&bench);
}

Test(output_queue, a_cork_does_not_lift_the_limits)
{
    struct bench bench;
    bench_open(&bench, tight);
    pretended.room = SIZE_MAX;
    output_queue_cork(&bench.queue);
    cr_assert_eq(enqueue_bytes(&bench, 100), OUTPUT_FLOWING);
    cr_assert_eq(enqueue_bytes(&bench, 101), OUTPUT_CHOKED);
    cr_assert_eq(enqueue_bytes(&bench, 1), OUTPUT_REFUSED);
    cr_assert_eq(output_queue_uncork(&bench.queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.count, 201);
    bench_close(&bench);
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
    expect_broken(bench, output_queue_enqueue_shared(&bench->queue, message), EPIPE);
    expect_broken(bench, drain(bench), EPIPE);
    output_queue_cork(&bench->queue);
    expect_broken(bench, enqueue(bench, "more"), EPIPE);
    expect_broken(bench, output_queue_uncork(&bench->queue), EPIPE);
    cr_assert_eq(pretended.calls, calls, "no later byte may follow one that was lost");
    cr_assert_eq(references(message), 1);
    shared_message_release(message);
}

Test(output_queue, a_peer_that_is_gone_breaks_it_at_the_first_write)
{
    struct bench bench;
    bench_open(&bench, roomy);
    pretended.error = ECONNRESET;
    expect_broken(&bench, enqueue(&bench, "abc"), ECONNRESET);
    expect_stays_broken(&bench);
    bench_close(&bench);
}

Test(output_queue, a_peer_that_is_gone_breaks_it_at_a_drain)
{
    struct bench bench;
    struct shared_message *message = shared("shared");
    bench_open(&bench, roomy);
    enqueue_bytes(&bench, 10000);
    output_queue_enqueue_shared(&bench.queue, message);
    enqueue_bytes(&bench, 10000);
    cr_assert_eq(references(message), 2);
    drain_bytes(&bench, 5000);
    pretended.error = EPIPE;
    expect_broken(&bench, drain(&bench), EPIPE);
    cr_assert_eq(references(message), 1, "what waited is dropped");
    expect_stays_broken(&bench);
    cr_assert_eq(output_queue_newly_sent(&bench.queue), 5000);
    shared_message_release(message);
    bench_close(&bench);
}

Test(output_queue, a_peer_that_is_gone_breaks_it_at_an_uncork)
{
    struct bench bench;
    bench_open(&bench, roomy);
    output_queue_cork(&bench.queue);
    enqueue_bytes(&bench, 10000);
    pretended.error = ETIMEDOUT;
    expect_broken(&bench, output_queue_uncork(&bench.queue), ETIMEDOUT);
    expect_stays_broken(&bench);
    bench_close(&bench);
}

Test(output_queue, a_broken_queue_is_not_refusing_or_choked)
{
    struct bench bench;
    bench_open(&bench, tight);
    enqueue_bytes(&bench, 1000);
    pretended.error = EPIPE;
    expect_broken(&bench, drain(&bench), EPIPE);
    expect_stays_broken(&bench);
    bench_close(&bench);
}

/* Needs SIGPIPE to be ignored, which signals_open() does for every server. */
Test(output_queue, case_10_a_dead_peer_is_an_error_and_no_signal)
{
    int ends[2];
    struct bench bench;
    signal(SIGPIPE, SIG_IGN);
    bench_open(&bench, roomy);
    faults.writev = NULL;
    pair_open(ends);
    bench.queue.chain.fd = ends[0];
    fill_up(ends[0]);
    cr_assert_eq(enqueue(&bench, "waits"), OUTPUT_WAITING);
    close(ends[1]);
    expect_broken(&bench, drain(&bench), EPIPE);
    bench_close(&bench);
    close(ends[0]);
}

Test(output_queue, case_08_a_reset_with_output_pending_breaks_it)
{
    int ends[2];
    struct bench bench;
    signal(SIGPIPE, SIG_IGN);
    bench_open(&bench, roomy);
    faults.writev = NULL;
    tcp_pair_open(ends);
    bench.queue.chain.fd = ends[0];
    fill_up(ends[0]);
    enqueue_bytes(&bench, 100000);
    close_with_reset(ends[1]);
    cr_assert(test_await(ends[0], POLLHUP, test_now() + test_deadline_ms() / 1000.0));
    expect_broken(&bench, drain(&bench), ECONNRESET);
    expect_broken(&bench, enqueue(&bench, "more"), EPIPE);
    bench_close(&bench);
    close(ends[0]);
}

Test(output_queue, a_closed_queue_drops_what_waits_and_leaves_the_socket_alone)
{
    struct bench bench;
    struct shared_message *message = shared("shared");
    bench_open(&bench, roomy);
    enqueue_bytes(&bench, 10000);
    output_queue_enqueue_shared(&bench.queue, message);
    int calls = pretended.calls;
    output_queue_close(&bench.queue);
    expect_state(&bench, 0, 0);
    cr_assert_eq(references(message), 1);
    cr_assert_eq(output_queue_look(&bench.queue), OUTPUT_BROKEN);
    expect_stays_broken(&bench);
    output_queue_close(&bench.queue);
    cr_assert_eq(pretended.calls, calls);
    shared_message_release(message);
    bench_close(&bench);
}

Test(output_queue, a_look_tells_the_state_and_writes_nothing)
{
    struct bench bench;
    bench_open(&bench, tight);
    cr_assert_eq(output_queue_look(&bench.queue), OUTPUT_FLOWING);
    enqueue_bytes(&bench, 100);
    int calls = pretended.calls;
    pretended.room = SIZE_MAX;
    cr_assert_eq(output_queue_look(&bench.queue), OUTPUT_WAITING);
    enqueue_bytes(&bench, 1);
    cr_assert_eq(output_queue_look(&bench.queue), OUTPUT_CHOKED);
    cr_assert_eq(pretended.calls, calls);
    expect_state(&bench, 101, 1);
    pretended.room = 0;
    drain_bytes(&bench, 60);
    cr_assert_eq(output_queue_look(&bench.queue), OUTPUT_CHOKED);
    drain_bytes(&bench, 1);
    cr_assert_eq(output_queue_look(&bench.queue), OUTPUT_WAITING);
    pretended.error = EPIPE;
    drain(&bench);
    cr_assert_eq(output_queue_look(&bench.queue), OUTPUT_BROKEN);
    bench_close(&bench);
}

/* ---- shared messages ---- */

Test(output_queue, a_shared_message_that_is_taken_at_once_is_not_kept)
{
    struct bench bench;
    struct shared_message *message = shared("all of it");
    bench_open(&bench, roomy);
    pretended.room = 100;
    cr_assert_eq(output_queue_enqueue_shared(&bench.queue, message), OUTPUT_FLOWING);
    cr_assert_eq(references(message), 1);
    expect_state(&bench, 0, 0);
    expect_written("all of it");
    shared_message_release(message);
    bench_close(&bench);
}

Test(output_queue, a_shared_message_is_kept_and_not_copied)
{
    struct bench bench;
    struct shared_message *message = shared("hello world");
    bench_open(&bench, roomy);
    pretended.room = 6;
    cr_assert_eq(output_queue_enqueue_shared(&bench.queue, message), OUTPUT_WAITING);
    cr_assert_eq(references(message), 2);
    expect_state(&bench, 5, 0);
    cr_assert_eq(drain_bytes(&bench, 4), OUTPUT_WAITING);
    cr_assert_eq(references(message), 2);
    cr_assert_eq(drain_bytes(&bench, 1), OUTPUT_FLOWING);
    cr_assert_eq(references(message), 1);
    expect_written("hello world");
    shared_message_release(message);
    bench_close(&bench);
}

Test(output_queue, shared_and_copied_messages_keep_their_order)
{
    struct bench bench;
    struct shared_message *one = shared("<one>");
    struct shared_message *two = shared("<two>");
    bench_open(&bench, roomy);
    enqueue(&bench, "a");
    output_queue_enqueue_shared(&bench.queue, one);
    enqueue(&bench, "b");
    enqueue(&bench, "c");
    output_queue_enqueue_shared(&bench.queue, one);
    output_queue_enqueue_shared(&bench.queue, two);
    enqueue(&bench, "d");
    cr_assert_eq(references(one), 3);
    cr_assert_eq(references(two), 2);
    expect_state(&bench, 19, 3);
    for (int i = 0; i < 19; i++)
        drain_bytes(&bench, 1);
    expect_written("a<one>bc<one><two>d");
    cr_assert_eq(references(one), 1);
    cr_assert_eq(references(two), 1);
    shared_message_release(one);
    shared_message_release(two);
    bench_close(&bench);
}

Test(output_queue, more_shared_messages_than_fit_in_one_write)
{
    struct bench bench;
    struct shared_message *message = shared("0123456789");
    bench_open(&bench, roomy);
    for (int i = 0; i < 1000; i++)
        output_queue_enqueue_shared(&bench.queue, message);
    cr_assert_eq(references(message), 1001);
    pretended.room = SIZE_MAX;
    cr_assert_eq(drain(&bench), OUTPUT_FLOWING);
    cr_assert_gt(pretended.most_pieces, 1, "several leave by one call");
    cr_assert_leq(pretended.most_pieces, sysconf(_SC_IOV_MAX), "as many as the system allows");
    cr_assert_eq(pretended.count, 10000);
    for (size_t i = 0; i < pretended.count; i++)
        cr_assert_eq(pretended.taken[i], '0' + i % 10);
    cr_assert_eq(references(message), 1);
    shared_message_release(message);
    bench_close(&bench);
}

Test(output_queue, a_shared_message_larger_than_a_batch)
{
    struct bench bench;
    struct shared_message *message = shared_message_create(3 * OUTPUT_BATCH + 1);
    fill_pattern(message->data, message->length, 9);
    bench_open(&bench, roomy);
    output_queue_enqueue_shared(&bench.queue, message);
    pretended.most_offered = 0;
    pretended.room = SIZE_MAX;
    cr_assert_eq(drain(&bench), OUTPUT_FLOWING);
    cr_assert_eq(pretended.most_offered, OUTPUT_BATCH);
    cr_assert_eq(pretended.count, message->length);
    cr_assert_eq(memcmp(pretended.taken, message->data, message->length), 0);
    shared_message_release(message);
    bench_close(&bench);
}

/* One position for all, as Java's ByteBuffer has it, and the first reader consumes the message. */
Test(output_queue, erratum_12_each_receiver_has_its_own_position_in_a_shared_message)
{
    struct bench fast;
    struct bench slow;
    struct shared_message *message = shared("one for all");
    bench_open(&fast, roomy);
    bench_open(&slow, roomy);
    output_queue_enqueue_shared(&fast.queue, message);
    output_queue_enqueue_shared(&slow.queue, message);
    cr_assert_eq(references(message), 3);
    drain_bytes(&slow, 3);
    expect_written("one");
    pretended.count = 0;
    drain_bytes(&fast, 11);
    expect_written("one for all");
    cr_assert_eq(references(message), 2);
    shared_message_release(message);
    pretended.count = 0;
    drain_bytes(&slow, 8);
    expect_written(" for all");
    bench_close(&fast);
    bench_close(&slow);
}

Test(output_queue, destroying_drops_what_waits)
{
    struct bench bench;
    struct shared_message *message = shared("shared");
    bench_open(&bench, roomy);
    enqueue_bytes(&bench, 10000);
    output_queue_enqueue_shared(&bench.queue, message);
    output_queue_cork(&bench.queue);
    enqueue_bytes(&bench, 10000);
    bench_close(&bench);
    cr_assert_eq(references(message), 1);
    shared_message_release(message);
}

/* ---- against a reference ---- */

static unsigned char expected[4 << 20];
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
        result = output_queue_enqueue_shared(&bench->queue, message);
        shared_message_release(message);
    } else {
        result = output_queue_enqueue(&bench->queue, (struct message){data, length});
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
        case 3: output_queue_cork(&bench.queue); break;
        case 4: output_queue_uncork(&bench.queue); break;
        case 5: output_queue_drain(&bench.queue); break;
        default: step_socket(&rng); break;
        }
        cr_assert_eq(output_queue_length(&bench.queue), expected_count - pretended.count,
                     "seed %llu, step %d", (unsigned long long)seed, step);
        sent += output_queue_newly_sent(&bench.queue);
        cr_assert_eq(sent, pretended.count, "seed %llu, step %d", (unsigned long long)seed, step);
    }
    pretended.room = SIZE_MAX;
    pretended.at_once = 0;
    cr_assert_eq(output_queue_uncork(&bench.queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.count, expected_count);
    cr_assert_eq(memcmp(pretended.taken, expected, expected_count), 0, "seed %llu",
                 (unsigned long long)seed);
    bench_close(&bench);
}

Test(output_queue, all_bytes_once_and_in_order_whatever_the_socket_takes)
{
    for (uint64_t seed = 1; seed <= 40; seed++)
        compare_with_reference(seed);
}

/* The same through a real socket with small buffers, which cuts as it likes. */
Test(output_queue, case_04_a_large_reply_through_a_small_send_buffer)
{
    static unsigned char data[1 << 21];
    static unsigned char got[sizeof(data)];
    size_t received = 0;
    int ends[2];
    struct bench bench;
    struct rng rng = rng_from(4);
    bench_open(&bench, roomy);
    faults.writev = NULL;
    pair_open_small(ends);
    bench.queue.chain.fd = ends[0];
    fill_pattern(data, sizeof(data), 4);
    enum output_result result =
        output_queue_enqueue(&bench.queue, (struct message){data, sizeof(data)});
    while (received < sizeof(data)) {
        size_t most = rng_between(&rng, 1, 30000);
        most = most < sizeof(got) - received ? most : sizeof(got) - received;
        received += take_now(ends[1], got + received, most);
        result = output_queue_drain(&bench.queue);
        cr_assert_neq(result, OUTPUT_BROKEN);
        cr_assert_eq(result == OUTPUT_FLOWING, output_queue_length(&bench.queue) == 0);
    }
    cr_assert_eq(result, OUTPUT_FLOWING);
    cr_assert_eq(memcmp(got, data, sizeof(data)), 0);
    bench_close(&bench);
    pair_close(ends);
}

/* ---- many threads ---- */

enum {
    THREADS = 8,
    MESSAGES = 500, /* of each thread */
    MOST_CONTENT = 300,
};

/* What stands in front of each message on the wire. */
struct header {
    uint16_t thread;
    uint16_t number;
    uint16_t length; /* of the content that follows */
};

struct sender {
    struct output_queue *queue;
    unsigned thread;
    unsigned accepted;
    bool broken;
    struct shared_message *messages[MESSAGES]; /* those that were shared */
};

static size_t content_length(unsigned thread, unsigned number)
{
    struct rng rng = rng_from(thread * 10000u + number);
    return rng_below(&rng, MOST_CONTENT);
}

static size_t compose(unsigned thread, unsigned number, unsigned char *data)
{
    size_t length = content_length(thread, number);
    struct header header = {(uint16_t)thread, (uint16_t)number, (uint16_t)length};
    memcpy(data, &header, sizeof(header));
    fill_pattern(data + sizeof(header), length, thread * 10000u + number);
    return sizeof(header) + length;
}

static enum output_result send_one(struct sender *sender, unsigned number)
{
    unsigned char data[sizeof(struct header) + MOST_CONTENT];
    size_t length = compose(sender->thread, number, data);
    if (number % 3 != 0)
        return output_queue_enqueue(sender->queue, (struct message){data, length});
    struct shared_message *message = shared_message_create(length);
    memcpy(message->data, data, length);
    sender->messages[number] = message;
    return output_queue_enqueue_shared(sender->queue, message);
}

static void *send_all(void *argument)
{
    struct sender *sender = argument;
    for (unsigned number = 0; number < MESSAGES && !sender->broken; number++) {
        enum output_result result = send_one(sender, number);
        sender->broken = result == OUTPUT_BROKEN;
        sender->accepted += !sender->broken;
    }
    return NULL;
}

struct drainer {
    struct output_queue *queue;
    int fd;
    atomic_bool stop;
};

/* As a dispatcher does: when the socket can be written, what waits is written. */
static void *drain_all(void *argument)
{
    struct drainer *drainer = argument;
    while (!atomic_load(&drainer->stop)) {
        struct pollfd watched = {.fd = drainer->fd, .events = POLLOUT};
        poll(&watched, 1, 1);
        if (output_queue_drain(drainer->queue) == OUTPUT_BROKEN)
            break;
    }
    return NULL;
}

struct crowd {
    struct bench bench;
    int ends[2];
    struct sender senders[THREADS];
    pthread_t threads[THREADS];
    struct drainer drainer;
    pthread_t drainer_thread;
};

static void crowd_start(struct crowd *crowd)
{
    bench_open(&crowd->bench, roomy);
    faults.writev = NULL;
    pair_open_small(crowd->ends);
    crowd->bench.queue.chain.fd = crowd->ends[0];
    crowd->drainer = (struct drainer){.queue = &crowd->bench.queue, .fd = crowd->ends[0]};
    for (unsigned i = 0; i < THREADS; i++) {
        crowd->senders[i] = (struct sender){.queue = &crowd->bench.queue, .thread = i};
        pthread_create(&crowd->threads[i], NULL, send_all, &crowd->senders[i]);
    }
    pthread_create(&crowd->drainer_thread, NULL, drain_all, &crowd->drainer);
}

/* Joins all, and shows that no message is held by anybody but its sender. */
static void crowd_end(struct crowd *crowd)
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(crowd->threads[i], NULL);
    atomic_store(&crowd->drainer.stop, true);
    pthread_join(crowd->drainer_thread, NULL);
    bench_close(&crowd->bench);
    for (int i = 0; i < THREADS; i++) {
        for (int number = 0; number < MESSAGES; number++) {
            struct shared_message *message = crowd->senders[i].messages[number];
            if (message == NULL)
                continue;
            cr_assert_eq(references(message), 1, "message %d of thread %d", number, i);
            shared_message_release(message);
        }
    }
}

/*
 * Checks the stream: whole messages only, each thread's in order, none twice. `whole` says that the
 * last one must be whole too. How many there are.
 */
static size_t check_stream(const unsigned char *data, size_t length, bool whole)
{
    unsigned next[THREADS] = {0};
    size_t count = 0;
    while (length > 0) {
        unsigned char right[sizeof(struct header) + MOST_CONTENT];
        struct header header;
        if (length < sizeof(header))
            break;
        memcpy(&header, data, sizeof(header));
        cr_assert_lt(header.thread, THREADS, "message %zu", count);
        cr_assert_eq(header.number, next[header.thread], "thread %u: %u, not %u", header.thread,
                     header.number, next[header.thread]);
        size_t size = compose(header.thread, header.number, right);
        if (length < size)
            break;
        cr_assert_eq(memcmp(data, right, size), 0, "message %zu", count);
        next[header.thread]++;
        count++;
        data += size;
        length -= size;
    }
    cr_assert(!whole || length == 0, "the stream ends within a message");
    return count;
}

static size_t stream_length(void)
{
    size_t length = 0;
    for (unsigned thread = 0; thread < THREADS; thread++)
        for (unsigned number = 0; number < MESSAGES; number++)
            length += sizeof(struct header) + content_length(thread, number);
    return length;
}

/* Reads so many bytes, or to the deadline. How many came. */
static size_t receive(int fd, unsigned char *data, size_t length)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    size_t received = 0;
    while (received < length && test_await(fd, POLLIN, end))
        received += take_now(fd, data + received, length - received);
    return received;
}

Test(output_queue, case_05_messages_of_many_threads_come_whole_and_each_once)
{
    static struct crowd crowd;
    static unsigned char data[THREADS * MESSAGES * (sizeof(struct header) + MOST_CONTENT)];
    size_t length = stream_length();
    crowd_start(&crowd);
    size_t received = receive(crowd.ends[1], data, length);
    cr_assert_eq(received, length);
    cr_assert_eq(check_stream(data, length, true), THREADS * MESSAGES);
    cr_assert_eq(take_now(crowd.ends[1], data, 1), 0, "and not a byte more");
    cr_assert_eq(output_queue_newly_sent(&crowd.bench.queue), length);
    crowd_end(&crowd);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(crowd.senders[i].accepted, MESSAGES);
    pair_close(crowd.ends);
}

/* The peer goes away in the middle: what was accepted was sent or dropped, and nothing is held. */
Test(output_queue, case_05_messages_to_a_peer_that_goes_away_are_dropped_once)
{
    static struct crowd crowd;
    static unsigned char data[THREADS * MESSAGES * (sizeof(struct header) + MOST_CONTENT)];
    signal(SIGPIPE, SIG_IGN);
    crowd_start(&crowd);
    size_t received = receive(crowd.ends[1], data, stream_length() / 3);
    close(crowd.ends[1]);
    cr_assert_gt(check_stream(data, received, false), 0);
    crowd_end(&crowd);
    close(crowd.ends[0]);
}

/* ---- no memory ---- */

static void break_for_memory(size_t length, bool share)
{
    struct bench bench;
    struct shared_message *message = shared_message_create(length);
    bench_open(&bench, roomy);
    memory_take_all();
    enum output_result result =
        share ? output_queue_enqueue_shared(&bench.queue, message) : enqueue_bytes(&bench, length);
    int error = errno;
    memory_give_back();
    errno = error;
    expect_broken(&bench, result, ENOMEM);
    cr_assert_eq(references(message), 1);
    expect_stays_broken(&bench);
    shared_message_release(message);
    bench_close(&bench);
}

Test(no_memory, output_queue_breaks_because_a_byte_is_lost)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    break_for_memory(100, false);
    break_for_memory(100, true);
}

Test(no_memory, output_queue_that_has_no_room_for_all_of_a_message_drops_it)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    struct bench bench;
    bench_open(&bench, roomy);
    buffer_factory_give_back(&bench.factory, buffer_factory_take(&bench.factory, 2));
    memory_take_all();
    enum output_result result = enqueue_bytes(&bench, 10 * SEGMENT_SIZE);
    int error = errno;
    memory_give_back();
    errno = error;
    expect_broken(&bench, result, ENOMEM);
    bench_close(&bench);
}

Test(no_memory, output_queue_needs_none_for_what_the_socket_takes)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    struct bench bench;
    bench_open(&bench, roomy);
    pretended.room = SIZE_MAX;
    memory_take_all();
    enum output_result result = enqueue_bytes(&bench, 10000);
    memory_give_back();
    cr_assert_eq(result, OUTPUT_FLOWING);
    cr_assert_eq(pretended.count, 10000);
    bench_close(&bench);
}
