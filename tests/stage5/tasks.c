/*
 * Tasks that a handler begins, with the handler in the dispatcher and in a worker. The tests
 * are those of stage 4.
 */
#include "framework.h"

#define stage4_tasks stage5_tasks
#include "stage4/tasks.c"
