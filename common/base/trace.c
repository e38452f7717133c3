#include "common/base/trace.h"

#include "common/base/clock.h"
#include "common/base/lock.h"
#include "common/base/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    FILE_NAME_SIZE = 1024,
    MAX_DESCRIPTORS = 1 << 20, /* those above have no serial number */
};

/* What happened. */
struct record {
    int64_t ns;
    int64_t value;
    int32_t fd;
    uint32_t serial; /* 0: the descriptor is no connection */
    enum trace_kind kind;
};

/* What one thread did. The thread writes, trace_close() reads. */
struct ring {
    struct ring *next;
    char name[THREAD_NAME_SIZE];
    unsigned number;             /* among all of them, from 1 on */
    atomic_uint_least64_t count; /* of events so far; the last ones are there */
    struct record records[TRACE_RING_EVENTS];
};

/* All that there is while a trace is recorded; set up before the first other thread. */
static struct {
    char file[FILE_NAME_SIZE];
    int64_t begin; /* ns */
    atomic_uint_least32_t *serials;
    size_t serial_count;
    atomic_uint_least32_t last_serial;
    struct mutex lock; /* guards what follows */
    struct ring *rings;
    struct ring **last;
    unsigned ring_count;
    uint64_t left_out; /* threads without a ring */
} trace;

atomic_bool trace_is_on;

static _Thread_local struct ring *own_ring;

/* ---- Recording ----------------------------------------------------------------------------- */

static uint32_t serial_of(int fd)
{
    if (fd < 0 || (size_t)fd >= trace.serial_count)
        return 0;
    return atomic_load_explicit(&trace.serials[fd], memory_order_relaxed);
}

void trace_record(enum trace_kind kind, int fd, int64_t value)
{
    struct ring *ring = own_ring;
    if (ring == NULL)
        return;
    uint64_t count = atomic_load_explicit(&ring->count, memory_order_relaxed);
    ring->records[count % TRACE_RING_EVENTS] = (struct record){
        .ns = clock_ns(), .value = value, .fd = fd, .serial = serial_of(fd), .kind = kind};
    atomic_store_explicit(&ring->count, count + 1, memory_order_release);
}

void trace_begin_connection(int fd)
{
    if (fd >= 0 && (size_t)fd < trace.serial_count)
        atomic_store_explicit(&trace.serials[fd], atomic_fetch_add(&trace.last_serial, 1) + 1,
                              memory_order_relaxed);
    trace_record(TRACE_ACCEPT, fd, 0);
}

/* ---- Beginning ----------------------------------------------------------------------------- */

/* Puts the process number where the name says %p. False if there is no room for the name. */
static bool name_file(const char *pattern)
{
    const char *place = strstr(pattern, "%p");
    int length;
    if (place == NULL)
        length = snprintf(trace.file, sizeof(trace.file), "%s", pattern);
    else
        length = snprintf(trace.file, sizeof(trace.file), "%.*s%ld%s", (int)(place - pattern),
                          pattern, (long)getpid(), place + 2);
    errno = ENAMETOOLONG;
    return length >= 0 && (size_t)length < sizeof(trace.file);
}

static bool make_serials(void)
{
    struct rlimit limit;
    trace.serial_count = MAX_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < MAX_DESCRIPTORS)
        trace.serial_count = (size_t)limit.rlim_cur;
    trace.serials = calloc(trace.serial_count, sizeof(*trace.serials));
    return trace.serials != NULL;
}

/* The file is empty until the end, but it should not turn out only then that it cannot be made. */
static bool can_be_written(void)
{
    FILE *file = fopen(trace.file, "we");
    return file != NULL && fclose(file) == 0;
}

int trace_open(const char *file)
{
    if (file == NULL)
        return 0;
    memset(&trace, 0, sizeof(trace));
    if (!name_file(file) || !can_be_written() || !make_serials())
        return -1;
    trace.last = &trace.rings;
    trace.begin = clock_ns();
    mutex_init(&trace.lock);
    atomic_store(&trace_is_on, true);
    trace_thread("main");
    return 0;
}

/* A ring without a thread; NULL without memory. Its pages become real as they are written. */
static struct ring *add_ring(void)
{
    struct ring *ring = NULL;
    mutex_lock(&trace.lock);
    if (trace.ring_count < TRACE_MAX_THREADS)
        ring = calloc(1, sizeof(*ring));
    if (ring != NULL) {
        ring->number = ++trace.ring_count;
        *trace.last = ring;
        trace.last = &ring->next;
    } else {
        trace.left_out++;
    }
    mutex_unlock(&trace.lock);
    return ring;
}

void trace_thread(const char *name)
{
    if (!atomic_load(&trace_is_on))
        return;
    if (own_ring == NULL)
        own_ring = add_ring();
    if (own_ring != NULL)
        snprintf(own_ring->name, sizeof(own_ring->name), "%s", name);
}

/* ---- What the kinds are called ------------------------------------------------------------- */

/* Arrows lead from an event to the one that it causes, in another thread. */
enum arrow { NO_ARROW, ARROW_WAKEUP, ARROW_CHANGE, ARROW_TASK };

/* How a number is written: not at all, as a number, or as what tells objects apart. */
enum format { NOTHING, NUMBER, OBJECT };

struct kind {
    const char *name;
    char phase; /* B and E: begin and end; i: at a moment; X: the same, with an arrow */
    enum format format;
    const char *value;
    enum arrow from; /* one that begins here */
    enum arrow to;   /* one that ends here */
};

static const struct kind kinds[TRACE_KINDS] = {
    [TRACE_SELECT] = {"select", 'B', OBJECT, "selector", NO_ARROW, NO_ARROW},
    [TRACE_SELECTED] = {"select", 'E', NUMBER, "ready", NO_ARROW, ARROW_WAKEUP},
    [TRACE_WAKEUP] = {"wakeup", 'X', OBJECT, "selector", ARROW_WAKEUP, NO_ARROW},
    [TRACE_WAKEUP_COALESCED] = {"wakeup coalesced", 'i', OBJECT, "selector", NO_ARROW, NO_ARROW},
    [TRACE_REGISTER] = {"register", 'i', NUMBER, "interest", NO_ARROW, NO_ARROW},
    [TRACE_INTEREST] = {"interest", 'i', NUMBER, "interest", NO_ARROW, NO_ARROW},
    [TRACE_BARRIER] = {"barrier", 'B', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_BARRIER_PASSED] = {"barrier", 'E', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_GUARD] = {"guard held", 'B', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_GUARD_RELEASED] = {"guard held", 'E', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_CHANGE_QUEUED] = {"change queued", 'X', NOTHING, NULL, ARROW_CHANGE, NO_ARROW},
    [TRACE_CHANGE_APPLIED] = {"change applied", 'X', NUMBER, "status", NO_ARROW, ARROW_CHANGE},
    [TRACE_TASK_QUEUED] = {"task queued", 'X', OBJECT, "task", ARROW_TASK, NO_ARROW},
    [TRACE_TASK_DROPPED] = {"task dropped", 'X', OBJECT, "task", NO_ARROW, ARROW_TASK},
    [TRACE_TASK] = {"task", 'B', OBJECT, "task", NO_ARROW, ARROW_TASK},
    [TRACE_TASK_FINISHED] = {"task", 'E', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_RUN] = {"handler", 'B', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_RUN_DONE] = {"handler", 'E', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_BLOCKED_READ] = {"blocked in read", 'B', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_BLOCKED_READ_DONE] = {"blocked in read", 'E', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_BLOCKED_WRITE] = {"blocked in write", 'B', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_BLOCKED_WRITE_DONE] = {"blocked in write", 'E', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_RECEIVE] = {"receive", 'i', NUMBER, "bytes", NO_ARROW, NO_ARROW},
    [TRACE_SEND] = {"send", 'i', NUMBER, "bytes", NO_ARROW, NO_ARROW},
    [TRACE_ACCEPT] = {"accept", 'i', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_CLOSE] = {"close", 'i', NOTHING, NULL, NO_ARROW, NO_ARROW},
    [TRACE_TIMER] = {"timer", 'i', NUMBER, "deadline", NO_ARROW, NO_ARROW},
};

/* ---- Arrows -------------------------------------------------------------------------------- */

/* Where arrows begin whose end has not come yet: a hash table that is never more than half full. */
struct start {
    enum arrow arrow;
    int64_t object;
    uint64_t number; /* of the arrow that is open; 0: none */
};

struct arrows {
    struct start *starts;
    size_t size; /* a power of two */
    uint64_t last_number;
};

static struct start *find_start(const struct arrows *arrows, enum arrow arrow, int64_t object)
{
    uint64_t hash = ((uint64_t)object + (uint64_t)arrow) * UINT64_C(0x9e3779b97f4a7c15);
    size_t place = (size_t)(hash >> 20) & (arrows->size - 1);
    while (arrows->starts[place].arrow != NO_ARROW &&
           (arrows->starts[place].arrow != arrow || arrows->starts[place].object != object))
        place = (place + 1) & (arrows->size - 1);
    return &arrows->starts[place];
}

static uint64_t begin_arrow(struct arrows *arrows, enum arrow arrow, int64_t object)
{
    struct start *start = find_start(arrows, arrow, object);
    *start = (struct start){arrow, object, ++arrows->last_number};
    return start->number;
}

/* The arrow that ends here; 0 if its beginning is not known. */
static uint64_t end_arrow(struct arrows *arrows, enum arrow arrow, int64_t object)
{
    struct start *start = find_start(arrows, arrow, object);
    uint64_t number = start->number;
    start->number = 0;
    return number;
}

/* ---- Writing ------------------------------------------------------------------------------- */

/* A thread's part in the writing. */
struct lane {
    const struct ring *ring;
    unsigned depth;   /* what has begun and not ended */
    int64_t selector; /* of the last select */
};

/* An event, whose it is, and its place: threads are merged by time, and each keeps its order. */
struct entry {
    const struct record *record;
    struct lane *lane;
    int64_t ns;
    size_t order;
};

/* All that is to be written. */
struct writing {
    FILE *file;
    struct lane *lanes;
    struct entry *entries;
    size_t count;
    struct arrows arrows;
};

static uint64_t overwritten(const struct ring *ring)
{
    uint64_t count = atomic_load_explicit(&ring->count, memory_order_acquire);
    return count > TRACE_RING_EVENTS ? count - TRACE_RING_EVENTS : 0;
}

static uint64_t kept(const struct ring *ring)
{
    return atomic_load_explicit(&ring->count, memory_order_acquire) - overwritten(ring);
}

static int compare(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* The events of one thread. */
static void collect_ring(struct writing *writing, const struct ring *ring)
{
    struct lane *lane = &writing->lanes[ring->number];
    uint64_t first = overwritten(ring);
    int64_t latest = INT64_MIN;
    lane->ring = ring;
    for (uint64_t i = 0; i < kept(ring); i++) {
        const struct record *record = &ring->records[(first + i) % TRACE_RING_EVENTS];
        latest = record->ns > latest ? record->ns : latest;
        writing->entries[writing->count] = (struct entry){record, lane, latest, writing->count};
        writing->count++;
    }
}

/* All events in their order; false without memory. */
static bool collect(struct writing *writing)
{
    size_t count = 0;
    size_t size = 64;
    for (const struct ring *ring = trace.rings; ring != NULL; ring = ring->next)
        count += (size_t)kept(ring);
    while (size < 2 * count)
        size *= 2;
    writing->lanes = calloc(trace.ring_count + 1, sizeof(*writing->lanes));
    writing->entries = calloc(count + 1, sizeof(*writing->entries));
    writing->arrows.starts = calloc(size, sizeof(*writing->arrows.starts));
    writing->arrows.size = size;
    if (writing->lanes == NULL || writing->entries == NULL || writing->arrows.starts == NULL)
        return false;
    for (const struct ring *ring = trace.rings; ring != NULL; ring = ring->next)
        collect_ring(writing, ring);
    qsort(writing->entries, writing->count, sizeof(*writing->entries), compare);
    return true;
}

/* Whether another thread has the same name, so that they need numbers. */
static bool is_one_of_several(const struct ring *ring)
{
    for (const struct ring *other = trace.rings; other != NULL; other = other->next)
        if (other != ring && strcmp(other->name, ring->name) == 0)
            return true;
    return false;
}

static unsigned number_among_namesakes(const struct ring *ring)
{
    unsigned number = 1;
    for (const struct ring *other = trace.rings; other != ring; other = other->next)
        number += strcmp(other->name, ring->name) == 0;
    return number;
}

static void write_thread(FILE *file, const struct ring *ring)
{
    char number[16] = "";
    if (is_one_of_several(ring))
        snprintf(number, sizeof(number), " %u", number_among_namesakes(ring));
    fprintf(file,
            "{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"name\":\"thread_name\","
            "\"args\":{\"name\":\"%s%s\",\"overwritten\":%" PRIu64 "}},\n",
            ring->number, ring->name, number, overwritten(ring));
}

/* What stands at the beginning of each event. Microseconds are the format's unit. */
static void write_beginning(const struct writing *writing, char phase, const struct entry *entry)
{
    int64_t ns = entry->record->ns - trace.begin;
    fprintf(writing->file, "{\"ph\":\"%c\",\"pid\":1,\"tid\":%u,\"ts\":%" PRId64 ".%03d", phase,
            entry->lane->ring->number, ns / 1000, (int)(ns % 1000));
}

static void write_arrow(const struct writing *writing, char phase, const struct entry *entry,
                        uint64_t number)
{
    static const char *const names[] = {
        [ARROW_WAKEUP] = "wakeup", [ARROW_CHANGE] = "change", [ARROW_TASK] = "task"};
    const struct kind *kind = &kinds[entry->record->kind];
    if (number == 0)
        return;
    write_beginning(writing, phase, entry);
    fprintf(writing->file, ",\"name\":\"%s\",\"cat\":\"arrow\",\"id\":%" PRIu64 ",\"bp\":\"e\"},\n",
            names[kind->from + kind->to], number);
}

/* The connection: its descriptor number and its serial; and what the event's number means. */
static void write_arguments(FILE *file, const struct record *record)
{
    const struct kind *kind = &kinds[record->kind];
    const char *comma = "";
    fputs(",\"args\":{", file);
    if (record->serial != 0) {
        fprintf(file, "\"connection\":\"%d#%u\"", record->fd, (unsigned)record->serial);
        comma = ",";
    }
    if (kind->format == NUMBER)
        fprintf(file, "%s\"%s\":%" PRId64, comma, kind->value, record->value);
    else if (kind->format == OBJECT)
        fprintf(file, "%s\"%s\":\"%" PRIx64 "\"", comma, kind->value, (uint64_t)record->value);
    fputs("}},\n", file);
}

/* What tells this arrow from others of its kind. */
static int64_t arrow_object(enum arrow arrow, const struct entry *entry)
{
    if (arrow == ARROW_CHANGE)
        return entry->record->serial;
    return entry->record->kind == TRACE_SELECTED ? entry->lane->selector : entry->record->value;
}

static void write_event(struct writing *writing, const struct entry *entry)
{
    const struct kind *kind = &kinds[entry->record->kind];
    struct arrows *arrows = &writing->arrows;
    if (kind->phase == 'E' && entry->lane->depth == 0 && overwritten(entry->lane->ring) > 0)
        return; /* what it ends is overwritten */
    if (kind->phase == 'B')
        entry->lane->depth++;
    if (kind->phase == 'E' && entry->lane->depth > 0)
        entry->lane->depth--;
    if (entry->record->kind == TRACE_SELECT)
        entry->lane->selector = entry->record->value;

    if (kind->to != NO_ARROW && kind->phase == 'E') /* while that which ends is still there */
        write_arrow(writing, 'f', entry,
                    end_arrow(arrows, kind->to, arrow_object(kind->to, entry)));
    write_beginning(writing, kind->phase, entry);
    fprintf(writing->file, ",\"name\":\"%s\"", kind->name);
    if (kind->phase == 'i')
        fputs(",\"s\":\"t\"", writing->file);
    if (kind->phase == 'X')
        fputs(",\"dur\":0.001", writing->file); /* an arrow needs something to begin at */
    write_arguments(writing->file, entry->record);
    if (kind->to != NO_ARROW && kind->phase != 'E')
        write_arrow(writing, 'f', entry,
                    end_arrow(arrows, kind->to, arrow_object(kind->to, entry)));
    if (kind->from != NO_ARROW)
        write_arrow(writing, 's', entry,
                    begin_arrow(arrows, kind->from, arrow_object(kind->from, entry)));
}

static void write_all(struct writing *writing, const char *program)
{
    FILE *file = writing->file;
    fprintf(file,
            "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":\"%s\","
            "\"threads_left_out\":%" PRIu64 ",\"begin_ns\":%" PRId64 "},\"traceEvents\":[\n",
            program, trace.left_out, trace.begin);
    for (const struct ring *ring = trace.rings; ring != NULL; ring = ring->next)
        write_thread(file, ring);
    for (size_t i = 0; i < writing->count; i++)
        write_event(writing, &writing->entries[i]);
    fprintf(file,
            "{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"process_name\","
            "\"args\":{\"name\":\"%s\"}}\n]}\n",
            program);
}

/* Writes the file. 0, or -1 with errno. */
static int write_file(const char *program)
{
    struct writing writing = {.file = NULL};
    int result = -1;
    if (collect(&writing))
        writing.file = fopen(trace.file, "we");
    if (writing.file != NULL) {
        write_all(&writing, program);
        bool failed = ferror(writing.file) != 0;
        result = fclose(writing.file) != 0 || failed ? -1 : 0;
    }
    free(writing.arrows.starts);
    free(writing.entries);
    free(writing.lanes);
    return result;
}

static void forget(void)
{
    while (trace.rings != NULL) {
        struct ring *ring = trace.rings;
        trace.rings = ring->next;
        free(ring);
    }
    free(trace.serials);
    mutex_destroy(&trace.lock);
    own_ring = NULL;
}

int trace_close(const char *program)
{
    if (!atomic_exchange(&trace_is_on, false))
        return 0;
    int result = write_file(program);
    int error = errno;
    forget();
    errno = error;
    return result;
}
