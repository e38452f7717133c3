/*
 * A redis-server of the test's own: on a free port, without files.
 *
 * Rules: redis_start() skips the test if redis-server is not installed. The child dies with its
 * parent, so a test that fails leaves nothing behind.
 */
#ifndef TESTS_CHAT_REDIS_H
#define TESTS_CHAT_REDIS_H

#include <sys/types.h>

enum { REDIS_ANSWER_SIZE = 512 };

struct redis {
    pid_t pid;
    int port;
    int client; /**< the test's own connection to it; -1 while it does not run */
};

/** Starts it and waits until it answers. */
struct redis redis_start(void);

/** Starts it once more, on the same port and with nothing in it. */
void redis_start_again(struct redis *redis);

/** SIGKILL, and waits for its end. */
void redis_kill(struct redis *redis);

void redis_signal(const struct redis *redis, int signal);

/** Sends a command, whose words are separated by spaces, and takes its answer: a line, or a bulk
 * string without its length. */
#define redis_ask(redis, command, answer) redis_ask_at(HERE, redis, command, answer)
void redis_ask_at(const char *where, const struct redis *redis, const char *command,
                  char answer[REDIS_ANSWER_SIZE]);

/** The same, and asserts that this is the answer. */
#define redis_expect(redis, command, answer) redis_expect_at(HERE, redis, command, answer)
void redis_expect_at(const char *where, const struct redis *redis, const char *command,
                     const char *answer);

/** The same, again and again until that is the answer. */
#define redis_await(redis, command, answer) redis_await_at(HERE, redis, command, answer)
void redis_await_at(const char *where, const struct redis *redis, const char *command,
                    const char *answer);

#endif
