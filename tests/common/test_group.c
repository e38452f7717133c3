/*
 * Groups: who gets what is sent, whoever comes and goes meanwhile.
 */
#include "common/apps/group.h"

#include "common/base/container_of.h"
#include "common/bytes/shared_message.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

TestSuite(group, .timeout = 120);

enum { MEMBERS = 200 }; /* more than a send looks up at a time */

static struct group group;

/* A connection that counts what it is sent, and may do something about it. */
struct hearer {
    struct channel_facade facade;
    struct group_member member;
    atomic_int references;
    atomic_int got;
    void (*hears)(struct hearer *hearer);
};

static struct hearer hearers[MEMBERS];
static struct hearer late;

static struct hearer *hearer_of(struct channel_facade *facade)
{
    return container_of(facade, struct hearer, facade);
}

static enum output_result enqueue(struct channel_facade *facade, struct piece piece)
{
    struct hearer *hearer = hearer_of(facade);
    cr_assert_eq(piece.verbs, &shared_message_verbs);
    cr_assert_gt(atomic_load(&hearer->references), 0, "sent to a facade that nobody holds");
    atomic_fetch_add(&hearer->got, 1);
    if (hearer->hears != NULL) {
        hearer->hears(hearer);
    }
    return OUTPUT_FLOWING;
}

static void retain(struct channel_facade *facade)
{
    atomic_fetch_add(&hearer_of(facade)->references, 1);
}

static void release(struct channel_facade *facade)
{
    atomic_fetch_sub(&hearer_of(facade)->references, 1);
}

static const struct channel_facade_verbs verbs = {
    .enqueue = enqueue,
    .retain = retain,
    .release = release,
};

static void join(struct hearer *hearer)
{
    if (hearer->facade.verbs == NULL) {
        hearer->facade.verbs = &verbs;
    }
    group_join(&group, &hearer->member, &hearer->facade);
}

static void leave(struct hearer *hearer)
{
    group_leave(&group, &hearer->member);
}

static void begin(void)
{
    group_init(&group);
    memset(hearers, 0, sizeof hearers);
    for (int i = 0; i < MEMBERS; i++) {
        join(&hearers[i]);
    }
}

static void end(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        leave(&hearers[i]);
        cr_assert_eq(hearers[i].references, 0, "%d references to member %d are left",
                     hearers[i].references, i);
    }
    cr_expect_eq(group_count(&group), 0);
    group_destroy(&group);
}

static void send_but(const struct hearer *except)
{
    struct shared_message *message = shared_message_create(1);
    message->data[0] = 'x';
    group_send(&group, except != NULL ? &except->member : NULL, piece_shared(message));
    cr_expect_eq(atomic_load(&message->references), 1);
    shared_message_release(message);
}

Test(group, all_but_one_get_it, .init = begin, .fini = end)
{
    send_but(&hearers[70]);
    for (int i = 0; i < MEMBERS; i++) {
        cr_assert_eq(hearers[i].got, i != 70, "member %d got %d", i, hearers[i].got);
    }
    send_but(NULL);
    cr_assert_eq(hearers[70].got, 1);
    cr_assert_eq(group_count(&group), MEMBERS);
}

Test(group, nobody_is_there)
{
    group_init(&group);
    send_but(NULL);
    join(&hearers[0]);
    send_but(&hearers[0]);
    cr_assert_eq(hearers[0].got, 0);
    leave(&hearers[0]);
    leave(&hearers[0]); /* once more does nothing */
    cr_assert_eq(hearers[0].references, 0);
    cr_assert_eq(group_count(&group), 0);
    group_destroy(&group);
}

Test(group, one_that_has_left_may_join_again, .init = begin, .fini = end)
{
    leave(&hearers[3]);
    send_but(NULL);
    cr_assert_eq(hearers[3].got, 0);
    join(&hearers[3]);
    send_but(NULL);
    cr_assert_eq(hearers[3].got, 1);
}

/* ---- While somebody sends ---- */

static void leaves(struct hearer *hearer)
{
    leave(hearer);
}

Test(group, members_may_leave_as_they_hear_it, .init = begin, .fini = end)
{
    for (int i = 0; i < MEMBERS; i++) {
        hearers[i].hears = leaves;
    }
    send_but(NULL);
    for (int i = 0; i < MEMBERS; i++) {
        cr_assert_eq(hearers[i].got, 1, "member %d got %d", i, hearers[i].got);
    }
    cr_assert_eq(group_count(&group), 0);
}

static void all_leave(struct hearer *hearer)
{
    (void)hearer;
    for (int i = 0; i < MEMBERS; i++) {
        leave(&hearers[i]);
    }
}

/* Those that were looked up still get it, and not one of the others. */
Test(group, all_may_leave_while_the_first_one_hears_it, .init = begin, .fini = end)
{
    int got = 0;
    hearers[MEMBERS - 1].hears = all_leave;
    send_but(NULL);
    for (int i = 0; i < MEMBERS; i++) {
        got += hearers[i].got;
    }
    cr_assert_gt(got, 0);
    cr_assert_lt(got, MEMBERS);
    send_but(NULL);
    for (int i = 0; i < MEMBERS; i++) {
        got -= hearers[i].got;
    }
    cr_assert_eq(got, 0, "one that has left was sent something");
}

static void one_comes(struct hearer *hearer)
{
    hearer->hears = NULL;
    join(&late);
}

Test(group, one_that_joins_meanwhile_does_not_get_it, .init = begin, .fini = end)
{
    memset(&late, 0, sizeof late);
    hearers[MEMBERS / 2].hears = one_comes;
    send_but(NULL);
    cr_assert_eq(late.got, 0);
    send_but(NULL);
    cr_assert_eq(late.got, 1);
    leave(&late);
    cr_assert_eq(late.references, 0);
}

static void says_more(struct hearer *hearer)
{
    hearer->hears = NULL;
    send_but(hearer);
}

/* Two places in the list, and neither send takes the other one's for a member. */
Test(group, a_member_may_send_while_it_is_sent_to, .init = begin, .fini = end)
{
    hearers[MEMBERS / 2].hears = says_more;
    send_but(NULL);
    for (int i = 0; i < MEMBERS; i++) {
        cr_assert_eq(hearers[i].got, i == MEMBERS / 2 ? 1 : 2, "member %d got %d", i,
                     hearers[i].got);
    }
}

/* ---- Threads ---- */

enum { SENDERS = 3, SENDS = 300 };

static void *sends(void *unused)
{
    for (int i = 0; i < SENDS; i++) {
        send_but(NULL);
    }
    return unused;
}

/* Those that stay get all; half of the others come and go. */
Test(group, many_send_while_others_come_and_go, .init = begin, .fini = end)
{
    pthread_t threads[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, sends, NULL), 0);
    }
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < MEMBERS; i += 2) {
            leave(&hearers[i]);
        }
        for (int i = 0; i < MEMBERS; i += 2) {
            join(&hearers[i]);
        }
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 1; i < MEMBERS; i += 2) {
        cr_assert_eq(hearers[i].got, SENDERS * SENDS, "member %d got %d", i, hearers[i].got);
    }
}

Test(group, the_first_one_is_the_one_that_joined_first, .init = begin, .fini = end)
{
    struct group_member *member;
    struct channel_facade *first = group_first(&group, &member);
    cr_assert_eq(first, &hearers[0].facade);
    cr_assert_eq(hearers[0].references, 2);
    channel_release(first);
    leave(&hearers[0]);
    first = group_first(&group, &member);
    cr_assert_eq(first, &hearers[1].facade);
    channel_release(first);
}
