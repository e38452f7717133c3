/*
 * The chat's news: a line for each who comes or leaves while they are few, one for all when they
 * are many, as soon as the budget allows it.
 */
#include "common/apps/chat/news.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(news, .timeout = 120);

enum { USERS = 5, POOR = -1000000 };

/* A user's connection: what it was sent. */
struct user {
    struct channel_facade facade;
    struct strand_member member;
    bool is_here;
    char heard[1000];
};

static struct strand_group group;
static struct news news;
static struct user users[USERS];
static bool is_set; /* the timer */
static int64_t wait;

static enum output_result enqueue(struct channel_facade *facade, struct piece piece)
{
    struct user *user = container_of(facade, struct user, facade);
    cr_assert_lt(strlen(user->heard) + piece.bytes.length, sizeof user->heard);
    strncat(user->heard, (const char *)piece.bytes.data, piece.bytes.length);
    return OUTPUT_FLOWING;
}

static void set_timer(struct channel_facade *facade, struct channel_timer *timer,
                      int64_t milliseconds)
{
    cr_assert_eq(facade, strand_facade(&group.strand));
    cr_assert_eq(timer, &news.timer);
    is_set = true;
    wait = milliseconds;
}

static const struct channel_facade_verbs verbs = {.enqueue = enqueue, .set_timer = set_timer};

static const char *name(int i)
{
    static const char *const names[] = {"ann", "bob", "carl", "dora", "eve"};
    return names[i];
}

static void comes(int i)
{
    users[i] = (struct user){.facade.verbs = &verbs, .is_here = true};
    users[i].member.facade = &users[i].facade;
    list_append(&group.members, &users[i].member.link);
    group.count++;
    news_came(&news, name(i), &users[i].member);
}

static void leaves(int i)
{
    list_remove(&users[i].member.link);
    group.count--;
    users[i].is_here = false;
    news_left(&news, name(i));
}

static void is_renamed(int i, const char *now)
{
    news_renamed(&news, name(i), now, &users[i].member);
}

static void fire(void)
{
    cr_assert(is_set, "the timer is not set");
    is_set = false;
    news.timer.fired(&news.timer, strand_facade(&group.strand));
}

static void expect(int i, const char *heard)
{
    cr_assert_str_eq(users[i].heard, heard, "user %d heard `%s`, not `%s`", i, users[i].heard,
                     heard);
    users[i].heard[0] = '\0';
}

static void spend(void)
{
    news.budget = POOR;
}

static void earn(void)
{
    news.budget = NEWS_SAVED;
}

/** One line has been paid for since earn(): before that the budget cannot have been larger. */
static void expect_paid(int64_t readers)
{
    cr_assert_eq(news.budget, NEWS_SAVED - readers);
}

static void begin(void)
{
    group.strand.facade.verbs = &verbs;
    list_init(&group.members);
    news_init(&news, &group);
}

Test(news, few_are_told_of_each_at_once, .init = begin)
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
    cr_assert_not(is_set);
}

Test(news, many_are_told_in_one_line, .init = begin)
{
    comes(0);
    spend();
    comes(1);
    comes(2);
    comes(3);
    expect(0, "");
    cr_assert_gt(wait, (int64_t)1000 * -POOR / NEWS_RATE - 60000, "so slow it is never");
    cr_assert_leq(wait, (int64_t)1000 * -POOR / NEWS_RATE + 1);
    comes(4);
    expect(0, "");
    fire();
    expect(0, "* 4 people came\n");
    expect(4, "* 4 people came\n");
    leaves(4);
    leaves(3);
    comes(3);
    fire();
    expect(1, "* 4 people came\n* 1 person came and 2 left\n");
    leaves(1);
    leaves(2);
    fire();
    expect(0, "* 1 person came and 2 left\n* 2 people left\n");
}

/* Who was the only one is told by name, and not about himself. */
Test(news, one_that_had_to_wait_is_told_by_name, .init = begin)
{
    comes(0);
    comes(1);
    spend();
    comes(2);
    fire();
    expect(0, "* bob is here\n* carl is here\n");
    expect(2, "");
    leaves(1);
    fire();
    expect(2, "* bob has left\n");
}

/* After a restart everybody comes and says his name, and so does each of a thousand bored users. */
Test(news, new_names_are_paid_for_like_arrivals, .init = begin)
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
    fire();
    expect(0, "* 2 people took another name\n");
    expect(2, "* bob is now bobby\n* 2 people took another name\n");
    comes(3);
    leaves(1);
    is_renamed(2, "carla");
    is_renamed(2, "carlotta");
    fire();
    expect(0, "* 1 person came, 1 left and 2 took another name\n");
    comes(4);
    is_renamed(2, "carl");
    fire();
    expect(0, "* 1 person came and 1 took another name\n");
    is_renamed(2, "carlo");
    fire();
    expect(0, "* carl is now carlo\n");
    earn();
    is_renamed(2, "carlos");
    expect_paid(4);
}

/* It is paid for: a line costs as many as read it. */
Test(news, a_line_costs_as_many_as_read_it, .init = begin)
{
    comes(0);
    comes(1);
    earn();
    comes(2);
    expect(0, "* bob is here\n* carl is here\n");
    expect_paid(3);
}

Test(news, what_the_last_one_leaves_untold_the_next_ones_read, .init = begin)
{
    comes(0);
    spend();
    leaves(0);
    comes(1);
    leaves(1);
    comes(2);
    comes(3);
    fire();
    expect(3, "* 3 people came and 2 left\n");
}

/* The budget may allow it before the timer fires, which then has nothing to tell. */
Test(news, what_was_told_before_the_timer_fires_is_not_told_again, .init = begin)
{
    comes(0);
    spend();
    comes(1);
    earn();
    comes(2);
    expect(0, "* 2 people came\n");
    fire();
    expect(0, "");
    spend();
    comes(3);
    fire();
    expect(0, "* dora is here\n");
}
