/*
 * Step 2.2: one thread that sleeps until a socket is ready: the first event loop.
 *
 * Left out on purpose: lines (2.3), and a client that does not read (2.4).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* From now on no call for this descriptor waits: what cannot be done at once fails with EAGAIN. */
static void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static int listen_on(long port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 1024) != 0)
        die("listen");
    getsockname(fd, (struct sockaddr *)&address, &size);
    printf("step2.2: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Asks epoll to report when there is something to read, or to accept, from this descriptor. */
static int watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    set_nonblocking(fd);
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void accept_client(int epoll, int listener)
{
    int client = accept(listener, NULL, NULL);
    if (client >= 0 && watch(epoll, client) != 0)
        close(client);
}

static void answer_client(int client)
{
    char data[4096];
    ssize_t n = recv(client, data, sizeof(data), 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        n = send(client, data, (size_t)n, MSG_NOSIGNAL);
    if (n <= 0)
        close(client); /* epoll forgets a descriptor that is closed */
}

int main(int argc, char **argv)
{
    long port = argc == 3 && strcmp(argv[1], "--port") == 0 ? strtol(argv[2], NULL, 10) : 7002;
    int listener = listen_on(port);
    int epoll = epoll_create1(0);
    if (epoll < 0 || watch(epoll, listener) != 0)
        die("epoll");
    for (;;) {
        struct epoll_event ready[64];
        int count = epoll_wait(epoll, ready, 64, -1);
        for (int i = 0; i < count; i++) {
            if (ready[i].data.fd == listener)
                accept_client(epoll, listener);
            else
                answer_client(ready[i].data.fd);
        }
    }
}
