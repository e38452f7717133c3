#include "common/apps/http/http_response.h"

#include "common/apps/http/http_date.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct answer {
    enum http_status status;
    const char *name;
    const char *explanation;
} answers[] = {
    {HTTP_OK, "200 OK", ""},
    {HTTP_PARTIAL, "206 Partial Content", ""},
    {HTTP_MOVED, "301 Moved Permanently", "This is a folder: its address ends with a slash."},
    {HTTP_NOT_MODIFIED, "304 Not Modified", ""},
    {HTTP_BAD_REQUEST, "400 Bad Request", "The request is not one that HTTP allows."},
    {HTTP_FORBIDDEN, "403 Forbidden", "This is not served."},
    {HTTP_NOT_FOUND, "404 Not Found", "There is no such page. <a href=\"/\">To the start</a>"},
    {HTTP_NOT_ALLOWED, "405 Method Not Allowed", "Files can be read here, and nothing else."},
    {HTTP_TIMED_OUT, "408 Request Timeout", "The request did not end in time."},
    {HTTP_PRECONDITION_FAILED, "412 Precondition Failed", "The file is another one by now."},
    {HTTP_BODY_TOO_LARGE, "413 Content Too Large", "The request has too large a body."},
    {HTTP_TARGET_TOO_LONG, "414 URI Too Long", "The address is too long."},
    {HTTP_RANGE_UNSATISFIABLE, "416 Range Not Satisfiable", "The file has no such part."},
    {HTTP_EXPECTATION_FAILED, "417 Expectation Failed", "Nothing but 100-continue is known."},
    {HTTP_HEAD_TOO_LARGE, "431 Request Header Fields Too Large",
     "The request's head is too large."},
    {HTTP_INTERNAL_ERROR, "500 Internal Server Error", "The file cannot be read."},
    {HTTP_NOT_IMPLEMENTED, "501 Not Implemented", "This server does not know how to do that."},
    {HTTP_UNAVAILABLE, "503 Service Unavailable", "The server is busy. Try again later."},
    {HTTP_VERSION_UNSUPPORTED, "505 HTTP Version Not Supported", "This server speaks HTTP/1.1."},
};

static const struct answer *answer_of(enum http_status status)
{
    size_t i = 0;
    while (answers[i].status != status)
        i++;
    return &answers[i];
}

/* What is added fits: the one field whose length a client or a file system decides is measured
 * before, in http_head_add_location(). */
static void add(struct http_head *head, const char *text, size_t length)
{
    assert(length <= sizeof(head->text) - head->length);
    if (length == 0)
        return;
    memcpy(head->text + head->length, text, length);
    head->length += length;
}

static void add_text(struct http_head *head, const char *text)
{
    add(head, text, strlen(text));
}

static void add_number(struct http_head *head, uint64_t number)
{
    char digits[20];
    size_t start = sizeof(digits);
    do
        digits[--start] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    add(head, digits + start, sizeof(digits) - start);
}

void http_head_begin(struct http_head *head, enum http_status status, time_t now)
{
    char date[HTTP_DATE_SIZE];
    http_date_write(date, now);
    head->length = 0;
    add_text(head, "HTTP/1.1 ");
    add_text(head, answer_of(status)->name);
    add_text(head, "\r\n");
    http_head_add(head, "Date: ", date);
}

void http_head_add(struct http_head *head, const char *name, const char *value)
{
    add_text(head, name);
    add_text(head, value);
    add_text(head, "\r\n");
}

void http_head_add_number(struct http_head *head, const char *name, uint64_t value)
{
    add_text(head, name);
    add_number(head, value);
    add_text(head, "\r\n");
}

void http_head_add_range(struct http_head *head, uint64_t start, uint64_t length, uint64_t size)
{
    add_text(head, "Content-Range: bytes ");
    if (length > 0) {
        add_number(head, start);
        add_text(head, "-");
        add_number(head, start + length - 1);
    } else {
        add_text(head, "*");
    }
    add_text(head, "/");
    add_number(head, size);
    add_text(head, "\r\n");
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

static size_t escaped_length(const char *name)
{
    size_t length = 0;
    for (; *name != '\0'; name++)
        length += is_plain(*name) ? 1 : 3;
    return length;
}

/*
 * Relative to the folder that the name is in, so that of what the client sent only the query is
 * repeated, in which the request's reader has let no blank and no control character pass.
 */
bool http_head_add_location(struct http_head *head, const char *name, struct message query)
{
    static const char before[] = "Location: ./";
    static const char behind[] = "\r\n";
    size_t fixed = sizeof(before) - 1 + 1 + sizeof(behind) - 1;
    if (fixed + escaped_length(name) + query.length > HTTP_LOCATION_MAX)
        return false;
    add_text(head, before);
    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        char escaped[] = {'%', "0123456789ABCDEF"[c / 16], "0123456789ABCDEF"[c % 16]};
        if (is_plain(*name))
            add(head, name, 1);
        else
            add(head, escaped, sizeof(escaped));
    }
    add_text(head, "/");
    add(head, (const char *)query.data, query.length);
    add_text(head, behind);
    return true;
}

struct message http_head_end(struct http_head *head)
{
    add_text(head, "\r\n");
    return (struct message){(const unsigned char *)head->text, head->length};
}

struct message http_page(char text[HTTP_PAGE_SIZE], enum http_status status)
{
    const struct answer *answer = answer_of(status);
    int length = snprintf(text, HTTP_PAGE_SIZE,
                          "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                          "<title>%s</title>\n<h1>%s</h1>\n<p>%s</p>\n</html>\n",
                          answer->name, answer->name, answer->explanation);
    return (struct message){(const unsigned char *)text, (size_t)length};
}
