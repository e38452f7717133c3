/* A chat room: a client's first line is its name, and what it says then goes to all the others. */
#include "common/apps/strand_group.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 17, TEXT_SIZE = 300 };

struct user {
    struct strand_member member; /* first */
    char name[NAME_SIZE];        /* empty: not known yet */
};

static struct strand_group room;

static struct user *first_user(void)
{
    return (struct user *)strand_group_first(&room);
}

static struct user *next_user(struct user *user)
{
    return (struct user *)strand_group_next(&room, &user->member);
}

static void tell_others(const struct user *speaker, const char *text)
{
    for (struct user *user = first_user(); user != NULL; user = next_user(user)) {
        if (user != speaker && user->name[0] != '\0')
            channel_printf(user->member.facade, "%s\n", text);
    }
}

static bool is_free(const char *name)
{
    for (struct user *user = first_user(); user != NULL; user = next_user(user)) {
        if (strcmp(user->name, name) == 0)
            return false;
    }
    return true;
}

static void come_in(struct user *user, const char *name)
{
    char text[TEXT_SIZE];
    if (strlen(name) >= NAME_SIZE || !is_free(name)) {
        channel_printf(user->member.facade, "please choose another name\n");
        return;
    }
    channel_printf(user->member.facade, "here:");
    for (struct user *other = first_user(); other != NULL; other = next_user(other))
        channel_printf(user->member.facade, "%s%s", other->name[0] != '\0' ? " " : "", other->name);
    channel_printf(user->member.facade, "\n");
    snprintf(user->name, sizeof(user->name), "%.*s", NAME_SIZE - 1, name);
    snprintf(text, sizeof(text), "* %s has come", user->name);
    tell_others(user, text);
}

static bool said(struct strand_group *group, struct strand_member *member, struct message line)
{
    struct user *user = (struct user *)member;
    char words[TEXT_SIZE - NAME_SIZE - 3];
    char text[TEXT_SIZE];
    (void)group;
    snprintf(words, sizeof(words), "%.*s", (int)line.length, (const char *)line.data);
    words[strcspn(words, "\r\n")] = '\0';
    snprintf(text, sizeof(text), "[%s] %s", user->name, words);
    if (words[0] == '\0')
        channel_printf(member->facade, "please say something\n");
    else if (user->name[0] == '\0')
        come_in(user, words);
    else
        tell_others(user, text);
    return true;
}

static void left(struct strand_group *group, struct strand_member *member)
{
    struct user *user = (struct user *)member;
    char text[TEXT_SIZE];
    (void)group;
    snprintf(text, sizeof(text), "* %s has gone", user->name);
    if (user->name[0] != '\0')
        tell_others(user, text);
}

static const struct strand_group_verbs verbs = {.said = said, .left = left};

static void *start(struct server *server)
{
    return strand_group_open(&room, server, &verbs) ? &room : NULL;
}

const struct application room_application = {
    .name = "room",
    .needs = OFFERS_STRANDS | OFFERS_OUTPUT_FROM_ELSEWHERE,
    .verbs = &strand_member_verbs,
    .handler_size = sizeof(struct user),
    .start = start,
};
