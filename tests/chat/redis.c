#include "redis.h"

#include "support/backend.h"
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIES = 10 };

static pid_t run(int port)
{
    char text[16];
    snprintf(text, sizeof text, "%d", port);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int nowhere = open("/dev/null", O_RDWR);
        dup2(nowhere, 1);
        dup2(nowhere, 2);
        execlp("redis-server", "redis-server", "--port", text, "--bind", "127.0.0.1", "--save", "",
               "--appendonly", "no", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static int try_connect(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        return fd;
    }
    close(fd);
    return -1;
}

/** What it says to a command, whose answer is one line or a bulk string. */
static void ask(const char *where, int fd, const char *command, char answer[REDIS_ANSWER_SIZE])
{
    size_t length = 0;
    char text[512];
    snprintf(text, sizeof text, "%s\r\n", command);
    client_send_text_at(where, fd, text);
    double end = test_deadline();
    bool is_whole = false;
    while (!is_whole) {
        size_t got;
        cr_assert_lt(length, REDIS_ANSWER_SIZE - 1);
        cr_assert_eq(client_try_receive(fd, answer + length, 1, end, &got), CLIENT_GOT,
                     "%s: no answer to %s", where, command);
        length++;
        answer[length] = '\0';
        bool is_bulk = answer[0] == '$' && answer[1] != '-';
        size_t lines = 0;
        for (size_t i = 0; i < length; i++) {
            lines += answer[i] == '\n';
        }
        is_whole = lines == (is_bulk ? 2 : 1);
    }
    answer[length - 2] = '\0';
    if (answer[0] == '$' && answer[1] != '-') {
        char *bulk = strchr(answer, '\n') + 1;
        memmove(answer, bulk, strlen(bulk) + 1);
    }
}

/** Whether it runs and answers; if it has ended, somebody else has its port. */
static bool answers(struct redis *redis)
{
    char answer[REDIS_ANSWER_SIZE];
    double end = test_deadline();
    int status;
    while (test_now() < end) {
        if (waitpid(redis->pid, &status, WNOHANG) == redis->pid) {
            return false;
        }
        redis->client = try_connect(redis->port);
        if (redis->client >= 0) {
            ask(HERE, redis->client, "PING", answer);
            return strcmp(answer, "+PONG") == 0;
        }
        test_pause_ms(5);
    }
    return false;
}

struct redis redis_start(void)
{
    if (system("command -v redis-server >/dev/null") != 0) {
        cr_skip_test("redis-server is not installed");
    }
    struct redis redis = {.client = -1};
    for (int i = 0; i < TRIES; i++) {
        redis.port = backend_nobody();
        redis.pid = run(redis.port);
        if (answers(&redis)) {
            return redis;
        }
    }
    cr_assert_fail("redis-server does not start");
    return redis;
}

void redis_start_again(struct redis *redis)
{
    for (int i = 0; i < TRIES; i++) {
        redis->pid = run(redis->port);
        if (answers(redis)) {
            return;
        }
    }
    cr_assert_fail("redis-server does not start again");
}

void redis_kill(struct redis *redis)
{
    int status;
    kill(redis->pid, SIGKILL);
    waitpid(redis->pid, &status, 0);
    if (redis->client >= 0) {
        close(redis->client);
    }
    redis->client = -1;
}

void redis_signal(const struct redis *redis, int signal)
{
    kill(redis->pid, signal);
}

void redis_ask_at(const char *where, const struct redis *redis, const char *command,
                  char answer[REDIS_ANSWER_SIZE])
{
    ask(where, redis->client, command, answer);
}

void redis_expect_at(const char *where, const struct redis *redis, const char *command,
                     const char *expected)
{
    char answer[REDIS_ANSWER_SIZE];
    ask(where, redis->client, command, answer);
    cr_assert_str_eq(answer, expected, "%s: `%s` is answered `%s`, not `%s`", where, command,
                     answer, expected);
}

void redis_await_at(const char *where, const struct redis *redis, const char *command,
                    const char *expected)
{
    char answer[REDIS_ANSWER_SIZE];
    double end = test_deadline();
    do {
        ask(where, redis->client, command, answer);
        if (strcmp(answer, expected) == 0) {
            return;
        }
        test_pause_ms(10);
    } while (test_now() < end);
    cr_assert_fail("%s: `%s` is still answered `%s`, not `%s`", where, command, answer, expected);
}
