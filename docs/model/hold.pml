/*
 * A hold and who ends it, in stage 3: common/server/connection_hold.c, handler_hand_back() and
 * handler_take_told() of stage3-workers/handler.c. A model of its own. A worker runs a connection
 * whose handler holds messages at some time of that run; another thread tells it to go on, at any
 * moment; and nothing else wakes the reactor.
 */
#define SAY1(text, a) printf(text, a)

mtype:thread = { worker_1, reactor_1, teller_1 };

bool is_told, posted, asked; /* of the hold; of the connection */
bool held, is_early;         /* the runner's */
bool processing = true;      /* under the guard */
bool listed, wakeup;         /* in the reactor's list; its select returns */
bool went_on;                /* not in C */

/* A run makes the calls that are due. */
inline hear() {
    if
    :: posted ->
        posted = false;
        asked = false;
        is_told = false;
        if
        :: held -> held = false; went_on = true; SAY1("%e: it goes on\n", me)
        :: else ->
#ifndef HOLD_FORGOTTEN
            is_early = true;
#endif
            SAY1("%e: hears it before it holds\n", me)
        fi
    :: else
    fi
}

active proctype teller() {
    mtype:thread me = teller_1;
    atomic { is_told = true; SAY1("%e: tells it\n", me) }
    atomic { posted = true; asked = true }
    listed = true;
    wakeup = true
}

active proctype worker() {
    mtype:thread me = worker_1;
    bool wants;
    atomic { hear() }
    atomic {
        held = true;
        SAY1("%e: holds\n", me);
        if
        :: is_early -> is_early = false; posted = true; asked = true
        :: else
        fi
    }
    wants = asked;
    atomic { /* under the guard */
#ifndef HOLD_UNSEEN
        wants = wants || asked;
#endif
        processing = false;
        if
        :: wants -> listed = true; wakeup = true
        :: else
        fi;
        SAY1("%e: hands back\n", me)
    }
}

active proctype reactor() {
    mtype:thread me = reactor_1;
end:
    do
    :: atomic { wakeup -> wakeup = false };
        if
        :: atomic { listed -> listed = false };
            atomic {
                if
                :: !processing -> hear()
                :: else -> SAY1("%e: leaves it to the worker\n", me)
                fi
            }
        :: else
        fi
    od
}

active proctype monitor() {
end:
    timeout -> assert(went_on)
}
