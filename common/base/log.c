#include "common/base/log.h"

#include "common/base/clock.h"
#include "common/base/thread.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    LINE_SIZE = 512, /* a longer line is cut */
};

static const char *const level_names[] = {"error", "warn", "info", "debug", NULL};

const char *log_level_name(unsigned level)
{
    return level <= LOG_LEVEL_DEBUG ? level_names[level] : NULL;
}

/* Puts the line together first: one write, so that no other thread's line gets into it. */
static void write_line(const struct log *log, enum log_level level, uint64_t left_out,
                       const char *format, va_list arguments)
{
    char thread[THREAD_NAME_SIZE];
    char text[LINE_SIZE];
    char more[64] = "";
    thread_name(thread);
    vsnprintf(text, sizeof(text), format, arguments);
    if (left_out > 0)
        snprintf(more, sizeof(more), " (%" PRIu64 " more like this left out)", left_out);
    fprintf(stderr, "%s: %s: [%s] %s%s\n", log->program, level_names[level], thread, text, more);
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
