/*
 * The deliberately faulty server: the proof that the conformance suite can fail.
 *
 * With no fault chosen it is a small and correct line-echo server: one thread, poll(2), every
 * option and every promise that all stages share. `--fault NAME`, or FAULT=NAME in the environment,
 * plants one fault. faults.h says what each fault does and which tests must catch it;
 * `--list-faults` prints it, and run.sh demands that every test named there fails while the fault
 * is planted, and that all pass without.
 *
 * It stands alone on purpose: nothing of common/ is in it, so that the suite is judged against a
 * server that shares no code, and no mistake, with the stages.
 *
 * Reading order: the faults; bytes; options; the connection: reading, answering, writing, closing;
 * accepting; timeouts; signals; the loop.
 */
#include "faults.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- the faults ---- */

#define FAULT_IDENTIFIER(identifier, name, does, caught_by) identifier,
#define FAULT_ROW(identifier, name, does, caught_by)        {name, does, caught_by},

enum fault { FAULTS(FAULT_IDENTIFIER) NO_FAULT };

static const struct fault_row {
    const char *name;
    const char *does;
    const char *caught_by; /* suite/test, separated by spaces: each of them must fail */
} fault_rows[] = {FAULTS(FAULT_ROW)};

static enum fault planted = NO_FAULT;

static bool has(enum fault fault)
{
    return planted == fault;
}

static void list_faults(void)
{
    for (size_t i = 0; i < NO_FAULT; i++) {
        printf("%s\t%s\t%s\n", fault_rows[i].name, fault_rows[i].caught_by, fault_rows[i].does);
    }
}

/* ---- small things ---- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* A queue of bytes in one block: data[start..end). */
struct bytes {
    char *data;
    size_t start, end, capacity;
};

static size_t bytes_length(const struct bytes *bytes)
{
    return bytes->end - bytes->start;
}

/* Makes room for `more` bytes behind the end; false when there is no memory. */
static bool bytes_reserve(struct bytes *bytes, size_t more)
{
    if (bytes->end + more <= bytes->capacity) {
        return true;
    }
    size_t length = bytes_length(bytes);
    if (bytes->start > 0) {
        memmove(bytes->data, bytes->data + bytes->start, length);
        bytes->start = 0;
        bytes->end = length;
    }
    if (length + more > bytes->capacity) {
        size_t capacity = 2 * (length + more);
        char *data = realloc(bytes->data, capacity);
        if (!data) {
            return false;
        }
        bytes->data = data;
        bytes->capacity = capacity;
    }
    return true;
}

static bool bytes_append(struct bytes *bytes, const char *data, size_t length)
{
    if (!bytes_reserve(bytes, length)) {
        return false;
    }
    memcpy(bytes->data + bytes->end, data, length);
    bytes->end += length;
    return true;
}

/* Takes bytes from the front; an empty queue holds no memory. */
static void bytes_consume(struct bytes *bytes, size_t length)
{
    bytes->start += length;
    if (bytes->start == bytes->end) {
        free(bytes->data);
        *bytes = (struct bytes){0};
    }
}

/* ---- options ---- */

enum overload { REJECT, WAIT, REDIRECT };

static struct {
    const char *bind, *redirect;
    size_t port, max_line, max_connections, high_mark, low_mark, cap, send_buffer;
    size_t work_us, block_ms, cost_every;
    double idle, request, lifetime, progress, drain;
    enum overload overload;
    bool stats;
} options = {.bind = "127.0.0.1",
             .port = 7000,
             .max_line = 65536,
             .high_mark = 65536,
             .low_mark = 16384,
             .cap = 1048576,
             .cost_every = 1,
             .drain = 5};

static const char *program = "faulty-server";

enum kind { FLAG, PORT, ADDRESS, NUMBER, SECONDS, OVERLOAD, LEVEL, FAULT, HELP, VERSION, LIST };

#define MOST ((size_t)1 << 30)

static const struct option {
    const char *name, *takes, *standard;
    enum kind kind;
    void *value;
    size_t least, most;
} option_rows[] = {
    {"bind", "ADDR", "127.0.0.1", ADDRESS, &options.bind, 0, 0},
    {"port", "N", "7000", PORT, &options.port, 0, 65535},
    {"max-line", "BYTES", "65536", NUMBER, &options.max_line, 1, MOST},
    {"max-connections", "N", "what the descriptor limit allows", NUMBER, &options.max_connections,
     1, MOST},
    {"overload", "reject|wait|redirect=HOST:PORT", "reject", OVERLOAD, NULL, 0, 0},
    {"idle-timeout", "SEC", "0", SECONDS, &options.idle, 0, 0},
    {"request-timeout", "SEC", "0", SECONDS, &options.request, 0, 0},
    {"lifetime", "SEC", "0", SECONDS, &options.lifetime, 0, 0},
    {"progress-timeout", "SEC", "0", SECONDS, &options.progress, 0, 0},
    {"drain-timeout", "SEC", "5", SECONDS, &options.drain, 0, 0},
    {"output-high-mark", "BYTES", "65536", NUMBER, &options.high_mark, 1, MOST},
    {"output-low-mark", "BYTES", "16384", NUMBER, &options.low_mark, 0, MOST},
    {"output-cap", "BYTES", "1048576", NUMBER, &options.cap, 1, MOST},
    {"send-buffer", "BYTES", "0", NUMBER, &options.send_buffer, 0, MOST},
    {"work-us", "N", "0", NUMBER, &options.work_us, 0, MOST},
    {"block-ms", "N", "0", NUMBER, &options.block_ms, 0, MOST},
    {"cost-every", "N", "1", NUMBER, &options.cost_every, 1, MOST},
    {"stats", NULL, "off", FLAG, &options.stats, 0, 0},
    {"log", "error|warn|info|debug", "warn", LEVEL, NULL, 0, 0},
    {"fault", "NAME", "none", FAULT, NULL, 0, 0},
    {"list-faults", NULL, "", LIST, NULL, 0, 0},
    {"help", NULL, "", HELP, NULL, 0, 0},
    {"version", NULL, "", VERSION, NULL, 0, 0},
};
enum { OPTION_COUNT = sizeof option_rows / sizeof *option_rows };

static _Noreturn void bad_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void bad_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(has(EXIT_STATUS_1_ON_BAD_USAGE) ? 1 : 2);
}

static void print_help(void)
{
    printf("usage: %s [options]\n", program);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &option_rows[i];
        printf("  --%s %s  (default: %s)\n", option->name, option->takes ? option->takes : "",
               option->standard);
    }
}

/* Digits only, within the limits. */
static bool parse_number(const char *text, size_t least, size_t most, size_t *value)
{
    size_t number = 0;
    *value = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || number > most) {
            return false;
        }
        number = number * 10 + (size_t)(*c - '0');
    }
    *value = number;
    return *text && number >= least && number <= most;
}

static bool parse_seconds(const char *text, double *value)
{
    size_t digits = strspn(text, "0123456789");
    const char *rest = text + digits;
    if (*rest == '.') {
        size_t decimals = strspn(rest + 1, "0123456789");
        digits += decimals;
        rest += 1 + decimals;
    }
    *value = strtod(text, NULL);
    return digits > 0 && *rest == '\0' && *value <= 1e9;
}

static bool parse_overload(const char *text)
{
    static const char redirect[] = "redirect=";
    size_t port;
    if (strcmp(text, "reject") == 0 || strcmp(text, "wait") == 0) {
        options.overload = text[0] == 'w' ? WAIT : REJECT;
        return true;
    }
    options.overload = REDIRECT;
    options.redirect = text + sizeof redirect - 1;
    const char *colon = strrchr(text, ':');
    return strncmp(text, redirect, sizeof redirect - 1) == 0 && colon > options.redirect &&
           parse_number(colon + 1, 1, 65535, &port);
}

static bool parse_address(const char *text)
{
    struct in6_addr address;
    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

static bool parse_level(const char *text)
{
    return strcmp(text, "error") == 0 || strcmp(text, "warn") == 0 || strcmp(text, "info") == 0 ||
           strcmp(text, "debug") == 0;
}

static bool parse_fault(const char *text)
{
    for (planted = 0; planted < NO_FAULT; planted++) {
        if (strcmp(text, fault_rows[planted].name) == 0) {
            return true;
        }
    }
    return strcmp(text, "none") == 0;
}

static void parse_value(const struct option *option, const char *text)
{
    const char *name = option->name;
    switch (option->kind) {
    case PORT:
        if (!parse_number(text, option->least, option->most, option->value) &&
            !has(ACCEPTS_BAD_PORT)) {
            bad_usage("--%s: expected a port number, got '%s'", name, text);
        }
        break;
    case NUMBER:
        if (!parse_number(text, option->least, option->most, option->value) &&
            !has(ACCEPTS_BAD_VALUES)) {
            bad_usage("--%s: expected a number from %zu to %zu, got '%s'", name, option->least,
                      option->most, text);
        }
        break;
    case SECONDS:
        if (!parse_seconds(text, option->value) && !has(ACCEPTS_BAD_VALUES)) {
            bad_usage("--%s: expected a number of seconds, got '%s'", name, text);
        }
        break;
    case ADDRESS:
        if (!parse_address(text) && !has(ACCEPTS_BAD_VALUES)) {
            bad_usage("--%s: expected an IP address, got '%s'", name, text);
        }
        options.bind = text;
        break;
    case OVERLOAD:
        if (!parse_overload(text) && !has(ACCEPTS_BAD_VALUES)) {
            bad_usage("--%s: expected one of reject, wait, redirect=HOST:PORT, got '%s'", name,
                      text);
        }
        break;
    case LEVEL:
        if (!parse_level(text) && !has(ACCEPTS_BAD_VALUES)) {
            bad_usage("--%s: expected one of error, warn, info, debug, got '%s'", name, text);
        }
        break;
    case FAULT:
        if (!parse_fault(text)) {
            bad_usage("--%s: expected a fault (see --list-faults), got '%s'", name, text);
        }
        break;
    default: break;
    }
}

static void parse_flag(const struct option *option)
{
    switch (option->kind) {
    case HELP:
        if (!has(NO_HELP)) {
            print_help();
        }
        exit(0);
    case VERSION: printf("%s\n", has(NO_VERSION) ? "usage" : "faulty-server 1"); exit(0);
    case LIST: list_faults(); exit(0);
    default: options.stats = true;
    }
}

static const struct option *option_named(const char *name, size_t length)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strlen(option_rows[i].name) == length &&
            memcmp(option_rows[i].name, name, length) == 0) {
            return &option_rows[i];
        }
    }
    return NULL;
}

static void parse_options(char *argv[])
{
    const char *fault = getenv("FAULT");
    if (fault && !parse_fault(fault)) {
        bad_usage("FAULT: not a fault (see --list-faults): %s", fault);
    }
    for (char **argument = argv + 1; *argument; argument++) {
        if (strncmp(*argument, "--", 2) != 0) {
            bad_usage("%s: unexpected argument (see --help)", *argument);
        }
        const char *name = *argument + 2;
        const char *equals = strchr(name, '=');
        const struct option *option =
            option_named(name, equals ? (size_t)(equals - name) : strlen(name));
        if (!option) {
            if (has(IGNORES_UNKNOWN_OPTIONS)) {
                continue;
            }
            bad_usage("%.*s: unknown option (see --help)", (int)strcspn(*argument, "="), *argument);
        }
        if (!option->takes) {
            if (equals) {
                bad_usage("--%s: takes no value", option->name);
            }
            parse_flag(option);
        } else if (equals) {
            parse_value(option, equals + 1);
        } else if (argument[1]) {
            parse_value(option, *++argument);
        } else {
            bad_usage("--%s: needs a value: %s", option->name, option->takes);
        }
    }
}

/* ---- the connection ---- */

enum {
    READ_SIZE = 16384,        /* most bytes taken in one read */
    LINES_A_TURN = 64,        /* most lines answered before the other clients' turn */
    ACCEPTS_A_TURN = 64,      /* most connections accepted before the clients' turn */
    LAST_ACCEPTS = 4096 / 64, /* such turns, at a stop */
    PROGRESS_BYTES = 65536,   /* what the peer has to take in every --progress-timeout */
    RESERVED_DESCRIPTORS = 8, /* standard ones, listener, reserve, a little air */
    TICK_MS = 100
};
static const double LINGER_SECONDS = 2;
static const double QUIET_SECONDS = 0.2; /* and so long at a stop */
static const double GRACE_SECONDS = 1;   /* for the first line, from accept on */

struct connection {
    int fd;
    struct bytes in, out;
    size_t searched; /* so far there is no LF in this much of `in` */
    bool peer_ended; /* end of stream was read */
    bool input_over; /* no more is read: that, or the server stops */
    bool spoken;     /* a line was answered */
    bool ending;     /* no further line is answered: flush, then linger or close */
    bool lingering;  /* all is sent, our end too; what still comes is discarded */
    bool paused;     /* over the high mark: not read until under the low mark */
    bool more;       /* whole lines are left over from its last turn */
    bool held;       /* for answers-late */
    bool dead;
    double accepted, active, linger_until;
    double line_began;  /* when the unfinished line's first byte came; 0: there is none */
    size_t sent;        /* in all */
    double progress_at; /* since when the peer has acknowledged progress_from bytes */
    size_t progress_from;
};

static struct connection **connections;
static size_t connection_count, places_taken;

static struct {
    unsigned long long accepted, rejected, closed, messages, bytes_in, bytes_out;
} stats;

static bool draining;
static double drain_until;
static volatile sig_atomic_t stop_asked, stats_asked;

static void print_stats(void)
{
    fprintf(stderr,
            "%s: stats accepted=%llu rejected=%llu closed=%llu messages=%llu bytes_in=%llu "
            "bytes_out=%llu\n",
            program, stats.accepted, stats.rejected, stats.closed, stats.messages, stats.bytes_in,
            stats.bytes_out);
}

/* -- writing -- */

/* What the peer's system has acknowledged of what was sent. */
static size_t acknowledged(const struct connection *c)
{
    int under_way = 0;
    return ioctl(c->fd, SIOCOUTQ, &under_way) == 0 ? c->sent - (size_t)under_way : c->sent;
}

static void queue_reply(struct connection *c, const char *data, size_t length)
{
    if (bytes_length(&c->out) > options.cap && !has(UNBOUNDED_OUTPUT)) {
        c->dead = true;
        return;
    }
    if (bytes_length(&c->out) == 0) {
        c->progress_at = now();
        c->progress_from = acknowledged(c);
    }
    if (!bytes_append(&c->out, data, length)) {
        c->dead = true;
    }
}

static void note_activity(struct connection *c)
{
    c->active = has(IDLE_TIMEOUT_IGNORES_TRAFFIC) ? c->active : now();
}

static void note_progress(struct connection *c)
{
    size_t taken = acknowledged(c) - c->progress_from;
    if (taken >= PROGRESS_BYTES || (taken > 0 && has(PROGRESS_BY_ONE_BYTE))) {
        c->progress_at = now();
        c->progress_from += taken;
    }
}

static void write_output(struct connection *c)
{
    if (c->held) {
        return;
    }
    while (!c->dead && bytes_length(&c->out) > 0) {
        ssize_t sent = send(c->fd, c->out.data + c->out.start, bytes_length(&c->out),
                            has(DIES_ON_SIGPIPE) ? 0 : MSG_NOSIGNAL);
        if (sent > 0) {
            stats.bytes_out += (size_t)sent;
            bytes_consume(&c->out, (size_t)sent);
            c->sent += (size_t)sent;
            note_activity(c);
            note_progress(c);
        } else if (errno == EAGAIN && has(BLOCKS_ON_NON_READER)) {
            poll(&(struct pollfd){.fd = c->fd, .events = POLLOUT}, 1, -1);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            c->dead = true;
        }
    }
    size_t waiting = bytes_length(&c->out);
    if (waiting > options.high_mark) {
        c->paused = true;
    } else if (waiting <= options.low_mark && !has(NEVER_RESUMES)) {
        c->paused = false;
    }
}

/* -- answering -- */

/* Answers to earlier lines do not wait until this one has been paid for. */
static void pay_cost(struct connection *c)
{
    bool pays = stats.messages % options.cost_every == 0 || has(EVERY_MESSAGE_PAYS);
    if (!pays || has(COSTS_NOTHING)) {
        return;
    }
    if (options.block_ms > 0) {
        if (!has(HOLDS_ANSWERS_WHILE_BLOCKED)) {
            write_output(c);
        }
        struct timespec pause = {.tv_sec = (time_t)(options.block_ms / 1000),
                                 .tv_nsec = (long)(options.block_ms % 1000) * 1000000L};
        nanosleep(&pause, NULL);
    }
    for (double until = now() + (double)options.work_us / 1e6; options.work_us && now() < until;) {
    }
}

static struct connection *another(const struct connection *c)
{
    for (size_t i = 0; i < connection_count; i++) {
        if (connections[i] != c && !connections[i]->dead) {
            return connections[i];
        }
    }
    return NULL;
}

/* Echoes one line, with the faults that spoil a reply. */
static void answer(struct connection *c, const char *line, size_t length)
{
    bool fiftieth = stats.messages % 50 == 49;
    bool third = stats.messages % 3 == 2;
    stats.messages += has(WRONG_STATS) ? 2 : 1;
    pay_cost(c);
    if (has(EATS_EMPTY_LINES) && (length == 1 || (length == 2 && line[0] == '\r'))) {
        return;
    }
    if (has(ECHOES_WRONG_CLIENT) && third && another(c)) {
        queue_reply(another(c), line, length);
        return;
    }
    if (has(SPLITS_ON_NUL) && memchr(line, '\0', length)) {
        queue_reply(c, line, strlen(line));
        queue_reply(c, "\n", 1);
        return;
    }
    if (has(STRIPS_CR) && length > 1 && line[length - 2] == '\r') {
        queue_reply(c, line, length - 2);
        queue_reply(c, "\n", 1);
        return;
    }
    if (has(LOSES_A_BYTE) && fiftieth) {
        line++;
        length--;
    }
    queue_reply(c, line, length);
    if (has(ADDS_A_BYTE) && fiftieth) {
        queue_reply(c, "x", 1);
    }
    if (has(DUPLICATES_A_REPLY) && fiftieth) {
        queue_reply(c, line, length);
    }
    c->held = has(ANSWERS_LATE);
}

static void refuse_line(struct connection *c)
{
    const char *error = has(WRONG_ERROR_LINE) ? "ERR too long\n" : "ERR line too long\n";
    if (has(ERROR_OVERTAKES_REPLIES)) {
        bytes_consume(&c->out, bytes_length(&c->out));
    }
    bytes_consume(&c->in, bytes_length(&c->in));
    queue_reply(c, error, strlen(error));
    c->ending = true;
    c->line_began = 0;
}

/* The length of the content of the line data[0..length): its LF, or CR LF, does not count. */
static size_t content_length(const char *data, size_t length)
{
    if (length > 0 && data[length - 1] == '\n') {
        length--;
    }
    return length > 0 && data[length - 1] == '\r' && !has(LIMIT_COUNTS_CR) ? length - 1 : length;
}

/* The length of the first whole line, LF included; 0 if there is none yet. */
static size_t whole_line(struct connection *c)
{
    size_t length = bytes_length(&c->in);
    const char *data = c->in.data + c->in.start;
    const char *lf =
        length > c->searched ? memchr(data + c->searched, '\n', length - c->searched) : NULL;
    c->searched = lf ? (size_t)(lf - data) : length;
    return lf ? c->searched + 1 : 0;
}

static bool too_long(const struct connection *c, size_t line)
{
    size_t length = line ? line : bytes_length(&c->in);
    if (has(NO_LIMIT_ON_LINE) || (has(LIMIT_ONLY_AT_LF) && line == 0)) {
        return false;
    }
    return length > 0 && content_length(c->in.data + c->in.start, length) > options.max_line;
}

static void answer_first(struct connection *c, size_t line)
{
    const char *data = c->in.data + c->in.start;
    size_t rest = bytes_length(&c->in) - line;
    const char *lf = rest ? memchr(data + line, '\n', rest) : NULL;
    if (has(SWAPS_TWO_REPLIES) && lf) {
        size_t second = (size_t)(lf - data) + 1 - line;
        answer(c, data + line, second);
        answer(c, data, line);
        line += second;
    } else {
        answer(c, data, line);
    }
    bytes_consume(&c->in, has(ONE_LINE_A_READ) ? bytes_length(&c->in) : line);
    c->searched = 0;
}

/* Answers the whole lines that came, as far as its turn and its output allow. */
static void answer_lines(struct connection *c)
{
    size_t line = 0;
    int answered = 0;
    c->more = false;
    while (!c->dead && !c->ending) {
        line = whole_line(c);
        if (too_long(c, line)) {
            refuse_line(c);
            return;
        }
        if (line == 0 || (bytes_length(&c->out) > options.high_mark && !has(UNBOUNDED_OUTPUT))) {
            break;
        }
        if (answered++ == LINES_A_TURN && !has(STARVES_OTHERS)) {
            c->more = true;
            break;
        }
        answer_first(c, line);
        c->spoken = true;
    }
    bool unfinished = line == 0 && bytes_length(&c->in) > 0;
    if (!unfinished) {
        c->line_began = 0;
    } else if (c->line_began == 0 || answered > 0) {
        c->line_began = now();
    }
}

/* -- reading -- */

static bool wants_input(const struct connection *c)
{
    return c->lingering ||
           (!c->input_over && !c->ending && !c->more && (!c->paused || has(UNBOUNDED_OUTPUT)));
}

static void end_of_input(struct connection *c)
{
    c->peer_ended = c->input_over = true;
    if (has(KEEPS_UNFINISHED_LINE) && bytes_length(&c->in) > 0 && whole_line(c) == 0) {
        queue_reply(c, c->in.data + c->in.start, bytes_length(&c->in));
    }
    if (has(DROPS_OUTPUT_ON_HALF_CLOSE)) {
        bytes_consume(&c->out, bytes_length(&c->out));
    }
}

/* For drops-last-line-on-half-close: waits until the rest is there, and takes off its last line. */
static void drop_last_line(struct connection *c)
{
    char byte;
    poll(&(struct pollfd){.fd = c->fd, .events = POLLRDHUP}, 1, 50);
    if (recv(c->fd, &byte, 1, MSG_PEEK) == 0 && bytes_length(&c->in) > 0) {
        c->in.end--;
        while (bytes_length(&c->in) > 0 && c->in.data[c->in.end - 1] != '\n') {
            c->in.end--;
        }
    }
}

/* Returns false when nothing was there to read. */
static bool read_input(struct connection *c)
{
    if (has(BUFFER_OF_1024) && bytes_length(&c->in) >= 1024) {
        return false;
    }
    if (!bytes_reserve(&c->in, READ_SIZE)) {
        c->dead = true;
        return false;
    }
    ssize_t got = recv(c->fd, c->in.data + c->in.end, has(BUFFER_OF_1024) ? 512 : READ_SIZE, 0);
    if (got > 0) {
        c->in.end += (size_t)got;
        c->held = false;
        stats.bytes_in += (size_t)got;
        note_activity(c);
        c->line_began = has(REQUEST_TIMEOUT_REARMED) ? 0 : c->line_began;
    } else if (got == 0) {
        end_of_input(c);
    } else if (errno == EAGAIN || errno == EINTR) {
        return false;
    } else {
        if (has(DIES_ON_RESET)) {
            exit(1);
        }
        c->dead = true;
    }
    if (c->lingering) {
        bytes_consume(&c->in, bytes_length(&c->in));
        c->dead = c->dead || c->peer_ended;
    }
    if (has(DROPS_LAST_LINE_ON_HALF_CLOSE) && got > 0) {
        drop_last_line(c);
    }
    return got > 0;
}

/* -- closing -- */

/* Takes what is there and throws it away: a close with unread input would be a reset. */
static void discard_input(int fd)
{
    char rest[4096];
    while (recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0) {
    }
}

/* The server stops, and nothing can come to harm if it closes. */
static bool is_quiet(const struct connection *c)
{
    return has(RESETS_WHILE_DRAINING) ||
           (acknowledged(c) >= c->sent && now() >= c->active + QUIET_SECONDS);
}

/* All is answered and sent: end the stream, at once or after lingering. */
static void finish(struct connection *c)
{
    bool waits = draining ? !is_quiet(c) : c->ending;
    bool lingers = waits && !c->peer_ended && !has(RESETS_INSTEAD_OF_LINGERING);
    c->lingering = lingers;
    c->linger_until = now() + (draining ? QUIET_SECONDS : LINGER_SECONDS);
    c->dead = !lingers && (!has(NEVER_CLOSES) || c->ending);
    if (lingers || draining) {
        shutdown(c->fd, SHUT_WR);
        discard_input(c->fd);
    }
}

/* It has only just come: its first line may be on its way, although the server stops. */
static bool may_begin(const struct connection *c)
{
    return !c->spoken && now() < c->accepted + GRACE_SECONDS && !has(FORGETS_NEWCOMERS);
}

/* One turn of a connection: answer what is there, write, see whether it is done. */
static void take_turn(struct connection *c)
{
    do {
        answer_lines(c);
        write_output(c);
        if (has(STARVES_OTHERS)) {
            while (!c->dead && wants_input(c) && read_input(c)) {
                answer_lines(c);
                write_output(c);
            }
        }
    } while (!c->dead && !c->ending && !c->more && bytes_length(&c->out) == 0 && whole_line(c));
    bool idle = bytes_length(&c->out) == 0 && !c->more && !c->lingering;
    c->input_over = c->input_over || (draining && !may_begin(c));
    if (!c->dead && idle && (c->ending || c->input_over)) {
        finish(c);
    }
}

static void connection_close(struct connection *c)
{
    if (has(LEAKS_DESCRIPTORS)) {
        shutdown(c->fd, SHUT_RDWR);
    } else {
        close(c->fd);
    }
    bytes_consume(&c->in, bytes_length(&c->in));
    bytes_consume(&c->out, bytes_length(&c->out));
    free(c->in.data);
    free(c->out.data);
    free(c);
    stats.closed++;
    places_taken -= has(NEVER_FREES_A_PLACE) ? 0 : 1;
}

static void remove_dead(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < connection_count; i++) {
        if (connections[i]->dead) {
            connection_close(connections[i]);
        } else {
            connections[kept++] = connections[i];
        }
    }
    connection_count = kept;
}

/* ---- accepting ---- */

static int listener = -1, reserve = -1;
static double listen_again; /* out of descriptors: no look at the listener before */

static _Noreturn void cannot_listen(const char *shown)
{
    fprintf(stderr, "%s: cannot listen on %s: %s\n", program, shown, strerror(errno));
    exit(has(PORT_TAKEN_EXIT_0) ? 0 : 1);
}

static void print_ready_line(bool six)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    getsockname(listener, (struct sockaddr *)&address, &size);
    in_port_t port = six ? ((struct sockaddr_in6 *)&address)->sin6_port
                         : ((struct sockaddr_in *)&address)->sin_port;
    const char *words = has(WRONG_READY_LINE) ? "ready on" : "echo on";
    printf(six ? "%s: %s [%s]:%d\n" : "%s: %s %s:%d\n", program, words, options.bind, ntohs(port));
    if (!has(SILENT_READY)) {
        fflush(stdout);
    }
}

static void start_listening(void)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((in_port_t)options.port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons((in_port_t)options.port)};
    bool is_six = inet_pton(AF_INET, options.bind, &four.sin_addr) != 1;
    inet_pton(AF_INET6, options.bind, &six.sin6_addr);
    const struct sockaddr *address =
        is_six ? (const struct sockaddr *)&six : (const struct sockaddr *)&four;
    char shown[128];
    snprintf(shown, sizeof shown, is_six ? "[%s]:%zu" : "%s:%zu", options.bind, options.port);

    listener = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!has(NO_REUSEADDR)) {
        setsockopt(listener, SOL_SOCKET, has(SHARES_ITS_PORT) ? SO_REUSEPORT : SO_REUSEADDR,
                   &(int){1}, sizeof(int));
    }
    if (listener == -1 || bind(listener, address, is_six ? sizeof six : sizeof four) == -1 ||
        listen(listener, SOMAXCONN) == -1) {
        cannot_listen(shown);
    }
    reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    print_ready_line(is_six);
}

static void refuse(int fd)
{
    char line[512] = "ERR server busy\n";
    if (options.overload == REDIRECT && !has(NO_REDIRECT)) {
        snprintf(line, sizeof line, "ERR server busy, try %s\n", options.redirect);
    }
    if (!has(NO_BUSY_LINE)) {
        send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    shutdown(fd, SHUT_WR);
    discard_input(fd);
    close(fd);
    stats.rejected++;
}

/* No descriptor is free: one kept in reserve makes it possible to accept, say so, and close. */
static void refuse_with_reserve(void)
{
    if (has(DIES_AT_EMFILE)) {
        exit(1);
    }
    if (has(SPINS_AT_EMFILE)) {
        return;
    }
    if (reserve != -1 && !has(SILENT_AT_EMFILE)) {
        close(reserve);
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            refuse(fd);
        }
        reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    } else {
        listen_again = now() + TICK_MS / 1000.0;
    }
}

static void add_connection(int fd)
{
    struct connection *c = calloc(1, sizeof *c);
    struct connection **grown = realloc(connections, (connection_count + 1) * sizeof *grown);
    connections = grown ? grown : connections;
    if (!c || !grown) {
        free(c);
        refuse(fd);
        return;
    }
    c->fd = fd;
    c->accepted = c->active = now();
    if (options.send_buffer > 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){(int)options.send_buffer}, sizeof(int));
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    connections[connection_count++] = c;
    places_taken++;
    stats.accepted++;
}

static bool full(void)
{
    return places_taken >= options.max_connections;
}

static bool wants_clients(void)
{
    bool waits = options.overload == WAIT && full() && !has(IGNORES_WAIT);
    return listener != -1 && !waits && now() >= listen_again &&
           !(has(ACCEPTS_EIGHT) && stats.accepted >= 8);
}

/* ppoll() tells of clients first, and of a signal only when there are none. */
static bool ignores_those_who_wait(void)
{
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, SIGTERM) == 1 && has(RESETS_THOSE_WHO_WAIT)) {
        stop_asked = 1;
    }
    return stop_asked && has(RESETS_THOSE_WHO_WAIT);
}

static void accept_clients(void)
{
    if (ignores_those_who_wait()) {
        return;
    }
    for (int i = 0; i < ACCEPTS_A_TURN && wants_clients(); i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 && full() && options.overload != WAIT) {
            refuse(fd);
        } else if (fd >= 0) {
            add_connection(fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            refuse_with_reserve();
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

/* ---- timeouts ---- */

static bool over(double timeout, double since, double time)
{
    return timeout > 0 && time - since >= timeout;
}

static void expire(struct connection *c, double time)
{
    static bool idled_once;
    bool idle = over(options.idle, c->active, time) && !has(NO_IDLE_TIMEOUT) &&
                !(has(IDLE_TIMEOUT_ONCE) && idled_once);
    idled_once = idled_once || idle;
    double began = has(REQUEST_TIMEOUT_WHEN_IDLE) ? c->active : c->line_began;
    bool request = began > 0 && over(options.request, began, time) && !has(NO_REQUEST_TIMEOUT);
    bool lifetime = over(options.lifetime, c->accepted, time) && !has(NO_LIFETIME);
    if (bytes_length(&c->out) > 0) {
        note_progress(c);
    }
    bool progress = bytes_length(&c->out) > 0 && over(options.progress, c->progress_at, time) &&
                    !has(NO_PROGRESS_TIMEOUT);
    bool lingered = c->lingering && time >= c->linger_until &&
                    !(draining && acknowledged(c) < c->sent && !has(RESETS_WHILE_DRAINING));
    if (idle || request || lifetime || progress || lingered) {
        c->dead = true;
    }
}

/* ---- signals ---- */

static void on_signal(int signal_number)
{
    if (signal_number == SIGUSR1) {
        stats_asked = 1;
        return;
    }
    stop_asked = 1;
    if (!has(NO_SECOND_SIGNAL)) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
    }
}

/* Signals come only while the loop sleeps: blocked here, let in by ppoll. */
static sigset_t prepare_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = has(IGNORES_SIGTERM) ? SIG_IGN : on_signal;
    sigaddset(&blocked, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = has(IGNORES_SIGINT) ? SIG_IGN : on_signal;
    sigaddset(&blocked, SIGINT);
    sigaction(SIGINT, &action, NULL);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    return before;
}

/* The first SIGTERM or SIGINT: no new clients, no new input; what has come is answered. */
static void start_draining(void)
{
    sigset_t last;
    sigemptyset(&last);
    sigaddset(&last, SIGTERM);
    sigaddset(&last, SIGINT);
    sigprocmask(SIG_UNBLOCK, &last, NULL);
    draining = true;
    drain_until = has(NO_DRAIN) ? 0 : has(NO_DRAIN_TIMEOUT) ? 1e18 : now() + options.drain;
    for (int i = 0; i < LAST_ACCEPTS; i++) {
        accept_clients();
    }
    if (!has(ACCEPTS_WHILE_DRAINING)) {
        close(listener);
        listener = -1;
    }
    for (size_t i = 0; i < connection_count; i++) {
        struct connection *c = connections[i];
        if (has(LOSES_INPUT_ON_SIGTERM)) {
            bytes_consume(&c->in, bytes_length(&c->in));
            c->more = false;
        } else {
            while (!c->dead && !c->peer_ended && !c->ending &&
                   bytes_length(&c->in) <= options.max_line && read_input(c)) {
            }
        }
        if (has(LOSES_OUTPUT_ON_SIGTERM)) {
            bytes_consume(&c->out, bytes_length(&c->out));
        }
        take_turn(c);
    }
}

/* ---- the loop ---- */

/* What one connection is watched for. */
static short interest(const struct connection *c)
{
    bool in = wants_input(c) || (has(SPINS_WHILE_SUSPENDED) && !c->peer_ended);
    bool out = (bytes_length(&c->out) > 0 && !c->held) || has(SPINS_ON_CONNECTIONS);
    return (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0));
}

static int sleep_ms(void)
{
    bool timers = draining || listen_again > now() || options.idle > 0 || options.request > 0 ||
                  options.lifetime > 0 || options.progress > 0;
    for (size_t i = 0; i < connection_count; i++) {
        struct connection *c = connections[i];
        timers = timers || c->lingering;
        bool spins = has(SPINS_ON_UNFINISHED_LINE) && c->line_began > 0;
        bool room = bytes_length(&c->out) <= options.high_mark || has(UNBOUNDED_OUTPUT);
        if (c->dead || spins || (c->more && room)) {
            return 0;
        }
    }
    return has(SPINS) ? 0 : timers ? TICK_MS : -1;
}

static void serve(struct connection *c, short ready)
{
    if (c->dead) {
        return;
    }
    if ((ready & POLLERR) && !wants_input(c)) {
        if (has(DIES_ON_RESET)) {
            exit(1);
        }
        c->dead = true;
        return;
    }
    if ((ready & (POLLIN | POLLERR | POLLHUP)) && wants_input(c)) {
        read_input(c);
    }
    if (ready || c->more || (draining && !c->input_over)) {
        take_turn(c);
    }
    if (has(CLOSES_A_STRANGER) && c->dead && (ready & POLLERR)) {
        shutdown(connections[connection_count - 1]->fd, SHUT_RDWR);
    }
}

/* Sleeps until something happens and serves everyone once. */
static void turn(const sigset_t *awake)
{
    static struct pollfd *watched;
    static size_t capacity;
    if (connection_count + 1 > capacity) {
        capacity = 2 * (connection_count + 1);
        free(watched);
        watched = calloc(capacity, sizeof *watched);
        if (!watched) {
            exit(1);
        }
    }
    size_t count = connection_count;
    watched[0] = (struct pollfd){.fd = wants_clients() ? listener : -1, .events = POLLIN};
    for (size_t i = 0; i < count; i++) {
        watched[i + 1] =
            (struct pollfd){.fd = connections[i]->fd, .events = interest(connections[i])};
    }
    int milliseconds = sleep_ms();
    struct timespec most = {.tv_sec = milliseconds / 1000,
                            .tv_nsec = (long)(milliseconds % 1000) * 1000000L};
    int ready = ppoll(watched, count + 1, milliseconds < 0 ? NULL : &most, awake);
    if (ready == -1 && has(DIES_ON_EINTR) && !stop_asked) {
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        serve(connections[i], ready > 0 ? watched[i + 1].revents : 0);
    }
    if (ready > 0 && watched[0].revents) {
        accept_clients();
    }
}

static void default_limit(void)
{
    struct rlimit limit;
    if (options.max_connections == 0) {
        getrlimit(RLIMIT_NOFILE, &limit);
        options.max_connections = limit.rlim_cur > RESERVED_DESCRIPTORS + 1
                                      ? (size_t)limit.rlim_cur - RESERVED_DESCRIPTORS
                                      : 1;
    }
}

int main(int argc, char *argv[])
{
    (void)argc;
    parse_options(argv);
    default_limit();
    sigset_t awake = prepare_signals();
    start_listening();
    while (!draining || (connection_count > 0 && now() < drain_until)) {
        turn(&awake);
        double time = now();
        for (size_t i = 0; i < connection_count; i++) {
            expire(connections[i], time);
        }
        if (stop_asked && !draining) {
            start_draining();
        }
        if (stats_asked) {
            stats_asked = 0;
            print_stats();
        }
        remove_dead();
    }
    while (connection_count > 0) {
        connections[0]->dead = true;
        remove_dead();
    }
    free(connections);
    if (options.stats && !has(NO_STATS_AT_EXIT)) {
        print_stats();
    }
    return has(EXIT_STATUS_1_ON_SIGTERM) ? 1 : 0;
}
