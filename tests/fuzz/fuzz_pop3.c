/*
 * POP3 against a model of it.
 *
 * The input, stretched, is what a client sends, behind one byte that says in which pieces, and
 * whether it has logged in before that. The model goes through the commands line by line, with
 * messages that it knows as lines, and says for each whether the answer is good or bad and what
 * follows it. A mailbox stays as it was, unless a QUIT came whole.
 */
#include "fuzz.h"

#include "tests/support/configure.h"

#include <crypt.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern const struct application pop3_application;

enum {
    COMMAND_MOST = 253, /* without its end */
    MESSAGES = 4,
    NUMBER_MOST = 1000000,
};

static const struct mail {
    const char *folder;
    const char *name;
    const char *id;
    const char *text;
} mails[MESSAGES] = {
    {"new", "1000000001.M1P1.h", "1000000001.M1P1.h",
     "Subject: one\r\nTo: ann\r\n\r\nline 1\r\n.line 2\r\n..\r\n.\r\nlast\r\n"},
    {"cur", "1000000002.M1P1.h:2,S", "1000000002.M1P1.h",
     "Subject: two\n\nbare ends\n.\n\nno end at the end"},
    {"new", "1000000003.M1P1.h", "1000000003.M1P1.h", ""},
    {"cur", "1000000004.M1P1.h:2,", "1000000004.M1P1.h", NULL}, /* a long one, see below */
};

static char long_text[9000]; /* more than is read at a time */

static const char *text_of(int message)
{
    return mails[message].text != NULL ? mails[message].text : long_text;
}

/* ---- The files ---- */

static void write_mail(int message)
{
    char path[128];
    snprintf(path, sizeof path, "mail/ann/%s/%s", mails[message].folder, mails[message].name);
    fuzz_file(path, text_of(message), strlen(text_of(message)));
}

static bool is_there(int message)
{
    char path[256];
    snprintf(path, sizeof path, "%s/mail/ann/%s/%s", fuzz_folder(), mails[message].folder,
             mails[message].name);
    return access(path, F_OK) == 0;
}

static void make_files(void)
{
    char line[256];
    for (size_t i = 0; i + 100 < sizeof long_text; i += 60) {
        snprintf(long_text + i, 61, "%c%058zu\n", i % 7 == 0 ? '.' : 'x', i);
    }
    fuzz_file("mail/ann/tmp", NULL, 0);
    for (int i = 0; i < MESSAGES; i++) {
        write_mail(i);
    }
    snprintf(line, sizeof line, "ann:%s\n", crypt("p", "$1$ab$"));
    fuzz_file("users", line, strlen(line));
}

/* ---- The model ---- */

static struct {
    enum { BEFORE, LOGGED_IN, OVER } state;
    char user[512];
    int wrong;
    bool deleted[MESSAGES];
    bool quit;
} model;

/* What has to follow: an answer that is good or not, and then these lines. */
static struct {
    bool good;
    struct fuzz_text lines;
} due;

static void answer(bool good)
{
    due.good = good;
}

/* A message, or its first lines, as it goes over the wire; SIZE_MAX: all of them. */
static void add_mail(struct fuzz_text *to, const char *text, size_t body_lines, bool dots)
{
    bool in_body = false;
    while (*text != '\0') {
        size_t whole = strcspn(text, "\n");
        size_t length = whole;
        bool ended = text[whole] == '\n';
        if (ended && length > 0 && text[length - 1] == '\r') {
            length--;
        }
        if (in_body && body_lines != SIZE_MAX && body_lines-- == 0) {
            return;
        }
        if (dots && text[0] == '.') {
            fuzz_text_add(to, ".", 1);
        }
        fuzz_text_add(to, text, length);
        fuzz_text_add(to, "\r\n", 2);
        in_body = in_body || length == 0;
        text += whole + (ended ? 1 : 0);
    }
}

static size_t octets_of(int message)
{
    struct fuzz_text text = {0};
    add_mail(&text, text_of(message), SIZE_MAX, false);
    size_t octets = text.length;
    fuzz_text_free(&text);
    return octets;
}

/* Reads a number; false if there is none. What is too large is large. */
static bool number_of(char **text, size_t *number)
{
    *number = 0;
    while (**text == ' ') {
        ++*text;
    }
    if (**text < '0' || **text > '9') {
        return false;
    }
    for (; **text >= '0' && **text <= '9'; ++*text) {
        *number = *number * 10 + (size_t)(**text - '0');
        *number = *number > NUMBER_MOST ? NUMBER_MOST : *number;
    }
    return **text == ' ' || **text == '\0';
}

static bool is_empty(const char *text)
{
    return text[strspn(text, " ")] == '\0';
}

/* The index of a message that is there; -1. */
static int message_of(char **text)
{
    size_t number;
    bool good = number_of(text, &number) && number >= 1 && number <= MESSAGES;
    return good && !model.deleted[number - 1] ? (int)number - 1 : -1;
}

static void model_list(char *text, bool ids)
{
    if (!is_empty(text)) {
        int message = message_of(&text);
        answer(message >= 0 && is_empty(text));
        return;
    }
    answer(true);
    for (int i = 0; i < MESSAGES; i++) {
        if (!model.deleted[i] && ids) {
            fuzz_text_print(&due.lines, "%d %s\r\n", i + 1, mails[i].id);
        } else if (!model.deleted[i]) {
            fuzz_text_print(&due.lines, "%d %zu\r\n", i + 1, octets_of(i));
        }
    }
    fuzz_text_print(&due.lines, ".\r\n");
}

static void model_send(char *text, bool top)
{
    size_t lines = SIZE_MAX;
    int message = message_of(&text);
    bool good = message >= 0 && (!top || number_of(&text, &lines)) && is_empty(text);
    answer(good);
    if (good) {
        add_mail(&due.lines, text_of(message), lines, true);
        fuzz_text_print(&due.lines, ".\r\n");
    }
}

static void model_pass(const char *text)
{
    answer(false);
    if (*text == '\0' || model.user[0] == '\0') {
        return;
    }
    bool right = strcmp(model.user, "ann") == 0 && strcmp(text, "p") == 0;
    model.user[0] = '\0';
    if (right) {
        model.state = LOGGED_IN;
        answer(true);
    } else if (++model.wrong == 3) {
        model.state = OVER;
    }
}

static void model_before(const char *name, char *text)
{
    if (strcasecmp(name, "USER") == 0) {
        answer(*text != '\0');
        if (*text != '\0') {
            snprintf(model.user, sizeof model.user, "%s", text);
        }
    } else if (strcasecmp(name, "PASS") == 0) {
        model_pass(text);
    } else {
        answer(false);
    }
}

static void model_logged_in(const char *name, char *text)
{
    int message = -1;
    answer(false);
    if (strcasecmp(name, "LIST") == 0 || strcasecmp(name, "UIDL") == 0) {
        model_list(text, strcasecmp(name, "UIDL") == 0);
    } else if (strcasecmp(name, "RETR") == 0 || strcasecmp(name, "TOP") == 0) {
        model_send(text, strcasecmp(name, "TOP") == 0);
    } else if (strcasecmp(name, "DELE") == 0) {
        message = message_of(&text);
        answer(message >= 0 && is_empty(text));
        if (due.good) {
            model.deleted[message] = true;
        }
    } else if (strcasecmp(name, "RSET") == 0 && is_empty(text)) {
        memset(model.deleted, 0, sizeof model.deleted);
        answer(true);
    } else if (strcasecmp(name, "STAT") == 0 || strcasecmp(name, "NOOP") == 0) {
        answer(is_empty(text));
    }
}

static void model_command(char *line)
{
    static const char abilities[] = "USER\r\nTOP\r\nUIDL\r\nRESP-CODES\r\nAUTH-RESP-CODE\r\n"
                                    "PIPELINING\r\nEXPIRE NEVER\r\n.\r\n";
    char *text = line + strcspn(line, " ");
    if (*text != '\0') {
        *text++ = '\0';
    }
    if (strcasecmp(line, "QUIT") == 0 && is_empty(text)) {
        answer(true);
        model.quit = model.state == LOGGED_IN;
        model.state = OVER;
    } else if (strcasecmp(line, "CAPA") == 0) {
        answer(is_empty(text));
        if (due.good) {
            fuzz_text_add(&due.lines, abilities, strlen(abilities));
        }
    } else if (model.state == BEFORE) {
        model_before(line, text);
    } else {
        model_logged_in(line, text);
    }
}

/* ---- The comparison ---- */

/* An answer of one line, and what is due behind it. Moves on. */
static void compare(struct message *output)
{
    const unsigned char *end = memmem(output->data, output->length, "\r\n", 2);
    fuzz_check(end != NULL, "an answer that has no end: `%.*s`", (int)output->length, output->data);
    const char *sign = due.good ? "+OK" : "-ERR";
    size_t length = (size_t)(end - output->data) + 2;
    fuzz_check(length >= strlen(sign) + 2 && memcmp(output->data, sign, strlen(sign)) == 0,
               "`%.*s`, expected %s", (int)length, output->data, sign);
    output->data += length;
    output->length -= length;
    fuzz_check(
        output->length >= due.lines.length &&
            (due.lines.length == 0 || memcmp(output->data, due.lines.data, due.lines.length) == 0),
        "`%.*s`, expected `%.*s`", (int)output->length, output->data, (int)due.lines.length,
        due.lines.data);
    output->data += due.lines.length;
    output->length -= due.lines.length;
    due.lines.length = 0;
}

/* All that was sent, against all that came back. */
static void compare_all(const struct fuzz_text *sent, const struct fuzz_channel *channel)
{
    struct message output = {channel->output.data, channel->output.length};
    size_t done = 0;
    answer(true); /* the greeting */
    compare(&output);
    while (model.state != OVER && done < sent->length) {
        char line[COMMAND_MOST + 1];
        const unsigned char *from = sent->data + done;
        const unsigned char *end = memchr(from, '\n', sent->length - done);
        size_t whole = end != NULL ? (size_t)(end - from) : sent->length - done;
        size_t length = whole > 0 && from[whole - 1] == '\r' ? whole - 1 : whole;
        if (length <= COMMAND_MOST && end == NULL) {
            break;
        }
        done += whole + 1;
        if (length > COMMAND_MOST) {
            model.state = OVER;
            answer(false);
        } else if (memchr(from, '\0', length) != NULL) {
            answer(false);
        } else {
            memcpy(line, from, length);
            line[length] = '\0';
            model_command(line);
        }
        compare(&output);
    }
    fuzz_check(output.length == 0, "more than was asked for: `%.*s`", (int)output.length,
               output.data);
    fuzz_check(channel->closing == (model.state == OVER), "closing %d", channel->closing);
}

static void compare_files(void)
{
    for (int i = 0; i < MESSAGES; i++) {
        bool gone = model.quit && model.deleted[i];
        fuzz_check(is_there(i) == !gone, "message %d is %s", i + 1, gone ? "there" : "gone");
        if (gone) {
            write_mail(i);
        }
    }
}

static void send_bytes(struct fuzz_channel *channel, struct fuzz_text *sent, struct message bytes)
{
    if (!channel->closing) {
        fuzz_text_add(sent, bytes.data, bytes.length);
        fuzz_channel_receive(channel, bytes);
    }
}

/* Opened anew for each input, because it remembers wrong passwords. */
static struct input_handler_factory *open_application(struct server *server)
{
    static bool prepared;
    static char mail[128], users[128];
    static char program[] = "fuzz";
    char *argv[] = {program, NULL};
    if (!prepared) {
        prepared = true;
        make_files();
        snprintf(mail, sizeof mail, "%s/mail", fuzz_folder());
        snprintf(users, sizeof users, "%s/users", fuzz_folder());
        const char *const words[] = {"--mail-dir", mail, "--users", users, NULL};
        fuzz_check(configure(&pop3_application, words), "its options");
        fuzz_server_open(server, 1, argv);
    }
    struct input_handler_factory *factory = application_open(&pop3_application, server);
    fuzz_check(factory != NULL, "the application");
    return factory;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char login[] = "USER ann\r\nPASS p\r\n";
    static struct server server;
    struct fuzz_channel channel;
    static const size_t limits[] = {COMMAND_MOST};
    struct fuzz_text text = fuzz_stretch(data, size, limits, 1);
    struct fuzz_input input = {text.data, text.length};
    struct fuzz_text sent = {0};
    struct input_handler_factory *factory = open_application(&server);
    memset(&model, 0, sizeof model);
    uint8_t how = fuzz_byte(&input);
    size_t piece = how < 128 ? SIZE_MAX : (size_t)how - 127;
    fuzz_channel_open(&channel, &server, factory);
    if (how % 2 == 0) {
        send_bytes(&channel, &sent, (struct message){(const unsigned char *)login, strlen(login)});
    }
    while (input.size > 0) {
        send_bytes(&channel, &sent, fuzz_bytes(&input, piece));
    }
    compare_all(&sent, &channel);
    fuzz_channel_close(&channel);
    compare_files();
    fuzz_channel_free(&channel);
    pop3_application.close(factory);
    fuzz_text_free(&text);
    fuzz_text_free(&sent);
    fuzz_text_free(&due.lines);
    fuzz_check(buffer_factory_out(&server.buffers) == 0, "segments are left");
    return 0;
}
