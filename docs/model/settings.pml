/*
 * What is in a model, each by -D with these values unless told otherwise.
 */

/* Connections; each is registered by a thread of its own. 1 to 3. */
#ifndef CONNECTIONS
#define CONNECTIONS 2
#endif

/* Threads of the executor. 1 or 2; 0: the dispatcher makes all runs itself, as in stage 5. */
#ifndef WORKERS
#define WORKERS 2
#endif

/* 1: another thread changes what is asked of connection 0, whatever they are and at any time. */
#ifndef APPLICATION
#define APPLICATION 1
#endif

/* 1: it also ends the connection (ASK_END). */
#ifndef UNREGISTER
#define UNREGISTER 0
#endif

/* 1: it also enqueues output, which the socket does not take at once. */
#ifndef OUTPUT
#define OUTPUT 0
#endif

/* 1: that may fail and break the output queue, and no event tells of it. */
#ifndef BREAKS
#define BREAKS 0
#endif

/* 1: a helper has done a task of connection 0, and posts the result, at any moment. */
#ifndef TASK
#define TASK 0
#endif

/* 1: connection 1 is an outgoing one, which the first run of connection 0 opens. */
#ifndef CONNECTS
#define CONNECTS 0
#endif

/* 1: a run may find the peer gone, or its handler fails: the connection is over. */
#ifndef ENDS
#define ENDS 1
#endif

/* 1: a run may leave messages for the next one. */
#ifndef MESSAGES
#define MESSAGES 0
#endif

/* 1: events come for whatever the kernel has been told to watch. */
#ifndef EVENTS
#define EVENTS 1
#endif

/* 1: the kernel is told late that nobody is interested any more, as common/events/selector.c does it. */
#ifndef LAG
#define LAG 0
#endif

/* 1: two more threads register one connection after the other, in vain and without an end. */
#ifndef STREAM
#define STREAM 0
#endif

/* 1: network and application may go on forever. 0: at some moment, any moment, they fall silent. */
#ifndef RESTLESS
#define RESTLESS 0
#endif

/* 1: they are silent from the beginning. */
#ifndef SILENT
#define SILENT 0
#endif
