/*
 * Text that is formatted into a connection's output: what most lines of an answer need.
 */
#include "common/server/channel_facade.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_SIZE = 1024 }; /* handlers have small stacks */

/* It did not fit, and has that many bytes. */
__attribute__((format(printf, 3, 0))) static enum output_result print_long(
    struct channel_facade *facade, size_t length, const char *format, va_list arguments)
{
    char *text = malloc(length + 1);
    if (text == NULL) {
        channel_close(facade);
        return OUTPUT_BROKEN;
    }
    vsnprintf(text, length + 1, format, arguments);
    enum output_result result = channel_enqueue(facade, piece_bytes(text, length));
    free(text);
    return result;
}

enum output_result channel_printf(struct channel_facade *facade, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    enum output_result result =
        length < (int)sizeof(text)
            ? channel_enqueue(facade, piece_bytes(text, length > 0 ? (size_t)length : 0))
            : print_long(facade, (size_t)length, format, again);
    va_end(again);
    va_end(arguments);
    return result;
}
