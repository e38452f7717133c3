/*
 * A crowd of users of the chat, all read by one thread.
 *
 * Rules: crowd_receive() reads everybody's lines as they come, so that nobody has much waiting, and
 * hands each to the crowd's `hear`. It ends when so many lines were found worth counting, when the
 * server has closed all connections, or at its deadline.
 */
#ifndef TESTS_CHAT_CROWD_H
#define TESTS_CHAT_CROWD_H

#include "chat_user.h"

struct crowd_member {
    int fd;
    char *text; /**< what has come and is not a whole line yet */
    size_t length;
    size_t room;
    bool ended; /**< the server has closed the connection */
};

struct crowd {
    int count;
    int ended;  /**< members whose connection the server has closed */
    long heard; /**< lines that counted, so far */
    struct crowd_member *members;
    int epoll;
    /** A line (without its LF) that a member got. True: it counts. */
    bool (*hear)(struct crowd *crowd, int member, const char *line, size_t length);
    void *book; /**< the test's */
};

/** @p count users that have connected; they have read nothing yet. Asserts that they can. */
#define crowd_gather(server, count) crowd_gather_at(HERE, server, count)
struct crowd crowd_gather_at(const char *where, const struct server_process *server, int count);

/** Reads until `heard` is at least @p heard (true), or nobody is left or @p end has come (false).
 */
bool crowd_receive(struct crowd *crowd, long heard, double end);

/** All leave, by closing. */
void crowd_leave(struct crowd *crowd);

#endif
