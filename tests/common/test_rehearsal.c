/*
 * An application without a server (rehearsal.h): what its clients send is handled before the call
 * returns, and time passes when a test says so.
 */
#include "common/apps/rehearsal.h"
#include "common/apps/strand_group.h"
#include "support/aborts.h"
#include "support/mapped.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

TestSuite(rehearsal, .timeout = 120);

static struct rehearsal rehearsal;
static char heard[200]; /* of life-cycle calls */

static void hear(const char *what)
{
    strncat(heard, what, sizeof(heard) - strlen(heard) - 1);
}

static void say(struct rehearsed *client, const char *text)
{
    rehearsed_send(client, text, strlen(text));
}

static void open_it(const struct application *application, const char *const *options)
{
    heard[0] = '\0';
    cr_assert(rehearsal_open(&rehearsal, application, options));
}

/* ---- An application that does what its lines say --------------------------------------------- */

struct player {
    struct input_handler handler; /* first */
    struct channel_facade *facade;
    struct channel_timer timer;
    struct channel_timer late;
    struct channel_hold hold;
    struct channel_task task;
    struct channel_post post;
    struct player *next;
};

static struct player *waiting;
static struct channel_facade *kept;

/* Verbs that are no application's, with room for what is looked for around them. */
static struct {
    char before[100];
    struct input_handler_verbs verbs;
    char behind[1000];
} elsewhere;

static void tick(struct channel_timer *timer, struct channel_facade *facade)
{
    (void)timer;
    channel_printf(facade, "tick\n");
}

static void too_late(struct channel_timer *timer, struct channel_facade *facade)
{
    (void)timer;
    channel_printf(facade, "late\n");
}

static void went_on(struct channel_hold *hold, struct channel_facade *facade)
{
    (void)hold;
    channel_printf(facade, "went on\n");
}

static void work(struct channel_task *task)
{
    (void)task;
    hear("worked ");
}

static void worked(struct channel_task *task, struct channel_facade *facade)
{
    (void)task;
    channel_printf(facade, "worked\n");
}

static void not_worked(struct channel_task *task)
{
    (void)task;
    hear("not worked ");
}

static void posted(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    channel_printf(facade, "posted\n");
}

static void also_posted(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    channel_printf(facade, "also posted\n");
}

static void not_posted(struct channel_post *post)
{
    (void)post;
    hear("not posted ");
}

static bool is(struct message line, const char *word)
{
    return line.length == strlen(word) + 1 && memcmp(line.data, word, strlen(word)) == 0;
}

static bool obey(struct input_handler *self, struct message line, struct channel_facade *facade)
{
    struct player *player = (struct player *)self;
    player->facade = facade;
    player->timer.fired = tick;
    player->late.fired = too_late;
    player->hold.went_on = went_on;
    player->post.run = posted;
    player->post.dropped = not_posted;
    if (is(line, "repeat")) {
        channel_repeat_timer(facade, &player->timer, 1000);
    } else if (is(line, "later")) {
        channel_set_timer(facade, &player->late, 2500);
    } else if (is(line, "hold")) {
        player->next = waiting;
        waiting = player;
        channel_hold(facade, &player->hold);
    } else if (is(line, "tell")) {
        for (; waiting != NULL; waiting = waiting->next)
            channel_go_on(waiting->facade, &waiting->hold);
    } else if (is(line, "meddle")) {
        channel_set_timer(waiting->facade, &player->timer, 1000);
    } else if (is(line, "peep")) {
        channel_input(waiting->facade);
    } else if (is(line, "become")) {
        self->verbs = &elsewhere.verbs;
        application_server(self);
    } else if (is(line, "cut in")) {
        channel_set_handler(waiting->facade, self);
    } else if (is(line, "keep")) {
        channel_retain(facade);
        kept = facade;
    } else if (is(line, "borrow")) {
        kept = facade;
    } else if (is(line, "use")) {
        channel_enqueue(kept, piece_copy(line));
    } else if (is(line, "give back")) {
        channel_release(kept);
    } else if (is(line, "post late")) {
        player->post.dropped = NULL;
        channel_post(kept, &player->post);
    } else if (is(line, "post anew")) {
        channel_post(facade, &player->post);
        player->post = (struct channel_post){.run = posted};
    } else if (is(line, "post another")) {
        channel_post(facade, &player->post);
        player->post.run = also_posted;
        channel_post(facade, &player->post);
    } else if (is(line, "set anew")) {
        channel_set_timer(facade, &player->timer, 1000);
        player->timer = (struct channel_timer){.fired = tick};
    } else if (is(line, "work")) {
        player->task =
            (struct channel_task){.run = work, .completed = worked, .dropped = not_worked};
        channel_begin(facade, &player->task, CHANNEL_WAITS);
        hear("begun ");
    } else if (is(line, "post")) {
        channel_post(facade, &player->post);
        channel_printf(facade, "before\n");
    } else if (is(line, "much")) {
        enum { MUCH = 3 << 20 };
        char *text = mapped(MUCH);
        memset(text, 'x', MUCH);
        channel_enqueue(facade, piece_bytes(text, MUCH));
    } else if (is(line, "quit")) {
        channel_printf(facade, "bye\n");
        return false;
    } else {
        channel_enqueue(facade, piece_copy(line));
    }
    return true;
}

static void started(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
    hear("started ");
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    hear(channel_end_reason(facade) == END_PEER_CLOSED ? "closed " : "stopped ");
}

static const struct input_handler_verbs verbs = {
    .handle_input = obey, .started = started, .stopped = stopped};

static const struct application player_application = {
    .name = "player", .verbs = &verbs, .handler_size = sizeof(struct player)};

Test(rehearsal, a_message_comes_when_its_last_byte_does)
{
    open_it(&player_application, NULL);
    struct rehearsed *client = rehearsal_connect(&rehearsal);
    cr_assert_str_eq(heard, "started ");
    say(client, "one\ntw");
    cr_assert_str_eq(rehearsed_read(client), "one\n");
    cr_assert_str_eq(rehearsed_read(client), "");
    say(client, "o\n");
    cr_assert_str_eq(rehearsed_read(client), "two\n");
    rehearsal_close(&rehearsal);
}

Test(rehearsal, the_end_of_a_client_is_the_end_of_its_handler)
{
    open_it(&player_application, NULL);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    struct rehearsed *bob = rehearsal_connect(&rehearsal);
    say(ann, "last\n");
    rehearsed_finish(ann);
    cr_assert_str_eq(rehearsed_read(ann), "last\n");
    cr_assert(rehearsed_is_over(ann));
    cr_assert_not(rehearsed_is_over(bob));
    cr_assert_str_eq(heard, "started started closed ");
    say(bob, "quit\nnot handled\n");
    cr_assert_str_eq(rehearsed_read(bob), "bye\n");
    cr_assert(rehearsed_is_over(bob));
    rehearsal_close(&rehearsal);
    cr_assert_str_eq(heard, "started started closed stopped ");
}

Test(rehearsal, what_has_not_ended_ends_with_it)
{
    open_it(&player_application, NULL);
    say(rehearsal_connect(&rehearsal), "hold\n");
    say(rehearsal_connect(&rehearsal), "repeat\n");
    rehearsal_close(&rehearsal);
    cr_assert_str_eq(heard, "started started closed closed ");
}

Test(rehearsal, time_passes_when_the_test_says_so)
{
    open_it(&player_application, NULL);
    struct rehearsed *client = rehearsal_connect(&rehearsal);
    say(client, "repeat\nlater\n");
    rehearsal_pass_time(&rehearsal, 500);
    cr_assert_str_eq(rehearsed_read(client), "");
    rehearsal_pass_time(&rehearsal, 500);
    cr_assert_str_eq(rehearsed_read(client), "tick\n");
    rehearsal_pass_time(&rehearsal, 10000);
    cr_assert_str_eq(rehearsed_read(client),
                     "tick\nlate\ntick\ntick\ntick\ntick\ntick\ntick\ntick\ntick\ntick\n");
    rehearsed_leave(client);
    rehearsal_pass_time(&rehearsal, 10000); /* no timer fires any more */
    rehearsal_close(&rehearsal);
}

Test(rehearsal, one_who_holds_goes_on_when_another_one_says_so)
{
    open_it(&player_application, NULL);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    struct rehearsed *bob = rehearsal_connect(&rehearsal);
    say(ann, "hold\nbehind\n");
    cr_assert_str_eq(rehearsed_read(ann), "");
    say(bob, "tell\n");
    cr_assert_str_eq(rehearsed_read(ann), "went on\nbehind\n");
    rehearsal_close(&rehearsal);
}

Test(rehearsal, one_who_holds_with_more_behind_it_than_is_read_goes_on)
{
    enum { LINES = 100 };
    static const char *const options[] = {"--max-line", "100", NULL};
    open_it(&player_application, options);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    say(ann, "hold\n");
    for (int i = 0; i < LINES; i++) {
        say(ann, "behind\n");
    }
    say(rehearsal_connect(&rehearsal), "tell\n");
    cr_assert_eq(strlen(rehearsed_read(ann)), strlen("went on\n") + LINES * strlen("behind\n"));
    cr_assert_not(rehearsed_is_over(ann));
    rehearsal_close(&rehearsal);
}

Test(rehearsal, tasks_and_posts_are_done_before_the_call_returns)
{
    open_it(&player_application, NULL);
    struct rehearsed *client = rehearsal_connect(&rehearsal);
    say(client, "work\nbehind\npost\n");
    cr_assert_str_eq(rehearsed_read(client), "worked\nbehind\nbefore\nposted\n");
    cr_assert_str_eq(heard, "started worked begun ");
    rehearsal_close(&rehearsal);
}

Test(rehearsal, a_client_reads_more_than_a_socket_holds)
{
    static const char *const options[] = {"--output-cap", "8000000", NULL};
    size_t length;
    open_it(&player_application, options);
    struct rehearsed *client = rehearsal_connect(&rehearsal);
    say(client, "much\n");
    rehearsed_read_bytes(client, &length);
    cr_assert_eq(length, 3 << 20);
    rehearsal_close(&rehearsal);
}

Test(rehearsal, options_are_those_of_the_server)
{
    static const char *const options[] = {"--max-line", "5", NULL};
    open_it(&player_application, options);
    struct rehearsed *client = rehearsal_connect(&rehearsal);
    say(client, "123456\n");
    cr_assert_str_eq(rehearsed_read(client), "ERR line too long\n");
    cr_assert(rehearsed_is_over(client));
    rehearsal_close(&rehearsal);
}

Test(rehearsal, a_wrong_option_is_refused, .init = cr_redirect_stderr)
{
    static const char *const options[] = {"--max-line", "many", NULL};
    cr_assert_not(rehearsal_open(&rehearsal, &player_application, options));
}

Test(rehearsal, what_needs_a_server_is_refused, .init = cr_redirect_stderr)
{
    struct application application = player_application;
    application.needs = OFFERS_CONNECTIONS;
    cr_assert_not(rehearsal_open(&rehearsal, &application, NULL));
    fflush(stderr);
    cr_assert_stderr_eq_str("rehearsal: player needs outgoing connections or a write rate, which "
                            "need a server: make test-app\n");
}

/* ---- What an author must not touch ----------------------------------------------------------- */

Test(rehearsal, a_facade_is_good_as_long_as_there_is_a_reference)
{
    open_it(&player_application, NULL);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    struct rehearsed *bob = rehearsal_connect(&rehearsal);
    say(ann, "keep\n");
    rehearsed_leave(ann);
    say(bob, "use\npost late\ngive back\n");
    rehearsal_close(&rehearsal);
}

static void say_to_bob(void *bob)
{
    say(bob, heard);
    rehearsal_pass_time(&rehearsal, 2000);
}

/* Ann says the first line, and may leave; what Bob says then is too much. */
static void expect_refusal(const char *first, bool leaves, const char *second, const char *words)
{
    open_it(&player_application, NULL);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    struct rehearsed *bob = rehearsal_connect(&rehearsal);
    say(ann, first);
    if (leaves)
        rehearsed_leave(ann);
    snprintf(heard, sizeof(heard), "%s", second);
    expect_abort(say_to_bob, bob, words);
    if (strcmp(first, "keep\n") == 0)
        say(bob, "give back\n");
    rehearsal_close(&rehearsal);
}

Test(rehearsal, a_facade_that_is_used_without_a_reference_says_so)
{
    expect_refusal("borrow\n", true, "use\n",
                   "channel_enqueue(): expected a facade of which somebody has a reference, got "
                   "one whose last reference was given back (channel_retain(), "
                   "channel_release())\n");
}

Test(rehearsal, a_facade_that_is_used_after_its_release_says_so)
{
    expect_refusal("keep\n", true, "give back\nuse\n", "channel_enqueue(): expected a facade");
}

Test(rehearsal, a_reference_that_is_given_back_twice_says_so)
{
    expect_refusal("keep\n", true, "give back\ngive back\n",
                   "channel_release(): expected a facade");
}

static void connect_one_more(void *unused)
{
    (void)unused;
    rehearsal_connect(&rehearsal);
}

#ifndef NDEBUG
/* Mostly that goes well, and some day two threads are in one connection's timers. */
Test(rehearsal, a_timer_of_another_client_is_an_assertion)
{
    expect_refusal("hold\n", false, "meddle\n", "connection_is_own_run");
}

Test(rehearsal, a_handler_of_another_client_is_an_assertion)
{
    expect_refusal("hold\n", false, "cut in\n", "connection_is_own_run");
}

Test(rehearsal, the_input_of_another_client_is_an_assertion)
{
    expect_refusal("hold\n", false, "peep\n", "connection_is_own_call");
}

/* Instead of channel_set_handler(). */
Test(rehearsal, a_handler_whose_verbs_were_written_is_an_assertion)
{
    expect_refusal("", false, "become\n", "maker->factory.create == create");
}

Test(rehearsal, a_reference_that_nobody_took_is_an_assertion)
{
    expect_refusal("borrow\n", false, "give back\n", "references > 0");
}

Test(rehearsal, a_post_that_is_written_while_it_waits_is_an_assertion)
{
    expect_refusal("", false, "post anew\n", "is_as_posted");
}

Test(rehearsal, a_post_that_is_to_make_another_call_while_it_waits_is_an_assertion)
{
    expect_refusal("", false, "post another\n", "before == post->run");
}

static void close_it(void *unused)
{
    (void)unused;
    rehearsal_close(&rehearsal);
}

Test(rehearsal, a_reference_that_nobody_gives_back_is_an_assertion)
{
    open_it(&player_application, NULL);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    say(ann, "keep\n");
    rehearsed_leave(ann);
    expect_abort(close_it, NULL, "client->references == 0");
    channel_release(kept);
    rehearsal_close(&rehearsal);
}

Test(rehearsal, a_timer_that_is_written_while_it_is_set_is_an_assertion)
{
    expect_refusal("", false, "set anew\n", "timer->facade");
}

Test(rehearsal, an_application_that_is_written_after_its_start_is_an_assertion)
{
    struct application mine = player_application;
    struct input_handler_verbs table = verbs;
    mine.verbs = &table;
    open_it(&mine, NULL);
    rehearsal_connect(&rehearsal);
    mine.max_message = 100;
    expect_abort(connect_one_more, NULL, "is_as_written");
    mine.max_message = 0;
    table.handle_input = NULL;
    expect_abort(connect_one_more, NULL, "is_as_written");
    table.handle_input = verbs.handle_input;
    rehearsal_close(&rehearsal);
}
#endif

/* ---- A strand, with a timer of its own ------------------------------------------------------- */

static struct strand_group room;
static struct channel_timer hour;

static void strike(struct channel_timer *timer, struct channel_facade *facade)
{
    (void)timer;
    (void)facade;
    strand_group_send(&room, NULL, piece_bytes("an hour\n", 8));
}

static void opened(struct strand *strand, struct channel_facade *facade)
{
    (void)strand;
    hear("opened ");
    hour.fired = strike;
    channel_repeat_timer(facade, &hour, 3600000);
}

static void closed(struct strand *strand)
{
    (void)strand;
    hear("closed ");
}

static bool said(struct strand_group *group, struct strand_member *member, struct message line)
{
    strand_group_send(group, member, piece_copy(line));
    return true;
}

static void left(struct strand_group *group, struct strand_member *member)
{
    (void)group;
    (void)member;
    hear("left ");
}

static void *start_room(struct server *server)
{
    static const struct strand_group_verbs room_verbs = {
        .strand = {.opened = opened, .closed = closed}, .said = said, .left = left};
    memset(&hour, 0, sizeof(hour));
    return strand_group_open(&room, server, &room_verbs) ? &room : NULL;
}

static const struct application room_application = {.name = "room",
                                                    .needs = OFFERS_STRANDS |
                                                             OFFERS_OUTPUT_FROM_ELSEWHERE,
                                                    .verbs = &strand_member_verbs,
                                                    .handler_size = sizeof(struct strand_member),
                                                    .start = start_room};

Test(rehearsal, a_strand_has_its_members_and_its_time)
{
    open_it(&room_application, NULL);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    struct rehearsed *bob = rehearsal_connect(&rehearsal);
    say(ann, "hello\n");
    cr_assert_str_eq(rehearsed_read(ann), "");
    cr_assert_str_eq(rehearsed_read(bob), "hello\n");
    rehearsed_leave(bob);
    cr_assert_str_eq(heard, "opened left ");
    rehearsal_pass_time(&rehearsal, 2 * 3600000 + 1);
    cr_assert_str_eq(rehearsed_read(ann), "an hour\nan hour\n");
    rehearsal_close(&rehearsal);
    cr_assert_str_eq(heard, "opened left left closed ");
}

/* Functions of an author's own, which call ours. */
static void room_started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    strand_member_started(self, facade);
}

static bool room_handle_input(struct input_handler *self, struct message message,
                              struct channel_facade *facade) NO_LOCK_HELD
{
    return strand_member_handle_input(self, message, facade);
}

static void room_left(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    strand_member_left(self, facade);
}

static void room_stopping(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    strand_member_stopping(self, facade);
}

static void say_hello(void *client)
{
    say(client, "hello\n");
}

#ifndef NDEBUG
static bool set_hour(struct input_handler *self, struct message message,
                     struct channel_facade *facade) NO_LOCK_HELD
{
    channel_set_timer(strand_facade(&room.strand), &hour, 10);
    return strand_member_handle_input(self, message, facade);
}

/* Its client has a run, but is not in the strand. */
Test(rehearsal, a_strands_timer_that_a_client_sets_is_an_assertion)
{
    struct input_handler_verbs table = strand_member_verbs;
    struct application application = room_application;
    table.handle_input = set_hour;
    application.verbs = &table;
    open_it(&application, NULL);
    expect_abort(say_hello, rehearsal_connect(&rehearsal), "is_own_call");
    rehearsal_close(&rehearsal);
}
#endif

static void visit_room(const struct input_handler_verbs *table)
{
    struct application application = room_application;
    application.verbs = table;
    open_it(&application, NULL);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    struct rehearsed *bob = rehearsal_connect(&rehearsal);
    say(ann, "hello\n");
    cr_assert_str_eq(rehearsed_read(bob), "hello\n");
    rehearsed_leave(bob);
    cr_assert_str_eq(heard, "opened left ");
    say(ann, "alone\n");
    rehearsal_close(&rehearsal);
    cr_assert_str_eq(heard, "opened left left closed ");
}

/* An author's own table, from which one function is left out, or all. */
Test(rehearsal, what_a_table_of_a_strands_members_leaves_out_is_filled_in)
{
    struct input_handler_verbs table = strand_member_verbs;
    table.handle_input = NULL;
    visit_room(&table);
    table = strand_member_verbs;
    table.started = NULL;
    visit_room(&table);
    table = strand_member_verbs;
    table.left = NULL;
    visit_room(&table);
    table = strand_member_verbs;
    table.stopping = NULL;
    visit_room(&table);
    table = (struct input_handler_verbs){.is_urgent = NULL};
    visit_room(&table);
}

Test(rehearsal, what_a_table_with_wrapped_functions_leaves_out_is_filled_in)
{
    struct input_handler_verbs table = {.started = room_started, .handle_input = room_handle_input};
    visit_room(&table);
}

static void say_goodbye(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
    hear("goodbye ");
}

/* What calls ours and what does not comes to the same. */
Test(rehearsal, a_member_leaves_even_if_its_stopping_forgets_that)
{
    struct input_handler_verbs table = strand_member_verbs;
    struct application application = room_application;
    application.verbs = &table;
    table.stopping = say_goodbye;
    open_it(&application, NULL);
    struct rehearsed *bob = rehearsal_connect(&rehearsal);
    rehearsed_leave(rehearsal_connect(&rehearsal));
    cr_assert_str_eq(heard, "opened goodbye left ");
    rehearsed_leave(bob);
    rehearsal_close(&rehearsal);
    cr_assert_str_eq(heard, "opened goodbye left goodbye left closed ");
    table.stopping = room_stopping;
    visit_room(&table);
}

static bool owe(struct strand_group *group, struct strand_member *member, struct message line)
{
    (void)group;
    (void)member;
    (void)line;
    return false;
}

static void gone(struct strand_group *group, struct strand_member *member)
{
    (void)group;
    hear("gone ");
    channel_close(member->facade);
}

static void *start_debtors(struct server *server)
{
    static const struct strand_group_verbs debtors = {.said = owe, .gone = gone};
    return strand_group_open(&room, server, &debtors) ? &room : NULL;
}

/* Ann's answer waits when she leaves. */
static void leave_unanswered(void (*own)(struct input_handler *, struct channel_facade *))
{
    struct input_handler_verbs table = strand_member_verbs;
    struct application application = room_application;
    application.verbs = &table;
    application.start = start_debtors;
    table.left = own;
    open_it(&application, NULL);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    say(ann, "hello\n");
    rehearsed_finish(ann);
    cr_assert(rehearsed_is_over(ann));
    rehearsal_close(&rehearsal);
}

Test(rehearsal, the_group_hears_once_of_a_member_that_is_gone)
{
    leave_unanswered(say_goodbye);
    cr_assert_str_eq(heard, "goodbye gone ");
    leave_unanswered(room_left);
    cr_assert_str_eq(heard, "gone ");
}

/* A server whose clients are no members, but its own connections are, say. */
static void no_member_started(struct input_handler *self, struct channel_facade *facade)
{
    memset((char *)self + sizeof(*self), 0x55, sizeof(struct strand_member) - sizeof(*self));
    channel_enqueue(facade, piece_bytes("welcome\n", 8));
}

static bool hold_it(struct input_handler *self, struct message line, struct channel_facade *facade)
{
    static struct channel_hold hold;
    (void)self;
    (void)line;
    channel_hold(facade, &hold);
    return true;
}

Test(rehearsal, a_client_that_is_no_member_is_left_alone)
{
    struct input_handler_verbs table = {.started = no_member_started, .handle_input = hold_it};
    struct application application = room_application;
    application.verbs = &table;
    open_it(&application, NULL);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    cr_assert_str_eq(rehearsed_read(ann), "welcome\n");
    say(ann, "hello\n");
    rehearsed_finish(ann);
    cr_assert(rehearsed_is_over(ann));
    rehearsal_close(&rehearsal);
    cr_assert_str_eq(heard, "opened closed ");
}

/* As a factory of channel_connect() makes handlers: nobody fills in what is a member's. */
static struct input_handler_verbs own_table;

static struct input_handler *create_member(struct input_handler_factory *factory, void *memory)
{
    struct strand_member *member = memory;
    (void)factory;
    member->handler.verbs = input_handler_complete(&own_table);
    member->group = &room;
    return &member->handler;
}

static struct input_handler_factory *open_room(struct server *server)
{
    static struct input_handler_factory factory = {.handler_size = sizeof(struct strand_member),
                                                   .create = create_member};
    return start_room(server) != NULL ? &factory : NULL;
}

Test(rehearsal, a_member_that_could_never_leave_says_so)
{
    static const struct application application = {
        .name = "room", .needs = OFFERS_STRANDS, .open = open_room};
    own_table = strand_member_verbs;
    own_table.stopping = NULL;
    open_it(&application, NULL);
    expect_abort(connect_one_more, NULL,
                 "strand_member_started(): expected left and stopping among the verbs of a member, "
                 "got less\n");
    rehearsal_close(&rehearsal);
}

Test(rehearsal, a_member_whose_start_was_left_out_says_so)
{
    struct input_handler_verbs table = {.started = started, .handle_input = room_handle_input};
    struct application application = room_application;
    application.verbs = &table;
    open_it(&application, NULL);
    expect_abort(say_hello, rehearsal_connect(&rehearsal),
                 "strand_member_handle_input(): expected a member, got a connection whose "
                 "`started` has not called strand_member_started()\n");
    rehearsal_close(&rehearsal);
}

Test(rehearsal, has_the_applications_own_defaults)
{
    static const char *const defaults[] = {"--max-line", "4", NULL};
    struct application terse = player_application;
    terse.defaults = defaults;
    open_it(&terse, NULL);
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    say(ann, "post\n");
    cr_assert_str_eq(rehearsed_read(ann), "before\nposted\n");
    say(ann, "repeat\n");
    cr_assert_str_eq(rehearsed_read(ann), "ERR line too long\n");
    rehearsal_close(&rehearsal);
}
