#include "backend.h"

#include "deadline.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)port)};
}

struct backend backend_open(int backlog)
{
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    struct backend backend = {.listening =
                                  socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    cr_assert_eq(bind(backend.listening, (struct sockaddr *)&address, length), 0);
    cr_assert_eq(listen(backend.listening, backlog), 0);
    cr_assert_eq(getsockname(backend.listening, (struct sockaddr *)&address, &length), 0);
    backend.port = ntohs(address.sin_port);
    return backend;
}

int backend_accept_at(const char *where, const struct backend *backend)
{
    double end = test_deadline();
    cr_assert(test_await(backend->listening, POLLIN, end), "%s: nobody has connected", where);
    int fd = accept4(backend->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    cr_assert_geq(fd, 0, "%s", where);
    return fd;
}

void backend_expect_nobody(const struct backend *backend, int milliseconds)
{
    cr_assert_not(test_await(backend->listening, POLLIN, test_now() + milliseconds / 1000.0),
                  "somebody has connected");
}

void backend_close(struct backend *backend)
{
    close(backend->listening);
    backend->listening = -1;
}

/* One that does not complete has found the backlog full. */
void backend_fill(const struct backend *backend, int fds[BACKEND_FILL])
{
    struct sockaddr_in address = loopback(backend->port);
    for (int i = 0; i < BACKEND_FILL; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(fds[i], (struct sockaddr *)&address, sizeof address);
        test_await(fds[i], POLLOUT, test_now() + 0.1);
    }
}

/* The socket is kept: with SO_REUSEADDR who says so, too, can bind that port, and the system gives
 * it to nobody. */
int backend_nobody(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    return ntohs(address.sin_port);
}
