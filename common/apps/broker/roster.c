#include "common/apps/broker/roster.h"

#include "common/base/container_of.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forget(void *self, const char *name)
{
    (void)self;
    (void)name;
}

void roster_destroy(struct roster *roster)
{
    while (roster->servers != NULL)
        roster_remove(roster, roster->servers, forget, NULL);
}

/* ---- Servers -------------------------------------------------------------------------------- */

struct roster_server *roster_find(struct roster *roster, uint64_t incarnation)
{
    struct roster_server *server = roster->servers;
    while (server != NULL && server->incarnation != incarnation)
        server = server->next;
    return server;
}

/* The one that has been gone for longest makes room for another. False: none is. */
static bool make_room(struct roster *roster)
{
    struct roster_server *oldest = NULL;
    for (struct roster_server *one = roster->servers; one != NULL; one = one->next)
        if (one->is_gone && (oldest == NULL || one->heard < oldest->heard))
            oldest = one;
    if (oldest != NULL)
        roster_remove(roster, oldest, forget, NULL);
    return oldest != NULL;
}

struct roster_server *roster_add(struct roster *roster, const char *name, uint64_t incarnation)
{
    bool has_room = roster->server_count < ROSTER_SERVERS_MAX || make_room(roster);
    struct roster_server *server = has_room ? calloc(1, sizeof(*server)) : NULL;
    if (server == NULL)
        return NULL;
    snprintf(server->name, sizeof(server->name), "%s", name);
    server->incarnation = incarnation;
    list_init(&server->users);
    server->next = roster->servers;
    roster->servers = server;
    roster->server_count++;
    return server;
}

void roster_silence(struct roster *roster, struct roster_server *server, roster_function *left,
                    void *self)
{
    server->round++;
    roster_sweep(roster, server, left, self);
    server->is_gone = true;
    server->is_known = false;
    server->asked = 0;
}

void roster_remove(struct roster *roster, struct roster_server *server, roster_function *left,
                   void *self)
{
    struct roster_server **place = &roster->servers;
    roster_silence(roster, server, left, self);
    while (*place != server)
        place = &(*place)->next;
    *place = server->next;
    roster->server_count--;
    free(server);
}

/* ---- Users ---------------------------------------------------------------------------------- */

static struct roster_user **place_of(struct roster *roster, const struct roster_server *server,
                                     const char *name)
{
    struct roster_user **place = &roster->lists[nickname_hash(name) % ROSTER_LISTS];
    while (*place != NULL && ((*place)->server != server || strcmp((*place)->name, name) != 0))
        place = &(*place)->next;
    return place;
}

static void remove_user(struct roster *roster, struct roster_user *user)
{
    *user->place = user->next;
    if (user->next != NULL)
        user->next->place = user->place;
    list_remove(&user->beside);
    roster->user_count--;
    free(user);
}

bool roster_user_came(struct roster *roster, struct roster_server *server, const char *name)
{
    struct roster_user **place = place_of(roster, server, name);
    size_t size = strlen(name) + 1;
    if (*place != NULL) {
        (*place)->round = server->round;
        return false;
    }
    struct roster_user *user =
        roster->user_count < ROSTER_USERS_MAX ? malloc(sizeof(*user) + size) : NULL;
    if (user == NULL)
        return false;
    *user = (struct roster_user){.place = place, .server = server, .round = server->round};
    memcpy(user->name, name, size);
    list_insert_behind(&server->users, &user->beside);
    *place = user;
    roster->user_count++;
    return true;
}

bool roster_user_left(struct roster *roster, struct roster_server *server, const char *name)
{
    struct roster_user **place = place_of(roster, server, name);
    bool was_there = *place != NULL;
    if (was_there)
        remove_user(roster, *place);
    return was_there;
}

void roster_sweep(struct roster *roster, struct roster_server *server, roster_function *left,
                  void *self)
{
    struct list_link *link = server->users.next;
    while (link != &server->users) {
        struct roster_user *user = container_of(link, struct roster_user, beside);
        link = link->next;
        if (user->round == server->round)
            continue;
        left(self, user->name);
        remove_user(roster, user);
    }
}

size_t roster_copy(const struct roster *roster, char (*rows)[CHAT_ROW_SIZE], size_t count)
{
    size_t copied = 0;
    for (size_t i = 0; i < ROSTER_LISTS; i++)
        for (const struct roster_user *user = roster->lists[i]; user != NULL && copied < count;
             user = user->next)
            snprintf(rows[copied++], CHAT_ROW_SIZE, "%s on %s", user->name, user->server->name);
    return copied;
}
