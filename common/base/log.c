#include "common/base/log.h"

#include "common/base/clock.h"
#include "common/base/lock.h"
#include "common/base/thread.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum {
    TEXT_SIZE = 512, /* a longer text is cut */
    LINE_SIZE = 1024,
};

_Static_assert(LINE_SIZE <= 4096, "a pipe with room takes a line whole, or poll(2) says too much");

/* A line is written where there was room for it just before: nobody else may fill that meanwhile.
 */
static struct mutex write_lock = {PTHREAD_MUTEX_INITIALIZER};
static uint64_t lost GUARDED_BY(&write_lock); /* lines since the last one that was written */

static const char *const level_names[] = {"error", "warn", "info", "debug", NULL};

const char *log_level_name(unsigned level)
{
    return level <= LOG_LEVEL_DEBUG ? level_names[level] : NULL;
}

/* Writes the line if that need not wait for its reader; otherwise it is lost. */
static void write_or_lose(const char *start, const char *text, uint64_t left_out)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    char line[LINE_SIZE];
    char more[64] = "";
    char before[64] = "";
    if (left_out > 0)
        snprintf(more, sizeof(more), " left_out=%" PRIu64, left_out);
    mutex_lock(&write_lock);
    if (lost > 0)
        snprintf(before, sizeof(before), " lost=%" PRIu64, lost);
    int length = snprintf(line, sizeof(line), "%s%s%s%s\n", start, text, more, before);
    bool written = poll(&room, 1, 0) == 1 && write(STDERR_FILENO, line, (size_t)length) > 0;
    lost = written ? 0 : lost + 1;
    mutex_unlock(&write_lock);
}

/* Puts the line together first: one write, so that no other thread's line gets into it. */
static void write_line(const struct log *log, enum log_level level, uint64_t left_out,
                       const char *format, va_list arguments)
{
    char thread[THREAD_NAME_SIZE];
    char start[128];
    char text[TEXT_SIZE];
    thread_name(thread);
    vsnprintf(text, sizeof(text), format, arguments);
    snprintf(start, sizeof(start), "%s: %s: [%s] ", log->program, level_names[level], thread);
    write_or_lose(start, text, left_out);
}

void log_write(const struct log *log, enum log_level level, const char *format, ...)
{
    if (!log_wants(log, level))
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(log, level, 0, format, arguments);
    va_end(arguments);
}

/* Of the threads that come at the same moment one moves the limit on, and writes. */
static bool my_turn(struct log_limit *limit)
{
    int_least64_t now = clock_ms();
    int_least64_t next = atomic_load(&limit->next_ms);
    return now >= next && atomic_compare_exchange_strong(&limit->next_ms, &next, now + 1000);
}

void log_limited(const struct log *log, struct log_limit *limit, enum log_level level,
                 const char *format, ...)
{
    if (!log_wants(log, level))
        return;
    if (!my_turn(limit)) {
        atomic_fetch_add(&limit->left_out, 1);
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    write_line(log, level, atomic_exchange(&limit->left_out, 0), format, arguments);
    va_end(arguments);
}
