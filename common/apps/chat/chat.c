/*
 * Chat: what one user says, all others hear (Hitchens' chat server, made real).
 *
 *   nada                    everybody else reads: [nick] nada
 *   /nick NAME  /who  /quit  /help
 *
 * Rules of the house:
 * - All that users share is touched in one strand (strand_group.h), so nothing here has a lock, and
 *   what is said has one order, the same for everybody.
 * - A line goes to every other user whole, in one shared buffer. A user that does not read is
 *   disconnected, and slows down no other.
 * - A user that says more than --talk-rate waits until he may say more, and reads why. Or else
 *   those who read slower than he talks would be disconnected.
 * - Control characters are not passed on; a terminal at the other end could take them as orders.
 * - All users read who comes, leaves or is called otherwise, while these are few (news.h). Once the
 *   server stops, no departure is announced, because N lines for each of N users would hold up the
 *   end. Instead each user reads that he should come again: a balancer in front takes him to
 *   another server.
 */
#include "common/apps/chat/chat.h"
#include "common/apps/chat/printable.h"

#include "common/base/clock.h"
#include "common/base/options.h"
#include "common/bytes/shared_message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_SIZE = 256,             /* what the server itself says in one line */
    LONGEST_PAUSE = 1000 * 1000, /* in which a budget grows; ms */
};

static const char stops_text[] = "* this server stops; come again\n";

static size_t chosen_talk_rate;

static struct chat *chat_of(struct strand_group *group)
{
    return container_of(group, struct chat, users);
}

static struct chat_user *user_of(struct strand_member *member)
{
    return container_of(member, struct chat_user, member);
}

/* ---- What all hear -------------------------------------------------------------------------- */

void chat_tell_all(struct chat *chat, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text) - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof(text) - 2)
        length = (int)sizeof(text) - 2;
    text[length] = '\n';
    strand_group_send(&chat->users, NULL, piece_bytes(text, (size_t)length + 1));
}

bool chat_say(struct chat *chat, const struct chat_user *except, const char *nick,
              struct message text)
{
    char prefix[NICKNAME_TEXT_SIZE + 4];
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), "[%s] ", nick);
    struct shared_message *message = shared_message_create(length + text.length + 1);
    if (message == NULL)
        return false;
    memcpy(message->data, prefix, length);
    copy_printable(message->data + length, text.data, text.length);
    message->data[length + text.length] = '\n';
    strand_group_send(&chat->users, except != NULL ? &except->member : NULL, piece_shared(message));
    if (except != NULL && chat->link != NULL)
        chat->link->said(chat, except, (struct message){message->data + length, text.length});
    shared_message_release(message);
    return true;
}

/* ---- Names ---------------------------------------------------------------------------------- */

bool chat_rename(struct chat *chat, struct chat_user *user, const char *nick)
{
    char before[NICKNAME_TEXT_SIZE];
    snprintf(before, sizeof(before), "%s", user->nick.text);
    if (!nicknames_take(&chat->nicknames, &user->nick, nick))
        return false;
    if (strcmp(before, nick) != 0)
        news_renamed(&chat->news, before, nick, &user->member);
    return true;
}

/* Made up here, so it is nobody else's, on whichever server. */
static void make_up(struct chat *chat, struct chat_user *user)
{
    char behind[SERVER_NAME_SIZE + 1] = "";
    if (chat->name != NULL)
        snprintf(behind, sizeof(behind), "~%s", chat->name);
    nicknames_make_up(&chat->nicknames, &user->nick, behind);
}

void chat_make_up_name(struct chat *chat, struct chat_user *user)
{
    char before[NICKNAME_TEXT_SIZE];
    snprintf(before, sizeof(before), "%s", user->nick.text);
    make_up(chat, user);
    news_renamed(&chat->news, before, user->nick.text, &user->member);
}

void chat_tell_name(const struct chat_user *user)
{
    channel_printf(user->member.facade, "* you are %s\n", user->nick.text);
}

void chat_tell_taken(const struct chat_user *user, const char *nick)
{
    channel_printf(user->member.facade, "ERR somebody else is called %s\n", nick);
}

/* ---- Commands: false: the answer waits ------------------------------------------------------ */

static bool change_nick(struct chat *chat, struct chat_user *user, const char *nick) NO_LOCK_HELD
{
    const struct nickname *other = nicknames_find(&chat->nicknames, nick);
    if (!nickname_is_possible(nick)) {
        channel_printf(user->member.facade, "ERR a nickname has 1 to %d letters, digits, - and _\n",
                       NICKNAME_SIZE - 1);
    } else if (other != NULL && other != &user->nick) {
        chat_tell_taken(user, nick);
    } else if (chat->link != NULL && strcmp(user->nick.text, nick) != 0) {
        return chat->link->wants(chat, user, nick);
    } else {
        chat_rename(chat, user, nick);
        chat_tell_name(user);
    }
    return true;
}

static void end_list(struct chat_user *user)
{
    free(user->list.rows);
    user->list.rows = NULL;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Those on this server, and those on the others; sorted. */
static void make_list(struct chat *chat, struct chat_user *user, bool *reachable)
{
    size_t room = chat->users.count + (chat->link != NULL ? chat->link->count(chat, reachable) : 0);
    size_t count = 0;
    end_list(user);
    user->list.rows = malloc(room * sizeof(*user->list.rows));
    if (user->list.rows == NULL)
        return;
    for (struct chat_user *one = chat_first(chat); one != NULL; one = chat_next(chat, one))
        snprintf(user->list.rows[count++], CHAT_ROW_SIZE, "%s%s%s", one->nick.text,
                 chat->name != NULL ? " on " : "", chat->name != NULL ? chat->name : "");
    if (chat->link != NULL)
        count += chat->link->list(chat, user->list.rows + count, room - count);
    user->list.count = count;
    user->list.next = 0;
    qsort(user->list.rows, count, sizeof(*user->list.rows), compare);
}

/* The list itself follows as it is read: continue_output(). */
static bool list_users(struct chat *chat, struct chat_user *user, const char *nothing)
{
    bool reachable = true;
    (void)nothing;
    make_list(chat, user, &reachable);
    if (user->list.rows != NULL)
        channel_printf(user->member.facade, "* %zu here%s\n", user->list.count,
                       reachable ? "" : "; the other servers are out of reach");
    return true;
}

static bool quit(struct chat *chat, struct chat_user *user, const char *nothing)
{
    (void)chat;
    (void)nothing;
    channel_printf(user->member.facade, "* goodbye\n");
    channel_close(user->member.facade);
    return true;
}

static double seconds(int64_t milliseconds)
{
    return (double)milliseconds / 1000;
}

static bool help(struct chat *chat, struct chat_user *user, const char *nothing)
{
    int64_t idle = chat->server->settings.deadlines.idle;
    (void)nothing;
    channel_printf(user->member.facade, "* what you type, everybody else reads; and there are\n"
                                        "* /nick NAME  /who  /quit  /help\n");
    if (idle > 0)
        channel_printf(user->member.facade,
                       "* if you hear and type nothing for %g s, you are disconnected\n",
                       seconds(idle));
    return true;
}

static const struct command {
    const char *name;
    bool (*run)(struct chat *chat, struct chat_user *user, const char *argument);
} commands[] = {
    {"/nick", change_nick},
    {"/who", list_users},
    {"/quit", quit},
    {"/help", help},
};

/* Runs the command on a line, which ends in a zero and may be changed. */
static bool run_command(struct chat *chat, struct chat_user *user, char *line) NO_LOCK_HELD
{
    char *argument = line + strcspn(line, " ");
    if (*argument != '\0')
        *argument++ = '\0';
    argument += strspn(argument, " ");
    size_t length = strlen(argument);
    while (length > 0 && argument[length - 1] == ' ')
        argument[--length] = '\0';
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(line, commands[i].name) == 0)
            return commands[i].run(chat, user, argument);
    channel_printf(user->member.facade, "ERR no such command; /help tells which there are\n");
    return true;
}

static bool obey(struct chat *chat, struct chat_user *user, struct message text) NO_LOCK_HELD
{
    char line[TEXT_SIZE / 2];
    if (text.length >= sizeof(line)) {
        channel_printf(user->member.facade, "ERR no command is that long\n");
        return true;
    }
    copy_printable((unsigned char *)line, text.data, text.length);
    line[text.length] = '\0';
    return run_command(chat, user, line);
}

/* ---- How much a user may say ---------------------------------------------------------------- */

/* He has used up what he saved: his next line waits until that is paid for. */
static void slow_down(struct chat *chat, struct chat_user *user)
{
    if (!user->is_slowed)
        channel_printf(user->member.facade,
                       "* you say more than %lld bytes a second, so the others hear you later\n",
                       (long long)chat->talk_rate);
    user->is_slowed = true;
    user->waits = true;
    channel_set_timer(chat_strand(chat), &user->timer, -user->budget * 1000 / chat->talk_rate + 1);
}

/* Pays for what he has said. True: he may say more at once. */
static bool pay(struct chat *chat, struct chat_user *user, size_t bytes)
{
    int64_t now = clock_ms();
    int64_t pause = now - user->counted < LONGEST_PAUSE ? now - user->counted : LONGEST_PAUSE;
    if (chat->talk_rate == 0 || chat->is_stopping)
        return true;
    user->counted = now;
    user->budget += pause * chat->talk_rate / 1000;
    if (user->budget >= chat->talk_saved) {
        user->budget = chat->talk_saved;
        user->is_slowed = false;
    }
    user->budget -= (int64_t)bytes;
    if (user->budget < 0)
        slow_down(chat, user);
    return user->budget >= 0;
}

static void may_go_on(struct channel_timer *timer, struct channel_facade *facade)
{
    struct chat_user *user = container_of(timer, struct chat_user, timer);
    (void)facade;
    user->budget = 0; /* that is what he has waited for */
    user->counted = clock_ms();
    user->waits = false;
    strand_member_go_on(&user->member);
}

/* ---- In the strand -------------------------------------------------------------------------- */

static void joined(struct strand_group *group, struct strand_member *member) NO_LOCK_HELD
{
    struct chat *chat = chat_of(group);
    struct chat_user *user = user_of(member);
    user->budget = chat->talk_saved;
    user->counted = clock_ms();
    user->timer.fired = may_go_on;
    make_up(chat, user);
    channel_printf(member->facade, "* welcome, you are %s; /help tells more\n", user->nick.text);
    if (chat->link != NULL)
        chat->link->came(chat, user);
    if (chat->is_stopping)
        channel_enqueue(member->facade, piece_bytes(stops_text, sizeof(stops_text) - 1));
    else
        news_came(&chat->news, user->nick.text, member);
}

/* The line without its end. */
static struct message without_end(struct message line)
{
    line.length--;
    if (line.length > 0 && line.data[line.length - 1] == '\r')
        line.length--;
    return line;
}

static bool said(struct strand_group *group, struct strand_member *member,
                 struct message line) NO_LOCK_HELD
{
    struct chat *chat = chat_of(group);
    struct chat_user *user = user_of(member);
    struct message text = without_end(line);
    if (text.data[0] == '/')
        return obey(chat, user, text) && pay(chat, user, line.length);
    if (!chat_say(chat, user, user->nick.text, text))
        channel_close(member->facade);
    return pay(chat, user, strlen(user->nick.text) + line.length);
}

/* He has sent his last byte, or the server stops; he gets his answers and says his lines first. */
static void gone(struct strand_group *group, struct strand_member *member)
{
    (void)group;
    (void)member;
}

static void left(struct strand_group *group, struct strand_member *member) NO_LOCK_HELD
{
    struct chat *chat = chat_of(group);
    struct chat_user *user = user_of(member);
    channel_cancel_timer(chat_strand(chat), &user->timer);
    if (chat->link != NULL)
        chat->link->left(chat, user);
    if (!chat->is_stopping)
        news_left(&chat->news, user->nick.text);
    nicknames_give_back(&chat->nicknames, &user->nick);
    end_list(user);
}

/* Nobody is slowed down any more, because the end would wait for him. */
static void stopping(struct strand *strand, struct channel_facade *facade) NO_LOCK_HELD
{
    struct chat *chat = chat_of(container_of(strand, struct strand_group, strand));
    chat->is_stopping = true;
    for (struct chat_user *user = chat_first(chat); user != NULL; user = chat_next(chat, user)) {
        channel_cancel_timer(facade, &user->timer);
        if (user->waits)
            may_go_on(&user->timer, facade);
    }
    if (chat->link != NULL)
        chat->link->stops(chat);
    strand_group_send(&chat->users, NULL, piece_bytes(stops_text, sizeof(stops_text) - 1));
}

/* ---- In the connection ---------------------------------------------------------------------- */

/* A bare line end is nothing to say; but what follows it is not kept waiting (erratum 2). */
static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    const struct chat *chat = application_data(self);
    enum framing_result result;
    do
        result = line_framing_next(channel_input(facade), chat->max_line, message);
    while (result == FRAMING_MESSAGE && without_end(*message).length == 0);
    if (result == FRAMING_TOO_LONG)
        channel_enqueue(facade, piece_copy(line_framing_too_long_text));
    return result;
}

/* What a line costs (--work-us, --block-ms) it costs its user, and not the strand. */
static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade) NO_LOCK_HELD
{
    struct message line = application_process(application_server(self), facade, message);
    return strand_member_handle_input(self, line, facade);
}

/*
 * Sends more of a list until the output is choked, then the rest when that has been read. Otherwise
 * the list of a crowd could exceed the cap, and the user would be disconnected for asking. The
 * strand has made the list while the connection waited for it, so both need no lock.
 */
static bool continue_output(struct input_handler *self, struct channel_facade *facade)
{
    struct chat_user *user = user_of(container_of(self, struct strand_member, handler));
    enum output_result result = OUTPUT_FLOWING;
    if (user->list.rows == NULL)
        return false;
    while (user->list.next < user->list.count && result < OUTPUT_CHOKED)
        result = channel_printf(facade, "* %s\n", user->list.rows[user->list.next++]);
    if (user->list.next == user->list.count)
        end_list(user);
    return true;
}

/* A user who wants to leave does not wait behind the lines of others. */
static bool is_urgent(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    return line_framing_begins_with(channel_input(facade), "/quit");
}

static void timed_out(struct input_handler *self, struct channel_facade *facade)
{
    channel_printf(facade, "ERR your line did not end within %g s; goodbye\n",
                   seconds(application_server(self)->settings.deadlines.request));
}

static void idle(struct input_handler *self, struct channel_facade *facade)
{
    channel_printf(facade, "* you heard and typed nothing for %g s; goodbye\n",
                   seconds(application_server(self)->settings.deadlines.idle));
}

const struct input_handler_verbs chat_verbs = {
    .next_message = next_message,
    .is_urgent = is_urgent,
    .handle_input = handle_input,
    .continue_output = continue_output,
    .timed_out = timed_out,
    .idle = idle,
    .started = strand_member_started,
    .left = strand_member_left,
    .stopping = strand_member_stopping,
};

/* ---- The application ------------------------------------------------------------------------ */

void chat_options(struct options *options)
{
    options_add(options, (struct option){.name = "--talk-rate",
                                         .value = "BYTES",
                                         .default_text = "262144",
                                         .help = "chat: a user who says more than BYTES a second "
                                                 "has to wait; 0: nobody",
                                         .parse = option_parse_number,
                                         .target = &chosen_talk_rate,
                                         .min = 0,
                                         .max = 1 << 30});
}

bool chat_open(struct chat *chat, struct server *server, const struct chat_link_verbs *link)
{
    static const struct strand_group_verbs verbs = {
        .strand = {.stopping = stopping},
        .joined = joined,
        .said = said,
        .gone = gone,
        .left = left,
    };
    int64_t most = (int64_t)server->settings.output_cap / 2;
    chat->server = server;
    chat->link = link;
    chat->max_line = server->settings.max_line;
    chat->talk_rate = (int64_t)chosen_talk_rate;
    chat->talk_saved = chat->talk_rate < most ? chat->talk_rate : most;
    news_init(&chat->news, &chat->users);
    return strand_group_open(&chat->users, server, &verbs);
}

static void *start(struct server *server)
{
    struct chat *chat = calloc(1, sizeof(*chat));
    if (chat == NULL || chat_open(chat, server, NULL))
        return chat;
    free(chat);
    return NULL;
}

/* The chat of one machine. */
const struct application chat_application = {
    .name = "chat",
    .unordered_answers = true,
    .needs = OFFERS_STRANDS | OFFERS_OUTPUT_FROM_ELSEWHERE,
    .options = chat_options,
    .verbs = &chat_verbs,
    .handler_size = sizeof(struct chat_user),
    .start = start,
    .finish = free,
};
