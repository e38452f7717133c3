/*
 * A rehearsal: an application plays to clients that a unit test plays, in the test's own thread. No
 * server runs, nothing listens, and nobody waits: what a client sends is handled before the call
 * returns, and time passes when the test says so.
 *
 *   struct rehearsal rehearsal;
 *   if (!rehearsal_open(&rehearsal, &total_application, NULL))
 *       return 1;
 *   struct rehearsed *ann = rehearsal_connect(&rehearsal);
 *   rehearsed_send(ann, "hello\n", 6);
 *   assert(strcmp(rehearsed_read(ann), "6 bytes, 6 so far\n") == 0);
 *   rehearsal_close(&rehearsal);
 *
 * Connections, strands, timers, posts and tasks are those of the servers, so an application may use
 * all of it but channel_connect(). What it cannot show is two threads at a time: `make test-app`
 * does.
 *
 * Interface:
 * - One thread. A task is done before channel_begin() returns, as in stages 1 to 3.
 * - Bytes arrive as they are sent: a test that sends half a message has half of it handled.
 */
#ifndef COMMON_APPS_REHEARSAL_H
#define COMMON_APPS_REHEARSAL_H

#include "common/apps/application.h"
#include "common/server/server.h"
#include "common/server/strand_host.h"

struct rehearsed;

struct rehearsal {
    const struct application *application;
    struct input_handler_factory *factory;
    struct rehearsed *clients; /* also those that are over: others may know them */
    struct strand_host strands;
    atomic_size_t registered; /* of the strands' host: nobody is */
    struct server server;
};

/**
 * Opens an application with its defaults, or with options: "--name", "value", ..., NULL, as a user
 * would type them; NULL: none. False, and the reason stands on standard error.
 */
bool rehearsal_open(struct rehearsal *rehearsal, const struct application *application,
                    const char *const *options) NO_LOCK_HELD;

/** A client comes. It is there until rehearsal_close(). NULL: its handler could not be made. */
struct rehearsed *rehearsal_connect(struct rehearsal *rehearsal) NO_LOCK_HELD;

/** The client sends bytes. Those of one that is over are dropped. */
void rehearsed_send(struct rehearsed *client, const void *bytes, size_t length) NO_LOCK_HELD;

/**
 * What has come since the last call, with a 0 behind it: "" if nothing has. Valid until the next
 * call for this client. *length counts what may have zeros in it; NULL: it has none.
 */
const char *rehearsed_read_bytes(struct rehearsed *client, size_t *length) NO_LOCK_HELD;

static inline const char *rehearsed_read(struct rehearsed *client) NO_LOCK_HELD
{
    return rehearsed_read_bytes(client, NULL);
}

/** The client sends no more, but still reads. */
void rehearsed_finish(struct rehearsed *client) NO_LOCK_HELD;

/** The client is gone: what is sent to it is lost. */
void rehearsed_leave(struct rehearsed *client) NO_LOCK_HELD;

/** Whether the application, or the client itself, has ended the connection. */
bool rehearsed_is_over(struct rehearsed *client);

/** So many milliseconds pass at once: timers that become due fire, one after the other. */
void rehearsal_pass_time(struct rehearsal *rehearsal, int64_t milliseconds) NO_LOCK_HELD;

/** All clients leave, and the application ends. */
void rehearsal_close(struct rehearsal *rehearsal) NO_LOCK_HELD;

#endif
