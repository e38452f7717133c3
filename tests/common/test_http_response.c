/*
 * Heads of answers: that every one fits into the room there is, whatever a folder is called.
 */
#include "common/apps/http/http_response.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(http_response, .timeout = 120);

/* Everything that a head can have beside its Location, as long as it can be. */
static void add_all_others(struct http_head *head)
{
    http_head_add(head, "Last-Modified: ", "Sun, 06 Nov 1994 08:49:37 GMT");
    http_head_add(head, "ETag: ", "\"ffffffffffffffff-ffffffffffffffff-ffffffffffffffff\"");
    http_head_add_range(head, UINT64_MAX - 1, 1, UINT64_MAX);
    http_head_add(head, "Accept-Ranges: ", "bytes");
    http_head_add(head, "Allow: ", "GET, HEAD");
    http_head_add(head, "Content-Type: ", "text/javascript; charset=utf-8");
    http_head_add_number(head, "Content-Length: ", UINT64_MAX);
    http_head_add(head, "Connection: ", "keep-alive");
}

static struct message query_of(size_t length)
{
    static unsigned char text[2 * HTTP_LOCATION_MAX];
    memset(text, 'q', length);
    text[0] = '?';
    return (struct message){text, length};
}

/* A head on the heap, so that a sanitizer sees one byte more. NULL: the name does not fit. */
static struct http_head *head_with(const char *name, struct message query)
{
    struct http_head *head = malloc(sizeof(*head));
    http_head_begin(head, HTTP_HEAD_TOO_LARGE, 784111777); /* the longest status */
    if (!http_head_add_location(head, name, query)) {
        free(head);
        return NULL;
    }
    add_all_others(head);
    struct message text = http_head_end(head);
    cr_assert_leq(text.length, HTTP_HEAD_SIZE);
    cr_assert_eq(memcmp(text.data + text.length - 4, "\r\n\r\n", 4), 0);
    return head;
}

/* 255 characters of three bytes each, as exFAT, NTFS and their like allow, and the longest query.
 */
Test(http_response, the_longest_name_of_a_folder)
{
    char name[255 * 3 + 1] = "";
    char expected[3 * sizeof(name) + 64] = "\r\nLocation: ./";
    for (int i = 0; i < 255; i++) {
        strcat(name, "\xe9\x95\xb7");
        strcat(expected, "%E9%95%B7");
    }
    struct http_head *head = head_with(name, (struct message){0});
    cr_assert_not_null(head);
    cr_assert_not_null(
        memmem(head->text, head->length, strcat(expected, "/\r\n"), strlen(expected)));
    free(head);
    head = head_with(name, query_of(8192));
    cr_assert_not_null(head);
    free(head);
}

Test(http_response, a_location_that_is_too_long_is_refused)
{
    static char name[HTTP_LOCATION_MAX];
    const size_t fixed = strlen("Location: .//\r\n");
    for (size_t length = 1; length <= HTTP_LOCATION_MAX / 3; length *= 3) {
        memset(name, '!', length);
        name[length] = '\0';
        size_t query = HTTP_LOCATION_MAX - fixed - 3 * length;
        struct http_head *head = head_with(name, query_of(query - 1));
        cr_assert_not_null(head, "%zu and %zu", length, query - 1);
        free(head);
        head = head_with(name, query_of(query));
        cr_assert_not_null(head, "%zu and %zu", length, query);
        free(head);
        head = head_with(name, query_of(query + 1));
        cr_assert_null(head, "%zu and %zu", length, query + 1);
    }
}
