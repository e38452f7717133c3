#include "sockets.h"

#include "trace.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char busy_text[] = "ERR server busy\n";

bool endpoint_parse(struct endpoint *endpoint, const char *address, unsigned port)
{
    memset(endpoint, 0, sizeof(*endpoint));
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)&endpoint->address;
    if (inet_pton(AF_INET, address, &ipv4->sin_addr) == 1) {
        ipv4->sin_family = AF_INET;
        ipv4->sin_port = htons((uint16_t)port);
        endpoint->length = sizeof(*ipv4);
        return true;
    }
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&endpoint->address;
    if (inet_pton(AF_INET6, address, &ipv6->sin6_addr) == 1) {
        ipv6->sin6_family = AF_INET6;
        ipv6->sin6_port = htons((uint16_t)port);
        endpoint->length = sizeof(*ipv6);
        return true;
    }
    return false;
}

void endpoint_format(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_SIZE])
{
    char address[INET6_ADDRSTRLEN] = "?";
    if (endpoint->address.ss_family == AF_INET) {
        const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)&endpoint->address;
        inet_ntop(AF_INET, &ipv4->sin_addr, address, sizeof(address));
        snprintf(text, ENDPOINT_TEXT_SIZE, "%s:%u", address, (unsigned)ntohs(ipv4->sin_port));
    } else {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)&endpoint->address;
        inet_ntop(AF_INET6, &ipv6->sin6_addr, address, sizeof(address));
        snprintf(text, ENDPOINT_TEXT_SIZE, "[%s]:%u", address, (unsigned)ntohs(ipv6->sin6_port));
    }
}

void endpoint_of_peer(struct endpoint *endpoint, int fd)
{
    memset(endpoint, 0, sizeof(*endpoint));
    endpoint->length = sizeof(endpoint->address);
    if (getpeername(fd, (struct sockaddr *)&endpoint->address, &endpoint->length) != 0)
        memset(endpoint, 0, sizeof(*endpoint));
}

/* Connections inherit all but the first of these. */
static int set_options(int fd, int send_buffer)
{
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
        return -1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        return -1;
    if (send_buffer == 0)
        return 0;
    return setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
}

static int open_reserve(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int start_listening(struct listener *listener, const struct endpoint *endpoint,
                           int send_buffer)
{
    if (set_options(listener->fd, send_buffer) != 0)
        return -1;
    if (bind(listener->fd, (const struct sockaddr *)&endpoint->address, endpoint->length) != 0)
        return -1;
    if (listen(listener->fd, SOMAXCONN) != 0)
        return -1;
    listener->endpoint.length = sizeof(listener->endpoint.address);
    if (getsockname(listener->fd, (struct sockaddr *)&listener->endpoint.address,
                    &listener->endpoint.length) != 0)
        return -1;
    listener->reserve = open_reserve();
    return listener->reserve < 0 ? -1 : 0;
}

int listener_open(struct listener *listener, const struct endpoint *endpoint, int send_buffer)
{
    *listener = (struct listener){.reserve = -1};
    listener->fd =
        socket(endpoint->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener->fd < 0)
        return -1;
    if (start_listening(listener, endpoint, send_buffer) != 0) {
        int error = errno;
        listener_close(listener);
        errno = error;
        return -1;
    }
    return 0;
}

void listener_close(struct listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    if (listener->reserve >= 0)
        close(listener->reserve);
    listener->fd = listener->reserve = -1;
}

/* Gives the reserve up for as long as it takes to answer one peer. */
static enum accept_result shed(struct listener *listener)
{
    if (listener->reserve < 0)
        listener->reserve = open_reserve();
    if (listener->reserve < 0)
        return ACCEPT_EXHAUSTED;
    close(listener->reserve);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    bool nobody = fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (fd >= 0) {
        trace_accepted(fd);
        socket_turn_away(fd, busy_text);
    }
    listener->reserve = open_reserve();
    if (nobody) /* EMFILE comes before a look at who waits */
        return ACCEPT_NOTHING;
    return fd >= 0 ? ACCEPT_SHED : ACCEPT_EXHAUSTED;
}

/* The peer is gone already, or the network was for a moment: the next one may be fine. */
static bool passes_over(int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EPERM: return true;
    default: return false;
    }
}

enum accept_result listener_accept(struct listener *listener, int flags, const struct log *log,
                                   int *fd)
{
    do
        *fd = accept4(listener->fd, NULL, NULL, flags | SOCK_CLOEXEC);
    while (*fd < 0 && passes_over(errno));
    if (*fd >= 0) {
        trace_accepted(*fd);
        return ACCEPT_CONNECTION;
    }
    int error = errno; /* the log may change it */
    if (error == EAGAIN || error == EWOULDBLOCK)
        return ACCEPT_NOTHING;
    log_limited(log, &listener->limit, LOG_LEVEL_WARN, "cannot accept: %s", strerror(error));
    return error == EMFILE || error == ENFILE ? shed(listener) : ACCEPT_EXHAUSTED;
}

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

void socket_turn_away(int fd, const char *text)
{
    send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    socket_discard(fd); /* unread bytes would turn the close into a reset, and the text be lost */
    trace_event(TRACE_CLOSE, fd, 0);
    close(fd);
}

bool socket_is_writable(int fd)
{
    struct pollfd writing = {.fd = fd, .events = POLLOUT};
    return poll(&writing, 1, 0) != 0;
}

bool socket_discard(int fd)
{
    char dropped[4096];
    for (int i = 0; i < 16; i++) {
        ssize_t got = recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT);
        if (got == 0)
            return false;
        if (got < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    }
    return true;
}
