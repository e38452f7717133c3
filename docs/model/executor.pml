/*
 * The executor's hand-over: common/workers/executor.c and executor_threads.c. A model of its own, without the
 * rest of the stage: who submits, the workers, and a thread that shuts down.
 *
 * A section under the lock is one step. Tasks have no names: it matters how many there are. Who is
 * taken out of `idle` may be any of those in it; in C it is the one that fell asleep last.
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
byte waiting;    /* tasks in the queue */
bool closing;
byte threads = WORKERS;

typedef worker_data {
    bool idle;   /* in that list, until it is called, or will be */
    bool called; /* in that list: its call comes when the lock is released */
    bool task;   /* handed over with the call */
    byte call;   /* the semaphore's permits */
    bool gone;   /* with its stack, and what is on it */
};
worker_data worker[WORKERS];

/* Not in C: for the properties. */
byte accepted;
byte ran; /* or have begun to */
bool slow; /* one has begun and does not return */

/* Part of a step under the lock. */
inline call_worker(w) {
    worker[w].idle = false;
    worker[w].called = true
}

#define GIVE_TASK(w) worker[w].task = true; call_worker(w)

/* Part of a step under the lock: to a worker that sleeps, or else into the queue. */
inline executor_hand_over() {
    if
#ifndef NO_HAND_OVER
    :: worker[0].idle -> GIVE_TASK(0)
#if WORKERS > 1
    :: worker[1].idle -> GIVE_TASK(1)
#endif
#if WORKERS > 2
    :: worker[2].idle -> GIVE_TASK(2)
#endif
#endif
    :: else -> waiting++
    fi
}

/* The end of a step under the lock, release(): this thread's calls from now on. */
#define TAKE_CALLED \
    for (i : 0 .. WORKERS - 1) { \
        mine[i] = worker[i].called; \
        worker[i].called = false \
    } \
    i = 0

/* Without the lock. */
inline executor_wake() {
    for (i : 0 .. WORKERS - 1) {
        if
        :: mine[i] ->
            atomic {
                mine[i] = false;
                assert(!worker[i].gone); /* its semaphore is on its stack */
                worker[i].call++;
                SAY2("%e: calls worker %d\n", me, i + 1)
            }
        :: else
        fi
    }
    i = 0
}

inline executor_submit_all() {
    atomic {
        if
        :: closing
        :: else ->
            accepted++;
            SAY1("%e: submits a task\n", me);
            executor_hand_over();
            TAKE_CALLED
        fi
    }
    executor_wake()
}

inline executor_shutdown() {
    atomic {
        closing = true;
        SAY1("%e: shuts down\n", me);
        for (i : 0 .. WORKERS - 1) {
            if
            :: worker[i].idle -> call_worker(i)
            :: else
            fi
        }
        TAKE_CALLED
    }
    executor_wake()
}

proctype submitter(mtype:thread me) {
    byte i, left = TASKS;
    bool mine[WORKERS];
    do
    :: left > 0 -> executor_submit_all(); left--
    :: else -> break
    od
}

proctype shutter(mtype:thread me) {
    byte i;
    bool mine[WORKERS];
    executor_shutdown()
}

#ifdef GET_UP_UNASKED
#define CALL_ITSELF(w) worker[w].idle = false; worker[w].called = false; worker[w].call = 1
#else
#define CALL_ITSELF(w) \
    if \
    :: worker[w].idle -> call_worker(w) \
    :: else \
    fi
#endif

/* It is in `idle`. Once it has slept long enough, it calls itself, unless another thread does. */
inline doze(w) {
    in_vain = false;
end_asleep: /* where it may stay for good */
    if
    :: atomic { worker[w].call > 0 -> worker[w].call-- }
    :: spare && !in_vain -> /* the keep-alive time is over, at any moment */
        in_vain = true;
        atomic {
            SAY1("%e: has slept long enough\n", me);
            CALL_ITSELF(w);
            TAKE_CALLED
        }
        executor_wake();
        atomic { worker[w].call > 0 -> worker[w].call-- }
    fi
}

/* Part of a step under the lock. */
#ifdef TASK_CLEARED_LATE
#define FALL_ASLEEP(w) worker[w].idle = true; SAY1("%e: falls asleep\n", me)
#else
#define FALL_ASLEEP(w) worker[w].task = false; worker[w].idle = true; SAY1("%e: falls asleep\n", me)
#endif

proctype a_worker(mtype:thread me; byte w) {
    byte i;
    byte own; /* taken, and not begun: a mistake */
    bool mine[WORKERS];
    bool in_vain, spare, has_task;
    do
    :: atomic { /* next_task() */
            spare = threads > CORE;
            if
            :: own > 0 -> own--; has_task = true
            :: own == 0 && waiting > 0 ->
                waiting--;
                has_task = true;
#ifdef TAKES_SEVERAL
                if
                :: waiting > 0 -> waiting--; own++
                :: else
                fi
#endif
            :: own == 0 && waiting == 0 && (closing || (spare && in_vain)) ->
                threads--;
                worker[w].gone = true;
                SAY1("%e: ends\n", me);
                break
            :: else ->
#ifdef LOOK_THEN_SLEEP
                SAY1("%e: finds nothing\n", me)
#else
                FALL_ASLEEP(w)
#endif
            fi
        }
        if
        :: has_task
        :: else ->
#ifdef LOOK_THEN_SLEEP
            atomic { FALL_ASLEEP(w) }
#endif
#ifdef TASK_CLEARED_LATE
            worker[w].task = false;
#endif
            doze(w);
            has_task = worker[w].task
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
        is_run = (ran == accepted && waiting == 0);
        assert(is_run);
        is_ended = (!closing || threads == 0);
        assert(is_ended)
    }
}
