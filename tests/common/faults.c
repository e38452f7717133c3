/*
 * System calls with stand-ins: see faults.h.
 */
#include "faults.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct faults faults;

/* The name in the program is not the C library's declared one, whose types differ per system. */
ssize_t replaced_readv(int fd, const struct iovec *iov, int count) __asm__("readv");
ssize_t replaced_writev(int fd, const struct iovec *iov, int count) __asm__("writev");
ssize_t replaced_recv(int fd, void *data, size_t size, int flags) __asm__("recv");
ssize_t replaced_send(int fd, const void *data, size_t size, int flags) __asm__("send");
ssize_t replaced_sendmsg(int fd, const struct msghdr *message, int flags) __asm__("sendmsg");
int replaced_accept4(int fd, void *address, void *length, int flags) __asm__("accept4");
ssize_t replaced_sendfile(int socket, int file, off_t *offset, size_t count) __asm__("sendfile");
int replaced_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                            void *(*run)(void *), void *argument) __asm__("pthread_create");
int replaced_clock_gettime(clockid_t clock, struct timespec *now) __asm__("clock_gettime");

/* A sanitizer has a version of its own in front of the C library's, and wants to be asked. */
#define DECLARE_INTERCEPTOR(name, type, ...)                                                       \
    extern type interceptor_##name(__VA_ARGS__) __asm__("__interceptor_" #name)                    \
        __attribute__((weak))

DECLARE_INTERCEPTOR(readv, ssize_t, int, const struct iovec *, int);
DECLARE_INTERCEPTOR(writev, ssize_t, int, const struct iovec *, int);
DECLARE_INTERCEPTOR(recv, ssize_t, int, void *, size_t, int);
DECLARE_INTERCEPTOR(send, ssize_t, int, const void *, size_t, int);
DECLARE_INTERCEPTOR(sendmsg, ssize_t, int, const struct msghdr *, int);
DECLARE_INTERCEPTOR(accept4, int, int, void *, void *, int);
DECLARE_INTERCEPTOR(pthread_create, int, pthread_t *, const pthread_attr_t *, void *(*)(void *),
                    void *);

typedef ssize_t vector_call(int fd, const struct iovec *iov, int count);
typedef ssize_t receive_call(int fd, void *data, size_t size, int flags);
typedef ssize_t send_call(int fd, const void *data, size_t size, int flags);
typedef ssize_t message_call(int fd, const struct msghdr *message, int flags);
typedef ssize_t file_call(int socket, int file, off_t *offset, size_t count);
typedef int accept_call(int fd, void *address, void *length, int flags);
typedef int create_call(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* ISO C has no cast from a data pointer to a function; POSIX says that this one works. */
static void find(const char *name, void *function)
{
    *(void **)function = dlsym(RTLD_NEXT, name);
}

ssize_t real_readv(int fd, const struct iovec *iov, int count)
{
    vector_call *call = interceptor_readv;
    if (call == NULL)
        find("readv", &call);
    return call(fd, iov, count);
}

ssize_t real_writev(int fd, const struct iovec *iov, int count)
{
    vector_call *call = interceptor_writev;
    if (call == NULL)
        find("writev", &call);
    return call(fd, iov, count);
}

static ssize_t real_recv(int fd, void *data, size_t size, int flags)
{
    receive_call *call = interceptor_recv;
    if (call == NULL)
        find("recv", &call);
    return call(fd, data, size, flags);
}

static ssize_t real_send(int fd, const void *data, size_t size, int flags)
{
    send_call *call = interceptor_send;
    if (call == NULL)
        find("send", &call);
    return call(fd, data, size, flags);
}

static ssize_t real_sendmsg(int fd, const struct msghdr *message, int flags)
{
    message_call *call = interceptor_sendmsg;
    if (call == NULL)
        find("sendmsg", &call);
    return call(fd, message, flags);
}

static int real_accept4_at(int fd, void *address, void *length, int flags)
{
    accept_call *call = interceptor_accept4;
    if (call == NULL)
        find("accept4", &call);
    return call(fd, address, length, flags);
}

int real_accept4(int fd, int flags)
{
    return real_accept4_at(fd, NULL, NULL, flags);
}

/* No sanitizer looks at this one. */
ssize_t real_sendfile(int socket, int file, off_t *offset, size_t count)
{
    file_call *call;
    find("sendfile", &call);
    return call(socket, file, offset, count);
}

ssize_t replaced_readv(int fd, const struct iovec *iov, int count)
{
    return faults.readv != NULL ? faults.readv(fd, iov, count) : real_readv(fd, iov, count);
}

ssize_t replaced_writev(int fd, const struct iovec *iov, int count)
{
    return faults.writev != NULL ? faults.writev(fd, iov, count) : real_writev(fd, iov, count);
}

/* A receive without flags is a readv(2) of one piece, to a stand-in. */
ssize_t replaced_recv(int fd, void *data, size_t size, int flags)
{
    struct iovec piece = {data, size};
    return faults.readv != NULL && flags == 0 ? faults.readv(fd, &piece, 1)
                                              : real_recv(fd, data, size, flags);
}

/* And a send is a writev(2), whether it may wait or not. */
ssize_t replaced_send(int fd, const void *data, size_t size, int flags)
{
    struct iovec piece = {(void *)(uintptr_t)data, size};
    return faults.writev != NULL && (flags & ~MSG_DONTWAIT) == MSG_NOSIGNAL
               ? faults.writev(fd, &piece, 1)
               : real_send(fd, data, size, flags);
}

ssize_t replaced_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return faults.writev != NULL && flags == (MSG_NOSIGNAL | MSG_DONTWAIT)
               ? faults.writev(fd, message->msg_iov, (int)message->msg_iovlen)
               : real_sendmsg(fd, message, flags);
}

int replaced_accept4(int fd, void *address, void *length, int flags)
{
    return faults.accept4 != NULL ? faults.accept4(fd, flags)
                                  : real_accept4_at(fd, address, length, flags);
}

ssize_t replaced_sendfile(int socket, int file, off_t *offset, size_t count)
{
    return faults.sendfile != NULL ? faults.sendfile(socket, file, offset, count)
                                   : real_sendfile(socket, file, offset, count);
}

static int real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                               void *(*run)(void *), void *argument)
{
    create_call *call = interceptor_pthread_create;
    if (call == NULL)
        find("pthread_create", &call);
    return call(thread, attributes, run, argument);
}

int replaced_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                            void *(*run)(void *), void *argument)
{
    int error = faults.thread != NULL ? faults.thread() : 0;
    return error != 0 ? error : real_pthread_create(thread, attributes, run, argument);
}

/* Sanitizers ask for the time before they can be asked for their version. */
int replaced_clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_MONOTONIC)
        now->tv_sec += faults.later;
    return result;
}
