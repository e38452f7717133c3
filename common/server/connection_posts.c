/*
 * Calls that other threads want made in a connection's own context. They wait in a list that any
 * thread may add to without a lock, and the runner takes them all at once: so one that posts itself
 * again has its next turn in the next run, after the other connections.
 */
#include "common/base/test_point.h"
#include "common/server/channel_calls_back.h"
#include "common/server/connection_parts.h"

#include <assert.h>

/* Stands in the place of the newest post when the connection takes none any more. */
static struct channel_post closed;

bool connection_post(struct connection *connection, struct channel_post *post)
{
    struct channel_post *newest = atomic_load(&connection->posts);
    do {
        if (newest == &closed)
            return false;
        post->next = newest;
    } while (!atomic_compare_exchange_weak(&connection->posts, &newest, post));
    TEST_POINT("connection: between a post and its request");
    atomic_fetch_or(&connection->asked, ASK_CALLS); /* last, so a run that sees it finds the post */
    return true;
}

/* Takes all, and leaves `instead`. The oldest one comes first. */
static struct channel_post *take_all(struct connection *connection, struct channel_post *instead)
{
    struct channel_post *newest = atomic_exchange(&connection->posts, instead);
    struct channel_post *all = NULL;
    while (newest != NULL) {
        struct channel_post *older = newest->next;
        newest->next = all;
        all = newest;
        newest = older;
    }
    return all;
}

static void run_posts(struct connection *connection) NO_LOCK_HELD
{
    struct channel_post *next = take_all(connection, NULL);
    while (next != NULL) {
        struct channel_post *post = next;
        next = post->next; /* before it can be posted again, or freed */
        channel_post_run(post);
    }
}

static void close_posts(struct connection *connection) NO_LOCK_HELD
{
    TEST_POINT("connection: before it takes no more posts");
    struct channel_post *next = take_all(connection, &closed);
    while (next != NULL) {
        struct channel_post *post = next;
        next = post->next;
        channel_post_drop(post);
    }
}

const struct connection_part connection_posts_part = {.call = run_posts, .end = close_posts};

/*
 * A facade with a verb for it is a strand's, or of a stage whose dispatcher has to know. Without
 * one only the connection's own handler posts, so this is the runner.
 */
static void pass(struct channel_facade *facade, struct channel_post *post) NO_LOCK_HELD
{
    if (facade->verbs->post != NULL) {
        facade->verbs->post(facade, post);
        return;
    }
    connection_use_part(connection_of(facade), PART_POSTS, &connection_posts_part);
    if (!connection_post(connection_of(facade), post))
        channel_post_drop(post);
}

bool channel_post(struct channel_facade *facade, struct channel_post *post)
{
    assert(post->run != NULL);
    channel_post_call *before = atomic_exchange(&post->waits, post->run);
    assert(before == NULL || before == post->run); /* else it was to make another call first */
    if (before != NULL)
        return false;
    post->facade = facade;
    pass(facade_behind(facade), post);
    return true;
}
