/*
 * Step 2.1: one thread that asks each client in turn whether it has sent anything.
 *
 * Left out on purpose: sleeping while nobody has (2.2), lines (2.3), and a client that does not
 * read (2.4).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS_MAX = 1000 };

static int clients[CLIENTS_MAX];
static int client_count;

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
    printf("step2.1: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void ask_listener(int listener)
{
    int client = accept(listener, NULL, NULL);
    if (client < 0)
        return; /* EAGAIN: nobody has connected */
    if (client_count == CLIENTS_MAX) {
        close(client);
        return;
    }
    set_nonblocking(client);
    clients[client_count++] = client;
}

/* False if the client has left, or the connection is broken. */
static int ask_client(int client)
{
    char data[4096];
    ssize_t n = recv(client, data, sizeof(data), 0);
    if (n < 0 && errno == EAGAIN)
        return 1; /* it has sent nothing: ask again in the next round */
    if (n > 0)
        n = send(client, data, (size_t)n, MSG_NOSIGNAL);
    return n > 0;
}

int main(int argc, char **argv)
{
    long port = argc == 3 && strcmp(argv[1], "--port") == 0 ? strtol(argv[2], NULL, 10) : 7002;
    int listener = listen_on(port);
    set_nonblocking(listener);
    for (;;) {
        ask_listener(listener);
        for (int i = client_count - 1; i >= 0; i--) {
            if (!ask_client(clients[i])) {
                close(clients[i]);
                clients[i] = clients[--client_count]; /* the last one takes its place */
            }
        }
    }
}
