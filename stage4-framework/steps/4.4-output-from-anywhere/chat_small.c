/*
 * Stands in for common/apps/chat, until step 4.7: what one client says, all others hear.
 *
 * Left out on purpose: names, commands, and one order. Two who speak at the same time are two
 * workers, so Carl may hear Ann first and Carla Bob.
 */
#include "common/apps/application.h"

#include <stdio.h>
#include <string.h>

enum { USERS_MAX = 256, TEXT_SIZE = 300 };

/* Those who listen, each with a reference. */
static struct mutex lock;
static struct channel_facade *users[USERS_MAX];
static size_t count;

static void started(struct input_handler *self, struct channel_facade *facade)
{
    static const char welcome[] = "* welcome\n", full[] = "ERR the chat is full\n";
    (void)self;
    mutex_lock(&lock);
    bool has_room = count < USERS_MAX;
    if (has_room) {
        channel_retain(facade);
        users[count++] = facade;
    }
    mutex_unlock(&lock);
    channel_enqueue(facade, has_room ? piece_bytes(welcome, strlen(welcome))
                                     : piece_bytes(full, strlen(full)));
    if (!has_room)
        channel_close(facade);
}

static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    mutex_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        if (users[i] == facade) {
            users[i] = users[--count];
            channel_release(facade);
        }
    }
    mutex_unlock(&lock);
}

/* The lock is free again when it sends: those who leave meanwhile are kept by our references. */
static void tell_others(const struct channel_facade *speaker, struct piece piece)
{
    struct channel_facade *others[USERS_MAX];
    size_t found = 0;
    mutex_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        if (users[i] != speaker) {
            channel_retain(users[i]);
            others[found++] = users[i];
        }
    }
    mutex_unlock(&lock);
    for (size_t i = 0; i < found; i++) {
        channel_enqueue(others[i], piece);
        channel_release(others[i]);
    }
}

/* The name and the line are one piece, or another line could land between them. */
static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct endpoint peer;
    char name[ENDPOINT_TEXT_SIZE];
    char text[TEXT_SIZE];
    (void)self;
    channel_peer(facade, &peer);
    endpoint_format(&peer, name);
    snprintf(text, sizeof(text) - 1, "[%s] %.*s", name, (int)message.length,
             (const char *)message.data);
    size_t length = strcspn(text, "\r\n");
    text[length++] = '\n';
    tell_others(facade, piece_bytes(text, length));
    return true;
}

static void *start(struct server *server)
{
    (void)server;
    mutex_init(&lock);
    return &lock;
}

static const struct input_handler_verbs verbs = {
    .handle_input = handle_input, .started = started, .stopping = stopping};

const struct application chat_application = {
    .name = "chat", .needs = OFFERS_OUTPUT_FROM_ELSEWHERE, .verbs = &verbs, .start = start};
