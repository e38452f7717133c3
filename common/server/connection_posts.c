/*
 * Calls that other threads want made in a connection's own context. They wait in a list that any
 * thread may add to without a lock, and the runner takes them all at once: so one that posts itself
 * again has its next turn in the next run, after the other connections.
 */
#include "common/base/test_point.h"
#include "common/server/connection_parts.h"

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

void connection_run_posts(struct connection *connection)
{
    struct channel_post *next = take_all(connection, NULL);
    while (next != NULL) {
        struct channel_post *post = next;
        next = post->next; /* before it can be posted again, or freed */
        channel_post_run(post);
    }
}

void connection_close_posts(struct connection *connection)
{
    TEST_POINT("connection: before it takes no more posts");
    struct channel_post *next = take_all(connection, &closed);
    while (next != NULL) {
        struct channel_post *post = next;
        next = post->next;
        channel_post_drop(post);
    }
}
