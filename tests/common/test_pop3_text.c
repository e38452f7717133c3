/*
 * Texts in pieces (common/apps/pop3/pop3_text.h): what comes out does not depend on where they are
 * cut.
 */
#include "common/apps/pop3/pop3_text.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(pop3_text, .timeout = 120);

enum { ROOM = 256 };

/* What is sent of each, and with how many octets, is what tests/pop3/messages.c expects. */
static const char *const texts[] = {
    "",
    "\n",
    "\r\n",
    ".",
    ".\n",
    "..\r\n.\r\n",
    "a\nb\r\nc",
    "\r",
    "a\r",
    "\r\r\n.\n",
    "\n.\n\n.",
    "A: b\nC: d\n\nbody\n.dots\n\n",
    "A: b\r\n\r\n\r\n.\r\nlast\r",
    "A: b\n\r\r\n\r\nx\n",
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

static const unsigned char *bytes(const char *text)
{
    return (const unsigned char *)text;
}

struct sent {
    unsigned char data[ROOM];
    size_t length;
    uint64_t octets;
};

/** Sends a text in three pieces, cut at two places. */
static struct sent send_in_pieces(const char *from, size_t one, size_t two)
{
    struct pop3_text text = {0};
    struct sent sent = {.length = 0};
    size_t ends[] = {one, two, strlen(from)};
    size_t begin = 0;
    for (int i = 0; i < 3; i++) {
        size_t length = ends[i] - begin;
        size_t written = pop3_text_add(&text, bytes(from) + begin, length, sent.data + sent.length);
        cr_assert_leq(written, POP3_TEXT_SIZE(length), "%zu bytes of %zu", written, length);
        sent.length += written;
        begin = ends[i];
    }
    size_t end = pop3_text_end(&text, sent.data + sent.length);
    cr_assert_leq(end, POP3_TEXT_END_SIZE);
    sent.length += end;
    sent.octets = text.octets;
    return sent;
}

Test(pop3_text, the_same_wherever_it_is_cut)
{
    for (int i = 0; i < TEXTS; i++) {
        size_t length = strlen(texts[i]);
        struct sent whole = send_in_pieces(texts[i], length, length);
        for (size_t one = 0; one <= length; one++) {
            for (size_t two = one; two <= length; two++) {
                struct sent sent = send_in_pieces(texts[i], one, two);
                cr_assert_eq(sent.octets, whole.octets, "text %d cut at %zu and %zu", i, one, two);
                cr_assert(sent.length == whole.length &&
                              memcmp(sent.data, whole.data, sent.length) == 0,
                          "text %d cut at %zu and %zu: `%.*s`, not `%.*s`", i, one, two,
                          (int)sent.length, sent.data, (int)whole.length, whole.data);
            }
        }
    }
}

/* What a client does with it: takes lines up to a lone dot, and a dot off in front of each. */
Test(pop3_text, a_client_gets_the_text_back)
{
    for (int i = 0; i < TEXTS; i++) {
        struct sent sent = send_in_pieces(texts[i], 0, 0);
        uint64_t kept = 0;
        size_t at = 0;
        while (at + 3 < sent.length) {
            unsigned char *end = memmem(sent.data + at, sent.length - at, "\r\n", 2);
            cr_assert_not_null(end, "text %d: a line without an end", i);
            size_t line = (size_t)(end - sent.data) - at;
            bool stuffed = line > 0 && sent.data[at] == '.';
            cr_assert(!(stuffed && line == 1), "text %d ends too early", i);
            kept += line + 2 - stuffed;
            at += line + 2;
        }
        cr_assert_eq(memcmp(sent.data + at, ".\r\n", 3), 0, "text %d has no end", i);
        cr_assert_eq(kept, sent.octets, "text %d", i);
    }
}

/** What TOP takes of a text in two pieces. */
static size_t take_in_pieces(const char *from, uint64_t lines, size_t cut)
{
    struct pop3_top top = {.lines = lines};
    size_t taken = pop3_top_take(&top, bytes(from), cut);
    if (taken < cut)
        return taken;
    return taken + pop3_top_take(&top, bytes(from) + cut, strlen(from) - cut);
}

Test(pop3_text, top_is_the_same_wherever_it_is_cut)
{
    for (int i = 0; i < TEXTS; i++) {
        size_t length = strlen(texts[i]);
        size_t before = 0;
        for (uint64_t lines = 0; lines < 5; lines++) {
            size_t whole = take_in_pieces(texts[i], lines, length);
            cr_assert_geq(whole, before, "text %d: fewer bytes of more lines", i);
            before = whole;
            for (size_t cut = 0; cut <= length; cut++) {
                cr_assert_eq(take_in_pieces(texts[i], lines, cut), whole,
                             "text %d, %d lines, cut at %zu", i, (int)lines, cut);
            }
        }
        cr_assert_eq(take_in_pieces(texts[i], UINT64_MAX, length / 2), length, "text %d", i);
    }
}
