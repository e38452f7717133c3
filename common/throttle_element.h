/*
 * The gatekeeper: a chain element that gives suspicious clients a write rate when they come (Roth,
 * "if (connection is suspicious) setWriteTransferRate(5)"; his DelayedWriteHandler).
 *
 * Roth's handler holds the bytes back itself, in front of the output queue, where no limit counts
 * them and a close does not wait for them (erratum 19). This one tells the channel the rate and is
 * done; what is held back waits in the output queue like any other output.
 */
#ifndef COMMON_THROTTLE_ELEMENT_H
#define COMMON_THROTTLE_ELEMENT_H

#include "handler_element.h"
#include "network.h"
#include "options.h"

/** What the options say. */
struct throttle_choice {
    bool wanted;
    struct network suspicious;
    uint64_t bytes_per_second;
};

struct throttle_element_factory {
    struct input_handler_factory factory; /* first */
    struct input_handler_factory *inner;
    struct input_handler_verbs verbs;
    const struct throttle_choice *choice;
};

/** Adds --suspicious and --throttle. */
void throttle_options(struct options *options, struct throttle_choice *choice);

/** Makes elements in front of what inner makes. Has to outlive all of them; it needs no end. */
struct input_handler_factory *throttle_element_over(struct throttle_element_factory *factory,
                                                    struct input_handler_factory *inner,
                                                    const struct throttle_choice *choice);

#endif
