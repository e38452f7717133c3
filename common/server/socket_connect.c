/*
 * Sockets that connect to others, which only some servers do: apart from those that listen.
 */
#include "common/base/trace.h"
#include "common/server/sockets.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>

/* What accepted sockets inherit from their listener. */
static int set_connecting_options(int fd, int send_buffer)
{
    const int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        return -1;
    if (send_buffer == 0)
        return 0;
    return setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
}

/* EINPROGRESS is no error: the other side has to answer first. Neither is EINTR, after which it
 * goes on, too. */
static bool begins_to_connect(int fd, const struct endpoint *to)
{
    return connect(fd, (const struct sockaddr *)&to->address, to->length) == 0 ||
           errno == EINPROGRESS || errno == EINTR;
}

int socket_connect(const struct endpoint *to, int send_buffer)
{
    int fd = socket(to->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    trace_accepted(fd);
    if (set_connecting_options(fd, send_buffer) == 0 && begins_to_connect(fd, to))
        return fd;
    int error = errno;
    socket_abandon(fd);
    errno = error;
    return -1;
}

/*
 * SO_ERROR alone does not tell: it is 0 while the system still tries, too. And it tells an error
 * once only. A poll(2) that fails tells nothing, and whoever waits is told again.
 */
bool socket_has_connected(int fd, int *error)
{
    struct pollfd writing = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof(*error);
    if (poll(&writing, 1, 0) != 1)
        return false;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, error, &size) != 0)
        *error = errno;
    return true;
}
