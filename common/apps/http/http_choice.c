#include "common/apps/http/http_choice.h"

#include <string.h>
#include <strings.h>

/* ---- The version of a file ----------------------------------------------------------------- */

static char *write_hexadecimal(char *to, uint64_t number)
{
    char digits[16];
    size_t count = 0;
    do
        digits[count++] = "0123456789abcdef"[number % 16];
    while ((number /= 16) > 0);
    while (count > 0)
        *to++ = digits[--count];
    return to;
}

/* In nanoseconds, as far as the system knows them. */
static uint64_t exact_time(const struct stat *status)
{
#ifdef __APPLE__
    const struct timespec *time = &status->st_mtimespec;
#else
    const struct timespec *time = &status->st_mtim;
#endif
    return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
}

void http_version_of(struct http_version *version, const struct stat *status, time_t now)
{
    version->size = (uint64_t)status->st_size;
    version->is_settled = status->st_mtime < now;
    version->modified = version->is_settled ? status->st_mtime : now;
    char *to = version->tag;
    *to++ = '"';
    to = write_hexadecimal(to, (uint64_t)status->st_ino);
    *to++ = '-';
    to = write_hexadecimal(to, exact_time(status));
    *to++ = '-';
    to = write_hexadecimal(to, version->size);
    *to++ = '"';
    *to = '\0';
}

/* ---- Conditions ---------------------------------------------------------------------------- */

static bool is_between_tags(unsigned char c)
{
    return c == ' ' || c == '\t' || c == ',';
}

/* The length of the tag that the text begins with, its quotes included; 0: there is none. */
static size_t tag_length(struct message text)
{
    if (text.length < 2 || text.data[0] != '"')
        return 0;
    const unsigned char *end = memchr(text.data + 1, '"', text.length - 1);
    return end != NULL ? (size_t)(end - text.data) + 1 : 0;
}

static struct message skip(struct message text, size_t count)
{
    return (struct message){text.data + count, text.length - count};
}

static bool is_tag(struct message text, const char *tag)
{
    return text.length == strlen(tag) && memcmp(text.data, tag, text.length) == 0;
}

/* What is found in one field of a list. */
enum search { SEARCH_NOT_YET, SEARCH_FOUND, SEARCH_NO_LIST };

/* A weak tag, W/"TAG", is the same only if weak ones do. */
static enum search search_tags(struct message text, const char *tag, bool weak_ones_do)
{
    while (text.length > 0) {
        if (is_between_tags(text.data[0])) {
            text = skip(text, 1);
            continue;
        }
        bool is_weak = text.length > 2 && text.data[0] == 'W' && text.data[1] == '/';
        if (is_weak)
            text = skip(text, 2);
        size_t length = tag_length(text);
        if (length == 0)
            return SEARCH_NO_LIST;
        if (is_tag((struct message){text.data, length}, tag) && (!is_weak || weak_ones_do))
            return SEARCH_FOUND;
        text = skip(text, length);
    }
    return SEARCH_NOT_YET;
}

/* Whether a list of tags names this one, in whichever of its fields. */
static bool names_tag(const struct http_list *list, const char *tag, bool weak_ones_do)
{
    enum search search = SEARCH_NOT_YET;
    if (list->count == 1 && list->fields[0].length == 1 && list->fields[0].data[0] == '*')
        return true;
    for (unsigned i = 0; i < list->count && search == SEARCH_NOT_YET; i++)
        search = search_tags(list->fields[i], tag, weak_ones_do);
    return search == SEARCH_FOUND;
}

/* Whether the file is the one that the client means; a date that cannot be read means any. */
static bool is_meant(const struct http_request *request, const struct http_version *version)
{
    time_t since;
    if (request->if_match.count > 0)
        return names_tag(&request->if_match, version->tag, false);
    return request->if_unmodified_since.data == NULL ||
           !http_date_read(request->if_unmodified_since, &since) || version->modified <= since;
}

static bool is_known(const struct http_request *request, const struct http_version *version)
{
    time_t since;
    if (request->if_none_match.count > 0)
        return names_tag(&request->if_none_match, version->tag, true);
    return request->if_modified_since.data != NULL &&
           http_date_read(request->if_modified_since, &since) && version->modified <= since;
}

/*
 * Whether the part that is asked for belongs to this content: the tag, or the very date. The file
 * may change again within a second, so a date tells contents apart only once its second is over
 * (RFC 9110, section 8.8.2.2).
 */
static bool range_applies(const struct http_request *request, const struct http_version *version)
{
    time_t date;
    if (request->if_range.data == NULL)
        return true;
    if (is_tag(request->if_range, version->tag))
        return true;
    return version->is_settled && http_date_read(request->if_range, &date) &&
           date == version->modified;
}

/* ---- Ranges -------------------------------------------------------------------------------- */

/* Takes digits; how many. A number that is too large is the largest. */
static size_t take_number(struct message *text, uint64_t *number)
{
    size_t count = 0;
    *number = 0;
    while (text->length > 0 && text->data[0] >= '0' && text->data[0] <= '9') {
        unsigned digit = text->data[0] - (unsigned)'0';
        bool fits = *number <= (UINT64_MAX - digit) / 10;
        *number = fits ? *number * 10 + digit : UINT64_MAX;
        *text = skip(*text, 1);
        count++;
    }
    return count;
}

/* The last `count` bytes. An empty file has them all, but no Content-Range can say so. */
static enum http_status choose_end(uint64_t count, uint64_t size, struct http_range *range)
{
    if (count == 0)
        return HTTP_RANGE_UNSATISFIABLE;
    if (size == 0)
        return HTTP_OK;
    range->length = count < size ? count : size;
    range->start = size - range->length;
    return HTTP_PARTIAL;
}

/* FIRST-LAST, FIRST- or -COUNT; HTTP_OK if it is none of these. */
static enum http_status choose_part(struct message text, uint64_t size, struct http_range *range)
{
    uint64_t first;
    uint64_t last;
    size_t digits = take_number(&text, &first);
    if (text.length == 0 || text.data[0] != '-')
        return HTTP_OK;
    text = skip(text, 1);
    size_t more_digits = take_number(&text, &last);
    if (text.length > 0 || digits + more_digits == 0)
        return HTTP_OK;
    if (digits == 0)
        return choose_end(last, size, range);
    if (more_digits == 0)
        last = UINT64_MAX;
    if (last < first)
        return HTTP_OK;
    if (first >= size)
        return HTTP_RANGE_UNSATISFIABLE;
    if (last >= size)
        last = size - 1;
    *range = (struct http_range){first, last - first + 1};
    return HTTP_PARTIAL;
}

/* In the order of RFC 9110, section 13.2.2. */
enum http_status http_choose(const struct http_request *request, const struct http_version *version,
                             struct http_range *range)
{
    static const char unit[] = "bytes=";
    struct message wanted = request->range;
    *range = (struct http_range){0, version->size};
    if (!is_meant(request, version))
        return HTTP_PRECONDITION_FAILED;
    if (is_known(request, version))
        return HTTP_NOT_MODIFIED;
    if (request->method != HTTP_METHOD_GET || wanted.length <= sizeof(unit) - 1 ||
        strncasecmp((const char *)wanted.data, unit, sizeof(unit) - 1) != 0 ||
        !range_applies(request, version))
        return HTTP_OK;
    return choose_part(skip(wanted, sizeof(unit) - 1), version->size, range);
}
