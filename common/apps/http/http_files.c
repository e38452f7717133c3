#include "common/apps/http/http_files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static const char index_name[] = "index.html";

/*
 * How a folder is opened. We look for names in it and never list it, and that needs the right to
 * search it only (x): a folder of mode 0711 hides its names, and not its files. O_RDONLY asks for
 * more.
 */
#if defined(O_PATH)
enum { FOLDER = O_PATH | O_DIRECTORY | O_CLOEXEC };
#elif defined(O_SEARCH)
enum { FOLDER = O_SEARCH | O_DIRECTORY | O_CLOEXEC };
#else
enum { FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC };
#endif

/* One in which we may not look for names is told at the start, and not with each request. */
int http_files_root(const char *name)
{
    struct stat status;
    int root = open(name, FOLDER);
    if (root < 0 || fstatat(root, ".", &status, 0) == 0)
        return root;
    int error = errno;
    close(root);
    errno = error;
    return -1;
}

static int open_folder(int folder, const char *name)
{
    return openat(folder, name, FOLDER | O_NOFOLLOW);
}

/*
 * Opening a pipe lets in a process that waits to write, and which then writes to nobody; opening a
 * device may do anything. So what the name stands for is looked at before: errno is ENXIO if it is
 * not to be opened. Somebody may exchange it after that look, which is why the flags are those for
 * anything (not to wait for a pipe's other end, nor to be given a terminal), and why inspect()
 * looks again at what was opened.
 */
static int open_file(int folder, const char *name)
{
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
        errno = S_ISLNK(status.st_mode) ? ELOOP : ENXIO;
        return -1;
    }
    if (S_ISDIR(status.st_mode))
        return open_folder(folder, name);
    return openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* The folder that the last name is to be looked for in: the root itself, or one to be closed. */
static int walk(int root, const struct http_path *path, const char **last)
{
    int folder = root;
    const char *name = http_path_first(path);
    *last = index_name;
    while (name != NULL && folder >= 0) {
        const char *next = http_path_next(path, name);
        if (next == NULL && !path->is_folder) {
            *last = name;
            break;
        }
        int parent = folder;
        folder = open_folder(parent, name);
        if (parent != root)
            close(parent);
        name = next;
    }
    return folder;
}

static enum http_status status_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP: /* a symbolic link; BSDs have other words for it */
#ifdef EFTYPE
    case EFTYPE:
#endif
#if EMLINK != ELOOP
    case EMLINK:
#endif
        return HTTP_NOT_FOUND;
    case EACCES:
    case EPERM: return HTTP_FORBIDDEN;
    case EMFILE:
    case ENFILE:
    case ENOMEM: return HTTP_UNAVAILABLE;
    case ENXIO: /* a pipe, a socket or a device */
    case ENODEV: /* a device without a driver */ return HTTP_FORBIDDEN;
    default: return HTTP_INTERNAL_ERROR;
    }
}

/* What an open descriptor is good for. */
static enum http_status inspect(struct http_file *file)
{
    if (fstat(file->fd, &file->status) != 0)
        return HTTP_INTERNAL_ERROR;
    if (S_ISDIR(file->status.st_mode))
        return HTTP_MOVED;
    return S_ISREG(file->status.st_mode) ? HTTP_OK : HTTP_FORBIDDEN;
}

enum http_status http_files_open(int root, const struct http_path *path, struct http_file *file)
{
    int folder = walk(root, path, &file->name);
    if (folder < 0)
        return status_of(errno);
    file->fd = open_file(folder, file->name);
    int error = errno;
    if (folder != root)
        close(folder);
    if (file->fd < 0)
        return status_of(error);
    enum http_status status = inspect(file);
    if (status == HTTP_MOVED && file->name == index_name)
        status = HTTP_NOT_FOUND; /* a folder that is called so has nothing to show either */
    if (status != HTTP_OK)
        close(file->fd);
    return status;
}
