/*
 * Opening the files below a folder, and no others.
 *
 * Each name of a path is opened in the folder that the name before it was opened as, and no name is
 * followed if it is a symbolic link. So it does not matter what somebody renames, links or moves
 * meanwhile: there is no moment between a check and a use. A link is as if it were not there. That
 * holds on every system; Linux alone could do the same in one call (openat2(2), RESOLVE_BENEATH and
 * RESOLVE_NO_SYMLINKS).
 *
 * Interface: any thread. Opening a file may wait for the disk.
 */
#ifndef COMMON_APPS_HTTP_FILES_H
#define COMMON_APPS_HTTP_FILES_H

#include "common/apps/http/http_path.h"

#include <sys/stat.h>

/** An open file. The caller owns the descriptor. */
struct http_file {
    int fd;
    const char *name; /* of the path, or the index's */
    struct stat status;
};

/** The folder; its descriptor is the caller's. -1 with errno. */
int http_files_root(const char *name);

/**
 * Opens the regular file that the path leads to; of a folder, its index.html. HTTP_OK, and there is
 * an open file; else what to answer: HTTP_MOVED, if it is a folder and the path has no slash at its
 * end, HTTP_FORBIDDEN, HTTP_NOT_FOUND, HTTP_UNAVAILABLE without a free descriptor.
 */
enum http_status http_files_open(int root, const struct http_path *path, struct http_file *file);

#endif
