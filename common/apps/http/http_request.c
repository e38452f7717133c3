#include "common/apps/http/http_request.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* What is left to read of a head, or of a line of it. */
struct reader {
    const unsigned char *next;
    const unsigned char *end;
};

/* What the fields have said, before it is known how they go together. */
struct fields {
    unsigned count;
    bool host;
    bool length;
    bool encoding;
    bool ends_chunked; /* of several encodings the last one is chunked */
    bool keep_alive;
};

/* ---- Characters ---------------------------------------------------------------------------- */

static bool is_alphanumeric(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_one_of(unsigned char c, const char *characters)
{
    return c != '\0' && strchr(characters, c) != NULL;
}

static bool is_token_character(unsigned char c)
{
    return is_alphanumeric(c) || is_one_of(c, "!#$%&'*+-.^_`|~");
}

/* Text of a field: no control character but the tab. */
static bool is_text(unsigned char c)
{
    return (c >= ' ' && c != 0x7f) || c == '\t';
}

static bool is_visible(unsigned char c)
{
    return c > ' ' && c < 0x7f;
}

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}

static bool equals(struct message text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.data, word, text.length) == 0;
}

static bool equals_ignoring_case(struct message text, const char *word)
{
    return text.length == strlen(word) &&
           strncasecmp((const char *)text.data, word, text.length) == 0;
}

static struct message text_between(const unsigned char *start, const unsigned char *end)
{
    return (struct message){start, (size_t)(end - start)};
}

/* Takes what stands before the next c, and c itself. */
static bool take_until(struct reader *reader, unsigned char c, struct message *text)
{
    const unsigned char *found = memchr(reader->next, c, (size_t)(reader->end - reader->next));
    if (found == NULL)
        return false;
    *text = text_between(reader->next, found);
    reader->next = found + 1;
    return true;
}

/* Takes the next line without its end, which has to be CR LF. */
static bool take_line(struct reader *reader, struct message *line)
{
    if (!take_until(reader, '\n', line) || line->length == 0 ||
        line->data[line->length - 1] != '\r')
        return false;
    line->length--;
    return true;
}

/* ---- Hosts (RFC 3986, section 3.2) --------------------------------------------------------- */

static bool is_hexadecimal(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* What may stand in a name as it is: unreserved characters and sub-delims. */
static bool is_name_character(unsigned char c)
{
    return is_alphanumeric(c) || is_one_of(c, "-._~!$&'()*+,;=");
}

/* A name, or an address of version 4, which is a name by its grammar. It may be empty. */
static bool is_host_name(struct message text)
{
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] != '%') {
            if (!is_name_character(text.data[i]))
                return false;
            continue;
        }
        if (text.length - i < 3 || !is_hexadecimal(text.data[i + 1]) ||
            !is_hexadecimal(text.data[i + 2]))
            return false;
        i += 2;
    }
    return true;
}

/* vHEX.TEXT: an address of a version that is still to come. */
static bool is_future_address(struct message text)
{
    size_t i = 1;
    while (i < text.length && is_hexadecimal(text.data[i]))
        i++;
    if (i == 1 || text.length - i < 2 || text.data[i] != '.')
        return false;
    for (i++; i < text.length; i++)
        if (!is_name_character(text.data[i]) && text.data[i] != ':')
            return false;
    return true;
}

/* What stands between brackets. */
static bool is_address(struct message text)
{
    char address[INET6_ADDRSTRLEN] = "";
    struct in6_addr ignored;
    if (text.length > 0 && (text.data[0] == 'v' || text.data[0] == 'V'))
        return is_future_address(text);
    if (text.length >= sizeof(address))
        return false;
    memcpy(address, text.data, text.length);
    return inet_pton(AF_INET6, address, &ignored) == 1;
}

/* HOST or HOST:PORT, by its grammar; whose it is does not matter to files. */
static bool is_authority(struct message text, bool may_be_empty)
{
    struct reader reader = {text.data, text.data + text.length};
    struct message host;
    if (text.length > 0 && text.data[0] == '[') {
        reader.next++;
        if (!take_until(&reader, ']', &host) || !is_address(host))
            return false;
    } else {
        while (reader.next < reader.end && *reader.next != ':')
            reader.next++;
        host = text_between(text.data, reader.next);
        if (!is_host_name(host) || (host.length == 0 && !may_be_empty))
            return false;
    }
    if (reader.next == reader.end)
        return true;
    if (*reader.next++ != ':')
        return false;
    while (reader.next < reader.end && *reader.next >= '0' && *reader.next <= '9')
        reader.next++;
    return reader.next == reader.end;
}

/* ---- The request line ---------------------------------------------------------------------- */

static enum http_method method_of(struct message word)
{
    static const char *const others[] = {"POST",    "PUT",   "DELETE", "CONNECT",
                                         "OPTIONS", "TRACE", "PATCH"};
    if (equals(word, "GET"))
        return HTTP_METHOD_GET;
    if (equals(word, "HEAD"))
        return HTTP_METHOD_HEAD;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (equals(word, others[i]))
            return HTTP_METHOD_OTHER;
    return HTTP_METHOD_UNKNOWN;
}

static bool is_token(struct message word)
{
    for (size_t i = 0; i < word.length; i++)
        if (!is_token_character(word.data[i]))
            return false;
    return word.length > 0;
}

/* HTTP/1.1 and later ones with the same first number are all 1.1 to us. */
static enum http_status read_version(struct http_request *request, struct message word)
{
    if (word.length != 8 || memcmp(word.data, "HTTP/", 5) != 0 || word.data[6] != '.')
        return HTTP_BAD_REQUEST;
    unsigned char major = word.data[5];
    unsigned char minor = word.data[7];
    if (major < '0' || major > '9' || minor < '0' || minor > '9')
        return HTTP_BAD_REQUEST;
    request->is_1_0 = minor == '0';
    return major == '1' ? HTTP_OK : HTTP_VERSION_UNSUPPORTED;
}

/* http://HOST/PATH, as a proxy is asked: the path begins behind the host. */
static bool skip_host(struct message *target)
{
    static const char scheme[] = "http://";
    const size_t skipped = sizeof(scheme) - 1;
    if (target->length <= skipped || strncasecmp((const char *)target->data, scheme, skipped) != 0)
        return false;
    size_t end = skipped;
    while (end < target->length && !is_one_of(target->data[end], "/?"))
        end++;
    struct message host = {target->data + skipped, end - skipped};
    bool good = is_authority(host, false); /* in a URI of http the host is never empty */
    *target = (struct message){target->data + end, target->length - end};
    return good;
}

/* Takes the query, with its question mark, off the end of the target. */
static struct message take_query(struct message *target)
{
    const unsigned char *end = target->data + target->length;
    const unsigned char *query = memchr(target->data, '?', target->length);
    if (query == NULL)
        return (struct message){0};
    *target = text_between(target->data, query);
    return text_between(query, end);
}

static enum http_status read_target(struct http_request *request, struct message target)
{
    static const unsigned char root[] = "/";
    for (size_t i = 0; i < target.length; i++)
        if (!is_visible(target.data[i]) || target.data[i] == '#')
            return HTTP_BAD_REQUEST;
    if (target.length == 0)
        return HTTP_BAD_REQUEST;
    if (request->method != HTTP_METHOD_GET && request->method != HTTP_METHOD_HEAD)
        return HTTP_OK; /* of any form: we do not read it */
    if (target.data[0] != '/' && !skip_host(&target))
        return HTTP_BAD_REQUEST;
    request->query = take_query(&target);
    request->path = target;
    if (request->path.length == 0)
        request->path = (struct message){root, 1};
    return HTTP_OK;
}

/* METHOD TARGET VERSION, with one space between them. */
static enum http_status read_request_line(struct http_request *request, struct message line)
{
    struct reader reader = {line.data, line.data + line.length};
    struct message method;
    struct message target;
    bool has_method = take_until(&reader, ' ', &method) && is_token(method);
    if (has_method)
        request->method = method_of(method); /* first, because no answer to HEAD has a body */
    if (line.length > HTTP_LINE_MAX)
        return HTTP_TARGET_TOO_LONG;
    if (!has_method || !take_until(&reader, ' ', &target))
        return HTTP_BAD_REQUEST;
    enum http_status status = read_version(request, text_between(reader.next, reader.end));
    return status == HTTP_OK ? read_target(request, target) : status;
}

/* ---- Fields -------------------------------------------------------------------------------- */

static struct message trimmed(struct message text)
{
    while (text.length > 0 && is_blank(text.data[0])) {
        text.data++;
        text.length--;
    }
    while (text.length > 0 && is_blank(text.data[text.length - 1]))
        text.length--;
    return text;
}

static enum http_status read_host(struct http_request *request, struct fields *fields,
                                  struct message value)
{
    (void)request;
    if (fields->host || !is_authority(value, true))
        return HTTP_BAD_REQUEST;
    fields->host = true;
    return HTTP_OK;
}

/* Digits and nothing else: no sign, no list, no number that does not fit. */
static enum http_status read_length(struct http_request *request, struct fields *fields,
                                    struct message value)
{
    if (fields->length || value.length == 0)
        return HTTP_BAD_REQUEST;
    fields->length = true;
    request->body = 0;
    for (size_t i = 0; i < value.length; i++) {
        unsigned digit = value.data[i] - (unsigned)'0';
        if (digit > 9 || request->body > (UINT64_MAX - digit) / 10)
            return HTTP_BAD_REQUEST;
        request->body = request->body * 10 + digit;
    }
    return HTTP_OK;
}

/* Takes the next word of a list with commas between them; empty ones are passed over. */
static bool take_word(struct reader *list, struct message *word)
{
    while (list->next < list->end) {
        if (!take_until(list, ',', word)) {
            *word = text_between(list->next, list->end);
            list->next = list->end;
        }
        *word = trimmed(*word);
        if (word->length > 0)
            return true;
    }
    return false;
}

/* Of several fields the last one counts: together they are one list. */
static enum http_status read_encoding(struct http_request *request, struct fields *fields,
                                      struct message value)
{
    struct reader list = {value.data, value.data + value.length};
    struct message word;
    (void)request;
    fields->encoding = true;
    while (take_word(&list, &word))
        fields->ends_chunked = equals_ignoring_case(word, "chunked");
    return HTTP_OK;
}

static enum http_status read_connection(struct http_request *request, struct fields *fields,
                                        struct message value)
{
    struct reader list = {value.data, value.data + value.length};
    struct message word;
    while (take_word(&list, &word)) {
        if (equals_ignoring_case(word, "close"))
            request->closes = true;
        else if (equals_ignoring_case(word, "keep-alive"))
            fields->keep_alive = true;
    }
    return HTTP_OK;
}

static enum http_status read_expect(struct http_request *request, struct fields *fields,
                                    struct message value)
{
    (void)fields;
    if (!equals_ignoring_case(value, "100-continue"))
        return HTTP_EXPECTATION_FAILED;
    request->waits = true;
    return HTTP_OK;
}

/* RFC 9110, section 5.3: a proxy may have cut one list into several fields, or joined them. */
static enum http_status add_to(struct http_list *list, struct message value)
{
    if (list->count == HTTP_LIST_MAX)
        return HTTP_HEAD_TOO_LARGE;
    list->fields[list->count++] = value;
    return HTTP_OK;
}

static enum http_status read_if_match(struct http_request *request, struct fields *fields,
                                      struct message value)
{
    (void)fields;
    return add_to(&request->if_match, value);
}

static enum http_status read_if_none_match(struct http_request *request, struct fields *fields,
                                           struct message value)
{
    (void)fields;
    return add_to(&request->if_none_match, value);
}

/*
 * A date or a range cannot be joined. Of two such fields none is kept, but an empty value, which is
 * the safe one: an empty condition for sending less than the whole file does not hold.
 */
static void keep(struct message *kept, struct message value)
{
    static const unsigned char nothing[] = "";
    *kept = kept->data == NULL ? value : (struct message){nothing, 0};
}

static const struct field {
    const char *name;
    enum http_status (*read)(struct http_request *request, struct fields *fields,
                             struct message value); /* NULL: the value is kept as it is, there: */
    size_t kept_at;                                 /* offset in the request */
} known_fields[] = {
    {"Host", read_host, 0},
    {"Connection", read_connection, 0},
    {"Content-Length", read_length, 0},
    {"Transfer-Encoding", read_encoding, 0},
    {"Expect", read_expect, 0},
    {"Range", NULL, offsetof(struct http_request, range)},
    {"If-Range", NULL, offsetof(struct http_request, if_range)},
    {"If-Match", read_if_match, 0},
    {"If-None-Match", read_if_none_match, 0},
    {"If-Modified-Since", NULL, offsetof(struct http_request, if_modified_since)},
    {"If-Unmodified-Since", NULL, offsetof(struct http_request, if_unmodified_since)},
};

static enum http_status read_value(const struct field *field, struct http_request *request,
                                   struct fields *fields, struct message value)
{
    if (field->read != NULL)
        return field->read(request, fields, value);
    void *kept = (char *)request + field->kept_at;
    keep(kept, value);
    return HTTP_OK;
}

/* NAME: VALUE. A name has no blank in it, so neither a continued line nor `Name :` passes. */
static enum http_status read_field(struct http_request *request, struct fields *fields,
                                   struct message line)
{
    struct reader reader = {line.data, line.data + line.length};
    struct message name;
    if (!take_until(&reader, ':', &name) || !is_token(name))
        return HTTP_BAD_REQUEST;
    for (const unsigned char *c = reader.next; c < reader.end; c++)
        if (!is_text(*c))
            return HTTP_BAD_REQUEST;
    if (++fields->count > HTTP_FIELDS_MAX)
        return HTTP_HEAD_TOO_LARGE;
    for (size_t i = 0; i < sizeof(known_fields) / sizeof(known_fields[0]); i++)
        if (equals_ignoring_case(name, known_fields[i].name))
            return read_value(&known_fields[i], request, fields,
                              trimmed(text_between(reader.next, reader.end)));
    return HTTP_OK;
}

/* What the fields say together. */
static enum http_status judge(struct http_request *request, const struct fields *fields)
{
    bool has_end = fields->ends_chunked && !fields->length && !request->is_1_0;
    if (fields->encoding)
        return has_end ? HTTP_NOT_IMPLEMENTED : HTTP_BAD_REQUEST;
    if (!fields->host && !request->is_1_0)
        return HTTP_BAD_REQUEST;
    if (request->is_1_0 && !fields->keep_alive)
        request->closes = true;
    if (request->body == 0 || request->is_1_0)
        request->waits = false; /* there is no body to wait for, and 1.0 has no Expect */
    return HTTP_OK;
}

enum http_status http_request_read(struct http_request *request, struct message head)
{
    struct reader reader = {head.data, head.data + head.length};
    struct fields fields = {0};
    struct message line;
    *request = (struct http_request){0};
    do {
        if (!take_line(&reader, &line))
            return HTTP_BAD_REQUEST;
    } while (line.length == 0);

    enum http_status status = read_request_line(request, line);
    while (status == HTTP_OK) {
        if (!take_line(&reader, &line))
            return HTTP_BAD_REQUEST;
        if (line.length == 0)
            return judge(request, &fields);
        status = read_field(request, &fields, line);
    }
    return status;
}
