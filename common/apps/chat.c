/*
 * Chat: what one user says, all others hear (Hitchens' Nada chat, made real).
 *
 *   nada                    everybody else reads: [nick] nada
 *   /nick NAME  /who  /quit  /help
 *
 * Rules of the house:
 * - A line goes to every other user whole, in one shared buffer; the lines of one user arrive in
 *   the order in which he said them. Who does not read is let go, and slows down nobody.
 * - The user list's lock is never held while something can block: whoever has to tell others
 *   something takes references to their facades under the lock, and enqueues without it.
 * - Control characters are not passed on; a terminal at the other end could take them as orders.
 */
#include "application.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NICK_SIZE = 25,       /* with the closing zero */
    TEXT_SIZE = 256,      /* what the server itself says in one line */
    SPARE_RECEIVERS = 16, /* users that may come while a list of them is made */
};

struct chat {
    struct input_handler_factory factory;
    struct server *server;
    struct mutex lock;
    struct chat_user *users GUARDED_BY(&lock);
    size_t user_count GUARDED_BY(&lock);
    unsigned long next_number GUARDED_BY(&lock); /* for the next nickname that is made up */
};

struct chat_user {
    struct input_handler handler;
    struct chat *chat;
    struct channel_facade *facade; /* a reference of its own, while the user is in the list */
    struct chat_user *previous;    /* under the chat's lock */
    struct chat_user *next;        /* likewise */
    char nick[NICK_SIZE];          /* written under the lock by its own handler alone */
};

static struct chat_user *user_of(struct input_handler *handler)
{
    return (struct chat_user *)handler;
}

/* ---- Telling others ------------------------------------------------------------------------ */

/* The facades of those who are to hear something, each with a reference. */
struct receivers {
    struct channel_facade **facades;
    size_t count;
    size_t capacity;
};

/* Copies the list without `except`; false if there is no room for all. */
static bool collect(struct chat *chat, const struct chat_user *except, struct receivers *receivers)
{
    mutex_lock(&chat->lock);
    bool fits = chat->user_count <= receivers->capacity && receivers->facades != NULL;
    if (!fits)
        receivers->capacity = chat->user_count + SPARE_RECEIVERS;
    for (struct chat_user *user = chat->users; fits && user != NULL; user = user->next) {
        if (user == except)
            continue;
        channel_retain(user->facade);
        receivers->facades[receivers->count++] = user->facade;
    }
    mutex_unlock(&chat->lock);
    return fits;
}

/* As collect(), with as much room as it takes. False without memory: nobody is in the list. */
static bool collect_all(struct chat *chat, const struct chat_user *except,
                        struct receivers *receivers)
{
    *receivers = (struct receivers){0};
    while (!collect(chat, except, receivers)) {
        free(receivers->facades);
        receivers->facades = malloc(receivers->capacity * sizeof(*receivers->facades));
        if (receivers->facades == NULL)
            return false;
    }
    return true;
}

/* Sends the message to all users but one. */
static void broadcast(struct chat *chat, const struct chat_user *except,
                      struct shared_message *message)
{
    struct receivers receivers;
    if (collect_all(chat, except, &receivers)) {
        for (size_t i = 0; i < receivers.count; i++) {
            channel_enqueue_shared(receivers.facades[i], message);
            channel_release(receivers.facades[i]);
        }
    }
    free(receivers.facades);
}

/* Has all users but one read a line of the server's own. */
__attribute__((format(printf, 3, 4))) static void announce(struct chat *chat,
                                                           const struct chat_user *except,
                                                           const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    struct shared_message *message = shared_message_create((size_t)length);
    if (message == NULL)
        return;
    memcpy(message->data, text, (size_t)length);
    broadcast(chat, except, message);
    shared_message_release(message);
}

/* Has the user read a line of the server's own. */
__attribute__((format(printf, 2, 3))) static void tell(struct chat_user *user, const char *format,
                                                       ...)
{
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    channel_enqueue(user->facade, (struct message){(const unsigned char *)text, (size_t)length});
}

/* ---- Nicknames ----------------------------------------------------------------------------- */

static bool is_nick_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static bool is_nick(const char *text)
{
    size_t length = strlen(text);
    if (length == 0 || length >= NICK_SIZE)
        return false;
    for (; *text != '\0'; text++)
        if (!is_nick_character(*text))
            return false;
    return true;
}

/* Gives the user the nickname, unless somebody has it. */
static bool take_nick(struct chat_user *user, const char *nick) REQUIRES(&user->chat->lock)
{
    for (const struct chat_user *other = user->chat->users; other != NULL; other = other->next)
        if (other != user && strcmp(other->nick, nick) == 0)
            return false;
    snprintf(user->nick, sizeof(user->nick), "%s", nick);
    return true;
}

/* Makes up a nickname that nobody has. */
static void make_up_nick(struct chat_user *user) REQUIRES(&user->chat->lock)
{
    char nick[NICK_SIZE];
    do
        snprintf(nick, sizeof(nick), "user%lu", ++user->chat->next_number);
    while (!take_nick(user, nick));
}

/* ---- Commands ------------------------------------------------------------------------------ */

static void change_nick(struct chat_user *user, const char *nick)
{
    struct chat *chat = user->chat;
    char before[NICK_SIZE];
    if (!is_nick(nick)) {
        tell(user, "ERR a nickname has 1 to %d letters, digits, - and _\n", NICK_SIZE - 1);
        return;
    }
    snprintf(before, sizeof(before), "%s", user->nick);
    mutex_lock(&chat->lock);
    bool taken = take_nick(user, nick);
    mutex_unlock(&chat->lock);
    if (!taken) {
        tell(user, "ERR somebody else is called %s\n", nick);
        return;
    }
    tell(user, "* you are %s\n", nick);
    announce(chat, user, "* %s is now %s\n", before, nick);
}

/* The nicknames, in a block of their own; NULL without memory. */
static char *copy_nicks(struct chat *chat, size_t *count)
{
    mutex_lock(&chat->lock);
    *count = 0;
    char *nicks = malloc(chat->user_count * NICK_SIZE);
    for (const struct chat_user *user = chat->users; nicks != NULL && user != NULL;
         user = user->next)
        memcpy(nicks + NICK_SIZE * (*count)++, user->nick, NICK_SIZE);
    mutex_unlock(&chat->lock);
    return nicks;
}

static void list_users(struct chat_user *user, const char *nothing)
{
    size_t count;
    char *nicks = copy_nicks(user->chat, &count);
    (void)nothing;
    if (nicks == NULL)
        return;
    tell(user, "* %zu here\n", count);
    for (size_t i = 0; i < count; i++)
        tell(user, "* %s\n", nicks + NICK_SIZE * i);
    free(nicks);
}

static void quit(struct chat_user *user, const char *nothing)
{
    (void)nothing;
    tell(user, "* goodbye\n");
    channel_close(user->facade);
}

static void help(struct chat_user *user, const char *nothing)
{
    (void)nothing;
    tell(user, "* what you type, everybody else reads; and there are\n"
               "* /nick NAME  /who  /quit  /help\n");
}

static const struct command {
    const char *name;
    void (*run)(struct chat_user *user, const char *argument);
} commands[] = {
    {"/nick", change_nick},
    {"/who", list_users},
    {"/quit", quit},
    {"/help", help},
};

/* Runs the command on a line, which ends in a zero and may be changed. */
static void run_command(struct chat_user *user, char *line)
{
    char *argument = line + strcspn(line, " ");
    if (*argument != '\0')
        *argument++ = '\0';
    argument += strspn(argument, " ");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(line, commands[i].name) == 0) {
            commands[i].run(user, argument);
            return;
        }
    }
    tell(user, "ERR no such command; /help tells which there are\n");
}

/* ---- The handler --------------------------------------------------------------------------- */

/* The line without its end. */
static struct message without_end(struct message line)
{
    line.length--;
    if (line.length > 0 && line.data[line.length - 1] == '\r')
        line.length--;
    return line;
}

/* A bare line end is nothing to say; but what follows it is not kept waiting (erratum 2). */
static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    size_t max_line = user_of(self)->chat->server->settings.max_line;
    enum framing_result result;
    do
        result = line_framing_next(channel_input(facade), max_line, message);
    while (result == FRAMING_MESSAGE && without_end(*message).length == 0);
    if (result == FRAMING_TOO_LONG)
        channel_enqueue(facade, server_too_long_text);
    return result;
}

/* Below the space, the one above the tilde, and those that UTF-8 writes as C2 80 to C2 9F. */
static bool is_control(const unsigned char *text, size_t i, size_t length)
{
    bool c1 = text[i] == 0xc2 && i + 1 < length && text[i + 1] >= 0x80 && text[i + 1] <= 0x9f;
    return text[i] < ' ' || text[i] == 0x7f || c1;
}

static void copy_printable(unsigned char *to, const unsigned char *from, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to[i] = is_control(from, i, length) ? '?' : from[i];
}

/* `[nick] text`, with a line end. */
static struct shared_message *compose(const struct chat_user *user, struct message text)
{
    char prefix[NICK_SIZE + 4];
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), "[%s] ", user->nick);
    struct shared_message *message = shared_message_create(length + text.length + 1);
    if (message == NULL)
        return NULL;
    memcpy(message->data, prefix, length);
    copy_printable(message->data + length, text.data, text.length);
    message->data[length + text.length] = '\n';
    return message;
}

static bool say(struct chat_user *user, struct message text)
{
    struct shared_message *message = compose(user, text);
    if (message == NULL)
        return false;
    broadcast(user->chat, user, message);
    shared_message_release(message);
    return true;
}

static bool obey(struct chat_user *user, struct message text)
{
    char line[TEXT_SIZE / 2];
    if (text.length >= sizeof(line)) {
        tell(user, "ERR no command is that long\n");
        return true;
    }
    copy_printable((unsigned char *)line, text.data, text.length);
    line[text.length] = '\0';
    run_command(user, line);
    return true;
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct chat_user *user = user_of(self);
    struct message text = without_end(service_process(&user->chat->server->service, message));
    (void)facade;
    return text.data[0] == '/' ? obey(user, text) : say(user, text);
}

static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)message;
    channel_enqueue(facade, server_busy_text);
}

static void started(struct input_handler *self, struct channel_facade *facade)
{
    struct chat_user *user = user_of(self);
    struct chat *chat = user->chat;
    channel_retain(facade);
    user->facade = facade;
    mutex_lock(&chat->lock);
    make_up_nick(user);
    user->next = chat->users;
    if (user->next != NULL)
        user->next->previous = user;
    chat->users = user;
    chat->user_count++;
    mutex_unlock(&chat->lock);
    tell(user, "* welcome, you are %s; /help tells more\n", user->nick);
    announce(chat, user, "* %s is here\n", user->nick);
}

static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    struct chat_user *user = user_of(self);
    struct chat *chat = user->chat;
    mutex_lock(&chat->lock);
    if (user->previous != NULL)
        user->previous->next = user->next;
    else
        chat->users = user->next;
    if (user->next != NULL)
        user->next->previous = user->previous;
    chat->user_count--;
    mutex_unlock(&chat->lock);
    announce(chat, NULL, "* %s has left\n", user->nick);
    channel_release(facade);
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    free(user_of(self));
}

static void unused(struct input_handler *self)
{
    free(user_of(self));
}

static const struct input_handler_verbs verbs = {
    .next_message = next_message,
    .handle_input = handle_input,
    .refuse_input = refuse_input,
    .unused = unused,
    .started = started,
    .stopping = stopping,
    .stopped = stopped,
};

static struct input_handler *create(struct input_handler_factory *factory)
{
    struct chat_user *user = calloc(1, sizeof(*user));
    if (user == NULL)
        return NULL;
    user->handler.verbs = &verbs;
    user->chat = (struct chat *)factory;
    return &user->handler;
}

static struct input_handler_factory *chat_open(struct server *server,
                                               const struct application_choice *choice)
{
    (void)choice;
    struct chat *chat = calloc(1, sizeof(*chat));
    if (chat == NULL)
        return NULL;
    chat->factory.create = create;
    chat->server = server;
    mutex_init(&chat->lock);
    return &chat->factory;
}

static void chat_close(struct input_handler_factory *factory)
{
    struct chat *chat = (struct chat *)factory;
    mutex_destroy(&chat->lock);
    free(chat);
}

const struct application application_chat = {
    .name = "chat",
    .open = chat_open,
    .close = chat_close,
};
