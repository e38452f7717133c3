/*
 * A doubly linked list whose links are part of what it lists, so that nothing is allocated, and
 * nothing fails. It is a ring: the list itself is a link, and an empty one points to itself.
 *
 * Interface: whoever shares a list between threads has a lock for it, and for the links in it.
 */
#ifndef COMMON_LIST_H
#define COMMON_LIST_H

#include <stdbool.h>

struct list_link {
    struct list_link *previous;
    struct list_link *next;
};

/** An empty list; or a link that is in none, and may be removed all the same. */
static inline void list_init(struct list_link *list)
{
    list->previous = list;
    list->next = list;
}

/** Asked of a link that was taken out of its list: true as long as it is in none. */
static inline bool list_is_empty(const struct list_link *list)
{
    return list->next == list;
}

/** Puts a link that is in no list behind another one, or at the front of a list. */
static inline void list_insert_behind(struct list_link *where, struct list_link *link)
{
    link->previous = where;
    link->next = where->next;
    link->next->previous = link;
    where->next = link;
}

/** Puts a link that is in no list at the end of a list. */
static inline void list_append(struct list_link *list, struct list_link *link)
{
    list_insert_behind(list->previous, link);
}

/** Takes a link out of its list. */
static inline void list_remove(struct list_link *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    list_init(link);
}

/** Moves all links of a list to another one, whose content is overwritten. */
static inline void list_move(struct list_link *to, struct list_link *from)
{
    list_insert_behind(from, to);
    list_remove(from);
}

#endif
