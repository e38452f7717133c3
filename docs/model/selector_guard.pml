/*
 * The selector guard: stage4-framework/selector_guard.c, and the read/write lock of common/base/lock.h.
 *
 * The dispatcher lets go of the lock as soon as it has got it: one step here. While it waits for it,
 * no reader gets in.
 */
byte readers;        /* threads that hold the guard for reading */
bool writer_waiting; /* the dispatcher, at the barrier */

#ifdef READERS_FIRST
#define READERS_MAY_ENTER true
#else
#define READERS_MAY_ENTER !writer_waiting
#endif

#if !defined(NOGUARD) && !defined(WAKEUP_ONLY)
#define GUARD_STANDS
#endif

inline selector_guard_barrier() {
#if defined(GUARD_STANDS) && !defined(NO_BARRIER)
    atomic {
        if
        :: readers == 0
        :: else ->
            writer_waiting = true;
            SAY1("dispatcher: waits at the barrier\n", 0);
            readers == 0; /* the others go on meanwhile */
            writer_waiting = false
        fi
    }
#else
    skip
#endif
}

inline selector_guard_acquire() {
#if defined(WAKEFIRST) || defined(WAKEUP_ONLY)
    selector_wakeup();
#endif
#ifdef GUARD_STANDS
    atomic { READERS_MAY_ENTER -> readers++; SAY1("%e: takes the guard\n", me) }
#endif
#if defined(GUARD_STANDS) && !defined(WAKEFIRST) && !defined(GUARD_WITHOUT_WAKEUP)
    selector_wakeup()
#else
    skip
#endif
}

inline selector_guard_release() {
#ifdef GUARD_STANDS
    atomic { readers--; SAY1("%e: lets go of the guard\n", me) }
#else
    skip
#endif
}
