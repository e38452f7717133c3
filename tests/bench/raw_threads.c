/*
 * A floor: the least that a server with a thread for every socket can do: read(2) and write(2), and
 * they may block. Not a server to be used; see raw_epoll.c.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STACK_SIZE = 128 * 1024, BUFFER_SIZE = 65536 };

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
    printf("raw-threads: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument;
    char data[BUFFER_SIZE];
    ssize_t length;
    while ((length = read(fd, data, sizeof(data))) > 0 && write(fd, data, (size_t)length) == length)
        ;
    close(fd);
    return NULL;
}

int main(void)
{
    struct rlimit limit;
    pthread_attr_t attributes;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    signal(SIGPIPE, SIG_IGN);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int listener = listen_anywhere();
    for (;;) {
        pthread_t thread;
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && pthread_create(&thread, &attributes, serve, (void *)(intptr_t)fd) != 0)
            close(fd);
    }
}
