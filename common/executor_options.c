#include "executor_options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_WORKERS = 10000,
};

static bool read_queue(const struct option *option, const char *text)
{
    static const char bounded[] = "bounded:";
    struct executor_choice *choice = option->target;
    if (strncmp(text, bounded, sizeof(bounded) - 1) == 0) {
        struct option limit = {.target = &choice->queue_limit, .least = 1, .most = 1 << 30};
        choice->queue_kind = &task_queue_bounded;
        return option_number(&limit, text + sizeof(bounded) - 1);
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

static bool read_policy(const struct option *option, const char *text)
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
             processors > 0 && processors <= MOST_WORKERS ? processors : 1);
}

void executor_options(struct options *options, struct executor_choice *choice)
{
    memset(choice, 0, sizeof(*choice));
    set_default_workers(choice);
    options_add(options, (struct option){.name = "--workers",
                                         .value = "N",
                                         .standard = choice->workers_text,
                                         .help = "worker threads that are kept",
                                         .read = option_number,
                                         .target = &choice->workers,
                                         .least = 1,
                                         .most = MOST_WORKERS});
    options_add(options, (struct option){.name = "--max-workers",
                                         .value = "N",
                                         .standard = "0",
                                         .help = "more of them when the queue is full; 0: no more",
                                         .read = option_number,
                                         .target = &choice->max_workers,
                                         .most = MOST_WORKERS});
    options_add(options, (struct option){.name = "--keep-alive",
                                         .value = "SEC",
                                         .standard = "60",
                                         .help = "when idle for so long, those go again",
                                         .takes = "a number of seconds",
                                         .read = option_seconds,
                                         .target = &choice->keep_alive});
    options_add(options,
                (struct option){.name = "--queue",
                                .value = "KIND",
                                .standard = "unbounded",
                                .help = "tasks wait in: direct, bounded:N, unbounded, priority",
                                .takes = "one of direct, bounded:N, unbounded, priority",
                                .read = read_queue,
                                .target = choice});
    options_add(options,
                (struct option){
                    .name = "--saturation",
                    .value = "POLICY",
                    .standard = "abort",
                    .help = "when it is full: abort, block, caller-runs, discard, discard-oldest",
                    .takes = "one of abort, block, caller-runs, discard, discard-oldest",
                    .read = read_policy,
                    .target = &choice->policy});
}

void executor_options_or_none(struct options *options, struct executor_choice *choice)
{
    executor_options(options, choice);
    struct option *workers = options_find(options, "--workers");
    workers->standard = "0";
    workers->help = "worker threads; 0: each dispatcher runs its handlers itself";
    workers->least = 0;
}

struct executor_settings executor_settings(const struct executor_choice *choice)
{
    size_t most = choice->max_workers > choice->workers ? choice->max_workers : choice->workers;
    return (struct executor_settings){.core = choice->workers,
                                      .most = most,
                                      .keep_alive = choice->keep_alive,
                                      .queue_kind = choice->queue_kind,
                                      .queue_limit = choice->queue_limit,
                                      .policy = choice->policy};
}
