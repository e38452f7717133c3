/*
 * The tests' TCP client: see client.h.
 */
#include "client.h"

#include "deadline.h"
#include "probe.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 65536, SHOWN = 60 };

/** Writes @p length bytes readable into @p text, the first SHOWN of them, with C escapes. */
static const char *readable(char text[SHOWN * 4 + 64], const void *data, size_t length)
{
    const unsigned char *bytes = data;
    char *out = text;
    *out++ = '"';
    for (size_t i = 0; i < length && i < SHOWN; i++) {
        if (bytes[i] == '\n') {
            out += sprintf(out, "\\n");
        } else if (bytes[i] == '\r') {
            out += sprintf(out, "\\r");
        } else if (bytes[i] < ' ' || bytes[i] > '~' || bytes[i] == '"') {
            out += sprintf(out, "\\x%02x", bytes[i]);
        } else {
            *out++ = (char)bytes[i];
        }
    }
    sprintf(out, "\"%s (%zu bytes)", length > SHOWN ? "..." : "", length);
    return text;
}

const char *client_outcome_text(enum client_outcome outcome)
{
    switch (outcome) {
    case CLIENT_GOT: return "more bytes";
    case CLIENT_ENDED: return "end of stream";
    case CLIENT_RESET: return "a reset connection";
    case CLIENT_LATE: return "nothing more before the deadline";
    }
    return "?";
}

/* ---- connecting ---- */

static socklen_t address_of(const struct server_process *server, struct sockaddr_storage *storage)
{
    memset(storage, 0, sizeof *storage);
    if (server->family == AF_INET6) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)storage;
        six->sin6_family = AF_INET6;
        six->sin6_addr = in6addr_loopback;
        six->sin6_port = htons((uint16_t)server->port);
        return sizeof *six;
    }
    struct sockaddr_in *four = (struct sockaddr_in *)storage;
    four->sin_family = AF_INET;
    four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    four->sin_port = htons((uint16_t)server->port);
    return sizeof *four;
}

static void set_size(int fd, int level, int option, int size)
{
    if (size > 0) {
        setsockopt(fd, level, option, &size, sizeof size);
    }
}

/** A port is picked when the socket connects, so that one serves several destinations. */
static void set_source(int fd, int source)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + (unsigned)source)};
    if (source > 0) {
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){1}, sizeof(int));
        bind(fd, (struct sockaddr *)&address, sizeof address);
    }
}

/** Waits for the outcome of a connect under way; returns an errno value, 0 for success. */
static int connect_outcome(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (!test_await(fd, POLLOUT, test_deadline())) {
        return ETIMEDOUT;
    }
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

/**
 * Says whose connection it is, if the servers of all tests expect that (SERVER_OPTIONS): a client
 * of 203.0.113.SOURCE.
 */
static void say_whose(int fd, int source)
{
    unsigned char header[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" /* 12 bytes follow */
                             "\xcb\0\x71\0\x7f\0\0\x01\x12\x67\0\x50";
    const char *always = getenv("SERVER_OPTIONS");
    if (always && strstr(always, "--proxy-protocol")) {
        header[16 + 3] = (unsigned char)(source > 0 ? source : 1);
        send(fd, header, sizeof header - 1, MSG_NOSIGNAL);
    }
}

int client_try_connect(const struct server_process *server, struct client_buffers buffers)
{
    struct sockaddr_storage address;
    socklen_t length = address_of(server, &address);
    int fd = socket(server->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        return -1;
    }
    set_size(fd, SOL_SOCKET, SO_RCVBUF, buffers.receive);
    set_size(fd, SOL_SOCKET, SO_SNDBUF, buffers.send);
    set_size(fd, IPPROTO_TCP, TCP_MAXSEG, buffers.segment);
    set_source(fd, buffers.source);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    int error = 0;
    if (connect(fd, (struct sockaddr *)&address, length) == -1) {
        error = errno == EINPROGRESS ? connect_outcome(fd) : errno;
    }
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    say_whose(fd, buffers.source);
    return fd;
}

int client_connect_at(const char *where, const struct server_process *server,
                      struct client_buffers buffers)
{
    int fd = client_try_connect(server, buffers);
    cr_assert(fd >= 0, "%s: cannot connect to port %d: %s", where, server->port, strerror(errno));
    return fd;
}

/* Seldom, because a server that stops accepts each of these first: a slow one would have no end. */
void client_await_refusal_at(const char *where, const struct server_process *server)
{
    double end = test_deadline();
    int pause = 1;
    int fd;
    while ((fd = client_try_connect(server, (struct client_buffers){0})) >= 0) {
        close(fd);
        cr_assert(test_left_ms(end) > 0, "%s: the server still accepts connections after %d ms",
                  where, test_deadline_ms());
        test_pause_ms(pause);
        pause = pause < 50 ? 2 * pause : pause;
    }
    cr_assert(errno == ECONNREFUSED || errno == ECONNRESET, "%s: connecting failed with %s", where,
              strerror(errno));
}

/* ---- sending ---- */

size_t client_try_send(int fd, const void *data, size_t length, double end)
{
    size_t done = 0;
    while (done < length) {
        ssize_t sent = send(fd, (const char *)data + done, length - done, MSG_NOSIGNAL);
        if (sent > 0) {
            done += (size_t)sent;
        } else if (errno != EINTR && (errno != EAGAIN || !test_await(fd, POLLOUT, end))) {
            break;
        }
    }
    return done;
}

void client_send_at(const char *where, int fd, const void *data, size_t length)
{
    char text[SHOWN * 4 + 64];
    errno = 0;
    size_t sent = client_try_send(fd, data, length, test_deadline());
    cr_assert_eq(sent, length, "%s: sending %s: the server took %zu bytes, then: %s", where,
                 readable(text, data, length), sent, strerror(errno));
}

void client_send_text_at(const char *where, int fd, const char *text)
{
    client_send_at(where, fd, text, strlen(text));
}

/** Whether there is room again within @p quiet_ms in which the server could have made some. */
static bool await_room(int fd, int quiet_ms)
{
    const double turn = 0.02; /* s of a processor, in which one that spins comes by */
    double end = test_deadline();
    double before = probe_cpu_seconds(server_latest());
    double now;
    do {
        if (test_await(fd, POLLOUT, test_now() + quiet_ms / 1000.0)) {
            return true;
        }
        now = probe_cpu_seconds(server_latest());
    } while (now >= 0 && now < before + turn && !probe_asleep(server_latest()) &&
             test_left_ms(end) > 0);
    return false;
}

size_t client_push(int fd, const void *data, size_t length, size_t most, int quiet_ms)
{
    size_t done = 0;
    while (done < most) {
        size_t at = done % length;
        size_t rest = length - at < most - done ? length - at : most - done;
        ssize_t sent = send(fd, (const char *)data + at, rest, MSG_NOSIGNAL);
        if (sent > 0) {
            done += (size_t)sent;
        } else if (errno != EINTR && (errno != EAGAIN || !await_room(fd, quiet_ms))) {
            break;
        }
    }
    return done;
}

void client_await_delivered_at(const char *where, int fd)
{
    double end = test_deadline();
    int left = 1;
    while (ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0 && test_left_ms(end) > 0) {
        test_pause_ms(1); /* there is no event for this */
    }
    cr_assert_eq(left, 0, "%s: the server's system has not taken the last %d bytes sent", where,
                 left);
}

void client_half_close(int fd)
{
    shutdown(fd, SHUT_WR);
}

void client_reset(int fd)
{
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(fd);
}

void client_close(int fd)
{
    close(fd);
}

void server_drop_clients(const struct server_process *server)
{
    DIR *descriptors = opendir("/proc/self/fd");
    cr_assert_not_null(descriptors);
    for (struct dirent *each; (each = readdir(descriptors)) != NULL;) {
        struct sockaddr_in6 peer; /* the port stands where that of IPv4 does */
        socklen_t size = sizeof peer;
        int fd = atoi(each->d_name);
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
            (peer.sin6_family == AF_INET || peer.sin6_family == AF_INET6) &&
            ntohs(peer.sin6_port) == server->port) {
            close(fd);
        }
    }
    closedir(descriptors);
}

void server_close_all_at(const char *where, struct server_process *server)
{
    if (server->pid > 0) {
        server_drop_clients(server);
        server_stop_at(where, server);
    }
}

/* ---- receiving ---- */

enum client_outcome client_try_receive(int fd, void *data, size_t length, double end, size_t *got)
{
    *got = 0;
    while (*got < length) {
        ssize_t count = recv(fd, (char *)data + *got, length - *got, 0);
        if (count > 0) {
            *got += (size_t)count;
        } else if (count == 0) {
            return CLIENT_ENDED;
        } else if (errno == EAGAIN) {
            if (!test_await(fd, POLLIN, end)) {
                return CLIENT_LATE;
            }
        } else if (errno != EINTR) {
            return CLIENT_RESET;
        }
    }
    return CLIENT_GOT;
}

/** Fails if @p got bytes at @p data differ from what was expected there, at @p offset of the whole.
 */
static void assert_same(const char *where, const char *data, const char *expected, size_t got,
                        size_t offset)
{
    char text[SHOWN * 4 + 64];
    char wanted[SHOWN * 4 + 64];
    if (memcmp(data, expected, got) == 0) {
        return;
    }
    size_t at = 0;
    while (data[at] == expected[at]) {
        at++;
    }
    size_t from = at > 16 ? at - 16 : 0;
    cr_assert_fail("%s: byte %zu of the reply is wrong: expected %s there, got %s", where,
                   offset + at, readable(wanted, expected + from, got - from),
                   readable(text, data + from, got - from));
}

void client_expect_at(const char *where, int fd, const void *expected, size_t length)
{
    static char data[CHUNK];
    char text[SHOWN * 4 + 64];
    double end = test_deadline();
    size_t done = 0;
    while (done < length) {
        size_t rest = length - done < CHUNK ? length - done : CHUNK;
        size_t got;
        enum client_outcome outcome = client_try_receive(fd, data, rest, end, &got);
        assert_same(where, data, (const char *)expected + done, got, done);
        done += got;
        cr_assert(outcome == CLIENT_GOT, "%s: expected %s; got the first %zu bytes of it, then %s",
                  where, readable(text, expected, length), done, client_outcome_text(outcome));
    }
}

void client_expect_text_at(const char *where, int fd, const char *expected)
{
    client_expect_at(where, fd, expected, strlen(expected));
}

/** Takes what comes before the end, at most SHOWN bytes of it. */
static enum client_outcome outcome_before_end(int fd, char data[SHOWN], size_t *got)
{
    enum client_outcome outcome = client_try_receive(fd, data, 1, test_deadline(), got);
    if (outcome == CLIENT_GOT) {
        size_t more;
        client_try_receive(fd, data + 1, SHOWN - 1, test_now() + 0.05, &more);
        *got += more;
    }
    return outcome;
}

void client_expect_end_at(const char *where, int fd)
{
    char data[SHOWN];
    char text[SHOWN * 4 + 64];
    size_t got;
    enum client_outcome outcome = outcome_before_end(fd, data, &got);
    cr_assert(outcome == CLIENT_ENDED, "%s: expected end of stream, got %s: %s", where,
              client_outcome_text(outcome), readable(text, data, got));
}

void client_expect_gone_at(const char *where, int fd)
{
    char data[SHOWN];
    char text[SHOWN * 4 + 64];
    size_t got;
    enum client_outcome outcome = outcome_before_end(fd, data, &got);
    cr_assert(outcome == CLIENT_ENDED || outcome == CLIENT_RESET,
              "%s: expected that the server closes the connection, got %s: %s", where,
              client_outcome_text(outcome), readable(text, data, got));
}

void client_await_reply_at(const char *where, int fd)
{
    cr_assert(test_await(fd, POLLIN, test_deadline()), "%s: waited %d ms for a reply to begin",
              where, test_deadline_ms());
}

void client_expect_silence_at(const char *where, int fd, int milliseconds)
{
    char data[SHOWN];
    char text[SHOWN * 4 + 64];
    size_t got;
    enum client_outcome outcome =
        client_try_receive(fd, data, sizeof data, test_now() + milliseconds / 1000.0, &got);
    cr_assert(outcome == CLIENT_LATE && got == 0, "%s: expected nothing for %d ms, got %s, then %s",
              where, milliseconds, readable(text, data, got), client_outcome_text(outcome));
}

void client_ask_at(const char *where, int fd, const char *text, const char *answer)
{
    client_send_text_at(where, fd, text);
    client_expect_text_at(where, fd, answer);
}

void client_pass_at(const char *where, int from, int to, const char *text)
{
    client_send_text_at(where, from, text);
    client_expect_text_at(where, to, text);
}

void client_echo_at(const char *where, int fd, const char *line)
{
    client_ask_at(where, fd, line, line);
}

int client_connect_send_at(const char *where, const struct server_process *server, const char *text)
{
    int fd = client_connect_at(where, server, (struct client_buffers){0});
    client_send_text_at(where, fd, text);
    return fd;
}

int client_connect_echo_at(const char *where, const struct server_process *server, const char *line)
{
    int fd = client_connect_at(where, server, (struct client_buffers){0});
    client_echo_at(where, fd, line);
    return fd;
}

void client_exchange_at(const char *where, int fd, const void *data, size_t length,
                        const void *expected, size_t expected_length)
{
    static char buffer[CHUNK];
    double end = test_deadline();
    size_t sent = 0;
    size_t done = 0;
    while (done < expected_length || sent < length) {
        short events =
            (short)((done < expected_length ? POLLIN : 0) | (sent < length ? POLLOUT : 0));
        cr_assert(test_await(fd, events, end),
                  "%s: sent %zu of %zu bytes and got %zu of %zu, then nothing until the deadline",
                  where, sent, length, done, expected_length);
        end = test_deadline(); /* it goes on, however slow the machine is */
        ssize_t count = 0;
        if (sent < length) {
            count = send(fd, (const char *)data + sent, length - sent, MSG_NOSIGNAL);
            sent += count > 0 ? (size_t)count : 0;
        }
        count = done < expected_length ? recv(fd, buffer, sizeof buffer, 0) : 0;
        if (count > 0) {
            size_t rest = expected_length - done;
            assert_same(where, buffer, (const char *)expected + done,
                        (size_t)count < rest ? (size_t)count : rest, done);
            cr_assert((size_t)count <= rest, "%s: the reply has more than the %zu bytes expected",
                      where, expected_length);
            done += (size_t)count;
        } else if (done < expected_length && (count == 0 || errno != EAGAIN)) {
            cr_assert_fail("%s: sent %zu of %zu bytes and got %zu of %zu, then %s", where, sent,
                           length, done, expected_length,
                           count == 0 ? "end of stream" : strerror(errno));
        }
    }
}

bool client_try_echo(int fd, const char *line, double end)
{
    char reply[256];
    size_t length = strlen(line);
    size_t got;
    return length <= sizeof reply && client_try_send(fd, line, length, end) == length &&
           client_try_receive(fd, reply, length, end, &got) == CLIENT_GOT &&
           memcmp(reply, line, length) == 0;
}

/* ---- several clients ---- */

long descriptors_raise(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return (long)limit.rlim_max;
}

void clients_connect_at(const char *where, const struct server_process *server, int fds[],
                        int count, const char *line)
{
    for (int i = 0; i < count; i++) {
        fds[i] = client_connect_at(where, server, (struct client_buffers){0});
        if (line) {
            client_echo_at(where, fds[i], line);
        }
    }
}

void clients_echo_at(const char *where, const int fds[], int count, const char *line)
{
    for (int i = 0; i < count; i++) {
        client_echo_at(where, fds[i], line);
    }
}

void clients_send_text_at(const char *where, const int fds[], int count, const char *text)
{
    for (int i = 0; i < count; i++) {
        client_send_text_at(where, fds[i], text);
    }
}

void clients_expect_text_at(const char *where, const int fds[], int count, const char *text)
{
    for (int i = 0; i < count; i++) {
        client_expect_text_at(where, fds[i], text);
    }
}

void clients_close(const int fds[], int count)
{
    for (int i = 0; i < count; i++) {
        client_close(fds[i]);
    }
}

/* ---- what to send ---- */

char *lines_numbered(const char *prefix, int count, size_t *length)
{
    size_t each = strlen(prefix) + 8;
    char *text = malloc(each * (size_t)count + 1);
    cr_assert_not_null(text, "out of memory");
    for (int i = 0; i < count; i++) {
        sprintf(text + each * (size_t)i, "%s %06d\n", prefix, i % 1000000);
    }
    *length = each * (size_t)count;
    return text;
}

char *line_of(size_t content, const char *ending, size_t *length)
{
    char *text = malloc(content + strlen(ending) + 1);
    cr_assert_not_null(text, "out of memory");
    for (size_t i = 0; i < content; i++) {
        text[i] = (char)('a' + i % 23);
    }
    memcpy(text + content, ending, strlen(ending) + 1);
    *length = content + strlen(ending);
    return text;
}
