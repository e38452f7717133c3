/*
 * Mistakes with locks, by which tests/lint.sh tests that the compiler finds each of them. This file
 * is not part of any program. The comment at a line is the warning that clang must give there, and
 * there must be no other.
 */
#include "common/base/lock.h"
#include "common/server/input_handler_calls.h"

struct mailbox {
    struct mutex lock;
    int letters GUARDED_BY(&lock);
    struct input_handler *handler;
    struct channel_facade *facade;
};

void reads_without_the_lock(struct mailbox *mailbox);
void asks_with_the_lock(struct mailbox *mailbox);
void asks_by_way_of_another(struct mailbox *mailbox);
void asks_without_a_lock(struct mailbox *mailbox) NO_LOCK_HELD;
void has_the_callers_lock(struct mailbox *mailbox) REQUIRES(&mailbox->lock);
void asks_after_the_lock(struct mailbox *mailbox);
void goes_round(struct mailbox *mailbox) NO_LOCK_HELD;

void reads_without_the_lock(struct mailbox *mailbox)
{
    mailbox->letters++; /* expected-warning {{writing variable 'letters' requires holding mutex}} */
}

void asks_with_the_lock(struct mailbox *mailbox)
{
    mutex_lock(&mailbox->lock);
    /* expected-warning@+1 {{'input_handler_continue_output' while role 'any_lock' is held}} */
    input_handler_continue_output(mailbox->handler, mailbox->facade);
    mutex_unlock(&mailbox->lock);
}

/* The mistake is in this function's caller, or in a caller of that; so it has to be marked. */
void asks_by_way_of_another(struct mailbox *mailbox)
{
    /* expected-warning@+1 {{'input_handler_stopped' requires negative capability '!any_lock'}} */
    input_handler_stopped(mailbox->handler, mailbox->facade);
}

void asks_without_a_lock(struct mailbox *mailbox)
{
    input_handler_stopped(mailbox->handler, mailbox->facade);
}

void has_the_callers_lock(struct mailbox *mailbox)
{
    asks_without_a_lock(mailbox); /* expected-warning {{while role 'any_lock' is held}} */
}

void asks_after_the_lock(struct mailbox *mailbox)
{
    mutex_lock(&mailbox->lock);
    mutex_unlock(&mailbox->lock);
    asks_without_a_lock(mailbox);
}

void goes_round(struct mailbox *mailbox)
{
    /* expected-warning@+1 {{pointed to by 'verbs' requires holding role 'application_door'}} */
    mailbox->handler->verbs->stopped(mailbox->handler, mailbox->facade);
}
