/*
 * What the clients say, and what has to come back: each byte is compared.
 *
 * Echo and chat send lines out of one block, the book: so many lines that are all different, a
 * client's first one somewhere in it by its number. A message is a pointer into the book, and so is
 * what is expected, so neither is ever copied. A reply that is lost, doubled, swapped or another
 * client's shows as a wrong byte.
 */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BOOK_SIZE = 1 << 20, /* bytes, as far as the lines allow */
    MOST_LINES = 1021,
    LEAST_LINES = 17,
    FIRST_LINE_STEP = 389, /* from the first line of a client to that of the next */
    MOST_HEAD = 4096,      /* bytes of an http header */
};

static struct {
    char *text;     /* `lines` lines, and the first `depth` of them once more */
    uint64_t lines; /* a prime number, or close to one, so that steps reach all */
    uint64_t size;  /* of a line */
} book;

/* The same length for all, another text for each: a number and then letters. */
static void write_line(char *line, uint64_t number, uint64_t size)
{
    char head[32];
    int head_length = snprintf(head, sizeof(head), "%llu ", (unsigned long long)number);
    for (uint64_t i = 0; i + 1 < size; i++)
        line[i] = (char)('a' + (number * 7 + i * (1 + number % 5)) % 26);
    if (size > (uint64_t)head_length)
        memcpy(line, head, (size_t)head_length);
    line[size - 1] = '\n';
}

static void prepare_book(const struct load_settings *settings)
{
    uint64_t lines = BOOK_SIZE / settings->size;
    lines = lines > MOST_LINES ? MOST_LINES : lines;
    book.lines = lines < LEAST_LINES ? LEAST_LINES : lines;
    book.size = settings->size;
    uint64_t all = book.lines + settings->depth;
    book.text = malloc(all * book.size);
    if (book.text == NULL)
        load_fail("no memory for %llu lines", (unsigned long long)all);
    for (uint64_t i = 0; i < all; i++)
        write_line(book.text + i * book.size, i % book.lines, book.size);
}

static const char *line_of(uint64_t first, uint64_t number)
{
    return book.text + (first + number) % book.lines * book.size;
}

static uint64_t first_line(const struct client *client)
{
    return (uint64_t)client->number * FIRST_LINE_STEP;
}

static _Noreturn void fail_byte(const struct client *client, uint64_t place, char got, char wanted)
{
    load_fail("client %u: byte %llu of reply %llu is 0x%02x and should be 0x%02x", client->number,
              (unsigned long long)place, (unsigned long long)client->answered,
              (unsigned)(unsigned char)got, (unsigned)(unsigned char)wanted);
}

/* Compares with `wanted`, of whose bytes `place` have come before. How many bytes it used. */
static size_t compare(const struct client *client, uint64_t place, const char *data, size_t length,
                      const char *wanted, size_t wanted_length)
{
    size_t here = wanted_length < length ? wanted_length : length;
    if (memcmp(data, wanted, here) != 0) {
        size_t wrong = 0;
        while (data[wrong] == wanted[wrong])
            wrong++;
        fail_byte(client, place + wrong, data[wrong], wanted[wrong]);
    }
    return here;
}

/* More has come than was asked for. */
static void check_asked(const struct client *client, uint64_t answered, uint64_t asked)
{
    if (answered >= asked)
        load_fail("client %u: a reply that nobody asked for", client->number);
}

/* ---- echo ------------------------------------------------------------------------------------ */

static const char *echo_request(const struct client *client, uint64_t first, uint64_t count,
                                size_t *length)
{
    *length = count * book.size;
    return line_of(first_line(client), first);
}

static uint64_t echo_receive(struct client *client, const char *data, size_t length)
{
    uint64_t before = client->answered;
    uint64_t answered = before;
    while (length > 0) {
        client->answered = answered; /* for what an error says */
        check_asked(client, answered, client->asked);
        const char *wanted = line_of(first_line(client), answered) + client->place;
        size_t used = compare(client, client->place, data, length, wanted,
                              (size_t)(book.size - client->place));
        data += used;
        length -= used;
        client->place += used;
        if (client->place == book.size) {
            client->place = 0;
            answered++;
        }
    }
    client->answered = before;
    return answered - before;
}

bool echo_is_reply(const struct client *client, uint64_t number, const char *line, size_t length)
{
    return length == book.size && memcmp(line, line_of(first_line(client), number), length) == 0;
}

/* ---- chat ------------------------------------------------------------------------------------ */

/*
 * The first user speaks, the others hear it with something in front of it that is the server's
 * choice. What that is, each learns from the opening line, which also ends the chatter of arrival.
 */
static const char opening[] = "everybody is here now\n";

static struct {
    char prefix[128];
    size_t length;
    bool known;
} chat;

const char *chat_opening(size_t *length)
{
    *length = sizeof(opening) - 1;
    return opening;
}

/* Collects lines in client->head until the opening has come. */
bool chat_opened(struct client *client, const char *data, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (client->place < MOST_HEAD)
            client->head[client->place++] = data[i];
        if (data[i] != '\n')
            continue;
        size_t line = (size_t)client->place;
        client->place = 0;
        size_t text = sizeof(opening) - 1;
        if (line < text || memcmp(client->head + line - text, opening, text) != 0)
            continue;
        if (!chat.known) {
            chat.length = line - text < sizeof(chat.prefix) ? line - text : 0;
            memcpy(chat.prefix, client->head, chat.length);
            chat.known = true;
        }
        if (i + 1 != length)
            load_fail("client %u: something came behind the opening line", client->number);
        return true;
    }
    return false;
}

static const char *chat_request(const struct client *client, uint64_t first, uint64_t count,
                                size_t *length)
{
    return echo_request(client, first, count, length);
}

static uint64_t chat_receive(struct client *client, const char *data, size_t length)
{
    uint64_t before = client->answered;
    uint64_t answered = before;
    while (length > 0) {
        client->answered = answered;
        size_t used;
        if (client->place < chat.length)
            used = compare(client, client->place, data, length, chat.prefix + client->place,
                           chat.length - (size_t)client->place);
        else
            used = compare(client, client->place, data, length,
                           line_of(0, answered) + (client->place - chat.length),
                           (size_t)(book.size + chat.length - client->place));
        data += used;
        length -= used;
        client->place += used;
        if (client->place == chat.length + book.size) {
            client->place = 0;
            answered++;
        }
    }
    client->answered = before;
    return answered - before;
}

/* ---- http ------------------------------------------------------------------------------------ */

static struct {
    char *requests; /* `depth` of them */
    size_t request_length;
    char *body; /* what has to come back; NULL: whatever comes */
    size_t body_length;
} http;

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    *length = 0;
    if (file == NULL)
        load_fail("cannot read %s: %s", path, strerror(errno));
    for (size_t got = 1; got > 0; *length += got) {
        text = realloc(text, *length + 65536);
        if (text == NULL)
            load_fail("no memory for %s", path);
        got = fread(text + *length, 1, 65536, file);
    }
    fclose(file);
    return text;
}

static void prepare_http(const struct load_settings *settings)
{
    char request[1024];
    int length = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n",
                          settings->path);
    if (length >= (int)sizeof(request))
        load_fail("the path is too long");
    http.request_length = (size_t)length;
    http.requests = malloc(http.request_length * settings->depth);
    if (http.requests == NULL)
        load_fail("no memory for requests");
    for (uint64_t i = 0; i < settings->depth; i++)
        memcpy(http.requests + i * http.request_length, request, http.request_length);
    if (settings->body != NULL)
        http.body = read_file(settings->body, &http.body_length);
}

static const char *http_request(const struct client *client, uint64_t first, uint64_t count,
                                size_t *length)
{
    (void)client;
    (void)first;
    *length = count * http.request_length;
    return http.requests;
}

/* A whole header: says how long the body is. Fails if it is no good answer. */
static uint64_t body_length(const struct client *client)
{
    static const char status[] = "HTTP/1.1 200 ";
    static const char field[] = "\r\ncontent-length:";
    if (strncmp(client->head, status, sizeof(status) - 1) != 0)
        load_fail("client %u: reply %llu is not 200: %.60s", client->number,
                  (unsigned long long)client->answered, client->head);
    const char *found = strcasestr(client->head, field);
    if (found == NULL)
        load_fail("client %u: no Content-Length", client->number);
    uint64_t length = strtoull(found + sizeof(field) - 1, NULL, 10);
    if (http.body != NULL && length != http.body_length)
        load_fail("client %u: a body of %llu bytes, and it should have %zu", client->number,
                  (unsigned long long)length, http.body_length);
    return length;
}

/* Takes header bytes up to the empty line; how many. client->place counts them. */
static size_t receive_head(struct client *client, const char *data, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (client->place + 1 >= MOST_HEAD)
            load_fail("client %u: a header without an end", client->number);
        client->head[client->place++] = data[i];
        if (data[i] == '\n' && client->place >= 4 &&
            memcmp(client->head + client->place - 4, "\r\n\r\n", 4) == 0) {
            client->head[client->place] = '\0';
            client->body = body_length(client) + 1; /* zero is for a header that is not whole */
            client->place = 0;
            return i + 1;
        }
    }
    return length;
}

static size_t receive_body(struct client *client, const char *data, size_t length)
{
    size_t left = (size_t)(client->body - 1 - client->place);
    size_t used = left < length ? left : length;
    if (http.body != NULL)
        compare(client, client->place, data, used, http.body + client->place, used);
    client->place += used;
    return used;
}

static uint64_t http_receive(struct client *client, const char *data, size_t length)
{
    uint64_t before = client->answered;
    uint64_t answered = before;
    while (length > 0) {
        client->answered = answered;
        check_asked(client, answered, client->asked);
        size_t used = client->body == 0 ? receive_head(client, data, length)
                                        : receive_body(client, data, length);
        data += used;
        length -= used;
        if (client->body != 0 && client->place == client->body - 1) {
            client->place = client->body = 0;
            answered++;
        }
    }
    client->answered = before;
    return answered - before;
}

/* ---------------------------------------------------------------------------------------------- */

static const struct traffic kinds[] = {
    {"echo", prepare_book, echo_request, echo_receive, false},
    {"chat", prepare_book, chat_request, chat_receive, true},
    {"http", prepare_http, http_request, http_receive, false},
};

const struct traffic *traffic_named(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}
