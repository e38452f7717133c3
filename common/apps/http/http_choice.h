/*
 * Which answer a request for a file gets that is there: all of it, a part of it, or the news that
 * the client has it already, or that it is not the one the client means (RFC 9110, sections 13 and
 * 14).
 *
 * Interface: no state, no memory, any thread.
 */
#ifndef COMMON_APPS_HTTP_CHOICE_H
#define COMMON_APPS_HTTP_CHOICE_H

#include "common/apps/http/http_date.h"
#include "common/apps/http/http_request.h"

#include <sys/stat.h>

enum {
    HTTP_TAG_SIZE = 56, /* three numbers, the quotes and the closing zero */
};

/** What tells one content of a file from another. */
struct http_version {
    uint64_t size;
    time_t modified;
    bool is_settled;         /* modified in a second that is over: the date is a strong validator */
    char tag[HTTP_TAG_SIZE]; /* strong: "inode-time-size", with the quotes */
};

/** The bytes to send: of the whole file or of a part. */
struct http_range {
    uint64_t start;
    uint64_t length;
};

/** Reads that off a file. A file from the future was modified now, and is not settled. */
void http_version_of(struct http_version *version, const struct stat *status, time_t now);

/**
 * HTTP_OK or HTTP_PARTIAL, and *range says what to send; HTTP_PRECONDITION_FAILED;
 * HTTP_NOT_MODIFIED; or HTTP_RANGE_UNSATISFIABLE. A range that cannot be read, and more than one,
 * ask for the whole file; so does one that goes with another content (If-Range).
 */
enum http_status http_choose(const struct http_request *request, const struct http_version *version,
                             struct http_range *range);

#endif
