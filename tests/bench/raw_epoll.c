/*
 * A floor: the least that an event-driven server can do. Level-triggered epoll(7), one recv(2), one
 * send(2), nothing else. It does not look for lines, keeps nothing that a socket does not take, and
 * has no limits, no timeouts and no way to end; it is here to be compared with, not to be used.
 *
 *   raw_epoll            sends back what it gets
 *   raw_epoll --to-all   sends what it gets to all others: the floor of the chat
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, MOST_CONNECTIONS = 65536 };

static int connections[MOST_CONNECTIONS];
static size_t connection_count;

static int listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        exit(1);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* connections inherit it */
    printf("raw-epoll: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void accept_one(int epoll, int listener, bool to_all)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0 || connection_count == MOST_CONNECTIONS)
        return;
    if (to_all)
        connections[connection_count++] = fd;
    watch(epoll, fd);
}

static void answer(int fd, bool to_all)
{
    static char data[65536];
    ssize_t length = recv(fd, data, sizeof(data), 0);
    if (length <= 0) {
        close(fd);
        return;
    }
    for (size_t i = 0; to_all && i < connection_count; i++)
        if (connections[i] != fd)
            send(connections[i], data, (size_t)length, MSG_NOSIGNAL);
    if (!to_all)
        send(fd, data, (size_t)length, MSG_NOSIGNAL);
}

int main(int argc, char **argv)
{
    bool to_all = argc > 1 && strcmp(argv[1], "--to-all") == 0;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int listener = listen_anywhere();
    int epoll = epoll_create1(0);
    watch(epoll, listener);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener)
                accept_one(epoll, listener, to_all);
            else
                answer(events[i].data.fd, to_all);
        }
    }
}
