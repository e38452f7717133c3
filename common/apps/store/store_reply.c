#include "common/apps/store/store_reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void store_reply_begin(struct store_reply *reply, struct channel_facade *to)
{
    store_reply_send(reply);
    reply->to = to;
    reply->result = OUTPUT_FLOWING;
}

void store_reply_send(struct store_reply *reply)
{
    if (reply->length > 0)
        reply->result = channel_enqueue(reply->to, piece_bytes(reply->bytes, reply->length));
    reply->length = 0;
}

static void add(struct store_reply *reply, const void *bytes, size_t length)
{
    if (length > sizeof(reply->bytes) - reply->length)
        store_reply_send(reply);
    if (length > sizeof(reply->bytes)) {
        reply->result = channel_enqueue(reply->to, piece_bytes(bytes, length));
    } else if (length > 0) {
        memcpy(reply->bytes + reply->length, bytes, length);
        reply->length += length;
    }
}

void store_reply_text(struct store_reply *reply, const char *text)
{
    add(reply, text, strlen(text));
}

void store_reply_error(struct store_reply *reply, const char *format, ...)
{
    char text[STORE_REPLY_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    for (char *end = text; (end = strpbrk(end, "\r\n")) != NULL;)
        *end = ' ';
    add(reply, "-", 1);
    store_reply_text(reply, text);
    store_reply_text(reply, "\r\n");
}

/* A line: a kind, and a number. */
static void add_line(struct store_reply *reply, char kind, int64_t number)
{
    char line[24];
    char *at = line + sizeof(line);
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0)
        *--at = '-';
    *--at = kind;
    add(reply, at, (size_t)(line + sizeof(line) - at));
}

void store_reply_number(struct store_reply *reply, int64_t number)
{
    add_line(reply, ':', number);
}

void store_reply_bulk(struct store_reply *reply, struct message bytes)
{
    if (bytes.data == NULL) {
        store_reply_text(reply, STORE_NULL);
        return;
    }
    add_line(reply, '$', (int64_t)bytes.length);
    add(reply, bytes.data, bytes.length);
    add(reply, "\r\n", 2);
}

void store_reply_string(struct store_reply *reply, const char *string)
{
    store_reply_bulk(reply, (struct message){(const unsigned char *)string, strlen(string)});
}

void store_reply_array(struct store_reply *reply, size_t count)
{
    add_line(reply, '*', (int64_t)count);
}
