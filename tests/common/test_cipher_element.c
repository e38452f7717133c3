/*
 * The element that encrypts (common/apps/cipher/cipher_element.c) in front of a fake channel, where
 * what it needs can fail: random bytes, memory, and the stream itself, which has an end. What it
 * does when all is well, tests/stage5/cipher.c shows.
 */
#include "common/apps/cipher/cipher_key.h"
#include "common/bytes/input_queue_more.h"
#include "common/bytes/line_framing.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(cipher_element, .timeout = 120);

/* ---- the element's source, with calls that can fail ---- */

#include "common/apps/cipher/cipher_element.h"
#include "common/apps/cipher/cipher_nonce.h"
#include "common/bytes/shared_file.h"
#include "common/bytes/shared_message.h"

static bool out_of_memory;
static bool out_of_randomness;

static void *failing_malloc(size_t size)
{
    return out_of_memory ? NULL : malloc(size);
}

static struct shared_message *failing_create(size_t length)
{
    return out_of_memory ? NULL : shared_message_create(length);
}

static bool failing_append(struct input_queue *queue, const unsigned char *bytes, size_t length)
{
    return !out_of_memory && input_queue_append(queue, bytes, length);
}

static bool failing_make(struct cipher_nonce *nonce, bool of_server)
{
    return !out_of_randomness && cipher_nonce_make(nonce, of_server);
}

#define cipher_element_over   tested_element_over
#define malloc                failing_malloc
#define shared_message_create failing_create
#define input_queue_append    failing_append
#define cipher_nonce_make     failing_make
struct input_handler_factory *tested_element_over(struct cipher_element_factory *factory,
                                                  struct input_handler_factory *inner,
                                                  const struct cipher_choice *choice,
                                                  const struct log *log);
#include "common/apps/cipher/cipher_element.c"
#undef cipher_element_over
#undef malloc
#undef shared_message_create
#undef input_queue_append
#undef cipher_nonce_make

/* ---- a channel, and an application that echoes lines ---- */

static const struct log quiet = {.program = "test", .level = LOG_LEVEL_ERROR};

struct bench {
    struct channel_facade channel; /* first */
    struct buffer_factory buffers;
    struct input_queue input;
    unsigned char sent[100000];
    size_t length;
    int closes;
    struct cipher_choice choice;
    struct cipher_element_factory factory;
    struct input_handler_factory inner_factory;
    struct input_handler inner;
    struct cipher_element *element;
    alignas(max_align_t) unsigned char memory[4096];
    struct channel_facade *facade; /* the application's */
    int refused;
    struct chacha20 out; /* the peer's */
    uint64_t position;
};

static struct bench bench;

static struct input_queue *channel_queue(struct channel_facade *facade)
{
    (void)facade;
    return &bench.input;
}

static void keep(const void *bytes, size_t length)
{
    cr_assert_leq(bench.length + length, sizeof bench.sent);
    memcpy(bench.sent + bench.length, bytes, length);
    bench.length += length;
}

static enum output_result keep_piece(struct channel_facade *facade, struct piece piece)
{
    static unsigned char bytes[50000];
    (void)facade;
    if (piece.kind == PIECE_FILE) {
        ssize_t got = shared_file_read(piece.range.file, bytes, (size_t)piece.range.length,
                                       piece.range.offset);
        cr_assert_eq(got, (ssize_t)piece.range.length);
        keep(bytes, (size_t)got);
    } else {
        keep(piece.bytes.data, piece.bytes.length);
    }
    return OUTPUT_FLOWING;
}

static void count_close(struct channel_facade *facade)
{
    (void)facade;
    bench.closes++;
}

static const struct channel_facade_verbs channel_verbs = {
    .input = channel_queue, .enqueue = keep_piece, .close = count_close};

static void note_starting(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    bench.facade = facade;
}

static enum framing_result next_line(struct input_handler *self, struct channel_facade *facade,
                                     struct message *message)
{
    (void)self;
    return line_framing_next(channel_input(facade), 100, message);
}

static bool is_about_help(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    return line_framing_begins_with(channel_input(facade), "help");
}

static bool echo(struct input_handler *self, struct message message, struct channel_facade *facade)
{
    (void)self;
    channel_enqueue(facade, piece_copy(message));
    return true;
}

static void count_refused(struct input_handler *self, struct message message,
                          struct channel_facade *facade)
{
    (void)self;
    (void)message;
    (void)facade;
    bench.refused++;
}

static struct input_handler_verbs inner_verbs = {.next_message = next_line,
                                                 .is_urgent = is_about_help,
                                                 .handle_input = echo,
                                                 .refuse_input = count_refused,
                                                 .starting = note_starting};

static struct input_handler *create_inner(struct input_handler_factory *factory, void *memory)
{
    (void)factory;
    (void)memory;
    bench.inner.verbs = input_handler_complete(&inner_verbs);
    return out_of_memory ? NULL : &bench.inner;
}

static struct input_handler *handler(void)
{
    return &bench.element->element.handler;
}

/* An element whose channel has begun. */
static void bench_open(void)
{
    bench = (struct bench){.channel.verbs = &channel_verbs};
    bench.choice.clients = "a file";
    memset(bench.choice.clients_key, 7, sizeof bench.choice.clients_key);
    buffer_factory_init(&bench.buffers, 4);
    input_queue_init(&bench.input, &bench.buffers, 102);
    bench.inner_factory.create = create_inner;
    struct input_handler_factory *factory =
        tested_element_over(&bench.factory, &bench.inner_factory, &bench.choice, &quiet);
    cr_assert_leq(factory->handler_size, sizeof bench.memory);
    bench.element = (struct cipher_element *)factory->create(factory, bench.memory);
    input_handler_starting(handler(), &bench.channel);
}

static void bench_close(void)
{
    input_handler_stopping(handler(), &bench.channel);
    input_queue_clear(&bench.input);
    cr_assert_eq(buffer_factory_out(&bench.buffers), 0);
    buffer_factory_destroy(&bench.buffers);
}

/* The peer's line, and text, arrive. */
static void greet(void)
{
    struct cipher_nonce nonce;
    char line[CIPHER_LINE_SIZE];
    cr_assert(cipher_nonce_make(&nonce, false));
    cipher_nonce_write(&nonce, line);
    chacha20_init(&bench.out, bench.choice.clients_key, nonce.bytes);
    cr_assert(input_queue_append(&bench.input, (unsigned char *)line, sizeof line));
}

static void say(const char *text)
{
    unsigned char bytes[100];
    size_t length = strlen(text);
    chacha20_xor(&bench.out, bench.position, bytes, (const unsigned char *)text, length);
    bench.position += length;
    cr_assert(input_queue_append(&bench.input, bytes, length));
}

/* Whether the clear text of what was sent, behind the line, ends with this. */
static bool has_sent(const char *text)
{
    struct cipher_nonce nonce = {.of_server = true};
    struct chacha20 in;
    size_t length = strlen(text);
    cr_assert_eq(cipher_nonce_take(&nonce, bench.sent, CIPHER_LINE_SIZE), CIPHER_NONCE_DONE);
    chacha20_init(&in, bench.choice.clients_key, nonce.bytes);
    chacha20_xor(&in, 0, bench.sent + CIPHER_LINE_SIZE, bench.sent + CIPHER_LINE_SIZE,
                 bench.length - CIPHER_LINE_SIZE);
    return bench.length >= CIPHER_LINE_SIZE + length &&
           memcmp(bench.sent + bench.length - length, text, length) == 0;
}

/* ---- tests ---- */

Test(cipher_element, is_asked_for_what_comes_before_the_framework_takes_it)
{
    struct message message;
    bench_open();
    cr_assert(input_handler_holds_input(handler()), "the time of a nonce does not run");
    cr_assert_not(input_handler_is_urgent(handler(), &bench.channel));
    greet();
    say("help me\nmore\n");
    cr_assert(input_handler_is_urgent(handler(), &bench.channel));
    cr_assert_eq(input_handler_next_message(handler(), &bench.channel, &message), FRAMING_MESSAGE);
    cr_assert(input_handler_holds_input(handler()));
    cr_assert_not(input_handler_is_urgent(handler(), &bench.channel));
    cr_assert_eq(input_handler_next_message(handler(), &bench.channel, &message), FRAMING_MESSAGE);
    input_handler_refuse_input(handler(), message, &bench.channel);
    cr_assert_eq(bench.refused, 1);
    cr_assert_not(input_handler_holds_input(handler()));
    cr_assert_eq(buffer_factory_out(&bench.buffers), 0, "an idle connection holds memory");
    bench_close();
}

Test(cipher_element, nothing_is_sent_without_random_bytes)
{
    out_of_randomness = true;
    bench_open();
    cr_assert_eq(bench.closes, 1);
    cr_assert_eq(channel_enqueue(bench.facade, piece_bytes("secret", 6)), OUTPUT_BROKEN);
    cr_assert_eq(bench.length, 0);
    bench_close();
}

Test(cipher_element, no_memory_for_its_handler)
{
    bench_open();
    out_of_memory = true;
    cr_assert_null(bench.factory.factory.create(&bench.factory.factory, bench.memory + 2048));
    bench_close();
}

/* Whatever is sent afterwards would be noise to the peer, so nothing is. */
Test(cipher_element, no_memory_for_a_long_piece)
{
    static unsigned char piece[20000];
    bench_open();
    cr_assert_eq(channel_enqueue(bench.facade, piece_bytes(piece, sizeof piece)), OUTPUT_FLOWING);
    cr_assert_eq(bench.length, CIPHER_LINE_SIZE + sizeof piece);
    out_of_memory = true;
    cr_assert_eq(channel_enqueue(bench.facade, piece_bytes(piece, sizeof piece)), OUTPUT_BROKEN);
    cr_assert_geq(bench.closes, 1);
    out_of_memory = false;
    cr_assert_eq(channel_enqueue(bench.facade, piece_bytes("short", 5)), OUTPUT_BROKEN);
    cr_assert_eq(bench.length, CIPHER_LINE_SIZE + sizeof piece);
    bench_close();
}

Test(cipher_element, no_memory_for_a_file)
{
    bench_open();
    int fd = memfd_create("test", MFD_CLOEXEC);
    cr_assert_eq(write(fd, "in a file", 9), 9);
    struct shared_file *file = shared_file_create(fd);
    cr_assert_eq(channel_enqueue(bench.facade, piece_file(file, 3, 6)), OUTPUT_FLOWING);
    cr_assert(has_sent("a file"));
    out_of_memory = true;
    cr_assert_eq(channel_enqueue(bench.facade, piece_file(file, 3, 6)), OUTPUT_BROKEN);
    cr_assert_eq(bench.closes, 1);
    cr_assert_eq(atomic_load(&file->references), 1);
    shared_file_release(file);
    bench_close();
}

Test(cipher_element, no_memory_for_what_has_come)
{
    struct message message;
    bench_open();
    greet();
    say("hello\n");
    out_of_memory = true;
    cr_assert_eq(input_handler_next_message(handler(), &bench.channel, &message),
                 FRAMING_NO_MEMORY);
    out_of_memory = false;
    cr_assert_eq(input_handler_next_message(handler(), &bench.channel, &message), FRAMING_MESSAGE);
    input_handler_handle_input(handler(), message, &bench.channel);
    cr_assert(has_sent("hello\n"), "a byte was lost");
    bench_close();
}

/* A stream has an end, and must not begin anew. */
Test(cipher_element, the_last_byte_of_a_stream)
{
    struct message message;
    bench_open();
    bench.element->sent = CHACHA20_LENGTH - 8;
    cr_assert_eq(channel_enqueue(bench.facade, piece_bytes("last one", 8)), OUTPUT_FLOWING);
    cr_assert_eq(channel_enqueue(bench.facade, piece_bytes("", 0)), OUTPUT_FLOWING);
    cr_assert_eq(bench.closes, 0);
    cr_assert_eq(channel_enqueue(bench.facade, piece_bytes("!", 1)), OUTPUT_BROKEN);
    cr_assert_eq(bench.closes, 1);
    greet();
    say("x");
    cr_assert_eq(input_handler_next_message(handler(), &bench.channel, &message),
                 FRAMING_INCOMPLETE);
    bench.element->received = CHACHA20_LENGTH;
    say("y");
    cr_assert_eq(input_handler_next_message(handler(), &bench.channel, &message),
                 FRAMING_NO_MEMORY);
    bench_close();
}

/* As much as there is room for, and the rest when there is room again. */
Test(cipher_element, what_has_come_waits_where_it_has_a_limit)
{
    struct message message;
    bench_open();
    greet();
    input_handler_next_message(handler(), &bench.channel, &message);
    for (int i = 0; i < 4; i++) {
        say("forty bytes of text, and one for its end\n");
        if (i % 2 == 1)
            cr_assert_eq(input_handler_next_message(handler(), &bench.channel, &message),
                         FRAMING_MESSAGE);
    }
    cr_assert_eq(input_queue_length(&bench.input), 21);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(input_handler_next_message(handler(), &bench.channel, &message),
                     FRAMING_MESSAGE);
    cr_assert_eq(message.length, 41);
    cr_assert_eq(input_handler_next_message(handler(), &bench.channel, &message),
                 FRAMING_INCOMPLETE);
    bench_close();
}
