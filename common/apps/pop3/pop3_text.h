/*
 * How POP3 sends a text of any length (RFC 1939, section 3): every line ends with CR LF, a line
 * that begins with a dot gets a second one in front, and a line with nothing but a dot is the end.
 *
 * The text comes in pieces, cut anywhere; what has to be remembered from one to the next is a few
 * bits. So nobody holds a whole message in memory, and the octets that are counted here are those
 * that LIST announces: what is announced and what is sent cannot differ.
 *
 * Interface:
 * - No memory, no locks; each struct belongs to one text and one thread at a time.
 * - A line ends at its LF. A CR in front of that belongs to the line end, one anywhere else is a
 *   character like others.
 */
#ifndef COMMON_APPS_POP3_TEXT_H
#define COMMON_APPS_POP3_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /** What pop3_text_end() writes at most. */
    POP3_TEXT_END_SIZE = 5,
};

/** The most bytes that `length` bytes become: each may be an LF without a CR, or a dot that leads.
 */
#define POP3_TEXT_SIZE(length) (2 * (length))

/** A text on its way out. All zero at its beginning. */
struct pop3_text {
    uint64_t octets; /* so far, without the dots put in front: what the client keeps */
    bool in_line;    /* something has come since the last LF */
    bool after_cr;   /* and the last of it was a CR */
};

/** Writes what becomes of the next length bytes, and returns how many that are. */
size_t pop3_text_add(struct pop3_text *text, const unsigned char *from, size_t length,
                     unsigned char *to);

/** Ends the last line if the text does not, then writes the line with the dot. */
size_t pop3_text_end(struct pop3_text *text, unsigned char *to);

/** What TOP sends of a message: its header, the blank line, and some lines of its body. */
struct pop3_top {
    uint64_t lines; /* of the body, still to be sent; set it first, all else is zero then */
    bool in_body;
    enum { POP3_LINE_BEGINS, POP3_LINE_IS_CR, POP3_LINE_HAS_TEXT } line;
};

/** How many of the next length bytes belong to it; with fewer than length, it is over. */
size_t pop3_top_take(struct pop3_top *top, const unsigned char *from, size_t length);

#endif
