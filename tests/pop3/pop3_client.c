/*
 * A POP3 client: see pop3_client.h.
 */
#include "pop3_client.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/** Takes what has come up to the next LF, but no more than fits. False at the end or too late. */
static bool take_line(int fd, char *line, size_t size, size_t *length, double end)
{
    *length = 0;
    while (*length < size) {
        char *to = line + *length;
        ssize_t there = recv(fd, to, size - *length, MSG_PEEK);
        if (there == 0 || (there < 0 && errno != EAGAIN)) {
            return false;
        }
        if (there < 0) {
            if (!test_await(fd, POLLIN, end)) {
                return false;
            }
            continue;
        }
        char *found = memchr(to, '\n', (size_t)there);
        size_t taken = found ? (size_t)(found - to) + 1 : (size_t)there;
        recv(fd, to, taken, 0);
        *length += taken;
        if (found) {
            return true;
        }
    }
    return false;
}

const char *pop3_line_at(const char *where, int fd)
{
    static char line[POP3_LINE_SIZE];
    size_t length;
    bool whole = take_line(fd, line, sizeof line, &length, test_deadline());
    cr_assert(whole, "%s: expected a line, got `%.*s`", where, (int)length, line);
    cr_assert(length >= 2 && line[length - 2] == '\r', "%s: `%.*s` does not end with CR LF", where,
              (int)length - 1, line);
    line[length - 2] = '\0';
    return line;
}

int pop3_connect_at(const char *where, const struct server_process *server)
{
    return pop3_connect_from_at(where, server, 1);
}

int pop3_connect_from_at(const char *where, const struct server_process *server, int source)
{
    int fd = client_connect_at(where, server, (struct client_buffers){.source = source});
    const char *line = pop3_line_at(where, fd);
    cr_assert(strncmp(line, "+OK", 3) == 0, "%s: expected a greeting, got `%s`", where, line);
    return fd;
}

int pop3_login_at(const char *where, const struct server_process *server, const char *user)
{
    char command[128];
    int fd = pop3_connect_at(where, server);
    snprintf(command, sizeof command, "USER %s", user);
    pop3_ok_at(where, fd, command);
    pop3_ok_at(where, fd, "PASS " MAILBOX_PASSWORD);
    return fd;
}

const char *pop3_ask_at(const char *where, int fd, const char *command)
{
    char line[4096];
    size_t length = (size_t)snprintf(line, sizeof line, "%s\r\n", command);
    client_send_at(where, fd, line, length);
    return pop3_line_at(where, fd);
}

/** Expects a status, and returns what follows it. */
static const char *ask_for(const char *where, int fd, const char *command, const char *status)
{
    const char *line = pop3_ask_at(where, fd, command);
    size_t length = strlen(status);
    cr_assert(strncmp(line, status, length) == 0 && (line[length] == ' ' || line[length] == '\0'),
              "%s: `%s`: expected %s, got `%s`", where, command, status, line);
    return line[length] == ' ' ? line + length + 1 : line + length;
}

const char *pop3_ok_at(const char *where, int fd, const char *command)
{
    return ask_for(where, fd, command, "+OK");
}

const char *pop3_error_at(const char *where, int fd, const char *command)
{
    return ask_for(where, fd, command, "-ERR");
}

char *pop3_lines_at(const char *where, int fd, size_t *length)
{
    size_t capacity = 1 << 16;
    char *text = malloc(capacity);
    double end = test_deadline();
    *length = 0;
    for (;;) {
        if (capacity - *length < POP3_LINE_SIZE) {
            capacity *= 2;
            text = realloc(text, capacity);
        }
        cr_assert_not_null(text, "out of memory");
        char *line = text + *length;
        size_t got;
        bool whole = take_line(fd, line, POP3_LINE_SIZE, &got, end);
        cr_assert(whole, "%s: after %zu bytes of an answer: expected a line, got `%.*s`", where,
                  *length, (int)got, line);
        cr_assert(got >= 2 && line[got - 2] == '\r', "%s: `%.*s` does not end with CR LF", where,
                  (int)got - 1, line);
        if (got == 3 && line[0] == '.') {
            break;
        }
        *length += got;
    }
    text[*length] = '\0';
    return text;
}

void pop3_expect_lines_at(const char *where, int fd, const char *command, const char *lines)
{
    size_t length;
    pop3_ok_at(where, fd, command);
    char *text = pop3_lines_at(where, fd, &length);
    cr_assert_str_eq(text, lines, "%s: `%s`: expected\n%s\ngot\n%s", where, command, lines, text);
    free(text);
}

void pop3_quit_at(const char *where, int fd)
{
    pop3_ok_at(where, fd, "QUIT");
    client_expect_end_at(where, fd);
    client_close(fd);
}
