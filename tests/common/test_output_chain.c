/*
 * The output queue: all bytes once and in order, however little the socket takes; marks, cap, cork,
 * output that is held back, and shared messages.
 *
 * Most tests replace writev(2) by a socket of their own that takes exactly as much as they want.
 * What no test of its own is for, random steps compare with a model: a plain array of the bytes
 * that wait and a list of the links in which they do.
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

TestSuite(output_chain, .timeout = 120);

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
    bool is_full; /* has taken less than it was offered, or failed */
    size_t offer; /* so much has to be offered at the next call, or 64 pieces; 0: whatever it is */
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
    if (pretended.interruptions > 0) {
        pretended.interruptions--;
        return answer(EINTR);
    }
    pretended.calls++;
    size_t offered = 0;
    for (int i = 0; i < count; i++)
        offered += iov[i].iov_len;
    if (pretended.offer > 0) {
        size_t most = pretended.offer < OUTPUT_BATCH ? pretended.offer : OUTPUT_BATCH;
        cr_assert(offered == most || (count == 64 && offered < most), "%zu bytes in %d pieces",
                  offered, count);
        cr_assert_not(pretended.is_full, "a full socket is asked again");
    }
    size_t length = offered < pretended.room ? offered : pretended.room;
    if (pretended.at_once > 0 && length > pretended.at_once)
        length = pretended.at_once;
    pretended.is_full = pretended.error != 0 || length < offered;
    if (pretended.error != 0)
        return answer(pretended.error);
    if (offered > 0 && pretended.room == 0)
        return answer(EAGAIN);
    copy_pieces(iov, count, length);
    pretended.room -= length;
    pretended.offer -= pretended.offer > 0 ? length : 0;
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
    pretended.count = pretended.room = pretended.at_once = pretended.offer = 0;
    pretended.error = pretended.interruptions = pretended.calls = 0;
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
    cr_assert(test_await(ends[0], POLLHUP, test_deadline()));
    expect_broken(&bench, drain(&bench), ECONNRESET);
    expect_broken(&bench, enqueue(&bench, "more"), EPIPE);
    bench_close(&bench);
    close(ends[0]);
}

/* ---- shared messages ---- */

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

/* ---- random steps, against a model ---- */

enum { MODEL_MAX = 2 << 20, LINKS_MAX = 20000, POOL = 4 };

/* What a link holds: a part of a segment, which is filled up to `end`, or of a shared message. */
struct link {
    size_t left;
    size_t end;
    struct shared_message *shared;
};

static struct model {
    struct output_settings settings;
    unsigned char *bytes; /* that wait */
    size_t waiting;
    struct link links[LINKS_MAX];
    size_t first, count; /* of the links: those from first up to, not including, count */
    size_t overhead;     /* what links to shared messages cost beside their bytes */
    bool corked, drained;
    uint32_t holder;
    enum output_result state;
} model;

static struct shared_message *pool[POOL];
static const size_t pool_lengths[POOL] = {0, SHARED_MESSAGE_MIN - 1, SHARED_MESSAGE_MIN,
                                          2 * OUTPUT_BATCH + 1};

static void model_append(struct shared_message *shared, const unsigned char *data, size_t length)
{
    memcpy(model.bytes + model.waiting, data, length);
    model.waiting += length;
    if (length > 0 && shared != NULL && shared->length >= SHARED_MESSAGE_MIN) {
        model.links[model.count++] = (struct link){.left = length, .shared = shared};
        model.overhead += sizeof(struct segment);
        return;
    }
    while (length > 0) {
        struct link *last = model.count > model.first ? &model.links[model.count - 1] : NULL;
        if (last == NULL || last->shared != NULL || last->end == SEGMENT_SIZE)
            *(last = &model.links[model.count++]) = (struct link){0};
        size_t here = length < SEGMENT_SIZE - last->end ? length : SEGMENT_SIZE - last->end;
        last->end += here;
        last->left += here;
        length -= here;
    }
}

static void model_drop(size_t count)
{
    memmove(model.bytes, model.bytes + count, model.waiting - count);
    model.waiting -= count;
    while (count > 0) {
        struct link *link = &model.links[model.first];
        size_t here = count < link->left ? count : link->left;
        link->left -= here;
        count -= here;
        if (link->left > 0)
            return;
        model.first++;
        model.overhead -= link->shared != NULL ? sizeof(struct segment) : 0;
    }
}

static enum output_result model_break(void)
{
    model_drop(model.waiting);
    model.holder = 0;
    return model.state = OUTPUT_BROKEN;
}

static enum output_result model_settle(void)
{
    bool was_choked = model.state == OUTPUT_CHOKED;
    if (model.waiting > (was_choked ? model.settings.low_mark : model.settings.high_mark))
        model.state = OUTPUT_CHOKED;
    else
        model.state = model.waiting == 0 || model.corked || model.holder != 0 ? OUTPUT_FLOWING
                                                                              : OUTPUT_WAITING;
    if (was_choked != (model.state == OUTPUT_CHOKED))
        model.drained = was_choked;
    return model.state;
}

/* The socket was offered what waits: what it has taken leaves, up to all or until it was full. */
static enum output_result model_write(void)
{
    if (model.state == OUTPUT_BROKEN)
        return OUTPUT_BROKEN;
    cr_assert_leq(pretended.count, model.waiting);
    cr_assert_eq(memcmp(pretended.taken, model.bytes, pretended.count), 0);
    model_drop(pretended.count);
    if (pretended.calls > 0 && pretended.error != 0)
        return model_break();
    cr_assert(model.waiting == 0 || pretended.is_full, "%zu bytes are not tried", model.waiting);
    return model_settle();
}

static enum output_result model_enqueue(const struct piece *piece, bool *wrote)
{
    const unsigned char *data = piece->bytes.data;
    size_t length = piece->bytes.length;
    if (model.state == OUTPUT_BROKEN)
        return OUTPUT_BROKEN;
    if (model.waiting + model.overhead > model.settings.cap)
        return OUTPUT_REFUSED;
    bool first = model.waiting == 0 && !model.corked && model.holder == 0;
    size_t taken = first ? pretended.count : 0;
    *wrote = first && length > 0;
    cr_assert(taken <= length && memcmp(pretended.taken, data, taken) == 0);
    if (*wrote && pretended.error != 0)
        return model_break();
    if (first && taken == length)
        return OUTPUT_FLOWING;
    cr_assert(!first || pretended.is_full);
    model_append(piece->shared, data + taken, length - taken);
    size_t batch =
        model.settings.high_mark < OUTPUT_BATCH ? model.settings.high_mark : OUTPUT_BATCH;
    if (model.holder == 0 || model.corked || model.waiting + model.overhead < batch)
        return model_settle();
    model.holder = 0; /* it is a batch, so it leaves at once */
    *wrote = true;
    return model_write();
}

/* As much room as there may be, or hardly as much as the first link needs. */
static void change_socket(struct rng *rng)
{
    size_t border = model.first < model.count ? model.links[model.first].left : 1;
    const size_t rooms[] = {0, 0, border - 1, border, border + 1, rng_below(rng, 20000), SIZE_MAX};
    pretended.room = rooms[rng_below(rng, sizeof(rooms) / sizeof(rooms[0]))];
    pretended.at_once = rng_below(rng, 2) == 0 ? 0 : rng_between(rng, 1, 5000);
    pretended.error = rng_below(rng, 60) == 0 ? ECONNRESET : 0;
}

static struct piece any_piece(struct rng *rng)
{
    static unsigned char data[3 * SEGMENT_SIZE];
    if (rng_below(rng, 3) == 0)
        return piece_shared(pool[rng_below(rng, rng_below(rng, 8) == 0 ? POOL : POOL - 1)]);
    size_t length = rng_below(rng, rng_below(rng, 4) == 0 ? sizeof(data) : 60);
    fill_pattern(data, length, rng_below(rng, 1000));
    return piece_bytes(data, length);
}

/* One call, and what the model says of it; whether it may have written. */
static bool take_step(struct output_chain *queue, struct rng *rng)
{
    enum output_result result = OUTPUT_FLOWING, expected = OUTPUT_FLOWING;
    bool wrote = false, has = false, expected_has = false;
    struct piece piece;
    uint32_t holder = (uint32_t)rng_between(rng, 1, 2);
    size_t kind = rng_below(rng, 20);
    pretended.offer = model.waiting;
    switch (kind) {
    default:
        piece = any_piece(rng);
        if (model.waiting == 0)
            pretended.offer = 0;
        else if (model.holder != 0)
            pretended.offer += piece.bytes.length;
        result = output_chain_enqueue(queue, piece);
        expected = model_enqueue(&piece, &wrote);
        break;
    case 0:
        output_chain_cork(queue);
        model.corked = true;
        break;
    case 1:
        output_chain_lift_cork(queue);
        model.corked = false;
        break;
    case 2:
    case 3:
        result = output_chain_uncork(queue);
        model.corked = false;
        if (model.waiting > 0 || model.state != OUTPUT_FLOWING) {
            model.holder = 0;
            wrote = true;
            expected = model_write();
        }
        break;
    case 4:
    case 5:
        result = kind == 4 ? output_chain_drain(queue) : output_chain_flush(queue);
        model.holder = kind == 4 ? 0 : model.holder;
        wrote = true;
        expected = model_write();
        break;
    case 6:
    case 7:
    case 8:
        has = output_chain_hold(queue, holder);
        expected_has = model.holder != holder &&
                       (model.holder != 0 ||
                        (model.waiting == 0 && !model.corked && model.state != OUTPUT_BROKEN));
        model.holder = expected_has ? holder : model.holder;
        break;
    case 9:
        result = output_chain_release(queue);
        if (model.holder != 0 && model.corked) {
            expected = model_settle();
        } else if (model.holder != 0) {
            model.holder = 0;
            wrote = true;
            expected = model_write();
        }
        break;
    case 10:
        has = output_chain_take_drained(queue);
        expected_has = model.drained;
        model.drained = false;
        break;
    case 11:
    case 12: change_socket(rng); break;
    case 13: pretended.interruptions = 3; break;
    }
    cr_assert_eq(result, expected, "call %zu returned %d, not %d", kind, result, expected);
    cr_assert_eq(has, expected_has, "call %zu returned %d", kind, has);
    return wrote;
}

static void compare_links(struct bench *bench)
{
    size_t segments = 0, kept[POOL] = {0};
    for (size_t i = model.first; i < model.count; i++) {
        segments += model.links[i].shared == NULL;
        for (size_t j = 0; j < POOL; j++)
            kept[j] += model.links[i].shared == pool[j];
    }
    expect_state(bench, model.waiting, segments);
    for (size_t j = 0; j < POOL; j++)
        cr_assert_eq(references(pool[j]), 1 + kept[j], "message %zu", j);
}

static void compare_with_model(uint64_t seed)
{
    static const struct output_settings settings[] = {
        {.low_mark = 40, .high_mark = 100, .cap = 200},
        {.low_mark = 0, .high_mark = 10, .cap = 100},
        {.low_mark = 10000, .high_mark = 20000, .cap = 40000},
        {.low_mark = 1 << 18, .high_mark = 1 << 19, .cap = 1 << 20}};
    struct rng rng = rng_from(seed);
    struct bench bench;
    unsigned char *bytes = model.bytes;
    model = (struct model){.settings = settings[seed % 4], .bytes = bytes};
    bench_open(&bench, model.settings);
    size_t broken = 0;
    for (size_t step = 0; step < 1000 && broken < 20; step++) {
        pretended.calls = 0;
        pretended.count = 0;
        pretended.is_full = false;
        bool wrote = take_step(&bench.queue, &rng);
        cr_assert(wrote || pretended.calls == 0, "seed %zu, step %zu", (size_t)seed, step);
        cr_assert_eq(output_chain_newly_sent(&bench.queue), pretended.count);
        cr_assert_eq(output_chain_new_calls(&bench.queue), (uint32_t)pretended.calls);
        cr_assert_eq(output_chain_look(&bench.queue), model.state);
        compare_links(&bench);
        broken += model.state == OUTPUT_BROKEN;
    }
    bench_close(&bench);
    for (size_t i = 0; i < POOL; i++)
        cr_assert_eq(references(pool[i]), 1, "what waited at the end of seed %zu", (size_t)seed);
}

Test(output_chain, all_bytes_once_and_in_order_whatever_the_socket_takes)
{
    model.bytes = mapped(MODEL_MAX);
    for (size_t i = 0; i < POOL; i++) {
        pool[i] = shared_message_create(pool_lengths[i]);
        fill_pattern(pool[i]->data, pool_lengths[i], i);
    }
    for (uint64_t seed = 1; seed <= 200; seed++)
        compare_with_model(seed);
    for (size_t i = 0; i < POOL; i++)
        shared_message_release(pool[i]);
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
            output_chain_hold(&bench.queue, 1);
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

/* What somebody holds back leaves, too; what a full socket does not take is waited for. */
BenchTest(output_chain, finishes_when_all_has_left_and_takes_no_more, roomy)
{
    output_chain_hold(&bench->queue, 1);
    cr_assert_eq(enqueue(bench, "accepted"), OUTPUT_FLOWING);
    cr_assert_not(output_chain_finish(&bench->queue));
    pretended.room = 3;
    cr_assert_not(output_chain_finish(&bench->queue));
    cr_assert_eq(enqueue(bench, ", too"), OUTPUT_WAITING);
    pretended.room = 100;
    cr_assert(output_chain_finish(&bench->queue));
    expect_written("accepted, too");
    cr_assert_eq(enqueue(bench, "late"), OUTPUT_BROKEN);
    cr_assert_not(output_chain_hold(&bench->queue, 2));
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_FLOWING, "the connection is not lost");
    expect_written("accepted, too");
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
