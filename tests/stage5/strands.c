/*
 * Strands, with handlers in the dispatchers, of which there are two, and in workers. The tests are
 * those of stage 4.
 */
#define IN_THE_DISPATCHER "--workers 0 --dispatchers 2"
#include "framework.h"

#define stage4_strands stage5_strands
#include "stage4/strands.c"
