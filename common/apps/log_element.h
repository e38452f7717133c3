/*
 * A chain element that shows what passes: every message that comes in and everything that goes out,
 * a line for each in the log, printable, with the client's address.
 *
 * It shows everything, even passwords, so use it to look for a fault, and not as a log to keep.
 */
#ifndef COMMON_LOG_ELEMENT_H
#define COMMON_LOG_ELEMENT_H

#include "common/apps/handler_element.h"
#include "common/base/log.h"
#include "common/base/options.h"

struct log_element_factory {
    struct input_handler_factory factory;
    struct input_handler_factory *inner;
    struct input_handler_verbs verbs;
    struct channel_facade_verbs facade_verbs;
    const struct log *log;
};

/**
 * Makes elements in front of the handlers that inner makes. The factory must outlive all of them,
 * and needs no end. Lowers the log's level to info, so call this before other threads use the log.
 */
struct input_handler_factory *log_element_over(struct log_element_factory *factory,
                                               struct input_handler_factory *inner,
                                               struct log *log);

/** The option --log-traffic, which sets *wanted. */
struct option log_element_option(bool *wanted);

#endif
