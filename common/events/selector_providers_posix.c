/*
 * The providers of a system of which only POSIX is known. The Makefile picks the table that fits.
 */
#include "common/events/selector_provider.h"

const struct selector_provider *const selector_providers[] = {&selector_poll, NULL};

const char selector_provider_names[] = "one of poll";
