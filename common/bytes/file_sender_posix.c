#include "common/bytes/file_sender.h"

#include <errno.h>
#include <unistd.h>

enum {
    PIECE = 16384, /* what lies on the stack for a moment */
};

static ssize_t read_at(int file, unsigned char *to, size_t count, off_t offset)
{
    ssize_t got;
    do
        got = pread(file, to, count, offset);
    while (got < 0 && errno == EINTR);
    if (got == 0) {
        errno = ESTALE;
        return -1;
    }
    return got;
}

/* As write(2); 0 if the socket is full. */
static ssize_t write_some(int socket, const unsigned char *from, size_t count)
{
    ssize_t written;
    do
        written = write(socket, from, count);
    while (written < 0 && errno == EINTR);
    return written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : written;
}

/* What was read and not taken is read again the next time: nothing is kept in between. */
ssize_t file_sender_send(int socket, int file, off_t offset, size_t count)
{
    unsigned char piece[PIECE];
    size_t sent = 0;
    while (sent < count) {
        size_t wanted = count - sent < sizeof(piece) ? count - sent : sizeof(piece);
        ssize_t got = read_at(file, piece, wanted, offset + (off_t)sent);
        ssize_t written = got < 0 ? -1 : write_some(socket, piece, (size_t)got);
        if (written < 0)
            return sent > 0 ? (ssize_t)sent : -1;
        sent += (size_t)written;
        if (written < got)
            break;
    }
    return (ssize_t)sent;
}
