#include "handler_threads.h"

#include "common/base/thread.h"

#include <unistd.h>

static void serve_to_the_end(struct handler_threads *threads, struct handler *handler) NO_LOCK_HELD
{
    struct segment_cache cache; /* of the one segment that a line needs at a time */
    segment_cache_open(&cache, &threads->server->buffers, 1);
    handler_run(handler);
    int fd = handler_release(handler);
    segment_cache_close(&cache);
    socket_discard(fd); /* unread bytes would turn the close into a reset */
    close(fd);
    admission_leave(&threads->admission);
}

/* A thread for one connection. */
static void *serve_one(void *argument)
{
    struct handler *handler = argument;
    thread_holds_no_lock_yet();
    thread_set_name("handler");
    serve_to_the_end(handler->threads, handler);
    return NULL;
}

void handler_threads_open(struct handler_threads *threads, struct server *server,
                          struct input_handler_factory *factory)
{
    threads->server = server;
    server->home.wake = handler_wake;
    server->listener.factory = factory;
    threads->stop = -1;
    admission_init(&threads->admission, server);
}

bool handler_threads_serve(struct handler_threads *threads, int fd)
{
    struct handler *handler = handler_create(threads, fd);
    if (handler == NULL)
        return false;
    if (thread_start(NULL, serve_one, handler) != 0) {
        handler_release(handler);
        return false;
    }
    return true;
}
