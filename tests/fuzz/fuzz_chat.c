/*
 * The chat against a model of it.
 *
 * The input, stretched, says who comes, who sends what in which pieces, and who goes. The model
 * keeps for each user what he has to read, and works on whole lines that it cuts out of all that he
 * has sent.
 */
#include "fuzz.h"

#include "common/apps/application.h"
#include "common/server/run.h"
#include "common/server/strand_host.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern const struct application chat_application;

enum {
    USERS = 4,
    MAX_LINE = 300,
};

/* A user as the model sees him. */
struct model {
    bool here;
    bool done; /* takes nothing in any more */
    char nick[32];
    struct fuzz_text pending;
    struct fuzz_text reads;
};

static struct model models[USERS];
static unsigned long next_number;

static void tell_others(const struct model *except, const void *data, size_t length)
{
    for (int i = 0; i < USERS; i++) {
        if (models[i].here && &models[i] != except) {
            fuzz_text_add(&models[i].reads, data, length);
        }
    }
}

static void tell_others_line(const struct model *except, const char *line)
{
    tell_others(except, line, strlen(line));
}

static bool is_taken(const struct model *except, const char *nick)
{
    for (int i = 0; i < USERS; i++) {
        if (models[i].here && &models[i] != except && strcasecmp(models[i].nick, nick) == 0) {
            return true;
        }
    }
    return false;
}

static void model_comes(struct model *user)
{
    char line[128];
    do {
        snprintf(user->nick, sizeof user->nick, "user%lu", ++next_number);
    } while (is_taken(user, user->nick));
    user->here = true;
    user->done = false;
    fuzz_text_print(&user->reads, "* welcome, you are %s; /help tells more\n", user->nick);
    snprintf(line, sizeof line, "* %s is here\n", user->nick);
    tell_others_line(user, line);
}

static void model_goes(struct model *user)
{
    char line[128];
    user->here = false;
    snprintf(line, sizeof line, "* %s has left\n", user->nick);
    tell_others_line(NULL, line);
    fuzz_text_free(&user->pending);
}

static void model_nick(struct model *user, const char *nick)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    char line[128];
    size_t length = strlen(nick);
    if (length < 1 || length > 24 || strspn(nick, letters) != length) {
        fuzz_text_print(&user->reads, "ERR a nickname has 1 to 24 letters, digits, - and _\n");
    } else if (is_taken(user, nick)) {
        fuzz_text_print(&user->reads, "ERR somebody else is called %s\n", nick);
    } else {
        fuzz_text_print(&user->reads, "* you are %s\n", nick);
        snprintf(line, sizeof line, "* %s is now %s\n", user->nick, nick);
        if (strcmp(user->nick, nick) != 0) {
            tell_others_line(user, line);
        }
        snprintf(user->nick, sizeof user->nick, "%s", nick);
    }
}

static int compare_nicks(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void model_who(struct model *user)
{
    char nicks[USERS][sizeof user->nick];
    size_t count = 0;
    for (int i = 0; i < USERS; i++) {
        if (models[i].here) {
            memcpy(nicks[count++], models[i].nick, sizeof nicks[0]);
        }
    }
    qsort(nicks, count, sizeof nicks[0], compare_nicks);
    fuzz_text_print(&user->reads, "* %zu here\n", count);
    for (size_t i = 0; i < count; i++) {
        fuzz_text_print(&user->reads, "* %s\n", nicks[i]);
    }
}

static void model_obeys(struct model *user, const char *line, size_t length)
{
    char command[MAX_LINE + 1];
    if (length >= 128) {
        fuzz_text_print(&user->reads, "ERR no command is that long\n");
        return;
    }
    snprintf(command, sizeof command, "%s", line);
    char *argument = strchr(command, ' ');
    if (argument != NULL) {
        *argument++ = '\0';
        while (*argument == ' ') {
            argument++;
        }
        size_t left = strlen(argument);
        while (left > 0 && argument[left - 1] == ' ') {
            argument[--left] = '\0';
        }
    }
    if (strcmp(command, "/nick") == 0) {
        model_nick(user, argument != NULL ? argument : "");
    } else if (strcmp(command, "/who") == 0) {
        model_who(user);
    } else if (strcmp(command, "/quit") == 0) {
        fuzz_text_print(&user->reads, "* goodbye\n");
        user->done = true;
    } else if (strcmp(command, "/help") == 0) {
        fuzz_text_print(&user->reads, "* what you type, everybody else reads; and there are\n"
                                      "* /nick NAME  /who  /quit  /help\n");
    } else {
        fuzz_text_print(&user->reads, "ERR no such command; /help tells which there are\n");
    }
}

/*
 * The number of the character that the text begins with, and in *size how many bytes it has: the
 * bits are put together, and the form has to be the one that the number is written in. -1: none.
 */
static long decode(const unsigned char *text, size_t length, size_t *size)
{
    static const long smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = text[0];
    *size = 1;
    if (lead < 0x80) {
        return lead;
    }
    size_t count = 0;
    while (count < 8 && (lead << count & 0x80) != 0) {
        count++;
    }
    if (count < 2 || count > 4 || count > length) {
        return -1;
    }
    long number = lead & (0x7f >> count);
    for (size_t i = 1; i < count; i++) {
        if (text[i] >> 6 != 2) {
            return -1;
        }
        number = number << 6 | (text[i] & 0x3f);
    }
    if (number < smallest[count] || number > 0x10ffff || (number >= 0xd800 && number < 0xe000)) {
        return -1;
    }
    *size = count;
    return number;
}

/* What a terminal could take as an order becomes question marks; a NUL is one, too. */
static void make_harmless(unsigned char *text, size_t length)
{
    size_t size;
    for (size_t i = 0; i < length; i += size) {
        long number = decode(text + i, length - i, &size);
        if (number < 0) {
            number = text[i]; /* as a terminal reads it that knows no UTF-8 */
        }
        if (number < 32 || (number >= 127 && number < 160)) {
            memset(text + i, '?', size);
        }
    }
}

static void model_says(struct model *user, const char *line, size_t length)
{
    struct fuzz_text said = {0};
    fuzz_text_print(&said, "[%s] ", user->nick);
    fuzz_text_add(&said, line, length);
    fuzz_text_add(&said, "\n", 1);
    tell_others(user, said.data, said.length);
    fuzz_text_free(&said);
}

/* A line of text, without its end. */
static void model_line(struct model *user, unsigned char *line, size_t length)
{
    if (length == 0) {
        return;
    }
    make_harmless(line, length);
    line[length] = '\0';
    if (line[0] == '/') {
        model_obeys(user, (const char *)line, length);
    } else {
        model_says(user, (const char *)line, length);
    }
}

/* One line out of what is pending; false if there is none. */
static bool model_takes_line(struct model *user)
{
    unsigned char line[MAX_LINE + 1];
    struct fuzz_text *pending = &user->pending;
    if (user->done || pending->length == 0) {
        return false;
    }
    const unsigned char *end = memchr(pending->data, '\n', pending->length);
    size_t whole = end != NULL ? (size_t)(end - pending->data) : pending->length;
    size_t length = whole;
    if (length > 0 && pending->data[length - 1] == '\r') {
        length--;
    }
    if (length > MAX_LINE) {
        fuzz_text_print(&user->reads, "ERR line too long\n");
        user->done = true;
        return false;
    }
    if (end == NULL) {
        return false;
    }
    memcpy(line, pending->data, length);
    pending->length -= whole + 1;
    memmove(pending->data, end + 1, pending->length);
    model_line(user, line, length);
    return true;
}

static void model_receives(struct model *user, struct message bytes)
{
    fuzz_text_add(&user->pending, bytes.data, bytes.length);
    while (model_takes_line(user)) {
    }
}

static void compare(const struct model *model, const struct fuzz_channel *channel)
{
    fuzz_check(channel->closing == model->done, "closing %d, expected %d", channel->closing,
               model->done);
    fuzz_check(channel->output.length == model->reads.length, "%zu bytes, expected %zu",
               channel->output.length, model->reads.length);
    fuzz_check(channel->output.length == 0 ||
                   memcmp(channel->output.data, model->reads.data, channel->output.length) == 0,
               "`%.*s`, expected `%.*s`", (int)channel->output.length, channel->output.data,
               (int)model->reads.length, model->reads.data);
}

static void go(struct model *model, struct fuzz_channel *channel)
{
    compare(model, channel);
    fuzz_channel_close(channel);
    fuzz_channel_free(channel);
    model_goes(model);
    fuzz_text_free(&model->reads);
}

/* All happens in one run, so nothing is left to the strand's host. */
static void stay_asleep(struct strand_host *host)
{
    (void)host;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char program[] = "fuzz", option[] = "--max-line", value[] = "300";
    char *argv[] = {program, option, value, NULL};
    static const struct strand_host_verbs host_verbs = {.wake = stay_asleep};
    static struct server server;
    struct strand_host host = {.verbs = &host_verbs};
    struct run run;
    struct fuzz_channel channels[USERS];
    static const size_t limits[] = {24, 128, MAX_LINE}; /* of a nickname, a command, a line */
    struct fuzz_text text = fuzz_stretch(data, size, limits, sizeof limits / sizeof limits[0]);
    struct fuzz_input input = {text.data, text.length};
    fuzz_server_open(&server, 3, argv);
    server.strands = &host;
    struct input_handler_factory *factory = application_open(&chat_application, &server);
    fuzz_check(factory != NULL, "the chat");
    strand_host_begin(&host);
    run_begin(&run, NULL);
    memset(models, 0, sizeof models);
    next_number = 0;
    while (input.size > 0) {
        uint8_t what = fuzz_byte(&input);
        int who = what % USERS;
        if (!models[who].here) {
            fuzz_channel_open(&channels[who], &server, factory);
            model_comes(&models[who]);
        } else if (what / USERS % 16 == 0) {
            go(&models[who], &channels[who]);
        } else {
            size_t count = what / USERS % 16 == 1 ? (size_t)fuzz_byte(&input) * 2 : what / USERS;
            struct message bytes = fuzz_bytes(&input, count);
            fuzz_channel_receive(&channels[who], bytes);
            model_receives(&models[who], bytes);
        }
        for (int i = 0; i < USERS; i++) {
            if (models[i].here) {
                compare(&models[i], &channels[i]);
            }
        }
    }
    for (int i = 0; i < USERS; i++) {
        if (models[i].here) {
            go(&models[i], &channels[i]);
        }
    }
    run_end(&run);
    strand_host_end(&host);
    application_close(&chat_application, factory);
    fuzz_server_close(&server);
    fuzz_text_free(&text);
    return 0;
}
