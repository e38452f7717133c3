/*
 * The head of an answer, and the short page that an error is explained by.
 *
 * Interface: a head belongs to whoever makes it; no memory, any thread.
 */
#ifndef COMMON_APPS_HTTP_RESPONSE_H
#define COMMON_APPS_HTTP_RESPONSE_H

#include "../input_queue.h"
#include "http_status.h"

#include <time.h>

enum {
    HTTP_HEAD_SIZE = 2048, /* room for every head that is made here */
    HTTP_PAGE_SIZE = 512,
};

struct http_head {
    size_t length;
    char text[HTTP_HEAD_SIZE];
};

/** Begins a head: the line that tells the status, and the date. */
void http_head_begin(struct http_head *head, enum http_status status, time_t now);

/** Adds a field: a name, with colon and space, and a value. */
void http_head_add(struct http_head *head, const char *name, const char *value);

/** The same with a number. */
void http_head_add_number(struct http_head *head, const char *name, uint64_t value);

/** Adds the field Content-Range: the first and the last byte, or none if length is 0. */
void http_head_add_range(struct http_head *head, uint64_t start, uint64_t length, uint64_t size);

/** Adds the field Location: the name as a folder, whatever characters it has. */
void http_head_add_folder(struct http_head *head, const char *name);

/** Ends the head with the empty line. */
struct message http_head_end(struct http_head *head);

/** The page for a status, in the text. */
struct message http_page(char text[HTTP_PAGE_SIZE], enum http_status status);

#endif
