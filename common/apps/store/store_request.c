#include "common/apps/store/store_request.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_SIZE = 24 }; /* of a line that is a number, with its CR and LF */

bool request_number(struct message word, int64_t *number)
{
    bool negative = word.length > 0 && word.data[0] == '-';
    size_t at = negative;
    *number = 0;
    if (at == word.length || (word.data[at] == '0' && word.length > 1))
        return false;
    for (; at < word.length; at++) {
        int digit = word.data[at] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, negative ? -digit : digit, number))
            return false;
    }
    return true;
}

/* ---- An inline request --------------------------------------------------------------------- */

/* What stands behind a backslash in double quotes; *from is behind it then. */
static unsigned char unescape(const unsigned char **from, const unsigned char *end)
{
    static const char letters[] = "nrtba";
    static const char meanings[] = "\n\r\t\b\a";
    const unsigned char *at = *from;
    if (end - at >= 3 && at[0] == 'x' && isxdigit(at[1]) && isxdigit(at[2])) {
        const char digits[] = {(char)at[1], (char)at[2], '\0'};
        *from = at + 3;
        return (unsigned char)strtoul(digits, NULL, 16);
    }
    *from = at + 1;
    const char *letter = strchr(letters, at[0]);
    return letter != NULL ? (unsigned char)meanings[letter - letters] : at[0];
}

/* Writes a word in quotes to *to. False: they do not end, or the word goes on behind them. */
static bool unquote(const unsigned char **from, const unsigned char *end, unsigned char **to)
{
    unsigned char quote = *(*from)++;
    while (*from < end && **from != quote) {
        bool escapes = **from == '\\' && end - *from > 1 && (quote == '"' || (*from)[1] == '\'');
        *from += escapes;
        *(*to)++ = escapes && quote == '"' ? unescape(from, end) : *(*from)++;
    }
    if (*from == end)
        return false;
    ++*from;
    return *from == end || isspace(**from);
}

/*
 * VT and FF are white space in front of a word and behind a quote. In the middle of a word they are
 * bytes like all others, because they are for redis.
 */
static bool split_line(const unsigned char *from, const unsigned char *end,
                       struct request_words *words)
{
    unsigned char *to = words->line;
    while (true) {
        while (from < end && isspace(*from))
            from++;
        if (from == end)
            return true;
        unsigned char *word = to;
        while (from < end && strchr(" \t\r\n\"'", *from) == NULL)
            *to++ = *from++;
        if (from < end && (*from == '"' || *from == '\'') && !unquote(&from, end, &to))
            return false;
        words->at[words->count++] = (struct message){word, (size_t)(to - word)};
    }
}

/* ---- Where it ends ------------------------------------------------------------------------- */

static enum request_result refuse(struct request_reader *reader, const char *fault)
{
    snprintf(reader->fault, sizeof(reader->fault), "%s", fault);
    return REQUEST_BAD;
}

/* The line at *at: a kind, and a number. *at is behind it then. Its LF is not looked at. */
static enum request_result read_number(struct message bytes, size_t *at, int64_t *number)
{
    size_t there = bytes.length - *at;
    const unsigned char *line = bytes.data + *at;
    const unsigned char *end = memchr(line, '\r', there < NUMBER_SIZE ? there : NUMBER_SIZE);
    if (end == NULL)
        return there < NUMBER_SIZE ? REQUEST_PART : REQUEST_BAD;
    size_t length = (size_t)(end - line);
    if (length + 1 == there)
        return REQUEST_PART;
    *at += length + 2;
    return request_number((struct message){line + 1, length - 1}, number) ? REQUEST_WHOLE
                                                                          : REQUEST_BAD;
}

/* As in redis, behind a NUL no end is found, until the line is too long. */
static enum request_result find_line(struct request_reader *reader, struct message bytes,
                                     struct request_words *words)
{
    size_t at = reader->at;
    while (at < bytes.length && bytes.data[at] != '\n' && bytes.data[at] != '\0')
        at++;
    bool has_end = at < bytes.length && bytes.data[at] == '\n';
    if ((has_end ? at : bytes.length) >= REQUEST_LINE_MAX)
        return refuse(reader, "too big inline request");
    if (has_end && words != NULL && !split_line(bytes.data, bytes.data + at, words))
        return refuse(reader, "unbalanced quotes in request");
    reader->at = at + has_end;
    return has_end ? REQUEST_WHOLE : REQUEST_PART;
}

static enum request_result begin_array(struct request_reader *reader, struct message bytes)
{
    int64_t count;
    size_t at = 0;
    enum request_result result = read_number(bytes, &at, &count);
    if (result == REQUEST_BAD || (result == REQUEST_WHOLE && count > REQUEST_WORDS_MAX))
        return refuse(reader, "invalid multibulk length");
    if (result == REQUEST_WHOLE) {
        reader->at = at;
        reader->words = count > 0 ? (uint32_t)count : 0;
    }
    return result;
}

/* One word, if all of it is there. */
static enum request_result find_word(struct request_reader *reader, struct message bytes,
                                     struct request_words *words)
{
    int64_t length;
    size_t at = reader->at;
    if (at == bytes.length)
        return REQUEST_PART;
    if (bytes.data[at] != '$') {
        snprintf(reader->fault, sizeof(reader->fault), "expected '$', got '%c'", bytes.data[at]);
        return REQUEST_BAD;
    }
    enum request_result result = read_number(bytes, &at, &length);
    if (result == REQUEST_PART)
        return REQUEST_PART;
    if (result == REQUEST_BAD || length < 0 || length > REQUEST_MAX ||
        at + (size_t)length + 2 > REQUEST_MAX)
        return refuse(reader, "invalid bulk length");
    reader->wants = at + (size_t)length + 2;
    if (bytes.length < reader->wants)
        return REQUEST_PART;
    if (words != NULL)
        words->at[words->count++] = (struct message){bytes.data + at, (size_t)length};
    reader->at = reader->wants;
    reader->words--;
    return REQUEST_WHOLE;
}

enum request_result request_find(struct request_reader *reader, struct message bytes,
                                 struct request_words *words, size_t *length)
{
    enum request_result result = REQUEST_WHOLE;
    if (bytes.length == 0 || bytes.length < reader->wants)
        return REQUEST_PART;
    if (words != NULL)
        words->count = 0;
    if (bytes.data[0] != '*')
        result = find_line(reader, bytes, words);
    else if (reader->words == 0)
        result = begin_array(reader, bytes);
    while (result == REQUEST_WHOLE && reader->words > 0)
        result = find_word(reader, bytes, words);
    if (result != REQUEST_WHOLE)
        return result;
    *length = reader->at;
    *reader = (struct request_reader){0};
    return REQUEST_WHOLE;
}
