/*
 * Lea's slide says "optionally try first read now", right after accept. Whether that is worth a
 * system call depends on how often a client's bytes are there by then. This counts it, for clients
 * that speak as soon as they are connected: one at a time, and so many that they have to wait for
 * accept.
 *
 *   first_read           prints a line for docs/measuring.md
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 4000, AT_A_TIME = 50 };

static struct sockaddr_in address;
static int listener;

static int listen_anywhere(void)
{
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        exit(1);
    return fd;
}

/* Connects, speaks at once, and waits for the end: so many at a time as the argument says. */
static void *talk(void *argument)
{
    const int at_a_time = *(const int *)argument;
    int fds[AT_A_TIME];
    char byte = 'x';
    for (int served = 0; served < CLIENTS; served += at_a_time) {
        for (int i = 0; i < at_a_time; i++) {
            fds[i] = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(fds[i], (struct sockaddr *)&address, sizeof(address)) != 0 ||
                send(fds[i], &byte, 1, MSG_NOSIGNAL) != 1)
                exit(1);
        }
        for (int i = 0; i < at_a_time; i++) {
            while (recv(fds[i], &byte, 1, 0) > 0) {
            }
            close(fds[i]);
        }
    }
    return NULL;
}

/* Serves them as a reactor does: waits, accepts, and tries a read. How often it finds something. */
static int count_first_reads(int at_a_time)
{
    pthread_t talker;
    int found = 0;
    if (pthread_create(&talker, NULL, talk, &at_a_time) != 0)
        exit(1);
    for (int accepted = 0; accepted < CLIENTS;) {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        poll(&ready, 1, -1);
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0)
            continue;
        char byte;
        if (recv(fd, &byte, 1, 0) == 1) {
            found++;
        } else {
            struct pollfd input = {.fd = fd, .events = POLLIN};
            poll(&input, 1, -1);
            recv(fd, &byte, 1, 0);
        }
        close(fd);
        accepted++;
    }
    pthread_join(talker, NULL);
    return found;
}

int main(void)
{
    listener = listen_anywhere();
    int alone = count_first_reads(1);
    int crowd = count_first_reads(AT_A_TIME);
    printf("Of %d clients that spoke as soon as they were connected, a first read right after "
           "accept found "
           "the bytes of %d when they came one by one, and of %d when %d came at a time.\n",
           CLIENTS, alone, crowd, AT_A_TIME);
    return 0;
}
