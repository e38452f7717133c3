/*
 * What is attached to a key: something to run when the key's event has come (Lea attaches Java's
 * Runnable). It is a member of what it belongs to, which container_of() finds again.
 */
#ifndef RUNNABLE_H
#define RUNNABLE_H

/** What an event runs. Rebinding it is how a handler changes its state. */
struct runnable {
    void (*run)(struct runnable *self);
};

#endif
