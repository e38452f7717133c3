/*
 * The news of a chat: which users come and leave, and who is called what.
 *
 * As long as these are few, all users read a line about each of them, at once. But if a thousand
 * users come at the same moment, perhaps after a restart, that would be half a million lines, which
 * no one would read and which the server would send for a minute; and a million more when each of
 * them says his name. So there is a budget of lines per second, in which a line counts once for
 * each user that it is sent to. When the budget is used up, arrivals, departures and new names are
 * only counted, and reported in one line, `* 950 people came and 900 took another name`, as soon as
 * the budget allows it. /who lists the names.
 *
 * Interface:
 * - The strand's own calls only.
 */
#ifndef CHAT_NEWS_H
#define CHAT_NEWS_H

#include "common/apps/strand_group.h"
#include "common/server/channel_calls.h"

enum {
    /** Lines that the budget grows by in a second: four for each of a thousand users. */
    NEWS_RATE = 4096,

    /** Lines that it saves up at most. */
    NEWS_SAVED = 16384,

    /** The longest name, with the closing zero. */
    NEWS_NAME_SIZE = 52,
};

/** A number of people, for one line. */
struct news_count {
    size_t came;
    size_t left;
    size_t renamed;
    char name[NEWS_NAME_SIZE];          /* of the only one */
    char new_name[NEWS_NAME_SIZE];      /* if he has another one now */
    const struct strand_member *member; /* the only one; only compared */
};

struct news {
    struct strand_group *users;
    int64_t budget;  /* lines; less than none: a line has cost more than was left */
    int64_t counted; /* when the budget was last counted; ms of clock_ms() */
    struct news_count untold;
    struct channel_timer timer; /* when the untold can be told */
};

void news_init(struct news *news, struct strand_group *users);

/** A user has joined the group. All others read it; NULL: he is not of the group. */
void news_came(struct news *news, const char *name,
               const struct strand_member *member) NO_LOCK_HELD;

/** A user has left the group. */
void news_left(struct news *news, const char *name) NO_LOCK_HELD;

/** A user has another name now. All others read it; NULL: he is not of the group. */
void news_renamed(struct news *news, const char *name, const char *new_name,
                  const struct strand_member *member) NO_LOCK_HELD;

#endif
