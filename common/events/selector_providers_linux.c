/*
 * The providers of Linux, best first. The Makefile picks the table that fits.
 */
#include "common/events/selector_provider.h"

const struct selector_provider *const selector_providers[] = {&selector_epoll, &selector_poll,
                                                              NULL};

const char selector_provider_names[] = "one of epoll, poll";
