/*
 * A user of the chat without a connection: a facade whose client does not read. For what no client
 * can see.
 */
#include "common/apps/application_choice.h"
#include "common/server/channel_calls.h"
#include "common/server/server.h"

#include "support/configure.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(chat_session, .timeout = 60);

static struct server server = {.name = "test", .settings.max_line = 1000};
static struct channel_facade facade;
static struct input_queue input; /* always empty */
static int lines;                /* that were enqueued */

static enum output_result choke(struct channel_facade *self, struct piece piece)
{
    (void)self;
    (void)piece;
    lines++;
    return OUTPUT_CHOKED;
}

static struct input_queue *no_input(struct channel_facade *self)
{
    (void)self;
    return &input;
}

static void count_reference(struct channel_facade *self)
{
    (void)self;
}

/* The clerk's: nothing that is asked of him comes to pass here. */
static void ignore_post(struct channel_facade *self, struct channel_post *post)
{
    (void)self;
    (void)post;
}

static const struct channel_facade_verbs verbs = {.post = ignore_post,
                                                  .enqueue = choke,
                                                  .input = no_input,
                                                  .retain = count_reference,
                                                  .release = count_reference};

/** Comes, asks who is there, reads nothing, and leaves. */
static void ask_and_leave(struct input_handler_factory *factory, void *memory)
{
    static const char question[] = "/who\n";
    memset(memory, 0, factory->handler_size);
    struct input_handler *user = factory->create(factory, memory);
    user->verbs->started(user, &facade);
    lines = 0;
    cr_assert(user->verbs->handle_input(
        user, (struct message){(const unsigned char *)question, sizeof question - 1}, &facade));
    cr_assert_eq(lines, 2, "a list goes on when the client has read the beginning");
    user->verbs->stopping(user, &facade);
    user->verbs->stopped(user, &facade);
}

/* What is left of a list that nobody reads is given back: some kilobytes for each who asks. */
Test(chat_session, a_list_that_is_not_read_costs_no_memory)
{
    enum { ROUNDS = 20000, GROWTH_KIB = 8192 };
    extern const struct application chat_application;
    static const char *const nothing[] = {NULL};
    cr_assert(configure(&chat_application, nothing));
    facade.verbs = &verbs;
    service_init(&server.service);
    server.service.cost_every = 1;
    struct input_handler_factory *factory = application_open(&chat_application, &server);
    cr_assert_not_null(factory);
    void *memory = malloc(factory->handler_size);
    struct input_handler *other = factory->create(factory, calloc(1, factory->handler_size));
    other->verbs->started(other, &facade); /* so that two are in the list */
    ask_and_leave(factory, memory);
    long before = probe_resident_kib(getpid());
    for (int i = 0; i < (probe_sanitized() ? 100 : ROUNDS); i++) { /* the sanitizer finds one */
        ask_and_leave(factory, memory);
    }
    if (!probe_sanitized() && !probe_thread_sanitized()) {
        cr_assert_lt(probe_resident_kib(getpid()), before + GROWTH_KIB);
    }
    other->verbs->stopping(other, &facade);
    other->verbs->stopped(other, &facade);
    free(other); /* what a chat keeps for a user begins with his handler */
    free(memory);
    chat_application.close(factory);
    service_destroy(&server.service);
}
