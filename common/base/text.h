/*
 * Text that grows in memory of a given size, put together without printf(3), which may take locks
 * and memory of its own: a signal handler may call all of this.
 */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct growing_text {
    char *text; /* always closed with a zero */
    size_t size;
    size_t length;
};

/** Adds what there is room for. */
static inline void text_append(struct growing_text *growing, const char *more)
{
    size_t length = strlen(more);
    size_t room = growing->size - 1 - growing->length;
    if (length > room)
        length = room;
    memcpy(growing->text + growing->length, more, length);
    growing->length += length;
    growing->text[growing->length] = '\0';
}

/** Adds a number, in that base, up to 16. */
static inline void text_append_number(struct growing_text *growing, uint64_t number, unsigned base)
{
    char digits[65] = "";
    size_t first = sizeof(digits) - 1;
    do
        digits[--first] = "0123456789abcdef"[number % base];
    while ((number /= base) > 0);
    text_append(growing, &digits[first]);
}

#endif
