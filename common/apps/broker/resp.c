#include "common/apps/broker/resp.h"

#include "common/bytes/input_queue_more.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading -------------------------------------------------------------------------------- */

/* A number, and nothing else: at most 18 digits, which an int64_t holds, and perhaps a minus. */
static bool parse_number(struct message text, int64_t *number)
{
    bool is_negative = text.length > 0 && text.data[0] == '-';
    size_t digits = text.length - is_negative;
    int64_t value = 0;
    if (digits == 0 || digits > 18)
        return false;
    for (size_t i = is_negative; i < text.length; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        value = value * 10 + (text.data[i] - '0');
    }
    *number = is_negative ? -value : value;
    return true;
}

/* The length of the line at the front, CR LF included. RESP_VALUE: it is there. */
static enum resp_result find_line(struct input_queue *input, size_t *length)
{
    size_t index;
    if (!input_queue_index_of(input, '\n', &index))
        return input_queue_length(input) < RESP_LINE_MAX ? RESP_MORE : RESP_BAD;
    bool is_line =
        index + 1 <= RESP_LINE_MAX && index >= 2 && input_queue_at(input, index - 1) == '\r';
    *length = index + 1;
    return is_line ? RESP_VALUE : RESP_BAD;
}

/* Drops what has come of a bulk string that is too long. */
static enum resp_result drop_more(struct resp_reader *reader, struct input_queue *input,
                                  struct resp_value *value)
{
    size_t length = input_queue_length(input);
    size_t count = reader->dropping < length ? (size_t)reader->dropping : length;
    input_queue_discard(input, count);
    reader->dropping -= count;
    if (reader->dropping > 0)
        return RESP_MORE;
    *value = (struct resp_value){.type = RESP_LONG, .number = reader->dropped};
    return RESP_VALUE;
}

/* A bulk string whose head has so many bytes, and says that the string has `length`. */
static enum resp_result take_bulk(struct resp_reader *reader, struct input_queue *input,
                                  size_t head, int64_t length, struct resp_value *value)
{
    if ((uint64_t)length > reader->max_bulk) {
        input_queue_discard(input, head);
        reader->dropping = (uint64_t)length + 2;
        reader->dropped = length;
        return drop_more(reader, input, value);
    }
    size_t whole = head + (size_t)length + 2;
    if (input_queue_length(input) < whole)
        return RESP_MORE;
    if (input_queue_at(input, whole - 2) != '\r' || input_queue_at(input, whole - 1) != '\n')
        return RESP_BAD;
    struct message bytes = input_queue_dequeue(input, whole);
    *value = (struct resp_value){.type = RESP_BULK, .text = {bytes.data + head, (size_t)length}};
    return RESP_VALUE;
}

/* A value that is one line, or begins with one: `type` and the text behind it. */
static enum resp_result take_line(struct input_queue *input, size_t length,
                                  struct resp_value *value)
{
    struct message line = input_queue_dequeue(input, length);
    unsigned char type = line.data[0];
    *value = (struct resp_value){.text = {line.data + 1, length - 3}};
    bool has_number = parse_number(value->text, &value->number);
    bool is_null = has_number && value->number == -1;
    switch (type) {
    case '+': value->type = RESP_STRING; return RESP_VALUE;
    case '-': value->type = RESP_ERROR; return RESP_VALUE;
    case ':': value->type = RESP_INTEGER; return has_number ? RESP_VALUE : RESP_BAD;
    case '$': value->type = RESP_NULL; return is_null ? RESP_VALUE : RESP_BAD;
    case '*':
        value->type = is_null ? RESP_NULL : RESP_ARRAY;
        return has_number && (is_null || value->number >= 0) ? RESP_VALUE : RESP_BAD;
    default: return RESP_BAD;
    }
}

/* The head of a bulk string stays where it is until the string is whole, so both are one piece. */
enum resp_result resp_next(struct resp_reader *reader, struct input_queue *input,
                           struct resp_value *value)
{
    size_t line;
    int64_t length;
    if (reader->dropping > 0)
        return drop_more(reader, input, value);
    enum resp_result result = find_line(input, &line);
    if (result != RESP_VALUE)
        return result;
    if (input_queue_at(input, 0) != '$')
        return take_line(input, line, value);
    struct message head = input_queue_peek(input, line);
    struct message digits = {head.data + 1, line - 3};
    if (!parse_number(digits, &length) || length < 0)
        return take_line(input, line, value);
    return take_bulk(reader, input, line, length, value);
}

/* ---- Writing -------------------------------------------------------------------------------- */

void resp_add(struct resp_text *text, const void *data, size_t length)
{
    if (length == 0)
        return; /* from nowhere, perhaps, which memcpy(3) does not allow */
    if (text->length + length > text->room) {
        size_t room = 2 * (text->length + length);
        unsigned char *grown = text->failed ? NULL : realloc(text->data, room);
        if (grown == NULL) {
            text->failed = true;
            return;
        }
        text->data = grown;
        text->room = room;
    }
    memcpy(text->data + text->length, data, length);
    text->length += length;
}

static void add_head(struct resp_text *text, char type, size_t number)
{
    char head[RESP_BULK_ROOM];
    int length = snprintf(head, sizeof(head), "%c%zu\r\n", type, number);
    resp_add(text, head, (size_t)length);
}

void resp_command(struct resp_text *text, size_t words)
{
    add_head(text, '*', words);
}

void resp_word(struct resp_text *text, const void *data, size_t length)
{
    add_head(text, '$', length);
    resp_add(text, data, length);
    resp_add(text, "\r\n", 2);
}

void resp_string(struct resp_text *text, const char *string)
{
    resp_word(text, string, strlen(string));
}

void resp_number(struct resp_text *text, uint64_t number)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    resp_word(text, digits, (size_t)length);
}

void resp_free(struct resp_text *text)
{
    free(text->data);
    *text = (struct resp_text){0};
}
