#include "common/events/timer_tree.h"

/* Of two trees, the one whose root is earlier gets the other as its first child. */
static struct tree_timer *meld(struct tree_timer *a, struct tree_timer *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    struct tree_timer *parent = a->moment <= b->moment ? a : b;
    struct tree_timer *child = parent == a ? b : a;
    child->next = parent->child;
    child->previous = parent;
    if (parent->child != NULL)
        parent->child->previous = child;
    parent->child = child;
    return parent;
}

/* Takes the first tree out of a row of them. */
static struct tree_timer *take(struct tree_timer **row)
{
    struct tree_timer *tree = *row;
    if (tree != NULL) {
        *row = tree->next;
        tree->next = NULL;
    }
    return tree;
}

/*
 * Makes one tree out of a row: pairs from left to right, then all pairs from right to left. That
 * order is what keeps the tree from becoming a list.
 */
static struct tree_timer *meld_row(struct tree_timer *row)
{
    struct tree_timer *pairs = NULL;
    struct tree_timer *tree = NULL;
    while (row != NULL) {
        struct tree_timer *a = take(&row);
        struct tree_timer *pair = meld(a, take(&row));
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs != NULL)
        tree = meld(take(&pairs), tree);
    if (tree != NULL)
        tree->next = tree->previous = NULL;
    return tree;
}

static void unlink_from_row(struct tree_timer *timer)
{
    if (timer->previous->child == timer)
        timer->previous->child = timer->next;
    else
        timer->previous->next = timer->next;
    if (timer->next != NULL)
        timer->next->previous = timer->previous;
}

void timer_tree_cancel(struct timer_tree *tree, struct tree_timer *timer)
{
    if (!tree_timer_is_set(tree, timer))
        return;
    struct tree_timer *below = meld_row(timer->child);
    if (tree->first == timer) {
        tree->first = below;
    } else {
        unlink_from_row(timer);
        tree->first = meld(tree->first, below);
    }
    timer->child = timer->next = timer->previous = NULL;
}

void timer_tree_set(struct timer_tree *tree, struct tree_timer *timer, int64_t moment)
{
    timer_tree_cancel(tree, timer);
    timer->moment = moment;
    tree->first = meld(tree->first, timer);
}

struct tree_timer *timer_tree_take_due(struct timer_tree *tree, int64_t now)
{
    struct tree_timer *first = tree->first;
    if (first == NULL || first->moment > now)
        return NULL;
    timer_tree_cancel(tree, first);
    return first;
}
