/*
 * The core's steps: the server of step 2.5, whose input is a queue. What a line is, and when it is
 * too long, is told by a function that knows no socket.
 *
 * Left out on purpose: a limit to the time for which a client that has to go may stay (C.8).
 */
#include "common/bytes/line_framing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 65536, LINES_PER_TURN = 64, OUTPUT_MAX_BYTES = 2 * LINE_MAX_BYTES };

/* What a thread would keep on its stack: how far this client has got. */
struct client {
    int fd;
    unsigned interest; /* what epoll reports: EPOLLIN, or EPOLLOUT while there is work left */
    struct input_queue input;
    enum framing_result found; /* what the last search for a line has found */
    bool ends;                 /* it is told why, and what it still sends is dropped */
    size_t waiting;            /* bytes of output that the socket has not taken yet */
    char output[OUTPUT_MAX_BYTES];
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
    printf("%s: echo on 127.0.0.1:%d\n", program_invocation_short_name, ntohs(address.sin_port));
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
    input_queue_clear(&client->input);
    close(client->fd); /* epoll forgets a descriptor that is closed */
    free(client);
}

/* What answering a line costs a real server: here, 20 microseconds of computing. */
static void work(void)
{
    clock_t end = clock() + CLOCKS_PER_SEC / 50000;
    while (clock() < end) {
    }
}

/* Puts bytes behind the output. There is room: what can be read in one turn fits. */
static void client_put(struct client *client, const void *bytes, size_t length)
{
    memcpy(client->output + client->waiting, bytes, length);
    client->waiting += length;
}

/* Answers the next whole lines, one turn of them. */
static void client_answer(struct client *client)
{
    struct message line;
    int lines = LINES_PER_TURN;
    do {
        client->found = line_framing_next(&client->input, LINE_MAX_BYTES, &line);
        if (client->found == FRAMING_MESSAGE) {
            work();
            client_put(client, line.data, line.length);
        }
    } while (client->found == FRAMING_MESSAGE && --lines > 0);
    input_queue_retire(&client->input);
    if (client->found == FRAMING_TOO_LONG) {
        client_put(client, line_framing_too_long_text.data, line_framing_too_long_text.length);
        client->ends = true;
    }
}

/* Whether there may be another line, which no event will tell of. */
static bool client_has_line(const struct client *client)
{
    return client->found == FRAMING_MESSAGE && !input_queue_is_empty(&client->input);
}

/* Reads what has arrived into the input. False if the connection is over. */
static bool client_read(struct client *client)
{
    ssize_t n = input_queue_fill(&client->input, client->fd);
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* What it sends is dropped until it closes: a close of ours would reset what it has not read. */
static bool client_drop(struct client *client)
{
    char dropped[4096];
    ssize_t n = recv(client->fd, dropped, sizeof(dropped), 0);
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Sends what the socket takes, and keeps the rest. False if the connection is broken. */
static bool client_flush(struct client *client)
{
    ssize_t n = send(client->fd, client->output, client->waiting, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN; /* the socket is full: nothing was taken, and nothing is lost */
    client->waiting -= (size_t)n;
    memmove(client->output, client->output + n, client->waiting);
    return true;
}

/*
 * Asks epoll for the one thing that this client is waiting for. A client that has lines left
 * after its turn waits for room to write: nearly always there is room, so it runs again in the next
 * round, after everybody else. No EPOLLIN would come for lines that we have read already.
 */
static bool client_wait(struct client *client)
{
    bool work_left = client->waiting > 0 || client_has_line(client);
    unsigned interest = work_left ? EPOLLOUT : EPOLLIN;
    struct epoll_event event = {.events = interest, .data.ptr = client};
    if (interest == client->interest)
        return true;
    client->interest = interest;
    return epoll_ctl(epoll, EPOLL_CTL_MOD, client->fd, &event) == 0;
}

/* The socket is ready: for reading, or, if there is work left, for writing. */
static void client_run(struct client *client)
{
    bool open = true;
    if (client->waiting == 0 && client->ends) {
        open = client_drop(client);
    } else if (client->waiting == 0) {
        if (!client_has_line(client))
            open = client_read(client);
        if (open)
            client_answer(client);
    }
    if (open && client->waiting > 0)
        open = client_flush(client);
    if (open && client->ends && client->waiting == 0)
        shutdown(client->fd, SHUT_WR);
    if (!open || !client_wait(client))
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
    client->interest = EPOLLIN;
    client->waiting = 0;
    client->ends = false;
    client->found = FRAMING_INCOMPLETE;
    input_queue_init(&client->input, NULL, line_framing_input_limit(LINE_MAX_BYTES));
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
