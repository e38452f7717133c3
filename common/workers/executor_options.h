/*
 * The options that set up an executor, alike in every stage that has one.
 */
#ifndef COMMON_EXECUTOR_OPTIONS_H
#define COMMON_EXECUTOR_OPTIONS_H

#include "common/base/options.h"
#include "common/workers/executor.h"

/** What the options say, before the pieces are put together. */
struct executor_choice {
    size_t workers;
    size_t max_workers; /* 0: as many as workers */
    int64_t keep_alive; /* ms */
    bool warm;
    const struct task_queue_kind *queue_kind;
    size_t queue_limit;
    const struct saturation_policy *policy;
    size_t max_wait;       /* ms */
    char workers_text[24]; /* the default number of workers, as text */
};

/** Adds --workers, --max-workers, --keep-alive, --warm, --queue, --saturation and
 * --max-wait-ms. */
void executor_options(struct options *options, struct executor_choice *choice);

/** As executor_options(), for a server that needs no executor: --workers is 0 by default. */
void executor_options_or_none(struct options *options, struct executor_choice *choice);

/** The option --helpers, which sets *count: threads for the tasks that handlers begin. */
struct option executor_helpers_option(size_t *count);

/** The settings of an executor with that many helpers: a queue without a limit, and no policy. */
struct executor_settings executor_helpers_settings(size_t count);

/** The settings that follow from them; with neither workers nor more of them, `max` is 0. */
struct executor_settings executor_settings(const struct executor_choice *choice);

#endif
