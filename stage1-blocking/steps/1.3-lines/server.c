/*
 * Step 1.3: an echo server with a thread for each client, which answers lines.
 *
 * Left out on purpose: time limits, a word to the client whose line is too long, what to do without
 * descriptors (1.4), and an orderly end (1.5).
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 };

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
    printf("step1.3: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Sends back each whole line among the first used bytes. Returns how many bytes are in them. */
static size_t answer_lines(int client, const char *input, size_t used)
{
    size_t done = 0;
    const char *end;
    while ((end = memchr(input + done, '\n', used - done)) != NULL) {
        size_t length = (size_t)(end + 1 - (input + done));
        send(client, input + done, length, MSG_NOSIGNAL);
        done += length;
    }
    return done;
}

/* Answers lines, until the client closes its side, the connection breaks, or a line is too long. */
static void serve(int client)
{
    char input[LINE_MAX_BYTES];
    size_t used = 0; /* bytes that have arrived and were not answered yet */
    ssize_t n;
    while (used < sizeof(input) && (n = recv(client, input + used, sizeof(input) - used, 0)) > 0) {
        used += (size_t)n;
        size_t done = answer_lines(client, input, used);
        used -= done;
        memmove(input, input + done, used); /* the beginning of the next line goes to the front */
    }
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
