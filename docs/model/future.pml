/*
 * A future that is run, cancelled and waited for: common/workers/future_task.c. A model of its own:
 * the executor's thread that has it in its turn, threads that cancel it, and threads that wait.
 *
 * future_task_get() waits without a deadline here, so nothing else gets it out of a sleep that no
 * thread ends.
 */
#ifndef GETTERS
#define GETTERS 2
#endif
#ifndef CANCELLERS
#define CANCELLERS 2
#endif

#define SAY1(text, a) printf(text, a)

mtype:thread = { worker_1, canceller_1, canceller_2, getter_1, getter_2 };
mtype:future_state = { FUTURE_PENDING, FUTURE_RUNNING, FUTURE_DONE, FUTURE_CANCELLED };

mtype:future_state state = FUTURE_PENDING;
bool has_result;

/* Of the monitor. */
bool monitor_lock;
byte waiting; /* threads in future_task_get() */
byte asleep;  /* those of them that wait for the condition */

/* Not in C: for the properties. */
byte calls, dones, cancelled, got;

#define is_over (state == FUTURE_DONE || state == FUTURE_CANCELLED)

/* The broadcast is a step of its own, under the lock. */
inline wake() {
    if
    :: waiting == 0
    :: else ->
        atomic { !monitor_lock -> monitor_lock = true }
        atomic { asleep = 0; SAY1("%e: wakes all who wait\n", me) }
        monitor_lock = false
    fi
}

inline call() {
    calls++;
    assert(cancelled == 0); /* what somebody has cancelled never runs */
    has_result = true;
    SAY1("%e: has run it\n", me)
}

/* In the executor's thread. */
inline executor_run_task() {
#ifdef LOOK_THEN_RUN
    if
    :: state == FUTURE_PENDING ->
        atomic { state = FUTURE_RUNNING; call() }
#else
    if
    :: atomic { state == FUTURE_PENDING -> state = FUTURE_RUNNING; SAY1("%e: begins\n", me) }
        atomic { call() }
#endif
#ifdef WAKE_BEFORE_STATE
        wake();
        state = FUTURE_DONE
#else
        state = FUTURE_DONE;
        wake()
#endif
    :: state != FUTURE_PENDING
    fi;
    dones++
}

inline future_task_cancel() {
    if
    :: atomic {
            state == FUTURE_PENDING -> state = FUTURE_CANCELLED;
            cancelled++;
            SAY1("%e: cancels it\n", me)
        }
        wake()
    :: state != FUTURE_PENDING
    fi
}

/* The look at the state and the sleep are one step with the lock, which the sleep gives back. */
inline future_task_get() {
    atomic { !monitor_lock -> monitor_lock = true }
#ifndef COUNTED_LATE
    waiting++;
#endif
    do
    :: is_over -> break
    :: !is_over ->
#ifdef COUNTED_LATE
        waiting++;
#endif
        atomic { asleep++; monitor_lock = false; SAY1("%e: sleeps\n", me) }
        atomic { asleep == 0 && !monitor_lock -> monitor_lock = true }
#ifdef COUNTED_LATE
        waiting--
#endif
    od;
#ifndef COUNTED_LATE
    waiting--;
#endif
    monitor_lock = false;
    assert(state == FUTURE_CANCELLED || has_result); /* there to be read */
    got++
}

proctype worker(mtype:thread me) { executor_run_task() }
proctype canceller(mtype:thread me) { future_task_cancel() }
proctype getter(mtype:thread me) {
    future_task_get()
}

init {
    bool is_got;
    atomic {
        run worker(worker_1);
        run canceller(canceller_1);
#if CANCELLERS > 1
        run canceller(canceller_2);
#endif
        run getter(getter_1);
#if GETTERS > 1
        run getter(getter_2)
#endif
    }
    atomic {
        timeout; /* nobody can take another step */
        is_got = (got == GETTERS);
        assert(is_got);
        assert(dones == 1 && calls + cancelled == 1)
    }
}
