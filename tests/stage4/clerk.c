/*
 * The chat's clerk (common/apps/chat/clerk.h), when users come and leave while one is looked for: a
 * thread is held where it has seen what is not so any more.
 */
#include "common/apps/chat/clerk.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/server/channel_calls.h"
#include "support/test_points.h"

#include <criterion/criterion.h>
#include <pthread.h>

TestSuite(stage4_clerk, .timeout = 60);

enum { USERS = 2 };

/** A user's connection: what was posted to it. */
struct user {
    struct channel_facade facade;
    struct clerk_seat seat;
    atomic_int references;
    atomic_int posts;
    struct channel_post *post;
    struct channel_timer *timer;
};

static struct group group;
static struct clerk clerk;
static struct user users[USERS];
static int chores_done;
static pthread_t seeker;

static struct user *user_of(struct channel_facade *facade)
{
    return container_of(facade, struct user, facade);
}

/** It arrives when the test says so; one that has left never sees it. */
static void post(struct channel_facade *facade, struct channel_post *given) NO_LOCK_HELD
{
    user_of(facade)->post = given;
    user_of(facade)->posts++;
}

static void set_timer(struct channel_facade *facade, struct channel_timer *timer,
                      int64_t milliseconds)
{
    (void)milliseconds;
    user_of(facade)->timer = timer;
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
    .post = post, .set_timer = set_timer, .retain = retain, .release = release};

static void comes(int i)
{
    users[i].facade.verbs = &verbs;
    group_join(&group, &users[i].seat.member, &users[i].facade);
    clerk_came(&clerk);
}

static void leaves(int i)
{
    group_leave(&group, &users[i].seat.member);
    clerk_left(&clerk, &users[i].seat);
}

static void chore(void *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
    chores_done++;
}

static void begin(void)
{
    group_init(&group);
    clerk_init(&clerk, &group);
    clerk_learn(&clerk, CHORE_NEWS, chore, NULL);
}

/** Asserts that this user is the clerk now, and has the chore done. */
static void expect_clerk(int i)
{
    cr_assert_eq(users[i].posts, 1, "user %d was posted to %d times", i, users[i].posts);
    channel_post_run(users[i].post);
    cr_assert_not_null(users[i].timer, "user %d has no timer", i);
    channel_timer_fire(users[i].timer);
    cr_assert_eq(chores_done, 1);
}

static void end(void)
{
    for (int i = 0; i < USERS; i++) {
        if (users[i].seat.member.facade != NULL) {
            leaves(i);
        }
        cr_expect_eq(users[i].references, 0, "user %d has %d references", i, users[i].references);
    }
    clerk_destroy(&clerk);
    group_destroy(&group);
}

static void *ask(void *nothing)
{
    thread_holds_no_lock_yet();
    clerk_ask(&clerk, CHORE_NEWS, clock_ms());
    return nothing;
}

/** A thread has something to do for the clerk, and stops at that point while it looks for one. */
static void seek_up_to(const char *point)
{
    test_point_hold(point);
    cr_assert_eq(pthread_create(&seeker, NULL, ask, NULL), 0);
    test_point_await_held(point, 1);
}

static void go_on(const char *point)
{
    test_point_release(point);
    pthread_join(seeker, NULL);
}

/** He sees that somebody is being looked for, so it is not his to look. */
Test(stage4_clerk, one_who_comes_when_nobody_was_found_is_found, .init = begin, .fini = end)
{
    seek_up_to("clerk: found nobody");
    comes(0);
    go_on("clerk: found nobody");
    expect_clerk(0);
}

Test(stage4_clerk, one_who_leaves_when_he_was_found_is_not_waited_for, .init = begin, .fini = end)
{
    comes(0);
    comes(1);
    seek_up_to("clerk: found");
    leaves(0);
    go_on("clerk: found");
    expect_clerk(1);
}

Test(stage4_clerk, one_who_leaves_before_he_is_told_has_a_successor, .init = begin, .fini = end)
{
    comes(0);
    comes(1);
    seek_up_to("clerk: seated");
    leaves(0);
    go_on("clerk: seated");
    expect_clerk(1);
}

/** His connection may take its time to end, and drops the post only then. */
Test(stage4_clerk, one_who_leaves_with_the_post_on_its_way_has_a_successor, .init = begin,
     .fini = end)
{
    comes(0);
    comes(1);
    clerk_ask(&clerk, CHORE_NEWS, clock_ms());
    cr_assert_eq(users[0].posts, 1);
    leaves(0);
    expect_clerk(1);
}

Test(stage4_clerk, what_nobody_could_do_is_done_by_the_first_who_comes, .init = begin, .fini = end)
{
    clerk_ask(&clerk, CHORE_NEWS, clock_ms());
    comes(0);
    expect_clerk(0);
}

/** The timer that is set is for later. */
Test(stage4_clerk, what_is_asked_for_sooner_is_posted_again, .init = begin, .fini = end)
{
    comes(0);
    clerk_ask(&clerk, CHORE_NEWS, clock_ms() + 3600000);
    cr_assert_eq(users[0].posts, 1);
    channel_post_run(users[0].post);
    cr_assert_not_null(users[0].timer);
    clerk_ask(&clerk, CHORE_NEWS, clock_ms() + 7200000);
    cr_assert_eq(users[0].posts, 1, "it is set for sooner anyway");
    clerk_ask(&clerk, CHORE_NEWS, clock_ms());
    cr_assert_eq(users[0].posts, 2);
    users[0].timer->place.moment = 4711; /* where it is in his tree */
    channel_post_run(users[0].post);
    cr_assert_eq(users[0].timer->place.moment, 4711, "it is made anew, and in the tree still");
    channel_timer_fire(users[0].timer);
    cr_assert_eq(chores_done, 1);
}
