/*
 * Users of the chat, as its tests play them: each is a connected socket (support/client.h), here
 * read by lines.
 *
 * Rules:
 * - What the server tells everybody (who came, who has left, who is called what) comes at any time.
 *   chat_expect... skip it; who wants to see a notice asks for it by chat_await_line().
 * - The asserting functions are for the main thread of a test; chat_try_... for any.
 */
#ifndef TESTS_CHAT_USER_H
#define TESTS_CHAT_USER_H

#include "support/client.h"

enum {
    CHAT_NICK_SIZE = 32,
    CHAT_LINE_SIZE = 70000,
};

/** A line that arrived. */
struct chat_line {
    size_t length; /**< without its end */
    char text[CHAT_LINE_SIZE];
};

/** Takes the next line, its LF not included. CLIENT_GOT, or why there is none. Any thread. */
enum client_outcome chat_try_line(int fd, struct chat_line *line, double end);

/** Connects and reads the greeting; @p nick receives the nickname that it tells. */
#define chat_join(server, nick) chat_join_at(HERE, server, nick)
int chat_join_at(const char *where, const struct server_process *server, char nick[CHAT_NICK_SIZE]);

/** Connects with a nickname of one's own. */
#define chat_join_as(server, nick) chat_join_as_at(HERE, server, nick)
int chat_join_as_at(const char *where, const struct server_process *server, const char *nick);

/** Expects this line (without its end) next, notices aside. */
#define chat_expect_line(fd, text) chat_expect_line_at(HERE, fd, text)
void chat_expect_line_at(const char *where, int fd, const char *text);

/** Takes lines until this one has come, notices or not. */
#define chat_await_line(fd, text) chat_await_line_at(HERE, fd, text)
void chat_await_line_at(const char *where, int fd, const char *text);

/** One says a line of his own, and the other one hears it next. */
#define chat_expect_heard(from, nick, to) chat_expect_heard_at(HERE, from, nick, to)
void chat_expect_heard_at(const char *where, int from, const char *nick, int to);

/** As the last one, for any thread, in @p seconds. */
bool chat_try_heard(int from, int to, const char *text, double seconds);

#endif
