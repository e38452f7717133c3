#include "common/apps/http/http_path.h"

#include <string.h>

static int hexadecimal(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The next byte that is meant, and how many bytes of the text say so; 0: a bad escape. */
static size_t unescape(struct message text, unsigned char *byte)
{
    *byte = text.data[0];
    if (*byte != '%')
        return 1;
    int high = text.length < 3 ? -1 : hexadecimal(text.data[1]);
    int low = text.length < 3 ? -1 : hexadecimal(text.data[2]);
    if (high < 0 || low < 0)
        return 0;
    *byte = (unsigned char)(high * 16 + low);
    return 3;
}

/* The last name, whose end has not come yet, is a single dot so far. */
static bool is_dot(const struct http_path *path)
{
    size_t length = path->length;
    return length > 0 && path->names[length - 1] == '.' &&
           (length == 1 || path->names[length - 2] == '\0');
}

/*
 * Adds a byte to the names. There has to be room for it and for the zero that end_name() writes
 * behind it: a slash may follow a name that has filled all the room, and another name the slash.
 */
static enum http_status add(struct http_path *path, unsigned char byte)
{
    if (is_dot(path))
        return HTTP_FORBIDDEN; /* `..`, or the name of a hidden file */
    if (byte == '\0')
        return HTTP_BAD_REQUEST;
    if (byte == '/')
        return HTTP_NOT_FOUND; /* it was escaped, so it would be part of a name */
    if (path->length >= sizeof(path->names) - 1)
        return HTTP_NOT_FOUND;
    path->names[path->length++] = (char)byte;
    return HTTP_OK;
}

/* A slash ends a name. A second one ends none, and `.` is none: it is the folder that it is in. */
static void end_name(struct http_path *path)
{
    if (is_dot(path))
        path->length--;
    else if (path->length > 0 && path->names[path->length - 1] != '\0')
        path->names[path->length++] = '\0';
}

enum http_status http_path_read(struct http_path *path, struct message text)
{
    path->length = 0;
    path->is_folder = false;
    while (text.length > 0) {
        unsigned char byte;
        size_t used = unescape(text, &byte);
        if (used == 0)
            return HTTP_BAD_REQUEST;
        path->is_folder = text.data[0] == '/';
        enum http_status status = HTTP_OK;
        if (path->is_folder)
            end_name(path);
        else
            status = add(path, byte);
        if (status != HTTP_OK)
            return status;
        text.data += used;
        text.length -= used;
    }
    path->is_folder = path->is_folder || is_dot(path);
    end_name(path);
    return HTTP_OK;
}

const char *http_path_first(const struct http_path *path)
{
    return path->length > 0 ? path->names : NULL;
}

const char *http_path_next(const struct http_path *path, const char *name)
{
    name += strlen(name) + 1;
    return name < path->names + path->length ? name : NULL;
}

const char *http_path_last(const struct http_path *path)
{
    const char *last = "";
    for (const char *name = http_path_first(path); name != NULL; name = http_path_next(path, name))
        last = name;
    return last;
}
