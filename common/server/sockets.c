#include "common/server/sockets.h"

#include "common/base/trace.h"
#include "common/server/socket_local.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

static const char busy_text[] = "ERR server busy\n";

enum {
    ACCEPT_TRIES = 16, /* for peers that give up before they are accepted; then it is no accident */
};

/* Connections inherit all but the first of these. */
static int set_options(int fd, int send_buffer)
{
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
        return -1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 && errno != EOPNOTSUPP)
        return -1; /* a socket in the file system never delays */
    if (send_buffer == 0)
        return 0;
    return setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
}

static int open_reserve(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Its address, which may be another than was asked for, and its reserve. */
static int finish_opening(struct listener *listener)
{
    listener->endpoint.length = sizeof(listener->endpoint.address);
    if (getsockname(listener->fd, (struct sockaddr *)&listener->endpoint.address,
                    &listener->endpoint.length) != 0)
        return -1;
    listener->reserve = open_reserve();
    return listener->reserve < 0 ? -1 : 0;
}

static int start_listening(struct listener *listener, const struct endpoint *endpoint,
                           int send_buffer)
{
    if (set_options(listener->fd, send_buffer) != 0)
        return -1;
    if (socket_bind(listener->fd, endpoint) != 0)
        return -1;
    if (listen(listener->fd, SOMAXCONN) != 0)
        return -1;
    return finish_opening(listener);
}

int listener_open(struct listener *listener, const struct endpoint *endpoint, int send_buffer)
{
    *listener = (struct listener){.reserve = -1, .turn_away = busy_text};
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

/* A socket that listens, and whose address it can give. */
static int take_over(struct listener *listener, int send_buffer)
{
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (getsockopt(listener->fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0)
        return -1;
    if (listens == 0) {
        errno = EINVAL;
        return -1;
    }
    if (fcntl(listener->fd, F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(listener->fd, F_SETFL, fcntl(listener->fd, F_GETFL) | O_NONBLOCK) != 0 ||
        set_options(listener->fd, send_buffer) != 0)
        return -1;
    return finish_opening(listener);
}

int listener_adopt(struct listener *listener, int fd, int send_buffer)
{
    *listener =
        (struct listener){.fd = fd, .reserve = -1, .turn_away = busy_text, .is_given = true};
    if (take_over(listener, send_buffer) == 0)
        return 0;
    int error = errno;
    listener_close(listener);
    errno = error;
    return -1;
}

void listener_close(struct listener *listener)
{
    if (listener->set != NULL)
        listener->close_others(listener);
    if (listener->fd >= 0 && !listener->is_given)
        socket_remove(&listener->endpoint);
    if (listener->fd >= 0)
        close(listener->fd);
    if (listener->reserve >= 0)
        close(listener->reserve);
    listener->fd = listener->reserve = -1;
}

/*
 * Accepts, and asks who it is only if that matters. A peer that has reset its connection since
 * still has its address here, and later on Linux only.
 */
static int accept_next(struct listener *listener, int flags, struct endpoint *peer)
{
    int socket = listener->set != NULL ? listener->find(listener) : listener->fd;
    if (listener->proxies == NULL)
        return accept4(socket, NULL, NULL, flags | SOCK_CLOEXEC);
    peer->length = sizeof(peer->address);
    return accept4(socket, (struct sockaddr *)&peer->address, &peer->length, flags | SOCK_CLOEXEC);
}

/* Whether it may connect. Only a proxy of ours can say whose connection it is. */
static bool is_welcome(const struct listener *listener, const struct endpoint *peer)
{
    return listener->proxies == NULL || listener->admits(listener->proxies, peer);
}

/*
 * Gives the reserve up for as long as it takes to answer one peer. If nobody waits it keeps it,
 * because another thread could open something just then, and the reserve would be lost.
 */
static enum accept_result shed(struct listener *listener)
{
    if (!socket_is_readable(listener->fd)) /* EMFILE comes even if nobody waits */
        return ACCEPT_NOTHING;
    if (listener->reserve < 0)
        return ACCEPT_EXHAUSTED;
    close(listener->reserve);
    struct endpoint peer;
    int fd = accept_next(listener, SOCK_NONBLOCK, &peer);
    bool nobody = fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK); /* another process has it */
    if (fd >= 0) {
        trace_accepted(fd);
        socket_turn_away(fd, is_welcome(listener, &peer) ? listener->turn_away : "");
    }
    listener->reserve = open_reserve();
    if (nobody)
        return ACCEPT_NOTHING;
    return fd >= 0 ? ACCEPT_SHED : ACCEPT_EXHAUSTED;
}

/* Not a byte is answered, because a client could take it for its server's answer. */
static enum accept_result refuse(struct listener *listener, const struct log *log, int fd,
                                 const struct endpoint *peer)
{
    char place[ENDPOINT_TEXT_SIZE];
    endpoint_format(peer, place);
    log_limited(log, &listener->limit, LOG_LEVEL_WARN,
                "event=closed peer=%s fd=%d reason=\"--proxy-protocol does not name it\"", place,
                fd);
    socket_turn_away(fd, "");
    return ACCEPT_SHED;
}

/* The peer is gone already, or the network was for a moment: the next one may be fine. But a filter
 * of the system's may refuse the same peer forever (EPERM), so somebody has to count. */
static bool is_transient(int error)
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

enum accept_result listener_take(struct listener *listener, const struct log *log, int fd,
                                 const struct endpoint *peer)
{
    trace_accepted(fd);
    return is_welcome(listener, peer) ? ACCEPT_CONNECTION : refuse(listener, log, fd, peer);
}

enum accept_result listener_accept(struct listener *listener, int flags, const struct log *log,
                                   int *fd)
{
    int tries = ACCEPT_TRIES;
    struct endpoint peer;
    if (listener->reserve < 0) /* another thread was faster than shed() */
        listener->reserve = open_reserve();
    do
        *fd = accept_next(listener, flags, &peer);
    while (*fd < 0 && is_transient(errno) && --tries > 0);
    if (*fd >= 0)
        return listener_take(listener, log, *fd, &peer);
    int error = errno; /* the log may change it */
    if (error == EAGAIN || error == EWOULDBLOCK)
        return ACCEPT_NOTHING;
    log_limited(log, &listener->limit, LOG_LEVEL_WARN, "event=accept_failed reason=\"%s\"",
                strerror(error));
    return error == EMFILE || error == ENFILE ? shed(listener) : ACCEPT_EXHAUSTED;
}

void socket_abandon(int fd)
{
    trace_event(TRACE_CLOSE, fd, 0);
    close(fd);
}

void socket_turn_away(int fd, const char *text)
{
    send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    socket_discard(fd); /* unread bytes would turn the close into a reset, and the text be lost */
    trace_event(TRACE_CLOSE, fd, 0);
    close(fd);
}
