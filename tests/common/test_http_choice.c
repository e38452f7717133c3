/*
 * Dates, tags and ranges of HTTP: what is sent of a file, if anything.
 */
#include "common/apps/http/http_choice.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

TestSuite(http_choice, .timeout = 120);

static struct message message_of(const char *text)
{
    return (struct message){(const unsigned char *)text, strlen(text)};
}

/* ---- dates ---- */

static bool read_date(const char *text, time_t *moment)
{
    return http_date_read(message_of(text), moment);
}

Test(http_choice, a_date_is_written_as_the_standard_has_it)
{
    char text[HTTP_DATE_SIZE];
    http_date_write(text, 784111777);
    cr_assert_str_eq(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    http_date_write(text, 0);
    cr_assert_str_eq(text, "Thu, 01 Jan 1970 00:00:00 GMT");
    http_date_write(text, 951782399);
    cr_assert_str_eq(text, "Mon, 28 Feb 2000 23:59:59 GMT");
    http_date_write(text, 951782400);
    cr_assert_str_eq(text, "Tue, 29 Feb 2000 00:00:00 GMT");
    http_date_write(text, 253402300799);
    cr_assert_str_eq(text, "Fri, 31 Dec 9999 23:59:59 GMT");
    http_date_write(text, 253402300800);
    cr_assert_str_eq(text, "Fri, 31 Dec 9999 23:59:59 GMT");
    http_date_write(text, -1);
    cr_assert_str_eq(text, "Thu, 01 Jan 1970 00:00:00 GMT");
}

/* A year of two digits is one of 1970 to 2069. */
Test(http_choice, two_digits_of_a_year)
{
    time_t moment;
    cr_assert(read_date("Thursday, 01-Jan-70 00:00:00 GMT", &moment));
    cr_assert_eq(moment, 0);
    cr_assert(read_date("Friday, 31-Dec-99 23:59:59 GMT", &moment));
    cr_assert_eq(moment, 946684799);
    cr_assert(read_date("Saturday, 01-Jan-00 00:00:00 GMT", &moment));
    cr_assert_eq(moment, 946684800);
    cr_assert(read_date("Tuesday, 31-Dec-69 23:59:59 GMT", &moment));
    cr_assert_eq(moment, 3155759999);
}

/* The C library knows the calendar too. */
Test(http_choice, every_day_is_written_and_read_as_the_library_does)
{
    for (time_t day = 0; day < 366 * 150; day++) {
        char text[HTTP_DATE_SIZE];
        char expected[64];
        struct tm calendar;
        time_t moment = day * 86400 + day % 86400;
        time_t back;
        http_date_write(text, moment);
        gmtime_r(&moment, &calendar);
        strftime(expected, sizeof(expected), "%a, %d %b %Y %H:%M:%S GMT", &calendar);
        cr_assert_str_eq(text, expected);
        cr_assert(read_date(text, &back), "%s", text);
        cr_assert_eq(back, moment, "%s", text);
    }
}

Test(http_choice, dates_of_three_forms)
{
    static const char *const good[] = {"Sun, 06 Nov 1994 08:49:37 GMT",
                                       "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
                                       "Sun Nov 06 08:49:37 1994"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        time_t moment;
        cr_assert(read_date(good[i], &moment), "%s", good[i]);
        cr_assert_eq(moment, 784111777, "%s: %jd", good[i], (intmax_t)moment);
    }
    time_t moment;
    cr_assert(read_date("Sunday, 06-Nov-22 08:49:37 GMT", &moment));
    cr_assert_eq(moment, 1667724577);
}

Test(http_choice, what_is_no_date)
{
    static const char *const bad[] = {"",
                                      "now",
                                      "Sun, 06 Nov 1994 08:49:37",
                                      "Sun, 06 Nov 1994 08:49:37 CET",
                                      "Sun, 06 Nov 1994 08:49:37 GMT ",
                                      "Sun, 6 Nov 1994 08:49:37 GMT",
                                      "Sun, 06 Nvo 1994 08:49:37 GMT",
                                      "Sun, 00 Nov 1994 08:49:37 GMT",
                                      "Sun, 32 Nov 1994 08:49:37 GMT",
                                      "Sun, 06 N0v 1994 08:49:37 GMT",
                                      "Sun, 06 Nov 1994 24:49:37 GMT",
                                      "Sun, 06 Nov 1994 08:60:37 GMT",
                                      "Sun, 06 Nov 1994 08:49:61 GMT",
                                      "Sun, 06 Nov -994 08:49:37 GMT",
                                      "Sun  06 Nov 1994 08:49:37 GMT",
                                      ",",
                                      ", 06-Nov-94 08:49:37",
                                      "Sun, 06 nov 1994 08:49:37 GMT"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        time_t moment;
        cr_assert_not(read_date(bad[i], &moment), "`%s`", bad[i]);
    }
}

/* ---- versions ---- */

static struct stat status_of(ino_t number, time_t seconds, long nanoseconds, off_t size)
{
    return (struct stat){
        .st_ino = number, .st_mtim = {.tv_sec = seconds, .tv_nsec = nanoseconds}, .st_size = size};
}

Test(http_choice, another_content_has_another_tag)
{
    const struct stat all[] = {status_of(1, 1000, 5, 7), status_of(2, 1000, 5, 7),
                               status_of(1, 1001, 5, 7), status_of(1, 1000, 6, 7),
                               status_of(1, 1000, 5, 8)};
    struct http_version first;
    struct http_version other;
    http_version_of(&first, &all[0], 5000);
    http_version_of(&other, &all[0], 6000);
    cr_assert_str_eq(first.tag, other.tag);
    cr_assert_str_eq(first.tag, "\"1-e8d4a51005-7\"");
    for (size_t i = 1; i < sizeof(all) / sizeof(all[0]); i++) {
        http_version_of(&other, &all[i], 5000);
        cr_assert_str_neq(first.tag, other.tag, "%zu", i);
    }
}

Test(http_choice, the_longest_tag_fits)
{
    struct http_version version;
    struct stat status = status_of((ino_t)UINT64_MAX, -1, 0, (off_t)INT64_MAX);
    http_version_of(&version, &status, 0);
    cr_assert_lt(strlen(version.tag), HTTP_TAG_SIZE);
    cr_assert_eq(version.tag[strlen(version.tag) - 1], '"');
}

Test(http_choice, a_file_from_the_future_was_modified_now)
{
    struct http_version version;
    struct stat status = status_of(1, 9000, 0, 0);
    http_version_of(&version, &status, 5000);
    cr_assert_eq(version.modified, 5000);
    cr_assert_not(version.is_settled);
}

/* Whatever else is written into the file in the same second has the same date. */
Test(http_choice, a_file_is_settled_when_its_second_is_over)
{
    struct http_version version;
    struct stat status = status_of(1, 5000, 999999999, 0);
    http_version_of(&version, &status, 5000);
    cr_assert_not(version.is_settled);
    http_version_of(&version, &status, 5001);
    cr_assert(version.is_settled);
    cr_assert_eq(version.modified, 5000);
}

/* ---- choices ---- */

#define WRITTEN "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE  "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER   "Sun, 06 Nov 1994 08:49:38 GMT"

/* What a request has said, and what it gets of a file with 1000 bytes and the tag "tag". */
static const struct choice {
    const char *range;
    const char *if_range;
    const char *if_none_match;
    const char *if_modified_since;
    enum http_status status;
    uint64_t start;
    uint64_t length;
} choices[] = {
    {NULL, NULL, NULL, NULL, HTTP_OK, 0, 1000},
    /* one range */
    {"bytes=0-0", NULL, NULL, NULL, HTTP_PARTIAL, 0, 1},
    {"bytes=0-999", NULL, NULL, NULL, HTTP_PARTIAL, 0, 1000},
    {"bytes=10-19", NULL, NULL, NULL, HTTP_PARTIAL, 10, 10},
    {"Bytes=10-19", NULL, NULL, NULL, HTTP_PARTIAL, 10, 10},
    {"bytes=10-", NULL, NULL, NULL, HTTP_PARTIAL, 10, 990},
    {"bytes=999-", NULL, NULL, NULL, HTTP_PARTIAL, 999, 1},
    {"bytes=990-5000", NULL, NULL, NULL, HTTP_PARTIAL, 990, 10},
    {"bytes=10-99999999999999999999999", NULL, NULL, NULL, HTTP_PARTIAL, 10, 990},
    {"bytes=0-18446744073709551615", NULL, NULL, NULL, HTTP_PARTIAL, 0, 1000},
    {"bytes=-1", NULL, NULL, NULL, HTTP_PARTIAL, 999, 1},
    {"bytes=-1000", NULL, NULL, NULL, HTTP_PARTIAL, 0, 1000},
    {"bytes=-5000", NULL, NULL, NULL, HTTP_PARTIAL, 0, 1000},
    {"bytes=-99999999999999999999999", NULL, NULL, NULL, HTTP_PARTIAL, 0, 1000},
    {"bytes=1000-", NULL, NULL, NULL, HTTP_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=1000-2000", NULL, NULL, NULL, HTTP_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=99999999999999999999999-", NULL, NULL, NULL, HTTP_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=-0", NULL, NULL, NULL, HTTP_RANGE_UNSATISFIABLE, 0, 0},
    /* none, or more than one */
    {"bytes=10-9", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=-", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=1", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=a-b", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=1-2x", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=1--2", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes= 1-2", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"lines=1-2", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=0-1,5-6", NULL, NULL, NULL, HTTP_OK, 0, 1000},
    /* of this content, or of another */
    {"bytes=1-2", "\"tag\"", NULL, NULL, HTTP_PARTIAL, 1, 2},
    {"bytes=1-2", "\"tog\"", NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=1-2", "W/\"tag\"", NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=1-2", "\"tag\", \"tog\"", NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=1-2", "", NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=1-2", WRITTEN, NULL, NULL, HTTP_PARTIAL, 1, 2},
    {"bytes=1-2", BEFORE, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=1-2", AFTER, NULL, NULL, HTTP_OK, 0, 1000},
    {"bytes=5000-", "\"tog\"", NULL, NULL, HTTP_OK, 0, 1000},
    /* known already */
    {NULL, NULL, "\"tag\"", NULL, HTTP_NOT_MODIFIED, 0, 0},
    {NULL, NULL, "W/\"tag\"", NULL, HTTP_NOT_MODIFIED, 0, 0},
    {NULL, NULL, "*", NULL, HTTP_NOT_MODIFIED, 0, 0},
    {NULL, NULL, "\"tog\", \"tag\"", NULL, HTTP_NOT_MODIFIED, 0, 0},
    {NULL, NULL, "\"tog\",W/\"tag\"", NULL, HTTP_NOT_MODIFIED, 0, 0},
    {NULL, NULL, ", ,\"\",\t\"tag\"", NULL, HTTP_NOT_MODIFIED, 0, 0},
    {NULL, NULL, "\"tog\"", NULL, HTTP_OK, 0, 1000},
    {NULL, NULL, "tag", NULL, HTTP_OK, 0, 1000},
    {NULL, NULL, "\"tag", NULL, HTTP_OK, 0, 1000},
    {NULL, NULL, "\"ta\"", NULL, HTTP_OK, 0, 1000},
    {NULL, NULL, "\"tagg\"", NULL, HTTP_OK, 0, 1000},
    {NULL, NULL, "w/\"tag\"", NULL, HTTP_OK, 0, 1000},
    {NULL, NULL, "W/", NULL, HTTP_OK, 0, 1000},
    {NULL, NULL, "", NULL, HTTP_OK, 0, 1000},
    {NULL, NULL, NULL, WRITTEN, HTTP_NOT_MODIFIED, 0, 0},
    {NULL, NULL, NULL, AFTER, HTTP_NOT_MODIFIED, 0, 0},
    {NULL, NULL, NULL, BEFORE, HTTP_OK, 0, 1000},
    {NULL, NULL, NULL, "yesterday", HTTP_OK, 0, 1000},
    /* the tag counts more than the date, and both more than the range */
    {NULL, NULL, "\"tog\"", AFTER, HTTP_OK, 0, 1000},
    {NULL, NULL, "\"tag\"", BEFORE, HTTP_NOT_MODIFIED, 0, 0},
    {"bytes=1-2", NULL, "\"tag\"", NULL, HTTP_NOT_MODIFIED, 0, 0},
    {"bytes=1-2", NULL, "\"tog\"", NULL, HTTP_PARTIAL, 1, 2},
    {"bytes=5000-", NULL, NULL, WRITTEN, HTTP_NOT_MODIFIED, 0, 0},
};

static struct message optional(const char *text)
{
    return text != NULL ? message_of(text) : (struct message){0};
}

static struct http_list list_of(struct message field)
{
    return (struct http_list){.count = field.data != NULL, .fields = {field}};
}

/* The text at the very end of its memory, so that a sanitizer sees one byte more. */
static struct message copy_of(const char *text)
{
    struct message message = optional(text);
    if (text == NULL)
        return message;
    unsigned char *copy = malloc(message.length > 0 ? message.length : 1);
    memcpy(copy, message.data, message.length);
    return (struct message){copy, message.length};
}

Test(http_choice, choices)
{
    const struct http_version version = {
        .size = 1000, .modified = 784111777, .is_settled = true, .tag = "\"tag\""};
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        const struct choice *c = &choices[i];
        struct http_request request = {.range = copy_of(c->range),
                                       .if_range = copy_of(c->if_range),
                                       .if_none_match = list_of(copy_of(c->if_none_match)),
                                       .if_modified_since = copy_of(c->if_modified_since)};
        struct http_range range;
        enum http_status status = http_choose(&request, &version, &range);
        cr_assert_eq(status, c->status, "choice %zu: %d, not %d", i, (int)status, (int)c->status);
        if (status == HTTP_OK || status == HTTP_PARTIAL)
            cr_assert(range.start == c->start && range.length == c->length,
                      "choice %zu: %" PRIu64 " from %" PRIu64, i, range.length, range.start);
        free((void *)(uintptr_t)request.range.data);
        free((void *)(uintptr_t)request.if_range.data);
        free((void *)(uintptr_t)request.if_none_match.fields[0].data);
        free((void *)(uintptr_t)request.if_modified_since.data);
    }
}

/* The conditions under which a client means this file at all, beside others that hold or not. */
static const struct meaning {
    const char *if_match;
    const char *if_unmodified_since;
    const char *if_none_match;
    const char *if_modified_since;
    const char *range;
    enum http_status status;
} meanings[] = {
    {"\"tag\"", NULL, NULL, NULL, NULL, HTTP_OK},
    {"*", NULL, NULL, NULL, NULL, HTTP_OK},
    {"\"tog\", \"tag\"", NULL, NULL, NULL, NULL, HTTP_OK},
    {"W/\"tog\", \"tag\"", NULL, NULL, NULL, NULL, HTTP_OK},
    {"\"tog\"", NULL, NULL, NULL, NULL, HTTP_PRECONDITION_FAILED},
    {"W/\"tag\"", NULL, NULL, NULL, NULL, HTTP_PRECONDITION_FAILED}, /* 13.1.1: strongly */
    {"tag", NULL, NULL, NULL, NULL, HTTP_PRECONDITION_FAILED},
    {"", NULL, NULL, NULL, NULL, HTTP_PRECONDITION_FAILED},
    {"\"tag\"", NULL, NULL, NULL, "bytes=1-2", HTTP_PARTIAL},
    {"\"tog\"", NULL, NULL, NULL, "bytes=1-2", HTTP_PRECONDITION_FAILED},
    {"\"tog\"", NULL, NULL, NULL, "bytes=5000-", HTTP_PRECONDITION_FAILED},
    {NULL, WRITTEN, NULL, NULL, NULL, HTTP_OK},
    {NULL, AFTER, NULL, NULL, NULL, HTTP_OK},
    {NULL, BEFORE, NULL, NULL, NULL, HTTP_PRECONDITION_FAILED},
    {NULL, BEFORE, NULL, NULL, "bytes=1-2", HTTP_PRECONDITION_FAILED},
    {NULL, AFTER, NULL, NULL, "bytes=1-2", HTTP_PARTIAL},
    {NULL, "yesterday", NULL, NULL, NULL, HTTP_OK},
    {NULL, "", NULL, NULL, NULL, HTTP_OK},
    /* the tag counts and not the date, and both before what the client has already */
    {"\"tag\"", BEFORE, NULL, NULL, NULL, HTTP_OK},
    {"\"tog\"", AFTER, NULL, NULL, NULL, HTTP_PRECONDITION_FAILED},
    {"\"tog\"", NULL, "\"tag\"", NULL, NULL, HTTP_PRECONDITION_FAILED},
    {"\"tag\"", NULL, "\"tag\"", NULL, NULL, HTTP_NOT_MODIFIED},
    {NULL, BEFORE, "\"tag\"", NULL, NULL, HTTP_PRECONDITION_FAILED},
    {NULL, BEFORE, NULL, AFTER, NULL, HTTP_PRECONDITION_FAILED},
    {NULL, AFTER, NULL, AFTER, NULL, HTTP_NOT_MODIFIED},
};

Test(http_choice, conditions_for_sending_anything)
{
    const struct http_version version = {.size = 1000, .modified = 784111777, .tag = "\"tag\""};
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        const struct meaning *m = &meanings[i];
        struct http_request request = {.if_match = list_of(optional(m->if_match)),
                                       .if_unmodified_since = optional(m->if_unmodified_since),
                                       .if_none_match = list_of(optional(m->if_none_match)),
                                       .if_modified_since = optional(m->if_modified_since),
                                       .range = optional(m->range)};
        struct http_range range;
        enum http_status status = http_choose(&request, &version, &range);
        cr_assert_eq(status, m->status, "%zu: %d, not %d", i, (int)status, (int)m->status);
    }
}

/* As if a comma stood between them, so what is no list ends it, and a * stands alone. */
Test(http_choice, a_list_in_several_fields_is_one_list)
{
    static const struct {
        const char *first;
        const char *second;
        bool names_it;
    } lists[] = {
        {"\"tog\"", "\"tag\"", true},  {"\"tag\"", "\"tog\"", true}, {"", "\"tag\"", true},
        {"\"tog\"", "\"tug\"", false}, {"tog", "\"tag\"", false},    {"*", "\"tog\"", false},
        {"\"tog\"", "*", false},       {"\"tag\"", "*", true},       {"\"tag", "\"", false},
    };
    const struct http_version version = {.size = 1000, .modified = 784111777, .tag = "\"tag\""};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct http_list list = {
            .count = 2, .fields = {message_of(lists[i].first), message_of(lists[i].second)}};
        struct http_request match = {.if_match = list};
        struct http_request none_match = {.if_none_match = list};
        struct http_range range;
        cr_assert_eq(http_choose(&match, &version, &range),
                     lists[i].names_it ? HTTP_OK : HTTP_PRECONDITION_FAILED, "%zu", i);
        cr_assert_eq(http_choose(&none_match, &version, &range),
                     lists[i].names_it ? HTTP_NOT_MODIFIED : HTTP_OK, "%zu", i);
    }
}

/* Two contents of one second have one date. */
Test(http_choice, a_date_that_may_stand_for_two_contents_gives_no_part)
{
    struct http_version version = {.size = 1000, .modified = 784111777, .tag = "\"tag\""};
    struct http_request request = {.range = message_of("bytes=1-2"),
                                   .if_range = message_of(WRITTEN)};
    struct http_range range;
    cr_assert_eq(http_choose(&request, &version, &range), HTTP_OK);
    cr_assert_eq(range.length, 1000);
    version.is_settled = true;
    cr_assert_eq(http_choose(&request, &version, &range), HTTP_PARTIAL);
    version.is_settled = false;
    request.if_range = message_of("\"tag\"");
    cr_assert_eq(http_choose(&request, &version, &range), HTTP_PARTIAL);
}

Test(http_choice, a_head_is_never_partial)
{
    const struct http_version version = {
        .size = 1000, .modified = 784111777, .is_settled = true, .tag = "\"tag\""};
    struct http_request request = {.method = HTTP_METHOD_HEAD, .range = message_of("bytes=1-2")};
    struct http_range range;
    cr_assert_eq(http_choose(&request, &version, &range), HTTP_OK);
    cr_assert_eq(range.length, 1000);
}

/* Its last five bytes are all that it has: none, which no Content-Range can say. */
Test(http_choice, an_empty_file_has_no_part)
{
    const struct http_version version = {.size = 0, .tag = "\"tag\""};
    static const struct {
        const char *text;
        enum http_status status;
    } ranges[] = {{"bytes=0-", HTTP_RANGE_UNSATISFIABLE},
                  {"bytes=0-0", HTTP_RANGE_UNSATISFIABLE},
                  {"bytes=-0", HTTP_RANGE_UNSATISFIABLE},
                  {"bytes=-1", HTTP_OK},
                  {"bytes=-5", HTTP_OK}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        struct http_request request = {.range = message_of(ranges[i].text)};
        struct http_range range;
        cr_assert_eq(http_choose(&request, &version, &range), ranges[i].status, "%s",
                     ranges[i].text);
        cr_assert_eq(range.length, 0, "%s", ranges[i].text);
    }
}

/* Beyond the largest number nothing wraps round. */
Test(http_choice, the_largest_file)
{
    const struct http_version version = {.size = INT64_MAX, .tag = "\"tag\""};
    struct http_request request = {.range = message_of("bytes=1-18446744073709551615")};
    struct http_range range;
    cr_assert_eq(http_choose(&request, &version, &range), HTTP_PARTIAL);
    cr_assert_eq(range.start, 1);
    cr_assert_eq(range.length, INT64_MAX - 1);
}
