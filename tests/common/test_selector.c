/*
 * The selector: one suite that every provider of the platform passes; then what selector.c does
 * with a provider that fails or is slow.
 *
 * The suite's parameter is a place in the list of providers. All instances of a test have the same
 * name, so every message names the provider: use check(), not cr_assert().
 *
 * No pause stands for an event. That select sleeps is seen in selector.sleep, or in a lower bound
 * for the time it took; that it returns at once, in a bound that is far below its own timeout.
 */
#include "common/base/container_of.h"
#include "common/base/rwlock.h"
#include "common/events/selector.h"
#include "common/events/selector_provider.h"
#include "common/server/sockets.h"
#include "helpers.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(selector, .timeout = 120);

enum {
    QUIET_MS = 30,     /* how long a select has to sleep when nothing happens */
    FOREVER_MS = 8000, /* the timeout of a select that has to return long before */
    AT_ONCE_MS = 4000, /* before that */
    THREADS = 8,
};

/* ---- providers ---- */

static struct criterion_test_params all_providers(void)
{
    static int indices[8];
    size_t count = 0;
    while (selector_providers[count] != NULL) {
        indices[count] = (int)count;
        count++;
    }
    return cr_make_param_array(int, indices, count);
}

/* A test of the suite: its body finds `selector` open, on the provider or on one that is above it.
 */
#define SELECTOR_TEST(name) TEST_ON(name, selector_providers[*index])
#define TEST_ON(name, provider)                                                                    \
    static void name(void);                                                                        \
    ParameterizedTestParameters(selector, name)                                                    \
    {                                                                                              \
        return all_providers();                                                                    \
    }                                                                                              \
    ParameterizedTest(const int *index, selector, name)                                            \
    {                                                                                              \
        open_all(provider);                                                                        \
        name();                                                                                    \
        close_all();                                                                               \
    }                                                                                              \
    static void name(void)

#define check(condition) cr_assert((condition), "%s: %s", selector.provider->name, #condition)

/* What each test has. */
static struct selector selector;
static struct selection_key key; /* which is cancelled behind the test */
static int ends[2];              /* a pair of sockets */

static size_t key_count(void)
{
    mutex_lock(&selector.lock);
    size_t count = selector.key_count;
    mutex_unlock(&selector.lock);
    return count;
}

static void open_all(const struct selector_provider *provider)
{
    cr_assert_eq(selector_open(&selector, provider), 0, "%s: %s", provider->name, strerror(errno));
    pair_open(ends);
}

static void close_all(void)
{
    selector_cancel(&key);
    check(key_count() == 0);
    selector_close(&selector);
    pair_close(ends);
}

static void watch_fd(struct selection_key *one, int fd, unsigned interest)
{
    check(selector_register(&selector, one, fd, interest, NULL) == 0);
}

static size_t poll_now(void)
{
    return selector_select(&selector, 0);
}

/* Selects, and expects to be back long before the timeout. */
static size_t select_at_once(void)
{
    double began = test_now();
    size_t count = selector_select(&selector, FOREVER_MS);
    double passed = (test_now() - began) * 1000;
    cr_assert(passed < AT_ONCE_MS, "%s: slept %.0f ms", selector.provider->name, passed);
    return count;
}

/* Selects, and expects nothing to happen. */
static void select_sleeps(void)
{
    double began = test_now();
    size_t count = selector_select(&selector, QUIET_MS);
    double passed = (test_now() - began) * 1000;
    cr_assert(count == 0, "%s: %zu keys", selector.provider->name, count);
    cr_assert(passed >= QUIET_MS - 1, "%s: slept only %.1f ms", selector.provider->name, passed);
}

/* Whether the only selected key is this one, and ready for exactly that. */
static bool selected_only(size_t count, const struct selection_key *one, unsigned ready)
{
    return count == 1 && selector_selected(&selector, 0) == one && one->ready == ready;
}

/* A key that was ready once is not selected again by whatever ends the next select. */
SELECTOR_TEST(erratum_24_the_selected_set_begins_anew_with_each_select)
{
    char byte[2];
    watch_fd(&key, ends[1], SELECT_READ);
    put(ends[0], "x", 1);
    check(selected_only(poll_now(), &key, SELECT_READ));
    check(take_now(ends[1], byte, sizeof(byte)) == 1);
    selector_wakeup(&selector);
    check(select_at_once() == 0);
}

/* ---- registering ---- */

SELECTOR_TEST(a_key_tells_what_it_was_registered_with)
{
    int attachment;
    check(key_count() == 0);
    check(selector_register(&selector, &key, ends[0], SELECT_READ | SELECT_WRITE, &attachment) ==
          0);
    check(key_count() == 1);
    check(key.selector == &selector);
    check(key.attachment == &attachment);
    check(key.fd == ends[0]);
    check(key.interest == (SELECT_READ | SELECT_WRITE));
    selector_cancel(&key);
    check(key_count() == 0);
    check(key.selector == NULL);
}

SELECTOR_TEST(cancelling_what_is_not_registered_does_nothing)
{
    selector_cancel(&key);
    watch_fd(&key, ends[0], SELECT_READ);
    selector_cancel(&key);
    selector_cancel(&key);
    check(key_count() == 0);
}

SELECTOR_TEST(a_registration_that_fails_leaves_nothing)
{
    struct selection_key good;
    struct selection_key bad = {0};
    FILE *regular = tmpfile();
    watch_fd(&good, ends[1], SELECT_READ);
    put(ends[0], "x", 1);
    if (selector_register(&selector, &bad, fileno(regular), SELECT_READ, NULL) != 0) {
        check(key_count() == 1);
        check(bad.selector == NULL);
        check(selected_only(poll_now(), &good, SELECT_READ));
    }
    selector_cancel(&bad);
    selector_cancel(&good);
    fclose(regular);
}

SELECTOR_TEST(opening_and_closing_leaves_no_descriptor_behind)
{
    long before = probe_descriptors(getpid());
    for (int i = 0; i < 50; i++) {
        struct selector another;
        check(selector_open(&another, selector.provider) == 0);
        selector_wakeup(&another);
        selector_close(&another);
    }
    check(probe_descriptors(getpid()) == before);
}

enum { MANY = 3 * SELECTOR_BATCH - 10 };

static struct selection_key many[MANY];
static int fds_of_many[MANY];

/* The first of many keys, each for a copy of a descriptor. */
static void watch_many(int from, int count, int fd)
{
    for (int i = from; i < from + count; i++) {
        fds_of_many[i] = dup(fd);
        check(fds_of_many[i] >= 0);
        watch_fd(&many[i], fds_of_many[i], SELECT_READ);
    }
}

static void cancel_many(int count)
{
    for (int i = 0; i < count; i++) {
        selector_cancel(&many[i]);
        close(fds_of_many[i]);
    }
}

SELECTOR_TEST(the_key_set_grows)
{
    put(ends[0], "x", 1);
    watch_many(0, MANY / 2, ends[0]);
    watch_many(MANY / 2, 1, ends[1]);
    watch_many(MANY / 2 + 1, MANY / 2 - 1, ends[0]);
    check(key_count() == MANY);
    check(selected_only(poll_now(), &many[MANY / 2], SELECT_READ));
    cancel_many(MANY);
}

/* ---- readiness ---- */

SELECTOR_TEST(nothing_is_ready_without_keys)
{
    check(poll_now() == 0);
    select_sleeps();
}

SELECTOR_TEST(interested_in_nothing_hears_of_nothing)
{
    put(ends[0], "x", 1);
    watch_fd(&key, ends[1], SELECT_NOTHING);
    select_sleeps();
    check(selector_interest(&key, SELECT_READ) == 0);
    check(selected_only(poll_now(), &key, SELECT_READ));
}

SELECTOR_TEST(a_new_connection_is_readable)
{
    struct sockaddr_in address;
    int listening = tcp_listen(&address);
    watch_fd(&key, listening, SELECT_READ);
    check(poll_now() == 0);
    int client = tcp_connect(&address);
    check(selected_only(select_at_once(), &key, SELECT_READ));
    selector_cancel(&key);
    close(client);
    close(listening);
}

/* Here the kernel reports the hang-up or the error alone, without saying readable or writable. */
SELECTOR_TEST(a_pipe_without_its_other_end_is_ready_for_what_is_wanted)
{
    struct selection_key reader;
    struct selection_key writer;
    int read_from[2];
    int written_to[2];
    check(pipe2(read_from, O_NONBLOCK) == 0);
    check(pipe2(written_to, O_NONBLOCK) == 0);
    fill_up(written_to[1]);
    watch_fd(&reader, read_from[0], SELECT_READ);
    watch_fd(&writer, written_to[1], SELECT_WRITE);
    check(poll_now() == 0);
    close(read_from[1]);
    check(selected_only(poll_now(), &reader, SELECT_READ));
    selector_cancel(&reader);
    close(written_to[0]);
    check(selected_only(poll_now(), &writer, SELECT_WRITE));
    selector_cancel(&writer);
    close(read_from[0]);
    close(written_to[1]);
}

SELECTOR_TEST(a_reset_is_ready_for_what_is_wanted)
{
    static const unsigned interests[] = {SELECT_READ, SELECT_WRITE, SELECT_READ | SELECT_WRITE};
    for (int i = 0; i < 3; i++) {
        int pair[2];
        tcp_pair_open(pair);
        fill_up(pair[0]);
        watch_fd(&key, pair[0], interests[i]);
        check(poll_now() == 0);
        close_with_reset(pair[1]);
        check(selected_only(select_at_once(), &key, interests[i]));
        selector_cancel(&key);
        close(pair[0]);
    }
}

/* ---- interest ---- */

/* The first unwanted event may end one sleep, and no more than one. */
static void sleeps_after_one_event_at_most(void)
{
    double began = test_now();
    for (int i = 0; i < 3; i++)
        check(selector_select(&selector, QUIET_MS) == 0);
    check((test_now() - began) * 1000 >= 2 * QUIET_MS - 1);
}

/* Nothing is selected any more. One event that nobody wants may still end a select. */
static void is_over(void)
{
    check(poll_now() == 0);
    select_sleeps();
}

SELECTOR_TEST(interest_for_once_ends_when_the_key_is_selected)
{
    watch_fd(&key, ends[1], SELECT_READ | SELECT_ONCE);
    select_sleeps();
    put(ends[0], "x", 1);
    for (int i = 0; i < 3; i++) {
        check(selected_only(select_at_once(), &key, SELECT_READ));
        check(key.interest == SELECT_NOTHING);
        is_over();
        check(selector_interest(&key, SELECT_READ | SELECT_ONCE) == 0);
    }
}

SELECTOR_TEST(interest_for_once_in_nothing_is_none)
{
    put(ends[0], "x", 1);
    watch_fd(&key, ends[1], SELECT_ONCE);
    select_sleeps();
    check(selector_interest(&key, SELECT_ONCE) == 0);
    select_sleeps();
}

SELECTOR_TEST(what_is_ready_and_not_wanted_does_not_make_it_spin)
{
    put(ends[0], "x", 1);
    watch_fd(&key, ends[1], SELECT_READ | SELECT_WRITE);
    check(poll_now() == 1);
    check(selector_interest(&key, SELECT_NOTHING) == 0);
    sleeps_after_one_event_at_most();
    check(selector_interest(&key, SELECT_READ) == 0);
    check(selected_only(poll_now(), &key, SELECT_READ));
}

SELECTOR_TEST(case_27_a_writable_socket_does_not_make_its_reader_spin)
{
    watch_fd(&key, ends[1], SELECT_READ | SELECT_WRITE);
    check(selected_only(poll_now(), &key, SELECT_WRITE));
    check(selector_interest(&key, SELECT_READ) == 0);
    sleeps_after_one_event_at_most();
    put(ends[0], "x", 1);
    check(selected_only(poll_now(), &key, SELECT_READ));
}

/* A descriptor that is hung up is reported by the kernel whatever one wants to hear of. */
SELECTOR_TEST(interest_off_and_a_peer_that_hung_up_do_not_make_it_spin)
{
    int pair[2];
    pair_open(pair);
    watch_fd(&key, pair[1], SELECT_READ);
    close(pair[0]);
    check(selected_only(select_at_once(), &key, SELECT_READ));
    check(selector_interest(&key, SELECT_NOTHING) == 0);
    sleeps_after_one_event_at_most();
    check(selector_interest(&key, SELECT_READ) == 0);
    check(selected_only(poll_now(), &key, SELECT_READ));
    selector_cancel(&key);
    close(pair[1]);
}

/* ---- keys that go away ---- */

/* Two keys with something to read; the one that is selected first is two[first]. */
static struct selection_key two[2];
static int pairs[2][2];
static int first;

static void select_two(void)
{
    for (int i = 0; i < 2; i++) {
        pair_open(pairs[i]);
        put(pairs[i][0], "x", 1);
        watch_fd(&two[i], pairs[i][1], SELECT_READ);
    }
    check(poll_now() == 2);
    first = selector_selected(&selector, 0) == &two[1];
    check(selector_selected(&selector, 1) == &two[!first]);
}

SELECTOR_TEST(erratum_11_a_key_cancelled_after_select_is_not_delivered)
{
    select_two();
    selector_cancel(&two[!first]);
    check(selector_selected(&selector, 0) == &two[first]);
    check(selector_selected(&selector, 1) == NULL);
    check(selected_only(poll_now(), &two[first], SELECT_READ));
    selector_cancel(&two[first]);
    check(selector_selected(&selector, 0) == NULL);
    pair_close(pairs[0]);
    pair_close(pairs[1]);
}

/* The handler of one connection closes another; a new one gets its number before its turn comes. */
SELECTOR_TEST(case_24_a_reused_descriptor_gets_no_stale_event)
{
    struct selection_key fresh;
    select_two();
    int number = pairs[!first][1];
    selector_cancel(&two[!first]);
    pair_close(pairs[!first]);
    int pair[2];
    pair_open(pair);
    int reused = pair[0] == number ? 0 : 1;
    check(pair[reused] == number);
    watch_fd(&fresh, number, SELECT_READ);
    check(selector_selected(&selector, 1) == NULL);
    check(fresh.ready == 0);
    check(selected_only(poll_now(), &two[first], SELECT_READ));
    selector_cancel(&two[first]);
    check(poll_now() == 0);
    put(pair[!reused], "y", 1);
    check(selected_only(poll_now(), &fresh, SELECT_READ));
    selector_cancel(&fresh);
    pair_close(pair);
    pair_close(pairs[first]);
}

/* The same, and even the key's memory is the new one's. */
SELECTOR_TEST(case_24_a_reused_key_gets_no_stale_event)
{
    select_two();
    selector_cancel(&two[!first]);
    watch_fd(&two[!first], ends[0], SELECT_READ);
    check(selector_selected(&selector, 1) == NULL);
    check(selected_only(poll_now(), &two[first], SELECT_READ));
    selector_cancel(&two[!first]);
    check(selector_selected(&selector, 0) == &two[first]);
    selector_cancel(&two[first]);
    pair_close(pairs[0]);
    pair_close(pairs[1]);
}

SELECTOR_TEST(case_25_a_handler_may_cancel_its_own_key)
{
    put(ends[0], "x", 1);
    watch_fd(&key, ends[1], SELECT_READ | SELECT_WRITE);
    check(selected_only(poll_now(), &key, SELECT_READ | SELECT_WRITE));
    selector_cancel(&key);
    check(selector_selected(&selector, 0) == NULL);
    check(poll_now() == 0);
}

SELECTOR_TEST(a_key_cancelled_between_selects_may_have_lived_in_a_batch)
{
    struct selection_key *batch = malloc(sizeof(*batch));
    put(ends[0], "x", 1);
    watch_fd(batch, ends[1], SELECT_READ);
    check(selected_only(poll_now(), batch, SELECT_READ));
    selector_cancel(batch);
    free(batch); /* the next select must not look at it: the sanitizers watch */
    check(poll_now() == 0);
}

/* ---- many ---- */

/* Three batches' worth of ready keys, which nobody deals with: each gets its turn all the same. */
SELECTOR_TEST(more_ready_keys_than_a_batch_get_their_turns)
{
    int turns[MANY] = {0};
    put(ends[0], "x", 1);
    watch_many(0, MANY, ends[1]);
    for (int round = 0; round < 6; round++) {
        size_t count = poll_now();
        check(count <= SELECTOR_BATCH);
        for (size_t i = 0; i < count; i++)
            turns[selector_selected(&selector, i) - many]++;
    }
    for (int i = 0; i < MANY; i++)
        cr_assert(turns[i] >= 1 && turns[i] <= 3, "%s: key %d had %d turns in two rounds",
                  selector.provider->name, i, turns[i]);
    cancel_many(MANY);
}

enum {
    PAIRS = 40,
    STEPS = 20000,
    SEED = 5,
};

/* A pair of sockets, and what is known of the key of one end without asking the selector. */
struct expected_key {
    struct selection_key key;
    int ends[2]; /* the key's, and its peer */
    bool registered;
    bool readable;  /* a byte has come */
    bool full;      /* there is no room to write */
    bool half_over; /* the peer sends no more */
    bool over;      /* the peer is gone */
    unsigned interest;
    unsigned ready; /* in this round; SELECT_NOTHING: not selected, or not any more */
};

static struct expected_key all[PAIRS];
static struct expected_key *found[PAIRS]; /* by the last select, in its order */
static size_t found_count;

static unsigned expected_ready(const struct expected_key *one)
{
    bool reads = one->readable || one->half_over || one->over;
    bool writes = !one->full || one->over;
    unsigned ready =
        (reads ? SELECT_READ : 0) | (writes ? SELECT_WRITE : 0) | (one->over ? SELECT_LOSS : 0);
    return one->registered ? ready & one->interest : SELECT_NOTHING;
}

/* What was found is what is expected, and stays so while keys change. */
static void compare_found(int step)
{
    for (size_t i = 0; i < found_count; i++) {
        struct selection_key *got = selector_selected(&selector, i);
        struct selection_key *wanted = found[i]->ready != SELECT_NOTHING ? &found[i]->key : NULL;
        cr_assert(got == wanted && (got == NULL || got->ready == found[i]->ready),
                  "%s, step %d: key %zu should be ready for %u", selector.provider->name, step, i,
                  found[i]->ready);
    }
}

static void select_all(int step)
{
    size_t wanted = 0;
    size_t registered = 0;
    found_count = poll_now();
    for (int i = 0; i < PAIRS; i++) {
        all[i].ready = expected_ready(&all[i]);
        wanted += all[i].ready != SELECT_NOTHING;
        registered += all[i].registered;
        if (all[i].ready != SELECT_NOTHING && (all[i].interest & SELECT_ONCE) != 0)
            all[i].interest = SELECT_NOTHING;
    }
    check(key_count() == registered);
    cr_assert_eq(found_count, wanted, "%s, step %d: %zu keys selected, not %zu",
                 selector.provider->name, step, found_count, wanted);
    for (size_t i = 0; i < found_count; i++)
        found[i] = container_of(selector_selected(&selector, i), struct expected_key, key);
    compare_found(step);
}

static void drain(int fd)
{
    char dropped[4096];
    while (take_now(fd, dropped, sizeof(dropped)) > 0) {
    }
}

static void change_interest(struct expected_key *one, unsigned interest)
{
    if (one->registered) {
        check(selector_interest(&one->key, interest) == 0);
        one->ready &= interest;
    } else {
        watch_fd(&one->key, one->ends[0], interest);
    }
    one->registered = true;
    one->interest = interest;
}

static void cancel(struct expected_key *one)
{
    selector_cancel(&one->key);
    one->registered = false;
    one->ready = SELECT_NOTHING;
}

static void random_step(struct expected_key *one, struct rng *rng)
{
    switch (rng_below(rng, 12)) {
    default: change_interest(one, (unsigned)rng_below(rng, 16)); break;
    case 6: cancel(one); break;
    case 7:
        if (!one->half_over && !one->over)
            put(one->ends[1], "x", 1);
        one->readable |= !one->half_over;
        break;
    case 8:
        drain(one->ends[0]);
        one->readable = false;
        break;
    case 9:
        one->full = rng_below(rng, 2) == 0;
        if (one->full && !one->over)
            fill_up(one->ends[0]);
        else if (!one->over)
            drain(one->ends[1]);
        break;
    case 10:
        if (!one->over)
            shutdown(one->ends[1], SHUT_WR);
        one->half_over = true;
        break;
    case 11:
        if (one->over) { /* another connection, with the numbers and the key of the old one */
            cancel(one);
            close(one->ends[0]);
            pair_open(one->ends);
            one->readable = one->full = one->half_over = one->over = false;
        } else {
            close(one->ends[1]);
            one->over = true;
        }
    }
}

/* Thousands of changes to keys and their sockets, against what they should come to. */
SELECTOR_TEST(does_what_a_plain_list_does)
{
    struct rng rng = rng_from(SEED);
    for (int i = 0; i < PAIRS; i++)
        pair_open(all[i].ends);
    for (int step = 0; step < STEPS; step++) {
        /* now few, now many of them change */
        random_step(&all[rng_below(&rng, step / 1000 % 2 == 0 ? PAIRS : 4)], &rng);
        compare_found(step);
        if (rng_below(&rng, 6) == 0)
            select_all(step);
    }
    for (int i = 0; i < PAIRS; i++)
        cancel(&all[i]);
}

/* ---- timeouts ---- */

SELECTOR_TEST(sleeps_as_long_as_it_may_and_no_longer)
{
    watch_fd(&key, ends[1], SELECT_READ);
    select_sleeps();
    double began = test_now();
    check(selector_select(&selector, 1) == 0);
    check((test_now() - began) * 1000 < AT_ONCE_MS);
}

SELECTOR_TEST(with_a_timeout_of_zero_does_not_sleep)
{
    watch_fd(&key, ends[1], SELECT_READ);
    double began = test_now();
    for (int i = 0; i < 1000; i++)
        check(poll_now() == 0);
    check((test_now() - began) * 1000 < AT_ONCE_MS);
}

/* ---- wakeups ---- */

SELECTOR_TEST(case_32_a_wakeup_before_the_select_is_not_lost)
{
    selector_wakeup(&selector);
    check(select_at_once() == 0);
    select_sleeps();
}

SELECTOR_TEST(many_wakeups_are_one)
{
    for (int i = 0; i < 1000; i++)
        selector_wakeup(&selector);
    check(atomic_load(&selector.wakeups_asked) == 1000);
    check(atomic_load(&selector.wakeups_written) == 0);
    check(select_at_once() == 0);
    select_sleeps();
}

SELECTOR_TEST(a_wakeup_is_spent_by_a_select_that_does_not_sleep)
{
    selector_wakeup(&selector);
    check(poll_now() == 0);
    select_sleeps();
}

SELECTOR_TEST(a_wakeup_does_not_hide_what_is_ready)
{
    put(ends[0], "x", 1);
    watch_fd(&key, ends[1], SELECT_READ);
    selector_wakeup(&selector);
    check(selected_only(select_at_once(), &key, SELECT_READ));
}

/* Waits until some thread sleeps in select: the selector says so itself, before it does. */
static bool await_sleeper(void)
{
    WAIT_FOR(atomic_load(&selector.sleep) != 0);
    return atomic_load(&selector.sleep) != 0;
}

struct sleeper {
    pthread_t thread;
    size_t count;
    atomic_bool awake;
};

static void *sleep_in_select(void *argument)
{
    struct sleeper *sleeper = argument;
    sleeper->count = selector_select(&selector, -1);
    atomic_store(&sleeper->awake, true);
    return NULL;
}

static void sleeper_start(struct sleeper *sleeper)
{
    *sleeper = (struct sleeper){0};
    check(pthread_create(&sleeper->thread, NULL, sleep_in_select, sleeper) == 0);
    check(await_sleeper());
}

SELECTOR_TEST(a_wakeup_ends_a_sleep)
{
    struct sleeper sleeper;
    sleeper_start(&sleeper);
    selector_wakeup(&selector);
    pthread_join(sleeper.thread, NULL);
    check(sleeper.count == 0);
    check(atomic_load(&selector.wakeups_written) == 1);
    select_sleeps();
}

SELECTOR_TEST(an_event_ends_a_sleep)
{
    struct sleeper sleeper;
    watch_fd(&key, ends[1], SELECT_READ);
    sleeper_start(&sleeper);
    put(ends[0], "x", 1);
    pthread_join(sleeper.thread, NULL);
    check(sleeper.count == 1);
    check(key.ready == SELECT_READ);
}

enum {
    CHANGES = 5000, /* of each thread */
};

static atomic_uint changes;

static void *change_and_wake(void *unused)
{
    for (int i = 0; i < CHANGES; i++) {
        atomic_fetch_add(&changes, 1);
        selector_wakeup(&selector);
    }
    return unused;
}

static void start_wakers(pthread_t threads[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, change_and_wake, NULL), 0);
}

static void join_all(pthread_t threads[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

SELECTOR_TEST(case_31_wakeups_of_many_threads_cost_next_to_nothing_while_nobody_sleeps)
{
    pthread_t threads[THREADS];
    start_wakers(threads);
    join_all(threads);
    check(atomic_load(&selector.wakeups_asked) == THREADS * CHANGES);
    check(atomic_load(&selector.wakeups_written) == 0);
    check(select_at_once() == 0);
    select_sleeps();
}

/* The selecting thread sees the last change, or it would sleep forever. */
SELECTOR_TEST(case_31_no_wakeup_of_many_threads_is_lost)
{
    pthread_t threads[THREADS];
    uint64_t selects = 0;
    start_wakers(threads);
    while (atomic_load(&changes) < THREADS * CHANGES) {
        selector_select(&selector, -1); /* the suite's time limit is the judge */
        selects++;
    }
    join_all(threads);
    check(atomic_load(&selector.wakeups_asked) == THREADS * CHANGES);
    check(atomic_load(&selector.wakeups_written) <= selects);
}

struct ball {
    atomic_int thrown;
    atomic_int caught;
    int rounds;
};

static void *throw_balls(void *argument)
{
    struct ball *ball = argument;
    for (int i = 0; i < ball->rounds; i++) {
        atomic_fetch_add(&ball->thrown, 1);
        selector_wakeup(&selector);
        while (atomic_load(&ball->caught) <= i)
            sched_yield();
    }
    return NULL;
}

/* One wakeup at a time, each as the selecting thread is about to sleep, or does, or not yet. */
SELECTOR_TEST(every_single_wakeup_counts)
{
    struct ball ball = {.rounds = 2000};
    pthread_t thread;
    check(pthread_create(&thread, NULL, throw_balls, &ball) == 0);
    for (int caught = 0; caught < ball.rounds;) {
        selector_select(&selector, -1); /* a lost wakeup is a sleep without end */
        caught = atomic_load(&ball.thrown);
        atomic_store(&ball.caught, caught);
    }
    pthread_join(thread, NULL);
}

/* ---- crankiness ---- */

enum what { REGISTER, CANCEL, INTEREST, REST };

/* Something that another thread does while the selector sleeps, and that has to wait for it. */
struct change {
    enum what what;
    atomic_bool begun;
    atomic_bool done;
};

static void *make_change(void *argument)
{
    struct change *change = argument;
    atomic_store(&change->begun, true);
    switch (change->what) {
    case REGISTER: watch_fd(&key, ends[1], SELECT_READ); break;
    case CANCEL: selector_cancel(&key); break;
    case INTEREST: selector_interest(&key, SELECT_READ); break;
    case REST: selector_interest(&key, SELECT_NOTHING); break; /* no call of the system */
    }
    atomic_store(&change->done, true);
    return NULL;
}

/* Whether it is done, after it was given some time in which it should not be. */
static bool is_done_early(struct change *change)
{
    WAIT_FOR(atomic_load(&change->begun));
    test_pause_ms(QUIET_MS);
    return atomic_load(&change->done);
}

/*
 * The lesson of the guard: a change from another thread waits for as long as the selector sleeps,
 * and a wakeup lets it through.
 */
static void waits_for_wakeup(enum what what)
{
    struct change change = {.what = what};
    struct sleeper sleeper;
    pthread_t thread;
    sleeper_start(&sleeper);
    check(pthread_create(&thread, NULL, make_change, &change) == 0);
    bool early = is_done_early(&change);
    bool awake = atomic_load(&sleeper.awake);
    selector_wakeup(&selector);
    pthread_join(sleeper.thread, NULL);
    pthread_join(thread, NULL);
    cr_assert(!early, "%s: change %d did not wait", selector.provider->name, (int)what);
    check(!awake);
    check(atomic_load(&change.done));
}

SELECTOR_TEST(changes_from_another_thread_wait_while_it_sleeps)
{
    waits_for_wakeup(REGISTER);
    check(key_count() == 1);
    waits_for_wakeup(INTEREST);
    put(ends[0], "x", 1);
    check(selected_only(poll_now(), &key, SELECT_READ));
    take_now(ends[1], &(char){0}, 1);
    waits_for_wakeup(REST);
    waits_for_wakeup(CANCEL);
    check(key_count() == 0);
}

/* A thread that selects and then makes a change of which the kernel need not know. */
static void *select_and_rest(void *argument)
{
    struct change *change = argument;
    poll_now();
    atomic_store(&change->begun, true);
    while (atomic_load(&change->begun))
        test_pause_ms(1); /* until the lock is taken */
    make_change(change);
    return NULL;
}

SELECTOR_TEST(the_selecting_thread_needs_no_lock_for_what_it_does_not_tell_the_kernel)
{
    struct change change = {.what = REST};
    pthread_t thread;
    watch_fd(&key, ends[1], SELECT_READ);
    check(pthread_create(&thread, NULL, select_and_rest, &change) == 0);
    WAIT_FOR(atomic_load(&change.begun));
    mutex_lock(&selector.lock);
    atomic_store(&change.begun, false);
    WAIT_FOR(atomic_load(&change.done));
    bool in_time = atomic_load(&change.done);
    mutex_unlock(&selector.lock);
    pthread_join(thread, NULL);
    check(in_time);
    check(key.interest == SELECT_NOTHING);
}

/* ---- two threads ---- */

/*
 * The guard that later stages use: whoever changes something holds it shared, wakes the selector,
 * then changes; the selecting thread passes through it before it sleeps again.
 */
struct guarded {
    struct rwlock guard;
    atomic_int changers;
};

struct changer {
    struct selection_key key;
    struct guarded *guarded;
    int fd;
    uint64_t seed;
    bool failed;
};

static void guarded_change(struct changer *changer, struct rng *rng)
{
    struct guarded *guarded = changer->guarded;
    rwlock_lock_shared(&guarded->guard);
    selector_wakeup(&selector);
    if (changer->key.selector == NULL)
        changer->failed |= selector_register(&selector, &changer->key, changer->fd,
                                             (unsigned)rng_below(rng, 4), changer) != 0;
    else if (rng_below(rng, 3) == 0)
        selector_cancel(&changer->key);
    else
        changer->failed |= selector_interest(&changer->key, (unsigned)rng_below(rng, 4)) != 0;
    rwlock_unlock_shared(&guarded->guard);
}

static void *change_often(void *argument)
{
    struct changer *changer = argument;
    struct rng rng = rng_from(changer->seed);
    for (int i = 0; i < 300; i++)
        guarded_change(changer, &rng);
    atomic_fetch_sub(&changer->guarded->changers, 1);
    selector_wakeup(&selector);
    return NULL;
}

SELECTOR_TEST(any_thread_may_change_keys)
{
    enum { CHANGERS = 4 };
    struct guarded guarded = {.changers = CHANGERS};
    struct changer changers[CHANGERS];
    pthread_t threads[CHANGERS];
    put(ends[0], "x", 1);
    rwlock_init(&guarded.guard);
    for (unsigned i = 0; i < CHANGERS; i++) {
        changers[i] = (struct changer){.guarded = &guarded, .fd = dup(ends[1]), .seed = 100 + i};
        check(pthread_create(&threads[i], NULL, change_often, &changers[i]) == 0);
    }
    while (atomic_load(&guarded.changers) > 0) {
        size_t count = selector_select(&selector, FOREVER_MS);
        check(count <= CHANGERS);
        rwlock_lock(&guarded.guard);
        rwlock_unlock(&guarded.guard);
    }
    for (unsigned i = 0; i < CHANGERS; i++) {
        pthread_join(threads[i], NULL);
        check(!changers[i].failed);
        selector_cancel(&changers[i].key);
        close(changers[i].fd);
    }
    rwlock_destroy(&guarded.guard);
}

/* ---- signals ---- */

static void do_nothing(int signal_number)
{
    (void)signal_number;
}

struct annoyer {
    pthread_t target;
    atomic_bool done;
};

static void *annoy(void *argument)
{
    struct annoyer *annoyer = argument;
    for (int i = 0; i < 1000; i++)
        pthread_kill(annoyer->target, SIGUSR2);
    atomic_store(&annoyer->done, true);
    selector_wakeup(&selector);
    return NULL;
}

SELECTOR_TEST(case_37_signals_by_the_thousand_select_no_key_and_break_nothing)
{
    struct sigaction action = {.sa_handler = do_nothing};
    struct annoyer annoyer = {.target = pthread_self()};
    pthread_t thread;
    sigaction(SIGUSR2, &action, NULL);
    watch_fd(&key, ends[1], SELECT_READ);
    check(pthread_create(&thread, NULL, annoy, &annoyer) == 0);
    while (!atomic_load(&annoyer.done))
        check(selector_select(&selector, -1) == 0);
    pthread_join(thread, NULL);
    put(ends[0], "x", 1);
    size_t count;
    while ((count = selector_select(&selector, FOREVER_MS)) == 0) {
    }
    check(selected_only(count, &key, SELECT_READ));
}

/* ---- what it asks of the provider ---- */

/* The best provider of the platform, with a hand on it. */
static struct {
    const struct selector_provider *real;
    int watches; /* how often the kernel's view changed */
    bool refuse; /* the kernel has no memory */
    bool wake_before_wait;
    bool wake_after_wait;
} handled;

static void *handled_open(void)
{
    if (handled.refuse) {
        errno = EMFILE;
        return NULL;
    }
    return handled.real->open();
}

static void handled_close(void *state)
{
    handled.real->close(state);
}

static int handled_watch(void *state, struct selection_key *one, unsigned watch)
{
    handled.watches++;
    if (handled.refuse && watch != SELECT_NOTHING) {
        errno = ENOMEM;
        return -1;
    }
    return handled.real->watch(state, one, watch);
}

static int handled_wait(void *state, struct ready_event events[SELECTOR_BATCH], int timeout_ms)
{
    if (handled.wake_before_wait)
        selector_wakeup(&selector);
    int count = handled.real->wait(state, events, timeout_ms);
    if (handled.wake_after_wait)
        selector_wakeup(&selector);
    return count;
}

static void handled_wakeup(void *state)
{
    handled.real->wakeup(state);
}

static const struct selector_provider handled_provider = {
    .name = "handled",
    .open = handled_open,
    .close = handled_close,
    .watch = handled_watch,
    .wait = handled_wait,
    .wakeup = handled_wakeup,
};

/* A test as above, with that provider on top of each. */
#define HANDLED_TEST(name)                                                                         \
    TEST_ON(name, (handled.real = selector_providers[*index], &handled_provider))

/* As a handler does for the time of a reply. */
HANDLED_TEST(interest_that_is_taken_away_and_given_back_costs_nothing)
{
    watch_fd(&key, ends[1], SELECT_READ);
    check(handled.watches == 1);
    for (int i = 0; i < 10; i++) {
        check(selector_interest(&key, SELECT_NOTHING) == 0);
        check(poll_now() == 0);
        check(selector_interest(&key, SELECT_READ) == 0);
        check(poll_now() == 0);
        check(selector_interest(&key, SELECT_READ) == 0);
    }
    check(handled.watches == 1);
    put(ends[0], "x", 1);
    check(selected_only(poll_now(), &key, SELECT_READ));
}

/* The next message comes while the handler still has the one before, and then it is done. */
HANDLED_TEST(interest_that_is_back_by_the_next_select_costs_nothing_though_an_event_came)
{
    watch_fd(&key, ends[1], SELECT_READ);
    put(ends[0], "x", 1);
    for (int i = 0; i < 3; i++) {
        check(selected_only(poll_now(), &key, SELECT_READ));
        check(selector_interest(&key, SELECT_NOTHING) == 0);
        check(poll_now() == 0);
        check(selector_interest(&key, SELECT_READ) == 0);
    }
    check(handled.watches == 1);
}

HANDLED_TEST(a_key_whose_event_was_unwanted_is_free_when_it_is_cancelled)
{
    struct selection_key *gone = malloc(sizeof(*gone));
    watch_fd(gone, ends[1], SELECT_READ);
    put(ends[0], "x", 1);
    check(selector_interest(gone, SELECT_NOTHING) == 0);
    check(poll_now() == 0);
    selector_cancel(gone);
    memset(gone, 0xa5, sizeof(*gone));
    int watches = handled.watches;
    check(poll_now() == 0);
    check(handled.watches == watches);
    free(gone);
}

HANDLED_TEST(unwanted_interest_leaves_the_kernels_view_at_the_first_event_and_then_only)
{
    watch_fd(&key, ends[1], SELECT_READ);
    check(selector_interest(&key, SELECT_NOTHING) == 0);
    check(handled.watches == 1 && key.watched == SELECT_READ);
    put(ends[0], "x", 1);
    for (int i = 0; i < 5; i++)
        check(poll_now() == 0);
    check(handled.watches == 2 && key.watched == SELECT_NOTHING);
    check(selector_interest(&key, SELECT_READ) == 0);
    check(handled.watches == 3 && key.watched == SELECT_READ);
    check(selected_only(poll_now(), &key, SELECT_READ));
}

/* What makes it worth having: handed to another thread, which has not read yet, and back. */
HANDLED_TEST(interest_for_once_changes_the_kernels_view_once_for_each_event)
{
    put(ends[0], "x", 1);
    watch_fd(&key, ends[1], SELECT_READ | SELECT_ONCE);
    int lets_go = handled.real != &selector_poll; /* poll(2) cannot */
    for (int i = 1; i < 10; i++) {
        check(handled.watches == (lets_go ? i : 2 * i - 1));
        check(selected_only(poll_now(), &key, SELECT_READ));
        check(poll_now() == 0); /* it is still readable */
        check(poll_now() == 0);
        check(selector_interest(&key, SELECT_READ | SELECT_ONCE) == 0);
    }
}

HANDLED_TEST(a_key_without_interest_is_kept_from_the_kernel)
{
    watch_fd(&key, ends[1], SELECT_NOTHING);
    check(key_count() == 1);
    selector_cancel(&key);
    check(handled.watches == 0);
}

HANDLED_TEST(a_kernel_without_memory_registers_nothing)
{
    struct selection_key kept;
    struct selection_key refused;
    watch_fd(&kept, ends[1], SELECT_READ);
    put(ends[0], "x", 1);
    for (int i = 0; i < 40; i++) {
        handled.refuse = true;
        errno = 0;
        check(selector_register(&selector, &refused, ends[0], SELECT_READ, NULL) == -1);
        check(errno == ENOMEM);
        check(refused.selector == NULL);
        check(key_count() == 1);
        handled.refuse = false;
        check(selected_only(poll_now(), &kept, SELECT_READ));
    }
    watch_fd(&refused, ends[0], SELECT_READ);
    selector_cancel(&kept);
    selector_cancel(&refused);
}

HANDLED_TEST(a_kernel_without_memory_leaves_a_key_interested_in_nothing)
{
    put(ends[0], "x", 1);
    watch_fd(&key, ends[1], SELECT_READ);
    check(selected_only(poll_now(), &key, SELECT_READ));
    handled.refuse = true;
    check(selector_interest(&key, SELECT_READ | SELECT_WRITE) == -1);
    check(errno == ENOMEM);
    check(key.interest == SELECT_NOTHING);
    check(selector_selected(&selector, 0) == NULL);
    check(poll_now() == 0);
    handled.refuse = false;
    check(selector_interest(&key, SELECT_READ | SELECT_WRITE) == 0);
    check(selected_only(poll_now(), &key, SELECT_READ | SELECT_WRITE));
}

HANDLED_TEST(a_provider_that_does_not_open_leaves_nothing)
{
    struct selector another;
    handled.refuse = true;
    check(selector_open(&another, &handled_provider) == -1);
    check(errno == EMFILE);
    handled.refuse = false;
}

/* The moment in which a wakeup could be lost: asleep is said, the kernel's wait not yet begun. */
HANDLED_TEST(a_wakeup_just_before_the_sleep_ends_it)
{
    handled.wake_before_wait = true;
    check(select_at_once() == 0);
    handled.wake_before_wait = false;
    check(atomic_load(&selector.wakeups_written) == 1);
    select_sleeps();
}

/* The other end: the sleep is over, and the select that returns is the one that was asked for. */
HANDLED_TEST(a_wakeup_just_after_the_sleep_is_spent)
{
    put(ends[0], "x", 1);
    watch_fd(&key, ends[1], SELECT_READ);
    handled.wake_after_wait = true;
    check(selected_only(select_at_once(), &key, SELECT_READ));
    handled.wake_after_wait = false;
    take_now(ends[1], &(char){0}, 1);
    selector_select(&selector, 0); /* what was written may still be on its way */
    select_sleeps();
}

/* ---- connecting ---- */

/* What Java calls OP_CONNECT: readiness to write, whichever way it went. */
static void expect_outcome(bool listens)
{
    struct sockaddr_in address;
    struct endpoint to = {.length = sizeof(address)};
    int error = -1;
    int listening = tcp_listen(&address);
    if (!listens)
        close(listening);
    memcpy(&to.address, &address, sizeof(address));
    int fd = socket_connect(&to, 0);
    watch_fd(&key, fd, SELECT_WRITE);
    check(selected_only(select_at_once(), &key, SELECT_WRITE));
    check(socket_has_connected(fd, &error));
    cr_assert_eq(error, listens ? 0 : ECONNREFUSED, "%s", strerror(error));
    selector_cancel(&key);
    close(fd);
    if (listens)
        close(listening);
}

SELECTOR_TEST(a_socket_that_has_connected_or_was_refused_is_ready_to_write)
{
    expect_outcome(true);
    expect_outcome(false);
}

/* A listener whose backlog is full does not answer. */
SELECTOR_TEST(a_socket_that_still_connects_is_not_ready)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    struct endpoint to = {.length = length};
    int fds[8];
    int count = 0;
    int error = 0;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listening, (struct sockaddr *)&address, length) == 0);
    check(listen(listening, 0) == 0);
    check(getsockname(listening, (struct sockaddr *)&address, &length) == 0);
    memcpy(&to.address, &address, sizeof(address));
    do
        fds[count++] = socket_connect(&to, 0);
    while (count < 8 && test_await(fds[count - 1], POLLOUT, test_now() + 0.1));
    watch_fd(&key, fds[count - 1], SELECT_WRITE);
    select_sleeps();
    check(!socket_has_connected(fds[count - 1], &error));
    selector_cancel(&key);
    while (count > 0)
        close(fds[--count]);
    close(listening);
}

/* ---- choosing a provider ---- */

static bool choose(const char *name, const struct selector_provider **provider)
{
    struct option option = selector_provider_option(provider);
    return option.parse(&option, name);
}

Test(selector, providers_are_chosen_by_name)
{
    const struct selector_provider *provider = NULL;
    for (size_t i = 0; selector_providers[i] != NULL; i++) {
        cr_assert(choose(selector_providers[i]->name, &provider));
        cr_assert_eq(provider, selector_providers[i]);
    }
    struct option option = selector_provider_option(&provider);
    cr_assert_str_eq(option.name, "--selector");
    cr_assert_str_eq(option.default_text, selector_providers[0]->name, "the best one comes first");
    cr_assert(choose(option.default_text, &provider));
    cr_assert(choose("poll", &provider), "every platform has it");
    cr_assert_eq(provider, &selector_poll);
    if (choose("epoll", &provider))
        cr_assert_eq(selector_providers[0], provider, "the best one comes first");
}

Test(selector, the_option_names_the_providers_there_are)
{
    char expected[128] = "one of ";
    const struct selector_provider *provider;
    struct option option = selector_provider_option(&provider);
    for (size_t i = 0; selector_providers[i] != NULL; i++) {
        strcat(expected, i > 0 ? ", " : "");
        strcat(expected, selector_providers[i]->name);
    }
    cr_assert_str_eq(option.expects, expected);
}

Test(selector, other_names_choose_nothing)
{
    static const char *const names[] = {"", "epol", "epolls", "POLL", "poll ", " poll", "select"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct selector_provider *provider = NULL;
        cr_assert_not(choose(names[i], &provider), "\"%s\"", names[i]);
        cr_assert_null(provider);
    }
}
