#include "common/server/socket_state.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

bool socket_is_writable(int fd)
{
    struct pollfd writing = {.fd = fd, .events = POLLOUT};
    return poll(&writing, 1, 0) != 0;
}

bool socket_is_readable(int fd)
{
    struct pollfd reading = {.fd = fd, .events = POLLIN};
    return poll(&reading, 1, 0) != 0;
}

bool socket_is_lost(int fd, bool *over)
{
    struct pollfd nothing = {.fd = fd}; /* errors and the end of both directions come unasked */
    int error = 0;
    socklen_t size = sizeof(error);
    *over = poll(&nothing, 1, 0) == 1;
    return *over && (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0);
}

void socket_reset_on_close(int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

uint32_t socket_unacknowledged(int fd)
{
    int bytes = 0;
    return ioctl(fd, TIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint32_t)bytes : 0;
}

uint32_t socket_send_age(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof(info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 ? info.tcpi_last_data_sent
                                                                      : 0;
}

bool socket_has_ended(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return false;
    return info.tcpi_state == TCP_CLOSE_WAIT || info.tcpi_state == TCP_LAST_ACK ||
           info.tcpi_state == TCP_CLOSING || info.tcpi_state == TCP_CLOSE;
}

static enum socket_dropped drop_once(int fd, int flags)
{
    char dropped[16384];
    ssize_t got;
    do
        got = recv(fd, dropped, sizeof(dropped), flags);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        explicit_bzero(dropped, (size_t)got);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return DROPPED_NOTHING;
    return got > 0 ? DROPPED_BYTES : DROPPED_END;
}

enum socket_dropped socket_drop(int fd)
{
    return drop_once(fd, 0);
}

enum socket_dropped socket_discard(int fd)
{
    enum socket_dropped all = DROPPED_NOTHING;
    for (int i = 0; i < 4; i++) {
        enum socket_dropped once = drop_once(fd, MSG_DONTWAIT);
        if (once != DROPPED_BYTES)
            return once == DROPPED_END ? DROPPED_END : all;
        all = DROPPED_BYTES;
    }
    return all;
}
