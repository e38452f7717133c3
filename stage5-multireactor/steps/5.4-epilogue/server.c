/*
 * Step 5.4: the stack comes back. Each client has a stack but no thread: a coroutine, which gives
 * the one thread back to the event loop wherever it would have to wait.
 *
 * Left out on purpose: a limit to the clients (as in 2.6), time limits and an orderly end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, STACK_BYTES = 64 * 1024, GUARD_BYTES = 4096, CALLS_PER_TURN = 64 };

/* A coroutine: a stack, and where in its code it has stopped. */
struct client {
    int fd;
    unsigned interest; /* what it waits for: EPOLLIN, EPOLLOUT, or either */
    int calls;         /* how many it has made in this turn */
    bool over;
    char *stack; /* with a guard page below it */
    ucontext_t context;
};

static int epoll;
static int listener;
static ucontext_t loop;        /* where the event loop has stopped, while a client runs */
static struct client *running; /* the client that runs, NULL in the event loop */

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
    printf("step5.4: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
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

/*
 * Stops the running client here until its socket is ready. The event loop goes on behind its call
 * of client_resume; when that is called for this client again, this function returns.
 */
static void wait_until(unsigned interest)
{
    struct client *client = running;
    struct epoll_event event = {.events = interest, .data.ptr = client};
    if (interest != client->interest)
        epoll_ctl(epoll, EPOLL_CTL_MOD, client->fd, &event);
    client->interest = interest;
    swapcontext(&client->context, &loop);
    client->calls = 0;
}

/* Nobody takes the thread away from a client, so one that has much to do gives it back itself. */
static void take_turns(void)
{
    if (++running->calls > CALLS_PER_TURN)
        wait_until(EPOLLIN | EPOLLOUT); /* nearly always one of them holds, so it runs next round */
}

/* As recv(2) in stage 1: returns when there is something, and others run meanwhile. */
static ssize_t co_recv(int fd, void *data, size_t size)
{
    ssize_t n;
    take_turns();
    while ((n = recv(fd, data, size, 0)) < 0 && errno == EAGAIN)
        wait_until(EPOLLIN);
    return n;
}

/* As send(2) in stage 1: returns when everything is in the socket's buffer, or -1. */
static ssize_t co_send(int fd, const char *data, size_t size)
{
    size_t sent = 0;
    take_turns();
    while (sent < size) {
        ssize_t n = send(fd, data + sent, size - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return -1;
        if (n < 0)
            wait_until(EPOLLOUT);
        else
            sent += (size_t)n;
    }
    return (ssize_t)sent;
}

/* Sends back each whole line among the first used bytes. Returns how many bytes are in them. */
static size_t answer_lines(int client, const char *input, size_t used)
{
    size_t done = 0;
    const char *end;
    while ((end = memchr(input + done, '\n', used - done)) != NULL) {
        size_t length = (size_t)(end + 1 - (input + done));
        co_send(client, input + done, length);
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
    while (used < sizeof(input) && (n = co_recv(client, input + used, sizeof(input) - used)) > 0) {
        used += (size_t)n;
        size_t done = answer_lines(client, input, used);
        used -= done;
        memmove(input, input + done, used); /* the beginning of the next line goes to the front */
    }
    close(client);
}

/* The first function on a client's stack. When it returns, the event loop goes on (uc_link). */
static void client_main(void)
{
    serve(running->fd);
    running->over = true;
}

static void client_free(struct client *client)
{
    if (client->stack != MAP_FAILED)
        munmap(client->stack, GUARD_BYTES + STACK_BYTES);
    free(client);
}

/* Runs the client from where it has stopped until it waits again, or is over. */
static void client_resume(struct client *client)
{
    running = client;
    swapcontext(&loop, &client->context);
    running = NULL;
    if (client->over)
        client_free(client); /* not by itself: it was standing on its stack */
}

/* The first swapcontext(3) to this context calls client_main on this stack. */
static void prepare(ucontext_t *context, char *stack)
{
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = &loop;
    makecontext(context, client_main, 0);
}

/* A client with a stack of its own, which has not run yet; NULL without memory. */
static struct client *client_new(int fd)
{
    struct client *client = malloc(sizeof(*client));
    if (client == NULL)
        return NULL;
    *client = (struct client){.fd = fd, .interest = EPOLLIN};
    client->stack = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    /* A stack grows down. Below its end is a page that nobody may touch. */
    if (client->stack == MAP_FAILED || mprotect(client->stack, GUARD_BYTES, PROT_NONE) != 0) {
        client_free(client);
        return NULL;
    }
    prepare(&client->context, client->stack + GUARD_BYTES);
    return client;
}

static void accept_client(void)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return;
    struct client *client = client_new(fd);
    if (client == NULL || watch(fd, client) != 0) {
        if (client != NULL)
            client_free(client);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    long port = argc == 3 && strcmp(argv[1], "--port") == 0 ? strtol(argv[2], NULL, 10) : 7005;
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
                client_resume(ready[i].data.ptr);
        }
    }
}
