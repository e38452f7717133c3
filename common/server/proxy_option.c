/*
 * --proxy-protocol, in a file of its own: a program links the lists of networks, and what reads a
 * proxy's header, only if it has the option.
 */
#include "common/server/connection_header.h"
#include "common/server/network.h"
#include "common/server/server_options.h"

#include <string.h>

static bool parse_proxies(const struct option *option, const char *text)
{
    struct network_list *proxies = option->target;
    proxies->count = 0;
    if (strcmp(text, "none") == 0)
        return true;
    connection_keep_clients();
    return network_list_parse(proxies, text);
}

void server_proxy_option(struct options *options, struct server_settings *settings)
{
    settings->admits = network_list_contains;
    settings->arrive = connection_expect_header;
    settings->reveal = connection_client_behind;
    options_add(
        options,
        (struct option){.name = "--proxy-protocol",
                        .value = "ADDRESSES",
                        .default_text = "none",
                        .help = "expect a PROXY header (version 2) from these proxies, and close "
                                "all other connections",
                        .expects = "up to 16 addresses or networks with commas between "
                                   "them, or none",
                        .parse = parse_proxies,
                        .target = &settings->proxies});
}
