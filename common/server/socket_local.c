#include "common/server/socket_local.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether it is a socket's file, and no process has that socket any more. */
static bool is_stale(const struct endpoint *endpoint)
{
    struct stat file; /* a file of any kind refuses */
    if (lstat(endpoint_path(endpoint), &file) != 0 || !S_ISSOCK(file.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool refused =
        connect(fd, (const struct sockaddr *)&endpoint->address, endpoint->length) != 0 &&
        errno == ECONNREFUSED;
    close(fd);
    return refused;
}

int socket_bind(int fd, const struct endpoint *endpoint)
{
    const struct sockaddr *address = (const struct sockaddr *)&endpoint->address;
    if (bind(fd, address, endpoint->length) == 0)
        return 0;
    if (errno != EADDRINUSE || endpoint_path(endpoint) == NULL)
        return -1;
    bool stale = is_stale(endpoint);
    errno = EADDRINUSE;
    if (!stale)
        return -1;
    socket_remove(endpoint);
    return bind(fd, address, endpoint->length);
}

void socket_remove(const struct endpoint *endpoint)
{
    const char *path = endpoint_path(endpoint);
    if (path != NULL)
        unlink(path);
}
