/*
 * What is attached to a key: something to run when the key's event has come (Lea attaches Java's
 * Runnable). The key is a member of what it belongs to, which container_of() finds again.
 */
#ifndef RUNNABLE_H
#define RUNNABLE_H

#include "common/events/selector.h"

/** What an event runs. Attaching another one is how a handler changes its state. */
struct runnable {
    void (*run)(struct selection_key *key);
};

#endif
