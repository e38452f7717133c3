/*
 * A hash table of nodes that lie in what is kept: keys, channels, and keys that clients wait for.
 *
 * It never stops to rehash. With each node that is added one slot is split in two (linear hashing),
 * so no request pays for a million keys. The hash is SipHash with a secret of this process: else a
 * client could choose keys that all fall into one slot, and all others would wait with it.
 *
 * Interface: one thread at a time, without a lock. The node is the caller's memory, and so is its
 * key, while the node is in the table.
 */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include "common/bytes/input_queue.h"

struct table_node {
    struct table_node *next; /* in its slot */
    uint64_t hash;
    struct message key;
};

struct table {
    struct table_node **slots;
    size_t size; /* slots in use */
    size_t
        half; /* a power of two, at most size; if it is less, there is memory for twice as many */
    size_t count;
    uint64_t secret[2];
};

/** An empty table. False without memory. */
bool table_open(struct table *table);

/** Frees the slots; no node is in it any more. */
void table_close(struct table *table);

/** NULL: there is no node with that key. */
struct table_node *table_find(const struct table *table, struct message key);

/** Adds a node, whose key is in no other one. It needs no memory that it could not do without. */
void table_add(struct table *table, struct table_node *node);

void table_remove(struct table *table, struct table_node *node);

#endif
