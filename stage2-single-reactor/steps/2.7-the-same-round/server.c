/*
 * Step 2.7: a client that another one closes in the same round gets no event any more.
 *
 * Left out on purpose: a word to the client that has to go, running out of descriptors all the same
 * (2.8), time limits and an orderly end (2.9).
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
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 65536, LINES_PER_TURN = 64, CLIENTS_MAX = 50 };

/* What a thread would keep on its stack: how far this client has got. */
struct client {
    struct client *next, *before; /* in the ring of all: next was silent longer */
    int fd;
    unsigned interest; /* what epoll reports: EPOLLIN, or EPOLLOUT while there is work left */
    size_t used;       /* bytes of input that were not answered yet */
    char input[LINE_MAX_BYTES];
    size_t waiting; /* bytes of output that the socket has not taken yet */
    char output[LINE_MAX_BYTES];
};

static int epoll;
static int listener;
static struct client all = {.next = &all, .before = &all}; /* its .before was silent longest */
static int client_count;
static struct epoll_event ready[64]; /* the events of this round */
static int ready_count;

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
    printf("step2.7: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
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

/* Puts a client in front of the list: we have heard from nobody more recently. */
static void list_add(struct client *client)
{
    client->next = all.next;
    client->before = &all;
    all.next->before = client;
    all.next = client;
    client_count++;
}

static void list_remove(struct client *client)
{
    client->before->next = client->next;
    client->next->before = client->before;
    client_count--;
}

static void client_close(struct client *client)
{
    list_remove(client);
    close(client->fd); /* epoll forgets a descriptor that is closed, but has reported it already */
    for (int i = 0; i < ready_count; i++)
        if (ready[i].data.ptr == client)
            ready[i].data.ptr = NULL;
    free(client);
}

/* What answering a line costs a real server: here, 20 microseconds of computing. */
static void work(void)
{
    clock_t end = clock() + CLOCKS_PER_SEC / 50000;
    while (clock() < end) {
    }
}

/* Answers the next whole lines, one turn of them, and moves the rest of the input to the front. */
static void client_answer(struct client *client)
{
    size_t done = 0;
    for (int i = 0; i < LINES_PER_TURN; i++) {
        const char *end = memchr(client->input + done, '\n', client->used - done);
        if (end == NULL)
            break;
        size_t length = (size_t)(end + 1 - (client->input + done));
        work();
        memcpy(client->output + client->waiting, client->input + done, length);
        client->waiting += length;
        done += length;
    }
    client->used -= done;
    memmove(client->input, client->input + done, client->used);
}

static bool client_has_line(const struct client *client)
{
    return memchr(client->input, '\n', client->used) != NULL;
}

/* Appends what has arrived to the input. False if the connection is over. */
static bool client_read(struct client *client)
{
    ssize_t n = recv(client->fd, client->input + client->used, LINE_MAX_BYTES - client->used, 0);
    if (n > 0) {
        client->used += (size_t)n;
        list_remove(client);
        list_add(client);
    }
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
    if (client->waiting == 0) {
        if (!client_has_line(client))
            open = client_read(client);
        if (open)
            client_answer(client);
        if (client->used == LINE_MAX_BYTES)
            open = false; /* the line is too long */
    }
    if (open && client->waiting > 0)
        open = client_flush(client);
    if (!open || !client_wait(client))
        client_close(client);
}

static void accept_client(void)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return;
    if (client_count == CLIENTS_MAX)
        client_close(all.before); /* NOLINT: the checker loses track of the ring */
    struct client *client = malloc(sizeof(*client));
    if (client == NULL || watch(fd, client) != 0) {
        free(client);
        close(fd);
        return;
    }
    client->fd = fd;
    client->interest = EPOLLIN;
    client->used = 0;
    client->waiting = 0;
    list_add(client);
}

int main(int argc, char **argv)
{
    long port = argc == 3 && strcmp(argv[1], "--port") == 0 ? strtol(argv[2], NULL, 10) : 7002;
    listener = listen_on(port);
    epoll = epoll_create1(0);
    if (epoll < 0 || watch(listener, &listener) != 0)
        die("epoll");
    for (;;) {
        ready_count = epoll_wait(epoll, ready, 64, -1);
        for (int i = 0; i < ready_count; i++) {
            if (ready[i].data.ptr == &listener)
                accept_client();
            else if (ready[i].data.ptr != NULL)
                client_run(ready[i].data.ptr);
        }
    }
}
