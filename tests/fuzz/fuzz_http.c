/*
 * HTTP: what comes back is well-formed, is of the folder that is served and of nothing else, and
 * does not depend on the pieces in which a request comes.
 *
 * The input is what a client sends, behind one byte that says in which pieces; it is handled twice,
 * whole and in these pieces, and both have to say the same (but for the date). An odd first byte
 * has the path reader alone read what follows, against a decoder that works byte by byte.
 */
#include "fuzz.h"

#include "common/apps/application.h"
#include "common/apps/http_path.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char secret[] = "what-nobody-may-read";

static char large[40000]; /* is sent from the file, not from memory */

static struct file {
    const char *name;
    const char *content;
    size_t length;
} files[] = {
    {"root/index.html", "<p>the index\n", 13},
    {"root/a.txt", "hello\n", 6},
    {"root/empty", "", 0},
    {"root/sub/index.html", "<p>below\n", 9},
    {"root/sub/b c.css", "p {}\n", 5},
    {"root/large.bin", large, sizeof large},
};

enum {
    FILES = sizeof files / sizeof files[0],
    STATUS_LINE = 12, /* "HTTP/1.1 200" */
};

static void make_link(const char *name, const char *to)
{
    char path[256];
    snprintf(path, sizeof path, "%s/root/%s", fuzz_folder(), name);
    fuzz_check(symlink(to, path) == 0, "a link");
}

static void make_files(void)
{
    for (size_t i = 0; i < sizeof large; i++) {
        large[i] = (char)('A' + i % 53);
    }
    for (int i = 0; i < FILES; i++) {
        fuzz_file(files[i].name, files[i].content, files[i].length);
    }
    fuzz_file("secret", secret, strlen(secret));
    fuzz_file("root/.hidden", secret, strlen(secret));
    fuzz_file("root/sub/.git/config", secret, strlen(secret));
    make_link("link", "../secret");
    make_link("up", "..");
    make_link("sub/away", "/");
}

/* ---- Answers ---- */

static bool is_of_a_file(const unsigned char *body, size_t length, bool whole)
{
    for (int i = 0; i < FILES; i++) {
        const struct file *file = &files[i];
        if (whole ? length == file->length && memcmp(body, file->content, length) == 0
                  : length <= file->length && memmem(file->content, file->length, body, length)) {
            return true;
        }
    }
    return false;
}

/* The value of a field of a head, NULL if it is not there. */
static const char *field_of(const char *head, const char *name)
{
    for (const char *line = strchr(head, '\n'); line != NULL && line[1] != '\r';
         line = strchr(line + 1, '\n')) {
        size_t length = strlen(name);
        if (strncasecmp(line + 1, name, length) == 0 && line[1 + length] == ':') {
            return line + length + 3;
        }
    }
    return NULL;
}

static bool says(const char *value, const char *expected)
{
    size_t length = strlen(expected);
    return value != NULL && strncmp(value, expected, length) == 0 && value[length] == '\r';
}

/* Every line of a head is a name, a colon and printable text. */
static void check_head(const char *head)
{
    const char *line = strstr(head, "\r\n") + 2;
    while (*line != '\r') {
        size_t length = strcspn(line, "\r\n");
        size_t name = strcspn(line, ":\r\n");
        fuzz_check(name > 0 && name < length && line[length] == '\r' && line[length + 1] == '\n',
                   "a line of a head: `%.80s`", line);
        for (size_t i = 0; i < length; i++) {
            fuzz_check((unsigned char)line[i] >= ' ' && line[i] != 127, "a line: `%.80s`", line);
        }
        line += length + 2;
    }
}

/* One answer; how long it is. */
static size_t check_answer(const unsigned char *data, size_t size, bool last_closes)
{
    static char head[1 << 16];
    const unsigned char *end = memmem(data, size, "\r\n\r\n", 4);
    fuzz_check(end != NULL && size >= STATUS_LINE && memcmp(data, "HTTP/1.1 ", 9) == 0,
               "no answer: `%.*s`", (int)(size < 200 ? size : 200), data);
    size_t length = (size_t)(end - data) + 4;
    fuzz_check(length < sizeof head, "a head of %zu bytes", length);
    memcpy(head, data, length);
    head[length] = '\0';
    fuzz_check(strlen(head) == length, "a zero in a head");
    check_head(head);

    int status = atoi(head + 9);
    const char *announced = field_of(head, "Content-Length");
    fuzz_check(announced != NULL || status == 304 || status == 100, "no length: %s", head);
    size_t body = announced != NULL ? (size_t)strtoul(announced, NULL, 10) : 0;
    const unsigned char *content = data + length;
    size_t rest = size - length;
    bool none = rest == 0 || (rest >= 9 && memcmp(content, "HTTP/1.1 ", 9) == 0);
    if (body > 0 && !none) { /* else HEAD had asked */
        fuzz_check(rest >= body, "%zu bytes announced, %zu there", body, rest);
        fuzz_check(status != 200 || is_of_a_file(content, body, true), "of no file: `%.*s`",
                   (int)body, content);
        fuzz_check(status != 206 || is_of_a_file(content, body, false), "of no file: `%.*s`",
                   (int)body, content);
        length += body;
    }
    bool closes = says(field_of(head, "Connection"), "close");
    fuzz_check(!closes || length == size, "something behind an answer that closes");
    fuzz_check(length < size || closes == last_closes, "the end is not the end: closes %d", closes);
    return length;
}

static void check_answers(const struct fuzz_channel *channel)
{
    const struct fuzz_text *output = &channel->output;
    fuzz_check(output->length == 0 ||
                   memmem(output->data, output->length, secret, strlen(secret)) == NULL,
               "what nobody may read has been sent");
    for (size_t done = 0; done < output->length;) {
        done += check_answer(output->data + done, output->length - done, channel->closing);
    }
}

/* ---- Whole and in pieces ---- */

static struct input_handler_factory *open_application(struct server *server)
{
    static struct input_handler_factory *factory;
    static struct application_choice choice = {.chosen = &application_http};
    static char root[128];
    static char program[] = "fuzz", option[] = "--max-line", value[] = "1500";
    char *argv[] = {program, option, value, NULL};
    if (factory == NULL) {
        make_files();
        snprintf(root, sizeof root, "%s/root", fuzz_folder());
        choice.http_root = root;
        fuzz_server_open(server, 3, argv);
        factory = application_open(&choice, server);
        fuzz_check(factory != NULL, "the application");
    }
    return factory;
}

/* The answers to a request that comes in pieces of that size, without their dates. */
static struct fuzz_text answers(struct server *server, struct input_handler_factory *factory,
                                struct fuzz_input input, size_t piece, bool *closing)
{
    struct fuzz_channel channel;
    struct fuzz_text text = {0};
    fuzz_channel_open(&channel, server, factory);
    while (input.size > 0 && !channel.closing) {
        fuzz_channel_receive(&channel, fuzz_bytes(&input, piece));
    }
    check_answers(&channel);
    *closing = channel.closing;
    fuzz_channel_close(&channel);
    for (size_t i = 0; i < channel.output.length;) {
        const unsigned char *rest = channel.output.data + i;
        size_t left = channel.output.length - i;
        const unsigned char *end = memchr(rest, '\n', left);
        size_t length = end != NULL ? (size_t)(end - rest) + 1 : left;
        if (length < 6 || memcmp(rest, "Date: ", 6) != 0) {
            fuzz_text_add(&text, rest, length);
        }
        i += length;
    }
    fuzz_channel_free(&channel);
    fuzz_check(buffer_factory_out(&server->buffers) == 0, "segments are left");
    return text;
}

static void check_connection(struct fuzz_input input, size_t piece)
{
    static struct server server;
    struct input_handler_factory *factory = open_application(&server);
    bool whole_closes;
    bool pieces_close;
    struct fuzz_text whole = answers(&server, factory, input, SIZE_MAX, &whole_closes);
    struct fuzz_text pieces = answers(&server, factory, input, piece, &pieces_close);
    fuzz_check(whole.length == pieces.length &&
                   (whole.length == 0 || memcmp(whole.data, pieces.data, whole.length) == 0),
               "whole: `%.*s`; in pieces: `%.*s`", (int)whole.length, whole.data,
               (int)pieces.length, pieces.data);
    fuzz_check(whole_closes == pieces_close, "closes: %d and %d", whole_closes, pieces_close);
    fuzz_text_free(&whole);
    fuzz_text_free(&pieces);
}

/* ---- The path alone ---- */

static int hex(unsigned char digit)
{
    return isdigit(digit) ? digit - '0' : isxdigit(digit) ? tolower(digit) - 'a' + 10 : -1;
}

/* Decodes into names with a zero behind each; false for what no path may have in it. */
static bool decode(struct message text, struct fuzz_text *names)
{
    bool in_name = false;
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = text.data[i];
        bool escaped = byte == '%';
        if (escaped) {
            if (i + 2 >= text.length || hex(text.data[i + 1]) < 0 || hex(text.data[i + 2]) < 0) {
                return false;
            }
            byte = (unsigned char)(hex(text.data[i + 1]) * 16 + hex(text.data[i + 2]));
            i += 2;
        }
        if (byte == '/' && !escaped) {
            if (in_name) {
                fuzz_text_add(names, "", 1);
            }
            in_name = false;
            continue;
        }
        if (byte == '\0' || byte == '/' || (!in_name && byte == '.')) {
            return false;
        }
        fuzz_text_add(names, &byte, 1);
        in_name = true;
    }
    if (in_name) {
        fuzz_text_add(names, "", 1);
    }
    return true;
}

static void check_path(struct fuzz_input input)
{
    static struct http_path path;
    static unsigned char text[5000];
    struct fuzz_text names = {0};
    size_t length = input.size < sizeof text - 1 ? input.size : sizeof text - 1;
    text[0] = '/';
    memcpy(text + 1, input.data, length);
    struct message message = {text, length + 1};
    bool good = decode(message, &names);
    enum http_status status = http_path_read(&path, message);
    if (status == HTTP_OK) {
        fuzz_check(good, "read what is no path: %.*s", (int)message.length, text);
        fuzz_check(path.length == names.length &&
                       (names.length == 0 || memcmp(path.names, names.data, names.length) == 0),
                   "other names than those of %.*s", (int)message.length, text);
        fuzz_check(path.is_folder == (text[length] == '/'), "a folder, or not");
    }
    fuzz_text_free(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t how = fuzz_byte(&input);
    if (how % 2 == 1) {
        check_path(input);
    } else {
        check_connection(input, 1 + how / 2);
    }
    return 0;
}
