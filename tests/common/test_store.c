/*
 * The store's parser and its table. What a request is does not depend on how its bytes are cut.
 */
#include "common/apps/store/store_request.h"
#include "common/apps/store/store_table.h"
#include "support/mapped.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(store_request, .timeout = 120);
TestSuite(store_table, .timeout = 120);

/** What the store makes of some bytes, in words: each request's in brackets, then a fault. */
static void read_all(const char *bytes, size_t length, size_t cut, char *text, size_t room)
{
    struct request_words *words = malloc(sizeof *words);
    cr_assert_not_null(words);
    struct request_reader reader = {0};
    size_t used = 0;
    size_t begin = 0;
    size_t end;
    enum request_result result = REQUEST_PART;
    text[0] = '\0';
    for (int piece = 0; piece < 2 && result == REQUEST_PART; piece++) {
        size_t there = piece == 0 ? cut : length;
        while ((result = request_find(
                    &reader, (struct message){(const unsigned char *)bytes + begin, there - begin},
                    NULL, &end)) == REQUEST_WHOLE) {
            unsigned char *copy = malloc(end); /* so that a sanitizer sees its end */
            cr_assert_not_null(copy);
            memcpy(copy, bytes + begin, end);
            begin += end;
            struct request_reader again = {0};
            size_t length_again;
            bool is_right = request_find(&again, (struct message){copy, end}, words,
                                         &length_again) == REQUEST_WHOLE;
            cr_assert(!is_right || length_again == end);
            used += (size_t)snprintf(text + used, room - used, is_right ? "[" : "[quotes");
            for (size_t i = 0; is_right && i < words->count; i++)
                used += (size_t)snprintf(text + used, room - used, "%s%.*s", i > 0 ? "|" : "",
                                         (int)words->at[i].length, words->at[i].data);
            used += (size_t)snprintf(text + used, room - used, "]");
            free(copy);
        }
    }
    if (result == REQUEST_BAD)
        snprintf(text + used, room - used, "%s", reader.fault);
    free(words);
}

static void expect(const char *bytes, const char *expected)
{
    char text[4096];
    for (size_t cut = 0; cut <= strlen(bytes); cut++) {
        read_all(bytes, strlen(bytes), cut, text, sizeof text);
        cr_assert_str_eq(text, expected, "`%s`, cut at %zu: `%s`, not `%s`", bytes, cut, text,
                         expected);
    }
}

Test(store_request, arrays_are_cut_into_words)
{
    expect("*1\r\n$4\r\nPING\r\n", "[PING]");
    expect("*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$1\r\nx\r\n", "[GET|][x]");
    expect("*2\r\n$4\r\nECHO\r\n$6\r\na\r\nb\r\n\r\n", "[ECHO|a\r\nb\r\n]");
    expect("*0\r\n*-1\r\n*1\r\n$1\r\nx\r\n", "[][][x]");
}

Test(store_request, lines_are_cut_into_words)
{
    expect("SET a  b\r\nGET\ta\n\r\n", "[SET|a|b][GET|a][]");
    expect("ECHO \"two words\" '' \"\\x41\\n\\\"\"\n", "[ECHO|two words||A\n\"]");
    expect("ECHO a\vb \v\fc \"d\"\ve f\f\n\fPING\n", "[ECHO|a\vb|c|d|e|f\f][PING]");
    expect("ECHO 'it\\'s' a\"b c\" \"\\xzz\"\n", "[ECHO|it's|ab c|xzz]");
    expect("ECHO \"open\n", "[quotes]");
    expect("ECHO \"a\"b\nPING\n", "[quotes][PING]");
    expect("ECHO 'open\\'\n", "[quotes]");
}

Test(store_request, what_is_none_is_refused_as_redis_does)
{
    expect("*1\r\n$1\r\nx\r\n*x\r\n", "[x]invalid multibulk length");
    expect("*65537\r\n", "invalid multibulk length");
    expect("*99999999999999999999999999999\r\n", "invalid multibulk length");
    expect("*\r\n", "invalid multibulk length");
    expect("*1\r\n$-1\r\n", "invalid bulk length");
    expect("*2\r\n$1\r\nx\r\n$8388609\r\n", "invalid bulk length");
    expect("*1\r\n$ 1\r\n", "invalid bulk length");
    expect("*1\r\n:1\r\n", "expected '$', got ':'");
    expect("*1\r\nPING\r\n", "expected '$', got 'P'");
}

/* Its last byte is the last one that the input queue has room for. */
Test(store_request, the_longest_request_fits)
{
    unsigned char *bytes = mapped(REQUEST_MAX);
    size_t length;
    struct request_reader reader = {0};
    int head = snprintf((char *)bytes, REQUEST_MAX, "*1\r\n$%d\r\n", REQUEST_MAX - 16);
    cr_assert_eq(request_find(&reader, (struct message){bytes, (size_t)head}, NULL, &length),
                 REQUEST_PART);
    cr_assert_eq(reader.wants, (size_t)head + REQUEST_MAX - 16 + 2);
    cr_assert_leq(reader.wants, REQUEST_MAX);
    cr_assert_eq(request_find(&reader, (struct message){bytes, reader.wants}, NULL, &length),
                 REQUEST_WHOLE);
    reader = (struct request_reader){0};
    head = snprintf((char *)bytes, REQUEST_MAX, "*1\r\n$%d\r\n", REQUEST_MAX - 15);
    cr_assert_eq(request_find(&reader, (struct message){bytes, (size_t)head}, NULL, &length),
                 REQUEST_BAD);
}

Test(store_request, a_line_without_an_end_is_refused)
{
    static unsigned char bytes[REQUEST_LINE_MAX];
    size_t length;
    memset(bytes, 'x', sizeof bytes);
    for (size_t hidden = 0; hidden < 2; hidden++) { /* behind a NUL */
        struct request_reader reader = {0};
        memcpy(bytes, "PING\0\r\n", hidden * sizeof "PING\0\r");
        cr_assert_eq(
            request_find(&reader, (struct message){bytes, sizeof bytes - 1}, NULL, &length),
            REQUEST_PART);
        cr_assert_eq(request_find(&reader, (struct message){bytes, sizeof bytes}, NULL, &length),
                     REQUEST_BAD);
        cr_assert_str_eq(reader.fault, "too big inline request");
    }
}

static void expect_number(const char *word, bool is, int64_t expected)
{
    int64_t number = 0;
    bool seen =
        request_number((struct message){(const unsigned char *)word, strlen(word)}, &number);
    cr_assert_eq(seen, is, "`%s`", word);
    cr_assert_eq(number, is ? expected : number, "`%s`", word);
}

Test(store_request, numbers_are_as_redis_writes_them)
{
    expect_number("0", true, 0);
    expect_number("-1", true, -1);
    expect_number("9223372036854775807", true, INT64_MAX);
    expect_number("-9223372036854775808", true, INT64_MIN);
    expect_number("9223372036854775808", false, 0);
    expect_number("-9223372036854775809", false, 0);
    expect_number("18446744073709551616", false, 0);
    const char *const others[] = {"", "-", "-0", "01", "+1", " 1", "1 ", "1x", "0x1"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        expect_number(others[i], false, 0);
}

/* ---- The table ------------------------------------------------------------------------------ */

struct entry {
    struct table_node node;
    int number;
    bool is_in;
};

static struct message key_of(const int *number)
{
    return (struct message){(const unsigned char *)number, sizeof *number};
}

/* Whatever came and went, in whatever order, what is in it is found, and nothing else. */
Test(store_table, nodes_are_found_while_it_grows_slot_by_slot)
{
    enum { ENTRIES = 5000 };
    struct entry *entries = mapped(ENTRIES * sizeof(*entries));
    struct table table;
    size_t count = 0;
    cr_assert(table_open(&table));
    srand(1);
    for (int i = 0; i < ENTRIES; i++) {
        entries[i].number = i;
        entries[i].node.key = key_of(&entries[i].number);
    }
    for (int step = 0; step < 20 * ENTRIES; step++) {
        struct entry *entry = &entries[rand() % ENTRIES];
        struct table_node *found = table_find(&table, key_of(&entry->number));
        cr_assert_eq(found, entry->is_in ? &entry->node : NULL, "step %d", step);
        if (!entry->is_in)
            table_add(&table, &entry->node);
        else if (rand() % 2 == 0)
            table_remove(&table, &entry->node);
        else
            continue;
        entry->is_in = !entry->is_in;
        count += entry->is_in ? 1 : (size_t)-1;
        cr_assert_eq(table.count, count);
        cr_assert_leq(table.count, table.size, "a slot was not added");
    }
    for (int i = 0; i < ENTRIES; i++)
        cr_assert_eq(table_find(&table, key_of(&i)), entries[i].is_in ? &entries[i].node : NULL);
    table_close(&table);
}

/* Keys with the same hash would make a chain of them. */
Test(store_table, two_tables_hash_differently)
{
    struct table tables[2];
    struct entry entries[2] = {{.number = 7}, {.number = 7}};
    for (int i = 0; i < 2; i++) {
        cr_assert(table_open(&tables[i]));
        entries[i].node.key = key_of(&entries[i].number);
        table_add(&tables[i], &entries[i].node);
    }
    cr_assert_neq(entries[0].node.hash, entries[1].node.hash, "the secret is not used");
    for (int i = 0; i < 2; i++)
        table_close(&tables[i]);
}
