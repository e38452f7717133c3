#include "common/apps/chat/clerk.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/test_point.h"

static void post_arrives(struct channel_post *post, struct channel_facade *facade) NO_LOCK_HELD;
static void timer_fires(struct channel_timer *timer, struct channel_facade *facade) NO_LOCK_HELD;
static void post_is_dropped(struct channel_post *post);

void clerk_init(struct clerk *clerk, struct group *users)
{
    *clerk = (struct clerk){.users = users};
    mutex_init(&clerk->lock);
    mutex_lock(&clerk->lock);
    for (int i = 0; i < CLERK_CHORES; i++)
        clerk->due[i] = INT64_MAX;
    mutex_unlock(&clerk->lock);
}

void clerk_destroy(struct clerk *clerk)
{
    mutex_destroy(&clerk->lock);
}

void clerk_learn(struct clerk *clerk, enum clerk_chore chore, clerk_function *run, void *self)
{
    clerk->chores[chore].run = run;
    clerk->chores[chore].self = self;
}

/* When the first chore is due. */
static int64_t next_due(const struct clerk *clerk) REQUIRES(&clerk->lock)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < CLERK_CHORES; i++)
        next = clerk->due[i] < next ? clerk->due[i] : next;
    return next;
}

/* ---- Who it is ------------------------------------------------------------------------------ */

/* Nobody is the clerk any more. What is returned is the reference to give back, if any. */
static struct channel_facade *unseat(struct clerk *clerk, enum clerk_phase phase)
    REQUIRES(&clerk->lock)
{
    struct channel_facade *facade = clerk->facade;
    clerk->phase = phase;
    clerk->seat = NULL;
    clerk->facade = NULL;
    return facade;
}

/* If nobody is the clerk, and somebody is needed, this thread has to look for one. */
static bool must_seek(struct clerk *clerk) REQUIRES(&clerk->lock)
{
    if (clerk->phase != CLERK_NONE || next_due(clerk) == INT64_MAX)
        return false;
    clerk->phase = CLERK_SOUGHT;
    return true;
}

/*
 * Makes a user the clerk. He may have left the group since he was found there: then he has asked
 * already whether he is the clerk, and nothing would ever take the seat from him. So we look once
 * more, when he can see that he is. False: he has left, and has not seen it.
 */
static bool seat_user(struct clerk *clerk, struct clerk_seat *seat,
                      struct channel_facade *facade) NO_LOCK_HELD
{
    channel_retain(facade);
    mutex_lock(&clerk->lock);
    clerk->phase = CLERK_POSTED;
    clerk->seat = seat;
    clerk->facade = facade;
    clerk->is_new = true;
    mutex_unlock(&clerk->lock);
    TEST_POINT("clerk: seated");
    if (group_has(clerk->users, &seat->member))
        return true;
    mutex_lock(&clerk->lock);
    bool is_seated = clerk->seat == seat;
    if (is_seated)
        unseat(clerk, CLERK_SOUGHT);
    mutex_unlock(&clerk->lock);
    if (is_seated)
        channel_release(facade);
    return !is_seated;
}

/* If he leaves now, the post is never run, but then he finds another clerk himself. */
static bool seat_and_post(struct clerk *clerk, struct group_member *member,
                          struct channel_facade *facade) NO_LOCK_HELD
{
    struct clerk_seat *seat = container_of(member, struct clerk_seat, member);
    TEST_POINT("clerk: found");
    seat->clerk = clerk;
    seat->post = (struct channel_post){.run = post_arrives, .dropped = post_is_dropped};
    bool is_done = seat_user(clerk, seat, facade);
    if (is_done)
        channel_post(facade, &seat->post);
    channel_release(facade);
    return is_done;
}

/*
 * There is no user: the next one who comes will look. But one may have come before he could see
 * that he has to, so we look once more. True: nothing more is to be done.
 */
static bool leave_to_next(struct clerk *clerk) NO_LOCK_HELD
{
    TEST_POINT("clerk: found nobody");
    mutex_lock(&clerk->lock);
    clerk->phase = CLERK_NONE;
    mutex_unlock(&clerk->lock);
    if (group_count(clerk->users) == 0)
        return true;
    mutex_lock(&clerk->lock);
    bool seeks = must_seek(clerk);
    mutex_unlock(&clerk->lock);
    return !seeks;
}

static void seek(struct clerk *clerk) NO_LOCK_HELD
{
    bool is_done = false;
    while (!is_done) {
        struct group_member *member;
        struct channel_facade *facade = group_first(clerk->users, &member);
        is_done = facade != NULL ? seat_and_post(clerk, member, facade) : leave_to_next(clerk);
    }
}

void clerk_came(struct clerk *clerk)
{
    mutex_lock(&clerk->lock);
    bool seeks = must_seek(clerk);
    mutex_unlock(&clerk->lock);
    if (seeks)
        seek(clerk);
}

/* What was posted to him does not arrive any more, though it may be long until it is dropped. */
void clerk_left(struct clerk *clerk, const struct clerk_seat *seat)
{
    struct channel_facade *facade = NULL;
    mutex_lock(&clerk->lock);
    if (clerk->seat == seat)
        facade = unseat(clerk, CLERK_NONE);
    bool seeks = must_seek(clerk);
    mutex_unlock(&clerk->lock);
    if (facade != NULL)
        channel_release(facade);
    if (seeks)
        seek(clerk);
}

/* ---- What he does --------------------------------------------------------------------------- */

/* In the clerk's context, at the end: the timer, or nobody is needed any more. */
static void settle(struct clerk *clerk) NO_LOCK_HELD
{
    struct channel_facade *facade;
    mutex_lock(&clerk->lock);
    int64_t due = next_due(clerk);
    bool is_needed = due != INT64_MAX;
    if (is_needed) {
        facade = clerk->facade;
        clerk->phase = CLERK_WAITING;
        clerk->set_for = due;
        if (clerk->is_new)
            clerk->timer = (struct channel_timer){.fired = timer_fires};
        clerk->is_new = false;
    } else {
        facade = unseat(clerk, CLERK_NONE);
    }
    mutex_unlock(&clerk->lock);
    if (is_needed)
        channel_set_timer(facade, &clerk->timer, due - clock_ms());
    else
        channel_release(facade);
}

static void post_arrives(struct channel_post *post, struct channel_facade *facade)
{
    struct clerk *clerk = container_of(post, struct clerk_seat, post)->clerk;
    (void)facade;
    settle(clerk);
}

/* He has left, and said so before (clerk_left()). */
static void post_is_dropped(struct channel_post *post)
{
    (void)post;
}

static void run(struct clerk *clerk, int chore, struct channel_facade *facade) NO_LOCK_HELD
{
    clerk->chores[chore].run(clerk->chores[chore].self, facade);
}

/* Runs the chores that are due. One that asks for itself again has its turn when the timer fires.
 */
static void timer_fires(struct channel_timer *timer, struct channel_facade *facade)
{
    struct clerk *clerk = container_of(timer, struct clerk, timer);
    int64_t now = clock_ms();
    bool is_due[CLERK_CHORES];
    mutex_lock(&clerk->lock);
    bool is_posted = clerk->phase == CLERK_POSTED; /* then the post sets the timer anew */
    if (!is_posted)
        clerk->phase = CLERK_WORKING;
    for (int i = 0; i < CLERK_CHORES; i++) {
        is_due[i] = clerk->due[i] <= now || clerk->due[i] <= clerk->set_for;
        if (is_due[i])
            clerk->due[i] = INT64_MAX;
    }
    mutex_unlock(&clerk->lock);
    for (int i = 0; i < CLERK_CHORES; i++)
        if (is_due[i])
            run(clerk, i, facade);
    if (!is_posted)
        settle(clerk);
}

void clerk_ask(struct clerk *clerk, enum clerk_chore chore, int64_t moment)
{
    struct channel_facade *facade = NULL;
    struct clerk_seat *seat = NULL;
    mutex_lock(&clerk->lock);
    if (moment < clerk->due[chore])
        clerk->due[chore] = moment;
    bool seeks = must_seek(clerk);
    if (clerk->phase == CLERK_WAITING && moment < clerk->set_for) {
        clerk->phase = CLERK_POSTED;
        facade = clerk->facade;
        seat = clerk->seat;
        channel_retain(facade);
    }
    mutex_unlock(&clerk->lock);
    if (seeks)
        seek(clerk);
    if (facade == NULL)
        return;
    channel_post(facade, &seat->post);
    channel_release(facade);
}
