/*
 * Deadlines of the tests: see deadline.h.
 */
#include "deadline.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

int test_deadline_ms(void)
{
    const char *text = getenv("TEST_DEADLINE_MS");
    int chosen = text ? atoi(text) : 0;
    return chosen > 0 ? chosen : 30000;
}

double test_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double test_deadline(void)
{
    return test_now() + test_deadline_ms() / 1000.0;
}

int test_left_ms(double end)
{
    double left = (end - test_now()) * 1000.0;
    return left > 0 ? (int)left + 1 : 0;
}

void test_pause_ms(int milliseconds)
{
    struct timespec pause = {.tv_sec = milliseconds / 1000,
                             .tv_nsec = (long)(milliseconds % 1000) * 1000000L};
    while (nanosleep(&pause, &pause) == -1 && errno == EINTR) {
    }
}

bool test_await(int fd, short events, double end)
{
    for (;;) {
        struct pollfd watched = {.fd = fd, .events = events};
        int ready = poll(&watched, 1, test_left_ms(end));
        if (ready > 0) {
            return true;
        }
        if (ready == 0 && test_left_ms(end) == 0) {
            return false;
        }
        if (ready == -1 && errno != EINTR) {
            return false;
        }
    }
}
