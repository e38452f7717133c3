/*
 * Chat: what one user says, all others hear (Hitchens' Nada chat, made real).
 *
 *   nada                    everybody else reads: [nick] nada
 *   /nick NAME  /who  /quit  /help
 *
 * Rules of the house:
 * - A line goes to every other user whole, in one shared buffer; the lines of one user arrive in
 *   the order in which he said them. Who does not read is let go, and slows down nobody.
 * - All users are a group (group.h), and their names a table (nicknames.h). These have their locks,
 *   so the chat itself has none.
 * - Control characters are not passed on; a terminal at the other end could take them as orders.
 * - Who comes and who leaves is told while these are few (news.h). Once the server stops, nobody is
 *   told: all leave now, and N users who are told of N departures would hold up the end. Each is
 *   told to come again instead: a balancer in front takes him to another server.
 */
#include "common/apps/application_choice.h"
#include "common/apps/chat/news.h"
#include "common/apps/chat/nicknames.h"
#include "common/apps/group.h"

#include "common/base/container_of.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_SIZE = 256, /* what the server itself says in one line */
};

struct chat {
    struct input_handler_factory factory;
    struct server *server;
    struct group users;
    struct nicknames nicknames;
    struct news news;
};

struct chat_user {
    struct input_handler handler;
    struct chat *chat;
    struct channel_facade *facade;
    struct group_member member;
    struct nickname nick;
    struct {
        char (*nicks)[NICKNAME_SIZE]; /* NULL: there is no list to go on with */
        size_t count;
        size_t next;
    } list; /* what /who has not sent yet */
};

static struct chat_user *user_of(struct input_handler *handler)
{
    return container_of(handler, struct chat_user, handler);
}

/* ---- What the server itself says ----------------------------------------------------------- */

/* Has the user read a line of the server's own. */
__attribute__((format(printf, 2, 3))) static enum output_result tell(struct chat_user *user,
                                                                     const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return channel_enqueue(user->facade, piece_bytes(text, (size_t)length));
}

/* Sends such a line to all others. */
__attribute__((format(printf, 2, 3))) static void tell_others(const struct chat_user *user,
                                                              const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    group_send(&user->chat->users, &user->member, piece_bytes(text, (size_t)length));
}

/* ---- Commands ------------------------------------------------------------------------------ */

static void change_nick(struct chat_user *user, const char *nick)
{
    char before[NICKNAME_SIZE];
    snprintf(before, sizeof(before), "%s", user->nick.text);
    if (!nickname_is_possible(nick)) {
        tell(user, "ERR a nickname has 1 to %d letters, digits, - and _\n", NICKNAME_SIZE - 1);
        return;
    }
    if (!nicknames_take(&user->chat->nicknames, &user->nick, nick)) {
        tell(user, "ERR somebody else is called %s\n", nick);
        return;
    }
    tell(user, "* you are %s\n", nick);
    tell_others(user, "* %s is now %s\n", before, nick);
}

static void end_list(struct chat_user *user)
{
    free(user->list.nicks);
    user->list.nicks = NULL;
}

/*
 * Goes on with the list until the output is choked; `drained` comes back here. So a user who asks
 * in a crowd is not disconnected because the list alone is more than may wait for anybody.
 */
static void list_more(struct chat_user *user)
{
    enum output_result result = OUTPUT_FLOWING;
    while (user->list.next < user->list.count && result < OUTPUT_CHOKED)
        result = tell(user, "* %s\n", user->list.nicks[user->list.next++]);
    if (user->list.next == user->list.count)
        end_list(user);
}

static void list_users(struct chat_user *user, const char *nothing)
{
    (void)nothing;
    user->list.nicks = nicknames_copy(&user->chat->nicknames, &user->list.count);
    user->list.next = 0;
    if (user->list.nicks == NULL)
        return;
    tell(user, "* %zu here\n", user->list.count);
    list_more(user);
}

static void quit(struct chat_user *user, const char *nothing)
{
    (void)nothing;
    tell(user, "* goodbye\n");
    channel_close(user->facade);
}

static double seconds(int64_t milliseconds)
{
    return (double)milliseconds / 1000;
}

static void help(struct chat_user *user, const char *nothing)
{
    (void)nothing;
    int64_t idle = user->chat->server->settings.deadlines.idle;
    tell(user, "* what you type, everybody else reads; and there are\n"
               "* /nick NAME  /who  /quit  /help\n");
    if (idle > 0)
        tell(user, "* if you hear and type nothing for %g s, you are disconnected\n",
             seconds(idle));
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
    size_t length = strlen(argument);
    while (length > 0 && argument[length - 1] == ' ')
        argument[--length] = '\0';
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
        channel_enqueue(facade, piece_copy(server_too_long_text));
    return result;
}

/* How many bytes the text's first character has in UTF-8; 0: the text begins with no whole one. */
static size_t utf8_length(const unsigned char *text, size_t length)
{
    unsigned char lead = text[0];
    unsigned char second = length > 1 ? text[1] : 0;
    size_t count = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4 || count > length)
        return 0;
    for (size_t i = 1; i < count; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    bool no_character = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
    return overlong || no_character ? 0 : count;
}

/*
 * The C0 controls, DEL, and the C1 controls: U+0080 to U+009F, and outside of any character the
 * bytes 0x80 to 0x9f themselves, which a terminal may take for them when it does not read UTF-8.
 */
static bool is_control(const unsigned char *character, size_t length)
{
    switch (length) {
    case 0: return character[0] >= 0x80 && character[0] <= 0x9f;
    case 1: return character[0] < ' ' || character[0] == 0x7f;
    case 2: return character[0] == 0xc2 && character[1] <= 0x9f;
    default: return false;
    }
}

/* Copies the text, with a question mark for each byte of a control character. */
static void copy_printable(unsigned char *to, const unsigned char *from, size_t length)
{
    memcpy(to, from, length);
    for (size_t i = 0; i < length;) {
        size_t character = utf8_length(from + i, length - i);
        size_t bytes = character > 0 ? character : 1;
        if (is_control(from + i, character))
            memset(to + i, '?', bytes);
        i += bytes;
    }
}

/* `[nick] text`, with a line end. */
static struct shared_message *compose(const struct chat_user *user, struct message text)
{
    char prefix[NICKNAME_SIZE + 4];
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), "[%s] ", user->nick.text);
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
    group_send(&user->chat->users, &user->member, piece_shared(message));
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

/* A user who wants to go does not wait behind what others say. */
static bool is_urgent(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    return line_framing_begins_with(channel_input(facade), "/quit");
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct chat_user *user = user_of(self);
    struct message text = without_end(application_process(user->chat->server, facade, message));
    (void)facade;
    return text.data[0] == '/' ? obey(user, text) : say(user, text);
}

static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)message;
    channel_enqueue(facade, piece_copy(server_busy_text));
}

static void drained(struct input_handler *self, struct channel_facade *facade)
{
    struct chat_user *user = user_of(self);
    (void)facade;
    if (user->list.nicks != NULL)
        list_more(user);
}

static void timed_out(struct input_handler *self, struct channel_facade *facade)
{
    struct chat_user *user = user_of(self);
    (void)facade;
    tell(user, "ERR your line did not end within %g s; goodbye\n",
         seconds(user->chat->server->settings.deadlines.request));
}

static void idle(struct input_handler *self, struct channel_facade *facade)
{
    struct chat_user *user = user_of(self);
    (void)facade;
    tell(user, "* you heard and typed nothing for %g s; goodbye\n",
         seconds(user->chat->server->settings.deadlines.idle));
}

static void started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct chat_user *user = user_of(self);
    struct chat *chat = user->chat;
    user->facade = facade;
    nicknames_make_up(&chat->nicknames, &user->nick);
    tell(user, "* welcome, you are %s; /help tells more\n", user->nick.text);
    group_join(&chat->users, &user->member, facade);
    if (!signals_stop_came())
        news_came(&chat->news, user->nick.text, &user->member);
}

static void stopping(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct chat_user *user = user_of(self);
    struct chat *chat = user->chat;
    char nick[NICKNAME_SIZE];
    snprintf(nick, sizeof(nick), "%s", user->nick.text);
    group_leave(&chat->users, &user->member);
    nicknames_give_back(&chat->nicknames, &user->nick);
    if (signals_stop_came())
        tell(user, "* this server stops; come again\n");
    else
        news_left(&chat->news, nick, facade);
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    end_list(user_of(self));
}

static const struct input_handler_verbs verbs = {
    .next_message = next_message,
    .is_urgent = is_urgent,
    .handle_input = handle_input,
    .refuse_input = refuse_input,
    .drained = drained,
    .timed_out = timed_out,
    .idle = idle,
    .started = started,
    .stopping = stopping,
    .stopped = stopped,
};

static struct input_handler *create(struct input_handler_factory *factory, void *memory)
{
    struct chat_user *user = memory;
    user->handler.verbs = &verbs;
    user->chat = container_of(factory, struct chat, factory);
    return &user->handler;
}

static struct input_handler_factory *chat_open(struct server *server,
                                               const struct application_choice *choice)
{
    (void)choice;
    struct chat *chat = calloc(1, sizeof(*chat));
    if (chat == NULL)
        return NULL;
    chat->factory =
        (struct input_handler_factory){.handler_size = sizeof(struct chat_user), .create = create};
    chat->server = server;
    group_init(&chat->users);
    nicknames_init(&chat->nicknames);
    news_init(&chat->news, &chat->users);
    return &chat->factory;
}

static void chat_close(struct input_handler_factory *factory)
{
    struct chat *chat = container_of(factory, struct chat, factory);
    group_destroy(&chat->users);
    nicknames_destroy(&chat->nicknames);
    news_destroy(&chat->news);
    free(chat);
}

const struct application chat_application = {
    .name = "chat",
    .descriptors = 1,
    .needs = OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_TIMERS | OFFERS_POST,
    .open = chat_open,
    .close = chat_close,
};
