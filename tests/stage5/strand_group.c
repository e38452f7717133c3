/*
 * The group of a strand, with handlers in the dispatchers, of which there are two, and in workers.
 * The tests are those of stage 4.
 */
#define IN_THE_DISPATCHER "--workers 0 --dispatchers 2"
#include "framework.h"

#define stage4_strand_group stage5_strand_group
#include "stage4/strand_group.c"
