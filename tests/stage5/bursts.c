/*
 * Bursts, with the handler in the dispatcher and in a worker. There are two dispatchers. The tests
 * are those of stage 4.
 */
#define IN_THE_DISPATCHER "--workers 0 --dispatchers 2"
#include "framework.h"

#define stage4_bursts stage5_bursts
#include "stage4/bursts.c"
