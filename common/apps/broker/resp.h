/*
 * RESP2, the protocol of redis and valkey: how a client writes commands, and reads what comes back.
 *
 * A reply is a line, `+OK`, `-ERR why`, `:7`; or a bulk string, `$5` and five bytes; or an array,
 * `*3` and three values. The reader hands out one value at a time: the head of an array, and then
 * its elements. So nothing that the broker sends takes more memory than one value may have: a bulk
 * string that is longer than allowed is dropped as it comes, however long it says it is.
 *
 * Interface: one thread at a time, without a lock. All zero but max_bulk is a reader to begin with.
 */
#ifndef BROKER_RESP_H
#define BROKER_RESP_H

#include "common/bytes/input_queue.h"

enum {
    /** The longest line, its end included, and so the longest `+`, `-` and head of a value. */
    RESP_LINE_MAX = 256,

    /** The most that comes before a bulk string's text, and behind it. */
    RESP_BULK_ROOM = 32,
};

enum resp_type {
    RESP_STRING,  /* text: what follows the + */
    RESP_ERROR,   /* text: what follows the - */
    RESP_INTEGER, /* number */
    RESP_BULK,    /* text */
    RESP_NULL,    /* neither: a null bulk string, or a null array */
    RESP_LONG,    /* a bulk string past max_bulk: its text is gone; number: its length */
    RESP_ARRAY,   /* number: so many values follow */
};

struct resp_value {
    enum resp_type type;
    int64_t number;
    struct message text; /* good until the next use of the queue */
};

enum resp_result {
    RESP_VALUE, /* a whole value is there */
    RESP_MORE,  /* its end has not come yet */
    RESP_BAD,   /* this is not RESP2 */
};

struct resp_reader {
    size_t max_bulk;   /* the longest bulk string that is handed out; bytes */
    uint64_t dropping; /* bytes of a longer one, its end included, that are still to come */
    int64_t dropped;   /* its length */
};

/**
 * Takes the next value out of the queue, which has to have room for RESP_LINE_MAX bytes and for
 * max_bulk + RESP_BULK_ROOM. The answer depends on the bytes alone, not on the pieces they came in.
 */
enum resp_result resp_next(struct resp_reader *reader, struct input_queue *input,
                           struct resp_value *value);

/** Bytes that grow: of commands to send, and of their words. All zero is an empty one. */
struct resp_text {
    unsigned char *data;
    size_t length;
    size_t room;
    bool failed; /* there was no memory; what is there is not whole */
};

/** Adds bytes as they are. */
void resp_add(struct resp_text *text, const void *data, size_t length);

/** Begins a command of so many words. */
void resp_command(struct resp_text *text, size_t words);

/** Adds one word of it. */
void resp_word(struct resp_text *text, const void *data, size_t length);
void resp_string(struct resp_text *text, const char *string);
void resp_number(struct resp_text *text, uint64_t number);

void resp_free(struct resp_text *text);

#endif
