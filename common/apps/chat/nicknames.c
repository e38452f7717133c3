#include "common/apps/chat/nicknames.h"

#include <stdio.h>
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

/* How many characters the text begins with that a nickname may have. */
static size_t possible_length(const char *text)
{
    size_t length = 0;
    while (is_possible_character(text[length]))
        length++;
    return length;
}

bool nickname_is_possible(const char *text)
{
    size_t length = possible_length(text);
    return length > 0 && length < NICKNAME_SIZE && text[length] == '\0';
}

bool nickname_is_whole(const char *text)
{
    size_t length = possible_length(text);
    if (length == 0 || length >= NICKNAME_SIZE || text[length] != '~')
        return nickname_is_possible(text);
    size_t server = possible_length(text + length + 1);
    return server > 0 && server < SERVER_NAME_SIZE && text[length + 1 + server] == '\0';
}

uint32_t nickname_hash(const char *text)
{
    uint32_t hash = 2166136261U;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return hash;
}

static struct nickname **list_for(struct nicknames *all, const char *text) REQUIRES(&all->lock)
{
    return &all->lists[nickname_hash(text) % NICKNAME_LISTS];
}

static void remove_own(struct nicknames *all, const struct nickname *own) REQUIRES(&all->lock)
{
    struct nickname **place = list_for(all, own->text);
    while (*place != own)
        place = &(*place)->next;
    *place = own->next;
    all->count--;
}

/* NULL: nobody is called so. */
static const struct nickname *find(struct nicknames *all, const char *text) REQUIRES(&all->lock)
{
    const struct nickname *one = *list_for(all, text);
    while (one != NULL && strcmp(one->text, text) != 0)
        one = one->next;
    return one;
}

bool nicknames_have(struct nicknames *all, const char *text)
{
    mutex_lock(&all->lock);
    bool have = find(all, text) != NULL;
    mutex_unlock(&all->lock);
    return have;
}

/* Under the lock; as nicknames_take(). */
static bool take(struct nicknames *all, struct nickname *own, const char *text) REQUIRES(&all->lock)
{
    struct nickname **list = list_for(all, text);
    const struct nickname *other = find(all, text);
    if (other != NULL)
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

void nicknames_make_up(struct nicknames *all, struct nickname *own, const char *behind)
{
    char text[NICKNAME_TEXT_SIZE];
    mutex_lock(&all->lock);
    do
        snprintf(text, sizeof(text), "user%lu%s", ++all->next_number, behind);
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

size_t nicknames_count(struct nicknames *all)
{
    mutex_lock(&all->lock);
    size_t count = all->count;
    mutex_unlock(&all->lock);
    return count;
}

size_t nicknames_copy(struct nicknames *all, char *rows, size_t row_size, size_t count,
                      const char *behind)
{
    size_t copied = 0;
    mutex_lock(&all->lock);
    for (size_t i = 0; i < NICKNAME_LISTS; i++)
        for (const struct nickname *own = all->lists[i]; own != NULL && copied < count;
             own = own->next)
            snprintf(rows + copied++ * row_size, row_size, "%s%s", own->text, behind);
    mutex_unlock(&all->lock);
    return copied;
}
