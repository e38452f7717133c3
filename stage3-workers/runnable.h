/*
 * What is attached to a key: something to run when the key's event has come (Lea attaches Java's
 * Runnable). It is the first member of what it belongs to, which so can be found again.
 */
#ifndef RUNNABLE_H
#define RUNNABLE_H

/** What an event runs. Rebinding it is how a handler changes its state. */
struct runnable {
    void (*run)(struct runnable *self);
};

#endif
