/*
 * Step 1.2: an echo server with a thread for each client.
 *
 * Left out on purpose: messages. It sends back whatever has arrived, half a line too (1.3).
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
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
    printf("step1.2: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Sends back what the client sends, until it closes its side or the connection breaks. */
static void serve(int client)
{
    char data[4096];
    ssize_t n;
    while ((n = recv(client, data, sizeof(data), 0)) > 0)
        if (send(client, data, (size_t)n, MSG_NOSIGNAL) < 0)
            break;
    close(client);
}

static void *client_thread(void *client)
{
    serve((int)(intptr_t)client);
    return NULL;
}

int main(int argc, char **argv)
{
    long port = argc == 3 && strcmp(argv[1], "--port") == 0 ? strtol(argv[2], NULL, 10) : 7001;
    int listener = listen_on(port);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        pthread_t thread;
        if (client < 0)
            continue;
        if (pthread_create(&thread, NULL, client_thread, (void *)(intptr_t)client) == 0)
            pthread_detach(thread); /* nobody will join it: it cleans up after itself */
        else
            close(client); /* no thread to be had: this client cannot be served */
    }
}
