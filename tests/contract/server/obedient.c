/*
 * An application that does what its lines say, so that tests of the contract (input_handler.h) can
 * see from outside what becomes of it in each stage. It is served as --app obedient by the servers
 * in build/contract, and says on standard error why each connection has ended.
 *
 *   big N           answers with N bytes
 *   fail N          the same, and handle_input returns false
 *   suspend         answers "suspended" and suspends input
 *   later N         suspends input, and N milliseconds later answers "later" and resumes it
 *   hold            answers "holding" and holds messages until it is told to go on; then answers
 *                   "went on"
 *   hold N          the same, and tells itself N milliseconds later
 *   stay, stay N    the same; if the client ends its stream, answers "left" and waits on
 *   join            answers "joined", and may be told to go on before it holds
 *   early           is told to go on by another thread, and only then holds
 *   tell            tells all that wait to go on, in this thread, and answers "told"
 *   tell thread     the same, in a thread that is nobody's
 *   tell end        closes the connections of all that wait, in this thread, and answers "told"
 *   # anything      is never a whole message
 *   anything else   costs what --block-ms says, and is answered with itself
 */
#include "common/apps/application.h"
#include "common/base/container_of.h"
#include "common/base/lock.h"
#include "common/base/thread.h"
#include "common/server/channel_calls.h"
#include "common/server/input_handler_calls.h"
#include "common/server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct obedient {
    struct input_handler handler; /* first */
    struct channel_timer timer;
    struct channel_hold hold;
    struct channel_facade *facade;
    struct obedient *next; /* those that wait to be told */
};

static struct service *service; /* the server's */
static unsigned char text[1 << 20];
static struct mutex waiting_lock;
static struct obedient *waiting GUARDED_BY(&waiting_lock);

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    (void)self;
    return line_framing_begins_with(channel_input(facade), "#")
               ? FRAMING_INCOMPLETE
               : input_handler_next_line(self, facade, message);
}

static bool begins(struct message message, const char *word)
{
    return message.length > strlen(word) && memcmp(message.data, word, strlen(word)) == 0;
}

static void say(struct channel_facade *facade, const char *line)
{
    channel_enqueue(facade, piece_bytes(line, strlen(line)));
}

static void say_much(struct channel_facade *facade, const unsigned char *number)
{
    size_t length = strtoul((const char *)number, NULL, 10);
    channel_enqueue(facade, piece_bytes(text, length < sizeof(text) ? length : sizeof(text)));
}

static void resume(struct channel_timer *timer, struct channel_facade *facade)
{
    (void)timer;
    say(facade, "later\n");
    channel_resume(facade);
}

/* ---- Holding messages ---- */

static void join_waiting(struct obedient *obedient, struct channel_facade *facade)
{
    obedient->facade = facade;
    mutex_lock(&waiting_lock);
    obedient->next = waiting;
    waiting = obedient;
    mutex_unlock(&waiting_lock);
}

static void leave_waiting(struct obedient *obedient)
{
    mutex_lock(&waiting_lock);
    for (struct obedient **link = &waiting; *link != NULL; link = &(*link)->next)
        if (*link == obedient) {
            *link = obedient->next;
            break;
        }
    mutex_unlock(&waiting_lock);
}

/* Whoever is found is told under the lock with which it leaves in `stopping`. */
static void *tell_all(void *end)
{
    mutex_lock(&waiting_lock);
    while (waiting != NULL) {
        struct obedient *obedient = waiting;
        waiting = obedient->next;
        if (end != NULL)
            channel_close(obedient->facade);
        else
            channel_go_on(obedient->facade, &obedient->hold);
    }
    mutex_unlock(&waiting_lock);
    return NULL;
}

static void tell_in_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, tell_all, NULL) == 0)
        pthread_join(thread, NULL);
}

static void went_on(struct channel_hold *hold, struct channel_facade *facade)
{
    leave_waiting(container_of(hold, struct obedient, hold)); /* it may have been early */
    say(facade, "went on\n");
}

static void go_on_later(struct channel_timer *timer, struct channel_facade *facade)
{
    channel_go_on(facade, &container_of(timer, struct obedient, timer)->hold);
}

static void left(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    fprintf(stderr, "left: %s\n", end_reason_text(channel_end_reason(facade)));
    say(facade, "left\n");
}

static struct input_handler_verbs staying;

static void hold(struct obedient *obedient, struct message message, struct channel_facade *facade)
{
    say(facade, "holding\n");
    if (begins(message, "hold ") || begins(message, "stay ")) {
        obedient->timer.fired = go_on_later;
        channel_set_timer(facade, &obedient->timer, atoi((const char *)message.data + 5));
    } else {
        join_waiting(obedient, facade);
    }
    if (begins(message, "stay"))
        obedient->handler.verbs = input_handler_complete(&staying);
    if (begins(message, "early"))
        tell_in_thread();
    channel_hold(facade, &obedient->hold);
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct obedient *obedient = container_of(self, struct obedient, handler);
    if (begins(message, "big ") || begins(message, "fail ")) {
        say_much(facade, message.data + (message.data[0] == 'b' ? 4 : 5));
        return message.data[0] == 'b';
    }
    if (begins(message, "later ")) {
        channel_suspend(facade);
        obedient->timer.fired = resume;
        channel_set_timer(facade, &obedient->timer, atoi((const char *)message.data + 6));
    } else if (begins(message, "suspend")) {
        say(facade, "suspended\n");
        channel_suspend(facade);
    } else if (begins(message, "hold") || begins(message, "stay") || begins(message, "early")) {
        hold(obedient, message, facade);
    } else if (begins(message, "join")) {
        join_waiting(obedient, facade);
        say(facade, "joined\n");
    } else if (begins(message, "tell")) {
        if (begins(message, "tell thread"))
            tell_in_thread();
        else
            tell_all(begins(message, "tell end") ? obedient : NULL);
        say(facade, "told\n");
    } else {
        channel_enqueue(facade, piece_copy(service_process(service, message)));
    }
    return true;
}

static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    leave_waiting(container_of(self, struct obedient, handler));
}

/* Nobody hears what is said from here on. */
static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    if (channel_enqueue(facade, piece_bytes("stopped\n", 8)) != OUTPUT_BROKEN)
        fprintf(stderr, "output was taken after the end\n");
    fprintf(stderr, "ended: %s\n", end_reason_text(channel_end_reason(facade)));
}

static struct input_handler_verbs verbs = {.next_message = next_message,
                                           .handle_input = handle_input,
                                           .stopping = stopping,
                                           .stopped = stopped};

static struct input_handler_verbs staying = {.next_message = next_message,
                                             .handle_input = handle_input,
                                             .left = left,
                                             .stopping = stopping,
                                             .stopped = stopped};

static struct input_handler *create(struct input_handler_factory *factory, void *memory)
{
    struct obedient *obedient = memory;
    (void)factory;
    obedient->handler.verbs = input_handler_complete(&verbs);
    obedient->hold.went_on = went_on;
    return &obedient->handler;
}

static struct input_handler_factory *open_obedient(struct server *server)
{
    static struct input_handler_factory factory = {.handler_size = sizeof(struct obedient),
                                                   .create = create};
    service = &server->service;
    memset(text, 'x', sizeof(text));
    mutex_init(&waiting_lock);
    return &factory;
}

static void close_obedient(struct input_handler_factory *factory)
{
    (void)factory;
}

/* The place that a stage leaves for one more application (application_choice.h). */
extern const struct application application_added;
const struct application application_added = {
    .name = "obedient", .needs = OFFERS_TIMERS, .open = open_obedient, .close = close_obedient};
