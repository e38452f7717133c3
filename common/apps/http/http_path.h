/*
 * The path of a request, as names of folders and of a file: /docs/stage%31.html is "docs" and
 * "stage1.html".
 *
 * Names are what is left when everything that could lead astray is gone. None is empty, none
 * contains a slash or a NUL, and none begins with a dot. So there is no `..`, written in whatever
 * way, and no hidden file either, such as a .git that stands beside the pages. A `.` alone is
 * dropped, as the empty name between two slashes is: most clients resolve dot segments before they
 * ask (RFC 3986, section 5.2.4), but apt-get asks for /deb/./Packages.
 *
 * Interface: no state, no memory, any thread.
 */
#ifndef COMMON_APPS_HTTP_PATH_H
#define COMMON_APPS_HTTP_PATH_H

#include "common/apps/http/http_status.h"
#include "common/bytes/input_queue.h"

enum {
    HTTP_PATH_MAX = 4096, /* all names, with a zero behind each */
};

struct http_path {
    bool is_folder; /* it ends with a slash, or its last name is a dot */
    size_t length;  /* of all names with their zeros */
    char names[HTTP_PATH_MAX];
};

/**
 * Reads a path that begins with a slash. HTTP_OK, or what to answer: HTTP_BAD_REQUEST for an escape
 * that is none, or stands for NUL; HTTP_FORBIDDEN for a name that begins with a dot; HTTP_NOT_FOUND
 * for names that no file can have.
 */
enum http_status http_path_read(struct http_path *path, struct message text);

/** The first name, NULL if there is none; and the one behind a name, NULL if it was the last. */
const char *http_path_first(const struct http_path *path);
const char *http_path_next(const struct http_path *path, const char *name);

/** The last name; "" if there is none. */
const char *http_path_last(const struct http_path *path);

#endif
