/*
 * The handler adapter: stage4-framework/handler_adapter.c, without the bytes.
 *
 * A section under the state lock is one step: what it touches is touched with that lock only, or
 * in one piece. The lock is there all the same, because a step may have to wait inside
 * (BOUNDED_QUEUE), and then waits with the lock held.
 */
typedef handler_adapter {
    bool asked_read;       /* ASK_SUSPEND is not set */
    bool asked_end;        /* ASK_END */
    bool output;          /* output waits until the socket takes it */
    bool broken;          /* the output queue has lost what it had, and takes nothing any more */

    bool posted;          /* a result waits in the list of posts */
    bool closed;          /* the list takes none any more: `stopped` has been called */

    /* The runner's. */
    bool started;         /* life: `started` has been called */
    bool connecting;      /* phase: CONNECTION_CONNECTING */
    bool over;            /* phase: ADAPTER_OVER, and `stopped` has been called */
    bool messages_left;

    /* Under the state lock. */
    bool state_lock;
    bool running;         /* a worker has it, or soon will */
    bool queued;          /* it is in the status-change queue */
    bool dead;            /* it will never run again */
    unsigned watching : 2;
    byte next_changed;    /* the queue's */

    /* Not in C: for the properties. */
    unsigned runners : 2; /* threads between the beginning of a run and the end of its done() */
    bool under_way;       /* a task, whose result has been neither heard nor dropped */
    bool gone;            /* unregistered, or not registered yet */
};

handler_adapter adapter[CONNECTIONS];

#define LOCK_STATE(a)   !adapter[a].state_lock -> adapter[a].state_lock = true
#define UNLOCK_STATE(a) adapter[a].state_lock = false

/* The end of a function that may have to wake the dispatcher. */
#define WAKE_IF_FIRST \
    if \
    :: first -> first = false; selector_wakeup() \
    :: else \
    fi

inline handler_adapter_create(a) {
    adapter[a].asked_read = true;
    adapter[a].running = true;
    adapter[a].runners = 1;
    adapter[a].next_changed = NOBODY;
    adapter[a].under_way = TASK && a == 0;
    adapter[a].connecting = CONNECTS && a == 1;
    adapter[a].gone = CONNECTS && a == 1 /* it is not there yet */
}

inline handler_adapter_prepare_to_run(a) {
    atomic {
        LOCK_STATE(a);
        possible = !adapter[a].running && !adapter[a].dead;
        adapter[a].running = adapter[a].running || possible;
        UNLOCK_STATE(a)
    }
}

#if TASK
/* Part of a run: the result is in. */
inline run_posts(a) {
    if
    :: adapter[a].posted ->
        assert(!adapter[a].over); /* nothing is heard after `stopped` */
        adapter[a].posted = false;
        adapter[a].under_way = false;
        SAY2("%e: hears the result for connection %d\n", me, a)
    :: else
    fi
}

/* After `stopped`: what waits is dropped here, and what comes later by whoever posts it. */
inline close_posts(a) {
    atomic {
        if
        :: adapter[a].over || adapter[a].gone ->
#ifndef POSTS_LEFT_OPEN
            adapter[a].closed = true;
#endif
            adapter[a].under_way = adapter[a].under_way && !adapter[a].posted;
            adapter[a].posted = false
        :: else
        fi
    }
}

#ifdef POST_OUTSIDE_LOCK
#define POST_UNDER_LOCK(a) skip
#else
#define POST_UNDER_LOCK(a) connection_post(a)
#endif

inline connection_post(a) {
    if
    :: adapter[a].closed -> adapter[a].under_way = false
    :: else -> adapter[a].posted = true
    fi
}

/* What is dropped, the helper drops: one step more or less makes no difference to anybody else. */
inline handler_adapter_post(a) {
    atomic {
        LOCK_STATE(a);
        POST_UNDER_LOCK(a);
#ifndef POST_UNANNOUNCED
        announce(a);
#endif
        UNLOCK_STATE(a);
        SAY2("%e: posts the result for connection %d\n", me, a)
    }
    WAKE_IF_FIRST
#ifdef POST_OUTSIDE_LOCK
    ; atomic { connection_post(a) }
#endif
}
#endif

#if CONNECTS
/*
 * Part of a run: whether an outgoing connection has come about (connection_outgoing.c). The run may
 * be for something else, and then nothing has changed.
 */
inline come(a) {
    if
    :: adapter[a].connecting && connect_answered ->
        adapter[a].connecting = false;
        if
        :: SAY2("%e: connection %d is connected\n", me, a)
        :: adapter[a].over = true; SAY2("%e: connection %d is refused\n", me, a)
        fi
    :: else
    fi
}
#endif

/* A run: what a handler may do with its messages comes down to a few choices. */
inline handler_future_task_call(a) {
#ifdef USER_LIST
    adapter[a].started || !user_list_locked; /* `started` wants the user list */
#endif
    atomic {
        SAY2("%e: begins to run connection %d\n", me, a);
        adapter[a].runners++;
        assert(adapter[a].runners == 1); /* never two runs of one adapter at once */
        assert(!adapter[a].over);        /* a dead adapter never runs */
#if CONNECTS
        come(a);
#endif
        adapter[a].started = adapter[a].started || !(adapter[a].connecting || adapter[a].over);
#if TASK
        run_posts(a);
#endif
        if
        :: !adapter[a].asked_end && !adapter[a].broken && !adapter[a].over
        :: adapter[a].over
        :: adapter[a].asked_end || adapter[a].broken || RUN_MAY_END -> adapter[a].over = true
        fi;
        if
        :: adapter[a].over ->
            adapter[a].messages_left = false;
            adapter[a].output = false;
            SAY2("%e: has run connection %d, which is over\n", me, a)
        :: else ->
            if
            :: MESSAGES && !silent -> adapter[a].messages_left = true
            :: adapter[a].asked_read -> adapter[a].messages_left = false
            :: !adapter[a].asked_read /* has to stay as it is */
            fi;
            if
            :: adapter[a].output -> adapter[a].output = false
            :: true
            fi;
            SAY2("%e: has run connection %d\n", me, a)
        fi;
#ifdef RUNNING_CLEARED_EARLY
        adapter[a].running = false
#endif
    }
#if TASK
    close_posts(a)
#endif
}

/* Part of a step under the state lock. */
inline enqueue_change(a) {
    if
#ifndef NO_COALESCE
    :: adapter[a].queued
#endif
    :: else -> adapter[a].queued = true; status_change_queue_put(a)
    fi
}

/* Part of a step under the state lock. */
inline announce(a) {
    if
    :: !adapter[a].running && !adapter[a].dead -> enqueue_change(a)
    :: else
    fi
}

#ifdef DIE_AFTER_ENQUEUE
#define MARK_DEAD(a) skip
#else
#define MARK_DEAD(a) adapter[a].dead = adapter[a].over
#endif

/* The end of a run, and of a registration. */
#define GIVE_TO_DISPATCHER(a) \
    atomic { \
        LOCK_STATE(a); \
        MARK_DEAD(a); \
        adapter[a].running = false; \
        adapter[a].runners--; \
        enqueue_change(a); \
        UNLOCK_STATE(a) \
    }

inline handler_adapter_done(a) {
#ifdef WAKE_BEFORE_PUT
    selector_wakeup();
#endif
    GIVE_TO_DISPATCHER(a)
#ifdef DIE_AFTER_ENQUEUE
    adapter[a].dead = adapter[a].over;
#endif
#ifdef WAKE_BEFORE_PUT
    first = false
#else
    WAKE_IF_FIRST
#endif
}

#define wants_run(a) \
    ((!adapter[a].started && !adapter[a].connecting) || adapter[a].asked_end || adapter[a].broken || adapter[a].posted || \
     (adapter[a].messages_left && adapter[a].asked_read))
#define connection_wants(a) \
    ((adapter[a].asked_read && !adapter[a].messages_left && !adapter[a].connecting -> READ : NOTHING) | \
     (adapter[a].output || adapter[a].broken || adapter[a].connecting -> WRITE : NOTHING))

mtype:adapter_status = {
    ADAPTER_IS_RUNNING, ADAPTER_WANTS_RUN, ADAPTER_WANTS_REST, ADAPTER_IS_DEAD
};

#ifdef RESUME_RUNNING
#define KNOWN_TO_RUN(a) false
#else
#define KNOWN_TO_RUN(a) adapter[a].running
#endif

inline handler_adapter_status(a) {
    atomic {
        LOCK_STATE(a);
#ifndef QUEUED_CLEARED_LATE
        adapter[a].queued = false;
#endif
        if
        :: KNOWN_TO_RUN(a) -> status = ADAPTER_IS_RUNNING
        :: !KNOWN_TO_RUN(a) && adapter[a].dead -> status = ADAPTER_IS_DEAD
        :: !KNOWN_TO_RUN(a) && !adapter[a].dead ->
            interest = connection_wants(a);
            status = (wants_run(a) -> ADAPTER_WANTS_RUN : ADAPTER_WANTS_REST);
#ifndef WATCHING_LATE
            adapter[a].watching = interest
#endif
        fi;
        UNLOCK_STATE(a);
        SAY2("dispatcher: looks at connection %d: %e\n", a, status)
    }
#ifdef QUEUED_CLEARED_LATE
    adapter[a].queued = false
#endif
}

#if WORKERS == 0
#ifdef QUEUED_IGNORED
#define MAY_REST(a) true
#else
#define MAY_REST(a) (!adapter[a].queued)
#endif

/* stage5-multireactor/handler_adapter.c: the end of a run, and what is next, in one step. */
inline handler_adapter_done_here(a) {
#ifdef WANTS_BEFORE_DONE
    atomic {
        interest = connection_wants(a);
        status = (wants_run(a) -> ADAPTER_WANTS_RUN : ADAPTER_WANTS_REST)
    }
#endif
    atomic {
        LOCK_STATE(a);
        adapter[a].dead = adapter[a].over;
        adapter[a].running = false;
        adapter[a].runners--;
        if
        :: !MAY_REST(a) -> status = ADAPTER_IS_RUNNING
        :: MAY_REST(a) && adapter[a].dead -> status = ADAPTER_IS_DEAD
        :: MAY_REST(a) && !adapter[a].dead ->
#ifndef WANTS_BEFORE_DONE
            interest = connection_wants(a);
            status = (wants_run(a) -> ADAPTER_WANTS_RUN : ADAPTER_WANTS_REST);
#endif
            adapter[a].watching = interest
        fi;
        if
        :: status == ADAPTER_WANTS_RUN -> enqueue_change(a); first = false /* it is awake */
        :: else
        fi;
        UNLOCK_STATE(a);
        SAY2("dispatcher: is through with connection %d: %e\n", a, status)
    }
}
#endif

inline handler_adapter_ask(a) {
    atomic {
        MAY_CHANGE(a);
        LOCK_STATE(a);
        if
        :: adapter[a].asked_read = !adapter[a].asked_read
        :: UNREGISTER && !adapter[a].asked_end -> adapter[a].asked_end = true
        fi;
        SAY4("%e: asked of connection %d: read %d, end %d\n", me, a, adapter[a].asked_read,
             adapter[a].asked_end);
        announce(a);
        UNLOCK_STATE(a)
    }
    WAKE_IF_FIRST
}

#ifdef BROKEN_UNTOLD
#define IS_TOLD(a) !adapter[a].broken && (adapter[a].watching & WRITE) == NOTHING
#else
#define IS_TOLD(a) adapter[a].broken || (adapter[a].watching & WRITE) == NOTHING
#endif

inline handler_adapter_output(a) {
    atomic {
        LOCK_STATE(a);
        if
        :: IS_TOLD(a) -> announce(a)
        :: else
        fi;
        UNLOCK_STATE(a)
    }
    WAKE_IF_FIRST
}

/* The output queue has a lock of its own. The socket is full, or the peer or the memory is gone. */
inline facade_enqueue(a) {
    atomic {
        MAY_CHANGE(a);
        if
        :: !adapter[a].broken ->
            adapter[a].output = true;
            SAY2("%e: enqueues output for connection %d\n", me, a)
        :: BREAKS ->
            adapter[a].output = false;
            adapter[a].broken = true;
            SAY2("%e: enqueues output for connection %d, which breaks the queue\n", me, a)
        fi
    }
    handler_adapter_output(a)
}
