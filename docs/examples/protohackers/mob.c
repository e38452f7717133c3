/*
 * Protohackers' problem 5, a proxy in front of a chat: each line passes, and in both directions
 * each address of the fake currency Boguscoin becomes ours. An address begins with a 7, has 26 to
 * 35 letters and digits, and stands between spaces, or at an end of the line.
 */
#include "common/apps/pair.h"
#include "common/base/options.h"
#include "common/server/host_port.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>

static const char ours[] = "7YWHMfk9JZe0LM0g1ZauHuiSxhI";

static bool is_letter_or_digit(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_address(const unsigned char *word, size_t length)
{
    if (length < 26 || length > 35 || word[0] != '7')
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!is_letter_or_digit(word[i]))
            return false;
    }
    return true;
}

/* A word ends at a space, or at the end of the line. */
static size_t word_length(const unsigned char *word, size_t most)
{
    size_t length = 0;
    while (length < most && word[length] != ' ' && word[length] != '\r' && word[length] != '\n')
        length++;
    return length;
}

static void rewrite(struct pair *pair, struct pair_end *from, struct message line)
{
    size_t sent = 0;
    size_t at = 0;
    (void)pair;
    while (at < line.length) {
        size_t length = word_length(line.data + at, line.length - at);
        if (is_address(line.data + at, length)) {
            pair_send(from, piece_bytes(line.data + sent, at - sent));
            pair_send(from, piece_bytes(ours, sizeof(ours) - 1));
            sent = at + length;
        }
        at += length + 1;
    }
    pair_send(from, piece_bytes(line.data + sent, line.length - sent));
}

static const char *chosen_upstream; /* NULL: not given */
static struct host_port_addresses upstream;

static void connect_it(struct pair *pair) NO_LOCK_HELD
{
    if (pair_connect(pair, &upstream.all[0], 5000) != 0)
        channel_close(pair->client.channel);
}

static const struct pair_verbs verbs = {
    .began = connect_it, .next_message = pair_next_line, .pass = rewrite};

static void *start(struct server *server)
{
    static struct pairing pairing = {.verbs = &verbs};
    (void)server;
    const char *name = chosen_upstream != NULL ? chosen_upstream : "--upstream: none given";
    int error = chosen_upstream != NULL ? host_port_look_up(name, &upstream) : EAI_NONAME;
    if (error == 0)
        return &pairing;
    fprintf(stderr, "mob: cannot find %s: %s\n", name, gai_strerror(error));
    errno = 0;
    return NULL;
}

static void add_options(struct options *options)
{
    options_add(options, (struct option){.name = "--upstream",
                                         .value = "HOST:PORT",
                                         .default_text = "none",
                                         .help = "mob: the chat that it stands in front of",
                                         .expects = "HOST:PORT",
                                         .parse = host_port_parse,
                                         .target = &chosen_upstream});
}

const struct application mob_application = {
    .name = "mob",
    .needs = PAIR_NEEDS,
    .descriptors = 2,
    .options = add_options,
    .verbs = &pair_verbs_of_client,
    .handler_size = sizeof(struct pair),
    .start = start,
};
