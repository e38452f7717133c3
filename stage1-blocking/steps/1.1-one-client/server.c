/*
 * Step 1.1: an echo server for one client at a time.
 *
 * Left out on purpose: a second client, which waits until the first has left, and a client that
 * leaves without reading its answers, which ends the program (step 1.2 mends both).
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
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
    printf("step1.1: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Sends back what the client sends, until it closes its side. */
static void serve(int client)
{
    char data[4096];
    ssize_t n;
    while ((n = recv(client, data, sizeof(data), 0)) > 0)
        send(client, data, (size_t)n, 0);
    close(client);
}

int main(int argc, char **argv)
{
    long port = argc == 3 && strcmp(argv[1], "--port") == 0 ? strtol(argv[2], NULL, 10) : 7001;
    int listener = listen_on(port);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client >= 0)
            serve(client);
    }
}
