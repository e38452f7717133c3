#include "common/apps/strand_group.h"

#include "common/server/input_handler_calls.h"
#include "common/server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether a message is answered: the strand's, for each member. */
enum {
    ANSWERED,
    SPEAKS, /* `said` has not returned */
    WAITS,
    OVER, /* it is no member */
};

static struct strand_member *member_of(struct input_handler *handler)
{
    return container_of(handler, struct strand_member, handler);
}

static void leave(struct channel_post *post, struct channel_facade *facade);

/* Whether strand_member_started() was called: else it may be a client of another kind. */
static bool is_member(const struct strand_member *member)
{
    return member->leaving.run == leave;
}

/* ---- In the strand ------------------------------------------------------------------------- */

static void join(struct channel_post *post, struct channel_facade *facade)
{
    struct strand_member *member = container_of(post, struct strand_member, joining);
    struct strand_group *group = member->group;
    (void)facade;
    list_append(&group->members, &member->link);
    group->count++;
    if (group->verbs->joined != NULL)
        group->verbs->joined(group, member);
}

static void say(struct strand_member *member)
{
    struct strand_group *group = member->group;
    member->answer = SPEAKS;
    member->is_gone = false;
    if (group->verbs->said == NULL || group->verbs->said(group, member, member->message))
        member->answer = ANSWERED;
    if (member->answer == SPEAKS)
        member->answer = WAITS;
}

static void hear_message(struct channel_post *post, struct channel_facade *facade)
{
    struct strand_member *member = container_of(post, struct strand_member, saying);
    (void)facade;
    say(member);
    free(member->copy);
    member->copy = NULL;
    if (member->answer == ANSWERED)
        channel_go_on(member->facade, &member->hold);
}

/* It may have been answered meanwhile; and the next one may wait already, which nobody reads. */
static void hear_gone(struct channel_post *post, struct channel_facade *facade)
{
    struct strand_member *member = container_of(post, struct strand_member, going);
    struct strand_group *group = member->group;
    (void)facade;
    if (member->answer != WAITS || member->is_gone)
        return;
    member->is_gone = true;
    if (group->verbs->gone != NULL)
        group->verbs->gone(group, member);
    else
        channel_close(member->facade);
}

static void leave(struct channel_post *post, struct channel_facade *facade)
{
    struct strand_member *member = container_of(post, struct strand_member, leaving);
    struct strand_group *group = member->group;
    (void)facade;
    list_remove(&member->link);
    group->count--;
    member->answer = OVER;
    if (group->verbs->left != NULL)
        group->verbs->left(group, member);
    channel_release(member->facade);
}

struct strand_member *strand_group_next(struct strand_group *group, struct strand_member *member)
{
    struct list_link *next = member->link.next;
    return next != &group->members ? container_of(next, struct strand_member, link) : NULL;
}

struct strand_member *strand_group_first(struct strand_group *group)
{
    return list_is_empty(&group->members)
               ? NULL
               : container_of(group->members.next, struct strand_member, link);
}

void strand_group_send(struct strand_group *group, const struct strand_member *except,
                       struct piece piece)
{
    for (struct strand_member *member = strand_group_first(group); member != NULL;
         member = strand_group_next(group, member)) {
        if (member != except)
            channel_enqueue(member->facade, piece);
    }
}

void strand_member_go_on(struct strand_member *member)
{
    bool waits = member->answer == WAITS;
    if (waits || member->answer == SPEAKS)
        member->answer = ANSWERED;
    if (waits)
        channel_go_on(member->facade, &member->hold);
}

/* ---- In the connection --------------------------------------------------------------------- */

/* If somebody is inside, that thread does it. */
static void do_or_post(struct strand_member *member, struct channel_post *post) NO_LOCK_HELD
{
    struct strand *strand = member->group->runs_in;
    if (!strand_enter(strand)) {
        channel_post(strand_facade(strand), post);
        return;
    }
    post->run(post, strand_facade(strand));
    strand_leave(strand);
}

__attribute__((noreturn)) static void refuse(const char *words)
{
    fprintf(stderr, "%s\n", words);
    abort();
}

/* Of an application's clients this is filled in; of other connections it is the author's alone. */
static bool can_leave(const struct input_handler *handler)
{
    const unsigned both = TRAIT_HEARS_LEFT | TRAIT_HEARS_STOPPING;
    return (input_handler_traits(handler) & both) == both;
}

void strand_member_started(struct input_handler *self, struct channel_facade *facade)
{
    struct strand_member *member = member_of(self);
    if (!can_leave(self))
        refuse("strand_member_started(): expected left and stopping among the verbs of a member, "
               "got less");
    channel_retain(facade);
    member->facade = facade;
    member->is_leaving = false;
    if (member->group == NULL)
        member->group = application_data(self);
    /* None is dropped: a strand closes after all connections, and until then it runs its posts. */
    member->joining = (struct channel_post){.run = join};
    member->saying = (struct channel_post){.run = hear_message};
    member->going = (struct channel_post){.run = hear_gone};
    member->leaving = (struct channel_post){.run = leave};
    do_or_post(member, &member->joining);
}

/* Somebody may have it go on before it holds: then it does not hold. */
bool strand_member_handle_input(struct input_handler *self, struct message message,
                                struct channel_facade *facade)
{
    struct strand_member *member = member_of(self);
    if (!is_member(member))
        refuse("strand_member_handle_input(): expected a member, got a connection whose `started` "
               "has not called strand_member_started()");
    struct strand *strand = member->group->runs_in;
    bool waits = true;
    member->message = message;
    if (strand_enter(strand)) {
        say(member);
        waits = member->answer == WAITS;
        strand_leave(strand);
    } else {
        member->copy = malloc(message.length + 1);
        if (member->copy == NULL)
            return false;
        memcpy(member->copy, message.data, message.length);
        member->message.data = member->copy;
        channel_post(strand_facade(strand), &member->saying);
    }
    if (waits)
        channel_hold(facade, &member->hold);
    return true;
}

void strand_member_left(struct input_handler *self, struct channel_facade *facade)
{
    struct strand_member *member = member_of(self);
    if (is_member(member))
        do_or_post(member, &member->going);
    else
        channel_close(facade);
}

void strand_member_stopping(struct input_handler *self, struct channel_facade *facade)
{
    struct strand_member *member = member_of(self);
    (void)facade;
    if (!is_member(member) || member->is_leaving)
        return;
    member->is_leaving = true;
    do_or_post(member, &member->leaving);
}

/* An author's own in the place of the two above, which need not call them: they are called then. */
static void left_behind_own(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    application_of(self)->verbs->left(self, facade);
    if (is_member(member_of(self)))
        strand_member_left(self, facade);
}

static void stopping_behind_own(struct input_handler *self,
                                struct channel_facade *facade) NO_LOCK_HELD
{
    application_of(self)->verbs->stopping(self, facade);
    strand_member_stopping(self, facade);
}

static const char *fault_of(const struct application *application, const void *data)
{
    (void)data;
    if (application->handler_size < sizeof(struct strand_member))
        return "expected the size of a struct that begins with a strand_member as handler_size, "
               "got less";
    if (application->start == NULL)
        return "expected a start that returns its group, got none";
    return NULL;
}

const struct input_handler_verbs strand_member_verbs = {.handle_input = strand_member_handle_input,
                                                        .started = strand_member_started,
                                                        .left = strand_member_left,
                                                        .stopping = strand_member_stopping,
                                                        .fault = fault_of};

/* ---- The group ----------------------------------------------------------------------------- */

/* Whether an author has made a table of verbs that has some of the functions above. */
static bool has_members(const struct input_handler_verbs *verbs)
{
    return verbs->handle_input == strand_member_handle_input ||
           verbs->started == strand_member_started || verbs->left == strand_member_left ||
           verbs->stopping == strand_member_stopping;
}

/*
 * What that table leaves out. Functions of the author's may call ours, so a table without any of
 * ours can be that of members as well; and the last two do no harm to a client that is none. A
 * table that says nothing of what clients do leaves that to us. The last two come in any case: an
 * author who forgot them would keep each client's place for good.
 */
static void fill_in(struct input_handler_verbs *verbs)
{
    bool are_members =
        has_members(verbs) || (verbs->handle_input == NULL && verbs->started == NULL);
    if (are_members && verbs->handle_input == NULL)
        verbs->handle_input = strand_member_handle_input;
    if (are_members && verbs->started == NULL)
        verbs->started = strand_member_started;
    if (verbs->left != strand_member_left)
        verbs->left = verbs->left == NULL ? strand_member_left : left_behind_own;
    if (verbs->stopping != strand_member_stopping)
        verbs->stopping = verbs->stopping == NULL ? strand_member_stopping : stopping_behind_own;
}

static void open_in(struct strand_group *group, struct strand *strand,
                    const struct strand_group_verbs *verbs)
{
    group->runs_in = strand;
    group->verbs = verbs;
    group->count = 0;
    list_init(&group->members);
}

bool strand_group_open(struct strand_group *group, struct server *server,
                       const struct strand_group_verbs *verbs)
{
    const struct application *opening = server->opening;
    const char *fault = opening != NULL && opening->verbs != NULL && has_members(opening->verbs)
                            ? fault_of(opening, NULL)
                            : NULL;
    if (fault != NULL) {
        fprintf(stderr, "%s: cannot open %s: %s\n", server->name, opening->name, fault);
        errno = 0;
        return false;
    }
    if (opening != NULL && opening->verbs != NULL &&
        opening->handler_size >= sizeof(struct strand_member))
        fill_in(server->opening_verbs);
    open_in(group, &group->strand, verbs);
    return strand_open(&group->strand, server, &verbs->strand);
}

void strand_group_open_in(struct strand_group *group, struct strand_group *other,
                          const struct strand_group_verbs *verbs)
{
    open_in(group, other->runs_in, verbs);
}
