/*
 * A strand as a model of its own: common/server/strand.c. Who is inside, what is posted meanwhile,
 * and when the host has to look, without what the calls do. docs/model.md explains it.
 *
 * Two threads are in runs: the first posts two calls, the second one, which it makes at once if
 * nobody is inside. A third one is in no run. The second thread's call sets a timer, which sets
 * another one when it fires. A turn is of two calls.
 */
#define POSTS 4
#define TICK  POSTS       /* the host's post */
#define NONE  (POSTS + 1) /* nobody is inside; no post behind */
#define BUSY  (POSTS + 2)
#define TURN  2
#define NEVER 3

byte newest = NONE;
byte next[POSTS + 1];
byte taken = NONE;
byte timer = NEVER; /* the first moment of the strand's tree */
byte due = NEVER;   /* what the host knows of that */
byte now;
bool is_left, asked, wakeup, tick_waits;

/* What has to be true. */
bool is_run; /* some thread makes its calls */
byte fired;
bool called[POSTS + 1];

inline ask_host() {
    asked = true;
    wakeup = true
}

inline leave_to_host() {
    is_run = false;
    is_left = true;
    ask_host()
}

/* A compare-and-exchange that has succeeded: nothing has changed since the word was read. */
inline push(post) {
    atomic {
        enters = (newest == NONE);
        next[post] = (newest == BUSY -> NONE : newest);
        newest = post;
        printf("%e: posts %d\n", me, post)
    }
}

/* The exchange; what it takes is nobody else's, so turning it round may be in the same step. */
inline take_all() {
    atomic {
        post = newest;
#ifdef TAKEN_AS_FREE
        newest = NONE;
#else
        newest = BUSY;
#endif
        do
        :: post < NONE -> older = next[post]; next[post] = taken; taken = post; post = older
        :: else -> break
        od
    }
}

inline leave() {
#ifdef LEFT_BLINDLY
    is_inside = (newest != BUSY);
    if
    :: !is_inside -> atomic { newest = NONE; is_run = false }
    :: else
    fi
#else
    atomic {
        is_inside = (newest != BUSY);
        if
        :: !is_inside -> newest = NONE; is_run = false; printf("%e: leaves\n", me)
        :: else
        fi
    }
#endif
}

/* One step: only the thread inside touches this, and the moment is read once. */
inline fire_timers() {
    atomic {
        if
        :: timer <= now ->
            fired++;
            timer = (timer == 1 -> 2 : NEVER)
        :: else
        fi
    }
}

inline tell_due() {
    if
    :: timer < due -> due = timer; ask_host()
    :: else
    fi
}

/* One step: of what others read it writes one thing. */
inline run_first() {
    atomic {
        post = taken;
        taken = next[post];
        printf("%e: makes call %d\n", me, post);
        if
        :: post == TICK -> tick_waits = false
        :: post == 1 -> assert(called[0]) /* which the same thread has posted before */
        :: post == 2 -> timer = 1
        :: else
        fi;
        called[post] = true
    }
}

inline take_turn() {
    atomic {
        assert(!is_run);
        is_run = true
    }
    calls = 0;
    is_inside = true;
    do
    :: is_inside && calls < TURN ->
        if
        :: taken == NONE -> fire_timers(); take_all()
        :: else
        fi;
        if
        :: taken != NONE -> run_first(); calls++
        :: else -> tell_due(); leave()
        fi
    :: else -> break
    od;
    if
    :: is_inside -> leave_to_host()
    :: else
    fi
}

/* The second thread's way in: no post, but the same word. */
inline strand_enter() {
    atomic {
        enters = (newest == NONE);
        if
        :: enters ->
            assert(!is_run);
            is_run = true;
            newest = BUSY;
            printf("%e: enters\n", me)
        :: else
        fi
    }
    if
    :: enters -> fire_timers()
    :: else
    fi
}

inline strand_leave() {
#ifndef LEFT_UNTOLD
    tell_due();
#endif
    leave();
    is_mine = is_inside;
    if
    :: is_mine -> is_run = false /* until its turn */
    :: else
    fi
}

#define TURNS byte post, older, calls; bool enters, is_inside

mtype:thread = { run_1, run_2, helper_1, loop_1 };

/* A thread that posts in a run, and makes at the end of the run what has fallen to it. */
proctype run_of(mtype:thread me; byte first, last) {
    TURNS;
    bool is_mine;
    byte i = first;
    do
    :: i <= last -> push(i); is_mine = is_mine || enters; i++
    :: else -> break
    od;
    if
    :: is_mine -> take_turn()
    :: else
    fi
}

/* A thread that has a call made in a run, at once if it can be. */
proctype visit(mtype:thread me; byte i) {
    TURNS;
    bool is_mine;
    strand_enter();
    if
    :: enters -> atomic { timer = 1; called[i] = true }; strand_leave()
    :: else -> push(i); is_mine = enters
    fi;
    if
    :: is_mine -> take_turn()
    :: else
    fi
}

proctype helper(mtype:thread me; byte i) {
    bool enters;
    push(i);
    if
    :: enters -> leave_to_host()
    :: else
    fi
}

inline tick() {
    atomic { /* an exchange */
        enters = false;
        if
        :: !tick_waits -> tick_waits = true; push(TICK)
        :: else
        fi
    }
    if
    :: enters -> take_turn()
    :: else
    fi
}

inline look() {
#ifndef ASKED_CLEARED_LATE
    asked = false;
#endif
    if
    :: due <= now ->
#ifdef DUE_RESET_LATE
        tick(); due = NEVER
#else
        due = NEVER; tick()
#endif
    :: else
    fi;
    atomic { /* an exchange */
        is_inside = is_left;
        is_left = false
    }
    if
    :: is_inside -> take_turn()
    :: else
    fi;
#ifdef ASKED_CLEARED_LATE
    asked = false
#endif
}

/* The host's loop. Its select loses no wakeup: that is shown by the other model. */
proctype loop(mtype:thread me) {
    TURNS;
end_asleep:
    do
    :: atomic { (wakeup || due <= now) -> wakeup = false }
        if
        :: asked || due <= now -> look()
        :: else
        fi
    od
}

proctype clock() {
    now = 1;
    now = 2
}

init {
    byte i;
    atomic {
        run run_of(run_1, 0, 1);
        run visit(run_2, 2);
        run helper(helper_1, 3);
        run loop(loop_1);
        run clock()
    }
end_watching:
    atomic {
        timeout; /* nobody can take another step */
        for (i : 0 .. POSTS - 1) {
            assert(called[i])
        }
        assert(fired == 2);
        assert(newest == NONE)
    }
}
