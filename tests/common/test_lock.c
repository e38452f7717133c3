/*
 * The lock wrappers: what each promises when two threads meet.
 *
 * That nobody gets in is shown by a call that does not wait (trylock); that somebody waits in a
 * call is seen by its effect on others. No test relies on a pause being long enough.
 */
#include "common/base/clock.h"
#include "common/base/lock.h"
#include "common/base/rwlock.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdatomic.h>

TestSuite(lock, .timeout = 120);

enum {
    THREADS = 8,
    ROUNDS = 5000,
};

static bool try_lock(struct mutex *mutex)
{
    return pthread_mutex_trylock(&mutex->native) == 0;
}

static void *try_mutex(void *argument)
{
    struct mutex *mutex = argument;
    bool got_it = try_lock(mutex);
    if (got_it)
        mutex_unlock(mutex);
    return got_it ? argument : NULL;
}

/* Whether another thread gets the mutex without waiting. */
static bool another_gets(struct mutex *mutex)
{
    pthread_t thread;
    void *result;
    cr_assert_eq(pthread_create(&thread, NULL, try_mutex, mutex), 0);
    pthread_join(thread, &result);
    return result != NULL;
}

Test(lock, a_mutex_is_held_from_lock_to_unlock)
{
    struct mutex mutex;
    mutex_init(&mutex);
    cr_assert(another_gets(&mutex));
    mutex_lock(&mutex);
    cr_assert_not(another_gets(&mutex));
    mutex_unlock(&mutex);
    cr_assert(another_gets(&mutex));
    cr_assert(try_lock(&mutex));
    cr_assert_not(another_gets(&mutex));
    mutex_unlock(&mutex);
    mutex_destroy(&mutex);
}

struct tally {
    struct mutex mutex;
    struct rwlock rwlock;
    size_t count;
};

static void *count_under_mutex(void *argument)
{
    struct tally *tally = argument;
    for (int i = 0; i < ROUNDS; i++) {
        mutex_lock(&tally->mutex);
        tally->count++;
        mutex_unlock(&tally->mutex);
    }
    return NULL;
}

static void *count_under_rwlock(void *argument)
{
    struct tally *tally = argument;
    for (int i = 0; i < ROUNDS; i++) {
        rwlock_lock(&tally->rwlock);
        tally->count++;
        rwlock_unlock(&tally->rwlock);
    }
    return NULL;
}

static size_t count_with(void *(*count)(void *))
{
    struct tally tally = {.count = 0};
    pthread_t threads[THREADS];
    mutex_init(&tally.mutex);
    rwlock_init(&tally.rwlock);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, count, &tally);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mutex_destroy(&tally.mutex);
    rwlock_destroy(&tally.rwlock);
    return tally.count;
}

Test(lock, a_mutex_lets_one_in_at_a_time)
{
    cr_assert_eq(count_with(count_under_mutex), THREADS * ROUNDS);
}

Test(lock, a_rwlock_lets_one_writer_in_at_a_time)
{
    cr_assert_eq(count_with(count_under_rwlock), THREADS * ROUNDS);
}

struct shared_reader {
    struct rwlock *rwlock;
    pthread_barrier_t *inside;
};

static void *read_together(void *argument)
{
    struct shared_reader *reader = argument;
    rwlock_lock_shared(reader->rwlock);
    pthread_barrier_wait(reader->inside); /* goes on only when all are inside at once */
    rwlock_unlock_shared(reader->rwlock);
    return NULL;
}

Test(lock, a_rwlock_lets_readers_in_together)
{
    struct rwlock rwlock;
    pthread_barrier_t inside;
    pthread_t threads[THREADS];
    struct shared_reader reader = {&rwlock, &inside};
    rwlock_init(&rwlock);
    pthread_barrier_init(&inside, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, read_together, &reader);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&inside);
    rwlock_destroy(&rwlock);
}

static void *write_once(void *argument)
{
    struct rwlock *rwlock = argument;
    rwlock_lock(rwlock);
    rwlock_unlock(rwlock);
    return NULL;
}

/* Whether a further reader would be let in now; asked through the original, which can be tried. */
static bool reader_gets_in(struct rwlock *rwlock)
{
    if (pthread_rwlock_tryrdlock(&rwlock->native) != 0)
        return false;
    pthread_rwlock_unlock(&rwlock->native);
    return true;
}

#ifdef __GLIBC__
/*
 * A writer waits for the readers that are in, and further readers wait for it; with glibc's default
 * they would pass it forever.
 */
Test(lock, a_rwlock_lets_no_reader_pass_a_waiting_writer)
{
    struct rwlock rwlock;
    pthread_t writer;
    rwlock_init(&rwlock);
    rwlock_lock_shared(&rwlock);
    cr_assert(reader_gets_in(&rwlock), "while nobody writes, readers get in");
    cr_assert_eq(pthread_create(&writer, NULL, write_once, &rwlock), 0);
    double end = test_now() + test_deadline_ms() / 2000.0;
    bool passed;
    while ((passed = reader_gets_in(&rwlock)) && test_left_ms(end) > 0)
        test_pause_ms(1);
    rwlock_unlock_shared(&rwlock);
    pthread_join(writer, NULL);
    cr_assert_not(passed, "a reader still passes the writer that waits");
    cr_assert(reader_gets_in(&rwlock), "the writer is through");
    rwlock_destroy(&rwlock);
}
#endif

Test(lock, a_wait_for_a_condition_ends_at_its_deadline)
{
    struct mutex mutex;
    struct condition condition;
    mutex_init(&mutex);
    condition_init(&condition);
    int64_t deadline = clock_ms() + 30;
    mutex_lock(&mutex);
    while (condition_wait_until(&condition, &mutex, deadline)) {
    }
    int64_t ended = clock_ms();
    cr_assert_not(another_gets(&mutex), "the mutex is held again");
    cr_assert_not(condition_wait_until(&condition, &mutex, ended - 1000), "in the past");
    mutex_unlock(&mutex);
    cr_assert_geq(ended, deadline);
    condition_destroy(&condition);
    mutex_destroy(&mutex);
}

/* A ball that threads pass on: each waits for its turn. */
struct game {
    struct mutex mutex;
    struct condition turned;
    int turn;
    int players;
    int rounds;
    bool timed;
    int late;
};

struct player {
    struct game *game;
    int number;
};

static void *play(void *argument)
{
    struct player *player = argument;
    struct game *game = player->game;
    for (int i = 0; i < game->rounds; i++) {
        mutex_lock(&game->mutex);
        while (game->turn % game->players != player->number) {
            if (!game->timed)
                condition_wait(&game->turned, &game->mutex);
            else if (!condition_wait_until(&game->turned, &game->mutex, clock_ms() + 10000))
                game->late++;
        }
        game->turn++;
        condition_broadcast(&game->turned);
        mutex_unlock(&game->mutex);
    }
    return NULL;
}

static void play_all(bool timed)
{
    struct game game = {.players = 4, .rounds = 200, .timed = timed};
    struct player players[4];
    pthread_t threads[4];
    mutex_init(&game.mutex);
    condition_init(&game.turned);
    for (int i = 0; i < 4; i++) {
        players[i] = (struct player){&game, i};
        pthread_create(&threads[i], NULL, play, &players[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(game.turn, 800);
    cr_assert_eq(game.late, 0);
    condition_destroy(&game.turned);
    mutex_destroy(&game.mutex);
}

Test(lock, a_broadcast_wakes_all_who_wait)
{
    play_all(false);
}

Test(lock, a_broadcast_comes_before_the_deadline)
{
    play_all(true);
}

/* Two players need no broadcast: the one who waits is the one to be woken. */
static void *answer_signal(void *argument)
{
    struct game *game = argument;
    mutex_lock(&game->mutex);
    for (int i = 0; i < game->rounds; i++) {
        while (game->turn % 2 == 0)
            condition_wait(&game->turned, &game->mutex);
        game->turn++;
        condition_signal(&game->turned);
    }
    mutex_unlock(&game->mutex);
    return NULL;
}

Test(lock, a_signal_wakes_one_who_waits)
{
    struct game game = {.rounds = 500};
    pthread_t thread;
    mutex_init(&game.mutex);
    condition_init(&game.turned);
    pthread_create(&thread, NULL, answer_signal, &game);
    mutex_lock(&game.mutex);
    for (int i = 0; i < game.rounds; i++) {
        game.turn++;
        condition_signal(&game.turned);
        while (game.turn % 2 == 1)
            condition_wait(&game.turned, &game.mutex);
    }
    mutex_unlock(&game.mutex);
    pthread_join(thread, NULL);
    cr_assert_eq(game.turn, 1000);
    condition_destroy(&game.turned);
    mutex_destroy(&game.mutex);
}
