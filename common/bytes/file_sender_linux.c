#include "common/bytes/file_sender.h"

#include <errno.h>
#include <sys/sendfile.h>

ssize_t file_sender_send(int socket, int file, off_t offset, size_t count)
{
    ssize_t sent;
    do
        sent = sendfile(socket, file, &offset, count);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (sent == 0) {
        errno = ESTALE;
        return -1;
    }
    return sent;
}
