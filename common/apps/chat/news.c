#include "common/apps/chat/news.h"

#include "common/base/clock.h"

#include <stdio.h>

enum {
    LINE_SIZE = 128,
};

static void tell_untold(void *self, struct channel_facade *facade) NO_LOCK_HELD;

void news_init(struct news *news, struct group *users, struct clerk *clerk)
{
    *news =
        (struct news){.users = users, .clerk = clerk, .budget = NEWS_SAVED, .counted = clock_ms()};
    mutex_init(&news->lock);
    clerk_learn(clerk, CHORE_NEWS, tell_untold, news);
}

void news_destroy(struct news *news)
{
    mutex_destroy(&news->lock);
}

/* ---- The budget ---------------------------------------------------------------------------- */

/* The budget grows with time, up to what it saves. */
static void count_budget(struct news *news) REQUIRES(&news->lock)
{
    int64_t now = clock_ms();
    int64_t grown = news->budget + (now - news->counted) * NEWS_RATE / 1000;
    news->budget = grown < NEWS_SAVED ? grown : NEWS_SAVED;
    news->counted = now;
}

/* How long until the budget allows a line; ms. */
static int64_t time_to_wait(struct news *news) REQUIRES(&news->lock)
{
    count_budget(news);
    return news->budget > 0 ? 0 : -news->budget * 1000 / NEWS_RATE + 1;
}

/* ---- Telling ------------------------------------------------------------------------------- */

static const char *people(size_t count)
{
    return count == 1 ? "person" : "people";
}

/* One line about all of them. */
static size_t compose(const struct news_count *count, char line[LINE_SIZE])
{
    int length;
    if (count->came + count->left == 1)
        length = snprintf(line, LINE_SIZE, "* %s %s\n", count->name,
                          count->came == 1 ? "is here" : "has left");
    else if (count->left == 0)
        length = snprintf(line, LINE_SIZE, "* %zu people came\n", count->came);
    else if (count->came == 0)
        length = snprintf(line, LINE_SIZE, "* %zu people left\n", count->left);
    else
        length = snprintf(line, LINE_SIZE, "* %zu %s came and %zu left\n", count->came,
                          people(count->came), count->left);
    return (size_t)length;
}

/* A user does not read about his own arrival, unless it is one of many in one line. */
static void tell(struct news *news, const struct news_count *count) NO_LOCK_HELD
{
    char line[LINE_SIZE];
    bool is_one = count->came + count->left == 1;
    if (count->came + count->left == 0)
        return; /* another thread has reported it */
    size_t length = compose(count, line);
    group_send(news->users, is_one ? count->member : NULL, piece_bytes(line, length));
}

/* Takes what was only counted, and pays for a line about it. */
static struct news_count take_untold(struct news *news, size_t users) REQUIRES(&news->lock)
{
    struct news_count untold = news->untold;
    news->untold = (struct news_count){0};
    news->budget -= (int64_t)users;
    return untold;
}

/* The clerk's chore. */
static void tell_untold(void *self, struct channel_facade *facade)
{
    struct news *news = self;
    size_t users = group_count(news->users);
    (void)facade;
    mutex_lock(&news->lock);
    struct news_count untold = take_untold(news, users);
    mutex_unlock(&news->lock);
    tell(news, &untold);
}

/* ---- What happens -------------------------------------------------------------------------- */

static void add(struct news_count *untold, const struct news_count *event)
{
    untold->came += event->came;
    untold->left += event->left;
    snprintf(untold->name, sizeof(untold->name), "%s", event->name);
    untold->member = event->member;
}

/* Tells it now, with what else is untold, or sees to it that the clerk will. */
static void happen(struct news *news, const struct news_count *event) NO_LOCK_HELD
{
    struct news_count told = {0};
    size_t users = group_count(news->users);
    mutex_lock(&news->lock);
    add(&news->untold, event);
    int64_t wait = time_to_wait(news);
    if (wait == 0)
        told = take_untold(news, users);
    mutex_unlock(&news->lock);
    if (wait == 0)
        tell(news, &told);
    else
        clerk_ask(news->clerk, CHORE_NEWS, clock_ms() + wait);
}

void news_came(struct news *news, const char *name, const struct group_member *member)
{
    struct news_count event = {.came = 1, .member = member};
    snprintf(event.name, sizeof(event.name), "%s", name);
    happen(news, &event);
}

void news_left(struct news *news, const char *name)
{
    struct news_count event = {.left = 1};
    snprintf(event.name, sizeof(event.name), "%s", name);
    happen(news, &event);
}
