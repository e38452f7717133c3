/*
 * A peer: line echo on libevent, written as its book shows it: bufferevents, evbuffer_readln().
 */
#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* Echoes whole lines; what has no end yet stays in the buffer. */
static void on_read(struct bufferevent *connection, void *unused)
{
    (void)unused;
    struct evbuffer *input = bufferevent_get_input(connection);
    struct evbuffer *output = bufferevent_get_output(connection);
    for (;;) {
        struct evbuffer_ptr end = evbuffer_search(input, "\n", 1, NULL);
        if (end.pos < 0)
            return;
        evbuffer_remove_buffer(input, output, (size_t)end.pos + 1);
    }
}

static void on_event(struct bufferevent *connection, short events, void *unused)
{
    (void)unused;
    if (events & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        bufferevent_free(connection);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                      int length, void *base)
{
    (void)listener;
    (void)address;
    (void)length;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct bufferevent *connection = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(connection, on_read, NULL, on_event, NULL);
    bufferevent_enable(connection, EV_READ | EV_WRITE);
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    struct event_base *base = event_base_new();
    struct evconnlistener *listener = evconnlistener_new_bind(
        base, on_accept, base, LEV_OPT_CLOSE_ON_FREE, 4096, (struct sockaddr *)&address, (int)size);
    if (listener == NULL ||
        getsockname(evconnlistener_get_fd(listener), (struct sockaddr *)&address, &size) != 0)
        return EXIT_FAILURE;
    printf("libevent: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    event_base_dispatch(base);
    return EXIT_SUCCESS;
}
