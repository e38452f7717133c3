#include "common/apps/chat/printable.h"

#include <stdbool.h>
#include <string.h>

/* How many bytes the text's first character has in UTF-8; 0: the text begins with no whole one. */
static size_t utf8_length(const unsigned char *text, size_t length)
{
    unsigned char lead = text[0];
    unsigned char second = length > 1 ? text[1] : 0;
    size_t count = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4 || count > length)
        return 0;
    for (size_t i = 1; i < count; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    bool no_character = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
    return overlong || no_character ? 0 : count;
}

/*
 * The C0 controls, DEL, and the C1 controls: U+0080 to U+009F, and outside of any character the
 * bytes 0x80 to 0x9f themselves, which a terminal may take for them when it does not read UTF-8.
 */
static bool is_control(const unsigned char *character, size_t length)
{
    switch (length) {
    case 0: return character[0] >= 0x80 && character[0] <= 0x9f;
    case 1: return character[0] < ' ' || character[0] == 0x7f;
    case 2: return character[0] == 0xc2 && character[1] <= 0x9f;
    default: return false;
    }
}

void copy_printable(unsigned char *to, const unsigned char *from, size_t length)
{
    memcpy(to, from, length);
    for (size_t i = 0; i < length;) {
        size_t character = utf8_length(from + i, length - i);
        size_t bytes = character > 0 ? character : 1;
        if (is_control(from + i, character))
            memset(to + i, '?', bytes);
        i += bytes;
    }
}
