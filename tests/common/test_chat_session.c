/*
 * The chat in a rehearsal: its rules, with no time lost and no thread beside.
 */
#include "common/apps/application_choice.h"
#include "common/apps/rehearsal.h"
#include "common/base/clock.h"
#include "common/server/run.h"

#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(chat_session, .timeout = 120);

static struct rehearsal rehearsal;

static void open_chat(const char *const *options)
{
    cr_assert(rehearsal_open(&rehearsal, &chat_application, options));
}

static void send_text(struct rehearsed *user, const char *text)
{
    rehearsed_send(user, text, strlen(text));
}

static void expect(struct rehearsed *user, const char *text)
{
    cr_assert_str_eq(rehearsed_read(user), text);
}

/** Has nothing left to read. */
static struct rehearsed *comes_as(const char *nick)
{
    char line[64];
    struct rehearsed *user = rehearsal_connect(&rehearsal);
    snprintf(line, sizeof line, "/nick %s\n", nick);
    send_text(user, line);
    rehearsed_read(user);
    return user;
}

/* Or anybody could be taken for anybody else. */
Test(chat_session, names_in_any_case_are_one)
{
    open_chat(NULL);
    struct rehearsed *ann = comes_as("ann");
    struct rehearsed *bob = comes_as("bob");
    rehearsed_read(ann);
    send_text(bob, "/nick Ann\n/nick ANN\n/nick user3\n");
    expect(bob, "ERR somebody else is called Ann\nERR somebody else is called ANN\n"
                "* you are user3\n");
    struct rehearsed *carl = rehearsal_connect(&rehearsal);
    expect(carl, "* welcome, you are user4; /help tells more\n");
    rehearsed_read(ann);
    send_text(ann, "/nick Ann\n");
    expect(ann, "* you are Ann\n");
    expect(carl, "* ann is now Ann\n");
    rehearsed_leave(ann);
    send_text(carl, "/nick aNN\n");
    cr_assert_not_null(strstr(rehearsed_read(carl), "* you are aNN\n"));
    rehearsal_close(&rehearsal);
}

/** How many lines are said by that user. */
static int count_said(const char *text, const char *nick)
{
    char prefix[32];
    int count = 0;
    snprintf(prefix, sizeof prefix, "[%s]", nick);
    for (; (text = strstr(text, prefix)) != NULL; text++) {
        count++;
    }
    return count;
}

/** The same in all that has come, which is read. */
static int count_lines(struct rehearsed *user, const char *nick)
{
    return count_said(rehearsed_read(user), nick);
}

/*
 * Ann says twenty times as much as she may say in a second. She is told, the others hear her at the
 * rate, and Carl's line does not wait behind hers.
 */
Test(chat_session, a_flooder_is_slowed_and_told)
{
    static const char *const options[] = {"--talk-rate", "1000", NULL};
    enum { LINES = 200, LENGTH = 100, ROOM = LENGTH - 3 /* "ann" is paid for, too */ };
    char line[ROOM + 1];
    int64_t begun = clock_ms(); /* the time that really passes on a busy machine comes on top */
    open_chat(options);
    struct rehearsed *ann = comes_as("ann");
    struct rehearsed *bob = comes_as("bob");
    struct rehearsed *carl = comes_as("carl");
    memset(line, 'x', sizeof line);
    line[ROOM - 1] = '\n';
    rehearsed_read(ann);
    rehearsed_read(bob);
    for (int i = 0; i < LINES; i++) {
        rehearsed_send(ann, line, ROOM);
    }
    int heard = count_lines(bob, "ann");
    int most = (int)(1000 + clock_ms() - begun) / LENGTH + 2;
    cr_assert(heard >= 1000 / LENGTH && heard <= most, "%d lines at once", heard);
    expect(ann, "* you say more than 1000 bytes a second, so the others hear you later\n");
    send_text(carl, "hello\n");
    const char *said = rehearsed_read(bob);
    cr_assert_eq(count_said(said, "carl"), 1);
    heard += count_said(said, "ann"); /* one more, if the machine is busy */
    for (int second = 1; second <= 5; second++) {
        rehearsal_pass_time(&rehearsal, 1000);
        int more = count_lines(bob, "ann");
        most = (int)(1000 * (1 + second) + clock_ms() - begun) / LENGTH + 2;
        heard += more;
        cr_assert(more >= 1000 / LENGTH - 1 && heard <= most, "%d lines in second %d, %d in all",
                  more, second, heard);
    }
    expect(ann, "[carl] hello\n"); /* and nothing more about her haste */
    rehearsal_pass_time(&rehearsal, 60000);
    cr_assert_eq(heard + count_lines(bob, "ann"), LINES);
    expect(ann, "");
    rehearsal_close(&rehearsal);
}

/* What she has sent she says, though she is not there any more to be told. */
Test(chat_session, a_flooder_who_sends_no_more_is_heard_to_the_end)
{
    static const char *const options[] = {"--talk-rate", "100", NULL};
    open_chat(options);
    struct rehearsed *ann = comes_as("ann");
    struct rehearsed *bob = comes_as("bob");
    for (int i = 0; i < 30; i++) {
        send_text(ann, "a line of some length\n");
    }
    rehearsed_finish(ann);
    rehearsal_pass_time(&rehearsal, 60000);
    cr_assert_eq(count_lines(bob, "ann"), 30);
    cr_assert(rehearsed_is_over(ann));
    rehearsal_close(&rehearsal);
}

/* ---- One who does not read ---- */

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

static void ignore(struct channel_facade *self)
{
    (void)self;
}

static void stay_asleep(struct strand_host *host)
{
    (void)host;
}

/** Comes, asks who is there, reads nothing, and leaves. */
static void ask_and_leave(struct input_handler_factory *factory, void *memory)
{
    static const char question[] = "/who\n";
    memset(memory, 0, factory->handler_size);
    struct input_handler *user = factory->create(factory, memory);
    user->verbs->started(user, &facade);
    cr_assert(user->verbs->handle_input(
        user, (struct message){(const unsigned char *)question, sizeof question - 1}, &facade));
    lines = 0;
    cr_assert(user->verbs->continue_output(user, &facade));
    cr_assert_eq(lines, 1, "a list goes on when the client has read the beginning");
    user->verbs->stopping(user, &facade);
}

/* What is left of a list that nobody reads is given back: some kilobytes for each who asks. */
Test(chat_session, a_list_that_is_not_read_costs_no_memory)
{
    enum { ROUNDS = 100000, GROWTH_KIB = 8192 };
    static const struct channel_facade_verbs verbs = {
        .enqueue = choke, .input = no_input, .retain = ignore, .release = ignore};
    static const struct strand_host_verbs host_verbs = {.wake = stay_asleep};
    static struct strand_host host = {.verbs = &host_verbs};
    static struct server server = {.name = "test", .settings.max_line = 1000, .strands = &host};
    struct run run;
    facade.verbs = &verbs;
    service_init(&server.service);
    server.service.cost_every = 1;
    struct input_handler_factory *factory = application_open(&chat_application, &server);
    cr_assert_not_null(factory);
    strand_host_begin(&host);
    run_begin(&run, NULL);
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
    free(other); /* what a chat keeps for a user begins with his handler */
    free(memory);
    run_end(&run);
    strand_host_end(&host);
    application_close(&chat_application, factory);
    service_destroy(&server.service);
}
