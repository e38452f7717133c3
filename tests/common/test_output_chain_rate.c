/*
 * The output queue with a rate: no more leaves than the rate allows, what is held back waits and
 * counts like any other output, and the queue tells when it is worth while to come back.
 *
 * The socket takes all it is offered; so what does not leave is held back by the rate. Time is
 * real: the tests compare what has left with the time that it took.
 */
#include "common/base/clock.h"
#include "common/bytes/output_parts.h"
#include "common/bytes/pace.h"
#include "common/bytes/shared_message.h"
#include "faults.h"
#include "helpers.h"
#include "support/deadline.h"
#include "support/mapped.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(output_chain_rate, .timeout = 120);

/* A socket that takes everything, or as much as it is told. */
static struct {
    unsigned char *taken;
    size_t count;
    size_t room;
    int error;
} pretended;

enum { TAKEN_SIZE = 1 << 20 };

static ssize_t take_all(int fd, const struct iovec *iov, int count)
{
    ssize_t taken = 0;
    (void)fd;
    if (pretended.error != 0 || pretended.room == 0) {
        errno = pretended.error != 0 ? pretended.error : EAGAIN;
        return -1;
    }
    for (int i = 0; i < count && pretended.room > 0; i++) {
        size_t here = iov[i].iov_len < pretended.room ? iov[i].iov_len : pretended.room;
        cr_assert_leq(pretended.count + here, TAKEN_SIZE);
        memcpy(pretended.taken + pretended.count, iov[i].iov_base, here);
        pretended.count += here;
        pretended.room -= here;
        taken += (ssize_t)here;
    }
    return taken;
}

struct bench {
    struct buffer_factory factory;
    struct output_settings settings;
    struct output_chain queue;
};

static void bench_open(struct bench *bench, uint64_t rate)
{
    buffer_factory_init(&bench->factory, 16);
    bench->settings = (struct output_settings){
        .buffers = &bench->factory, .low_mark = 100, .high_mark = 200, .cap = 400};
    output_chain_init(&bench->queue, &bench->settings, -1);
    faults.writev = take_all;
    if (pretended.taken == NULL)
        pretended.taken = mapped(TAKEN_SIZE);
    pretended.count = 0;
    pretended.error = 0;
    pretended.room = SIZE_MAX;
    output_chain_set_rate(&bench->queue, rate);
}

static void bench_close(struct bench *bench)
{
    output_chain_close(&bench->queue);
    cr_assert_eq(buffer_factory_out(&bench->factory), 0);
    buffer_factory_destroy(&bench->factory);
}

/* A test that has `bench`, whose queue has this rate. */
#define BenchTest(suite, name, rate)                                                               \
    TestWith(suite, name, struct bench, bench, bench_open(bench, rate), bench_close(bench))

static struct piece text(const char *bytes)
{
    return piece_bytes(bytes, strlen(bytes));
}

static struct piece bytes(size_t length)
{
    enum { MOST = 1 << 20 };
    unsigned char *data = mapped(MOST);
    fill_pattern(data, MOST, 5);
    return piece_bytes(data, length);
}

static struct shared_message *shared(const char *characters)
{
    struct shared_message *message = shared_message_create(strlen(characters));
    cr_assert_not_null(message);
    memcpy(message->data, characters, message->length);
    return message;
}

/* Waits until it is due and drains, as a dispatcher does; how many bytes have left then. */
static size_t drain_when_due(struct bench *bench)
{
    int64_t due = output_chain_due(&bench->queue);
    while (clock_ms() < due)
        test_pause_ms(1);
    output_chain_drain(&bench->queue);
    return pretended.count;
}

Test(output_chain_rate, what_is_past_the_allowance_waits)
{
    struct bench bench;
    bench_open(&bench, 1); /* a byte in a second: none now */
    cr_assert_eq(output_chain_enqueue(&bench.queue, text("hello\n")), OUTPUT_WAITING);
    cr_assert_eq(pretended.count, 0u, "%zu bytes left at once", pretended.count);
    cr_assert_eq(output_chain_length(&bench.queue), 6u);
    cr_assert_eq(output_chain_look(&bench.queue), OUTPUT_WAITING);
    bench_close(&bench);
}

Test(output_chain_rate, due_tells_when_the_next_byte_may_leave)
{
    struct bench bench;
    int64_t before = clock_ms();
    bench_open(&bench, 20); /* a byte in 50 ms */
    cr_assert_eq(output_chain_due(&bench.queue), 0, "nothing waits");
    output_chain_enqueue(&bench.queue, text("hello\n"));
    int64_t due = output_chain_due(&bench.queue);
    cr_assert(due > before && due <= clock_ms() + 51, "due %d ms after the rate was set",
              (int)(due - before));
    cr_assert_eq(drain_when_due(&bench), 1u, "%zu bytes left", pretended.count);
    int64_t next = output_chain_due(&bench.queue);
    cr_assert(next != 0 && next <= clock_ms() + 51, "the next one is due %d ms later",
              (int)(next - clock_ms()));
    bench_close(&bench);
}

BenchTest(output_chain_rate, nothing_is_due_that_nothing_holds_back, 0)
{
    pretended.room = 0;
    output_chain_enqueue(&bench->queue, text("the socket holds this back\n"));
    cr_assert_eq(output_chain_due(&bench->queue), 0);
}

/* Once the time has come it is for the socket again to say when it goes on. */
BenchTest(output_chain_rate, due_is_over_when_its_moment_has_come, 1000)
{
    pretended.room = 0;
    output_chain_enqueue(&bench->queue, text("hello\n"));
    int64_t due = output_chain_due(&bench->queue);
    while (clock_ms() < due)
        test_pause_ms(1);
    cr_assert_eq(output_chain_due(&bench->queue), 0);
    cr_assert_eq(output_chain_drain(&bench->queue), OUTPUT_WAITING);
    cr_assert_eq(output_chain_due(&bench->queue), 0, "nothing has left, so nothing is to be paid");
}

Test(output_chain_rate, everything_leaves_in_order_and_in_its_time)
{
    enum { LENGTH = 350, RATE = 1000 };
    struct bench bench;
    int64_t before = clock_ns();
    bench_open(&bench, RATE);
    struct message message = bytes(LENGTH).bytes;
    output_chain_enqueue(&bench.queue, piece_bytes(message.data, 100));
    output_chain_enqueue(&bench.queue, piece_bytes(message.data + 100, LENGTH - 100));
    while (drain_when_due(&bench) < LENGTH) {
        double allowed = (double)(clock_ns() - before) / 1e9 * RATE;
        cr_assert_leq((double)pretended.count, allowed + 1, "%zu bytes left; %.0f were allowed",
                      pretended.count, allowed);
    }
    cr_assert_eq(pretended.count, (size_t)LENGTH);
    cr_assert_eq(memcmp(pretended.taken, message.data, LENGTH), 0);
    cr_assert_eq(output_chain_look(&bench.queue), OUTPUT_FLOWING);
    cr_assert_eq(output_chain_newly_sent(&bench.queue), (uint64_t)LENGTH);
    cr_assert_eq(output_chain_due(&bench.queue), 0);
    bench_close(&bench);
}

/* Erratum 19: what waits behind a rate is waiting output, for the marks and for the cap. */
BenchTest(output_chain_rate, erratum_19_limits_count_what_is_held_back, 1)
{
    cr_assert_eq(output_chain_enqueue(&bench->queue, bytes(200)), OUTPUT_WAITING);
    cr_assert_eq(output_chain_enqueue(&bench->queue, bytes(1)), OUTPUT_CHOKED);
    cr_assert_eq(output_chain_enqueue(&bench->queue, bytes(200)), OUTPUT_CHOKED);
    cr_assert_eq(output_chain_enqueue(&bench->queue, bytes(1)), OUTPUT_REFUSED);
    struct shared_message *message = shared("one more\n");
    cr_assert_eq(output_chain_enqueue(&bench->queue, piece_shared(message)), OUTPUT_REFUSED);
    shared_message_release(message);
    cr_assert_eq(output_chain_length(&bench->queue), 401u);
}

/* Shared messages and what is corked go at the same rate as copies. */
BenchTest(output_chain_rate, shared_messages_and_corks_are_held_back_too, 1)
{
    struct shared_message *message = shared("for all\n");
    cr_assert_eq(output_chain_enqueue(&bench->queue, piece_shared(message)), OUTPUT_WAITING);
    shared_message_release(message);
    output_chain_cork(&bench->queue);
    output_chain_enqueue(&bench->queue, text("corked\n"));
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_WAITING);
    cr_assert_eq(pretended.count, 0u);
    cr_assert_eq(output_chain_length(&bench->queue), 15u);
}

/* What a socket did not take is not paid for. */
BenchTest(output_chain_rate, a_partial_write_costs_what_was_taken, 10000)
{
    test_pause_ms(60); /* a burst is saved: 500 bytes */
    pretended.room = 100;
    cr_assert_eq(output_chain_enqueue(&bench->queue, bytes(300)), OUTPUT_WAITING);
    cr_assert_eq(pretended.count, 100u);
    cr_assert_eq(output_chain_due(&bench->queue), 0, "it is the socket that holds the rest back");
    pretended.room = SIZE_MAX;
    cr_assert_eq(output_chain_drain(&bench->queue), OUTPUT_FLOWING, "what was saved is gone");
    cr_assert_eq(memcmp(pretended.taken, bytes(300).bytes.data, 300), 0);
}

BenchTest(output_chain_rate, no_rate_any_more_lets_everything_go, 1)
{
    output_chain_enqueue(&bench->queue, text("hello\n"));
    output_chain_set_rate(&bench->queue, 0);
    cr_assert_eq(output_chain_due(&bench->queue), 0);
    cr_assert_eq(output_chain_drain(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(pretended.count, 6u);
}

BenchTest(output_chain_rate, a_broken_queue_is_not_held_back, 10000)
{
    test_pause_ms(10);
    pretended.error = EPIPE;
    cr_assert_eq(output_chain_enqueue(&bench->queue, text("hello\n")), OUTPUT_BROKEN);
    cr_assert_eq(output_chain_due(&bench->queue), 0);
}

/* Bytes times nanoseconds, at the rates where 32 bits would not do and at the highest. */
Test(output_chain_rate, case_38_rates_that_do_not_fit_into_32_bits)
{
    static const uint64_t rates[] = {4300000,       5000000,   50000000, UINT64_C(5000000000),
                                     PACE_MAX_RATE, UINT64_MAX};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct bench bench;
        bench_open(&bench, rates[i]);
        bench.settings.high_mark = 1 << 22;
        bench.settings.low_mark = 1 << 21;
        bench.settings.cap = 1 << 23;
        size_t length = TAKEN_SIZE;
        double begun = (double)clock_ns();
        output_chain_enqueue(&bench.queue, bytes(length));
        double end = test_deadline();
        while (pretended.count < length && test_left_ms(end) > 0)
            drain_when_due(&bench);
        double took = ((double)clock_ns() - begun) / 1e9;
        double least = (double)length / (double)rates[i];
        cr_assert_eq(pretended.count, length, "rate %g: %zu bytes", (double)rates[i],
                     pretended.count);
        cr_assert(took >= least * 0.9, "rate %g: took %.4f s instead of %.4f", (double)rates[i],
                  took, least);
        cr_assert(took < least + 5, "rate %g: took %.4f s instead of %.4f", (double)rates[i], took,
                  least);
        bench_close(&bench);
    }
}
