#include "common/apps/chat/nicknames.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void nicknames_init(struct nicknames *all)
{
    *all = (struct nicknames){.lists = {NULL}};
    mutex_init(&all->lock);
}

void nicknames_destroy(struct nicknames *all)
{
    mutex_destroy(&all->lock);
}

static bool is_possible_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

bool nickname_is_possible(const char *text)
{
    size_t length = strlen(text);
    if (length == 0 || length >= NICKNAME_SIZE)
        return false;
    for (; *text != '\0'; text++)
        if (!is_possible_character(*text))
            return false;
    return true;
}

/* FNV-1a. */
static struct nickname **list_for(struct nicknames *all, const char *text) REQUIRES(&all->lock)
{
    uint32_t hash = 2166136261U;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return &all->lists[hash % NICKNAME_LISTS];
}

static void remove_own(struct nicknames *all, const struct nickname *own) REQUIRES(&all->lock)
{
    struct nickname **place = list_for(all, own->text);
    while (*place != own)
        place = &(*place)->next;
    *place = own->next;
    all->count--;
}

/* Under the lock; as nicknames_take(). */
static bool take(struct nicknames *all, struct nickname *own, const char *text) REQUIRES(&all->lock)
{
    struct nickname **list = list_for(all, text);
    for (const struct nickname *other = *list; other != NULL; other = other->next)
        if (strcmp(other->text, text) == 0)
            return other == own;
    if (own->text[0] != '\0')
        remove_own(all, own);
    snprintf(own->text, sizeof(own->text), "%s", text);
    own->next = *list;
    *list = own;
    all->count++;
    return true;
}

bool nicknames_take(struct nicknames *all, struct nickname *own, const char *text)
{
    mutex_lock(&all->lock);
    bool taken = take(all, own, text);
    mutex_unlock(&all->lock);
    return taken;
}

void nicknames_make_up(struct nicknames *all, struct nickname *own)
{
    char text[NICKNAME_SIZE];
    mutex_lock(&all->lock);
    do
        snprintf(text, sizeof(text), "user%lu", ++all->next_number);
    while (!take(all, own, text));
    mutex_unlock(&all->lock);
}

void nicknames_give_back(struct nicknames *all, struct nickname *own)
{
    mutex_lock(&all->lock);
    remove_own(all, own);
    mutex_unlock(&all->lock);
    own->text[0] = '\0';
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

char (*nicknames_copy(struct nicknames *all, size_t *count))[NICKNAME_SIZE]
{
    *count = 0;
    mutex_lock(&all->lock);
    char(*copy)[NICKNAME_SIZE] = malloc((all->count + 1) * sizeof(*copy));
    for (size_t i = 0; copy != NULL && i < NICKNAME_LISTS; i++)
        for (const struct nickname *own = all->lists[i]; own != NULL; own = own->next)
            memcpy(copy[(*count)++], own->text, NICKNAME_SIZE);
    mutex_unlock(&all->lock);
    if (copy != NULL)
        qsort(copy, *count, sizeof(*copy), compare);
    return copy;
}
