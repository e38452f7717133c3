/*
 * The clients of `make trace`: a short scene, the same for every stage.
 *
 *   usage: scenario PORT [knock]
 *
 *   three talkers    send a line and wait for it to come back, several times; at the end three
 *                    lines at once
 *   a slow client    sends one line in four pieces, with pauses
 *   a costly client  sends the first line of all, for which the server blocks its thread
 *                    (--block-ms 12 --cost-every 1000)
 *
 * Prints, as events of a trace, from when to when each client waited for an answer, by the clock of
 * the servers' traces (CLOCK_MONOTONIC) in nanoseconds: tests/trace/play.sh adds them to a trace.
 *
 * `scenario PORT knock` is another one: a client sends a line, and a while after the answer
 * somebody else connects and goes again; three times. It shows a server that is idle until then.
 *
 * Each client is a thread with calls that block, so the scene goes on as the server answers. Exit
 * status 0 if every line came back.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
    CLIENTS = 5,
    COSTLY = 3,
    SLOW = 4,
    ROUNDS = 4,
    PATIENCE_S = 20, /* a server that does not answer in that time does not at all */
};

struct client {
    int fd;
    int number;
    bool failed;
    int64_t asked; /* when it sent its last line */
};

static pthread_barrier_t costly_sent; /* so that the costly line is the first one */

static void pause_us(long us)
{
    const struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int connect_to(unsigned port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

static void say(struct client *client, const char *text)
{
    size_t length = strlen(text);
    client->asked = now_ns();
    if (send(client->fd, text, length, MSG_NOSIGNAL) != (ssize_t)length)
        client->failed = true;
}

/* Waits until the text has come back. */
static void hear(struct client *client, const char *text)
{
    char answer[256];
    size_t length = strlen(text);
    if (recv(client->fd, answer, length, MSG_WAITALL) != (ssize_t)length ||
        memcmp(answer, text, length) != 0)
        client->failed = true;
    static const char *const event =
        "{\"ph\":\"%c\",\"pid\":2,\"tid\":%d,\"ts\":%" PRId64 ",\"name\":\"waits\",\"args\":{}},\n";
    int64_t now = now_ns();
    flockfile(stdout); /* the two belong together */
    printf(event, 'B', client->number + 1, client->asked);
    printf(event, 'E', client->number + 1, now);
    funlockfile(stdout);
}

static void talk(struct client *client)
{
    static const char three[] = "one\ntwo\nthree\n";
    for (int i = 0; i < ROUNDS; i++) {
        say(client, "hello\n");
        hear(client, "hello\n");
        pause_us(1500 + 300 * client->number);
    }
    say(client, three);
    hear(client, three);
}

static void talk_slowly(struct client *client)
{
    static const char *const pieces[] = {"I ", "take ", "my ", "time\n"};
    for (int i = 0; i < 4; i++) {
        if (i > 0)
            pause_us(4000);
        say(client, pieces[i]);
    }
    hear(client, "I take my time\n");
}

static void ask_much(struct client *client)
{
    hear(client, "costly\n");
    pause_us(500);
}

static void *run(void *argument)
{
    struct client *client = argument;
    if (client->number == COSTLY)
        say(client, "costly\n");
    pthread_barrier_wait(&costly_sent);
    pause_us(2000 + 400 * client->number);
    if (client->number == COSTLY)
        ask_much(client);
    else if (client->number == SLOW)
        talk_slowly(client);
    else
        talk(client);
    close(client->fd);
    return NULL;
}

/* One client talks, and others knock at the door. */
static int knock(unsigned port)
{
    struct client client = {.fd = connect_to(port)};
    client.failed = client.fd < 0;
    for (int i = 0; i < 3 && !client.failed; i++) {
        say(&client, "hello\n");
        hear(&client, "hello\n");
        pause_us(2500);
        close(connect_to(port));
        pause_us(2500);
    }
    close(client.fd);
    return client.failed;
}

int main(int argc, char **argv)
{
    struct client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    bool failed = false;
    bool knocks = argc == 3 && strcmp(argv[2], "knock") == 0;
    unsigned port = argc == 2 || knocks ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    if (port == 0 || port > 65535) {
        fprintf(stderr, "usage: scenario PORT [knock]\n");
        return 2;
    }
    if (knocks)
        return knock(port);
    pthread_barrier_init(&costly_sent, NULL, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.fd = connect_to(port), .number = i};
        if (clients[i].fd < 0) {
            perror("scenario: cannot connect");
            return 1;
        }
        pause_us(500);
    }
    for (int i = 0; i < CLIENTS; i++)
        if (pthread_create(&threads[i], NULL, run, &clients[i]) != 0)
            return 1;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        failed = failed || clients[i].failed;
    }
    if (failed)
        fprintf(stderr, "scenario: not every line came back\n");
    return failed;
}
