/*
 * One line on standard error for each thing worth telling, in one piece, with its thread: what has
 * happened as `event=...`, and the rest as `key=value`, or `key="two words"`. A line about a client
 * has its peer and the number of its connection (channel_describe()).
 *
 * Interface:
 * - All calls are safe from any thread.
 * - What a peer can provoke goes through log_limited(): one line a second for each limit, with a
 *   count of those that were left out (`left_out=N`), so that a hostile client cannot fill a disk.
 * - A log that nobody reads loses lines and stops nobody: what standard error does not take at once
 *   is lost, and the next line that it takes says how many were (`lost=N`).
 * - Never log what a client sends as a secret.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
};

struct log {
    const char *program;
    enum log_level level; /* what is less urgent is left out */
};

/** Keeps one kind of line to one a second. All zero at the start. */
struct log_limit {
    atomic_int_least64_t next_ms; /* no line before that moment */
    atomic_uint_least64_t left_out;
};

/** The name of a level, "warn"; NULL past the last one. */
const char *log_level_name(unsigned level);

static inline bool log_wants(const struct log *log, enum log_level level)
{
    return level <= log->level;
}

/** `<program>: <level>: [<thread>] <text>` */
__attribute__((format(printf, 3, 4))) void log_write(const struct log *log, enum log_level level,
                                                     const char *format, ...);

/** As log_write(), once a second. */
__attribute__((format(printf, 4, 5))) void log_limited(const struct log *log,
                                                       struct log_limit *limit,
                                                       enum log_level level, const char *format,
                                                       ...);

#endif
