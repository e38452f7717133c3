/*
 * What a client of the store sends: RESP2, as redis' clients speak it.
 *
 * A request is an array of words, `*2`, `$3`, `GET`, `$1`, `k`, each line with CR LF behind it. Or
 * it is a line of words, as somebody types it: an inline request, in which a word in quotes may
 * have spaces and escapes.
 *
 * The reader is asked twice. While bytes come, it says where a request ends, and keeps how far it
 * has looked: so one that comes in a thousand pieces is read once. When the request is carried out,
 * a reader that begins anew finds its words as well.
 *
 * Interface: one thread at a time, without a lock. All zero is a reader to begin with.
 */
#ifndef STORE_REQUEST_H
#define STORE_REQUEST_H

#include "common/bytes/input_queue.h"

enum {
    /** Bytes of the longest request, with all that stands around its words. */
    REQUEST_MAX = 8 << 20,

    /** Words of a request. */
    REQUEST_WORDS_MAX = 1 << 16,

    /** Bytes of an inline request, its end included. */
    REQUEST_LINE_MAX = 1 << 16,
};

/** The words of a request: they point into its bytes, or into `line` if it is an inline one. */
struct request_words {
    size_t count;
    struct message at[REQUEST_WORDS_MAX];
    unsigned char line[REQUEST_LINE_MAX]; /* its words without their quotes */
};

struct request_reader {
    size_t at;      /* bytes of the request that have been read */
    size_t wants;   /* there cannot be more than that before so many bytes are there */
    uint32_t words; /* that are still to come; 0: it has not begun */
    char fault[48]; /* why it is none: what redis says behind "Protocol error: " */
};

enum request_result {
    REQUEST_WHOLE,
    REQUEST_PART, /* its end has not come yet */
    REQUEST_BAD,  /* it is none; reader->fault says why */
};

/**
 * Finds where the request ends with which these bytes begin. *length is the number of its bytes,
 * and the reader is at its beginning again. The answer depends on the bytes alone, not on the
 * pieces they came in. An end of the array's words is not looked for: as in redis, two bytes are
 * skipped. With `words` (else NULL) the bytes are those of a whole request, and its words are
 * found, none if it is empty; quotes that are wrong are noticed only then.
 */
enum request_result request_find(struct request_reader *reader, struct message bytes,
                                 struct request_words *words, size_t *length);

/** A whole number as redis writes it: no sign but -, and no 0 in front. */
bool request_number(struct message word, int64_t *number);

#endif
