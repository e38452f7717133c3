#include "common/bytes/line_framing.h"

#include <ctype.h>
#include <string.h>

enum { LINE_END_MAX = 2 }; /* CR and LF */

static const char too_long[] = "ERR line too long\n";

const struct message line_framing_too_long_text = {(const unsigned char *)too_long,
                                                   sizeof(too_long) - 1};

/* The bytes in front of the line end at index, which is an LF or, before it, a CR. */
static size_t text_length(const struct input_queue *input, size_t index)
{
    bool after_cr = index > 0 && input_queue_at(input, index - 1) == '\r';
    return after_cr ? index - 1 : index;
}

/* No line end yet: is there more text than allowed already? The last byte may be half of one. */
static bool already_too_long(const struct input_queue *input, size_t max_line)
{
    size_t length = input_queue_length(input);
    return length > max_line && text_length(input, length) > max_line;
}

enum framing_result line_framing_next(struct input_queue *input, size_t max_line,
                                      struct message *line)
{
    size_t index; /* of the line's LF */
    if (!input_queue_index_of(input, '\n', &index))
        return already_too_long(input, max_line) ? FRAMING_TOO_LONG : FRAMING_INCOMPLETE;
    if (index > max_line && text_length(input, index) > max_line)
        return FRAMING_TOO_LONG;
    *line = input_queue_dequeue(input, index + 1);
    return FRAMING_MESSAGE;
}

/* Text, CR and LF; one byte less could leave a line that is neither whole nor too long. */
uint32_t line_framing_input_limit(size_t max_line)
{
    return (uint32_t)(max_line + LINE_END_MAX);
}

size_t line_framing_max_line(const struct input_queue *input)
{
    return input->limit - LINE_END_MAX;
}

bool line_framing_begins_with(const struct input_queue *input, const char *word)
{
    size_t length = strlen(word);
    if (input_queue_length(input) <= length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (tolower(input_queue_at(input, i)) != tolower((unsigned char)word[i]))
            return false;
    return isspace(input_queue_at(input, length)) != 0;
}
