/*
 * JSON, as far as Protohackers' problems need it: a value is the bytes that it takes.
 *
 * next_value() walks through an array or an object, and skip_value() finds where a value ends. Both
 * look at bytes that somebody else has sent, and at none behind `end`.
 */
#ifndef PROTOHACKERS_JSON_H
#define PROTOHACKERS_JSON_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 50 };

struct span {
    const char *at;
    const char *end;
};

static inline const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
        at++;
    return at;
}

static inline const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++) {
        if (*at == '\\')
            at++;
    }
    return at < end ? at + 1 : NULL;
}

/* A number, or true, false or null. */
static inline const char *skip_word(const char *at, const char *end)
{
    static const char *const words[] = {"true", "false", "null"};
    const char *first = at;
    size_t left = (size_t)(end - at);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i]) <= left && memcmp(at, words[i], strlen(words[i])) == 0)
            return at + strlen(words[i]);
    }
    while (at < end && *at != '\0' && strchr("0123456789+-.eE", *at) != NULL)
        at++;
    return at > first ? at : NULL;
}

/* The next member of an array, or of an object, whose name it has then. False: there is none. */
static inline bool next_value(struct span *rest, struct span *name, struct span *value, int depth);

/* Behind a value; NULL: it is none. */
static inline const char *skip_value(const char *at, const char *end, int depth)
{
    struct span name;
    struct span value;
    if (at == end || depth > DEPTH_MAX)
        return NULL;
    if (*at == '"')
        return skip_string(at, end);
    if (*at != '{' && *at != '[')
        return skip_word(at, end);
    struct span rest = {at, end};
    while (next_value(&rest, *at == '{' ? &name : NULL, &value, depth + 1))
        continue;
    return rest.at != NULL && *rest.at == *at + 2 ? rest.at + 1 : NULL; /* as in ASCII */
}

static inline bool next_value(struct span *rest, struct span *name, struct span *value, int depth)
{
    const char *first = rest->at;
    const char *at = skip_space(first + 1, rest->end);
    bool is_first = *first == '{' || *first == '[';
    rest->at = at < rest->end ? at : NULL;
    if (rest->at == NULL || *at == '}' || *at == ']') {
        rest->at = is_first || *first != ',' ? rest->at : NULL;
        return false;
    }
    rest->at = NULL;
    if (name != NULL) {
        name->at = at;
        name->end = *at == '"' ? skip_string(at, rest->end) : NULL;
        at = name->end != NULL ? skip_space(name->end, rest->end) : rest->end;
        if (at == rest->end || *at != ':')
            return false;
        at = skip_space(at + 1, rest->end);
    }
    value->at = at;
    value->end = skip_value(at, rest->end, depth);
    at = value->end != NULL ? skip_space(value->end, rest->end) : rest->end;
    if (at == rest->end || (*at != ',' && *at != '}' && *at != ']'))
        return false;
    rest->at = *at == ',' ? at : at - 1;
    return true;
}

static inline bool is_same(struct span one, struct span other)
{
    size_t length = (size_t)(one.end - one.at);
    return length == (size_t)(other.end - other.at) && memcmp(one.at, other.at, length) == 0;
}

static inline bool is(struct span value, const char *text)
{
    return is_same(value, (struct span){text, text + strlen(text)});
}

/* The value that an object has under a name, in quotes. Its first byte is 0 if there is none. */
static inline struct span member_of(struct span object, const char *wanted)
{
    struct span rest = object;
    struct span name;
    struct span value;
    while (next_value(&rest, &name, &value, 0)) {
        if (is(name, wanted))
            return value;
    }
    return (struct span){"", ""};
}

static inline bool read_number(struct span value, unsigned long long *number)
{
    char *behind;
    if (*value.at < '0' || *value.at > '9')
        return false;
    *number = strtoull(value.at, &behind, 10);
    return behind == value.end;
}

#endif
