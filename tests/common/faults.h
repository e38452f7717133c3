/*
 * System calls that the tests answer themselves: a short count, an interrupted call, a peer that
 * is gone, without waiting for the system to do it.
 *
 * The functions are replaced in the whole test binary (its own definition comes before the C
 * library's) and pass everything on as long as no stand-in is set.
 */
#ifndef TESTS_COMMON_FAULTS_H
#define TESTS_COMMON_FAULTS_H

#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/** Stand-ins; NULL leaves a call to the system. */
struct faults {
    ssize_t (*readv)(int fd, const struct iovec *iov, int count);
    ssize_t (*writev)(int fd, const struct iovec *iov, int count);
    int (*accept4)(int fd, int flags);
    ssize_t (*sendfile)(int socket, int file, off_t *offset, size_t count); /* Linux */
    int (*thread)(void); /* pthread_create: 0 leaves it to the system, else it is its result */
    time_t later;        /* seconds that the monotonic clock is ahead of the system's */
};

extern struct faults faults;

/** The system's own calls, for stand-ins that change only some of the answers. */
ssize_t real_readv(int fd, const struct iovec *iov, int count);
ssize_t real_writev(int fd, const struct iovec *iov, int count);
int real_accept4(int fd, int flags);
ssize_t real_sendfile(int socket, int file, off_t *offset, size_t count);

#endif
