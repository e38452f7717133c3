/*
 * Step 2.3: an event loop with a struct for each client, because a line can arrive in pieces.
 *
 * Left out on purpose: a client that does not read its answers loses some of them (2.4).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 65536 };

/* What a thread would keep on its stack: how far this client has got. */
struct client {
    int fd;
    size_t used; /* bytes of input that were not answered yet */
    char input[LINE_MAX_BYTES];
};

static int epoll;
static int listener;

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
    printf("step2.3: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Asks epoll to report when there is something to read, and to give us this pointer then. */
static int watch(int fd, void *attachment)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = attachment};
    set_nonblocking(fd);
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void client_close(struct client *client)
{
    close(client->fd); /* epoll forgets a descriptor that is closed */
    free(client);
}

/* Answers each whole line of the input, and moves the rest to the front. */
static void client_answer(struct client *client)
{
    size_t done = 0;
    const char *end;
    while ((end = memchr(client->input + done, '\n', client->used - done)) != NULL) {
        size_t length = (size_t)(end + 1 - (client->input + done));
        send(client->fd, client->input + done, length, MSG_NOSIGNAL);
        done += length;
    }
    client->used -= done;
    memmove(client->input, client->input + done, client->used);
}

/* Appends what has arrived to the input. False if the connection is over. */
static bool client_read(struct client *client)
{
    ssize_t n = recv(client->fd, client->input + client->used, LINE_MAX_BYTES - client->used, 0);
    if (n > 0)
        client->used += (size_t)n;
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* The socket is ready. */
static void client_run(struct client *client)
{
    bool open = client_read(client);
    if (open)
        client_answer(client);
    if (!open || client->used == LINE_MAX_BYTES) /* or the line is too long */
        client_close(client);
}

static void accept_client(void)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return;
    struct client *client = malloc(sizeof(*client));
    if (client == NULL || watch(fd, client) != 0) {
        free(client);
        close(fd);
        return;
    }
    client->fd = fd;
    client->used = 0;
} /* epoll has the address now: NOLINT(clang-analyzer-unix.Malloc) */

int main(int argc, char **argv)
{
    long port = argc == 3 && strcmp(argv[1], "--port") == 0 ? strtol(argv[2], NULL, 10) : 7002;
    listener = listen_on(port);
    epoll = epoll_create1(0);
    if (epoll < 0 || watch(listener, &listener) != 0)
        die("epoll");
    for (;;) {
        struct epoll_event ready[64];
        int count = epoll_wait(epoll, ready, 64, -1);
        for (int i = 0; i < count; i++) {
            if (ready[i].data.ptr == &listener)
                accept_client();
            else
                client_run(ready[i].data.ptr);
        }
    }
}
