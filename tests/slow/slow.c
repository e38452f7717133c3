/*
 * A server in slow motion: what `make slow` links a stage with, its main included (docs/slow.md).
 *
 * Each thread stops at each test point (common/base/test_point.h) until the terminal, which is
 * another process (slow.py), lets it go. The linker sends what a thread can wait in through here
 * (--wrap), so that the terminal sees which thread waits for which other one. The objects of the
 * server are those of the stages' tests; nothing of this is in them. What is wrapped are the names
 * in the WRAP lines, which the Makefile reads.
 *
 * Rules:
 * - Time stands still: the clock does not move, and nothing that waits stops waiting because of it.
 * So what happens depends on nothing but the order in which the terminal lets threads go.
 * - The environment's SLOW_FD is the socket to the terminal. It asks in lines: `state`, which is
 *   answered by a line of JSON, and `go TID`, which is not answered.
 * - At most 64 threads; a server with more ends.
 * - All that is kept here is guarded by a lock of its own, which no thread waits with.
 */
#define TEST_POINTS
#include "common/base/test_point.h"
#include "common/events/selector.h"
#include "common/server/connection.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64, HELD_MAX = 8, SELECTORS_MAX = 16, FDS_MAX = 1024 };

/* Declares and begins the function that is called instead of NAME; the original is __real_NAME. */
#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

/* Of stages 4 and 5: framework.c. */
void slow_write_queue(FILE *out) __attribute__((weak));

#define CALLER __builtin_return_address(0)

struct place {
    const void *lock;
    const void *caller; /* the code that took it, or waits for it */
};

struct seen_thread {
    pid_t tid;
    const char *state; /* runs, stopped, lock (waits for one), select (sleeps in it), waits */
    const char *point, *function, *file;
    int line;
    struct place waits;
    struct place held[HELD_MAX];
    size_t held_count;
    sem_t go;
};

static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
static struct seen_thread threads[THREADS_MAX];
static size_t thread_count;
static unsigned long changes; /* of anything; the terminal compares */
static struct selector *selectors[SELECTORS_MAX];
static size_t selector_count;
static struct connection *connections[FDS_MAX]; /* by descriptor */
static struct selection_key *keys[FDS_MAX];
static _Thread_local struct seen_thread *own;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);

static void begin(void)
{
    __real_pthread_mutex_lock(&own_lock);
    changes++;
    if (own == NULL) {
        if (thread_count == THREADS_MAX)
            _exit(EXIT_FAILURE);
        own = &threads[thread_count++];
        own->tid = gettid();
        own->state = "runs";
        own->point = own->function = own->file = "";
        sem_init(&own->go, 0, 0);
    }
}

static void end(void)
{
    __real_pthread_mutex_unlock(&own_lock);
}

static void set_state(const char *state, const void *lock, const void *caller)
{
    begin();
    own->state = state;
    own->waits = (struct place){lock, caller};
    end();
}

/* ---- Points -------------------------------------------------------------------------------- */

void test_point(const char *name, const char *function, const char *file, int line)
{
    begin();
    own->state = "stopped";
    own->point = name;
    own->function = function;
    own->file = file;
    own->line = line;
    end();
    sem_wait(&own->go);
    set_state("runs", NULL, NULL);
}

/* ---- Locks --------------------------------------------------------------------------------- */

static void note_taken(const void *lock, const void *caller)
{
    begin();
    own->state = "runs";
    if (own->held_count < HELD_MAX)
        own->held[own->held_count++] = (struct place){lock, caller};
    end();
}

/* Before it is let go, so that nobody is seen with a lock that another one has. */
static void note_let_go(const void *lock)
{
    begin();
    for (size_t i = own->held_count; i-- > 0;)
        if (own->held[i].lock == lock) {
            memmove(&own->held[i], &own->held[i + 1], (--own->held_count - i) * sizeof(*own->held));
            break;
        }
    end();
}

#define WRAP_TAKE(name, lock_type)                                                                 \
    WRAP(int, name, lock_type *lock)                                                               \
    {                                                                                              \
        set_state("lock", lock, CALLER);                                                           \
        int result = __real_##name(lock);                                                          \
        note_taken(lock, CALLER);                                                                  \
        return result;                                                                             \
    }
#define WRAP_LET_GO(name, lock_type)                                                               \
    WRAP(int, name, lock_type *lock)                                                               \
    {                                                                                              \
        note_let_go(lock);                                                                         \
        return __real_##name(lock);                                                                \
    }

WRAP_TAKE(pthread_mutex_lock, pthread_mutex_t)
WRAP_TAKE(pthread_rwlock_rdlock, pthread_rwlock_t)
WRAP_TAKE(pthread_rwlock_wrlock, pthread_rwlock_t)
WRAP_LET_GO(pthread_mutex_unlock, pthread_mutex_t)
WRAP_LET_GO(pthread_rwlock_unlock, pthread_rwlock_t)

/* ---- Sleep --------------------------------------------------------------------------------- */

WRAP(int, pthread_cond_wait, pthread_cond_t *condition, pthread_mutex_t *lock)
{
    note_let_go(lock);
    set_state("waits", NULL, CALLER);
    int result = __real_pthread_cond_wait(condition, lock);
    note_taken(lock, CALLER);
    return result;
}

WRAP(int, pthread_cond_timedwait, pthread_cond_t *condition, pthread_mutex_t *lock,
     const struct timespec *until)
{
    (void)until;
    return __wrap_pthread_cond_wait(condition, lock);
}

/* Called instead of NAME, which has these parameters: calls ORIGINAL with those arguments. */
#define WRAP_SLEEP(name, how, original, parameters, ...)                                           \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters                                                                   \
    {                                                                                              \
        set_state(how, NULL, CALLER);                                                              \
        int result = original(__VA_ARGS__);                                                        \
        set_state("runs", NULL, NULL);                                                             \
        return result;                                                                             \
    }

WRAP_SLEEP(epoll_wait, "select", __real_epoll_wait,
           (int fd, struct epoll_event *events, int most, int timeout), fd, events, most,
           timeout > 0 ? -1 : timeout)
WRAP_SLEEP(poll, "select", __real_poll, (struct pollfd * fds, nfds_t count, int timeout), fds,
           count, timeout > 0 && count > 0 ? -1 : timeout)

WRAP(int, clock_gettime, clockid_t clock, struct timespec *now)
{
    int result = __real_clock_gettime(clock, now);
    if (clock == CLOCK_MONOTONIC)
        *now = (struct timespec){.tv_sec = 1000000};
    return result;
}

/* The servers' only alarms would interrupt a sleep, and report what we have stopped. */
WRAP(int, setitimer, int which, const void *value, void *old)
{
    (void)which, (void)value, (void)old;
    return 0;
}

/* ---- What the server consists of ----------------------------------------------------------- */

WRAP(int, selector_open, struct selector *selector, const struct selector_provider *provider)
{
    begin();
    if (selector_count < SELECTORS_MAX)
        selectors[selector_count++] = selector;
    end();
    return __real_selector_open(selector, provider);
}

static void set_part(int fd, struct connection *connection, struct selection_key *key)
{
    begin();
    if (fd >= 0 && fd < FDS_MAX) {
        connections[fd] = connection;
        keys[fd] = key;
    }
    end();
}

WRAP(void, connection_open, struct connection *connection, const struct connection_home *home,
     int fd, struct input_handler *handler)
{
    __real_connection_open(connection, home, fd, handler);
    set_part(fd, connection, NULL);
}

/* It waits for the selector's lock inside, and is registered only then. */
WRAP(int, selector_register, struct selector *selector, struct selection_key *key, int fd,
     unsigned interest, void *attachment)
{
    int result = __real_selector_register(selector, key, fd, interest, attachment);
    if (fd < FDS_MAX && connections[fd] != NULL)
        set_part(fd, connections[fd], result == 0 ? key : NULL);
    return result;
}

WRAP(int, connection_detach, struct connection *connection)
{
    set_part(connection->output.fd, NULL, NULL);
    return __real_connection_detach(connection);
}

/* ---- For the terminal ---------------------------------------------------------------------- */

static void write_place(FILE *out, const struct place *place)
{
    fprintf(out, "[%ju,%ju],", (uintmax_t)(uintptr_t)place->lock,
            (uintmax_t)(uintptr_t)place->caller);
}

static void write_thread(FILE *out, const struct seen_thread *thread)
{
    fprintf(out,
            "{\"tid\":%d,\"state\":\"%s\",\"point\":\"%s\",\"function\":\"%s\",\"file\":\"%s\",",
            (int)thread->tid, thread->state, thread->point, thread->function, thread->file);
    fprintf(out, "\"line\":%d,\"places\":[", thread->line);
    write_place(out, &thread->waits);
    for (size_t i = 0; i < thread->held_count; i++)
        write_place(out, &thread->held[i]);
    fputs("]},", out);
}

static void write_connection(FILE *out, int fd)
{
    struct sockaddr_in peer = {0};
    socklen_t size = sizeof(peer);
    getpeername(fd, (struct sockaddr *)&peer, &size);
    fprintf(out, "{\"fd\":%d,\"port\":%d,\"input\":%zu,\"output\":%ju,\"interest\":%d},", fd,
            ntohs(peer.sin_port), input_queue_length(&connections[fd]->input),
            (uintmax_t)connections[fd]->output.length, keys[fd] != NULL ? keys[fd]->interest : 0);
}

/*
 * Each element of a list is followed by a comma, which the terminal knows. Nobody changes what is
 * read here, if everybody stands; otherwise the terminal asks again.
 */
static void write_state(FILE *out)
{
    __real_pthread_mutex_lock(&own_lock);
    fprintf(out, "{\"changes\":%lu,\"threads\":[", changes);
    for (size_t i = 0; i < thread_count; i++)
        write_thread(out, &threads[i]);
    fputs("],\"selectors\":[", out);
    for (size_t i = 0; i < selector_count; i++)
        fprintf(out, "%d,", atomic_load(&selectors[i]->sleep));
    fputs("],\"connections\":[", out);
    for (int fd = 0; fd < FDS_MAX; fd++)
        if (connections[fd] != NULL)
            write_connection(out, fd);
    fputs("]", out);
    if (slow_write_queue != NULL)
        slow_write_queue(out);
    fputs("}\n", out);
    __real_pthread_mutex_unlock(&own_lock);
    fflush(out); /* only now: nobody who waits for our lock must be seen asleep */
}

static void let_go(pid_t tid)
{
    __real_pthread_mutex_lock(&own_lock);
    changes++;
    for (size_t i = 0; i < thread_count; i++)
        if (threads[i].tid == tid && strcmp(threads[i].state, "stopped") == 0) {
            threads[i].state = "runs";
            sem_post(&threads[i].go);
        }
    __real_pthread_mutex_unlock(&own_lock);
}

static void *serve_terminal(void *argument)
{
    char line[64];
    int fd = *(int *)argument;
    FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
    pthread_setname_np(pthread_self(), "slow"); /* the terminal leaves it out */
    while (in != NULL && out != NULL && fgets(line, sizeof(line), in) != NULL)
        if (strncmp(line, "go ", 3) == 0)
            let_go((pid_t)atoi(line + 3));
        else
            write_state(out);
    _exit(0); /* the terminal has gone */
}

/* Before main. Its thread takes no signals, because the server's threads expect theirs. */
__attribute__((constructor)) static void find_terminal(void)
{
    static int fd;
    const char *text = getenv("SLOW_FD");
    pthread_t thread;
    sigset_t all, before;
    fd = text != NULL ? atoi(text) : -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (fd < 0 || pthread_create(&thread, NULL, serve_terminal, &fd) != 0) {
        fputs("slow: started by make slow only\n", stderr);
        exit(EXIT_FAILURE);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
