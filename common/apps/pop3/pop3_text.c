#include "common/apps/pop3/pop3_text.h"

#include <string.h>

static size_t end_line(struct pop3_text *text, unsigned char *to)
{
    size_t written = 0;
    if (!text->after_cr)
        to[written++] = '\r';
    to[written++] = '\n';
    text->octets += written;
    text->in_line = false;
    text->after_cr = false;
    return written;
}

/* A line, or a piece of one, without its LF. */
static size_t add_to_line(struct pop3_text *text, const unsigned char *from, size_t length,
                          unsigned char *to)
{
    size_t dots = 0;
    if (length == 0)
        return 0;
    if (!text->in_line && from[0] == '.')
        to[dots++] = '.';
    memcpy(to + dots, from, length);
    text->octets += length;
    text->in_line = true;
    text->after_cr = from[length - 1] == '\r';
    return dots + length;
}

/* The bytes in front of the next LF, all of them if there is none. */
static size_t line_length(const unsigned char *from, size_t length)
{
    const unsigned char *lf = memchr(from, '\n', length);
    return lf != NULL ? (size_t)(lf - from) : length;
}

size_t pop3_text_add(struct pop3_text *text, const unsigned char *from, size_t length,
                     unsigned char *to)
{
    size_t written = 0;
    while (length > 0) {
        size_t here = line_length(from, length);
        written += add_to_line(text, from, here, to + written);
        if (here < length) {
            written += end_line(text, to + written);
            here++;
        }
        from += here;
        length -= here;
    }
    return written;
}

size_t pop3_text_end(struct pop3_text *text, unsigned char *to)
{
    size_t written = text->in_line ? end_line(text, to) : 0;
    to[written++] = '.';
    to[written++] = '\r';
    to[written++] = '\n';
    return written;
}

/* A line, or a piece of one, without its LF: is it still one that the blank line may turn out? */
static void look_at_line(struct pop3_top *top, const unsigned char *from, size_t length)
{
    if (length == 0)
        return;
    bool is_cr = top->line == POP3_LINE_BEGINS && length == 1 && from[0] == '\r';
    top->line = is_cr ? POP3_LINE_IS_CR : POP3_LINE_HAS_TEXT;
}

static void finish_line(struct pop3_top *top)
{
    if (top->in_body)
        top->lines--;
    else if (top->line != POP3_LINE_HAS_TEXT)
        top->in_body = true;
    top->line = POP3_LINE_BEGINS;
}

size_t pop3_top_take(struct pop3_top *top, const unsigned char *from, size_t length)
{
    size_t taken = 0;
    while (taken < length && !(top->in_body && top->lines == 0)) {
        size_t rest = length - taken;
        size_t here = line_length(from + taken, rest);
        look_at_line(top, from + taken, here);
        if (here < rest) {
            finish_line(top);
            here++;
        }
        taken += here;
    }
    return taken;
}
