/*
 * The coordination of stage 4 as a model for spin: who wakes, watches, runs and unregisters what,
 * without the bytes. docs/model.md explains it, and tests/model.sh checks it.
 *
 * Each file beside this one stands for a file in C and has its functions, under their names and
 * with the order of their steps. This file has what is around them: connections, other threads, the
 * network, and what has to be true of it all. settings.pml says what can be left out or put in.
 *
 * What stands in an #ifdef is a mistake that somebody could make, or did make; nothing of the model
 * itself. docs/model.md tells what comes of each.
 */
#include "settings.pml"

#define LAST   (CONNECTIONS - 1)
#define NOBODY CONNECTIONS /* where the number of a connection is expected */

/* For the reader of a failure; a search takes no notice. */
#define SAY1(text, a)          printf(text, a)
#define SAY2(text, a, b)       printf(text, a, b)
#define SAY4(text, a, b, c, d) printf(text, a, b, c, d)

/* What `me` is in a thread, for the same reason. */
mtype:thread = {
    dispatcher_1, worker_1, worker_2, acceptor_1, acceptor_2, acceptor_3, application_1, helper_1
};

/* From some moment on nothing comes from outside any more: then it shows what was lost. */
bool silent = SILENT;
#define EVENT_MAY_COME (EVENTS && !silent)
#define RUN_MAY_END    (ENDS && !silent)
#define MAY_CHANGE(a)  (!silent && !adapter[a].gone)

#ifdef ERRATUM_3
#define BOUNDED_QUEUE
#define USER_LIST
#endif
#ifdef USER_LIST
bool user_list_locked; /* by the application; `started` wants it too */
#endif

#include "selector.pml"
#include "selector_guard.pml"
#include "status_change_queue.pml"
#include "handler_adapter.pml"
#include "dispatcher.pml"

/* A thread that registers one connection. */
proctype acceptor(mtype:thread me; byte mine) {
    bool first;
    dispatcher_register_channel(mine)
}

/* A thread that registers one connection after the other, for which there is no memory. */
proctype failing_acceptor(mtype:thread me) {
    do
    :: selector_guard_acquire();
        selector_guard_release()
    od
}

#ifdef USER_LIST
/* What common/apps/group.c does not do: to hold the lock of the user list and tell somebody. */
inline broadcast() {
    atomic {
        !silent && !user_list_locked -> user_list_locked = true;
        SAY1("%e: locks the user list\n", me)
    }
    atomic {
        adapter[0].output = true;
        SAY2("%e: enqueues output for connection %d\n", me, 0)
    }
    handler_adapter_output(0);
    atomic {
        user_list_locked = false;
        SAY1("%e: unlocks the user list\n", me)
    }
}
#endif

/* Another thread of the application: whatever it changes of connection 0, at any time. */
proctype application(mtype:thread me) {
    bool first;
end_silent:
    do
#ifdef USER_LIST
    :: broadcast()
#else
    :: handler_adapter_ask(0)
#if OUTPUT
    :: facade_enqueue(0)
#endif
#endif
    od
}

#if TASK
/* A thread that has done what connection 0 has begun. */
proctype helper(mtype:thread me) {
    bool first;
    handler_adapter_post(0)
}
#endif

/* The dispatcher sleeps and the acceptors have ended; else spin reports who is stuck, and where. */
#define NOBODY_IS_STUCK (sleep == ASLEEP && _nr_pr == 2 + APPLICATION + WORKERS)

init {
    byte i;
    bool is_answered, is_processed, is_heard, is_unregistered, is_back;
    atomic {
        for (i : 0 .. LAST) { handler_adapter_create(i) }
        run dispatcher();
#if APPLICATION
        run application(application_1);
#endif
#if WORKERS > 0
        run worker(worker_1);
#endif
#if WORKERS > 1
        run worker(worker_2);
#endif
        run acceptor(acceptor_1, 0);
#if CONNECTIONS > 1 && !CONNECTS
        run acceptor(acceptor_2, 1);
#endif
#if CONNECTIONS > 2
        run acceptor(acceptor_3, 2);
#endif
#if STREAM
        run failing_acceptor(acceptor_2);
        run failing_acceptor(acceptor_3);
#endif
#if TASK
        run helper(helper_1);
#endif
        i = 0
    }
    if
    :: silent = true
    :: RESTLESS
    fi;
end_watching:
    atomic {
        timeout; /* nobody can take another step */
        for (i : 0 .. LAST) {
            if
            :: NOBODY_IS_STUCK && !adapter[i].gone ->
                is_answered = adapter[i].started || (adapter[i].connecting && !connect_answered);
                is_processed = !adapter[i].queued && !adapter[i].running;
                is_unregistered = !adapter[i].over;
                is_heard = !wants_run(i) && key[i].interest == connection_wants(i) &&
                    (key[i].interest & ~key[i].watched) == NOTHING;
                assert(is_answered);
                assert(is_processed);
                assert(is_unregistered);
                assert(is_heard)
            :: else
            fi;
            is_back = !adapter[i].under_way;
            assert(!NOBODY_IS_STUCK || is_back) /* its result was heard or dropped */
        }
    }
}

/* Every registration is answered: `started` is called, unless the registration itself failed. */
ltl answered {
    <> ((adapter[0].started || adapter[0].gone) && (adapter[LAST].started || adapter[LAST].gone))
}

/* A status change is always processed, whatever else goes on. */
ltl processed { [] (adapter[0].queued -> <> !adapter[0].queued) }

/* When nothing comes from outside any more, the dispatcher falls asleep for good. */
ltl rests { <> [] (sleep == ASLEEP || !silent) }
