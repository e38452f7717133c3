#include "common/apps/store/store_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { FIRST_SIZE = 64 };

/* ---- SipHash-1-2 (Aumasson and Bernstein), as redis uses it --------------------------------- */

static uint64_t turn(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = turn(v[1], 13) ^ v[0];
    v[3] = turn(v[3], 16) ^ v[2];
    v[0] = turn(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = turn(v[3], 21) ^ v[0];
    v[1] = turn(v[1], 17) ^ v[2];
    v[2] = turn(v[2], 32);
}

static uint64_t hash_of(const struct table *table, struct message key)
{
    uint64_t v[4] = {table->secret[0] ^ 0x736f6d6570736575, table->secret[1] ^ 0x646f72616e646f6d,
                     table->secret[0] ^ 0x6c7967656e657261, table->secret[1] ^ 0x7465646279746573};
    uint64_t word;
    size_t at = 0;
    for (; key.length - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, key.data + at, sizeof(word));
        v[3] ^= word;
        mix(v);
        v[0] ^= word;
    }
    word = 0;
    if (key.length > at)
        memcpy(&word, key.data + at, key.length - at);
    word |= (uint64_t)key.length << 56;
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    mix(v);
    mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- Slots --------------------------------------------------------------------------------- */

/* Slots from `size` to twice `half` are not there yet: theirs are in the lower half. */
static struct table_node **slot_of(const struct table *table, uint64_t hash)
{
    size_t slot = (size_t)hash & (2 * table->half - 1);
    return &table->slots[slot < table->size ? slot : slot - table->half];
}

bool table_open(struct table *table)
{
    struct table_node **slots = calloc(FIRST_SIZE, sizeof(struct table_node *));
    *table = (struct table){.slots = slots, .size = FIRST_SIZE, .half = FIRST_SIZE};
    if (slots != NULL &&
        getrandom(table->secret, sizeof(table->secret), 0) == (ssize_t)sizeof(table->secret))
        return true;
    table_close(table);
    return false;
}

void table_close(struct table *table)
{
    free(table->slots);
    *table = (struct table){0};
}

struct table_node *table_find(const struct table *table, struct message key)
{
    uint64_t hash = hash_of(table, key);
    struct table_node *node = *slot_of(table, hash);
    while (node != NULL && (node->hash != hash || node->key.length != key.length ||
                            memcmp(node->key.data, key.data, key.length) != 0))
        node = node->next;
    return node;
}

/* One slot more, with those that belong there. Without memory for it, chains get longer. */
static void split(struct table *table)
{
    if (table->size == table->half) {
        struct table_node **slots =
            realloc(table->slots, 2 * table->half * sizeof(struct table_node *));
        if (slots == NULL)
            return;
        table->slots = slots;
    }
    struct table_node **from = &table->slots[table->size - table->half];
    struct table_node **to = &table->slots[table->size++];
    *to = NULL;
    while (*from != NULL) {
        struct table_node *node = *from;
        if (slot_of(table, node->hash) != to) {
            from = &node->next;
            continue;
        }
        *from = node->next;
        node->next = *to;
        *to = node;
    }
    if (table->size == 2 * table->half)
        table->half *= 2;
}

void table_add(struct table *table, struct table_node *node)
{
    if (table->count >= table->size)
        split(table);
    node->hash = hash_of(table, node->key);
    struct table_node **slot = slot_of(table, node->hash);
    node->next = *slot;
    *slot = node;
    table->count++;
}

void table_remove(struct table *table, struct table_node *node)
{
    struct table_node **at = slot_of(table, node->hash);
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    table->count--;
}
