/*
 * HTTP: what comes back is well-formed, is of the folder that is served and of nothing else, and
 * does not depend on the pieces in which a request comes.
 *
 * The input, stretched, is what a client sends, behind one byte that says in which pieces and
 * whether lines are short; it is handled twice, whole and in these pieces, and both have to say the
 * same (but for the date). An odd first byte has the path reader alone read what follows, against a
 * decoder that works byte by byte.
 */
#include "fuzz.h"

#include "common/apps/http/http_path.h"
#include "common/apps/http/http_request.h"
#include "tests/support/configure.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern const struct application http_application;

enum {
    SHORT_LINE = 1500,
    LONG_LINE = 65536, /* as --max-line is by default */
};

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

/* Names of a path, a request line, and a head with its body, of which about 32 bytes are other
 * things than what is stretched; each in one server or in the other. */
static const size_t limits[] = {
    32, 256, SHORT_LINE - 32, SHORT_LINE, HTTP_PATH_MAX, HTTP_LINE_MAX, LONG_LINE - 32, LONG_LINE};

enum {
    LIMITS = sizeof limits / sizeof limits[0],
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

/* A server, and the application in it. */
struct site {
    struct server server;
    struct input_handler_factory *factory;
};

static struct site *open_site(bool short_lines)
{
    static struct site sites[2];
    static char root[128];
    static char program[] = "fuzz", option[] = "--max-line";
    char value[16];
    char *argv[] = {program, option, value, NULL};
    struct site *site = &sites[short_lines];
    if (root[0] == '\0') {
        make_files();
        snprintf(root, sizeof root, "%s/root", fuzz_folder());
        const char *const words[] = {"--root", root, NULL};
        fuzz_check(configure(&http_application, words), "its options");
    }
    if (site->factory == NULL) {
        snprintf(value, sizeof value, "%d", short_lines ? SHORT_LINE : LONG_LINE);
        fuzz_server_open(&site->server, 3, argv);
        site->factory = application_open(&http_application, &site->server);
        fuzz_check(site->factory != NULL, "the application");
    }
    return site;
}

/* The answers to a request that comes in pieces of that size, without their dates. */
static struct fuzz_text answers(struct site *site, struct fuzz_input input, size_t piece,
                                bool *closing)
{
    struct fuzz_channel channel;
    struct fuzz_text text = {0};
    fuzz_channel_open(&channel, &site->server, site->factory);
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
    fuzz_check(buffer_factory_out(&site->server.buffers) == 0, "segments are left");
    return text;
}

static void check_connection(struct fuzz_input input, bool short_lines, size_t piece)
{
    struct site *site = open_site(short_lines);
    bool whole_closes;
    bool pieces_close;
    struct fuzz_text whole = answers(site, input, SIZE_MAX, &whole_closes);
    struct fuzz_text pieces = answers(site, input, piece, &pieces_close);
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

/* Takes the next byte that is meant off the text; false if it is a bad escape. */
static bool decode_byte(struct fuzz_input *text, unsigned char *byte, bool *escaped)
{
    *byte = fuzz_byte(text);
    *escaped = *byte == '%';
    if (*escaped) {
        struct message digits = fuzz_bytes(text, 2);
        if (digits.length < 2 || hex(digits.data[0]) < 0 || hex(digits.data[1]) < 0) {
            return false;
        }
        *byte = (unsigned char)(hex(digits.data[0]) * 16 + hex(digits.data[1]));
    }
    return true;
}

/* Adds what stands between two slashes, if it is a name; false if it is what no path may have. */
static bool add_name(struct fuzz_text *names, const struct fuzz_text *name)
{
    bool is_dot = name->length == 1 && name->data[0] == '.';
    if (name->length == 0 || is_dot) {
        return true;
    }
    fuzz_text_add(names, name->data, name->length);
    fuzz_text_add(names, "", 1);
    return name->data[0] != '.' && memchr(name->data, '/', name->length) == NULL &&
           memchr(name->data, '\0', name->length) == NULL;
}

/* Decodes into names with a zero behind each; false for what no path may have in it. */
static bool decode(struct fuzz_input text, struct fuzz_text *names, bool *is_folder)
{
    struct fuzz_text name = {0};
    bool good = true;
    while (good && text.size > 0) {
        unsigned char byte;
        bool escaped;
        good = decode_byte(&text, &byte, &escaped);
        if (byte == '/' && !escaped) {
            good = good && add_name(names, &name);
            name.length = 0;
        } else {
            fuzz_text_add(&name, &byte, 1);
        }
    }
    *is_folder = name.length == 0 || (name.length == 1 && name.data[0] == '.');
    good = good && add_name(names, &name);
    fuzz_text_free(&name);
    return good;
}

static void check_path(struct fuzz_input input)
{
    static struct http_path path;
    struct fuzz_text text = {0};
    struct fuzz_text names = {0};
    bool is_folder;
    fuzz_text_add(&text, "/", 1);
    fuzz_text_add(&text, input.data, input.size);
    bool good = decode((struct fuzz_input){text.data, text.length}, &names, &is_folder);
    enum http_status status = http_path_read(&path, (struct message){text.data, text.length});
    fuzz_check(path.length <= sizeof path.names, "%zu bytes of names", path.length);
    if (status == HTTP_OK) {
        fuzz_check(good, "read what is no path: %.*s", (int)text.length, text.data);
        fuzz_check(path.length == names.length &&
                       (names.length == 0 || memcmp(path.names, names.data, names.length) == 0),
                   "other names than those of %.*s", (int)text.length, text.data);
        fuzz_check(path.is_folder == is_folder, "a folder, or not: %.*s", (int)text.length,
                   text.data);
    } else {
        fuzz_check(!good || names.length > HTTP_PATH_MAX - 2, "%d for %.*s", (int)status,
                   (int)text.length, text.data);
    }
    fuzz_text_free(&text);
    fuzz_text_free(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_text text = fuzz_stretch(data, size, limits, LIMITS);
    struct fuzz_input input = {text.data, text.length};
    uint8_t how = fuzz_byte(&input);
    if (how % 2 == 1) {
        check_path(input);
    } else {
        check_connection(input, how / 2 % 2 == 1, 1 + how / 4 + text.length / 100);
    }
    fuzz_text_free(&text);
    return 0;
}
