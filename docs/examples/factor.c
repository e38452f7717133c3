/* Finds the smallest factor of each number, in a helper. Any other line is answered at once. */
#include "common/apps/application.h"
#include "common/base/container_of.h"
#include "common/server/channel_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct question {
    struct channel_task task;
    uint64_t number;
    uint64_t factor;
};

/* In a helper's thread, beside everything else. */
static void find_factor(struct channel_task *task)
{
    struct question *question = container_of(task, struct question, task);
    uint64_t factor = 2;
    while (factor <= question->number / factor && question->number % factor != 0)
        factor++;
    question->factor = factor <= question->number / factor ? factor : question->number;
}

/* Back in the connection's own context, in the order of the questions. */
static void answer(struct channel_task *task, struct channel_facade *facade)
{
    struct question *question = container_of(task, struct question, task);
    char text[64];
    int length = snprintf(text, sizeof(text), "%" PRIu64 " has the factor %" PRIu64 "\n",
                          question->number, question->factor);
    channel_enqueue(facade, piece_bytes(text, (size_t)length));
    free(question);
}

/* The client has gone. */
static void forget(struct channel_task *task)
{
    free(container_of(task, struct question, task));
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade) NO_LOCK_HELD
{
    (void)self;
    uint64_t number = strtoull((const char *)message.data, NULL, 10); /* a line has an end */
    struct question *question = number > 1 ? malloc(sizeof(*question)) : NULL;
    if (question == NULL) {
        channel_enqueue(facade, piece_copy(message));
        return true;
    }
    *question = (struct question){
        .task = {.run = find_factor, .completed = answer, .dropped = forget}, .number = number};
    channel_begin(facade, &question->task, CHANNEL_GOES_ON);
    return true;
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input};

const struct application factor_application = {.name = "factor", .verbs = &verbs};
