/*
 * How the executor wakes workers: common/workers/executor.c and executor_threads.c. A model of its own, without the
 * rest of the stage: who submits, the workers, and a thread that shuts down.
 *
 * A section under the lock is one step. Tasks have no names: it matters how many there are. A signal
 * wakes any of those that sleep. Left out are threads that start, policies, executor_insist(), and an
 * end that drops the queue.
 */
#ifndef SUBMITTERS
#define SUBMITTERS 2
#endif
#ifndef TASKS
#define TASKS 2 /* of each */
#endif
#ifndef WORKERS
#define WORKERS 2 /* of which those above CORE are spare */
#endif
#ifndef SHUTDOWN
#define SHUTDOWN 0 /* 1: at any moment the executor is shut down */
#endif
#ifndef CORE
#define CORE 1
#endif
#ifndef SLOW
#define SLOW 0 /* 1: one of the tasks may never return, as if it were very slow */
#endif

#define SAY1(text, a)    printf(text, a)
#define SAY2(text, a, b) printf(text, a, b)

mtype:thread = { submitter_1, submitter_2, worker_1, worker_2, worker_3, main_1 };

/* Under the lock. */
byte waiting;  /* tasks in the queue */
byte promised; /* tasks in front of it, for workers that sleep */
byte sleeping; /* workers, until they have the lock again */
bool closing;
byte threads = WORKERS;

/* The condition: who sleeps there. */
bool asleep[WORKERS];

/* Not in C: for the properties. */
byte accepted;
byte ran; /* or have begun to */
bool slow; /* one has begun and does not return */

#define IS_COUNTED (promised <= sleeping)

/* Part of a step under the lock: promised to a worker that sleeps, or else into the queue. */
inline executor_promise() {
    if
    :: promised < sleeping && waiting == 0 -> promised++
    :: else -> waiting++
    fi
}

/* Whether a worker sleeps, though a task waits. */
#define MISSES_WORKER (sleeping > 0 && promised + waiting > 0)

/* Without the lock: a signal, if `calls`. One that finds nobody asleep is gone. */
inline call_worker() {
    if
    :: calls ->
        atomic {
            calls = false;
            if
            :: asleep[0] -> asleep[0] = false
#if WORKERS > 1
            :: asleep[1] -> asleep[1] = false
#endif
#if WORKERS > 2
            :: asleep[2] -> asleep[2] = false
#endif
            :: else
            fi;
            SAY1("%e: wakes a worker\n", me)
        }
    :: else
    fi
}

/* One task of a round. */
inline accept_task() {
    if
    :: closing || threads == 0 /* refused, or a thread would be started for it */
    :: else ->
        accepted++;
        SAY2("%e: submits task %d\n", me, accepted);
        executor_promise()
    fi
}

/* A round of one task, or of two. */
inline executor_submit_all() {
    atomic {
        accept_task();
        left--;
        if
        :: left > 0 -> accept_task(); left--
        :: true
        fi;
#ifdef NO_CALL
        calls = false
#else
        calls = MISSES_WORKER
#endif
    }
    call_worker()
}

inline executor_shutdown() {
    atomic {
        closing = true;
        SAY1("%e: shuts down\n", me);
        for (i : 0 .. WORKERS - 1) {
            asleep[i] = false
        }
        i = 0;
        calls = MISSES_WORKER
    }
    call_worker()
}

proctype submitter(mtype:thread me) {
    byte left = TASKS;
    bool calls;
    do
    :: left > 0 -> executor_submit_all()
    :: else -> break
    od
}

proctype shutter(mtype:thread me) {
    byte i;
    bool calls;
    executor_shutdown()
}

/* Part of a step under the lock, which the wait releases. */
#define FALL_ASLEEP(w) \
    sleeping++; \
    asleep[w] = true; \
    SAY1("%e: falls asleep\n", me)

/* It sleeps. A spare one gets up by itself when its time is over. */
inline doze(w) {
    in_vain = false;
end_asleep: /* where it may stay for good */
    if
    :: !asleep[w]
    :: spare -> /* at any moment */
        atomic {
            in_vain = true;
            asleep[w] = false;
            SAY1("%e: has slept long enough\n", me)
        }
    fi;
    has_slept = true
}

#define ENDS \
    threads--; \
    SAY1("%e: ends\n", me); \
    break

#define MAY_END (spare && in_vain)
#ifdef END_UNASKED
#define MAY_NOT_LOOK true
#else
#define MAY_NOT_LOOK false
#endif

proctype a_worker(mtype:thread me; byte w) {
    byte own; /* taken, and not begun: a mistake */
    bool in_vain, spare, has_task, has_slept, calls;
    do
    :: atomic { /* next_task() */
            if
            :: has_slept -> sleeping--
            :: else
            fi;
            spare = threads > CORE;
            if
            :: own > 0 -> own--; has_task = true
            :: own == 0 && promised > 0 -> promised--; has_task = true
            :: own == 0 && promised == 0 && waiting > 0 ->
                waiting--;
                has_task = true;
#ifdef TAKES_SEVERAL
                if
                :: waiting > 0 -> waiting--; own++
                :: else
                fi
#endif
            :: own == 0 && MAY_END && (MAY_NOT_LOOK || promised + waiting == 0) -> ENDS
            :: own == 0 && !MAY_END && closing && promised + waiting == 0 -> ENDS
            :: else ->
#ifdef LOOK_THEN_SLEEP
                SAY1("%e: finds nothing\n", me)
#else
                FALL_ASLEEP(w)
#endif
            fi;
            assert(IS_COUNTED);
#ifndef NO_NEXT
            calls = has_task && has_slept && MISSES_WORKER;
#endif
            has_slept = false
        }
        if
        :: has_task -> call_worker()
        :: else ->
#ifdef LOOK_THEN_SLEEP
            atomic { FALL_ASLEEP(w) }
#endif
            doze(w)
        fi;
        atomic {
            if
            :: has_task ->
                has_task = false;
                in_vain = false;
                ran++;
                SAY1("%e: runs a task\n", me);
                if
                :: true
                :: SLOW && !slow -> slow = true; SAY1("%e: is busy with it\n", me); goto end_slow
                fi
            :: else
            fi
        }
    od;
    goto over;
end_slow:
    false;
over:
    skip
}

init {
    bool is_run, is_ended;
    atomic {
        run a_worker(worker_1, 0);
#if WORKERS > 1
        run a_worker(worker_2, 1);
#endif
#if WORKERS > 2
        run a_worker(worker_3, 2);
#endif
        run submitter(submitter_1);
#if SUBMITTERS > 1
        run submitter(submitter_2);
#endif
#if SHUTDOWN
        run shutter(main_1)
#endif
    }
    atomic {
        timeout; /* nobody can take another step */
        is_run = (ran == accepted && waiting == 0 && promised == 0);
        assert(is_run);
        is_ended = (!closing || threads == 0);
        assert(is_ended)
    }
}
