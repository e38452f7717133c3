/*
 * The selector: common/events/selector.c on top of a provider such as common/events/selector_epoll.c.
 *
 * selector_select() holds the selector's lock from its first step to its last, and so while it
 * sleeps. The other calls that take the lock keep it for one step; if they have to wait, they wait
 * before that step.
 */
#define NOTHING 0 /* SELECT_NOTHING and its kin: bits */
#define READ    1
#define WRITE   2

mtype:selector_sleep = { AWAKE, ASLEEP, CALLED };

mtype:selector_sleep sleep = AWAKE;
bool wakeup_written; /* to the provider's descriptor: it ends one wait */
bool selector_lock;  /* the dispatcher has it, in selector_select() */

typedef selection_key {
    unsigned interest : 2; /* what its owner wants to hear of */
    unsigned watched : 2;  /* what the kernel has been told to watch */
    unsigned ready : 2;    /* what the last select found and nobody has dealt with */
};

selection_key key[CONNECTIONS];

bool connect_answered; /* by the peer of the outgoing connection; then it can be written */

#ifdef NO_SELECTOR_LOCK
#define WITH_SELECTOR_LOCK true
#else
#define WITH_SELECTOR_LOCK !selector_lock
#endif

/* Any thread. The exchange and the write are two steps: anything may happen in between. */
inline selector_wakeup() {
    if
    :: atomic { sleep == ASLEEP -> sleep = CALLED; SAY1("%e: finds the selector asleep\n", me) };
       atomic { wakeup_written = true; SAY1("%e: writes the wakeup\n", me) }
    :: atomic { sleep != ASLEEP -> sleep = CALLED; SAY1("%e: calls the selector\n", me) }
    fi
}

/* With interest; or, if there is no memory for that, without. */
inline selector_register(a) {
    atomic {
        WITH_SELECTOR_LOCK;
        assert(!selector_lock); /* nobody changes the key set under a select */
        if
        :: key[a].interest = (adapter[a].connecting -> WRITE : READ);
            SAY2("%e: registers connection %d\n", me, a)
        :: SAY2("%e: registers connection %d without interest\n", me, a)
        fi;
        key[a].watched = key[a].interest
    }
}

inline selector_interest(a, wanted) {
    atomic {
        WITH_SELECTOR_LOCK;
        assert(!selector_lock); /* nobody changes a key under a select */
        key[a].interest = wanted;
        if
        :: (key[a].ready & wanted) == NOTHING -> key[a].ready = NOTHING
        :: else
        fi;
        if
        :: !LAG || (wanted & ~key[a].watched) != NOTHING -> key[a].watched = wanted
        :: else
        fi;
        SAY2("dispatcher: sets the interest of connection %d to %d\n", a, wanted)
    }
}

inline selector_cancel(a) {
    atomic {
        WITH_SELECTOR_LOCK;
        key[a].interest = NOTHING;
        key[a].watched = NOTHING;
        key[a].ready = NOTHING;
        SAY1("dispatcher: cancels the key of connection %d\n", a)
    }
}

/* What has been reported, and not been dealt with, is reported again: of events, only this counts. */
#if CONNECTS
#define STAYS_READY(a) \
    (a == 1 && connect_answered && adapter[1].connecting && (key[1].watched & WRITE) != NOTHING)
#else
#define STAYS_READY(a) false
#endif

/* Any event that the kernel watches for may have come, or none, until the network is silent. */
inline select_key(a) {
    key[a].ready = NOTHING;
    if
    :: EVENT_MAY_COME && (key[a].watched & READ) != NOTHING -> key[a].ready = READ
    :: true
    fi;
    if
    :: (EVENT_MAY_COME || STAYS_READY(a)) && (key[a].watched & WRITE) != NOTHING ->
        key[a].ready = key[a].ready | WRITE
#if CONNECTS
        ; connect_answered = connect_answered || a == 1
#endif
    :: !STAYS_READY(a)
    fi;
    if
    :: key[a].ready != NOTHING && (key[a].ready & key[a].interest) == NOTHING ->
        key[a].watched = key[a].interest /* unwanted: the kernel is told now */
    :: else
    fi;
    key[a].ready = key[a].ready & key[a].interest;
    if
    :: key[a].ready != NOTHING -> SAY2("dispatcher: finds connection %d ready for %d\n", a, key[a].ready)
    :: else
    fi
}

inline wait_for_events() {
    atomic {
#ifdef LOST_WAKEUP
        sleep = (sleeps -> ASLEEP : sleep);
#else
        sleeps = sleeps && sleep == AWAKE;
        sleep = (sleeps -> ASLEEP : sleep);
#endif
        SAY2("dispatcher: waits for events; sleeps: %d\n", sleeps, 0)
    }
end_asleep: /* where it may stay for good when nobody has anything to do */
    atomic { !sleeps || wakeup_written || !silent || STAYS_READY(1) -> sleeps = false; wakeup_written = false }
    atomic { sleep = AWAKE; SAY1("dispatcher: is awake\n", 0) }
}

inline selector_select() {
    atomic { !selector_lock -> selector_lock = true }
    wait_for_events();
    atomic {
        for (this : 0 .. CONNECTIONS - 1) { select_key(this) }
        this = 0;
        selector_lock = false
    }
}
