/*
 * Admission: how many are in, and that whoever waits for a place hears of the next one.
 */
#include "common/admission.h"
#include "common/signals.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>

TestSuite(admission, .timeout = 60);

static bool rung(struct signals *signals)
{
    struct pollfd watched = {.fd = signals->fd, .events = POLLIN};
    bool readable = poll(&watched, 1, 0) == 1;
    signals_take(signals);
    return readable;
}

Test(admission, has_as_many_places_as_it_is_told)
{
    struct admission admission;
    admission_init(&admission);
    cr_assert_not(admission_has_place(&admission, 0));
    cr_assert(admission_has_place(&admission, 2));
    admission_enter(&admission);
    cr_assert(admission_has_place(&admission, 2));
    admission_enter(&admission);
    cr_assert_not(admission_has_place(&admission, 2));
    cr_assert(admission_has_place(&admission, 3));
    admission_leave(&admission);
    cr_assert(admission_has_place(&admission, 2));
    admission_leave(&admission);
    admission_destroy(&admission);
}

Test(admission, case_22_rings_when_a_place_that_was_wanted_gets_free)
{
    struct signals signals;
    struct admission admission;
    cr_assert_eq(signals_open(&signals), 0);
    admission_init(&admission);
    admission_enter(&admission);
    admission_enter(&admission);
    admission_leave(&admission);
    cr_assert_not(rung(&signals), "nobody asked");
    cr_assert_not(admission_has_place(&admission, 1));
    admission_leave(&admission);
    cr_assert(rung(&signals), "somebody did");
    admission_enter(&admission);
    admission_leave(&admission);
    cr_assert_not(rung(&signals), "and was told");
    cr_assert_not(admission_has_place(&admission, 0));
    cr_assert(admission_has_place(&admission, 1));
    admission_enter(&admission);
    admission_leave(&admission);
    cr_assert_not(rung(&signals), "who has got a place waits no longer");
    admission_destroy(&admission);
    signals_close(&signals);
}

static void *come_and_go(void *argument)
{
    struct admission *admission = argument;
    for (int i = 0; i < 5000; i++) {
        admission_enter(admission);
        admission_leave(admission);
    }
    return NULL;
}

Test(admission, loses_no_count_between_threads)
{
    struct admission admission;
    pthread_t threads[8];
    admission_init(&admission);
    admission_enter(&admission);
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, come_and_go, &admission);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    cr_assert_not(admission_has_place(&admission, 1));
    cr_assert(admission_has_place(&admission, 2));
    admission_destroy(&admission);
}
