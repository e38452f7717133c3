#include "common/apps/chat/news.h"

#include "common/base/clock.h"

#include <stdio.h>

enum {
    LINE_SIZE = 192,
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

static size_t count_of(const struct news_count *count)
{
    return count->came + count->left + count->renamed;
}

static size_t compose_one(const struct news_count *one, char line[LINE_SIZE])
{
    if (one->renamed == 1)
        return (size_t)snprintf(line, LINE_SIZE, "* %s is now %s\n", one->name, one->new_name);
    return (size_t)snprintf(line, LINE_SIZE, "* %s %s\n", one->name,
                            one->came == 1 ? "is here" : "has left");
}

/* `* 3 people came, 2 left and 1 took another name`, without what nobody did. */
static size_t compose_many(const struct news_count *count, char line[LINE_SIZE])
{
    const struct {
        size_t count;
        const char *did;
    } parts[] = {
        {count->came, "came"}, {count->left, "left"}, {count->renamed, "took another name"}};
    size_t length = (size_t)snprintf(line, LINE_SIZE, "* ");
    size_t rest = count_of(count);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        bool is_first = rest == count_of(count);
        if (parts[i].count == 0)
            continue;
        rest -= parts[i].count;
        length += (size_t)snprintf(line + length, LINE_SIZE - length, "%s%zu%s %s",
                                   is_first    ? ""
                                   : rest == 0 ? " and "
                                               : ", ",
                                   parts[i].count,
                                   !is_first             ? ""
                                   : parts[i].count == 1 ? " person"
                                                         : " people",
                                   parts[i].did);
    }
    return length + (size_t)snprintf(line + length, LINE_SIZE - length, "\n");
}

/* A user does not read about himself, unless he is one of many in one line. */
static void tell(struct news *news, const struct news_count *count) NO_LOCK_HELD
{
    char line[LINE_SIZE];
    bool is_one = count_of(count) == 1;
    if (count_of(count) == 0)
        return; /* another thread has reported it */
    size_t length = is_one ? compose_one(count, line) : compose_many(count, line);
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
    untold->renamed += event->renamed;
    snprintf(untold->name, sizeof(untold->name), "%s", event->name);
    snprintf(untold->new_name, sizeof(untold->new_name), "%s", event->new_name);
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

void news_renamed(struct news *news, const char *name, const char *new_name,
                  const struct group_member *member)
{
    struct news_count event = {.renamed = 1, .member = member};
    snprintf(event.name, sizeof(event.name), "%s", name);
    snprintf(event.new_name, sizeof(event.new_name), "%s", new_name);
    happen(news, &event);
}
