/*
 * What the store answers: RESP2. The answers to a client's requests are put together here and leave
 * in as few pieces as possible.
 *
 * Interface: the store's strand only. One that was begun has to be sent before its end.
 */
#ifndef STORE_REPLY_H
#define STORE_REPLY_H

#include "common/server/channel_facade.h"

enum {
    STORE_REPLY_SIZE = 16384, /* bytes that are put together; more leave by themselves */
};

struct store_reply {
    struct channel_facade *to;
    enum output_result result; /* of the last piece that was sent */
    size_t length;
    unsigned char bytes[STORE_REPLY_SIZE];
};

static inline void store_reply_begin(struct store_reply *reply, struct channel_facade *to)
{
    reply->to = to;
    reply->result = OUTPUT_FLOWING;
    reply->length = 0;
}

/** Sends what has been put together. */
void store_reply_send(struct store_reply *reply);

/** Text as it is, with all that it needs: "+OK\r\n". */
void store_reply_text(struct store_reply *reply, const char *text);

/** An error: "-", and what is said so, with a space for each CR and LF in it, and none at its end.
 */
__attribute__((format(printf, 2, 3))) void store_reply_error(struct store_reply *reply,
                                                             const char *format, ...);

void store_reply_number(struct store_reply *reply, int64_t number);
void store_reply_bulk(struct store_reply *reply, struct message bytes);
void store_reply_string(struct store_reply *reply, const char *string);

/** The head of an array; so many replies have to follow. */
void store_reply_array(struct store_reply *reply, size_t count);

/** There is none: of a value, of an array. */
void store_reply_null(struct store_reply *reply);
void store_reply_null_array(struct store_reply *reply);

#endif
