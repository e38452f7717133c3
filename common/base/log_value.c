#include "common/base/log_value.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SPELLED_SIZE = sizeof("\\x1b") };

/* How long it is. */
static size_t spell(char text[SPELLED_SIZE], unsigned char byte)
{
    static const char special[] = "\nn\rr\tt\"\"\\\\"; /* each before its letter */
    bool printable = byte >= ' ' && byte <= '~';
    for (const char *next = special; *next != '\0'; next += 2)
        if (byte == (unsigned char)next[0])
            return (size_t)snprintf(text, SPELLED_SIZE, "\\%c", next[1]);
    return (size_t)snprintf(text, SPELLED_SIZE, printable ? "%c" : "\\x%02x", byte);
}

void log_value(char *to, size_t size, const void *bytes, size_t length)
{
    const unsigned char *byte = bytes;
    char text[SPELLED_SIZE];
    size_t used = 0;
    for (; length > 0; length--, byte++) {
        size_t more = spell(text, *byte);
        if (used + more >= size)
            break;
        memcpy(to + used, text, more);
        used += more;
    }
    to[used] = '\0';
}
