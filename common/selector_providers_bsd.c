/*
 * The providers of the BSDs and macOS, best first. The Makefile picks the table that fits.
 */
#include "selector_provider.h"

const struct selector_provider *const selector_providers[] = {&selector_kqueue, &selector_poll,
                                                              NULL};

const char selector_provider_names[] = "one of kqueue, poll";
