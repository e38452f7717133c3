/*
 * What a handler's facade promises, with the handler in the dispatcher and in a worker. The tests
 * are those of stage 4.
 */
#include "framework.h"

#define stage4_facade stage5_facade
#include "stage4/facade.c"
