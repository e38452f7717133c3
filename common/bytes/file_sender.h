/*
 * Sending a piece of a file to a socket, in the way that the system does best: one source file for
 * each way, of which one is linked.
 *
 *   file_sender_linux.c    sendfile(2): the bytes go from the page cache to the socket
 *   file_sender_posix.c    pread(2) and write(2), through a small buffer
 */
#ifndef COMMON_FILE_SENDER_H
#define COMMON_FILE_SENDER_H

#include <sys/types.h>

/**
 * Sends at most count bytes, which is not 0, from offset on, without moving the file's position.
 * Returns how many the socket has taken, fewer if it is full, 0 if it takes none now. -1 with
 * errno on error; ESTALE: the file has no byte at offset, so it has become shorter since somebody
 * looked. An interrupted call goes on. On a non-blocking socket this waits for nothing but the
 * disk.
 */
ssize_t file_sender_send(int socket, int file, off_t offset, size_t count);

#endif
