#include "handler_threads.h"

#include "common/base/thread.h"
#include "common/base/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static void add_handler(struct handler_threads *threads, struct handler *handler)
{
    mutex_lock(&threads->lock);
    handler->next = threads->all;
    if (handler->next != NULL)
        handler->next->previous = handler;
    threads->all = handler;
    threads->count++;
    mutex_unlock(&threads->lock);
}

/* Out of the list before its socket is closed, so that nobody shuts a socket that is reused. */
static void remove_handler(struct handler_threads *threads, struct handler *handler)
{
    mutex_lock(&threads->lock);
    if (handler->previous != NULL)
        handler->previous->next = handler->next;
    else
        threads->all = handler->next;
    if (handler->next != NULL)
        handler->next->previous = handler->previous;
    mutex_unlock(&threads->lock);
}

/* A removed handler is gone altogether: there is a place again. */
static void count_down(struct handler_threads *threads)
{
    mutex_lock(&threads->lock);
    threads->count--;
    if (threads->count == 0)
        condition_broadcast(&threads->gone);
    mutex_unlock(&threads->lock);
}

static void serve_to_the_end(struct handler_threads *threads, struct handler *handler) NO_LOCK_HELD
{
    struct segment_cache cache; /* of the one segment that a line needs at a time */
    segment_cache_open(&cache, &threads->server->buffers, 1);
    handler_run(handler);
    remove_handler(threads, handler);
    int fd = handler_release(handler);
    segment_cache_close(&cache);
    socket_discard(fd); /* unread bytes would turn the close into a reset */
    close(fd);
    admission_leave(&threads->admission);
    count_down(threads);
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

/* Waits for a handler that has no thread yet; NULL when all is over. */
static struct handler *next_waiting(struct handler_threads *threads)
{
    mutex_lock(&threads->lock);
    while (threads->waiting == NULL && !threads->stopping)
        condition_wait(&threads->work, &threads->lock);
    struct handler *handler = threads->waiting;
    if (handler != NULL)
        threads->waiting = handler->next_waiting;
    mutex_unlock(&threads->lock);
    return handler;
}

/* A thread of the pool: one connection after the other. */
static void *serve_many(void *argument)
{
    struct handler_threads *threads = argument;
    struct handler *handler;
    thread_holds_no_lock_yet();
    thread_set_name("pool");
    while ((handler = next_waiting(threads)) != NULL)
        serve_to_the_end(threads, handler);
    return NULL;
}

/* Starts the pool's threads, as far as that works. */
static int start_pool(struct handler_threads *threads, size_t wanted)
{
    threads->pool = calloc(wanted, sizeof(*threads->pool));
    if (threads->pool == NULL)
        return ENOMEM;
    for (; threads->pool_size < wanted; threads->pool_size++) {
        int error = thread_start(&threads->pool[threads->pool_size], serve_many, threads);
        if (error != 0)
            return error;
    }
    return 0;
}

int handler_threads_open(struct handler_threads *threads, struct server *server,
                         struct input_handler_factory *factory, size_t pool_size)
{
    memset(threads, 0, sizeof(*threads));
    threads->server = server;
    server->home.wake = handler_wake;
    server->listener.factory = factory;
    admission_init(&threads->admission, server);
    mutex_init(&threads->lock);
    condition_init(&threads->work);
    condition_init(&threads->gone);
    threads->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = threads->stop < 0 ? errno : 0;
    if (error != 0)
        log_write(&server->log, LOG_LEVEL_ERROR,
                  "event=not_started reason=\"cannot open an eventfd: %s\"", strerror(error));
    else if (pool_size > 0 && (error = start_pool(threads, pool_size)) != 0)
        log_write(&server->log, LOG_LEVEL_ERROR,
                  "event=not_started reason=\"cannot start thread %zu of %zu: %s\"",
                  threads->pool_size + 1, pool_size, strerror(error));
    if (error == 0)
        return 0;
    handler_threads_close(threads);
    return -1;
}

/* Puts the handler where the next free thread of the pool finds it. */
static void add_waiting(struct handler_threads *threads, struct handler *handler)
{
    mutex_lock(&threads->lock);
    if (threads->waiting == NULL)
        threads->waiting = handler;
    else
        threads->last_waiting->next_waiting = handler;
    threads->last_waiting = handler;
    condition_signal(&threads->work);
    mutex_unlock(&threads->lock);
}

bool handler_threads_serve(struct handler_threads *threads, int fd)
{
    struct handler *handler = handler_create(threads, fd);
    if (handler == NULL)
        return false;
    add_handler(threads, handler);
    if (threads->pool_size > 0) {
        add_waiting(threads, handler);
    } else if (thread_start(NULL, serve_one, handler) != 0) {
        remove_handler(threads, handler);
        handler_release(handler);
        count_down(threads);
        return false;
    }
    return true;
}

/* Asks all handlers, and wakes those that sleep until something happens to their clients. */
static void stop_all(struct handler_threads *threads) REQUIRES(&threads->lock)
{
    for (struct handler *handler = threads->all; handler != NULL; handler = handler->next)
        connection_ask(&handler->connection, ASK_STOP, 0);
    eventfd_write(threads->stop, 1);
}

/* Ends every send and every sleep, and makes later ones end at once. */
static void shut_all(struct handler_threads *threads) REQUIRES(&threads->lock)
{
    for (struct handler *handler = threads->all; handler != NULL; handler = handler->next) {
        connection_ask(&handler->connection, ASK_END, 0);
        shutdown(handler->connection.output.fd, SHUT_RDWR);
    }
}

static void wait_until_gone(struct handler_threads *threads)
{
    int64_t deadline = server_drain_end(threads->server);
    mutex_lock(&threads->lock);
    stop_all(threads);
    bool in_time = true;
    while (threads->count > 0 && in_time)
        in_time = condition_wait_until(&threads->gone, &threads->lock, deadline);

    shut_all(threads);
    service_cut_short(&threads->server->service);
    while (threads->count > 0)
        condition_wait(&threads->gone, &threads->lock);
    mutex_unlock(&threads->lock);
}

void handler_threads_close(struct handler_threads *threads)
{
    mutex_lock(&threads->lock);
    threads->stopping = true;
    condition_broadcast(&threads->work);
    mutex_unlock(&threads->lock);

    wait_until_gone(threads);
    for (size_t i = 0; i < threads->pool_size; i++)
        pthread_join(threads->pool[i], NULL);
    free(threads->pool);
    if (threads->stop >= 0)
        close(threads->stop);
    condition_destroy(&threads->gone);
    condition_destroy(&threads->work);
    mutex_destroy(&threads->lock);
    admission_destroy(&threads->admission);
}
