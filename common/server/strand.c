/*
 * The word `newest` says who runs a strand. Who changes it from NULL is inside, and goes on until
 * it has changed it back. All others only push their post in front, so they need no lock and leave
 * at once. Changing it back fails if a post has come meanwhile: so none is lost.
 */
#include "common/server/strand.h"

#include "common/base/clock.h"
#include "common/base/test_point.h"
#include "common/server/channel_calls_back.h"
#include "common/server/server.h"
#include "common/workers/executor.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

/* Two places of `newest` that are no posts. */
static struct channel_post busy;
static struct channel_post closed;

/* ---- The word ------------------------------------------------------------------------------ */

static bool is_post(const struct channel_post *post)
{
    return post != NULL && post != &busy && post != &closed;
}

/* Adds a post. False: it is closed. *enters: nobody was inside, so it is the caller now. */
static bool push(struct strand *strand, struct channel_post *post, bool *enters)
{
    struct channel_post *newest = atomic_load(&strand->newest);
    do {
        if (newest == &closed)
            return false;
        post->next = is_post(newest) ? newest : NULL;
    } while (!atomic_compare_exchange_weak(&strand->newest, &newest, post));
    *enters = newest == NULL;
    return true;
}

/* Takes what was posted, the oldest first. The caller is inside, and stays there. */
static struct channel_post *take_all(struct strand *strand)
{
    struct channel_post *newest = atomic_exchange(&strand->newest, &busy);
    struct channel_post *all = NULL;
    while (is_post(newest)) {
        struct channel_post *older = newest->next;
        newest->next = all;
        all = newest;
        newest = older;
    }
    return all;
}

/* False: something was posted meanwhile, so the caller is still inside. */
static bool leave(struct strand *strand, struct channel_post *as)
{
    struct channel_post *expected = &busy;
    const struct run *inside = strand->inside;
    TEST_POINT("strand: before it is left");
    strand->inside = NULL;
    if (atomic_compare_exchange_strong(&strand->newest, &expected, as))
        return true;
    strand->inside = inside;
    return false;
}

/*
 * Whether the calling thread may make the strand's own calls. Outside of a run that is main alone,
 * before `opened` and after all connections have ended.
 */
__attribute__((unused)) static bool is_own_call(const struct strand *strand)
{
    const struct run *run = run_own;
    return run != NULL ? strand->inside == run : !strand->is_open || strand->host->is_over;
}

/* ---- A turn -------------------------------------------------------------------------------- */

static void ask_host(struct strand_host *host)
{
    atomic_store(&host->asked, true);
    host->verbs->wake(host);
}

/* The host is inside from now on. */
static void leave_to_host(struct strand *strand)
{
    atomic_store(&strand->is_left, true);
    ask_host(strand->host);
}

/* What is due comes before what was posted: who asks for what has expired does not get it. */
static int fire_timers(struct strand *strand) NO_LOCK_HELD
{
    struct tree_timer *due;
    int count = 0;
    if (timer_tree_moment(&strand->timers) == INT64_MAX)
        return 0;
    int64_t now = clock_ms();
    while (count < STRAND_TURN && (due = timer_tree_take_due(&strand->timers, now)) != NULL) {
        struct channel_timer *timer = container_of(due, struct channel_timer, place);
        channel_timer_set_next(timer, &strand->timers, now);
        channel_timer_fire(timer);
        count++;
    }
    return count;
}

/* Before it is left: the host has to know of a timer that comes before those that it knows of. */
static void tell_due(struct strand *strand)
{
    int64_t moment = timer_tree_moment(&strand->timers);
    if (moment >= atomic_load(&strand->due))
        return;
    atomic_store(&strand->due, moment);
    ask_host(strand->host);
}

static void tell_whether_more(struct run *run, bool more)
{
    run->burst.more = more;
    if (run->burst.count > 0)
        burst_flush_old(&run->burst);
}

static void run_first(struct strand *strand, struct run *run) NO_LOCK_HELD
{
    struct channel_post *post = strand->taken;
    strand->taken = post->next; /* before it can be posted again, or freed */
    tell_whether_more(run, strand->taken != NULL);
    channel_post_run(post);
}

/*
 * Makes calls until there are none and it is left, or the turn is over. Output to one connection is
 * held back while more calls wait, as that of messages is (burst.h).
 */
static void take_turn(struct run_call *call, struct run *run) NO_LOCK_HELD
{
    struct strand *strand = container_of(call, struct strand, call);
    int calls = 0;
    bool is_inside = true;
    strand->inside = run;
    while (is_inside && calls < STRAND_TURN && run->burst.work < BURST_WORK) {
        if (strand->taken == NULL) {
            calls += fire_timers(strand);
            strand->taken = take_all(strand);
        }
        if (strand->taken != NULL) {
            run_first(strand, run);
            calls++;
        } else {
            tell_due(strand);
            is_inside = !leave(strand, NULL);
        }
    }
    tell_whether_more(run, false);
    if (!is_inside)
        return;
    strand->inside = NULL;
    leave_to_host(strand);
}

/* Like a post that is made at once: what is due comes before it. */
bool strand_enter(struct strand *strand)
{
    struct channel_post *expected = NULL;
    if (run_own == NULL || !atomic_compare_exchange_strong(&strand->newest, &expected, &busy))
        return false;
    strand->inside = run_own;
    fire_timers(strand);
    return true;
}

/* What was posted meanwhile this thread's run makes at its end, and is inside until then. */
void strand_leave(struct strand *strand)
{
    tell_due(strand);
    if (!leave(strand, NULL))
        run_add_call(run_own, &strand->call);
}

/* A run that is nobody's but the strand's. */
static void run_alone(struct strand *strand) NO_LOCK_HELD
{
    struct run run;
    run_begin(&run, NULL);
    run_add_call(&run, &strand->call);
    run_end(&run);
}

/* ---- The facade ---------------------------------------------------------------------------- */

static void facade_post(struct channel_facade *facade, struct channel_post *post) NO_LOCK_HELD
{
    struct strand *strand = strand_of(facade);
    struct run *run = run_own;
    bool enters;
    if (!push(strand, post, &enters))
        channel_post_drop(post);
    else if (enters && run != NULL)
        run_add_call(run, &strand->call);
    else if (enters)
        leave_to_host(strand);
}

static void facade_set_timer(struct channel_facade *facade, struct channel_timer *timer,
                             int64_t milliseconds)
{
    int64_t now = clock_ms();
    int64_t wait = milliseconds > 0 ? milliseconds : 0;
    assert(is_own_call(strand_of(facade)) && timer->fired != NULL);
    timer_tree_set(&strand_of(facade)->timers, &timer->place,
                   wait < INT64_MAX - now ? now + wait : INT64_MAX - 1);
}

static void facade_cancel_timer(struct channel_facade *facade, struct channel_timer *timer)
{
    assert(is_own_call(strand_of(facade)));
    timer_tree_cancel(&strand_of(facade)->timers, &timer->place);
}

static int facade_connect(struct channel_facade *facade, const struct endpoint *to, int64_t timeout,
                          struct input_handler_factory *factory) NO_LOCK_HELD
{
    struct strand_host *host = strand_of(facade)->host;
    assert(is_own_call(strand_of(facade)));
    return host->is_over ? ECANCELED : host->verbs->connect(host, to, timeout, factory);
}

/* ---- Tasks --------------------------------------------------------------------------------- */

static struct channel_task *task_of(struct future_task *future)
{
    return container_of(future, struct channel_task, future);
}

/* In a helper. */
static int call_task(struct future_task *future) NO_LOCK_HELD
{
    TEST_POINT("helper: before a task");
    channel_task_run(task_of(future));
    return 0;
}

/* In a helper, or whoever drops what helpers have not begun: they have ended. */
static void task_done(struct future_task *future) NO_LOCK_HELD
{
    struct channel_task *task = task_of(future);
    channel_post(task->channel, &task->result);
}

/* A result may have to wait for older ones, and younger ones may have waited for it. */
static void hear_result(struct channel_post *post, struct channel_facade *facade) NO_LOCK_HELD
{
    struct strand *strand = strand_of(facade);
    struct channel_task *task = container_of(post, struct channel_task, result);
    int result;
    task->is_back = true;
    while ((task = strand->begun) != NULL && task->is_back) {
        strand->begun = task->next;
        if (strand->begun == NULL)
            strand->last = &strand->begun;
        if (future_task_has_run(&task->future, &result))
            channel_task_complete(task);
        else
            channel_task_drop(task);
    }
}

static void facade_begin(struct channel_facade *facade, struct channel_task *task,
                         enum channel_meanwhile meanwhile) NO_LOCK_HELD
{
    struct strand *strand = strand_of(facade);
    struct executor *helpers = strand->server->helpers;
    (void)meanwhile;
    assert(is_own_call(strand));
    future_task_init(&task->future, NULL, call_task, task_done);
    task->future.task.fd = -1;
    task->result = (struct channel_post){.run = hear_result};
    task->channel = facade;
    task->is_back = false;
    task->next = NULL;
    *strand->last = task;
    strand->last = &task->next;
    if (helpers == NULL || !executor_submit(helpers, &task->future.task))
        task_run(&task->future.task);
}

/* ---- Verbs that want a connection ---------------------------------------------------------- */

static struct input_queue *no_input(struct channel_facade *facade)
{
    (void)facade;
    return NULL;
}

static enum output_result no_output(struct channel_facade *facade, struct piece piece)
{
    (void)facade;
    (void)piece;
    return OUTPUT_BROKEN;
}

static enum output_result nothing_to_flush(struct channel_facade *facade)
{
    (void)facade;
    return OUTPUT_BROKEN;
}

static void no_handler(struct channel_facade *facade, struct input_handler *handler)
{
    (void)facade;
    (void)handler;
}

static int no_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    (void)facade;
    *endpoint = (struct endpoint){0};
    return -1;
}

static enum end_reason no_end(struct channel_facade *facade)
{
    (void)facade;
    return END_NONE;
}

static void ignore(struct channel_facade *facade)
{
    (void)facade;
}

static const struct channel_facade_verbs facade_verbs = {
    .input = no_input,
    .enqueue = no_output,
    .flush = nothing_to_flush,
    .set_handler = no_handler,
    .suspend = ignore,
    .resume = ignore,
    .close = ignore,
    .reset = ignore,
    .finish = ignore,
    .connect = facade_connect,
    .post = facade_post,
    .set_timer = facade_set_timer,
    .cancel_timer = facade_cancel_timer,
    .begin = facade_begin,
    .peer = no_peer,
    .end_reason = no_end,
    .retain = ignore,
    .release = ignore,
};

/* ---- The host ------------------------------------------------------------------------------ */

/* The turn that this begins fires what is due. */
static void ignore_tick(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    (void)facade;
}

/* In a worker. It may open a connection, so the loop does not end meanwhile. */
static void work(struct task *task) NO_LOCK_HELD
{
    struct strand *strand = container_of(task, struct strand, task);
    struct strand_host *host = strand->host;
    run_alone(strand);
    if (atomic_fetch_sub(host->registered, 1) == 1)
        host->verbs->wake(host); /* nothing else keeps it from its end */
}

static void submit(struct executor *executor, struct task *task) NO_LOCK_HELD
{
    if (!executor_insist(executor, task))
        task_run(task);
}

/* A policy of saturation has dropped it, but it has to run. */
static void submit_again(struct task *task) NO_LOCK_HELD
{
    submit(container_of(task, struct strand, task)->host->executor, task);
}

/* Where handlers run. The host is inside. */
static void run_it(struct strand *strand) NO_LOCK_HELD
{
    static const struct task_verbs verbs = {.run = work, .dropped = submit_again};
    if (strand->host->executor == NULL) {
        run_alone(strand);
        return;
    }
    strand->task = (struct task){.verbs = &verbs, .fd = -1};
    atomic_fetch_add(strand->host->registered, 1);
    submit(strand->host->executor, &strand->task);
}

static void tick(struct strand *strand) NO_LOCK_HELD
{
    bool enters = false;
    if (atomic_exchange(&strand->tick.waits, strand->tick.run) == NULL)
        push(strand, &strand->tick, &enters);
    if (enters)
        run_it(strand);
}

/* `asked` goes first: who asks while this looks is looked at again. */
static void look(struct strand_host *host, int64_t now) NO_LOCK_HELD
{
    host->next = INT64_MAX;
    atomic_store(&host->asked, false);
    for (struct strand *strand = host->first; strand != NULL; strand = strand->next) {
        int64_t due = atomic_load(&strand->due);
        if (due <= now && atomic_compare_exchange_strong(&strand->due, &due, INT64_MAX))
            tick(strand);
        else if (due < host->next)
            host->next = due;
        if (atomic_exchange(&strand->is_left, false))
            run_it(strand);
    }
}

/* ---- Beginning and end --------------------------------------------------------------------- */

/* Main is inside all of them until it has made their first calls. */
static void begin(struct strand_host *host) NO_LOCK_HELD
{
    struct run run;
    run_begin(&run, NULL);
    for (struct strand *strand = host->first; strand != NULL; strand = strand->next) {
        strand->is_open = true;
        strand->inside = &run;
        if (strand->verbs != NULL && strand->verbs->opened != NULL)
            strand->verbs->opened(strand, &strand->facade);
        run_add_call(&run, &strand->call);
    }
    run_end(&run);
}

static void hear_stopping(struct channel_post *post, struct channel_facade *facade) NO_LOCK_HELD
{
    struct strand *strand = strand_of(facade);
    struct strand_host *host = strand->host;
    (void)post;
    if (strand->verbs != NULL && strand->verbs->stopping != NULL)
        strand->verbs->stopping(strand, facade);
    if (run_own != NULL)
        burst_flush(&run_own->burst);
    mutex_lock(&host->lock);
    if (--host->untold == 0)
        condition_broadcast(&host->told);
    mutex_unlock(&host->lock);
}

/* Main makes the calls, or waits for those that are inside. */
static void stop(struct strand_host *host) NO_LOCK_HELD
{
    struct run run;
    bool is_waiting = true;
    struct server *server = NULL;
    run_begin(&run, NULL);
    for (struct strand *strand = host->first; strand != NULL; strand = strand->next) {
        server = strand->server;
        mutex_lock(&host->lock);
        host->untold++;
        mutex_unlock(&host->lock);
        channel_post(&strand->facade, &strand->stop);
    }
    run_end(&run);
    mutex_lock(&host->lock);
    while (host->untold > 0 && is_waiting)
        is_waiting = condition_wait_until(&host->told, &host->lock, server_drain_end(server));
    mutex_unlock(&host->lock);
}

/* Nobody else is inside any more, and main stays. True: there was something. */
static bool run_rest(struct strand *strand) NO_LOCK_HELD
{
    bool any = false;
    while (strand->taken != NULL || (strand->taken = take_all(strand)) != NULL) {
        struct channel_post *post = strand->taken;
        strand->taken = post->next;
        if (strand->is_open)
            channel_post_run(post);
        else
            channel_post_drop(post);
        any = true;
    }
    return any;
}

static bool run_all_rests(struct strand_host *host) NO_LOCK_HELD
{
    bool any = false;
    for (struct strand *strand = host->first; strand != NULL; strand = strand->next)
        any = run_rest(strand) || any;
    return any;
}

/* Calls of one strand may post to the other ones, so none is closed before all are at rest. */
static void end(struct strand_host *host) NO_LOCK_HELD
{
    host->is_over = true;
    while (run_all_rests(host))
        continue;
    for (struct strand *strand = host->first; strand != NULL; strand = strand->next) {
        while (!leave(strand, &closed))
            run_rest(strand);
        if (strand->is_open && strand->verbs != NULL && strand->verbs->closed != NULL)
            strand->verbs->closed(strand);
    }
    condition_destroy(&host->told);
    mutex_destroy(&host->lock);
}

static const struct strand_calls calls = {.begin = begin, .stop = stop, .end = end, .look = look};

static void open_host(struct strand_host *host)
{
    mutex_init(&host->lock);
    condition_init(&host->told);
    host->calls = &calls;
}

bool strand_open(struct strand *strand, struct server *server, const struct strand_verbs *verbs)
{
    struct strand_host *host = server->strands;
    if (host == NULL) {
        fprintf(stderr, "%s: cannot open a strand: only stages 4 and 5 run strands\n",
                server->name);
        errno = 0;
        return false;
    }
    if (host->calls == NULL)
        open_host(host);
    *strand = (struct strand){.facade.verbs = &facade_verbs,
                              .verbs = verbs,
                              .server = server,
                              .host = host,
                              .newest = &busy,
                              .due = INT64_MAX,
                              .last = &strand->begun,
                              .call.make = take_turn,
                              .tick = {.run = ignore_tick, .facade = &strand->facade},
                              .stop.run = hear_stopping};
    struct strand **last = &host->first;
    while (*last != NULL)
        last = &(*last)->next;
    *last = strand;
    return true;
}
