/*
 * The head of an answer, and the short page that an error is explained by.
 *
 * Interface: a head belongs to its caller; no memory, any thread.
 */
#ifndef COMMON_APPS_HTTP_RESPONSE_H
#define COMMON_APPS_HTTP_RESPONSE_H

#include "common/apps/http/http_status.h"
#include "common/bytes/input_queue.h"

#include <time.h>

enum {
    /* The most that http_head_add_location() takes. The name of a folder may have 255 characters of
     * three bytes (exFAT, NTFS), which is 2295 bytes when escaped, and 8192 of a query may follow.
     */
    HTTP_LOCATION_MAX = 10752,
    HTTP_HEAD_SIZE = HTTP_LOCATION_MAX + 512, /* and all the other fields, which are short */
    HTTP_PAGE_SIZE = 512,
};

struct http_head {
    size_t length;
    char text[HTTP_HEAD_SIZE];
};

/** Begins a head: the status line and the date. */
void http_head_begin(struct http_head *head, enum http_status status, time_t now);

/** Adds a field: a name, with colon and space, and a value. */
void http_head_add(struct http_head *head, const char *name, const char *value);

/** Adds a field whose value is a number. */
void http_head_add_number(struct http_head *head, const char *name, uint64_t value);

/** Adds the field Content-Range: the first and the last byte, or none if length is 0. */
void http_head_add_range(struct http_head *head, uint64_t start, uint64_t length, uint64_t size);

/**
 * Adds the field Location: the name as a folder, whatever characters it has, and the query as the
 * client sent it, with its question mark. Returns false, and adds nothing, if the field would be
 * longer than HTTP_LOCATION_MAX. At most one in each head.
 */
bool http_head_add_location(struct http_head *head, const char *name, struct message query);

/** Ends the head with the empty line. */
struct message http_head_end(struct http_head *head);

/** The page for a status, in the text. */
struct message http_page(char text[HTTP_PAGE_SIZE], enum http_status status);

#endif
