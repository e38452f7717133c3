/*
 * Files in the output queue: ranges that leave in order with what was queued before and after them,
 * count against the limits, and are let go when they are done with; a file that ends too early; and
 * the senders below, the system's own and the portable one.
 */
#include "common/bytes/file_sender.h"
#include "common/bytes/output_parts.h"
#include "common/bytes/shared_file.h"
#include "common/bytes/shared_message.h"
#include "faults.h"
#include "helpers.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

TestSuite(output_chain_file, .timeout = 60);

/* ---- the portable sender, beside the one that the library has chosen ---- */

static struct {
    int of_pread;
    int of_write;
} interruptions;

static ssize_t interrupted_pread(int fd, void *to, size_t count, off_t offset)
{
    if (interruptions.of_pread-- > 0) {
        errno = EINTR;
        return -1;
    }
    return pread(fd, to, count, offset);
}

static ssize_t interrupted_write(int fd, const void *from, size_t count)
{
    if (interruptions.of_write-- > 0) {
        errno = EINTR;
        return -1;
    }
    return write(fd, from, count);
}

ssize_t portable_send(int socket, int file, off_t offset, size_t count);

#define file_sender_send portable_send
#define pread            interrupted_pread
#define write            interrupted_write
#include "common/bytes/file_sender_posix.c"
#include "support/mapped.h"
#include "support/with.h"
#undef file_sender_send
#undef pread
#undef write

typedef ssize_t sender(int socket, int file, off_t offset, size_t count);

static sender *const senders[] = {file_sender_send, portable_send};
enum { SENDERS = sizeof(senders) / sizeof(senders[0]) };

/* ---- files ---- */

/* A file without a name, with bytes that differ from place to place. */
static int file_with(unsigned char *data, size_t length)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    cr_assert_geq(fd, 0, "%s", strerror(errno));
    if (data != NULL) {
        fill_pattern(data, length, 7);
        cr_assert_eq(pwrite(fd, data, length, 0), (ssize_t)length);
    }
    cr_assert_eq(ftruncate(fd, (off_t)length), 0);
    return fd;
}

static struct shared_file *shared_file_with(unsigned char *data, size_t length)
{
    return shared_file_create(file_with(data, length));
}

static size_t references(struct shared_file *file)
{
    return atomic_load(&file->references);
}

/* ---- a queue in front of a socket ---- */

struct bench {
    struct buffer_factory factory;
    struct output_settings settings;
    struct output_chain queue;
    int ends[2];
};

static const struct output_settings roomy = {
    .low_mark = 1 << 20, .high_mark = 1 << 22, .cap = 1 << 24};
static const struct output_settings tight = {.low_mark = 40, .high_mark = 100, .cap = 200};
static const struct output_settings endless = {
    .low_mark = 1, .high_mark = SIZE_MAX, .cap = SIZE_MAX};

static void bench_open(struct bench *bench, struct output_settings settings)
{
    buffer_factory_init(&bench->factory, 16);
    bench->settings = settings;
    bench->settings.buffers = &bench->factory;
    pair_open(bench->ends);
    output_chain_init(&bench->queue, &bench->settings, bench->ends[0]);
}

static void bench_close(struct bench *bench)
{
    output_chain_close(&bench->queue);
    cr_assert_eq(buffer_factory_out(&bench->factory), 0);
    buffer_factory_destroy(&bench->factory);
    pair_close(bench->ends);
}

/* A test that has `bench`, whose queue has these settings. */
#define BenchTest(suite, name, settings)                                                           \
    TestWith(suite, name, struct bench, bench, bench_open(bench, settings), bench_close(bench))

static enum output_result enqueue(struct bench *bench, const char *text)
{
    return output_chain_enqueue(&bench->queue, piece_bytes(text, strlen(text)));
}

static enum output_result enqueue_file(struct bench *bench, struct shared_file *file,
                                       uint64_t offset, uint64_t length)
{
    return output_chain_enqueue(&bench->queue, piece_file(file, offset, length));
}

/* Drains and reads until nothing waits; how much came, at most size. */
static size_t take_all(struct bench *bench, unsigned char *to, size_t size)
{
    double end = test_deadline();
    size_t taken = 0;
    enum output_result result;
    do {
        result = output_chain_drain(&bench->queue);
        cr_assert_lt(result, OUTPUT_REFUSED);
        taken += take_now(bench->ends[1], to + taken, size - taken);
        cr_assert_lt(test_now(), end, "%zu bytes still wait", output_chain_length(&bench->queue));
    } while (result != OUTPUT_FLOWING);
    return taken + take_now(bench->ends[1], to + taken, size - taken);
}

/* ---- senders ---- */

Test(output_chain_file, a_sender_sends_the_range_and_leaves_the_position_alone)
{
    static unsigned char data[50000];
    static unsigned char got[sizeof(data)];
    int file = file_with(data, sizeof(data));
    for (int i = 0; i < SENDERS; i++) {
        int ends[2];
        pair_open(ends);
        cr_assert_eq(senders[i](ends[0], file, 1000, 40000), 40000, "sender %d", i);
        cr_assert_eq(take_now(ends[1], got, sizeof(got)), 40000, "sender %d", i);
        cr_assert_eq(memcmp(got, data + 1000, 40000), 0, "sender %d", i);
        cr_assert_eq(lseek(file, 0, SEEK_CUR), 0, "sender %d", i);
        pair_close(ends);
    }
    close(file);
}

Test(output_chain_file, a_sender_stops_where_the_socket_is_full_and_goes_on_there)
{
    enum { FILE_SIZE = 1 << 20 };
    unsigned char *data = mapped(FILE_SIZE);
    unsigned char *got = mapped(FILE_SIZE);
    int file = file_with(data, FILE_SIZE);
    for (int i = 0; i < SENDERS; i++) {
        int ends[2];
        size_t taken = 0;
        pair_open_small(ends);
        while (taken < FILE_SIZE) {
            ssize_t sent = senders[i](ends[0], file, (off_t)taken, FILE_SIZE - taken);
            cr_assert_gt(sent, 0, "sender %d", i);
            if (taken + (size_t)sent < FILE_SIZE)
                cr_assert_eq(senders[i](ends[0], file, 0, 1 << 16), 0, "sender %d: it is full", i);
            cr_assert_eq(take_now(ends[1], got + taken, FILE_SIZE - taken), (size_t)sent,
                         "sender %d", i);
            taken += (size_t)sent;
        }
        cr_assert_eq(memcmp(got, data, FILE_SIZE), 0, "sender %d", i);
        pair_close(ends);
    }
    close(file);
}

Test(output_chain_file, a_sender_tells_that_the_file_has_ended)
{
    static unsigned char data[1000];
    static unsigned char got[sizeof(data)];
    int file = file_with(data, sizeof(data));
    for (int i = 0; i < SENDERS; i++) {
        int ends[2];
        pair_open(ends);
        cr_assert_eq(senders[i](ends[0], file, 900, 200), 100, "sender %d: as far as it goes", i);
        for (off_t offset = 1000; offset <= 1001; offset++) {
            errno = 0;
            cr_assert_eq(senders[i](ends[0], file, offset, 100), -1, "sender %d", i);
            cr_assert_eq(errno, ESTALE, "sender %d: %s", i, strerror(errno));
        }
        cr_assert_eq(take_now(ends[1], got, sizeof(got)), 100, "sender %d: no padding", i);
        pair_close(ends);
    }
    close(file);
}

Test(output_chain_file, a_sender_tells_of_a_dead_peer_and_of_a_file_that_cannot_be_read)
{
    static unsigned char data[1000];
    int file = file_with(data, sizeof(data));
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < SENDERS; i++) {
        int ends[2];
        pair_open(ends);
        cr_assert_eq(senders[i](ends[0], -1, 0, 100), -1, "sender %d", i);
        cr_assert_eq(errno, EBADF, "sender %d: %s", i, strerror(errno));
        close(ends[1]);
        cr_assert_eq(senders[i](ends[0], file, 0, 100), -1, "sender %d", i);
        cr_assert_eq(errno, EPIPE, "sender %d: %s", i, strerror(errno));
        close(ends[0]);
    }
    close(file);
}

static struct {
    int interruptions;
    int calls;
    int error;
    size_t taken;
    size_t most_wanted;
    bool pretends; /* takes all and sends nothing */
} sendfile_stand_in;

static ssize_t stand_in_for_sendfile(int socket, int file, off_t *offset, size_t count)
{
    sendfile_stand_in.calls++;
    if (count > sendfile_stand_in.most_wanted)
        sendfile_stand_in.most_wanted = count;
    if (sendfile_stand_in.interruptions-- > 0) {
        errno = EINTR;
        return -1;
    }
    if (sendfile_stand_in.error != 0) {
        errno = sendfile_stand_in.error;
        return -1;
    }
    if (!sendfile_stand_in.pretends)
        return real_sendfile(socket, file, offset, count);
    sendfile_stand_in.taken += count;
    return (ssize_t)count;
}

/* False where the library sends files in another way, so that there is nothing to stand in for. */
static bool stand_in(void)
{
    errno = 0;
    faults.sendfile = stand_in_for_sendfile;
    sendfile_stand_in.error = ENOLCK;
    bool used = file_sender_send(-1, -1, 0, 1) < 0 && errno == ENOLCK;
    sendfile_stand_in.error = sendfile_stand_in.calls = 0;
    sendfile_stand_in.most_wanted = 0;
    return used;
}

Test(output_chain_file, a_sender_goes_on_after_an_interruption)
{
    static unsigned char data[1000];
    static unsigned char got[sizeof(data)];
    int file = file_with(data, sizeof(data));
    stand_in();
    for (int i = 0; i < SENDERS; i++) {
        int ends[2];
        pair_open(ends);
        sendfile_stand_in.interruptions = interruptions.of_pread = interruptions.of_write = 100;
        cr_assert_eq(senders[i](ends[0], file, 0, sizeof(data)), sizeof(data), "sender %d", i);
        cr_assert_eq(take_now(ends[1], got, sizeof(got)), sizeof(data), "sender %d", i);
        cr_assert_eq(memcmp(got, data, sizeof(data)), 0, "sender %d", i);
        pair_close(ends);
    }
    close(file);
}

/* ---- the queue: order ---- */

BenchTest(output_chain_file, an_empty_queue_sends_at_once, roomy)
{
    static unsigned char data[1000];
    static unsigned char got[sizeof(data)];
    struct shared_file *file = shared_file_with(data, sizeof(data));
    cr_assert_eq(enqueue_file(bench, file, 100, 500), OUTPUT_FLOWING);
    cr_assert_eq(take_now(bench->ends[1], got, sizeof(got)), 500, "it is there before any drain");
    cr_assert_eq(memcmp(got, data + 100, 500), 0);
    cr_assert_eq(references(file), 1);
    cr_assert_eq(output_chain_newly_sent(&bench->queue), 500);
    shared_file_release(file);
}

BenchTest(output_chain_file, nothing_of_a_file_is_nothing, roomy)
{
    unsigned char got[8];
    struct shared_file *file = shared_file_with(NULL, 0);
    cr_assert_eq(enqueue_file(bench, file, 0, 0), OUTPUT_FLOWING);
    fill_up(bench->ends[0]);
    cr_assert_eq(enqueue(bench, "x"), OUTPUT_WAITING);
    cr_assert_eq(enqueue_file(bench, file, 0, 0), OUTPUT_WAITING);
    cr_assert_eq(output_chain_length(&bench->queue), 1);
    cr_assert_eq(references(file), 1);
    while (take_now(bench->ends[1], got, sizeof(got)) > 0)
        ;
    cr_assert_eq(output_chain_drain(&bench->queue), OUTPUT_FLOWING);
    shared_file_release(file);
}

BenchTest(output_chain_file, a_corked_queue_holds_a_file_back, roomy)
{
    static unsigned char data[1000];
    static unsigned char got[2000];
    struct shared_file *file = shared_file_with(data, sizeof(data));
    output_chain_cork(&bench->queue);
    enqueue(bench, "head");
    cr_assert_eq(enqueue_file(bench, file, 0, sizeof(data)), OUTPUT_FLOWING);
    enqueue(bench, "tail");
    cr_assert_eq(take_now(bench->ends[1], got, sizeof(got)), 0);
    cr_assert_eq(output_chain_length(&bench->queue), 1008);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(take_now(bench->ends[1], got, sizeof(got)), 1008);
    cr_assert_eq(memcmp(got, "head", 4), 0);
    cr_assert_eq(memcmp(got + 4, data, sizeof(data)), 0);
    cr_assert_eq(memcmp(got + 1004, "tail", 4), 0);
    shared_file_release(file);
}

/* Copies, shared messages and ranges of two files, in any order, through any socket. */
Test(output_chain_file, all_bytes_once_and_in_order_whatever_lies_between_them)
{
    enum { FILE_SIZE = 100000, MOST = 1 << 20 };
    unsigned char *data = mapped(FILE_SIZE);
    unsigned char *expected = mapped(MOST);
    unsigned char *got = mapped(MOST + 1);
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct rng rng = rng_from(seed);
        struct bench bench;
        size_t length = 0;
        bench_open(&bench, roomy);
        if (seed % 2 == 0) { /* takes a few kilobytes at a time */
            pair_close(bench.ends);
            pair_open_small(bench.ends);
            bench.queue.fd = bench.ends[0];
        }
        struct shared_file *file = shared_file_with(data, FILE_SIZE);
        struct shared_message *message = shared_message_create(9000);
        memcpy(message->data, data, message->length);
        for (int link = 0; link < 20; link++) {
            size_t most = rng_below(&rng, 2) == 0 ? 10 : 20000;
            size_t offset = rng_below(&rng, 50000);
            size_t count = rng_between(&rng, 0, most);
            size_t kind = rng_below(&rng, 3);
            if (kind == 0) {
                output_chain_enqueue(&bench.queue, piece_bytes(data + offset, count));
            } else if (kind == 1) {
                offset = 0;
                count = message->length;
                output_chain_enqueue(&bench.queue, piece_shared(message));
            } else {
                enqueue_file(&bench, file, offset, count);
            }
            memcpy(expected + length, data + offset, count);
            length += count;
        }
        size_t came = take_all(&bench, got, MOST + 1);
        cr_assert_eq(came, length, "seed %d: %zu bytes, not %zu", (int)seed, came, length);
        cr_assert_eq(memcmp(got, expected, length), 0, "seed %d", (int)seed);
        cr_assert_eq(output_chain_newly_sent(&bench.queue), length, "seed %d", (int)seed);
        cr_assert_eq(references(file), 1, "seed %d", (int)seed);
        shared_message_release(message);
        shared_file_release(file);
        bench_close(&bench);
    }
}

Test(output_chain_file, one_file_in_two_queues_has_a_position_in_each)
{
    enum { FILE_SIZE = 600000 };
    unsigned char *data = mapped(FILE_SIZE);
    unsigned char *got = mapped(FILE_SIZE);
    struct bench one;
    struct bench other;
    bench_open(&one, roomy);
    bench_open(&other, roomy);
    struct shared_file *file = shared_file_with(data, FILE_SIZE);
    cr_assert_eq(enqueue_file(&one, file, 0, FILE_SIZE), OUTPUT_WAITING, "more than fits");
    cr_assert_eq(enqueue_file(&other, file, 1, FILE_SIZE - 1), OUTPUT_WAITING);
    cr_assert_eq(references(file), 3);
    cr_assert_eq(take_all(&other, got, FILE_SIZE), FILE_SIZE - 1);
    cr_assert_eq(memcmp(got, data + 1, FILE_SIZE - 1), 0);
    cr_assert_eq(take_all(&one, got, FILE_SIZE), FILE_SIZE);
    cr_assert_eq(memcmp(got, data, FILE_SIZE), 0);
    shared_file_release(file);
    bench_close(&one);
    bench_close(&other);
}

/* ---- limits ---- */

BenchTest(output_chain_file, the_bytes_of_a_file_count_against_the_marks_and_the_cap, tight)
{
    static unsigned char got[500];
    struct shared_file *file = shared_file_with(NULL, 500);
    output_chain_cork(&bench->queue);
    cr_assert_eq(enqueue_file(bench, file, 0, 100), OUTPUT_FLOWING, "corked, at the high mark");
    cr_assert_eq(enqueue_file(bench, file, 0, 1), OUTPUT_CHOKED, "above it");
    cr_assert_eq(enqueue_file(bench, file, 0, 100), OUTPUT_CHOKED);
    cr_assert_eq(output_chain_length(&bench->queue), 201);
    cr_assert_eq(enqueue_file(bench, file, 0, 1), OUTPUT_REFUSED, "above the cap");
    cr_assert_eq(enqueue(bench, "x"), OUTPUT_REFUSED);
    cr_assert_eq(references(file), 4);
    cr_assert_eq(output_chain_length(&bench->queue), 201);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(take_now(bench->ends[1], got, sizeof(got)), 201);
    shared_file_release(file);
}

BenchTest(output_chain_file, a_range_is_accepted_whole_however_long_it_is, tight)
{
    size_t huge = (size_t)1 << 40;
    struct shared_file *file = shared_file_with(NULL, huge);
    cr_assert_eq(enqueue_file(bench, file, 0, huge), OUTPUT_CHOKED);
    size_t sent = (size_t)output_chain_newly_sent(&bench->queue);
    cr_assert_gt(sent, 0);
    cr_assert_lt(sent, OUTPUT_FILE_BATCH);
    cr_assert_eq(output_chain_length(&bench->queue), huge - sent);
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_CHOKED);
    cr_assert_eq(enqueue(bench, "x"), OUTPUT_REFUSED);
    cr_assert_eq(buffer_factory_out(&bench->factory), 0, "it takes no memory");
    shared_file_release(file);
}

Test(output_chain_file, what_cannot_be_counted_breaks_the_queue)
{
    static const size_t ranges[][2] = {
        {SIZE_MAX, 1}, {1, SIZE_MAX}, {SIZE_MAX - 10, 11}, {SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 1}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        struct bench bench;
        bench_open(&bench, endless);
        struct shared_file *file = shared_file_with(NULL, 10);
        cr_assert_eq(enqueue_file(&bench, file, ranges[i][0], ranges[i][1]), OUTPUT_BROKEN, "%zu",
                     i);
        cr_assert_eq(errno, EOVERFLOW, "%zu: %s", i, strerror(errno));
        cr_assert_eq(references(file), 1);
        shared_file_release(file);
        bench_close(&bench);
    }
}

BenchTest(output_chain_file, a_sum_that_cannot_be_counted_breaks_the_queue, endless)
{
    struct shared_file *file = shared_file_with(NULL, 10);
    output_chain_cork(&bench->queue);
    cr_assert_eq(enqueue_file(bench, file, 0, SIZE_MAX - 10), OUTPUT_FLOWING);
    cr_assert_eq(enqueue_file(bench, file, 0, 10), OUTPUT_FLOWING);
    cr_assert_eq(output_chain_length(&bench->queue), SIZE_MAX);
    cr_assert_eq(enqueue_file(bench, file, 0, 1), OUTPUT_BROKEN);
    cr_assert_eq(output_chain_length(&bench->queue), 0);
    cr_assert_eq(references(file), 1);
    shared_file_release(file);
}

/* ---- bounds of one call ---- */

BenchTest(output_chain_file, one_call_sends_a_bounded_part_of_a_file, roomy)
{
    enum { PARTS = 5 };
    const size_t batch = OUTPUT_FILE_BATCH;
    if (!stand_in())
        cr_skip_test("files are sent in another way here");
    struct shared_file *file = shared_file_with(NULL, PARTS * batch + 7);
    sendfile_stand_in.pretends = true;
    cr_assert_eq(enqueue_file(bench, file, 0, PARTS * batch + 7), OUTPUT_CHOKED);
    cr_assert_eq(sendfile_stand_in.taken, batch);
    for (size_t part = 2; part <= PARTS; part++) {
        enum output_result result = output_chain_drain(&bench->queue);
        cr_assert(result == OUTPUT_WAITING || result == OUTPUT_CHOKED, "part %zu", part);
        cr_assert_eq(sendfile_stand_in.taken, part * batch, "part %zu", part);
    }
    cr_assert_eq(output_chain_drain(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(sendfile_stand_in.taken, PARTS * batch + 7);
    cr_assert_eq(sendfile_stand_in.calls, PARTS + 1);
    shared_file_release(file);
}

/* The bound is on the call, not on each file in it. */
BenchTest(output_chain_file, one_call_sends_a_bounded_part_of_many_files, roomy)
{
    const size_t batch = OUTPUT_FILE_BATCH;
    if (!stand_in())
        cr_skip_test("files are sent in another way here");
    struct shared_file *file = shared_file_with(NULL, batch);
    sendfile_stand_in.pretends = true;
    output_chain_cork(&bench->queue);
    for (int i = 0; i < 4; i++)
        enqueue_file(bench, file, 0, batch / 4 * 3);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_WAITING);
    cr_assert_eq(sendfile_stand_in.taken, batch);
    shared_file_release(file);
}

/* A rate leaves a few bytes more each microsecond; they are not sent one by one. */
BenchTest(output_chain_file, a_rate_is_used_up_by_one_call, endless)
{
    enum { RATE = 50000000, MOMENTS = 10 };
    const struct timespec moment = {.tv_nsec = 20000000};
    if (!stand_in())
        cr_skip_test("files are sent in another way here");
    struct shared_file *file = shared_file_with(NULL, (size_t)1 << 30);
    sendfile_stand_in.pretends = true;
    output_chain_set_rate(&bench->queue, RATE);
    cr_assert_eq(enqueue_file(bench, file, 0, (size_t)1 << 30), OUTPUT_WAITING);
    for (int i = 0; i < MOMENTS; i++) {
        nanosleep(&moment, NULL);
        int calls = sendfile_stand_in.calls;
        cr_assert_eq(output_chain_drain(&bench->queue), OUTPUT_WAITING);
        cr_assert_leq(sendfile_stand_in.calls - calls, 1, "%d calls",
                      sendfile_stand_in.calls - calls);
    }
    cr_assert_gt(sendfile_stand_in.taken, 0);
    shared_file_release(file);
}

/* ---- what goes wrong ---- */

/* The peer was promised more bytes than there are: no padding, no endless loop. */
BenchTest(output_chain_file, a_file_that_becomes_shorter_breaks_the_queue, roomy)
{
    enum { FILE_SIZE = 1 << 20, REST = 700000 };
    unsigned char *data = mapped(FILE_SIZE);
    unsigned char *got = mapped(FILE_SIZE);
    struct shared_file *file = shared_file_with(data, FILE_SIZE);
    cr_assert_eq(enqueue_file(bench, file, 0, FILE_SIZE), OUTPUT_WAITING);
    enqueue(bench, "never");
    cr_assert_lt(output_chain_newly_sent(&bench->queue), REST);
    cr_assert_eq(ftruncate(file->fd, REST), 0);
    double end = test_deadline();
    size_t taken = 0;
    enum output_result result;
    do {
        taken += take_now(bench->ends[1], got + taken, FILE_SIZE - taken);
        result = output_chain_drain(&bench->queue);
    } while (result == OUTPUT_WAITING && test_now() < end);
    int error = errno;
    taken += take_now(bench->ends[1], got + taken, FILE_SIZE - taken);
    cr_assert_eq(result, OUTPUT_BROKEN);
    cr_assert_eq(error, ESTALE, "%s", strerror(error));
    cr_assert_eq(taken, REST);
    cr_assert_eq(memcmp(got, data, REST), 0);
    cr_assert_eq(references(file), 1, "what waited was dropped");
    cr_assert_eq(enqueue(bench, "x"), OUTPUT_BROKEN);
    cr_assert_eq(enqueue_file(bench, file, 0, 1), OUTPUT_BROKEN);
    shared_file_release(file);
}

BenchTest(output_chain_file, a_file_that_cannot_be_read_breaks_the_queue, roomy)
{
    if (!stand_in())
        cr_skip_test("files are sent in another way here");
    struct shared_file *file = shared_file_with(NULL, 1000);
    sendfile_stand_in.error = EIO;
    cr_assert_eq(enqueue_file(bench, file, 0, 1000), OUTPUT_BROKEN);
    cr_assert_eq(errno, EIO);
    cr_assert_eq(references(file), 1);
    shared_file_release(file);
}

BenchTest(output_chain_file, a_dead_peer_breaks_the_queue, roomy)
{
    struct shared_file *file = shared_file_with(NULL, 1000);
    signal(SIGPIPE, SIG_IGN);
    close(bench->ends[1]);
    cr_assert_eq(enqueue_file(bench, file, 0, 1000), OUTPUT_BROKEN);
    cr_assert_eq(errno, EPIPE);
    cr_assert_eq(references(file), 1);
    bench->ends[1] = dup(bench->ends[0]);
    shared_file_release(file);
}

Test(output_chain_file, the_last_one_to_let_go_closes_the_file)
{
    enum { FILE_SIZE = 1 << 20 };
    struct bench closed;
    struct bench destroyed;
    bench_open(&closed, roomy);
    bench_open(&destroyed, roomy);
    struct shared_file *file = shared_file_with(NULL, FILE_SIZE);
    int fd = file->fd;
    enqueue_file(&closed, file, 0, FILE_SIZE);
    enqueue_file(&destroyed, file, 0, FILE_SIZE);
    shared_file_release(file);
    cr_assert_neq(fcntl(fd, F_GETFD), -1, "two queues still hold it");
    output_chain_close(&closed.queue);
    cr_assert_neq(fcntl(fd, F_GETFD), -1, "one queue still holds it");
    bench_close(&destroyed);
    cr_assert_eq(fcntl(fd, F_GETFD), -1, "nobody holds it");
    bench_close(&closed);
}

BenchTest(output_chain_file, without_memory_for_a_link_the_queue_breaks, roomy)
{
    if (!memory_can_run_out())
        cr_skip_test("the memory is not ours to take here");
    struct shared_file *file = shared_file_with(NULL, 1000);
    memory_take_all();
    enum output_result result = enqueue_file(bench, file, 0, 1000);
    int error = errno;
    struct shared_file *none = shared_file_create(0);
    memory_give_back();
    cr_assert_eq(result, OUTPUT_BROKEN);
    cr_assert_eq(error, ENOMEM, "%s", strerror(error));
    cr_assert_eq(references(file), 1);
    cr_assert_null(none);
    cr_assert_neq(fcntl(0, F_GETFD), -1, "the descriptor is the caller's still");
    shared_file_release(file);
}

/* ---- a file that is changed on its way ---- */

struct changed_file {
    struct shared_file file; /* first */
    const unsigned char *data;
    size_t length;
    size_t most; /* of one read */
    int error;
};

static int destroyed;

static ssize_t read_changed(const struct shared_file *self, void *to, size_t count, uint64_t offset)
{
    const struct changed_file *file = (const struct changed_file *)self;
    unsigned char *bytes = to;
    size_t here = 0;
    if (file->error != 0) {
        errno = file->error;
        return -1;
    }
    while (here < count && here < file->most && offset + here < file->length) {
        bytes[here] = file->data[offset + here] ^ 0x20;
        here++;
    }
    return (ssize_t)here;
}

static void destroy_changed(struct shared_file *file)
{
    (void)file;
    destroyed++;
}

static const struct shared_file_verbs changed_verbs = {read_changed, destroy_changed};

enum { CHANGED = 300001 };

static struct changed_file changed_with(unsigned char *data)
{
    struct changed_file file = {.data = data, .length = CHANGED, .most = SIZE_MAX};
    fill_pattern(data, CHANGED, 3);
    shared_file_init(&file.file, &changed_verbs);
    destroyed = 0;
    return file;
}

/* In its place between other output, in pieces as the socket and the reads have them. */
static void send_changed(size_t most)
{
    static unsigned char data[CHANGED], taken[CHANGED + 100];
    struct bench bench;
    struct changed_file file = changed_with(data);
    file.most = most;
    bench_open(&bench, roomy);
    enqueue(&bench, "before");
    enqueue_file(&bench, &file.file, 1, CHANGED - 1);
    enqueue(&bench, "after");
    shared_file_release(&file.file);
    cr_assert_eq(destroyed, 0);
    size_t got = take_all(&bench, taken, sizeof(taken));
    cr_assert_eq(destroyed, 1);
    cr_assert_eq(got, 6 + CHANGED - 1 + 5);
    cr_assert_arr_eq(taken, "before", 6);
    cr_assert_arr_eq(taken + got - 5, "after", 5);
    for (size_t i = 1; i < CHANGED; i++)
        cr_assert_eq(taken[6 + i - 1], data[i] ^ 0x20, "byte %zu", i);
    bench_close(&bench);
}

Test(output_chain_file, what_is_read_and_changed_leaves_in_its_place)
{
    send_changed(SIZE_MAX);
}

Test(output_chain_file, reads_may_be_short)
{
    send_changed(777);
}

Test(output_chain_file, one_that_cannot_be_read_breaks_the_chain)
{
    static unsigned char data[CHANGED];
    struct bench bench;
    struct changed_file file = changed_with(data);
    bench_open(&bench, roomy);
    file.error = EIO;
    cr_assert_eq(enqueue_file(&bench, &file.file, 0, CHANGED), OUTPUT_BROKEN);
    cr_assert_eq(errno, EIO);
    bench_close(&bench);
    shared_file_release(&file.file);
    cr_assert_eq(destroyed, 1);

    file = changed_with(data);
    bench_open(&bench, roomy);
    cr_assert_eq(enqueue_file(&bench, &file.file, CHANGED, 1), OUTPUT_BROKEN);
    cr_assert_eq(errno, ESTALE);
    bench_close(&bench);
    shared_file_release(&file.file);
    cr_assert_eq(destroyed, 1);
}
