#include "common/bytes/socket_io.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>

ssize_t socket_receive(int fd, const struct iovec *pieces, int count)
{
    ssize_t received;
    do
        received =
            count == 1 ? recv(fd, pieces->iov_base, pieces->iov_len, 0) : readv(fd, pieces, count);
    while (received < 0 && errno == EINTR);
    return received;
}

ssize_t socket_send(int fd, const struct iovec *pieces, int count)
{
    ssize_t sent;
    do
        sent = count == 1 ? send(fd, pieces->iov_base, pieces->iov_len, MSG_NOSIGNAL)
                          : writev(fd, pieces, count);
    while (sent < 0 && errno == EINTR);
    return sent;
}

/* sendmsg(2) only reads the pieces, though its type does not say so. */
static ssize_t send_pieces_now(int fd, const struct iovec *pieces, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces,
                             .msg_iovlen = (size_t)count};
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t socket_send_now(int fd, const struct iovec *pieces, int count)
{
    ssize_t sent;
    do
        sent = count == 1 ? send(fd, pieces->iov_base, pieces->iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
                          : send_pieces_now(fd, pieces, count);
    while (sent < 0 && errno == EINTR);
    return sent;
}
