/*
 * Protohackers' problem 3, Budget Chat: who connects says a name, hears who is there, and from then
 * on all say to all others what they say.
 */
#include "common/apps/strand_group.h"

#include <ctype.h>
#include <string.h>

enum { NAME_MAX_LENGTH = 32 };

struct user {
    struct strand_member member;    /* first */
    char name[NAME_MAX_LENGTH + 1]; /* empty: not known yet */
};

static struct strand_group room;

static struct user *next_user(struct user *user)
{
    struct strand_member *next =
        user != NULL ? strand_group_next(&room, &user->member) : strand_group_first(&room);
    return (struct user *)next;
}

/* Who has no name yet hears nothing. */
static void tell_others(const struct user *speaker, const char *before, const char *behind,
                        struct message text)
{
    for (struct user *user = next_user(NULL); user != NULL; user = next_user(user)) {
        if (user != speaker && user->name[0] != '\0')
            channel_printf(user->member.facade, "%s%s%s%.*s\n", before, speaker->name, behind,
                           (int)text.length, (const char *)text.data);
    }
}

static bool is_name(struct message text)
{
    for (size_t i = 0; i < text.length; i++) {
        if (!isalnum(text.data[i]))
            return false;
    }
    return text.length > 0 && text.length <= NAME_MAX_LENGTH;
}

static void come_in(struct user *user, struct message name)
{
    const char *between = "";
    if (!is_name(name)) {
        channel_printf(user->member.facade, "a name has letters and digits, at most %d of them\n",
                       NAME_MAX_LENGTH);
        channel_close(user->member.facade);
        return;
    }
    channel_printf(user->member.facade, "* The room contains: ");
    for (struct user *other = next_user(NULL); other != NULL; other = next_user(other)) {
        if (other->name[0] != '\0') {
            channel_printf(user->member.facade, "%s%s", between, other->name);
            between = ", ";
        }
    }
    channel_printf(user->member.facade, "\n");
    memcpy(user->name, name.data, name.length);
    tell_others(user, "* ", " has entered the room", (struct message){0});
}

static void joined(struct strand_group *group, struct strand_member *member)
{
    (void)group;
    channel_printf(member->facade, "Welcome to budgetchat! What shall I call you?\n");
}

static bool said(struct strand_group *group, struct strand_member *member, struct message line)
{
    struct user *user = (struct user *)member;
    (void)group;
    while (line.length > 0 && strchr("\r\n", line.data[line.length - 1]) != NULL)
        line.length--;
    if (user->name[0] != '\0')
        tell_others(user, "[", "] ", line);
    else
        come_in(user, line);
    return true;
}

static void left(struct strand_group *group, struct strand_member *member)
{
    struct user *user = (struct user *)member;
    (void)group;
    if (user->name[0] != '\0')
        tell_others(user, "* ", " has left the room", (struct message){0});
}

static const struct strand_group_verbs verbs = {.joined = joined, .said = said, .left = left};

static void *start(struct server *server)
{
    return strand_group_open(&room, server, &verbs) ? &room : NULL;
}

const struct application budget_application = {
    .name = "budget",
    .needs = OFFERS_STRANDS | OFFERS_OUTPUT_FROM_ELSEWHERE,
    .verbs = &strand_member_verbs,
    .handler_size = sizeof(struct user),
    .start = start,
};
