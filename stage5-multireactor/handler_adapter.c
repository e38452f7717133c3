#include "handler_adapter.h"

#include "common/clock.h"
#include "common/test_point.h"
#include "common/trace.h"
#include "dispatcher.h"

#include <errno.h>
#include <stdlib.h>

enum {
    MESSAGES_PER_RUN = 64, /* then the other connections get their turn */
    LAST_READS = 16,       /* what a stopping server still takes in, in reads */
};

/* What happens to a message. */
enum treatment { HANDLE, REFUSE, IGNORE };

static const struct channel_facade_verbs facade_verbs;

/* ---- Life cycle ---------------------------------------------------------------------------- */

struct handler_adapter *handler_adapter_create(struct dispatcher *dispatcher, int fd, bool urgent,
                                               struct input_handler *handler)
{
    struct server *server = dispatcher->server;
    struct handler_adapter *adapter = calloc(1, sizeof(*adapter));
    if (adapter == NULL)
        return NULL;
    adapter->facade.verbs = &facade_verbs;
    adapter->dispatcher = dispatcher;
    atomic_init(&adapter->references, 1);
    atomic_init(&adapter->wishes, WISH_READ);
    adapter->handler = handler;
    adapter->urgent = urgent;
    adapter->last_reads = LAST_READS;
    adapter->key.fd = fd;
    input_queue_init(&adapter->input, &server->buffers,
                     line_framing_input_limit(server->settings.max_line));
    output_queue_init(&adapter->output, &server->output_settings, fd);
    deadlines_start(&adapter->deadlines, clock_ms());
    mutex_init(&adapter->state_lock);
    mutex_lock(&adapter->state_lock);
    adapter->running = true;
    mutex_unlock(&adapter->state_lock);
    return adapter;
}

int handler_adapter_detach(struct handler_adapter *adapter)
{
    mutex_lock(&adapter->state_lock);
    adapter->dead = true; /* one that could not be registered had not come to that yet */
    mutex_unlock(&adapter->state_lock);
    output_queue_close(&adapter->output);
    input_queue_clear(&adapter->input);
    trace_event(TRACE_CLOSE, adapter->key.fd, 0);
    return adapter->key.fd;
}

void handler_adapter_release(struct handler_adapter *adapter)
{
    if (atomic_fetch_sub(&adapter->references, 1) > 1)
        return;
    output_queue_destroy(&adapter->output);
    mutex_destroy(&adapter->state_lock);
    free(adapter);
}

static void call_handler(struct handler_adapter *adapter, enum adapter_life life)
{
    struct input_handler *handler = adapter->handler;
    const struct input_handler_verbs *verbs = handler->verbs;
    void (*const calls[])(struct input_handler *, struct channel_facade *) = {
        [LIFE_STARTING] = verbs->starting,         [LIFE_STARTED] = verbs->started,
        [LIFE_END_OF_INPUT] = verbs->end_of_input, [LIFE_STOPPING] = verbs->stopping,
        [LIFE_STOPPED] = verbs->stopped,
    };
    if (calls[life] != NULL)
        calls[life](handler, &adapter->facade);
}

void handler_adapter_live_to(struct handler_adapter *adapter, enum adapter_life goal)
{
    while (adapter->life < goal)
        call_handler(adapter, (enum adapter_life)++ adapter->life);
}

/* ---- A run --------------------------------------------------------------------------------- */

bool handler_adapter_prepare_to_run(struct handler_adapter *adapter, unsigned ready)
{
    mutex_lock(&adapter->state_lock);
    bool possible = !adapter->running && !adapter->dead;
    if (possible) {
        adapter->running = true;
        adapter->ready = (uint8_t)ready;
    }
    mutex_unlock(&adapter->state_lock);
    return possible;
}

bool handler_adapter_must_run(const struct handler_adapter *adapter)
{
    return adapter->life < LIFE_STARTED || adapter->phase != ADAPTER_OPEN ||
           (atomic_load(&adapter->wishes) & (WISH_CLOSE | WISH_STOP | WISH_END | WISH_LATE)) != 0;
}

/* Keeps the books on what the socket has taken, and whether something waits for it. */
static void account(struct handler_adapter *adapter, bool waiting)
{
    uint64_t sent = output_queue_newly_sent(&adapter->output);
    counters_add(&adapter->dispatcher->counters, COUNTER_BYTES_OUT, sent);
    deadlines_output(&adapter->deadlines, clock_ms(), sent, waiting);
}

/* First: takes in what the socket has. 0, or the error that ends the connection. */
static int fill_input(struct handler_adapter *adapter)
{
    ssize_t received = input_queue_fill(&adapter->input, adapter->key.fd);
    if (received < 0)
        return errno == EAGAIN ? 0 : errno;
    if (received == 0)
        adapter->end_of_stream = true;
    counters_add(&adapter->dispatcher->counters, COUNTER_BYTES_IN, (uint64_t)received);
    deadlines_received(&adapter->deadlines, clock_ms());
    return 0;
}

void handler_adapter_take_in(struct handler_adapter *adapter)
{
    bool reads = adapter->phase == ADAPTER_OPEN && (adapter->ready & SELECT_READ) != 0;
    adapter->error = reads ? fill_input(adapter) : 0;
}

/* The server is stopping: takes in all that has arrived, as far as there is room. */
static int fill_up(struct handler_adapter *adapter)
{
    while (adapter->last_reads > 0) {
        size_t before = input_queue_length(&adapter->input);
        int error = fill_input(adapter);
        if (error != 0)
            return error == ENOBUFS ? 0 : error; /* again when there is room */
        adapter->last_reads--;
        if (input_queue_length(&adapter->input) == before)
            break;
    }
    adapter->end_of_stream = true;
    return 0;
}

/* Whether the handler is to get one more message in this run. */
static bool takes_message(struct handler_adapter *adapter)
{
    unsigned wishes = atomic_load(&adapter->wishes);
    return (wishes & (WISH_CLOSE | WISH_END)) == 0 && (wishes & (WISH_READ | WISH_STOP)) != 0 &&
           output_queue_look(&adapter->output) < OUTPUT_CHOKED;
}

/* Has the handler do with a message what is to be done with it; false if that ends it all. */
static bool treat(struct handler_adapter *adapter, struct message message, enum treatment how)
{
    struct input_handler *handler = adapter->handler;
    counters_add(&adapter->dispatcher->counters, COUNTER_MESSAGES, 1);
    deadlines_message(&adapter->deadlines);
    if (how == HANDLE)
        return handler->verbs->handle_input(handler, message, &adapter->facade);
    if (how == REFUSE && handler->verbs->refuse_input != NULL)
        handler->verbs->refuse_input(handler, message, &adapter->facade);
    return true;
}

/* Whether the answer to the last message goes on; if so, a piece of it is in the queue now. */
static bool answer_goes_on(struct handler_adapter *adapter)
{
    struct input_handler *handler = adapter->handler;
    return handler->verbs->continue_output != NULL &&
           handler->verbs->continue_output(handler, &adapter->facade);
}

/*
 * Second: hands out messages, `most` of them at the most. 0, or the error that ends it. What is
 * left may be bytes, or an answer that only its handler knows of.
 */
static int handle_messages(struct handler_adapter *adapter, int most, enum treatment how)
{
    struct message message;
    adapter->messages_left = true;
    for (int i = 0; i < most && takes_message(adapter); i++) {
        struct input_handler *handler = adapter->handler;
        if (answer_goes_on(adapter))
            continue;
        switch (handler->verbs->next_message(handler, &adapter->facade, &message)) {
        case FRAMING_MESSAGE:
            if (!treat(adapter, message, how))
                return ECONNABORTED;
            break;
        case FRAMING_INCOMPLETE: adapter->messages_left = false; return 0;
        case FRAMING_TOO_LONG:
            counters_add(&adapter->dispatcher->counters, COUNTER_TOO_LONG, 1);
            handler_adapter_wish(adapter, WISH_CLOSE);
            return 0;
        case FRAMING_NO_MEMORY: return ENOMEM;
        }
    }
    adapter->messages_left =
        adapter->handler->verbs->continue_output != NULL || !input_queue_is_empty(&adapter->input);
    return 0;
}

/* Its message is late: the handler may say so, and hears of no other. */
static void end_late(struct handler_adapter *adapter)
{
    struct input_handler *handler = adapter->handler;
    handler->verbs->timed_out(handler, &adapter->facade);
    handler_adapter_wish(adapter, WISH_CLOSE);
}

/* Third: says farewell to a handler that has had its last message. */
static void end_input(struct handler_adapter *adapter)
{
    bool asked = (atomic_load(&adapter->wishes) & WISH_CLOSE) != 0;
    if (adapter->phase != ADAPTER_OPEN)
        return;
    if (!asked && (!adapter->end_of_stream || adapter->messages_left))
        return;
    handler_adapter_live_to(adapter, LIFE_STOPPING);
    input_queue_clear(&adapter->input);
    adapter->messages_left = false;
    adapter->phase = ADAPTER_DRAINING;
}

/*
 * All is sent. The peer may be sending still, and a close would be answered to its next bytes as a
 * reset, which can overtake what we sent last. So what it sends is dropped until it has seen our
 * end of stream, or for so long.
 */
static void finish(struct handler_adapter *adapter)
{
    bool more = socket_discard(adapter->key.fd);
    if (adapter->end_of_stream || !more) {
        adapter->phase = ADAPTER_OVER;
        return;
    }
    shutdown(adapter->key.fd, SHUT_WR);
    deadlines_received(&adapter->deadlines, clock_ms());
    adapter->phase = ADAPTER_LINGERING;
}

/*
 * Drain, fill, messages, says the slide, and then drain what these have brought. The filling has
 * been done already, by the dispatcher.
 */
static int run_open(struct handler_adapter *adapter, int most, enum treatment how)
{
    int error = adapter->error;
    if ((adapter->ready & SELECT_WRITE) != 0)
        output_queue_drain(&adapter->output);
    output_queue_cork(&adapter->output);
    handler_adapter_live_to(adapter, LIFE_STARTED);
    if ((atomic_load(&adapter->wishes) & WISH_LATE) != 0)
        end_late(adapter);
    else if ((atomic_load(&adapter->wishes) & WISH_STOP) != 0 && !adapter->end_of_stream)
        error = fill_up(adapter);
    if (error == 0)
        error = handle_messages(adapter, most, how);
    if (error == 0)
        end_input(adapter);
    enum output_result result = output_queue_uncork(&adapter->output);
    bool partial = !adapter->messages_left && !input_queue_is_empty(&adapter->input);
    deadlines_framed(&adapter->deadlines, clock_ms(), partial);
    account(adapter, result != OUTPUT_FLOWING || adapter->messages_left);
    return error != 0 || result != OUTPUT_BROKEN ? error : EPIPE;
}

static int run_draining(struct handler_adapter *adapter)
{
    enum output_result result = output_queue_drain(&adapter->output);
    account(adapter, result != OUTPUT_FLOWING);
    return result == OUTPUT_BROKEN ? EPIPE : 0;
}

static int run(struct handler_adapter *adapter, int most, enum treatment how)
{
    int error = 0;
    if ((atomic_load(&adapter->wishes) & WISH_END) != 0)
        return ECONNABORTED;
    if (adapter->phase == ADAPTER_OPEN)
        error = run_open(adapter, most, how);
    else if (adapter->phase == ADAPTER_DRAINING)
        error = run_draining(adapter);
    else if (!socket_discard(adapter->key.fd))
        adapter->phase = ADAPTER_OVER;

    if (error == 0 && adapter->phase == ADAPTER_DRAINING &&
        output_queue_look(&adapter->output) == OUTPUT_FLOWING)
        finish(adapter);
    return error;
}

/* A run, and the last calls to the handler if the connection does not outlive it. */
static int run_and_bury(struct handler_adapter *adapter, int most, enum treatment how)
{
    trace_event(TRACE_RUN, adapter->key.fd, 0);
    int error = run(adapter, most, how);
    if (error == ENOMEM)
        server_no_memory(adapter->dispatcher->server, &adapter->dispatcher->counters);
    if (error != 0)
        adapter->phase = ADAPTER_OVER;
    if (adapter->phase == ADAPTER_OVER)
        handler_adapter_live_to(adapter, LIFE_STOPPED);
    trace_event(TRACE_RUN_DONE, adapter->key.fd, 0);
    return error;
}

int handler_adapter_call(struct handler_adapter *adapter)
{
    TEST_POINT("adapter: call");
    return run_and_bury(adapter, MESSAGES_PER_RUN, HANDLE);
}

void handler_adapter_refuse(struct handler_adapter *adapter, bool answer)
{
    int error = run_and_bury(adapter, 1, answer ? REFUSE : IGNORE);
    handler_adapter_done(adapter, error);
}

/* ---- Coordination with the dispatcher ------------------------------------------------------ */

/* Puts it into the status-change queue, once. True: the dispatcher must be woken. */
static bool enqueue_change(struct handler_adapter *adapter) REQUIRES(&adapter->state_lock)
{
    if (adapter->queued)
        return false;
    adapter->queued = true;
    return status_change_queue_put(&adapter->dispatcher->changes, adapter);
}

/* Has the dispatcher look at the adapter, if it is not going to anyway. True: it must be woken. */
static bool announce(struct handler_adapter *adapter) REQUIRES(&adapter->state_lock)
{
    return !adapter->running && !adapter->dead && enqueue_change(adapter);
}

/*
 * All in one step under the lock: whether it is dead is known before it can be seen (erratum 7),
 * and it does not stop running before it is in the queue (erratum 8), so that nobody else's change
 * can have it resumed in between.
 */
void handler_adapter_done(struct handler_adapter *adapter, int error)
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    TEST_POINT("adapter: before done");
    mutex_lock(&adapter->state_lock);
    adapter->dead = error != 0 || adapter->phase == ADAPTER_OVER;
    adapter->running = false;
    bool first = enqueue_change(adapter);
    mutex_unlock(&adapter->state_lock);
    if (first)
        dispatcher_wakeup(dispatcher);
    TEST_POINT("adapter: after done");
}

/* Whether there is something to do that no event will ask for. */
static bool wants_run(struct handler_adapter *adapter, enum output_result output)
{
    unsigned wishes = atomic_load(&adapter->wishes);
    if (adapter->life < LIFE_STARTED || (wishes & WISH_END) != 0)
        return true;
    if (adapter->phase != ADAPTER_OPEN) /* who lingers has sent his last byte anyway */
        return output == OUTPUT_BROKEN && adapter->phase != ADAPTER_LINGERING;
    if (output == OUTPUT_BROKEN)
        return true;
    bool stops = (wishes & WISH_STOP) != 0 && !adapter->end_of_stream;
    bool goes_on = adapter->messages_left && (wishes & (WISH_READ | WISH_STOP)) != 0 &&
                   output != OUTPUT_CHOKED;
    return stops || goes_on || (wishes & (WISH_CLOSE | WISH_LATE)) != 0;
}

/* What to wait for until the next run. Output that is held back waits for its time instead. */
static unsigned rest_interest(struct handler_adapter *adapter, enum output_result output,
                              int64_t due)
{
    unsigned interest = output == OUTPUT_FLOWING || due != 0 ? SELECT_NOTHING : SELECT_WRITE;
    if (adapter->phase == ADAPTER_LINGERING)
        return SELECT_READ;
    if (adapter->phase == ADAPTER_OPEN && (atomic_load(&adapter->wishes) & WISH_READ) != 0 &&
        !adapter->end_of_stream && !adapter->messages_left && output != OUTPUT_CHOKED)
        interest |= SELECT_READ;
    return interest;
}

/*
 * A close that was asked for waits for the output, but not for ever: then the peer has to read on,
 * or the drain timeout ends it.
 */
static struct deadline_limits limits_of(const struct handler_adapter *adapter)
{
    const struct server_settings *settings = &adapter->dispatcher->server->settings;
    struct deadline_limits limits = settings->deadlines;
    int64_t drain = settings->drain_timeout > 0 ? settings->drain_timeout : 1;
    if (adapter->phase == ADAPTER_DRAINING && (limits.progress == 0 || limits.progress > drain))
        limits.progress = drain;
    return limits;
}

/* When to look at it again if nothing happens. */
static int64_t rest_moment(const struct handler_adapter *adapter, int64_t due, int64_t now)
{
    if (adapter->phase == ADAPTER_LINGERING)
        return deadlines_active(&adapter->deadlines, now) + SERVER_LINGER_MS;
    struct deadline_limits limits = limits_of(adapter);
    int64_t moment = deadlines_next(&adapter->deadlines, &limits, now);
    return due != 0 && due < moment ? due : moment;
}

enum adapter_status handler_adapter_status(struct handler_adapter *adapter,
                                           struct adapter_rest *rest)
{
    enum adapter_status status;
    mutex_lock(&adapter->state_lock);
    adapter->queued = false;
    if (adapter->running) {
        status = ADAPTER_IS_RUNNING;
    } else if (adapter->dead) {
        status = ADAPTER_IS_DEAD;
    } else {
        enum output_result output = output_queue_look(&adapter->output);
        int64_t due = output == OUTPUT_FLOWING ? 0 : output_queue_due(&adapter->output);
        status = wants_run(adapter, output) ? ADAPTER_WANTS_RUN : ADAPTER_WANTS_REST;
        if (output != OUTPUT_FLOWING)
            account(adapter, true); /* others may have enqueued it */
        rest->interest = rest_interest(adapter, output, due);
        rest->moment = rest_moment(adapter, due, adapter->dispatcher->now);
        adapter->watching = (uint8_t)rest->interest;
    }
    trace_event(TRACE_CHANGE_APPLIED, adapter->key.fd, status);
    mutex_unlock(&adapter->state_lock);
    return status;
}

/* Changes the wishes; while the adapter runs, the change takes effect when it is done. */
static void change_wishes(struct handler_adapter *adapter, unsigned set, unsigned reset)
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    mutex_lock(&adapter->state_lock);
    unsigned before = atomic_load(&adapter->wishes);
    unsigned after = (before | set) & ~reset;
    atomic_store(&adapter->wishes, after);
    bool first = before != after && announce(adapter);
    mutex_unlock(&adapter->state_lock);
    if (first)
        dispatcher_wakeup(dispatcher);
}

void handler_adapter_wish(struct handler_adapter *adapter, enum adapter_wish wish)
{
    change_wishes(adapter, wish, 0);
}

/* Its time is over. */
static void expire(struct handler_adapter *adapter, enum deadline passed)
{
    struct server *server = adapter->dispatcher->server;
    counters_add(&adapter->dispatcher->counters, COUNTER_TIMED_OUT, 1);
    trace_event(TRACE_TIMER, adapter->key.fd, passed);
    log_write(&server->log, LOG_LEVEL_INFO, "closed a client: %s", deadline_name(passed));
    bool told = passed == DEADLINE_REQUEST && adapter->handler->verbs->timed_out != NULL;
    if (told)
        deadlines_framed(&adapter->deadlines, 0, false); /* its time is not running any more */
    handler_adapter_wish(adapter, told ? WISH_LATE : WISH_END);
}

/* While it runs, its age alone can be told, which does not change; all else is the runner's. */
static int64_t expire_running(struct handler_adapter *adapter, int64_t lifetime, int64_t now)
{
    if (lifetime == 0)
        return INT64_MAX;
    int64_t end = deadlines_born(&adapter->deadlines, now) + lifetime;
    if (now < end)
        return end;
    if ((atomic_load(&adapter->wishes) & WISH_END) == 0)
        expire(adapter, DEADLINE_LIFETIME);
    return INT64_MAX;
}

/* The deadlines of one that rests. True if one has passed. */
static bool expire_resting(struct handler_adapter *adapter, int64_t now)
{
    struct deadline_limits limits = limits_of(adapter);
    /* Output that others enqueued may have left without a run. */
    account(adapter,
            output_queue_look(&adapter->output) != OUTPUT_FLOWING || adapter->messages_left);
    enum deadline passed = deadlines_passed(&adapter->deadlines, &limits, now);
    if (passed == DEADLINE_NONE)
        return false;
    if (passed == DEADLINE_PROGRESS && socket_is_writable(adapter->key.fd)) {
        deadlines_restart_progress(&adapter->deadlines, now); /* it is we who are slow */
        return false;
    }
    expire(adapter, passed);
    return true;
}

/* It lingers: its peer has had its time to read what we sent last. */
static bool expire_lingering(struct handler_adapter *adapter, int64_t now)
{
    bool over = now >= rest_moment(adapter, 0, now);
    if (over)
        handler_adapter_wish(adapter, WISH_END);
    return over;
}

int64_t handler_adapter_expire(struct handler_adapter *adapter, int64_t now)
{
    mutex_lock(&adapter->state_lock);
    bool running = adapter->running;
    bool dead = adapter->dead;
    mutex_unlock(&adapter->state_lock);
    if (dead)
        return INT64_MAX;
    if (running)
        return expire_running(adapter, adapter->dispatcher->server->settings.deadlines.lifetime,
                              now);
    bool over = adapter->phase == ADAPTER_LINGERING ? expire_lingering(adapter, now)
                                                    : expire_resting(adapter, now);
    return over ? INT64_MAX : rest_moment(adapter, output_queue_due(&adapter->output), now);
}

bool handler_adapter_is_due(struct handler_adapter *adapter)
{
    mutex_lock(&adapter->state_lock);
    bool watched = adapter->running || adapter->dead || (adapter->watching & SELECT_WRITE) != 0;
    mutex_unlock(&adapter->state_lock);
    return !watched && output_queue_look(&adapter->output) != OUTPUT_FLOWING &&
           output_queue_due(&adapter->output) == 0;
}

struct handler_adapter *handler_adapter_of_timer(struct timer *timer)
{
    return (struct handler_adapter *)(void *)((char *)timer -
                                              offsetof(struct handler_adapter, timer));
}

/* ---- The facade ---------------------------------------------------------------------------- */

static struct handler_adapter *adapter_of(struct channel_facade *facade)
{
    return (struct handler_adapter *)facade;
}

static struct input_queue *facade_input(struct channel_facade *facade)
{
    return &adapter_of(facade)->input;
}

/* After output was enqueued: the dispatcher may have to watch for something else now. */
static enum output_result after_enqueue(struct handler_adapter *adapter, enum output_result result)
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    if (result == OUTPUT_REFUSED)
        handler_adapter_wish(adapter, WISH_END);
    if (result == OUTPUT_FLOWING || result == OUTPUT_REFUSED)
        return result;
    mutex_lock(&adapter->state_lock);
    bool broken = result == OUTPUT_BROKEN; /* with nothing to read, no event tells of it */
    bool unwatched = (adapter->watching & SELECT_WRITE) == 0;
    bool still_read = result == OUTPUT_CHOKED && (adapter->watching & SELECT_READ) != 0;
    bool first = (broken || unwatched || still_read) && announce(adapter);
    mutex_unlock(&adapter->state_lock);
    if (first)
        dispatcher_wakeup(dispatcher);
    return result;
}

static enum output_result facade_enqueue(struct channel_facade *facade, struct message message)
{
    struct handler_adapter *adapter = adapter_of(facade);
    return after_enqueue(adapter, output_queue_enqueue(&adapter->output, message));
}

static enum output_result facade_enqueue_shared(struct channel_facade *facade,
                                                struct shared_message *message)
{
    struct handler_adapter *adapter = adapter_of(facade);
    return after_enqueue(adapter, output_queue_enqueue_shared(&adapter->output, message));
}

static enum output_result facade_enqueue_file(struct channel_facade *facade,
                                              struct shared_file *file, size_t offset,
                                              size_t length)
{
    struct handler_adapter *adapter = adapter_of(facade);
    return after_enqueue(adapter,
                         output_queue_enqueue_file(&adapter->output, file, offset, length));
}

static void facade_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    adapter_of(facade)->handler = handler;
}

static unsigned facade_interest(struct channel_facade *facade)
{
    unsigned wishes = atomic_load(&adapter_of(facade)->wishes);
    return (wishes & WISH_READ) != 0 ? SELECT_READ : SELECT_NOTHING;
}

static void facade_modify_interest(struct channel_facade *facade, unsigned set, unsigned reset)
{
    change_wishes(adapter_of(facade), (set & SELECT_READ) != 0 ? WISH_READ : 0,
                  (reset & SELECT_READ) != 0 ? WISH_READ : 0);
}

static void facade_close(struct channel_facade *facade)
{
    handler_adapter_wish(adapter_of(facade), WISH_CLOSE);
}

static bool facade_set_write_rate(struct channel_facade *facade, uint64_t bytes_per_second)
{
    output_queue_set_rate(&adapter_of(facade)->output, bytes_per_second);
    return true;
}

static void facade_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    struct handler_adapter *adapter = adapter_of(facade);
    mutex_lock(&adapter->state_lock);
    endpoint_of_peer(endpoint, adapter->dead ? -1 : adapter->key.fd);
    mutex_unlock(&adapter->state_lock);
}

static void facade_retain(struct channel_facade *facade)
{
    atomic_fetch_add(&adapter_of(facade)->references, 1);
}

static void facade_release(struct channel_facade *facade)
{
    handler_adapter_release(adapter_of(facade));
}

static const struct channel_facade_verbs facade_verbs = {
    .input = facade_input,
    .enqueue = facade_enqueue,
    .enqueue_shared = facade_enqueue_shared,
    .enqueue_file = facade_enqueue_file,
    .set_handler = facade_set_handler,
    .interest = facade_interest,
    .modify_interest = facade_modify_interest,
    .close = facade_close,
    .set_write_rate = facade_set_write_rate,
    .peer = facade_peer,
    .retain = facade_retain,
    .release = facade_release,
};
