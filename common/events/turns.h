/*
 * Those that have more to do, and wait for no event: each gets a turn when the others have had
 * theirs. It is a list of keys. No event comes for such a key, so its attachment is free and links
 * to the next key.
 *
 * Interface: the selecting thread alone, without a lock. A key in the list stays registered, and
 * its owner leaves alone what is attached to it, and its interest.
 */
#ifndef COMMON_TURNS_H
#define COMMON_TURNS_H

#include "common/events/selector.h"

/** All zero: there is none. */
struct turns {
    struct selection_key *first;
    struct selection_key *last;
};

/** Puts a key that is in no list at the end, and takes its interest away. */
static inline void turns_append(struct turns *turns, struct selection_key *key)
{
    selector_interest(key, SELECT_NOTHING);
    key->attachment = NULL;
    if (turns->first == NULL)
        turns->first = key;
    else
        turns->last->attachment = key;
    turns->last = key;
}

/** Takes the first key out; its owner attaches something else. NULL: there is none. */
static inline struct selection_key *turns_take_first(struct turns *turns)
{
    struct selection_key *key = turns->first;
    if (key != NULL)
        turns->first = key->attachment;
    return key;
}

#endif
