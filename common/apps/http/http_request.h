/*
 * The head of an HTTP request, read: what is asked for, and how many bytes of a body follow
 * (RFC 9112, sections 2 to 6; RFC 9110).
 *
 * A head that two readers could take in two ways is refused, whatever a lenient reader would make
 * of it: that is how requests are smuggled past a proxy. So every line ends in CR LF, a bare CR or
 * LF is an error, no line continues the one before it, no space stands before a colon, there is one
 * Content-Length at most, of digits only, and none beside a Transfer-Encoding.
 *
 * Interface:
 * - No state, no memory, any thread. Any bytes get an answer.
 * - What a request refers to lies in the head that it was read from, and is good as long as that.
 */
#ifndef COMMON_APPS_HTTP_REQUEST_H
#define COMMON_APPS_HTTP_REQUEST_H

#include "common/apps/http/http_status.h"
#include "common/bytes/input_queue.h"

enum {
    HTTP_LINE_MAX = 8192,  /* bytes of a request line, without its end */
    HTTP_FIELDS_MAX = 100, /* fields of a head */
    HTTP_LIST_MAX = 8,     /* fields of one name that together are a list */
};

enum http_method {
    HTTP_METHOD_GET,
    HTTP_METHOD_HEAD,
    HTTP_METHOD_OTHER,   /* HTTP has it and files do not: 405 */
    HTTP_METHOD_UNKNOWN, /* 501 */
};

/** A list that may come in several fields, in their order, as if a comma stood between them. */
struct http_list {
    unsigned count; /* 0: there is no such field */
    struct message fields[HTTP_LIST_MAX];
};

struct http_request {
    enum http_method method;
    bool is_1_0;
    bool closes; /* the connection ends with the answer */
    bool waits;  /* the body is not sent before an answer has come: Expect: 100-continue */
    uint64_t body;
    struct message path;  /* as it was sent, from its slash on, without the query */
    struct message query; /* as it was sent, from its question mark on; empty: there is none */

    /* Fields that files have a use for; without data where there is none. */
    struct message range;
    struct message if_range;
    struct message if_modified_since;
    struct message if_unmodified_since;
    struct http_list if_match;
    struct http_list if_none_match;
};

/**
 * Reads a head, from the request line to the empty line, both with their ends; empty lines in front
 * are passed over. HTTP_OK, or what to answer instead; the connection then has to end with that
 * answer, because nobody knows where the next request begins. The method is that of the request as
 * soon as it can be read, whatever is wrong behind it.
 */
enum http_status http_request_read(struct http_request *request, struct message head);

#endif
