/*
 * Many clients at once: see crowd.h.
 */
#include "crowd.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 16384, BATCH = 64, LEAST_LINE = 24 };

/** "client 017 line 000042 aaaa...\n", of different lengths. */
static void fill(struct crowd_member *member, int number, size_t longest, size_t bytes)
{
    member->data = malloc(bytes + longest + LEAST_LINE + 2);
    cr_assert_not_null(member->data);
    for (int line = 0; member->length < bytes; line++) {
        char *at = member->data + member->length;
        size_t text = (size_t)sprintf(at, "client %03d line %06d ", number, line);
        size_t rest = longest > text ? (size_t)(line * 37 + number * 11) % (longest - text + 1) : 0;
        memset(at + text, 'a' + (line + number) % 26, rest);
        at[text + rest] = '\n';
        member->length += text + rest + 1;
    }
}

struct crowd crowd_open_at(const char *where, const struct server_process *server, int count,
                           size_t longest, size_t bytes, struct client_buffers buffers)
{
    struct crowd crowd = {.count = count, .members = calloc((size_t)count, sizeof(*crowd.members))};
    cr_assert_not_null(crowd.members);
    for (int i = 0; i < count; i++) {
        crowd.members[i].fd = client_connect_at(where, server, buffers);
        fill(&crowd.members[i], i, longest, bytes);
    }
    return crowd;
}

/** Sends what the socket takes. False after an error. */
static bool push(struct crowd_member *member)
{
    size_t rest = member->length - member->sent;
    if (rest == 0) {
        return true;
    }
    ssize_t sent = send(member->fd, member->data + member->sent, rest, MSG_NOSIGNAL);
    member->sent += sent > 0 ? (size_t)sent : 0;
    return sent > 0 || errno == EAGAIN;
}

/** Takes what has come, and compares. False after an error, an end or a wrong byte. */
static bool pull(struct crowd_member *member)
{
    char data[CHUNK];
    ssize_t got = recv(member->fd, data, sizeof data, 0);
    if (got <= 0) {
        return got < 0 && errno == EAGAIN;
    }
    if ((size_t)got > member->length - member->received ||
        memcmp(data, member->data + member->received, (size_t)got) != 0) {
        errno = EPROTO;
        return false;
    }
    member->received += (size_t)got;
    return true;
}

static void watch(int watcher, struct crowd_member *member, int operation)
{
    bool sends = member->sent < member->length;
    struct epoll_event event = {.events = sends ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = member};
    epoll_ctl(watcher, operation, member->fd, &event);
}

/* From the last event on: however long all of it takes a busy machine, somebody always gets on. */
static int await_event(int watcher, struct epoll_event events[BATCH])
{
    return epoll_wait(watcher, events, BATCH, test_deadline_ms());
}

void crowd_exchange_at(const char *where, struct crowd *crowd)
{
    int watcher = epoll_create1(EPOLL_CLOEXEC);
    int unfinished = crowd->count;
    for (int i = 0; i < crowd->count; i++) {
        crowd->members[i].sent = crowd->members[i].received = 0;
        watch(watcher, &crowd->members[i], EPOLL_CTL_ADD);
    }
    while (unfinished > 0) {
        struct epoll_event events[BATCH];
        int count = await_event(watcher, events);
        cr_assert(count > 0, "%s: %d of %d clients have not got all their replies in time", where,
                  unfinished, crowd->count);
        for (int i = 0; i < count; i++) {
            struct crowd_member *member = events[i].data.ptr;
            bool good = pull(member) && push(member);
            cr_assert(good, "%s: client %d got %zu of %zu bytes right, then: %s", where,
                      (int)(member - crowd->members), member->received, member->length,
                      errno == EPROTO ? "a wrong one" : strerror(errno));
            if (member->received == member->length) {
                epoll_ctl(watcher, EPOLL_CTL_DEL, member->fd, NULL);
                unfinished--;
            } else {
                watch(watcher, member, EPOLL_CTL_MOD);
            }
        }
    }
    close(watcher);
}

void crowd_close(struct crowd *crowd)
{
    for (int i = 0; i < crowd->count; i++) {
        client_close(crowd->members[i].fd);
        free(crowd->members[i].data);
    }
    free(crowd->members);
}

/* ---- ping ---- */

enum { PING_LENGTH = 16 };

static bool ping(int fd, int round)
{
    char line[32];
    snprintf(line, sizeof line, "round %09d\n", round);
    return send(fd, line, PING_LENGTH, MSG_NOSIGNAL) == PING_LENGTH;
}

/** Whether the reply to that round has come; it is short enough to come in one piece. */
static bool pong(int fd, int round)
{
    char expected[32];
    char line[PING_LENGTH];
    snprintf(expected, sizeof expected, "round %09d\n", round);
    return recv(fd, line, sizeof line, 0) == PING_LENGTH &&
           memcmp(line, expected, PING_LENGTH) == 0;
}

void crowd_ping_at(const char *where, const struct server_process *server, int count, int rounds)
{
    struct epoll_event events[BATCH];
    int watcher = epoll_create1(EPOLL_CLOEXEC);
    int *fds = calloc((size_t)count, sizeof(*fds));
    int *round = calloc((size_t)count, sizeof(*round));
    cr_assert(fds && round);
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = i};
        fds[i] = client_connect_at(where, server, (struct client_buffers){0});
        epoll_ctl(watcher, EPOLL_CTL_ADD, fds[i], &event);
        cr_assert(ping(fds[i], 0));
    }
    for (int unfinished = count; unfinished > 0;) {
        int ready = await_event(watcher, events);
        cr_assert(ready > 0, "%s: %d of %d clients wait for a reply forever; client 0 in round %d",
                  where, unfinished, count, round[0]);
        for (int j = 0; j < ready; j++) {
            int i = events[j].data.fd;
            cr_assert(pong(fds[i], round[i]), "%s: client %d, round %d: a wrong reply", where, i,
                      round[i]);
            round[i]++;
            unfinished -= round[i] == rounds;
            cr_assert(round[i] == rounds || ping(fds[i], round[i]));
        }
    }
    close(watcher);
    clients_close(fds, count);
    free(fds);
    free(round);
}
