/*
 * Requests of the store. The first byte says in what pieces they come: what is found is the same as
 * if all bytes were there at once, the words of a whole request lie inside of it, and finding them
 * takes all of it.
 */
#include "common/apps/store/store_request.h"
#include "fuzz.h"

#include <string.h>

static struct request_words words;

/* The words of an array say again how long it is. */
static void check_words(const uint8_t *data, size_t length)
{
    struct request_reader reader = {0};
    size_t all = length;
    unsigned char *copy = malloc(length); /* its end is the sanitizer's */
    memcpy(copy, data, length);
    bool is_right =
        request_find(&reader, (struct message){copy, length}, &words, &all) == REQUEST_WHOLE;
    const unsigned char *where = data[0] == '*' ? copy : words.line;
    fuzz_check(all == length, "%zu, expected %zu", all, length);
    size_t sum = 0;
    for (size_t i = 0; is_right && i < words.count; i++) {
        const unsigned char *end = words.at[i].data + words.at[i].length;
        fuzz_check(words.at[i].data >= where && end <= where + length, "a word outside");
        sum += words.at[i].length;
    }
    fuzz_check(data[0] == '*' || memchr(data, '\n', length) == data + length - 1, "a line's end");
    fuzz_check(data[0] != '*' || is_right, "the quotes of an array");
    fuzz_check(sum + words.count <= length, "more words than bytes");
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct request_reader reader = {0};
    size_t step = fuzz_byte(&input) % 40 + 1u;
    const uint8_t *at = input.data;
    const uint8_t *there = at;
    const uint8_t *end = input.data + input.size;
    enum request_result result = REQUEST_PART;
    size_t length;
    size_t expected;
    while (result == REQUEST_PART && there < end) {
        there = (size_t)(end - there) < step ? end : there + step;
        while ((result = request_find(&reader, (struct message){at, (size_t)(there - at)}, NULL,
                                      &length)) == REQUEST_WHOLE) {
            struct request_reader whole = {0};
            fuzz_check(request_find(&whole, (struct message){at, (size_t)(end - at)}, NULL,
                                    &expected) == REQUEST_WHOLE,
                       "it is whole only in pieces");
            fuzz_check(length == expected, "%zu, expected %zu", length, expected);
            check_words(at, length);
            at += length;
        }
    }
    struct request_reader rest = {0};
    enum request_result of_rest =
        request_find(&rest, (struct message){at, (size_t)(end - at)}, NULL, &expected);
    fuzz_check(result == of_rest, "%d, expected %d", (int)result, (int)of_rest);
    fuzz_check(result != REQUEST_BAD || strcmp(reader.fault, rest.fault) == 0, "another fault");
    return 0;
}
