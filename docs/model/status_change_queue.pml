/*
 * The status-change queue: stage4-framework/status_change_queue.c. A list through the adapters, as
 * in C, so that putting one in twice does here what it would do there.
 */
byte queue_first = NOBODY;
byte queue_last = NOBODY;

#ifdef BOUNDED_QUEUE
byte queue_length;
#ifdef ERRATUM_3
#define WAIT_FOR_ROOM(a) \
    adapter[a].state_lock = false; \
    queue_length < 1; \
    queue_length++; \
    !adapter[a].state_lock -> adapter[a].state_lock = true
#else
#define WAIT_FOR_ROOM(a) queue_length < 1; queue_length++
#endif
#define ROOM_AGAIN    queue_length = 0
#else
#define WAIT_FOR_ROOM(a) skip
#define ROOM_AGAIN    skip
#endif

/* Part of its caller's step. Leaves in `first` whether the dispatcher has to be woken. */
inline status_change_queue_put(a) {
    WAIT_FOR_ROOM(a);
    adapter[a].next_changed = NOBODY;
    first = (queue_first == NOBODY);
    if
    :: first -> queue_first = a
    :: else -> adapter[queue_last].next_changed = a
    fi;
    queue_last = a;
    SAY2("%e: puts connection %d into the queue\n", me, a)
}

inline status_change_queue_take_all(all) {
    atomic {
        all = queue_first;
        queue_first = NOBODY;
        queue_last = NOBODY;
        ROOM_AGAIN;
        if
        :: all != NOBODY -> SAY1("dispatcher: takes all out of the queue\n", 0)
        :: else
        fi
    }
}
