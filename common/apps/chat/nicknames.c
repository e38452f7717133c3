#include "common/apps/chat/nicknames.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

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

bool nickname_is_same(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}

uint32_t nickname_hash(const char *text)
{
    uint32_t hash = 2166136261U;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)tolower((unsigned char)*text)) * 16777619U;
    return hash;
}

const struct nickname *nicknames_find(const struct nicknames *all, const char *text)
{
    const struct nickname *one = all->lists[nickname_hash(text) % NICKNAME_LISTS];
    while (one != NULL && !nickname_is_same(one->text, text))
        one = one->next;
    return one;
}

bool nicknames_take(struct nicknames *all, struct nickname *own, const char *text)
{
    const struct nickname *other = nicknames_find(all, text);
    if (other != NULL && other != own)
        return false;
    nicknames_give_back(all, own);
    struct nickname **list = &all->lists[nickname_hash(text) % NICKNAME_LISTS];
    snprintf(own->text, sizeof(own->text), "%s", text);
    own->next = *list;
    *list = own;
    return true;
}

void nicknames_make_up(struct nicknames *all, struct nickname *own, const char *behind)
{
    char text[NICKNAME_TEXT_SIZE];
    do
        snprintf(text, sizeof(text), "user%lu%s", ++all->next_number, behind);
    while (!nicknames_take(all, own, text));
}

void nicknames_give_back(struct nicknames *all, struct nickname *own)
{
    struct nickname **place = &all->lists[nickname_hash(own->text) % NICKNAME_LISTS];
    if (own->text[0] == '\0')
        return;
    while (*place != own)
        place = &(*place)->next;
    *place = own->next;
    own->text[0] = '\0';
}
