/*
 * A second application in the same server, for the clients of a listener of its own: what an
 * operator asks, or a protocol for administrators, beside the service itself.
 *
 *   static void *start(struct server *server)
 *   {
 *       struct endpoint place;
 *       endpoint_parse(&place, "127.0.0.1", 9100);
 *       return application_listen(server, &other_application, &place);
 *   }
 *
 *   static void finish(void *second)
 *   {
 *       application_listen_end(second);
 *   }
 *
 * Clients of both are served by the same threads, which accept them in turns: a handler that holds
 * a loop holds both. All settings are for both: what --max-connections, the timeouts and
 * --proxy-protocol say, and the text for a client that there is no place for. When the server stops
 * both listeners are closed, and the clients of both are told so as always. What stage 5 puts in
 * front of an application (--cipher and others) is in front of the first one only.
 *
 * How: epoll(7) has a descriptor for a set of descriptors, and that one can be waited for like a
 * socket. So with a second listener the server's listener is such a set: whoever accepts waits for
 * one descriptor, as before, and each accept asks the set at which of its sockets a client waits.
 * Linux only.
 *
 * Interface:
 * - Only in `start` or `open`, and in `finish` or `close`: before the first client, and after the
 *   last one's `stopped`.
 * - A listener that the server was given (LISTEN_FDS) is the first one; those that are made here
 *   are the server's own. Clients that still wait at them when such a server stops are reset.
 */
#ifndef COMMON_APPS_APPLICATION_LISTEN_H
#define COMMON_APPS_APPLICATION_LISTEN_H

#include "common/apps/application.h"
#include "common/server/endpoint.h"

struct application_listener;

/**
 * Listens at a place, whose clients `other` serves from then on; it is opened here, and its options
 * are those that your `options` has added. Port 0 becomes the number that the system has chosen.
 * NULL, and the reason stands on standard error, with errno 0: the place is in use, for instance;
 * or your `needs` lacks something that `other` needs, or your max_message is not the same. Each
 * call adds one more.
 */
struct application_listener *application_listen(struct server *server,
                                                const struct application *other,
                                                struct endpoint *place);

/** Ends that application, and stops listening if nobody has. NULL: there is nothing to end. */
void application_listen_end(struct application_listener *listener);

#endif
