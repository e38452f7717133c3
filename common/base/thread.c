#include "common/base/thread.h"

#include "common/base/container_of.h"
#include "common/base/list.h"
#include "common/base/lock.h"
#include "common/base/signals.h"
#include "common/base/text.h"
#include "common/base/trace.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Thread_local atomic_int *thread_serves;

/* ---- The list of threads ------------------------------------------------------------------- */

struct listed_thread {
    struct list_link link;
    char name[THREAD_NAME_SIZE];
};

/*
 * A signal handler reads the list under its lock, which is safe for one reason: handlers run in
 * main, and main is never listed, so it is never interrupted while it holds the lock. Whoever else
 * holds it lets it go again, because nothing below waits for anything with the lock held.
 */
static struct mutex list_lock = {PTHREAD_MUTEX_INITIALIZER};
static struct list_link list GUARDED_BY(&list_lock) = {&list, &list};
static _Thread_local struct listed_thread own;
static _Thread_local bool is_named; /* own.link does not tell: neighbours in the list write that */
static pthread_key_t at_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void leave_list(void *thread)
{
    struct listed_thread *listed = thread;
    mutex_lock(&list_lock);
    list_remove(&listed->link);
    mutex_unlock(&list_lock);
}

static void make_key(void)
{
    LOCK_CALL(pthread_key_create(&at_end, leave_list));
}

/* Lists the calling thread under a name; the key's destructor takes it out when the thread ends. */
static void enter_list(const char *name)
{
    pthread_once(&once, make_key);
    bool is_new = pthread_getspecific(at_end) == NULL;
    if (is_new && pthread_setspecific(at_end, &own) != 0)
        return;
    mutex_lock(&list_lock);
    memcpy(own.name, name, THREAD_NAME_SIZE);
    is_named = true;
    if (is_new)
        list_insert_behind(list.previous, &own.link);
    mutex_unlock(&list_lock);
}

static void append_name(struct growing_text *growing, const char *name, size_t namesakes)
{
    text_append(growing, growing->length > 0 ? ", " : "");
    text_append(growing, name);
    if (namesakes > 1) {
        text_append(growing, " (");
        text_append_number(growing, namesakes, 10);
        text_append(growing, " of them)");
    }
}

static struct listed_thread *listed_of(struct list_link *link)
{
    return container_of(link, struct listed_thread, link);
}

/* The first thread behind this one that has another name. */
static struct list_link *skip_namesakes(struct list_link *link, size_t *count) REQUIRES(&list_lock)
{
    const char *name = listed_of(link)->name;
    for (*count = 0; link != &list && strcmp(listed_of(link)->name, name) == 0; link = link->next)
        ++*count;
    return link;
}

size_t thread_list(char *text, size_t size)
{
    static const char cut[] = ", ...";
    enum { ENTRY_SIZE = THREAD_NAME_SIZE + 40 }; /* the longest entry, with its number */
    struct growing_text growing = {text, size, 0};
    text[0] = '\0';
    mutex_lock(&list_lock);
    struct list_link *link = list.next;
    while (link != &list && growing.length + ENTRY_SIZE + sizeof(cut) <= size) {
        size_t namesakes;
        const char *name = listed_of(link)->name;
        link = skip_namesakes(link, &namesakes);
        append_name(&growing, name, namesakes);
    }
    if (link != &list)
        text_append(&growing, growing.length > 0 ? cut : cut + 2);
    mutex_unlock(&list_lock);
    return growing.length;
}

/* ---- Starting ------------------------------------------------------------------------------ */

/* Some systems want more than we do. */
static size_t stack_size(void)
{
    size_t min = (size_t)PTHREAD_STACK_MIN;
    return THREAD_STACK_SIZE > min ? THREAD_STACK_SIZE : min;
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    pthread_t nobody_joins;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    error = pthread_attr_setstacksize(&attributes, stack_size());
    if (error == 0 && thread == NULL)
        error = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (error == 0) {
        sigset_t before;
        signals_block(&before); /* a new thread begins with its creator's mask */
        error = pthread_create(thread != NULL ? thread : &nobody_joins, &attributes, run, argument);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    return error;
}

/* ---- Names --------------------------------------------------------------------------------- */

void thread_set_name(const char *format, ...)
{
    char cut[THREAD_NAME_SIZE] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cut, sizeof(cut), format, arguments);
    va_end(arguments);
    pthread_setname_np(pthread_self(), cut);
    trace_thread(cut);
    enter_list(cut);
}

void thread_name(char name[THREAD_NAME_SIZE])
{
    memcpy(name, is_named ? own.name : "main", is_named ? THREAD_NAME_SIZE : sizeof("main"));
}
