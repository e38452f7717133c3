/*
 * Line echo that greets each client by name, which it looks up first. Bob's name, that of
 * 127.0.0.2, takes three seconds.
 */
#include "common/apps/application.h"
#include "common/server/sockets.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* It blocks the thread that calls it, as getnameinfo(3) does. */
static const char *name_of(const char *address)
{
    static const char bobs[] = "127.0.0.2:";
    const struct timespec three_seconds = {.tv_sec = 3};
    if (strncmp(address, bobs, strlen(bobs)) != 0)
        return "Ann";
    nanosleep(&three_seconds, NULL);
    return "Bob";
}

static void started(struct input_handler *self, struct channel_facade *facade)
{
    struct endpoint peer;
    char address[ENDPOINT_TEXT_SIZE];
    char text[32];
    (void)self;
    channel_peer(facade, &peer);
    endpoint_format(&peer, address);
    int length = snprintf(text, sizeof(text), "hello %s\n", name_of(address));
    channel_enqueue(facade, piece_bytes(text, (size_t)length));
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct message reply = application_process(application_server(self), facade, message);
    channel_enqueue(facade, piece_copy(reply));
    return true;
}

static const struct input_handler_verbs verbs = {.started = started, .handle_input = handle_input};

const struct application application_added = {.name = "lookup", .verbs = &verbs};
