/*
 * A chain element that gives suspicious clients a write rate when they come (Roth,
 * "Application-Level EventHandler": gatekeeper, write rate, DelayedWriteHandler). A gatekeeper
 * decides which clients are suspicious. The one that the options make checks the client's network;
 * an application may have another.
 *
 * Roth's handler holds the bytes back itself, in front of the output queue, where no limit counts
 * them and a close does not wait for them (erratum 19). This one only sets the rate of the channel,
 * so what is held back waits in the output queue like any other output.
 */
#ifndef COMMON_THROTTLE_ELEMENT_H
#define COMMON_THROTTLE_ELEMENT_H

#include "common/apps/handler_element.h"
#include "common/base/options.h"
#include "common/server/network.h"

/** Decides which clients are suspicious. The struct of your own gatekeeper begins with this. */
struct gatekeeper {
    /** Whether this client is. It may be asked by several threads at a time, and must not block. */
    bool (*is_suspicious)(struct gatekeeper *self, const struct endpoint *peer);
};

/** A gatekeeper that suspects the clients of some networks, and no others. */
struct network_gatekeeper {
    struct gatekeeper gatekeeper;
    struct network_list networks;
};

/** What --suspicious and --throttle set. */
struct throttle_choice {
    struct gatekeeper *gatekeeper; /* NULL: no client is suspicious, so no element is needed */
    size_t bytes_per_second;
    struct network_gatekeeper of_networks; /* the one that --suspicious sets */
};

struct throttle_element_factory {
    struct input_handler_factory factory;
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
