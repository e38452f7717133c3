/*
 * The connector: the acceptor's counterpart. It opens connections to other servers (Schmidt,
 * "Acceptor and Connector").
 */
#ifndef CONNECTOR_H
#define CONNECTOR_H

#include "dispatcher.h"

/**
 * Begins to connect to an address, and has the dispatcher serve that connection with a handler of
 * the factory's. The handler hears `not_connected` if the connection does not come about. 0, or an
 * errno: it could not even begin, and there is no handler. From a run of one of this dispatcher's
 * adapters only, so that the dispatcher has not ended.
 */
int connector_connect(struct dispatcher *dispatcher, const struct endpoint *to,
                      struct input_handler_factory *factory) NO_LOCK_HELD;

#endif
