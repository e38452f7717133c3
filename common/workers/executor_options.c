#include "common/workers/executor_options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_WORKERS = 10000,
    MAX_WAIT = 1000000000, /* eleven days, less than what a task can tell (TASK_SINCE_MASK) */
};

static bool parse_queue(const struct option *option, const char *text)
{
    static const char bounded[] = "bounded:";
    struct executor_choice *choice = option->target;
    if (strncmp(text, bounded, sizeof(bounded) - 1) == 0) {
        struct option limit = {.target = &choice->queue_limit, .min = 1, .max = 1 << 30};
        choice->queue_kind = &task_queue_bounded;
        return option_parse_number(&limit, text + sizeof(bounded) - 1);
    }
    const struct task_queue_kind *const kinds[] = {&task_queue_direct, &task_queue_unbounded,
                                                   &task_queue_priority};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(text, kinds[i]->name) == 0) {
            choice->queue_kind = kinds[i];
            return true;
        }
    }
    return false;
}

static bool parse_policy(const struct option *option, const char *text)
{
    const struct saturation_policy *const policies[] = {
        &saturation_abort, &saturation_block, &saturation_caller_runs, &saturation_discard,
        &saturation_discard_oldest};
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        if (strcmp(text, policies[i]->name) == 0) {
            *(const struct saturation_policy **)option->target = policies[i];
            return true;
        }
    }
    return false;
}

static void set_default_workers(struct executor_choice *choice)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(choice->workers_text, sizeof(choice->workers_text), "%ld",
             processors > 0 && processors <= MAX_WORKERS ? processors : 1);
}

/* How many threads there are, and when. */
static void add_threads(struct options *options, struct executor_choice *choice)
{
    options_add(options, (struct option){.name = "--workers",
                                         .value = "N",
                                         .default_text = choice->workers_text,
                                         .help = "keep N worker threads",
                                         .parse = option_parse_number,
                                         .target = &choice->workers,
                                         .min = 1,
                                         .max = MAX_WORKERS});
    options_add(
        options,
        (struct option){
            .name = "--max-workers",
            .value = "N",
            .default_text = "0",
            .help = "start up to N workers when the queue is full; 0: no more than --workers",
            .parse = option_parse_number,
            .target = &choice->max_workers,
            .max = MAX_WORKERS});
    options_add(options,
                (struct option){.name = "--keep-alive",
                                .value = "SEC",
                                .default_text = "60",
                                .help = "end a worker above --workers after SEC idle seconds",
                                .expects = "a number of seconds",
                                .parse = option_parse_seconds,
                                .target = &choice->keep_alive});
    options_add(options,
                (struct option){.name = "--warm",
                                .help = "start all --workers threads before the first message",
                                .target = &choice->warm});
}

/* What becomes of a message for which no thread is free. */
static void add_waiting(struct options *options, struct executor_choice *choice)
{
    options_add(options,
                (struct option){.name = "--queue",
                                .value = "KIND",
                                .default_text = "unbounded",
                                .help = "where tasks wait: direct, bounded:N, unbounded, priority",
                                .expects = "one of direct, bounded:N, unbounded, priority",
                                .parse = parse_queue,
                                .target = choice});
    options_add(options,
                (struct option){
                    .name = "--saturation",
                    .value = "POLICY",
                    .default_text = "abort",
                    .help = "when the queue is full: abort, block, caller-runs, or drop a message "
                            "without an answer: discard, discard-oldest",
                    .expects = "one of abort, block, caller-runs, discard, discard-oldest",
                    .parse = parse_policy,
                    .target = &choice->policy});
    options_add(options,
                (struct option){.name = "--max-wait-ms",
                                .value = "MSEC",
                                .default_text = "0",
                                .help = "refuse a message that has waited longer than MSEC "
                                        "milliseconds for a worker; 0: never",
                                .parse = option_parse_number,
                                .target = &choice->max_wait,
                                .max = MAX_WAIT});
}

void executor_options(struct options *options, struct executor_choice *choice)
{
    memset(choice, 0, sizeof(*choice));
    set_default_workers(choice);
    add_threads(options, choice);
    add_waiting(options, choice);
}

void executor_options_or_none(struct options *options, struct executor_choice *choice)
{
    executor_options(options, choice);
    struct option *workers = options_find(options, "--workers");
    workers->default_text = "0";
    workers->help = "keep N worker threads; 0: each dispatcher runs its handlers itself";
    workers->min = 0;
}

struct executor_settings executor_settings(const struct executor_choice *choice)
{
    size_t max = choice->max_workers > choice->workers ? choice->max_workers : choice->workers;
    return (struct executor_settings){.core = choice->workers,
                                      .max = max,
                                      .keep_alive = choice->keep_alive,
                                      .warm = choice->warm,
                                      .queue_kind = choice->queue_kind,
                                      .queue_limit = choice->queue_limit,
                                      .policy = choice->policy,
                                      .max_wait = (uint32_t)choice->max_wait};
}

struct option executor_helpers_option(size_t *count)
{
    return (struct option){.name = "--helpers",
                           .value = "N",
                           .default_text = "2",
                           .help =
                               "run slow tasks, such as checking a password, in N threads; 0: in "
                               "the thread that runs the handler",
                           .parse = option_parse_number,
                           .target = count,
                           .max = MAX_WORKERS};
}

/*
 * Each connection has only a few tasks under way, so the number of connections limits the queue.
 * And a task that was refused would be a client without an answer.
 */
struct executor_settings executor_helpers_settings(size_t count)
{
    return (struct executor_settings){.name = "helper",
                                      .core = count,
                                      .max = count,
                                      .queue_kind = &task_queue_unbounded,
                                      .policy = &saturation_abort};
}
