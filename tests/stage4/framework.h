/*
 * Stage 4 from inside (tests/inside/framework.h): its one dispatcher.
 */
#ifndef TESTS_STAGE4_FRAMEWORK_H
#define TESTS_STAGE4_FRAMEWORK_H

#include "dispatcher.h"

#define FRAMEWORK_DISPATCHERS struct dispatcher dispatcher

#include "inside/framework.h"

#endif
