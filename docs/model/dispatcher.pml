/*
 * The dispatcher: stage4-framework/dispatcher.c, and the threads of its executor.
 */
chan tasks = [CONNECTIONS + 1] of { byte }; /* the executor's queue; there is always room */

/* Any thread but the dispatcher's. */
inline dispatcher_register_channel(a) {
    selector_guard_acquire();
    selector_register(a);
#ifdef ERRATUM_3
    atomic { !user_list_locked -> adapter[a].started = true }
    selector_guard_release();
#endif
#ifdef ERRATUM_3
    handler_adapter_done(a)
#else
    GIVE_TO_DISPATCHER(a); /* handler_adapter_done() with RUN_NONE */
    first = false;
    selector_guard_release()
#endif
}

#if CONNECTS
/* A worker, in a run of another connection. */
inline connector_connect(a) {
    atomic { adapter[a].gone = false; SAY2("%e: opens connection %d\n", me, a) }
#ifdef CONNECT_WITHOUT_GUARD
    selector_register(a);
    handler_adapter_done(a)
#else
    dispatcher_register_channel(a)
#endif
}
#endif

/* What nobody is going to look at any more is reset, for the sake of fewer states. */
inline drop_adapter(a) {
    selector_cancel(a);
    atomic {
        adapter[a].gone = true;
        adapter[a].asked_read = false;
        adapter[a].asked_end = false;
        adapter[a].output = false;
        adapter[a].broken = false;
        adapter[a].watching = NOTHING
    }
}

inline resume_selection(a) {
    atomic {
        assert(!adapter[a].over);    /* a dead adapter is never resumed */
        assert(!adapter[a].running); /* nor is one that somebody runs */
        selector_interest(a, interest)
    }
#ifdef WATCHING_LATE
    adapter[a].watching = interest
#endif
}

#if WORKERS == 0
/* stage5-multireactor/dispatcher.c. */
inline run_here(a) {
    handler_future_task_call(a);
    handler_adapter_done_here(a);
    if
    :: status == ADAPTER_IS_DEAD -> drop_adapter(a)
    :: status == ADAPTER_WANTS_REST -> resume_selection(a)
    :: else
    fi
}
#endif

inline dispatcher_execute(a) {
#if WORKERS == 0
    run_here(a)
#else
    atomic { tasks ! a; SAY1("dispatcher: has a worker run connection %d\n", a) }
#endif
}

/* For an event or for a change. A run for an event is over before the next select, if it is here. */
inline invoke_handler(a, by_event) {
    handler_adapter_prepare_to_run(a);
    if
    :: possible ->
        possible = false;
        if
        :: WORKERS == 0 && by_event
        :: else -> selector_interest(a, NOTHING)
        fi;
        dispatcher_execute(a)
    :: else
    fi
}

/* It is not read again, unless the queue is broken. */
#ifdef NO_COALESCE
#define FORGET_NEXT_CHANGED(a) skip
#else
#define FORGET_NEXT_CHANGED(a) adapter[a].next_changed = NOBODY
#endif

inline check_status_change_queue() {
    status_change_queue_take_all(next);
    do
    :: next == NOBODY -> break
    :: else ->
        atomic {
            this = next;
#ifndef NEXT_READ_LATE
            next = adapter[this].next_changed;
            FORGET_NEXT_CHANGED(this)
#endif
            assert(!adapter[this].gone) /* what is in the queue is there */
        }
        handler_adapter_status(this);
        if
        :: status == ADAPTER_IS_RUNNING
        :: status == ADAPTER_IS_DEAD -> drop_adapter(this)
        :: status == ADAPTER_WANTS_RUN -> invoke_handler(this, false)
        :: status == ADAPTER_WANTS_REST -> resume_selection(this)
        fi;
        atomic {
#ifdef NEXT_READ_LATE
            next = adapter[this].next_changed;
#endif
            status = 0;
            interest = NOTHING;
            this = 0
        }
    od;
    next = 0
}

/* Time is left out: it sleeps without a limit, or not at all. */
inline select_timeout() {
#ifdef SLEEP_ON_QUEUE
    sleeps = true
#else
    sleeps = (queue_first == NOBODY)
#endif
}

/*
 * What was cancelled, or is not wanted any more, was struck out from the selected keys. In C they
 * come in the kernel's order, here in ours.
 */
inline dispatcher_dispatch() {
    do
    :: selector_guard_barrier();
        select_timeout();
        selector_select();
        check_status_change_queue();
        do
        :: atomic {
                do
                :: this < CONNECTIONS && key[this].ready == NOTHING -> this++
                :: else -> break
                od;
                if
                :: this < CONNECTIONS -> key[this].ready = NOTHING
                :: else -> this = 0; break
                fi
            }
            invoke_handler(this, true);
            atomic {
                status = 0;
                interest = NOTHING;
                this = 0
            }
        od
    od
}

proctype dispatcher() {
    byte next, this;
    mtype:adapter_status status;
    unsigned interest : 2;
    bool possible, sleeps;
#if WORKERS == 0
    mtype:thread me = dispatcher_1;
    bool first; /* of its own changes: nobody has to wake it */
#endif
    dispatcher_dispatch()
}

#if CONNECTS
bool has_connected; /* connection 0 */
#endif

proctype worker(mtype:thread me) {
    byte this;
    bool first;
end_idle:
    do
    :: tasks ? this;
        handler_future_task_call(this);
#if CONNECTS
        if
        :: this == 0 && !has_connected -> has_connected = true; connector_connect(1)
        :: else
        fi;
#endif
#ifdef INTEREST_WITHOUT_LOCK
        atomic { assert(!selector_lock); key[this].interest = READ }
#endif
        handler_adapter_done(this);
        this = 0
    od
}
