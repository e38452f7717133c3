/*
 * Users of the chat: see chat_user.h.
 */
#include "chat_user.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    LOOK_SIZE = 512
}; /* not much more than a line, because what is behind it is copied in vain */

enum client_outcome chat_try_line(int fd, struct chat_line *line, double end)
{
    line->length = 0;
    while (line->length < sizeof line->text - 1) {
        char *to = line->text + line->length;
        size_t room = sizeof line->text - 1 - line->length;
        ssize_t there = recv(fd, to, room < LOOK_SIZE ? room : LOOK_SIZE, MSG_PEEK);
        if (there == 0) {
            return CLIENT_ENDED;
        }
        if (there < 0) {
            if (errno != EAGAIN) {
                return CLIENT_RESET;
            }
            if (!test_await(fd, POLLIN, end)) {
                return CLIENT_LATE;
            }
            continue;
        }
        char *found = memchr(to, '\n', (size_t)there);
        size_t taken = found ? (size_t)(found - to) + 1 : (size_t)there;
        recv(fd, to, taken, 0);
        line->length += taken;
        if (found) {
            line->text[--line->length] = '\0';
            return CLIENT_GOT;
        }
    }
    return CLIENT_LATE;
}

/** The next line; asserts that there is one. The one before is for the words of that. */
static const char *next_line(const char *where, int fd, const char *wanted, const char *before)
{
    static struct chat_line line;
    struct chat_line last;
    snprintf(last.text, sizeof last.text, "%s", before);
    enum client_outcome outcome = chat_try_line(fd, &line, test_deadline());
    cr_assert_eq(outcome, CLIENT_GOT,
                 "%s: expected the line `%s`, got `%.*s`, then %s; before: `%s`", where, wanted,
                 (int)line.length, line.text, client_outcome_text(outcome), last.text);
    return line.text;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static bool is_notice(const char *line)
{
    return strncmp(line, "* ", 2) == 0 &&
           (ends_with(line, " is here") || ends_with(line, " has left") ||
            ends_with(line, " came") || ends_with(line, " left") || strstr(line, " is now "));
}

int chat_join_at(const char *where, const struct server_process *server, char nick[CHAT_NICK_SIZE])
{
    static const char greeting[] = "* welcome, you are ";
    int fd = client_connect_at(where, server, (struct client_buffers){0});
    const char *line = next_line(where, fd, greeting, "");
    cr_assert(strncmp(line, greeting, strlen(greeting)) == 0,
              "%s: expected a greeting `%s...` first, got `%s`", where, greeting, line);
    cr_assert_eq(sscanf(line + strlen(greeting), "%24[^;]", nick), 1,
                 "%s: no nickname in the greeting `%s`", where, line);
    return fd;
}

int chat_join_as_at(const char *where, const struct server_process *server, const char *nick)
{
    char text[CHAT_NICK_SIZE + 16];
    char given[CHAT_NICK_SIZE];
    int fd = chat_join_at(where, server, given);
    snprintf(text, sizeof text, "/nick %s\n", nick);
    client_send_text_at(where, fd, text);
    snprintf(text, sizeof text, "* you are %s", nick);
    chat_await_line_at(where, fd, text);
    return fd;
}

void chat_expect_line_at(const char *where, int fd, const char *text)
{
    const char *line = next_line(where, fd, text, "");
    while (strcmp(line, text) != 0 && is_notice(line)) {
        line = next_line(where, fd, text, line);
    }
    cr_assert_str_eq(line, text, "%s: expected the line `%s`, got `%s`", where, text, line);
}

void chat_await_line_at(const char *where, int fd, const char *text)
{
    const char *line = "";
    do {
        line = next_line(where, fd, text, line);
    } while (strcmp(line, text) != 0);
}

void chat_expect_heard_at(const char *where, int from, const char *nick, int to)
{
    char text[CHAT_NICK_SIZE + 32];
    client_send_text_at(where, from, "do you hear me\n");
    snprintf(text, sizeof text, "[%s] do you hear me", nick);
    chat_expect_line_at(where, to, text);
}

bool chat_try_heard(int from, int to, const char *text, double seconds)
{
    static struct chat_line line;
    double end = test_now() + seconds;
    client_try_send(from, text, strlen(text), end);
    client_try_send(from, "\n", 1, end);
    while (chat_try_line(to, &line, end) == CLIENT_GOT) {
        if (ends_with(line.text, text)) {
            return true;
        }
    }
    return false;
}
