/*
 * What the store answers: RESP2. The answers to a client's requests are put together here and leave
 * in as few pieces as possible.
 *
 * Interface: the store's strand only. There is one reply, and it is for one client at a time: what
 * was put together for the one before is sent when the next one is begun, or by store_reply_send().
 */
#ifndef STORE_REPLY_H
#define STORE_REPLY_H

#include "common/server/channel_facade.h"

/* Answers that several commands give, for store_reply_text(). */
#define STORE_OK         "+OK\r\n"
#define STORE_NULL       "$-1\r\n" /* there is no such value */
#define STORE_NULL_ARRAY "*-1\r\n" /* there are no such values */
#define STORE_WRONG_TYPE "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
#define STORE_SYNTAX     "-ERR syntax error\r\n"
#define STORE_NO_INTEGER "-ERR value is not an integer or out of range\r\n"
#define STORE_NO_MEMORY  "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

enum {
    STORE_REPLY_SIZE = 16384, /* bytes that are put together; more leave by themselves */
};

struct store_reply {
    struct channel_facade *to;
    enum output_result result; /* of the last piece that was sent */
    size_t length;
    unsigned char bytes[STORE_REPLY_SIZE];
};

/** From now on the answers are for that client. */
void store_reply_begin(struct store_reply *reply, struct channel_facade *to);

/** Sends what has been put together. */
void store_reply_send(struct store_reply *reply);

/** Text as it is, with all that it needs: "+OK\r\n". */
void store_reply_text(struct store_reply *reply, const char *text);

/**
 * An error, as redis words it: "-" and the line's end are added, and no other line end is in it.
 * From STORE_REPLY_SIZE bytes on it is cut.
 */
__attribute__((format(printf, 2, 3))) void store_reply_error(struct store_reply *reply,
                                                             const char *format, ...);

void store_reply_number(struct store_reply *reply, int64_t number);

/** NULL: there is no such value. */
void store_reply_bulk(struct store_reply *reply, struct message bytes);
void store_reply_string(struct store_reply *reply, const char *string);

/** The head of an array; so many replies have to follow. */
void store_reply_array(struct store_reply *reply, size_t count);

#endif
