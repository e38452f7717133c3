/*
 * Line framing: what a line is, what is too long, and that the answer depends on the bytes alone.
 *
 * The last is tested against a slow, obvious reference: short texts in every possible way of
 * cutting them, long ones in many random ways.
 */
#include "common/bytes/input_queue_more.h"
#include "common/bytes/line_framing.h"
#include "helpers.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

TestSuite(line_framing, .timeout = 120);

enum {
    MOST_LINES = 512,
};

/* What is expected of a text: where its lines end, and what comes of the rest. */
struct answer {
    size_t ends[MOST_LINES];
    size_t count;
    enum framing_result rest;
};

/* The bytes of a line before its LF or CR LF. A CR at the end of a line without LF may be half of
 * one. */
static size_t text_before(const unsigned char *line, size_t length)
{
    return length > 0 && line[length - 1] == '\r' ? length - 1 : length;
}

static struct answer reference(const unsigned char *text, size_t length, size_t max_line)
{
    struct answer answer = {.count = 0};
    size_t start = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '\n')
            continue;
        if (text_before(text + start, i - start) > max_line)
            break;
        start = answer.ends[answer.count++] = i + 1;
    }
    size_t end = start;
    while (end < length && text[end] != '\n')
        end++;
    bool too_long = text_before(text + start, end - start) > max_line;
    answer.rest = too_long ? FRAMING_TOO_LONG : FRAMING_INCOMPLETE;
    return answer;
}

/* A connection whose bytes are framed as they come. */
struct bench {
    struct buffer_factory factory;
    struct input_queue input;
    size_t max_line;
    int ends[2];
    const unsigned char *text;
    size_t taken; /* bytes in the lines taken out so far */
    struct answer answer;
    char what[200]; /* for messages */
};

static void bench_open(struct bench *bench, size_t max_line)
{
    buffer_factory_init(&bench->factory, 64);
    pair_open(bench->ends);
    input_queue_init(&bench->input, &bench->factory, line_framing_input_limit(max_line));
    bench->max_line = max_line;
}

static void bench_close(struct bench *bench)
{
    input_queue_clear(&bench->input);
    buffer_factory_destroy(&bench->factory);
    pair_close(bench->ends);
}

/* A test that has `bench`, whose lines have at most so many bytes. */
#define BenchTest(suite, name, max_line)                                                           \
    TestWith(suite, name, struct bench, bench, bench_open(bench, max_line), bench_close(bench))

static void bench_restart(struct bench *bench, const unsigned char *text)
{
    char rest[4096];
    while (take_now(bench->ends[1], rest, sizeof(rest)) > 0) {
    }
    input_queue_clear(&bench->input);
    bench->text = text;
    bench->taken = 0;
    bench->answer.count = 0;
    bench->answer.rest = FRAMING_INCOMPLETE;
}

/* What is no whole line has to be left where it is. */
static enum framing_result next_line(struct bench *bench, struct message *line)
{
    size_t before = input_queue_length(&bench->input);
    enum framing_result result = line_framing_next(&bench->input, bench->max_line, line);
    if (result != FRAMING_MESSAGE)
        cr_assert_eq(input_queue_length(&bench->input), before, "%s", bench->what);
    return result;
}

/* Takes out all whole lines there are. That the next one is too long is said as often as one asks.
 */
static void frame(struct bench *bench)
{
    struct message line;
    while ((bench->answer.rest = next_line(bench, &line)) == FRAMING_MESSAGE) {
        cr_assert_eq(memcmp(line.data, bench->text + bench->taken, line.length), 0, "%s",
                     bench->what);
        bench->taken += line.length;
        bench->answer.ends[bench->answer.count++] = bench->taken;
    }
    cr_assert_eq(next_line(bench, &line), bench->answer.rest, "%s", bench->what);
}

/* Lets a piece come in. However full the queue is, framing gets it going again or refuses. */
static void receive_piece(struct bench *bench, const unsigned char *piece, size_t length)
{
    put(bench->ends[0], piece, length);
    while (length > 0 && bench->answer.rest != FRAMING_TOO_LONG) {
        ssize_t received = input_queue_fill(&bench->input, bench->ends[1]);
        cr_assert_gt(received, 0, "stuck at %zu bytes, %s: %s", input_queue_length(&bench->input),
                     strerror(errno), bench->what);
        length -= (size_t)received;
        frame(bench);
    }
}

static void assert_answer(const struct bench *bench, const struct answer *expected)
{
    cr_assert_eq(bench->answer.count, expected->count, "%zu lines, not %zu: %s",
                 bench->answer.count, expected->count, bench->what);
    for (size_t i = 0; i < expected->count; i++)
        cr_assert_eq(bench->answer.ends[i], expected->ends[i], "line %zu ends at %zu, not %zu: %s",
                     i, bench->answer.ends[i], expected->ends[i], bench->what);
    cr_assert_eq(bench->answer.rest, expected->rest, "%d, not %d: %s", (int)bench->answer.rest,
                 (int)expected->rest, bench->what);
}

/* The text as it would be written in C, for messages. */
static void quote(const unsigned char *text, size_t length, char *quoted, size_t size)
{
    size_t used = 0;
    quoted[0] = '\0';
    for (size_t i = 0; i < length && used + 5 < size; i++) {
        const char *shown = text[i] == '\n' ? "\\n" : text[i] == '\r' ? "\\r" : NULL;
        if (shown != NULL)
            used += (size_t)snprintf(quoted + used, size - used, "%s", shown);
        else
            used +=
                (size_t)snprintf(quoted + used, size - used, text[i] == 0 ? "\\0" : "%c", text[i]);
    }
}

/* Bit i of cuts: a piece ends after byte i. */
static void receive_cut(struct bench *bench, const unsigned char *text, size_t length,
                        unsigned cuts)
{
    size_t start = 0;
    bench_restart(bench, text);
    for (size_t i = 0; i < length; i++) {
        if (i + 1 == length || (cuts >> i & 1) != 0) {
            receive_piece(bench, text + start, i + 1 - start);
            start = i + 1;
        }
    }
}

/* Every text over the alphabet's letters that the number stands for. */
static void spell(unsigned number, const char *letters, size_t count, unsigned char *text,
                  size_t length)
{
    for (size_t i = 0; i < length; i++) {
        text[i] = (unsigned char)letters[number % count];
        number /= (unsigned)count;
    }
}

static void try_every_cut(struct bench *bench, const unsigned char *text, size_t length)
{
    char quoted[64];
    struct answer expected = reference(text, length, bench->max_line);
    quote(text, length, quoted, sizeof(quoted));
    for (unsigned cuts = 0; cuts < 1u << (length - 1); cuts++) {
        snprintf(bench->what, sizeof(bench->what), "\"%s\", at most %zu, cuts %#x", quoted,
                 bench->max_line, cuts);
        receive_cut(bench, text, length, cuts);
        assert_answer(bench, &expected);
    }
}

/* A line that leaves its line feed in the queue is followed by empty ones without end. */
Test(line_framing, erratum_21_a_line_takes_its_line_feed_along)
{
    static const char text[] = "hello\nworld\n";
    struct bench bench = {.what = "erratum 21"};
    struct message line;
    bench_open(&bench, 100);
    put(bench.ends[0], text, sizeof(text) - 1);
    cr_assert_gt(input_queue_fill(&bench.input, bench.ends[1]), 0);
    cr_assert_eq(next_line(&bench, &line), FRAMING_MESSAGE);
    cr_assert_arr_eq(line.data, "hello\n", line.length);
    cr_assert_eq(next_line(&bench, &line), FRAMING_MESSAGE);
    cr_assert_arr_eq(line.data, "world\n", line.length);
    cr_assert_eq(next_line(&bench, &line), FRAMING_INCOMPLETE);
    cr_assert(input_queue_is_empty(&bench.input));
    bench_close(&bench);
}

/* All texts of up to five bytes out of a letter, CR and LF, cut in all ways. */
Test(line_framing, every_short_text_in_every_way_of_cutting_it)
{
    unsigned char text[5];
    for (size_t max_line = 1; max_line <= 3; max_line++) {
        struct bench bench;
        bench_open(&bench, max_line);
        for (size_t length = 1; length <= sizeof(text); length++) {
            unsigned texts = 1;
            for (size_t i = 0; i < length; i++)
                texts *= 3;
            for (unsigned number = 0; number < texts; number++) {
                spell(number, "a\r\n", 3, text, length);
                try_every_cut(&bench, text, length);
            }
        }
        bench_close(&bench);
    }
}

BenchTest(line_framing, chosen_texts_in_every_way_of_cutting_them, 4)
{
    static const char *const texts[] = {
        "\r\nhello\n", "a\r\rb\r\n", "abcd\r\nxy",  "\n\n\r\n\r\n\n", "abcde\r\n",
        "abcd\rX\n",   "abcd\r\r\n", "\rabcd\r\nx", "abc\n\rabc\n",   "a\nbb\nabcdefg"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        try_every_cut(bench, (const unsigned char *)texts[i], strlen(texts[i]));
    try_every_cut(bench, (const unsigned char *)"\0\n\0\0\r\n\0\n", 8);
}

/* Many lines of lengths around the limit, cut into random pieces. */
static void try_random(struct bench *bench, uint64_t seed)
{
    static unsigned char text[200000];
    struct rng rng = rng_from(seed);
    size_t length = 0;
    size_t lines = rng_between(&rng, 1, 30);
    for (size_t i = 0; i < lines; i++) {
        size_t most = bench->max_line + (rng_below(&rng, 20) == 0);
        size_t letters =
            rng_below(&rng, 2) == 0 ? most - rng_below(&rng, 3) % most : rng_below(&rng, most + 1);
        for (size_t k = 0; k < letters; k++)
            text[length++] = (unsigned char)"abc\0\r"[rng_below(&rng, 5)];
        if (rng_below(&rng, 2) == 0)
            text[length++] = '\r';
        text[length++] = '\n';
    }
    length -= rng_below(&rng, 3); /* the last line may have lost its end */
    struct answer expected = reference(text, length, bench->max_line);
    for (int way = 0; way < 4; way++) {
        static const size_t sizes[] = {1000000, 5000, 100, 7};
        snprintf(bench->what, sizeof(bench->what), "seed %llu, way %d, at most %zu",
                 (unsigned long long)seed, way, bench->max_line);
        bench_restart(bench, text);
        for (size_t at = 0; at < length;) {
            size_t piece = rng_between(&rng, 1, sizes[way]);
            piece = piece < length - at ? piece : length - at;
            receive_piece(bench, text + at, piece);
            at += piece;
            if (bench->answer.rest == FRAMING_TOO_LONG)
                break;
        }
        assert_answer(bench, &expected);
    }
}

static void try_many_random(size_t max_line, uint64_t seeds)
{
    struct bench bench;
    bench_open(&bench, max_line);
    for (uint64_t seed = 1; seed <= seeds; seed++)
        try_random(&bench, seed * 1000 + max_line);
    bench_close(&bench);
}

Test(line_framing, random_lines_in_random_pieces)
{
    try_many_random(1, 30);
    try_many_random(10, 30);
    try_many_random(100, 20);
}

Test(line_framing, random_lines_across_segment_borders)
{
    try_many_random(SEGMENT_SIZE - 2, 4);
    try_many_random(SEGMENT_SIZE - 1, 4);
    try_many_random(SEGMENT_SIZE, 4);
    try_many_random(SEGMENT_SIZE + 1, 4);
}

/* ---- one by one ---- */

static void receive_text(struct bench *bench, const char *text)
{
    snprintf(bench->what, sizeof(bench->what), "%.100s", text);
    bench_restart(bench, (const unsigned char *)text);
    receive_piece(bench, (const unsigned char *)text, strlen(text));
}

BenchTest(line_framing, a_line_keeps_its_end, 100)
{
    struct message line;
    put(bench->ends[0], "one\ntwo\r\n\n", 10);
    cr_assert_eq(input_queue_fill(&bench->input, bench->ends[1]), 10);
    cr_assert_eq(line_framing_next(&bench->input, 100, &line), FRAMING_MESSAGE);
    cr_assert(line.length == 4 && memcmp(line.data, "one\n", 4) == 0);
    cr_assert_eq(line_framing_next(&bench->input, 100, &line), FRAMING_MESSAGE);
    cr_assert(line.length == 5 && memcmp(line.data, "two\r\n", 5) == 0);
    cr_assert_eq(line_framing_next(&bench->input, 100, &line), FRAMING_MESSAGE);
    cr_assert(line.length == 1 && memcmp(line.data, "\n", 1) == 0);
    cr_assert_eq(line_framing_next(&bench->input, 100, &line), FRAMING_INCOMPLETE);
}

/* The longest line, and the shortest that is too long, in both kinds of line end. */
static void try_around_the_limit(size_t max_line)
{
    static const struct {
        size_t more; /* letters than the limit */
        const char *end;
        enum framing_result rest;
        size_t lines;
    } cases[] = {
        {0, "\n", FRAMING_INCOMPLETE, 1}, {0, "\r\n", FRAMING_INCOMPLETE, 1},
        {1, "\n", FRAMING_TOO_LONG, 0},   {1, "\r\n", FRAMING_TOO_LONG, 0},
        {0, "", FRAMING_INCOMPLETE, 0},   {0, "\r", FRAMING_INCOMPLETE, 0},
        {1, "", FRAMING_TOO_LONG, 0},     {0, "\r\r", FRAMING_TOO_LONG, 0},
        {0, "\rx", FRAMING_TOO_LONG, 0},  {0, "\r\r\n", FRAMING_TOO_LONG, 0},
    };
    struct bench bench;
    bench_open(&bench, max_line);
    char *text = malloc(max_line + 10);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(text, 'x', max_line + 1);
        strcpy(text + max_line + cases[i].more, cases[i].end);
        receive_text(&bench, text);
        cr_assert_eq(bench.answer.rest, cases[i].rest, "limit %zu, case %zu", max_line, i);
        cr_assert_eq(bench.answer.count, cases[i].lines, "limit %zu, case %zu", max_line, i);
    }
    free(text);
    bench_close(&bench);
}

Test(line_framing, the_limit_counts_the_line_without_its_end)
{
    static const size_t limits[] = {1,    2,    10,    SEGMENT_SIZE - 2, SEGMENT_SIZE - 1,
                                    4096, 8128, 65536, 2 * SEGMENT_SIZE};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        try_around_the_limit(limits[i]);
}

Test(line_framing, erratum_01_a_long_line_is_whole_or_refused)
{
    static char line[3001];
    struct bench bench;
    memset(line, 'x', 2999);
    line[2999] = '\n';
    bench_open(&bench, 65536);
    receive_text(&bench, line);
    cr_assert_eq(bench.answer.count, 1, "a line of 3,000 bytes");
    bench_close(&bench);
    bench_open(&bench, 1024);
    receive_text(&bench, line);
    cr_assert_eq(bench.answer.rest, FRAMING_TOO_LONG);
    cr_assert_eq(bench.answer.count, 0);
    bench_close(&bench);
}

BenchTest(line_framing, erratum_02_an_empty_line_does_not_hide_the_next_one, 100)
{
    receive_text(bench, "\r\nhello\n");
    cr_assert_eq(bench->answer.count, 2);
}

Test(line_framing, the_input_limit_has_room_for_the_longest_line_and_no_more)
{
    cr_assert_eq(line_framing_input_limit(1), 3);
    cr_assert_eq(line_framing_input_limit(65536), 65538);
    cr_assert_eq(line_framing_input_limit((size_t)1 << 30), (1u << 30) + 2);
}

/* ---- how a line begins ---- */

static bool begins_with(const char *bytes, const char *word)
{
    struct buffer_factory factory;
    struct input_queue input;
    buffer_factory_init(&factory, 16);
    input_queue_init(&input, &factory, 100);
    cr_assert(input_queue_append(&input, (const unsigned char *)bytes, strlen(bytes)));
    size_t before = input_queue_length(&input);
    bool result = line_framing_begins_with(&input, word);
    cr_assert_eq(input_queue_length(&input), before);
    input_queue_clear(&input);
    buffer_factory_destroy(&factory);
    return result;
}

Test(line_framing, a_word_at_the_beginning_is_a_whole_word)
{
    cr_assert(begins_with("QUIT\r\n", "QUIT"));
    cr_assert(begins_with("quit\nmore", "QUIT"));
    cr_assert(begins_with("/quit now", "/quit"));
    cr_assert_not(begins_with("", "QUIT"));
    cr_assert_not(begins_with("QUI", "QUIT"));
    cr_assert_not(begins_with("QUIT", "QUIT"), "its end has not come");
    cr_assert_not(begins_with("QUITE\n", "QUIT"));
    cr_assert_not(begins_with(" QUIT\n", "QUIT"));
}
