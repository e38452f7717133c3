/*
 * RESP2: what is a value, and what is not. However the bytes are cut, the answer is the same.
 */
#include "common/apps/broker/resp.h"

#include "common/bytes/buffer_factory.h"
#include "common/bytes/input_queue_more.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(resp, .timeout = 120);

enum { MAX_BULK = 10, LIMIT = 1000 };

static struct buffer_factory buffers;

/** What a reader makes of some bytes, in words, if they come in two pieces. */
static void read_all(const char *bytes, size_t length, size_t cut, char *words, size_t room)
{
    struct resp_reader reader = {.max_bulk = MAX_BULK};
    struct resp_value value;
    struct input_queue queue;
    enum resp_result result = RESP_MORE;
    size_t used = 0;
    input_queue_init(&queue, &buffers, LIMIT);
    words[0] = '\0';
    for (int piece = 0; piece < 2 && result == RESP_MORE; piece++) {
        const char *from = piece == 0 ? bytes : bytes + cut;
        size_t count = piece == 0 ? cut : length - cut;
        cr_assert(input_queue_append(&queue, (const unsigned char *)from, count));
        while ((result = resp_next(&reader, &queue, &value)) == RESP_VALUE) {
            static const char *const names[] = {"string", "error", "integer", "bulk",
                                                "null",   "long",  "array"};
            used += (size_t)snprintf(words + used, room - used, "%s", names[value.type]);
            if (value.type <= RESP_ERROR || value.type == RESP_BULK)
                used += (size_t)snprintf(words + used, room - used, " %.*s ",
                                         (int)value.text.length, value.text.data);
            else
                used += (size_t)snprintf(words + used, room - used, " %" PRId64 " ", value.number);
        }
    }
    snprintf(words + used, room - used, "%s", result == RESP_BAD ? "BAD" : "");
    input_queue_clear(&queue);
}

static void expect_length(const char *bytes, size_t length, const char *expected)
{
    char words[4096];
    buffer_factory_init(&buffers, 0);
    for (size_t cut = 0; cut <= length; cut++) {
        read_all(bytes, length, cut, words, sizeof words);
        cr_assert_str_eq(words, expected, "`%s`, cut at %zu: `%s`, not `%s`", bytes, cut, words,
                         expected);
    }
    buffer_factory_destroy(&buffers);
}

static void expect(const char *bytes, const char *expected)
{
    expect_length(bytes, strlen(bytes), expected);
}

Test(resp, values)
{
    expect("+OK\r\n", "string OK ");
    expect("-ERR why\r\n:7\r\n:-7\r\n", "error ERR why integer 7 integer -7 ");
    expect("$5\r\nhello\r\n$0\r\n\r\n$-1\r\n", "bulk hello bulk  null -1 ");
    expect("*3\r\n$7\r\nmessage\r\n$4\r\nchat\r\n$2\r\nhi\r\n",
           "array 3 bulk message bulk chat bulk hi ");
    expect("*0\r\n*-1\r\n", "array 0 null -1 ");
    expect("$4\r\n\r\n\r\n\r\n+\r\n", "bulk \r\n\r\n string  ");
}

Test(resp, what_is_not_whole_is_waited_for)
{
    expect("", "");
    expect("$5\r\nhello\r", "");
    expect("+OK\r\n$5\r", "string OK ");
}

Test(resp, a_long_bulk_string_is_dropped_as_it_comes)
{
    expect("$10\r\n0123456789\r\n", "bulk 0123456789 ");
    expect("$11\r\n0123456789a\r\n+OK\r\n", "long 11 string OK ");
    expect("*2\r\n$20\r\n01234567890123456789\r\n:1\r\n", "array 2 long 20 integer 1 ");
    expect("$999999999999999999\r\n0123456789", "");
}

Test(resp, what_is_none)
{
    expect("hello\r\n", "BAD");
    expect("+OK\n", "BAD");
    expect("\r\n", "BAD");
    expect("\n", "BAD");
    expect(":\r\n", "BAD");
    expect(":1x\r\n", "BAD");
    expect(":1234567890123456789\r\n", "BAD");
    expect("$-2\r\n", "BAD");
    expect("$\r\n", "BAD");
    expect("$1 \r\n", "BAD");
    expect("$1\r\nabc", "BAD");
    expect("*-2\r\n", "BAD");
    expect("%1\r\n", "BAD");
}

/** The longest line is one of 256 bytes, its end included. */
Test(resp, a_line_has_a_limit)
{
    char line[RESP_LINE_MAX + 2];
    char expected[RESP_LINE_MAX + 16];
    memset(line, 'x', sizeof line);
    line[0] = '+';
    memcpy(line + RESP_LINE_MAX - 2, "\r\n", 2);
    snprintf(expected, sizeof expected, "string %.*s ", RESP_LINE_MAX - 3, line + 1);
    expect_length(line, RESP_LINE_MAX, expected);
    memcpy(line + RESP_LINE_MAX - 2, "x\r\n", 3);
    expect_length(line, RESP_LINE_MAX + 1, "BAD");
    expect_length(line, RESP_LINE_MAX - 1, "");
    line[RESP_LINE_MAX - 1] = 'x';
    expect_length(line, RESP_LINE_MAX, "BAD");
}

Test(resp, commands)
{
    struct resp_text text = {0};
    resp_command(&text, 3);
    resp_string(&text, "SET");
    resp_word(&text, "a\0b", 3);
    resp_add(&text, NULL, 0); /* what another text has in it that was not begun */
    resp_number(&text, 12);
    static const char expected[] = "*3\r\n$3\r\nSET\r\n$3\r\na\0b\r\n$2\r\n12\r\n";
    cr_assert_eq(text.length, sizeof expected - 1);
    cr_assert_arr_eq(text.data, expected, sizeof expected - 1);
    resp_free(&text);
}
