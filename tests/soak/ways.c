/*
 * Clients that come and go: see ways.h.
 */
#include "ways.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

long soak_number(const char *name, long standard)
{
    const char *text = getenv(name);
    long number = text != NULL ? atol(text) : 0;
    return number > 0 ? number : standard;
}

long long soak_bound(const struct server_process *server, const char *name)
{
    static char text[1 << 16];
    char wanted[32];
    const char *said = NULL;
    double end = test_deadline();
    snprintf(wanted, sizeof wanted, " %s=", name);
    while (said == NULL && test_now() < end) {
        server_errors(server, text, sizeof text);
        said = strstr(text, "event=memory_bound");
        said = said != NULL ? strstr(said, wanted) : NULL;
        test_pause_ms(5);
    }
    cr_assert_not_null(said, "%s does not say how much memory it may need: %s", server_name(),
                       text);
    return atoll(said + strlen(wanted));
}

/* ---- One client ---- */

static uint32_t chance(struct member *member, uint32_t bound)
{
    member->random = member->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(member->random >> 33) % bound;
}

__attribute__((format(printf, 2, 3))) static void fail(struct member *member, const char *format,
                                                       ...)
{
    struct crowd *crowd = member->crowd;
    if (atomic_exchange(&crowd->failed, true)) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(crowd->failure, sizeof crowd->failure, format, arguments);
    va_end(arguments);
    atomic_store(&crowd->over, true);
}

/* Lines of random lengths, bytes of all kinds but LF in them; how many bytes in all. */
static size_t make_lines(struct member *member, int lines)
{
    size_t longest = member->crowd->max_line < 4000 ? member->crowd->max_line : 4000;
    size_t length = 0;
    for (int i = 0; i < lines; i++) {
        size_t text =
            chance(member, 4) == 0 ? chance(member, (uint32_t)longest) : chance(member, 40);
        for (size_t k = 0; k < text && length + 1 < WAYS_TEXT; k++) {
            char byte = (char)chance(member, 256);
            member->sent[length++] = byte == '\n' || byte == '\r' ? '.' : byte;
        }
        if (length + 1 >= WAYS_TEXT) {
            length = WAYS_TEXT - 1;
        }
        member->sent[length++] = '\n';
        if (length == WAYS_TEXT) {
            break;
        }
    }
    return length;
}

/* Takes so many bytes, which should be those that were sent. */
static bool take(struct member *member, int client, size_t length, const char *way)
{
    size_t got;
    enum client_outcome outcome =
        client_try_receive(client, member->received, length, test_deadline(), &got);
    if (outcome != CLIENT_GOT) {
        fail(member, "%s: expected %zu bytes, got %zu, then %s (%s)", way, length, got,
             client_outcome_text(outcome), strerror(errno));
        return false;
    }
    if (memcmp(member->received, member->sent, length) != 0) {
        fail(member, "%s: %zu bytes came back other than they were sent", way, length);
        return false;
    }
    atomic_fetch_add(&member->crowd->bytes, (long long)length);
    return true;
}

/* Sends, and takes it back; one small exchange at a time, so that no buffer fills up. */
static bool echo(struct member *member, int client, size_t length, const char *way)
{
    double begin = test_now();
    if (client_try_send(client, member->sent, length, test_deadline()) != length) {
        fail(member, "%s: cannot send %zu bytes: %s", way, length, strerror(errno));
        return false;
    }
    bool right = take(member, client, length, way);
    int took = (int)((test_now() - begin) * 1000);
    int worst = atomic_load(&member->crowd->worst_ms);
    while (took > worst && !atomic_compare_exchange_weak(&member->crowd->worst_ms, &worst, took)) {
    }
    return right;
}

/* An end in good order, and nothing before it. */
static void expect_end(struct member *member, int client, const char *way)
{
    size_t got;
    enum client_outcome outcome =
        client_try_receive(client, member->received, 1, test_deadline(), &got);
    if (outcome != CLIENT_ENDED) {
        fail(member, "%s: expected the end, got %s", way, client_outcome_text(outcome));
    }
}

/* The server lets it go, in whatever way: it may have something to say before. */
static void expect_gone(struct member *member, int client, const char *way)
{
    size_t got;
    enum client_outcome outcome;
    double end = test_deadline();
    do {
        outcome = client_try_receive(client, member->received, WAYS_TEXT, end, &got);
    } while (outcome == CLIENT_GOT);
    if (outcome == CLIENT_LATE) {
        fail(member, "%s: expected that the server closes", way);
    }
}

/* ---- Ways that are over at once ---- */

static void way_says_nothing(struct member *member, int client)
{
    (void)member;
    client_close(client);
}

static void way_resets_at_once(struct member *member, int client)
{
    (void)member;
    client_reset(client);
}

static void way_echo_and_close(struct member *member, int client)
{
    echo(member, client, make_lines(member, 3), "echo and close");
    client_close(client);
}

static void way_echo_and_end(struct member *member, int client)
{
    if (echo(member, client, make_lines(member, 3), "echo and end")) {
        client_half_close(client);
        expect_end(member, client, "echo and end");
    }
    client_close(client);
}

static void way_unfinished(struct member *member, int client)
{
    client_try_send(client, "unfinished", 10, test_deadline());
    if (chance(member, 2)) {
        client_reset(client);
    } else {
        client_close(client);
    }
}

static void way_end_at_once(struct member *member, int client)
{
    client_half_close(client);
    expect_end(member, client, "end at once");
    client_close(client);
}

static void way_too_long(struct member *member, int client)
{
    static const char error[] = "ERR line too long\n";
    size_t length = member->crowd->max_line + 1;
    for (size_t sent = 0; sent < length;) {
        size_t piece = length - sent < WAYS_TEXT ? length - sent : WAYS_TEXT;
        memset(member->sent, 'x', piece);
        client_try_send(client, member->sent, piece, test_deadline());
        sent += piece;
    }
    client_try_send(client, "\n", 1, test_deadline());
    memcpy(member->sent, error, sizeof error - 1);
    if (take(member, client, sizeof error - 1, "too long")) {
        expect_end(member, client, "too long");
    }
    client_close(client);
}

/* Replies are on their way, and nobody wants them any more. */
static void way_unread(struct member *member, int client)
{
    client_try_send(client, member->sent, make_lines(member, 20), test_deadline());
    if (chance(member, 2)) {
        client_reset(client);
    } else {
        client_close(client);
    }
}

/* ---- Ways that take their time ---- */

static void way_well_behaved(struct member *member, int client)
{
    int rounds = 1 + (int)chance(member, 100);
    for (int i = 0; i < rounds && !atomic_load(&member->crowd->over); i++) {
        if (!echo(member, client, make_lines(member, 1 + (int)chance(member, 8)), "well-behaved")) {
            break;
        }
    }
    client_close(client);
}

/* One byte at a time; and the whole line back, unless the machine made it a matter of seconds. */
static void way_slow_writer(struct member *member, int client)
{
    double begin = test_now();
    size_t length = 1 + chance(member, 60);
    memset(member->sent, 's', length);
    member->sent[length - 1] = '\n';
    for (size_t i = 0; i < length; i++) {
        client_try_send(client, member->sent + i, 1, test_deadline());
        test_pause_ms(3);
    }
    if (test_now() - begin < WAYS_PATIENCE_S) {
        take(member, client, length, "slow writer");
    }
    client_close(client);
}

/* Much to read, in small pieces; nothing of it is lost. */
static void way_slow_reader(struct member *member, int client)
{
    size_t length = 0;
    while (length + 1000 < WAYS_TEXT) {
        memset(member->sent + length, 'a' + (int)chance(member, 26), 999);
        member->sent[length + 999] = '\n';
        length += 1000;
    }
    client_try_send(client, member->sent, length, test_deadline());
    for (size_t got = 0; got < length;) {
        size_t piece = length - got < 2000 ? length - got : 2000;
        size_t now;
        if (client_try_receive(client, member->received + got, piece, test_deadline(), &now) !=
            CLIENT_GOT) {
            fail(member, "slow reader: %zu of %zu bytes, then nothing more", got + now, length);
            break;
        }
        got += piece;
        test_pause_ms(2);
    }
    if (memcmp(member->received, member->sent, length) != 0 &&
        !atomic_load(&member->crowd->failed)) {
        fail(member, "slow reader: other bytes than were sent");
    }
    client_close(client);
}

/* Half a line, then silence: the server's request timeout ends it. */
static void way_stalled(struct member *member, int client)
{
    client_try_send(client, "half a li", 9, test_deadline());
    expect_gone(member, client, "stalled");
    client_close(client);
}

/* Nothing at all: the idle timeout ends it. */
static void way_idle(struct member *member, int client)
{
    expect_gone(member, client, "idle");
    client_close(client);
}

/* As much as the server takes, and nothing is read; then a reset, or a wait for being let go. */
static void way_flood(struct member *member, int client)
{
    size_t length = make_lines(member, 1000);
    client_push(client, member->sent, length, 4 << 20, 20);
    if (chance(member, 2)) {
        client_reset(client);
        return;
    }
    struct timespec moment = {.tv_nsec = 200000000};
    nanosleep(&moment, NULL);
    client_half_close(client);
    expect_gone(member, client, "flood");
    client_close(client);
}

typedef void way(struct member *member, int client);

static way *const fast_ways[] = {
    way_says_nothing, way_resets_at_once, way_echo_and_close, way_echo_and_end,
    way_unfinished,   way_end_at_once,    way_too_long,       way_unread,
};

static way *const all_ways[] = {
    way_says_nothing, way_resets_at_once, way_echo_and_close, way_echo_and_end,
    way_unfinished,   way_end_at_once,    way_too_long,       way_unread,
    way_well_behaved, way_well_behaved,   way_well_behaved,   way_slow_writer,
    way_slow_reader,  way_stalled,        way_idle,           way_flood,
};

enum {
    FAST_WAYS = sizeof fast_ways / sizeof fast_ways[0],
    ALL_WAYS = sizeof all_ways / sizeof all_ways[0],
};

/* ---- The crowd ---- */

static void come_and_go(struct member *member)
{
    struct crowd *crowd = member->crowd;
    int client =
        client_try_connect(crowd->server, (struct client_buffers){.source = member->source});
    if (client < 0) {
        fail(member, "cannot connect: %s", strerror(errno));
        return;
    }
    if (crowd->fast) {
        fast_ways[chance(member, FAST_WAYS)](member, client);
    } else {
        all_ways[chance(member, ALL_WAYS)](member, client);
    }
}

static void *live(void *argument)
{
    struct member *member = argument;
    struct crowd *crowd = member->crowd;
    while (!atomic_load(&crowd->over) && atomic_fetch_add(&crowd->connections, 1) < crowd->most) {
        come_and_go(member);
    }
    return NULL;
}

void crowd_start(struct crowd *crowd, int threads, uint64_t seed)
{
    cr_assert(threads <= WAYS_THREADS_MOST);
    crowd->thread_count = threads;
    for (int i = 0; i < threads; i++) {
        struct member *member = &crowd->members[i];
        *member = (struct member){.crowd = crowd,
                                  .random = seed * 1000 + (uint64_t)i,
                                  .source = 2 + i % 20,
                                  .sent = malloc(WAYS_TEXT),
                                  .received = malloc(WAYS_TEXT)};
        cr_assert(member->sent != NULL && member->received != NULL, "out of memory");
        cr_assert_eq(pthread_create(&member->thread, NULL, live, member), 0);
    }
}

void crowd_await(struct crowd *crowd, double end)
{
    while (!atomic_load(&crowd->over) && atomic_load(&crowd->connections) < crowd->most &&
           test_left_ms(end) > 0) {
        test_pause_ms(5);
    }
}

void crowd_end(struct crowd *crowd)
{
    if (atomic_load(&crowd->connections) < crowd->most) {
        atomic_store(&crowd->over, true);
    }
    for (int i = 0; i < crowd->thread_count; i++) {
        pthread_join(crowd->members[i].thread, NULL);
        free(crowd->members[i].sent);
        free(crowd->members[i].received);
    }
    cr_assert(!atomic_load(&crowd->failed), "one of a crowd around %s: %s", server_name(),
              crowd->failure);
}
