/*
 * What makes a message of the bytes in an input queue: here, a line.
 *
 * Handler decides what constitutes a message (Hitchens, "Observations"). The line echo of every
 * stage takes a line with its end, LF or CR LF, as one message, so that what goes back is byte for
 * byte what came.
 */
#ifndef COMMON_LINE_FRAMING_H
#define COMMON_LINE_FRAMING_H

#include "common/bytes/input_queue.h"

enum framing_result {
    FRAMING_MESSAGE,    /* a whole message is there */
    FRAMING_INCOMPLETE, /* its end has not come yet */
    FRAMING_TOO_LONG,   /* it is longer than allowed, whether its end has come or not */
    FRAMING_REFUSED,    /* what has come is no message, and nothing behind it will be one */
    FRAMING_NO_MEMORY,  /* there is no memory for what a handler has to keep of it */
};

/**
 * Takes the next line out of the queue. max_line counts the bytes before the line's end. The answer
 * depends on the bytes alone, not on the pieces they came in.
 */
enum framing_result line_framing_next(struct input_queue *input, size_t max_line,
                                      struct message *line);

/**
 * Whether the queue begins with a line that begins with a word: `word`, in letters of either case,
 * and behind it the line's end or a space. Nothing is taken.
 */
bool line_framing_begins_with(const struct input_queue *input, const char *word);

/** What a client whose line is too long is told before the close. */
extern const struct message line_framing_too_long_text;

/** The limit an input queue needs so that every line that is allowed fits. */
uint32_t line_framing_input_limit(size_t max_line);

/** The longest line for which a queue has that limit. */
size_t line_framing_max_line(const struct input_queue *input);

#endif
