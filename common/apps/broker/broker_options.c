#include "common/apps/broker/broker.h"
#include "common/base/options.h"

#include <string.h>

enum { LEASE_MIN = 500, LEASE_MAX = 3600 * 1000 }; /* ms */

/* A text, or NULL for "none". */
static bool parse_path(const struct option *option, const char *text)
{
    *(const char **)option->target = strcmp(text, "none") == 0 ? NULL : text;
    return text[0] != '\0';
}

static bool parse_name(const struct option *option, const char *text)
{
    *(const char **)option->target = strcmp(text, "none") == 0 ? NULL : text;
    return nickname_is_possible(text) && strlen(text) < SERVER_NAME_SIZE;
}

static bool parse_lease(const struct option *option, const char *text)
{
    const int64_t *lease = option->target;
    return option_parse_seconds(option, text) && *lease >= LEASE_MIN && *lease <= LEASE_MAX;
}

void broker_options(struct options *options, struct broker_choice *broker)
{
    options_add(options, (struct option){.name = "--broker",
                                         .value = "HOST:PORT",
                                         .default_text = "none",
                                         .help = "chat: the redis that links it to other servers",
                                         .expects = "HOST:PORT, with an IPv6 address in "
                                                    "brackets, or none",
                                         .parse = host_port_parse,
                                         .target = &broker->address});
    options_add(options, (struct option){.name = "--broker-name",
                                         .value = "NAME",
                                         .default_text = "none",
                                         .help = "chat: this server's name among the others; none: "
                                                 "of the machine and the port",
                                         .expects = "1 to 23 letters, digits, - and _",
                                         .parse = parse_name,
                                         .target = &broker->name});
    options_add(options,
                (struct option){.name = "--broker-password-file",
                                .value = "FILE",
                                .default_text = "none",
                                .help = "chat: the broker's password is the first line of FILE",
                                .expects = "a file, or none",
                                .parse = parse_path,
                                .target = &broker->password_file});
    options_add(options, (struct option){.name = "--broker-lease",
                                         .value = "SEC",
                                         .default_text = "10",
                                         .help = "chat: a server that was silent for SEC seconds "
                                                 "is gone, and its users' nicknames are free",
                                         .expects = "seconds, from 0.5 to 3600",
                                         .parse = parse_lease,
                                         .target = &broker->lease});
}
