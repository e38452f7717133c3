/*
 * Chat: what one user says, all others hear (Hitchens' chat server, made real).
 *
 *   nada                    everybody else reads: [nick] nada
 *   /nick NAME  /who  /quit  /help
 *
 * Rules of the house:
 * - A line goes to every other user whole, in one shared buffer. The lines of one user arrive in
 *   their order. A user that does not read is disconnected, and slows down no other.
 * - All users are a group (group.h), and their names a table (nicknames.h). These have their locks,
 *   so the chat itself has none.
 * - Control characters are not passed on; a terminal at the other end could take them as orders.
 * - All users read who comes, leaves or is called otherwise, while these are few (news.h). Once the
 * server stops, no departure is announced, because N lines for each of N users would hold up the
 * end. Instead each user reads that he should come again: a balancer in front takes him to another
 * server.
 */
#include "common/apps/application.h"
#include "common/apps/chat/broker.h"
#include "common/apps/chat/news.h"
#include "common/apps/chat/nicknames.h"
#include "common/apps/chat/printable.h"
#include "common/apps/group.h"

#include "common/base/container_of.h"
#include "common/bytes/shared_message.h"
#include "common/server/channel_calls.h"

#include <errno.h>
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
    size_t max_line;
    struct group users;
    struct nicknames nicknames;
    struct clerk clerk;
    struct news news;
    bool has_broker;
    struct broker broker;
};

struct chat_user {
    struct input_handler handler;
    struct chat *chat;
    struct channel_facade *facade;
    struct clerk_seat seat;
    struct nickname nick;
    struct broker_user away; /* what the broker keeps of him */
    struct {
        char (*rows)[ROSTER_ROW_SIZE]; /* NULL: there is no list to go on with */
        size_t count;
        size_t next;
    } list; /* what /who has not sent yet */
};

static struct chat_user *user_of(struct input_handler *handler)
{
    return container_of(handler, struct chat_user, handler);
}

/* ---- What the server itself says ----------------------------------------------------------- */

/* Sends the user a line of the server's own. */
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

/* ---- Commands ------------------------------------------------------------------------------ */

static void tell_taken(struct chat_user *user, const char *nick)
{
    tell(user, "ERR somebody else is called %s\n", nick);
}

/* Calls the user so, here. False: another user here is called so. */
static bool rename_here(struct chat_user *user, const char *nick) NO_LOCK_HELD
{
    char before[NICKNAME_TEXT_SIZE];
    snprintf(before, sizeof(before), "%s", user->nick.text);
    if (!nicknames_take(&user->chat->nicknames, &user->nick, nick))
        return false;
    news_renamed(&user->chat->news, before, nick, &user->seat.member);
    return true;
}

/* A name that is made up is nobody else's, on whichever server. */
static void make_up_nick(struct chat_user *user)
{
    struct chat *chat = user->chat;
    char behind[SERVER_NAME_SIZE + 1] = "";
    if (chat->has_broker)
        snprintf(behind, sizeof(behind), "~%s", chat->broker.name);
    nicknames_make_up(&chat->nicknames, &user->nick, behind);
}

/*
 * The name is somebody else's, or may be, on another server: so his has ours behind it. False:
 * another user here is called so.
 */
static bool rename_apart(struct chat_user *user, const char *nick, const char *wish) NO_LOCK_HELD
{
    struct broker *broker = &user->chat->broker;
    char name[NICKNAME_TEXT_SIZE];
    snprintf(name, sizeof(name), "%.*s~%s", NICKNAME_SIZE - 1, nick, broker->name);
    if (!rename_here(user, name))
        return false;
    broker_renamed(broker, &user->away, name, wish);
    tell(user, "* you are %s\n", name);
    return true;
}

static void rename_meanwhile(struct chat_user *user, const char *nick) NO_LOCK_HELD
{
    if (!rename_apart(user, nick, nick))
        tell(user, "ERR somebody else is called %s~%s\n", nick, user->chat->broker.name);
}

/* What he is called has to be nobody else's, so if need be he gets a name that is made up. */
static void give_up_name(struct chat_user *user) NO_LOCK_HELD
{
    char before[NICKNAME_TEXT_SIZE];
    snprintf(before, sizeof(before), "%s", user->nick.text);
    if (!nickname_is_possible(before))
        return; /* he has given it up himself in the meantime */
    tell(user, "* somebody on another server has been %s for longer\n", before);
    if (rename_apart(user, before, ""))
        return;
    make_up_nick(user);
    news_renamed(&user->chat->news, before, user->nick.text, &user->seat.member);
    broker_renamed(&user->chat->broker, &user->away, user->nick.text, "");
    tell(user, "* you are %s\n", user->nick.text);
}

static void tell_refused(struct chat_user *user, const char *wanted)
{
    tell_taken(user, wanted);
    if (user->away.is_wish)
        tell(user, "* you stay %s\n", user->nick.text);
}

/* Another user here may have been granted the same name before: for the broker both are ours. */
static void take_granted(struct chat_user *user, const char *wanted) NO_LOCK_HELD
{
    struct broker *broker = &user->chat->broker;
    if (rename_here(user, wanted)) {
        broker_renamed(broker, &user->away, wanted, NULL);
        tell(user, "* you are %s\n", wanted);
    } else {
        broker_declined(broker, &user->away);
        tell_refused(user, wanted);
    }
}

/* What the broker says of the nickname that the user wants, or had. */
static void hear_answer(struct channel_post *post, struct channel_facade *facade) NO_LOCK_HELD
{
    struct chat_user *user = container_of(post, struct chat_user, away.post);
    const char *wanted = user->away.wanted;
    switch (user->away.answer) {
    case BROKER_GRANTED: take_granted(user, wanted); break;
    case BROKER_TAKEN: tell_refused(user, wanted); break;
    case BROKER_AWAY: rename_meanwhile(user, wanted); break;
    case BROKER_LOST: give_up_name(user); break;
    }
    broker_dealt_with(&user->chat->broker, &user->away);
    channel_resume(facade);
}

/* The user's next message waits for the answer; nobody else does. */
static void ask_for_nick(struct chat_user *user, const char *nick) NO_LOCK_HELD
{
    if (strcmp(user->nick.text, nick) == 0)
        tell(user, "* you are %s\n", nick);
    else if (nicknames_have(&user->chat->nicknames, nick))
        tell_taken(user, nick);
    else if (broker_claim(&user->chat->broker, &user->away, nick))
        channel_suspend(user->facade);
    else
        rename_meanwhile(user, nick);
}

static void change_nick(struct chat_user *user, const char *nick) NO_LOCK_HELD
{
    if (!nickname_is_possible(nick)) {
        tell(user, "ERR a nickname has 1 to %d letters, digits, - and _\n", NICKNAME_SIZE - 1);
    } else if (user->chat->has_broker) {
        ask_for_nick(user, nick);
    } else if (rename_here(user, nick)) {
        tell(user, "* you are %s\n", nick);
    } else {
        tell_taken(user, nick);
    }
}

static void end_list(struct chat_user *user)
{
    free(user->list.rows);
    user->list.rows = NULL;
}

/*
 * Sends more of the list until the output is choked; `drained` calls this again. Otherwise the list
 * of a crowd could exceed the cap, and the user would be disconnected for asking.
 */
static void list_more(struct chat_user *user)
{
    enum output_result result = OUTPUT_FLOWING;
    while (user->list.next < user->list.count && result < OUTPUT_CHOKED)
        result = tell(user, "* %s\n", user->list.rows[user->list.next++]);
    if (user->list.next == user->list.count)
        end_list(user);
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Those on this server, and behind them those on the others; sorted. */
static void make_list(struct chat_user *user, bool *reachable)
{
    enum { MORE = 16 }; /* who come meanwhile */
    struct chat *chat = user->chat;
    size_t room = nicknames_count(&chat->nicknames) + MORE;
    char here[SERVER_NAME_SIZE + 4] = "";
    if (chat->has_broker) {
        snprintf(here, sizeof(here), " on %s", chat->broker.name);
        room += broker_count(&chat->broker);
    }
    end_list(user);
    user->list.rows = malloc(room * sizeof(*user->list.rows));
    if (user->list.rows == NULL)
        return;
    size_t count =
        nicknames_copy(&chat->nicknames, user->list.rows[0], ROSTER_ROW_SIZE, room, here);
    if (chat->has_broker)
        count += broker_who(&chat->broker, user->list.rows + count, room - count, reachable);
    user->list.count = count;
    user->list.next = 0;
    qsort(user->list.rows, count, sizeof(*user->list.rows), compare);
}

static void list_users(struct chat_user *user, const char *nothing) NO_LOCK_HELD
{
    bool reachable = true;
    (void)nothing;
    make_list(user, &reachable);
    if (user->list.rows == NULL)
        return;
    tell(user, "* %zu here%s\n", user->list.count,
         reachable ? "" : "; the other servers are out of reach");
    list_more(user);
}

static void quit(struct chat_user *user, const char *nothing) NO_LOCK_HELD
{
    (void)nothing;
    tell(user, "* goodbye\n");
    channel_close(user->facade);
}

static double seconds(int64_t milliseconds)
{
    return (double)milliseconds / 1000;
}

static void help(struct chat_user *user, const char *nothing) NO_LOCK_HELD
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
static void run_command(struct chat_user *user, char *line) NO_LOCK_HELD
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
    size_t max_line = user_of(self)->chat->max_line;
    enum framing_result result;
    do
        result = line_framing_next(channel_input(facade), max_line, message);
    while (result == FRAMING_MESSAGE && without_end(*message).length == 0);
    if (result == FRAMING_TOO_LONG)
        channel_enqueue(facade, piece_copy(line_framing_too_long_text));
    return result;
}

/* `[nick] text`, with a line end. */
static struct shared_message *compose(const struct chat_user *user, struct message text,
                                      struct message *said)
{
    char prefix[NICKNAME_TEXT_SIZE + 4];
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), "[%s] ", user->nick.text);
    struct shared_message *message = shared_message_create(length + text.length + 1);
    if (message == NULL)
        return NULL;
    memcpy(message->data, prefix, length);
    copy_printable(message->data + length, text.data, text.length);
    message->data[length + text.length] = '\n';
    *said = (struct message){message->data + length, text.length};
    return message;
}

static bool say(struct chat_user *user, struct message text) NO_LOCK_HELD
{
    struct message said;
    struct shared_message *message = compose(user, text, &said);
    if (message == NULL)
        return false;
    group_send(&user->chat->users, &user->seat.member, piece_shared(message));
    if (user->chat->has_broker)
        broker_say(&user->chat->broker, &user->away, said);
    shared_message_release(message);
    return true;
}

static bool obey(struct chat_user *user, struct message text) NO_LOCK_HELD
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

/* A user who wants to leave does not wait behind the lines of others. */
static bool is_urgent(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    return line_framing_begins_with(channel_input(facade), "/quit");
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade) NO_LOCK_HELD
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
    if (user->list.rows != NULL)
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

static void join_others(struct chat_user *user) NO_LOCK_HELD
{
    struct broker *broker = &user->chat->broker;
    if (broker_came(broker, &user->away, user->facade, user->nick.text))
        tell(user, "* the other servers are out of reach; those on %s hear you\n", broker->name);
}

static void started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct chat_user *user = user_of(self);
    struct chat *chat = user->chat;
    user->facade = facade;
    make_up_nick(user);
    tell(user, "* welcome, you are %s; /help tells more\n", user->nick.text);
    group_join(&chat->users, &user->seat.member, facade);
    if (chat->has_broker)
        join_others(user);
    clerk_came(&chat->clerk);
    if (!signals_stop_came())
        news_came(&chat->news, user->nick.text, &user->seat.member);
}

static void stopping(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct chat_user *user = user_of(self);
    struct chat *chat = user->chat;
    char nick[NICKNAME_TEXT_SIZE];
    (void)facade;
    snprintf(nick, sizeof(nick), "%s", user->nick.text);
    group_leave(&chat->users, &user->seat.member);
    clerk_left(&chat->clerk, &user->seat);
    nicknames_give_back(&chat->nicknames, &user->nick);
    if (chat->has_broker)
        broker_left(&chat->broker, &user->away);
    if (signals_stop_came())
        tell(user, "* this server stops; come again\n");
    else
        news_left(&chat->news, nick);
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

static void chat_close(struct input_handler_factory *factory)
{
    struct chat *chat = container_of(factory, struct chat, factory);
    if (chat->has_broker)
        broker_close(&chat->broker);
    group_destroy(&chat->users);
    nicknames_destroy(&chat->nicknames);
    news_destroy(&chat->news);
    clerk_destroy(&chat->clerk);
    free(chat);
}

static struct broker_choice broker_choice;

static void chat_options(struct options *options)
{
    broker_options(options, &broker_choice);
}

static bool find_broker(struct chat *chat)
{
    if (broker_choice.address == NULL)
        return true;
    chat->has_broker = broker_open(&chat->broker, &broker_choice, chat->server, &chat->users,
                                   &chat->nicknames, &chat->news, &chat->clerk, hear_answer);
    return chat->has_broker;
}

static struct input_handler_factory *chat_open(struct server *server)
{
    struct chat *chat = calloc(1, sizeof(*chat));
    if (chat == NULL)
        return NULL;
    chat->factory =
        (struct input_handler_factory){.handler_size = sizeof(struct chat_user), .create = create};
    chat->server = server;
    chat->max_line = server->settings.max_line;
    group_init(&chat->users);
    nicknames_init(&chat->nicknames);
    clerk_init(&chat->clerk, &chat->users);
    news_init(&chat->news, &chat->users, &chat->clerk);
    if (find_broker(chat))
        return &chat->factory;
    int error = errno;
    chat_close(&chat->factory);
    errno = error;
    return NULL;
}

const struct application chat_application = {
    .name = "chat",
    .descriptors = 1,
    .unordered_answers = true,
    .needs = OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_TIMERS | OFFERS_POST | OFFERS_CONNECTIONS,
    .options = chat_options,
    .open = chat_open,
    .close = chat_close,
};
