/*
 * RESP2 against a reference that sees all bytes at once. The first byte says in what pieces they
 * come: the values are the same, and so is the place at which they are none.
 */
#include "common/apps/broker/resp.h"
#include "common/bytes/input_queue_more.h"
#include "fuzz.h"

#include <string.h>

enum { MAX_BULK = 64, LIMIT = MAX_BULK + RESP_BULK_ROOM + RESP_LINE_MAX };

/* What comes of some bytes. *used: how many the value has. */
static enum resp_result reference(const uint8_t *data, size_t size, struct resp_value *value,
                                  size_t *used)
{
    const uint8_t *end = memchr(data, '\n', size);
    size_t line = end != NULL ? (size_t)(end - data) + 1 : size;
    if (end == NULL)
        return line < RESP_LINE_MAX ? RESP_MORE : RESP_BAD;
    if (line > RESP_LINE_MAX || line < 3 || data[line - 2] != '\r')
        return RESP_BAD;
    int64_t number = 0;
    bool minus = data[1] == '-';
    size_t digits = line - 3 - minus;
    bool is_number = line - 3 > (size_t)minus && digits <= 18;
    for (size_t i = 1 + (size_t)minus; is_number && i < line - 2; i++) {
        is_number = data[i] >= '0' && data[i] <= '9';
        number = number * 10 + (data[i] - '0');
    }
    number = minus ? -number : number;
    *used = line;
    *value = (struct resp_value){.number = number, .text = {data + 1, line - 3}};
    switch (data[0]) {
    case '+': value->type = RESP_STRING; return RESP_VALUE;
    case '-': value->type = RESP_ERROR; return RESP_VALUE;
    case ':': value->type = RESP_INTEGER; return is_number ? RESP_VALUE : RESP_BAD;
    case '*':
        value->type = number == -1 ? RESP_NULL : RESP_ARRAY;
        return is_number && number >= -1 ? RESP_VALUE : RESP_BAD;
    case '$': break;
    default: return RESP_BAD;
    }
    value->type = RESP_NULL;
    if (!is_number || number < -1)
        return RESP_BAD;
    if (number < 0)
        return number == -1 ? RESP_VALUE : RESP_BAD;
    size_t rest = size - line;
    if ((uint64_t)number + 2 > rest)
        return RESP_MORE;
    *used = line + (size_t)number + 2;
    value->type = number > MAX_BULK ? RESP_LONG : RESP_BULK;
    value->text = (struct message){data + line, (size_t)number};
    bool is_ended = data[*used - 2] == '\r' && data[*used - 1] == '\n';
    return is_ended || number > MAX_BULK ? RESP_VALUE : RESP_BAD;
}

static void compare(const struct resp_value *value, const struct resp_value *expected)
{
    fuzz_check(value->type == expected->type, "%d, expected %d", (int)value->type,
               (int)expected->type);
    bool has_text = value->type <= RESP_ERROR || value->type == RESP_BULK;
    if (!has_text)
        fuzz_check(value->number == expected->number, "a number");
    else
        fuzz_check(value->text.length == expected->text.length &&
                       memcmp(value->text.data, expected->text.data, value->text.length) == 0,
                   "a text");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct buffer_factory buffers;
    struct fuzz_input input = {data, size};
    struct resp_reader reader = {.max_bulk = MAX_BULK};
    struct resp_value value;
    struct resp_value expected;
    struct input_queue queue;
    size_t used;
    size_t step = fuzz_byte(&input) % 40 + 1u;
    const uint8_t *at = input.data;
    const uint8_t *end = input.data + input.size;
    enum resp_result result = RESP_MORE;
    buffer_factory_init(&buffers, 0);
    input_queue_init(&queue, &buffers, LIMIT);
    while (result == RESP_MORE && input.size > 0) {
        struct message piece = fuzz_bytes(&input, step);
        fuzz_check(input_queue_append(&queue, piece.data, piece.length), "no room for a piece");
        while ((result = resp_next(&reader, &queue, &value)) == RESP_VALUE) {
            enum resp_result of_reference = reference(at, (size_t)(end - at), &expected, &used);
            fuzz_check(of_reference == RESP_VALUE, "no value");
            compare(&value, &expected);
            at += used;
        }
    }
    enum resp_result of_rest = reference(at, (size_t)(end - at), &expected, &used);
    fuzz_check(result == of_rest, "%d, expected %d", (int)result, (int)of_rest);
    input_queue_clear(&queue);
    buffer_factory_destroy(&buffers);
    return 0;
}
