/*
 * Stage 2: what a silent client costs, from the size of its handler.
 */
#include "handler.h"

#include <criterion/criterion.h>

/* The C library's malloc() keeps 8 bytes beside a block, and gives multiples of 16. */
Test(stage2_idle, a_silent_client_costs_at_most_256_bytes)
{
    size_t block = (sizeof(struct handler) + 8 + 15) / 16 * 16;
    size_t place = sizeof(struct timer *); /* in the heap of timers */
    cr_assert_leq(block + place, 256, "%zu bytes", block + place);
}
