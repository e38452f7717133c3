/*
 * A crowd of users of the chat: see crowd.h.
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

enum { READ_SIZE = 65536, EVENTS = 256 };

struct crowd crowd_gather_at(const char *where, const struct server_process *server, int count)
{
    descriptors_raise();
    struct crowd crowd = {.count = count, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    crowd.members = calloc((size_t)count, sizeof *crowd.members);
    cr_assert(crowd.members && crowd.epoll >= 0, "%s: no means for a crowd", where);
    for (int i = 0; i < count; i++) {
        crowd.members[i].fd = client_connect_at(where, server, (struct client_buffers){0});
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(crowd.epoll, EPOLL_CTL_ADD, crowd.members[i].fd, &event);
    }
    return crowd;
}

static void keep(struct crowd_member *member, const char *text, size_t length)
{
    if (length == 0) {
        return;
    }
    if (member->length + length > member->room) {
        member->room = (member->length + length) * 2;
        member->text = realloc(member->text, member->room);
        cr_assert_not_null(member->text, "out of memory");
    }
    memcpy(member->text + member->length, text, length);
    member->length += length;
}

static void hear(struct crowd *crowd, int i, const char *line, size_t length)
{
    if (crowd->hear(crowd, i, line, length)) {
        crowd->heard++;
    }
}

/** Hands out the whole lines in what has come; the rest is kept. */
static void split(struct crowd *crowd, int i, const char *text, size_t length)
{
    struct crowd_member *member = &crowd->members[i];
    const char *end;
    while ((end = memchr(text, '\n', length)) != NULL) {
        size_t here = (size_t)(end - text);
        if (member->length > 0) {
            keep(member, text, here);
            hear(crowd, i, member->text, member->length);
            member->length = 0;
        } else {
            hear(crowd, i, text, here);
        }
        text += here + 1;
        length -= here + 1;
    }
    keep(member, text, length);
}

static void receive(struct crowd *crowd, int i)
{
    static char text[READ_SIZE];
    struct crowd_member *member = &crowd->members[i];
    ssize_t got = recv(member->fd, text, sizeof text, 0);
    if (got > 0) {
        split(crowd, i, text, (size_t)got);
    } else if (got == 0 || errno != EAGAIN) {
        epoll_ctl(crowd->epoll, EPOLL_CTL_DEL, member->fd, NULL);
        member->ended = true;
        crowd->ended++;
    }
}

bool crowd_receive(struct crowd *crowd, long heard, double end)
{
    struct epoll_event events[EVENTS];
    while (crowd->heard < heard && crowd->ended < crowd->count) {
        int left = test_left_ms(end);
        int count = epoll_wait(crowd->epoll, events, EVENTS, left);
        for (int i = 0; i < count; i++) {
            receive(crowd, (int)events[i].data.u32);
        }
        if (left == 0) {
            break;
        }
    }
    return crowd->heard >= heard;
}

void crowd_leave(struct crowd *crowd)
{
    for (int i = 0; i < crowd->count; i++) {
        client_close(crowd->members[i].fd);
        free(crowd->members[i].text);
    }
    close(crowd->epoll);
    free(crowd->members);
}
