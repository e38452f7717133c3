/*
 * What somebody else has chosen, as a value in a line of the log: a value in quotes ends at the
 * next quote, and a line at the end of a line, whatever a client, a broker or a file is called.
 */
#ifndef COMMON_LOG_VALUE_H
#define COMMON_LOG_VALUE_H

#include <stddef.h>

/**
 * Writes bytes into `to` as C would have them between quotes, and a zero behind them; those that
 * there is no room for are left out, each byte as a whole. Any thread.
 */
void log_value(char *to, size_t size, const void *bytes, size_t length);

#endif
