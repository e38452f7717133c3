/*
 * The load generator: many clients in one thread, which check every byte that comes back.
 *
 *   build/tests/load [options] -- build/stage2-single-reactor [its options]
 *
 * It starts the server, reads the ready line, connects, warms up, measures, takes in what is still
 * outstanding, reports, and ends the server by its pid. What it says of the server's CPU time, it
 * knows from the server process itself, so it holds however busy the machine is.
 *
 * Closed loop: each client sends a burst of `depth` messages with one write, and the next burst
 * when the last reply has come. A server that stops for a second is then asked nothing for that
 * second: one bad latency for each client is all that is seen of it. Open loop (--rate): messages
 * are due at fixed times, and a latency is counted from when the message was due, sent or not. That
 * corrects what Gil Tene calls coordinated omission.
 *
 * Visits (--visits): a connection sends one message, takes its reply, and is closed when all others
 * have had theirs; then all come again. A reply then counts as a connection, with all that it cost.
 *
 * Overload (--within): a server may refuse a message (a line that begins with ERR), or drop it
 * without a word. What counts then is how many of the messages that were due were answered in time.
 *
 * Files, in reading order: load.c, the command line and the course of a run; load_server.c, the
 * server process; load_traffic.c, what is said and what has to come back; load_clients.c, the
 * connections and their events; load_report.c, latencies and what is printed.
 *
 * Interface:
 * - One thread. What cannot go on calls load_fail(), which ends the server and exits with 1.
 * - Times are nanoseconds of the monotonic clock.
 */
#ifndef TESTS_LOAD_H
#define TESTS_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    MOST_DEPTH = 1024,
};

/* ---- what is asked for ----------------------------------------------------------------------- */

struct load_settings {
    uint64_t connections; /* active ones */
    uint64_t idle;        /* silent ones beside them */
    uint64_t depth;       /* messages that a client has under way */
    uint64_t size;        /* bytes of a message, its LF included */
    uint64_t rate;        /* open loop: messages a second, all clients together; 0: closed loop */
    int64_t warm_up;      /* ms that are not measured */
    int64_t duration;     /* ms that are */
    uint64_t requests;    /* measure so many replies instead; 0: for the duration */
    int64_t patience;     /* ms without any reply after which it gives up */
    uint64_t set_aside;   /* percent of the slowest replies that the latencies leave out */
    uint64_t within; /* ms: counts the messages answered in this time, and bears refusals; 0: no */
    const char *traffic; /* "echo", "chat", "http" */
    const char *path;    /* http: what to get */
    const char *body;    /* http: a file with what comes back; NULL: any body of the length told */
    const char *pin_server;
    const char *pin_load;
    uint64_t port; /* of a server that runs already; 0: start it */
    uint64_t pid;
    bool visits; /* each connection says one message and is closed, again and again */
    bool json;
    char **server; /* the server's command line, ended by NULL */
};

/* ---- the server ------------------------------------------------------------------------------ */

/** What a process has used so far. */
struct usage {
    double cpu;    /* seconds, all threads */
    double user;   /* of it; the system tells these two in ticks, 10 ms as a rule */
    double system; /* of it */
};

struct load_server {
    pid_t pid;
    int port;
    bool ours;             /* we have started it, and end it */
    char name[64];         /* from its ready line, or the program's */
    long long memory_base; /* its private memory before the first connection; bytes */
};

/** Starts the server, or finds the one that runs. Fails if it does not begin to serve. */
void server_begin(struct load_server *server, const struct load_settings *settings);

/** Ends a server that we have started; fails if it does not end well. */
void server_finish(struct load_server *server);

/** What became of the server, for an error message; "" while it runs. */
const char *server_fate(struct load_server *server);

struct usage server_usage(const struct load_server *server);

/** Private memory of the process, in bytes: what lies in user space, and no file's. */
long long server_memory(const struct load_server *server);

long server_threads(const struct load_server *server);

/** Keeps this thread, and the processes it starts, on processors such as "0" or "0,2". */
void pin_to(const char *processors);

/* ---- clients --------------------------------------------------------------------------------- */

struct client {
    int fd;
    uint32_t number;
    bool idle;
    bool awaits_room;   /* part of a burst is unsent, and the socket is full */
    uint64_t asked;     /* messages sent, or in `unsent` */
    uint64_t answered;  /* replies that have come whole */
    uint64_t place;     /* bytes of the present reply that have come */
    uint64_t body;      /* http: of its body; chat: unused */
    const char *unsent; /* the rest of a burst */
    size_t unsent_length;
    char *head;       /* http: the header as far as it has come */
    int64_t *sent_at; /* of the last `depth` messages */
};

struct histogram {
    uint64_t count;
    int64_t most;
    uint32_t buckets[64 * 64];
};

struct load {
    struct load_settings settings;
    struct load_server server;
    const struct traffic *traffic;
    struct client *clients;
    size_t client_count;
    int epoll;
    bool measuring;
    int64_t began; /* the measuring */
    int64_t ended;
    int64_t open_began;   /* when the first message was due */
    uint64_t next_due;    /* number of the message that is due next */
    uint64_t replies;     /* in the measured time */
    uint64_t all_replies; /* since the beginning */
    uint64_t all_asked;   /* likewise: replies that are owed or have come */
    int64_t last_reply;   /* when */
    uint64_t in_time; /* --within: of the messages due in the measured time, those answered so */
    uint64_t refused; /* likewise: those answered by ERR */
    double own_cpu;   /* seconds of the load generator's, in the measured time */
    struct histogram latency;
    struct histogram from_sending; /* open loop: as a generator that waits its turn would see it */
    struct usage used;             /* by the server, in the measured time */
    long threads;
    long long memory; /* per idle connection, when all are connected and silent; without any, per
                       * connection; bytes */
};

/** Connects all clients, has each idle one exchange a message, and measures the memory. */
void clients_connect(struct load *load);

/** Sends and receives, and measures. Returns when the measured time is over. */
void clients_run(struct load *load);

/** Takes in the replies that are outstanding; fails if they do not come. */
void clients_drain(struct load *load);

/** Instead of all that: opens all connections, has each exchange a message, resets them, again and
 * again until the time is over. What is measured is a connection. */
void clients_visit(struct load *load);

/** Resets all connections, so that the system keeps none of them. */
void clients_close(struct load *load);

int64_t now_ns(void);

/* ---- traffic --------------------------------------------------------------------------------- */

struct traffic {
    const char *name;
    void (*prepare)(const struct load_settings *settings);
    /** `count` messages of a client, from its message number `first` on. */
    const char *(*request)(const struct client *client, uint64_t first, uint64_t count,
                           size_t *length);
    /** Checks what has come for a client; how many replies it completes. Fails if it is wrong. */
    uint64_t (*receive)(struct client *client, const char *data, size_t length);
    bool one_speaks; /* client 0 alone sends, and all others get a copy */
};

/** The kind of that name, NULL if there is none. */
const struct traffic *traffic_named(const char *name);

/** Echo: whether a line is the reply to a client's message of that number. */
bool echo_is_reply(const struct client *client, uint64_t number, const char *line, size_t length);

/** Chat: the line that says that everybody is there, and a look for it in what a client gets. */
const char *chat_opening(size_t *length);
bool chat_opened(struct client *client, const char *data, size_t length);

/* ---- report ---------------------------------------------------------------------------------- */

void histogram_add(struct histogram *histogram, int64_t ns);

/** Nanoseconds that `part` (0 to 1) of the samples do not exceed. */
int64_t histogram_quantile(const struct histogram *histogram, double part);

void report_progress(const struct load *load, double part);
void report_text(const struct load *load);
void report_json(const struct load *load);

/** Says why it cannot go on, ends the server, and exits with 1. */
_Noreturn void load_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
