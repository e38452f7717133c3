/*
 * HTTP/1.1 for the files below one folder: GET and HEAD (Lea's file transfer, made real).
 *
 *   input queue -> head -> request -> path -> open file -> head of the answer, and the file
 *                  http_request.h   http_path.h  http_files.h  http_choice.h  http_response.h
 *
 * Rules of the house:
 * - A message is a head and the body behind it, as far as there is one and it fits into the input
 *   queue with the head. It is read where it lies and stays there until the next one is wanted.
 * - After an answer that leaves in doubt where the next request begins, the connection is closed.
 * - A small file goes into the output queue as bytes, with its head, so that one system call sends
 *   both. Of a larger one the queue gets a range, and sends it from the file.
 * - Opening and reading files may wait for a disk. That is done in handle_input, which is a
 *   worker's; next_message and refuse_input touch no file.
 */
#include "common/apps/application.h"
#include "common/apps/http/http_choice.h"
#include "common/apps/http/http_files.h"
#include "common/apps/http/http_response.h"
#include "common/apps/http/http_types.h"
#include "common/base/container_of.h"
#include "common/base/log_value.h"
#include "common/base/options.h"
#include "common/bytes/input_queue_more.h"
#include "common/bytes/shared_file.h"
#include "common/server/host_port.h"
#include "common/server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SMALL_FILE = 16384, /* bytes that are sent from memory */
};

struct http {
    struct input_handler_factory factory;
    struct server *server;
    int root;
    size_t line_max; /* bytes of a request line */
    size_t max;      /* bytes of a head with its body: what fits into the input queue */
};

struct http_connection {
    struct input_handler handler;
    struct http *http;

    /* The message that comes next, as distances from the front of the input queue. */
    size_t start;    /* where the request line begins */
    size_t line;     /* where the last line begins */
    size_t searched; /* up to there are no other lines */
    size_t head;     /* where the head ends; 0: not known yet */
    size_t whole;    /* where the body ends; 0: not known yet */
    bool begun;      /* the request line is there */
    bool handled;    /* all of it: it can be dropped */

    struct http_request request;
    enum http_status status; /* what is wrong with the request; HTTP_OK: nothing */
};

static struct http_connection *connection_of(struct input_handler *handler)
{
    return container_of(handler, struct http_connection, handler);
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* Ends the head, and the connection if there is not to be another request. */
static void send_head(struct http_connection *connection, struct channel_facade *facade,
                      struct http_head *head)
{
    if (connection->request.closes)
        http_head_add(head, "Connection: ", "close");
    else if (connection->request.is_1_0)
        http_head_add(head, "Connection: ", "keep-alive");
    channel_enqueue(facade, piece_copy(http_head_end(head)));
}

static void send_body(struct http_connection *connection, struct channel_facade *facade,
                      struct message body)
{
    if (connection->request.method != HTTP_METHOD_HEAD)
        channel_enqueue(facade, piece_copy(body));
}

/* Ends a head that was begun with the page that goes with the status. */
static void send_page(struct http_connection *connection, struct channel_facade *facade,
                      struct http_head *head, enum http_status status)
{
    char text[HTTP_PAGE_SIZE];
    struct message page = http_page(text, status);
    http_head_add(head, "Content-Type: ", "text/html; charset=utf-8");
    http_head_add_number(head, "Content-Length: ", page.length);
    send_head(connection, facade, head);
    send_body(connection, facade, page);
}

static void answer_error(struct http_connection *connection, struct channel_facade *facade,
                         enum http_status status)
{
    struct http_head head;
    http_head_begin(&head, status, time(NULL));
    if (status == HTTP_NOT_ALLOWED)
        http_head_add(&head, "Allow: ", "GET, HEAD");
    send_page(connection, facade, &head, status);
}

/* An answer after which it is unknown where the next request begins. */
static void answer_last(struct http_connection *connection, struct channel_facade *facade,
                        enum http_status status)
{
    connection->request.closes = true;
    answer_error(connection, facade, status);
}

static void answer_moved(struct http_connection *connection, struct channel_facade *facade,
                         const struct http_path *path)
{
    struct http_head head;
    http_head_begin(&head, HTTP_MOVED, time(NULL));
    if (http_head_add_location(&head, http_path_last(path), connection->request.query))
        send_page(connection, facade, &head, HTTP_MOVED);
    else
        answer_error(connection, facade, HTTP_TARGET_TOO_LONG); /* with its slash, it would be */
}

/* Reads that many bytes of a file; false if they are not there. */
static bool read_part(int fd, unsigned char *to, size_t length, off_t start)
{
    size_t done = 0;
    while (done < length) {
        ssize_t got = pread(fd, to + done, length - done, start + (off_t)done);
        if (got <= 0 && (got == 0 || errno != EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* The head, and as much of the file as was asked for. The file stays the caller's. */
static void send_small(struct http_connection *connection, struct channel_facade *facade,
                       struct http_head *head, int fd, const struct http_range *range)
{
    unsigned char content[SMALL_FILE];
    if (!read_part(fd, content, (size_t)range->length, (off_t)range->start)) {
        answer_last(connection, facade, HTTP_INTERNAL_ERROR); /* it has changed this very moment */
        return;
    }
    send_head(connection, facade, head);
    channel_enqueue(facade, piece_bytes(content, (size_t)range->length));
}

/* The same without its bytes ever being here. Takes over the file. */
static void send_large(struct http_connection *connection, struct channel_facade *facade,
                       struct http_head *head, int fd, const struct http_range *range)
{
    struct shared_file *file = shared_file_create(fd);
    if (file == NULL) {
        close(fd);
        answer_last(connection, facade, HTTP_UNAVAILABLE);
        return;
    }
    send_head(connection, facade, head);
    channel_enqueue(facade, piece_file(file, range->start, range->length));
    shared_file_release(file);
}

static void send_content(struct http_connection *connection, struct channel_facade *facade,
                         struct http_head *head, int fd, const struct http_range *range)
{
    if (connection->request.method != HTTP_METHOD_HEAD && range->length > SMALL_FILE) {
        send_large(connection, facade, head, fd, range);
        return;
    }
    if (connection->request.method == HTTP_METHOD_HEAD)
        send_head(connection, facade, head);
    else
        send_small(connection, facade, head, fd, range);
    close(fd);
}

/* The answer to a request for a file that is there. Takes over the descriptor. */
static void answer_file(struct http_connection *connection, struct channel_facade *facade,
                        const struct http_file *file)
{
    struct http_head head;
    struct http_version version;
    struct http_range range;
    char modified[HTTP_DATE_SIZE];
    time_t now = time(NULL);
    http_version_of(&version, &file->status, now);
    enum http_status status = http_choose(&connection->request, &version, &range);
    http_head_begin(&head, status, now);
    if (status == HTTP_RANGE_UNSATISFIABLE || status == HTTP_PRECONDITION_FAILED) {
        close(file->fd);
        if (status == HTTP_RANGE_UNSATISFIABLE)
            http_head_add_range(&head, 0, 0, version.size);
        send_page(connection, facade, &head, status);
        return;
    }
    http_date_write(modified, version.modified);
    http_head_add(&head, "Last-Modified: ", modified);
    http_head_add(&head, "ETag: ", version.tag);
    if (status == HTTP_NOT_MODIFIED) {
        close(file->fd);
        send_head(connection, facade, &head);
        return;
    }
    if (status == HTTP_PARTIAL)
        http_head_add_range(&head, range.start, range.length, version.size);
    http_head_add(&head, "Accept-Ranges: ", "bytes");
    http_head_add(&head, "Content-Type: ", http_type_of(file->name));
    http_head_add_number(&head, "Content-Length: ", range.length);
    send_content(connection, facade, &head, file->fd, &range);
}

static void answer_get(struct http_connection *connection, struct channel_facade *facade)
{
    struct http_path path;
    struct http_file file;
    enum http_status status = http_path_read(&path, connection->request.path);
    if (status == HTTP_OK)
        status = http_files_open(connection->http->root, &path, &file);
    if (status == HTTP_OK)
        answer_file(connection, facade, &file);
    else if (status == HTTP_MOVED)
        answer_moved(connection, facade, &path);
    else if (status == HTTP_UNAVAILABLE)
        answer_last(connection, facade, status); /* which gives a descriptor back */
    else
        answer_error(connection, facade, status);
}

static void answer(struct http_connection *connection, struct channel_facade *facade)
{
    if (connection->status != HTTP_OK)
        answer_last(connection, facade, connection->status);
    else if (connection->request.method == HTTP_METHOD_OTHER)
        answer_error(connection, facade, HTTP_NOT_ALLOWED);
    else if (connection->request.method == HTTP_METHOD_UNKNOWN)
        answer_error(connection, facade, HTTP_NOT_IMPLEMENTED);
    else
        answer_get(connection, facade);
}

/* ---- Framing ------------------------------------------------------------------------------- */

/* What was handed out last has been answered. */
static void drop_handled(struct http_connection *connection, struct input_queue *input)
{
    if (!connection->handled)
        return;
    input_queue_discard(input, connection->whole);
    connection->start = connection->line = connection->searched = 0;
    connection->head = connection->whole = 0;
    connection->begun = connection->handled = false;
}

/* More than a request line may have, and its CR; wherever the rest is. */
static bool is_line_too_long(const struct http_connection *connection, size_t end)
{
    return !connection->begun && end - connection->line > connection->http->line_max + 1;
}

/*
 * Looks for the empty line behind the fields; what came before is not looked at again. A line that
 * ends in a bare LF ends the head too: whoever reads it finds what is wrong. HTTP_OK, with or
 * without a head, or what to answer to one that is too long.
 */
static enum http_status find_head(struct http_connection *connection, struct input_queue *input)
{
    size_t index;
    while (connection->head == 0 &&
           input_queue_index_from(input, '\n', connection->searched, &index)) {
        if (is_line_too_long(connection, index))
            return HTTP_TARGET_TOO_LONG;
        bool after_cr = index > connection->line && input_queue_at(input, index - 1) == '\r';
        bool is_empty = after_cr && index == connection->line + 1;
        if (!after_cr || (is_empty && connection->begun))
            connection->head = index + 1;
        connection->begun = connection->begun || !is_empty;
        connection->line = connection->searched = index + 1;
        if (!connection->begun)
            connection->start = connection->line; /* it was an empty line, in front */
    }
    size_t length = input_queue_length(input);
    if (connection->head > 0)
        return HTTP_OK;
    connection->searched = length;
    if (is_line_too_long(connection, length))
        return HTTP_TARGET_TOO_LONG;
    return length < connection->http->max ? HTTP_OK : HTTP_HEAD_TOO_LARGE;
}

/* An answer to a request of which only the beginning is there. If it is a HEAD, it has no body. */
static void answer_beginning(struct http_connection *connection, struct channel_facade *facade,
                             enum http_status status)
{
    static const unsigned char method[] = "HEAD ";
    const struct input_queue *input = channel_input(facade);
    size_t same = 0;
    while (connection->start + same < input_queue_length(input) && method[same] != '\0' &&
           input_queue_at(input, connection->start + same) == method[same])
        same++;
    bool is_head = method[same] == '\0';
    connection->request =
        (struct http_request){.method = is_head ? HTTP_METHOD_HEAD : HTTP_METHOD_GET};
    answer_last(connection, facade, status);
}

/* Reads the head, which is there, and with it how long the message is. */
static void read_head(struct http_connection *connection, struct message head)
{
    struct http_request *request = &connection->request;
    size_t room = connection->http->max - head.length;
    connection->status = http_request_read(request, head);
    connection->whole = head.length;
    if (connection->status == HTTP_OK && !request->waits && request->body <= room) {
        connection->whole += (size_t)request->body;
        return;
    }
    request->closes = true; /* a body that we do not read, or whose length is unknown */
    bool is_for_file = request->method == HTTP_METHOD_GET || request->method == HTTP_METHOD_HEAD;
    if (connection->status == HTTP_OK && !request->waits && is_for_file)
        connection->status = HTTP_BODY_TOO_LARGE; /* for a method that is allowed */
}

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    struct http_connection *connection = connection_of(self);
    struct input_queue *input = channel_input(facade);
    drop_handled(connection, input);
    if (input_queue_length(input) < connection->whole)
        return FRAMING_INCOMPLETE;
    enum http_status status = find_head(connection, input);
    if (status != HTTP_OK) {
        answer_beginning(connection, facade, status);
        return FRAMING_TOO_LONG;
    }
    if (connection->head == 0)
        return FRAMING_INCOMPLETE;
    *message = input_queue_peek(input, connection->head);
    read_head(connection, *message);
    connection->handled = input_queue_length(input) >= connection->whole;
    return connection->handled ? FRAMING_MESSAGE : FRAMING_INCOMPLETE;
}

/* ---- The handler --------------------------------------------------------------------------- */

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct http_connection *connection = connection_of(self);
    application_process(connection->http->server, facade, message);
    answer(connection, facade);
    if (connection->request.closes)
        channel_close(facade);
    return true;
}

static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct http_connection *connection = connection_of(self);
    (void)message;
    answer_error(connection, facade, HTTP_UNAVAILABLE);
    if (connection->request.closes)
        channel_close(facade);
}

static void timed_out(struct input_handler *self, struct channel_facade *facade)
{
    answer_beginning(connection_of(self), facade, HTTP_TIMED_OUT);
}

static struct input_handler_verbs verbs = {
    .next_message = next_message,
    .handle_input = handle_input,
    .refuse_input = refuse_input,
    .timed_out = timed_out,
};

static struct input_handler *create(struct input_handler_factory *factory, void *memory)
{
    struct http_connection *connection = memory;
    connection->handler.verbs = &verbs;
    connection->http = container_of(factory, struct http, factory);
    return &connection->handler;
}

/* ---- The application ----------------------------------------------------------------------- */

static const char default_root[] = "build/site";

static bool parse_root(const struct option *option, const char *text)
{
    *(const char **)option->target = text;
    return *text != '\0';
}

static const char *chosen_root; /* --root */

static void http_options(struct options *options)
{
    options_add(options, (struct option){.name = "--root",
                                         .value = "DIR",
                                         .default_text = default_root,
                                         .help = "http: the folder whose files are served",
                                         .expects = "the name of a folder",
                                         .parse = parse_root,
                                         .target = &chosen_root});
}

static int open_root(const struct server *server, const char *name)
{
    int root = http_files_root(name);
    int error = errno;
    char shown[256];
    log_value(shown, sizeof(shown), name, strlen(name));
    const char *hint = strcmp(name, default_root) == 0 ? " (make docs builds it)" : "";
    if (root < 0)
        log_write(&server->log, LOG_LEVEL_ERROR,
                  "event=not_started reason=\"cannot serve %s: %s%s\"", shown, strerror(error),
                  hint);
    return root;
}

/*
 * A client that is turned away gets the reason in HTTP. It has not been asked what it wants, so a
 * redirection leads to the other server's first page. It is 307, because 301 would be remembered:
 * the client would not come back when there is a place again.
 */
static void turn_away_in_http(struct server_settings *settings)
{
    const char *place = settings->redirect_to;
    char text[HOST_PORT_SIZE + 64]; /* "ERR server busy, try HOST:PORT" */
    memcpy(text, settings->turn_away, sizeof(text));
    size_t length = strnlen(text, sizeof(text));
    snprintf(settings->turn_away, sizeof(settings->turn_away),
             "HTTP/1.1 %s\r\n%s%s%sConnection: close\r\nContent-Type: text/plain\r\n"
             "Content-Length: %zu\r\n\r\n%.*s",
             place != NULL ? "307 Temporary Redirect" : "503 Service Unavailable",
             place != NULL ? "Location: http://" : "", place != NULL ? place : "",
             place != NULL ? "/\r\n" : "", length, (int)length, text);
}

static struct input_handler_factory *http_open(struct server *server)
{
    size_t max_line = server->settings.max_line;
    struct http *http = calloc(1, sizeof(*http));
    if (http == NULL)
        return NULL;
    http->factory = (struct input_handler_factory){.handler_size = sizeof(struct http_connection),
                                                   .create = create};
    http->server = server;
    http->line_max = max_line < HTTP_LINE_MAX ? max_line : HTTP_LINE_MAX;
    http->max = line_framing_input_limit(max_line);
    http->root = open_root(server, chosen_root);
    if (http->root < 0) {
        free(http);
        errno = 0; /* the reason was printed */
        return NULL;
    }
    turn_away_in_http(&server->settings);
    input_handler_complete(&verbs);
    return &http->factory;
}

static void http_close(struct input_handler_factory *factory)
{
    struct http *http = container_of(factory, struct http, factory);
    close(http->root);
    free(http);
}

const struct application http_application = {
    .name = "http",
    .descriptors = 3,
    .options = http_options,
    .open = http_open,
    .close = http_close,
};
