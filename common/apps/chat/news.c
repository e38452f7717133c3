#include "common/apps/chat/news.h"

#include "common/base/clock.h"

#include <stdio.h>

enum {
    LINE_SIZE = 192,
};

/* ---- The budget ---------------------------------------------------------------------------- */

/* The budget grows with time, up to what it saves. */
static void count_budget(struct news *news)
{
    int64_t now = clock_ms();
    int64_t grown = news->budget + (now - news->counted) * NEWS_RATE / 1000;
    news->budget = grown < NEWS_SAVED ? grown : NEWS_SAVED;
    news->counted = now;
}

/* How long until the budget allows a line; ms. */
static int64_t time_to_wait(struct news *news)
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

/*
 * Pays for a line about what was only counted. A user does not read about himself, unless he is one
 * of many in one line.
 */
static void tell_untold(struct news *news)
{
    char line[LINE_SIZE];
    struct news_count untold = news->untold;
    bool is_one = count_of(&untold) == 1;
    size_t length = is_one ? compose_one(&untold, line) : compose_many(&untold, line);
    news->untold = (struct news_count){0};
    news->budget -= (int64_t)news->users->count;
    strand_group_send(news->users, is_one ? untold.member : NULL, piece_bytes(line, length));
}

static void timer_fires(struct channel_timer *timer, struct channel_facade *facade)
{
    struct news *news = container_of(timer, struct news, timer);
    (void)facade;
    if (count_of(&news->untold) > 0)
        tell_untold(news);
}

/* ---- What happens -------------------------------------------------------------------------- */

void news_init(struct news *news, struct strand_group *users)
{
    *news = (struct news){.users = users,
                          .budget = NEWS_SAVED,
                          .counted = clock_ms(),
                          .timer = {.fired = timer_fires}};
}

/* Tells it now, with what else is untold, or as soon as the budget allows it. */
static void happen(struct news *news, const struct news_count *event, const char *name,
                   const char *new_name)
{
    struct news_count *untold = &news->untold;
    untold->came += event->came;
    untold->left += event->left;
    untold->renamed += event->renamed;
    untold->member = event->member;
    snprintf(untold->name, sizeof(untold->name), "%s", name);
    snprintf(untold->new_name, sizeof(untold->new_name), "%s", new_name);
    int64_t wait = time_to_wait(news);
    if (wait == 0)
        tell_untold(news);
    else
        channel_set_timer(strand_facade(&news->users->strand), &news->timer, wait);
}

void news_came(struct news *news, const char *name, const struct strand_member *member)
{
    happen(news, &(struct news_count){.came = 1, .member = member}, name, "");
}

void news_left(struct news *news, const char *name)
{
    happen(news, &(struct news_count){.left = 1}, name, "");
}

void news_renamed(struct news *news, const char *name, const char *new_name,
                  const struct strand_member *member)
{
    happen(news, &(struct news_count){.renamed = 1, .member = member}, name, new_name);
}
