/*
 * Stage 5 from inside (tests/inside/framework.h): a pool of dispatchers: one of them unless the
 * options say otherwise, and no workers.
 */
#ifndef TESTS_STAGE5_FRAMEWORK_H
#define TESTS_STAGE5_FRAMEWORK_H

#include "dispatcher_pool.h"

#define FRAMEWORK_DISPATCHERS struct dispatcher_pool pool

#include "inside/framework.h"

#endif
