/*
 * The chat's news: a line for each who comes or leaves while they are few, one for all when they
 * are many, and somebody who tells it.
 */
#include "common/apps/chat/news.h"

#include "common/base/container_of.h"
#include "common/server/channel_calls.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(news, .timeout = 60);

enum { USERS = 5, POOR = -1000000 };

/* A user's connection: what it was sent, and what it was asked to call. */
struct user {
    struct channel_facade facade;
    struct clerk_seat seat;
    int references;
    char heard[1000];
    struct channel_post *post;
    struct channel_timer *timer;
    int64_t wait;
    bool ended;
};

static struct group group;
static struct clerk clerk;
static struct news news;
static struct user users[USERS];

static struct user *user_of(struct channel_facade *facade)
{
    return container_of(facade, struct user, facade);
}

static enum output_result enqueue(struct channel_facade *facade, struct piece piece)
{
    struct user *user = user_of(facade);
    cr_assert_lt(strlen(user->heard) + piece.bytes.length, sizeof user->heard);
    strncat(user->heard, (const char *)piece.bytes.data, piece.bytes.length);
    return OUTPUT_FLOWING;
}

static void post(struct channel_facade *facade, struct channel_post *given) NO_LOCK_HELD
{
    struct user *user = user_of(facade);
    cr_assert_gt(user->references, 0);
    if (user->ended) {
        channel_post_drop(given);
        return;
    }
    cr_assert_null(user->post, "posted twice");
    user->post = given;
}

static void set_timer(struct channel_facade *facade, struct channel_timer *timer,
                      int64_t milliseconds)
{
    struct user *user = user_of(facade);
    cr_assert_null(user->timer, "set twice");
    cr_assert_null(timer->place.previous);
    timer->place.previous = &timer->place; /* it is set */
    user->timer = timer;
    user->wait = milliseconds;
}

static void retain(struct channel_facade *facade)
{
    user_of(facade)->references++;
}

static void release(struct channel_facade *facade)
{
    user_of(facade)->references--;
}

static const struct channel_facade_verbs verbs = {
    .enqueue = enqueue,
    .post = post,
    .set_timer = set_timer,
    .retain = retain,
    .release = release,
};

static const char *name(int i)
{
    static const char *const names[] = {"ann", "bob", "carl", "dora", "eve"};
    return names[i];
}

static void comes(int i)
{
    users[i] = (struct user){.facade.verbs = &verbs};
    group_join(&group, &users[i].seat.member, &users[i].facade);
    clerk_came(&clerk);
    news_came(&news, name(i), &users[i].seat.member);
}

static void leaves(int i)
{
    group_leave(&group, &users[i].seat.member);
    users[i].timer = NULL; /* its connection forgets it, and drops what was posted */
    clerk_left(&clerk, &users[i].seat);
    news_left(&news, name(i));
    users[i].ended = true;
    struct channel_post *dropped = users[i].post;
    users[i].post = NULL;
    if (dropped != NULL) {
        channel_post_drop(dropped);
    }
}

static void is_renamed(int i, const char *now)
{
    news_renamed(&news, name(i), now, &users[i].seat.member);
}

static void run_post(int i)
{
    struct channel_post *due = users[i].post;
    cr_assert_not_null(due, "user %d is not the clerk", i);
    users[i].post = NULL;
    channel_post_run(due);
}

static void fire(int i)
{
    struct channel_timer *due = users[i].timer;
    cr_assert_not_null(due, "the timer of user %d is not set", i);
    users[i].timer = NULL;
    due->place.previous = NULL;
    channel_timer_fire(due);
}

static void expect(int i, const char *heard)
{
    cr_assert_str_eq(users[i].heard, heard, "user %d heard `%s`, not `%s`", i, users[i].heard,
                     heard);
    users[i].heard[0] = '\0';
}

static void spend(void)
{
    mutex_lock(&news.lock);
    news.budget = POOR;
    mutex_unlock(&news.lock);
}

static void earn(void)
{
    mutex_lock(&news.lock);
    news.budget = NEWS_SAVED;
    mutex_unlock(&news.lock);
}

/** One line has been paid for since earn(): before that the budget cannot have been larger. */
static void expect_paid(int64_t readers)
{
    mutex_lock(&news.lock);
    cr_assert_eq(news.budget, NEWS_SAVED - readers);
    mutex_unlock(&news.lock);
}

static void begin(void)
{
    group_init(&group);
    clerk_init(&clerk, &group);
    news_init(&news, &group, &clerk);
}

static void end(void)
{
    for (int i = 0; i < USERS; i++) {
        if (users[i].seat.member.facade != NULL) {
            leaves(i);
        }
        cr_expect_eq(users[i].references, 0);
    }
    news_destroy(&news);
    clerk_destroy(&clerk);
    group_destroy(&group);
}

Test(news, few_are_told_of_each_at_once, .init = begin, .fini = end)
{
    comes(0);
    expect(0, "");
    comes(1);
    expect(0, "* bob is here\n");
    expect(1, "");
    comes(2);
    leaves(1);
    expect(0, "* carl is here\n* bob has left\n");
    expect(2, "* bob has left\n");
    for (int i = 0; i < 3; i++) {
        cr_assert_null(users[i].post);
    }
}

/* The first who came tells it, when the budget allows it again. */
Test(news, many_are_told_in_one_line, .init = begin, .fini = end)
{
    comes(0);
    spend();
    comes(1);
    comes(2);
    comes(3);
    expect(0, "");
    run_post(0);
    cr_assert_gt(users[0].wait, (int64_t)1000 * -POOR / NEWS_RATE - 60000, "so slow it is never");
    cr_assert_leq(users[0].wait, (int64_t)1000 * -POOR / NEWS_RATE + 1);
    comes(4);
    expect(0, "");
    fire(0);
    expect(0, "* 4 people came\n");
    expect(4, "* 4 people came\n");
    leaves(4);
    leaves(3);
    comes(3);
    run_post(0);
    fire(0);
    expect(1, "* 4 people came\n* 1 person came and 2 left\n");
    leaves(1);
    leaves(2);
    run_post(0);
    fire(0);
    expect(0, "* 1 person came and 2 left\n* 2 people left\n");
}

/* Who was the only one is told by name, and not about himself. */
Test(news, one_that_had_to_wait_is_told_by_name, .init = begin, .fini = end)
{
    comes(0);
    comes(1);
    spend();
    comes(2);
    run_post(0);
    fire(0);
    expect(0, "* bob is here\n* carl is here\n");
    expect(2, "");
    leaves(1);
    run_post(0);
    fire(0);
    expect(2, "* bob has left\n");
}

/* After a restart everybody comes and says his name, and so does each of a thousand bored users. */
Test(news, new_names_are_paid_for_like_arrivals, .init = begin, .fini = end)
{
    comes(0);
    comes(1);
    comes(2);
    is_renamed(1, "bobby");
    expect(0, "* bob is here\n* carl is here\n* bob is now bobby\n");
    expect(1, "* carl is here\n");
    spend();
    is_renamed(2, "carlo");
    is_renamed(1, "rob");
    expect(0, "");
    run_post(0);
    fire(0);
    expect(0, "* 2 people took another name\n");
    expect(2, "* bob is now bobby\n* 2 people took another name\n");
    comes(3);
    leaves(1);
    is_renamed(2, "carla");
    is_renamed(2, "carlotta");
    run_post(0);
    fire(0);
    expect(0, "* 1 person came, 1 left and 2 took another name\n");
    comes(4);
    is_renamed(2, "carl");
    run_post(0);
    fire(0);
    expect(0, "* 1 person came and 1 took another name\n");
    is_renamed(2, "carlo");
    run_post(0);
    fire(0);
    expect(0, "* carl is now carlo\n");
    earn();
    is_renamed(2, "carlos");
    expect_paid(4);
}

/* It is paid for: a line costs as many as read it. */
Test(news, a_line_costs_as_many_as_read_it, .init = begin, .fini = end)
{
    comes(0);
    comes(1);
    earn();
    comes(2);
    expect(0, "* bob is here\n* carl is here\n");
    expect_paid(3);
}

/* Whoever the clerk is, and however far it has come, the news do not end with it. */
Test(news, a_clerk_that_leaves_has_a_successor, .init = begin, .fini = end)
{
    comes(0);
    comes(1);
    comes(2);
    comes(3);
    spend();
    comes(4);
    leaves(0); /* before the post has run */
    run_post(1);
    leaves(1); /* with the timer set */
    run_post(2);
    cr_assert_null(users[3].post);
    fire(2);
    expect(2, "* dora is here\n* 1 person came and 2 left\n");
    leaves(2); /* it has told it, and is not the clerk any more */
    run_post(3);
    fire(3);
    expect(4, "* 1 person came and 2 left\n* carl has left\n");
}

Test(news, the_last_one_has_nobody_to_tell, .init = begin, .fini = end)
{
    comes(0);
    spend();
    leaves(0);
    comes(1);
    run_post(1);
    leaves(1);
    comes(2);
    comes(3);
    run_post(2);
    fire(2);
    expect(3, "* 3 people came and 2 left\n");
}

/* The budget may allow it before the timer fires, which then has nothing to tell. */
Test(news, what_was_told_before_the_timer_fires_is_not_told_again, .init = begin, .fini = end)
{
    comes(0);
    spend();
    comes(1);
    run_post(0);
    earn();
    comes(2);
    expect(0, "* 2 people came\n");
    fire(0);
    expect(0, "");
    spend();
    comes(3);
    run_post(0);
    fire(0);
    expect(0, "* dora is here\n");
}
