/*
 * The connector: the acceptor's counterpart. It opens connections to other servers (Schmidt,
 * "Acceptor and Connector").
 */
#ifndef CONNECTOR_H
#define CONNECTOR_H

#include "dispatcher.h"

/**
 * Begins to connect to an address, and has the dispatcher serve that connection with a handler of
 * the factory's. If the connection cannot be established, `not_connected` is called. Returns 0, or
 * an errno if connecting could not even begin; then there is no handler. Only for a run of one of
 * this dispatcher's adapters, so that the dispatcher has not ended.
 */
int connector_connect(struct dispatcher *dispatcher, const struct endpoint *to, int64_t timeout,
                      struct input_handler_factory *factory) NO_LOCK_HELD;

#endif
