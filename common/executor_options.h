/*
 * The options that set up an executor, alike in every stage that has one.
 */
#ifndef COMMON_EXECUTOR_OPTIONS_H
#define COMMON_EXECUTOR_OPTIONS_H

#include "executor.h"
#include "options.h"

/** What the options say, before the pieces are put together. */
struct executor_choice {
    uint64_t workers;
    uint64_t max_workers; /* 0: as many as workers */
    int64_t keep_alive;   /* ms */
    const struct task_queue_kind *queue_kind;
    uint64_t queue_limit;
    const struct saturation_policy *policy;
    char workers_text[24]; /* the default number of workers, as text */
};

/** Adds --workers, --max-workers, --keep-alive, --queue and --saturation. */
void executor_options(struct options *options, struct executor_choice *choice);

/** The same for servers that can do without an executor, which is then the default: --workers 0. */
void executor_options_or_none(struct options *options, struct executor_choice *choice);

/** The settings that follow from them; with neither workers nor more of them, `most` is 0. */
struct executor_settings executor_settings(const struct executor_choice *choice);

#endif
