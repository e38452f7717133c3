#include "http_request.h"

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

/* HOST or HOST:PORT, as far as its characters go; whose it is does not matter to files. */
static bool is_host(struct message text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!is_alphanumeric(text.data[i]) && !is_one_of(text.data[i], "-._~%!$&'()*+,;=:[]"))
            return false;
    return true;
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
    bool good = end > skipped && is_host((struct message){target->data + skipped, end - skipped});
    *target = (struct message){target->data + end, target->length - end};
    return good;
}

static struct message without_query(struct message target)
{
    const unsigned char *query = memchr(target.data, '?', target.length);
    return query != NULL ? text_between(target.data, query) : target;
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
        return HTTP_OK; /* of whatever form: it is not going to be looked at */
    if (target.data[0] != '/' && !skip_host(&target))
        return HTTP_BAD_REQUEST;
    request->path = without_query(target);
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
    if (line.length > HTTP_LINE_MOST)
        return HTTP_TARGET_TOO_LONG;
    if (!take_until(&reader, ' ', &method) || !is_token(method) ||
        !take_until(&reader, ' ', &target))
        return HTTP_BAD_REQUEST;
    request->method = method_of(method);
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
    if (fields->host || !is_host(value))
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

static enum http_status read_encoding(struct http_request *request, struct fields *fields,
                                      struct message value)
{
    (void)request;
    (void)value;
    fields->encoding = true;
    return HTTP_OK;
}

/* Words with commas between them. */
static enum http_status read_connection(struct http_request *request, struct fields *fields,
                                        struct message value)
{
    struct reader reader = {value.data, value.data + value.length};
    struct message word;
    bool more = true;
    while (more) {
        more = take_until(&reader, ',', &word);
        if (!more)
            word = text_between(reader.next, reader.end);
        word = trimmed(word);
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

/* Of two such fields none counts: each only allows to answer with less than the whole file. */
static void keep(struct message *kept, struct message value)
{
    static const unsigned char nothing[] = "";
    *kept = kept->data == NULL ? value : (struct message){nothing, 0};
}

static enum http_status read_range(struct http_request *request, struct fields *fields,
                                   struct message value)
{
    (void)fields;
    keep(&request->range, value);
    return HTTP_OK;
}

static enum http_status read_if_range(struct http_request *request, struct fields *fields,
                                      struct message value)
{
    (void)fields;
    keep(&request->if_range, value);
    return HTTP_OK;
}

static enum http_status read_if_none_match(struct http_request *request, struct fields *fields,
                                           struct message value)
{
    (void)fields;
    keep(&request->if_none_match, value);
    return HTTP_OK;
}

static enum http_status read_if_modified_since(struct http_request *request, struct fields *fields,
                                               struct message value)
{
    (void)fields;
    keep(&request->if_modified_since, value);
    return HTTP_OK;
}

static const struct field {
    const char *name;
    enum http_status (*read)(struct http_request *request, struct fields *fields,
                             struct message value);
} known_fields[] = {
    {"Host", read_host},
    {"Connection", read_connection},
    {"Content-Length", read_length},
    {"Transfer-Encoding", read_encoding},
    {"Expect", read_expect},
    {"Range", read_range},
    {"If-Range", read_if_range},
    {"If-None-Match", read_if_none_match},
    {"If-Modified-Since", read_if_modified_since},
};

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
    if (++fields->count > HTTP_FIELDS_MOST)
        return HTTP_HEAD_TOO_LARGE;
    for (size_t i = 0; i < sizeof(known_fields) / sizeof(known_fields[0]); i++)
        if (equals_ignoring_case(name, known_fields[i].name))
            return known_fields[i].read(request, fields,
                                        trimmed(text_between(reader.next, reader.end)));
    return HTTP_OK;
}

/* What the fields say together. */
static enum http_status judge(struct http_request *request, const struct fields *fields)
{
    if (fields->encoding)
        return fields->length || request->is_1_0 ? HTTP_BAD_REQUEST : HTTP_NOT_IMPLEMENTED;
    if (!fields->host && !request->is_1_0)
        return HTTP_BAD_REQUEST;
    if (request->is_1_0 && !fields->keep_alive)
        request->closes = true;
    if (request->body == 0 || request->is_1_0)
        request->waits = false; /* nobody waits to send nothing, and 1.0 has no Expect */
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
