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

TestSuite(output_chain_file, .timeout = 120);

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
static int file_with(const unsigned char *data, size_t length)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    cr_assert_geq(fd, 0, "%s", strerror(errno));
    if (data != NULL)
        cr_assert_eq(pwrite(fd, data, length, 0), (ssize_t)length);
    cr_assert_eq(ftruncate(fd, (off_t)length), 0);
    return fd;
}

enum { PATTERN = 1 << 20, ROOM = PATTERN + 1 };

/* What is in a file of up to so many bytes, from its beginning on, and where it arrives. */
static unsigned char *data, *got;

static void fill_data(size_t length, uint64_t seed)
{
    if (data == NULL) {
        data = mapped(PATTERN);
        got = mapped(ROOM);
    }
    fill_pattern(data, length, seed);
}

static struct shared_file *shared_file_with(size_t length)
{
    bool is_pattern = length <= PATTERN;
    fill_data(PATTERN, 7);
    return shared_file_create(file_with(is_pattern ? data : NULL, length));
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
    struct shared_file *file; /* NULL: it needs none */
    int ends[2];
};

static const struct output_settings roomy = {
    .low_mark = 1 << 20, .high_mark = 1 << 22, .cap = 1 << 24};
static const struct output_settings tight = {.low_mark = 40, .high_mark = 100, .cap = 200};
static const struct output_settings endless = {
    .low_mark = 1, .high_mark = SIZE_MAX, .cap = SIZE_MAX};

/* With a file of so many bytes; 0: it needs none. */
static void bench_open(struct bench *bench, struct output_settings settings, size_t length)
{
    bench->file = length > 0 ? shared_file_with(length) : NULL;
    buffer_factory_init(&bench->factory, 16);
    bench->settings = settings;
    bench->settings.buffers = &bench->factory;
    pair_open(bench->ends);
    output_chain_init(&bench->queue, &bench->settings, bench->ends[0]);
}

static void bench_close(struct bench *bench)
{
    if (bench->file != NULL && output_chain_length(&bench->queue) == 0)
        cr_assert_eq(references(bench->file), 1, "it is held, though nothing waits");
    output_chain_close(&bench->queue);
    if (bench->file != NULL) {
        cr_assert_eq(references(bench->file), 1, "it is held behind the close");
        shared_file_release(bench->file);
    }
    cr_assert_eq(buffer_factory_out(&bench->factory), 0);
    buffer_factory_destroy(&bench->factory);
    pair_close(bench->ends);
}

/* A test that has `bench`, whose queue has these settings, with a file of so many bytes. */
#define BenchTest(suite, name, settings, length)                                                   \
    TestWith(suite, name, struct bench, bench, bench_open(bench, settings, length),                \
             bench_close(bench))

static enum output_result enqueue(struct bench *bench, const char *text)
{
    return output_chain_enqueue(&bench->queue, piece_bytes(text, strlen(text)));
}

static enum output_result enqueue_file(struct bench *bench, uint64_t offset, uint64_t length)
{
    return output_chain_enqueue(&bench->queue, piece_file(bench->file, offset, length));
}

/* Drains and reads until nothing waits; how much came. */
static size_t take_all(struct bench *bench)
{
    double end = test_deadline();
    size_t taken = 0;
    enum output_result result;
    do {
        result = output_chain_drain(&bench->queue);
        cr_assert_lt(result, OUTPUT_REFUSED);
        taken += take_now(bench->ends[1], got + taken, ROOM - taken);
        cr_assert_lt(test_now(), end, "%zu bytes still wait", output_chain_length(&bench->queue));
    } while (result != OUTPUT_FLOWING);
    return taken + take_now(bench->ends[1], got + taken, ROOM - taken);
}

/* ---- senders ---- */

static const char *const sender_names[] = {"the system's", "the portable one"};
static const char *its_name;

enum { SENT_FROM = 100000 };

/* A test of each sender, with a file of SENT_FROM bytes and a pair of sockets. */
#define SenderTest(suite, name)                                                                    \
    static void suite##_##name##_of(sender *send, int file, int ends[2]);                          \
    Test(suite, name)                                                                              \
    {                                                                                              \
        fill_data(PATTERN, 7);                                                                     \
        for (int i = 0; i < SENDERS; i++) {                                                        \
            int ends[2], file = file_with(data, SENT_FROM);                                        \
            its_name = sender_names[i];                                                            \
            pair_open(ends);                                                                       \
            suite##_##name##_of(senders[i], file, ends);                                           \
            pair_close(ends);                                                                      \
            close(file);                                                                           \
        }                                                                                          \
    }                                                                                              \
    static void suite##_##name##_of(sender *send, int file, int ends[2])

SenderTest(output_chain_file, a_sender_sends_the_range_and_leaves_the_position_alone)
{
    cr_assert_eq(send(ends[0], file, 1000, 40000), 40000, "%s", its_name);
    cr_assert_eq(take_now(ends[1], got, ROOM), 40000, "%s", its_name);
    cr_assert_eq(memcmp(got, data + 1000, 40000), 0, "%s", its_name);
    cr_assert_eq(lseek(file, 0, SEEK_CUR), 0, "%s", its_name);
}

SenderTest(output_chain_file, a_sender_stops_where_the_socket_is_full_and_goes_on_there)
{
    size_t taken = 0;
    pair_close(ends);
    pair_open_small(ends);
    while (taken < SENT_FROM) {
        ssize_t sent = send(ends[0], file, (off_t)taken, SENT_FROM - taken);
        cr_assert_gt(sent, 0, "%s", its_name);
        if (taken + (size_t)sent < SENT_FROM)
            cr_assert_eq(send(ends[0], file, 0, 1 << 16), 0, "it is full");
        cr_assert_eq(take_now(ends[1], got + taken, ROOM - taken), (size_t)sent, "%s", its_name);
        taken += (size_t)sent;
    }
    cr_assert_eq(memcmp(got, data, SENT_FROM), 0, "%s", its_name);
}

static void expect_error(sender *send, int socket, int file, off_t offset, int expected)
{
    errno = 0;
    cr_assert_eq(send(socket, file, offset, 100), -1, "%s", its_name);
    cr_assert_eq(errno, expected, "%s: %s", its_name, strerror(errno));
}

SenderTest(output_chain_file, a_sender_tells_that_the_file_has_ended)
{
    cr_assert_eq(send(ends[0], file, SENT_FROM - 100, 200), 100, "as far as it goes");
    expect_error(send, ends[0], file, SENT_FROM, ESTALE);
    expect_error(send, ends[0], file, SENT_FROM + 1, ESTALE);
    cr_assert_eq(take_now(ends[1], got, ROOM), 100, "no padding");
}

SenderTest(output_chain_file, a_sender_tells_of_a_dead_peer_and_of_a_file_that_cannot_be_read)
{
    signal(SIGPIPE, SIG_IGN);
    expect_error(send, ends[0], -1, 0, EBADF);
    close(ends[1]);
    expect_error(send, ends[0], file, 0, EPIPE);
    ends[1] = dup(ends[0]);
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

SenderTest(output_chain_file, a_sender_goes_on_after_an_interruption)
{
    stand_in();
    sendfile_stand_in.interruptions = interruptions.of_pread = interruptions.of_write = 100;
    cr_assert_eq(send(ends[0], file, 0, 1000), 1000, "%s", its_name);
    cr_assert_eq(take_now(ends[1], got, ROOM), 1000, "%s", its_name);
    cr_assert_eq(memcmp(got, data, 1000), 0, "%s", its_name);
}

/* ---- the queue: order ---- */

BenchTest(output_chain_file, an_empty_queue_sends_at_once, roomy, 1000)
{
    cr_assert_eq(enqueue_file(bench, 100, 500), OUTPUT_FLOWING);
    cr_assert_eq(take_now(bench->ends[1], got, ROOM), 500, "it is there before any drain");
    cr_assert_eq(memcmp(got, data + 100, 500), 0);
    cr_assert_eq(output_chain_newly_sent(&bench->queue), 500);
}

BenchTest(output_chain_file, nothing_of_a_file_is_nothing, roomy, 10)
{
    cr_assert_eq(enqueue_file(bench, 0, 0), OUTPUT_FLOWING);
    fill_up(bench->ends[0]);
    cr_assert_eq(enqueue(bench, "x"), OUTPUT_WAITING);
    cr_assert_eq(enqueue_file(bench, 0, 0), OUTPUT_WAITING);
    cr_assert_eq(output_chain_length(&bench->queue), 1);
    while (take_now(bench->ends[1], got, ROOM) > 0)
        ;
    cr_assert_eq(output_chain_drain(&bench->queue), OUTPUT_FLOWING);
}

BenchTest(output_chain_file, a_corked_queue_holds_a_file_back, roomy, 1000)
{
    output_chain_cork(&bench->queue);
    enqueue(bench, "head");
    cr_assert_eq(enqueue_file(bench, 0, 1000), OUTPUT_FLOWING);
    enqueue(bench, "tail");
    cr_assert_eq(take_now(bench->ends[1], got, ROOM), 0);
    cr_assert_eq(output_chain_length(&bench->queue), 1008);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(take_now(bench->ends[1], got, ROOM), 1008);
    cr_assert_eq(memcmp(got, "head", 4), 0);
    cr_assert_eq(memcmp(got + 4, data, 1000), 0);
    cr_assert_eq(memcmp(got + 1004, "tail", 4), 0);
}

/* Copies, shared messages and ranges of two files, in any order, through any socket. */
Test(output_chain_file, all_bytes_once_and_in_order_whatever_lies_between_them)
{
    unsigned char *expected = mapped(PATTERN);
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct rng rng = rng_from(seed);
        struct bench bench;
        size_t length = 0;
        bench_open(&bench, roomy, 100000);
        if (seed % 2 == 0) { /* takes a few kilobytes at a time */
            pair_close(bench.ends);
            pair_open_small(bench.ends);
            bench.queue.fd = bench.ends[0];
        }
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
                enqueue_file(&bench, offset, count);
            }
            memcpy(expected + length, data + offset, count);
            length += count;
        }
        size_t came = take_all(&bench);
        cr_assert_eq(came, length, "seed %d: %zu bytes, not %zu", (int)seed, came, length);
        cr_assert_eq(memcmp(got, expected, length), 0, "seed %d", (int)seed);
        cr_assert_eq(output_chain_newly_sent(&bench.queue), length, "seed %d", (int)seed);
        shared_message_release(message);
        bench_close(&bench);
    }
}

Test(output_chain_file, one_file_in_two_queues_has_a_position_in_each)
{
    enum { FILE_SIZE = 600000 };
    struct bench one;
    struct bench other;
    bench_open(&one, roomy, FILE_SIZE);
    bench_open(&other, roomy, 0);
    other.file = one.file;
    cr_assert_eq(enqueue_file(&one, 0, FILE_SIZE), OUTPUT_WAITING, "more than fits");
    cr_assert_eq(enqueue_file(&other, 1, FILE_SIZE - 1), OUTPUT_WAITING);
    cr_assert_eq(references(one.file), 3);
    cr_assert_eq(take_all(&other), FILE_SIZE - 1);
    cr_assert_eq(memcmp(got, data + 1, FILE_SIZE - 1), 0);
    cr_assert_eq(take_all(&one), FILE_SIZE);
    cr_assert_eq(memcmp(got, data, FILE_SIZE), 0);
    other.file = NULL;
    bench_close(&other);
    bench_close(&one);
}

/* ---- limits ---- */

BenchTest(output_chain_file, the_bytes_of_a_file_count_against_the_marks_and_the_cap, tight, 500)
{
    output_chain_cork(&bench->queue);
    cr_assert_eq(enqueue_file(bench, 0, 100), OUTPUT_FLOWING, "corked, at the high mark");
    cr_assert_eq(enqueue_file(bench, 0, 1), OUTPUT_CHOKED, "above it");
    cr_assert_eq(enqueue_file(bench, 0, 100), OUTPUT_CHOKED);
    cr_assert_eq(output_chain_length(&bench->queue), 201);
    cr_assert_eq(enqueue_file(bench, 0, 1), OUTPUT_REFUSED, "above the cap");
    cr_assert_eq(enqueue(bench, "x"), OUTPUT_REFUSED);
    cr_assert_eq(references(bench->file), 4);
    cr_assert_eq(output_chain_length(&bench->queue), 201);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(take_now(bench->ends[1], got, ROOM), 201);
}

BenchTest(output_chain_file, a_range_is_accepted_whole_however_long_it_is, tight, (size_t)1 << 40)
{
    size_t huge = (size_t)1 << 40;
    cr_assert_eq(enqueue_file(bench, 0, huge), OUTPUT_CHOKED);
    size_t sent = (size_t)output_chain_newly_sent(&bench->queue);
    cr_assert_gt(sent, 0);
    cr_assert_lt(sent, OUTPUT_FILE_BATCH);
    cr_assert_eq(output_chain_length(&bench->queue), huge - sent);
    cr_assert_eq(output_chain_look(&bench->queue), OUTPUT_CHOKED);
    cr_assert_eq(enqueue(bench, "x"), OUTPUT_REFUSED);
    cr_assert_eq(buffer_factory_out(&bench->factory), 0, "it takes no memory");
}

Test(output_chain_file, what_cannot_be_counted_breaks_the_queue)
{
    static const size_t ranges[][2] = {
        {SIZE_MAX, 1}, {1, SIZE_MAX}, {SIZE_MAX - 10, 11}, {SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 1}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        struct bench bench;
        bench_open(&bench, endless, 10);
        cr_assert_eq(enqueue_file(&bench, ranges[i][0], ranges[i][1]), OUTPUT_BROKEN, "%zu", i);
        cr_assert_eq(errno, EOVERFLOW, "%zu: %s", i, strerror(errno));
        bench_close(&bench);
    }
}

BenchTest(output_chain_file, a_sum_that_cannot_be_counted_breaks_the_queue, endless, 10)
{
    output_chain_cork(&bench->queue);
    cr_assert_eq(enqueue_file(bench, 0, SIZE_MAX - 10), OUTPUT_FLOWING);
    cr_assert_eq(enqueue_file(bench, 0, 10), OUTPUT_FLOWING);
    cr_assert_eq(output_chain_length(&bench->queue), SIZE_MAX);
    cr_assert_eq(enqueue_file(bench, 0, 1), OUTPUT_BROKEN);
    cr_assert_eq(output_chain_length(&bench->queue), 0);
}

/* ---- bounds of one call ---- */

BenchTest(output_chain_file, one_call_sends_a_bounded_part_of_a_file, roomy,
          (size_t)5 * OUTPUT_FILE_BATCH + 7)
{
    enum { PARTS = 5 };
    const size_t batch = OUTPUT_FILE_BATCH;
    if (!stand_in())
        cr_skip_test("files are sent in another way here");
    sendfile_stand_in.pretends = true;
    cr_assert_eq(enqueue_file(bench, 0, PARTS * batch + 7), OUTPUT_CHOKED);
    cr_assert_eq(sendfile_stand_in.taken, batch);
    for (size_t part = 2; part <= PARTS; part++) {
        enum output_result result = output_chain_drain(&bench->queue);
        cr_assert(result == OUTPUT_WAITING || result == OUTPUT_CHOKED, "part %zu", part);
        cr_assert_eq(sendfile_stand_in.taken, part * batch, "part %zu", part);
    }
    cr_assert_eq(output_chain_drain(&bench->queue), OUTPUT_FLOWING);
    cr_assert_eq(sendfile_stand_in.taken, PARTS * batch + 7);
    cr_assert_eq(sendfile_stand_in.calls, PARTS + 1);
}

/* The bound is on the call, not on each file in it. */
BenchTest(output_chain_file, one_call_sends_a_bounded_part_of_many_files, roomy, OUTPUT_FILE_BATCH)
{
    const size_t batch = OUTPUT_FILE_BATCH;
    if (!stand_in())
        cr_skip_test("files are sent in another way here");
    sendfile_stand_in.pretends = true;
    output_chain_cork(&bench->queue);
    for (int i = 0; i < 4; i++)
        enqueue_file(bench, 0, batch / 4 * 3);
    cr_assert_eq(output_chain_uncork(&bench->queue), OUTPUT_WAITING);
    cr_assert_eq(sendfile_stand_in.taken, batch);
}

/* A rate leaves a few bytes more each microsecond; they are not sent one by one. */
BenchTest(output_chain_file, a_rate_is_used_up_by_one_call, endless, (size_t)1 << 30)
{
    enum { RATE = 50000000, MOMENTS = 10 };
    const struct timespec moment = {.tv_nsec = 20000000};
    if (!stand_in())
        cr_skip_test("files are sent in another way here");
    sendfile_stand_in.pretends = true;
    output_chain_set_rate(&bench->queue, RATE);
    cr_assert_eq(enqueue_file(bench, 0, (size_t)1 << 30), OUTPUT_WAITING);
    for (int i = 0; i < MOMENTS; i++) {
        nanosleep(&moment, NULL);
        int calls = sendfile_stand_in.calls;
        cr_assert_eq(output_chain_drain(&bench->queue), OUTPUT_WAITING);
        cr_assert_leq(sendfile_stand_in.calls - calls, 1, "%d calls",
                      sendfile_stand_in.calls - calls);
    }
    cr_assert_gt(sendfile_stand_in.taken, 0);
}

/* ---- what goes wrong ---- */

/* The peer was promised more bytes than there are: no padding, no endless loop. */
BenchTest(output_chain_file, a_file_that_becomes_shorter_breaks_the_queue, roomy, PATTERN)
{
    enum { REST = 700000 };
    cr_assert_eq(enqueue_file(bench, 0, PATTERN), OUTPUT_WAITING);
    enqueue(bench, "never");
    cr_assert_lt(output_chain_newly_sent(&bench->queue), REST);
    cr_assert_eq(ftruncate(bench->file->fd, REST), 0);
    double end = test_deadline();
    size_t taken = 0;
    enum output_result result;
    do {
        taken += take_now(bench->ends[1], got + taken, ROOM - taken);
        result = output_chain_drain(&bench->queue);
    } while (result == OUTPUT_WAITING && test_now() < end);
    int error = errno;
    taken += take_now(bench->ends[1], got + taken, ROOM - taken);
    cr_assert_eq(result, OUTPUT_BROKEN);
    cr_assert_eq(error, ESTALE, "%s", strerror(error));
    cr_assert_eq(taken, REST);
    cr_assert_eq(memcmp(got, data, REST), 0);
    cr_assert_eq(enqueue(bench, "x"), OUTPUT_BROKEN);
    cr_assert_eq(enqueue_file(bench, 0, 1), OUTPUT_BROKEN);
}

BenchTest(output_chain_file, a_file_that_cannot_be_read_breaks_the_queue, roomy, 1000)
{
    if (!stand_in())
        cr_skip_test("files are sent in another way here");
    sendfile_stand_in.error = EIO;
    cr_assert_eq(enqueue_file(bench, 0, 1000), OUTPUT_BROKEN);
    cr_assert_eq(errno, EIO);
}

BenchTest(output_chain_file, a_dead_peer_breaks_the_queue, roomy, 1000)
{
    signal(SIGPIPE, SIG_IGN);
    close(bench->ends[1]);
    cr_assert_eq(enqueue_file(bench, 0, 1000), OUTPUT_BROKEN);
    cr_assert_eq(errno, EPIPE);
    bench->ends[1] = dup(bench->ends[0]);
}

Test(output_chain_file, the_last_one_to_let_go_closes_the_file)
{
    struct bench closed;
    struct bench destroyed;
    bench_open(&closed, roomy, PATTERN);
    bench_open(&destroyed, roomy, 0);
    int fd = closed.file->fd;
    enqueue_file(&closed, 0, PATTERN);
    destroyed.file = closed.file;
    enqueue_file(&destroyed, 0, PATTERN);
    destroyed.file = NULL;
    shared_file_release(closed.file);
    closed.file = NULL;
    cr_assert_neq(fcntl(fd, F_GETFD), -1, "two queues still hold it");
    output_chain_close(&closed.queue);
    cr_assert_neq(fcntl(fd, F_GETFD), -1, "one queue still holds it");
    bench_close(&destroyed);
    cr_assert_eq(fcntl(fd, F_GETFD), -1, "nobody holds it");
    bench_close(&closed);
}

BenchTest(output_chain_file, without_memory_for_a_link_the_queue_breaks, roomy, 1000)
{
    if (!memory_can_run_out())
        cr_skip_test("the memory is not ours to take here");
    memory_take_all();
    enum output_result result = enqueue_file(bench, 0, 1000);
    int error = errno;
    struct shared_file *none = shared_file_create(0);
    memory_give_back();
    cr_assert_eq(result, OUTPUT_BROKEN);
    cr_assert_eq(error, ENOMEM, "%s", strerror(error));
    cr_assert_null(none);
    cr_assert_neq(fcntl(0, F_GETFD), -1, "the descriptor is the caller's still");
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

/* As the file of a bench; the test gives its own reference to that. */
static void open_changed(struct bench *bench, struct changed_file *file)
{
    fill_data(CHANGED, 3);
    *file = (struct changed_file){.data = data, .length = CHANGED, .most = SIZE_MAX};
    shared_file_init(&file->file, &changed_verbs);
    destroyed = 0;
    bench_open(bench, roomy, 0);
    bench->file = &file->file;
}

static void close_changed(struct bench *bench)
{
    bench_close(bench);
    cr_assert_eq(destroyed, 1);
}

/* In its place between other output, in pieces as the socket and the reads have them. */
static void send_changed(size_t most)
{
    struct bench bench;
    struct changed_file file;
    open_changed(&bench, &file);
    file.most = most;
    enqueue(&bench, "before");
    enqueue_file(&bench, 1, CHANGED - 1);
    enqueue(&bench, "after");
    size_t taken = take_all(&bench);
    cr_assert_eq(taken, 6 + CHANGED - 1 + 5);
    cr_assert_arr_eq(got, "before", 6);
    cr_assert_arr_eq(got + taken - 5, "after", 5);
    for (size_t i = 1; i < CHANGED; i++)
        cr_assert_eq(got[6 + i - 1], data[i] ^ 0x20, "byte %zu", i);
    close_changed(&bench);
}

Test(output_chain_file, what_is_read_and_changed_leaves_in_its_place)
{
    send_changed(SIZE_MAX);
    send_changed(777); /* reads may be short */
}

Test(output_chain_file, one_that_cannot_be_read_breaks_the_chain)
{
    static const int errors[] = {EIO, ESTALE}; /* the second one is asked for more than there is */
    for (int i = 0; i < 2; i++) {
        struct bench bench;
        struct changed_file file;
        open_changed(&bench, &file);
        file.error = i == 0 ? EIO : 0;
        cr_assert_eq(enqueue_file(&bench, i == 0 ? 0 : CHANGED, 1), OUTPUT_BROKEN);
        cr_assert_eq(errno, errors[i]);
        close_changed(&bench);
    }
}
