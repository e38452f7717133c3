/*
 * Protohackers' problem 5, a proxy in front of a chat: each line passes, and in both directions
 * each address of the fake currency Boguscoin becomes ours. An address begins with a 7, has 26 to
 * 35 letters and digits, and stands between spaces, or at an end of the line.
 */
#include "common/apps/pair_upstream.h"

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

static const struct pair_verbs verbs = {.began = pair_upstream_began,
                                        .not_connected = pair_upstream_not_connected,
                                        .next_message = pair_next_line,
                                        .pass = rewrite};

static struct pair_upstream upstream = {.pairing.verbs = &verbs,
                                        .option = "--upstream",
                                        .help = "mob: the chat that it stands in front of"};

static void add_options(struct options *options)
{
    pair_upstream_option(options, &upstream);
}

static void *start(struct server *server)
{
    return pair_upstream_start(&upstream, server);
}

const struct application mob_application = {
    .name = "mob",
    .needs = PAIR_NEEDS,
    .descriptors = 2,
    .options = add_options,
    .verbs = &pair_verbs_of_client,
    .handler_size = sizeof(struct upstream_pair),
    .start = start,
};
