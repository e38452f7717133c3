#include "common/apps/pair_upstream.h"

#include "common/server/server.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>

void pair_upstream_option(struct options *options, struct pair_upstream *upstream)
{
    options_add(options, (struct option){.name = upstream->option,
                                         .value = "HOST:PORT",
                                         .default_text = "none",
                                         .help = upstream->help,
                                         .expects = "HOST:PORT",
                                         .parse = host_port_parse,
                                         .target = &upstream->chosen});
}

void *pair_upstream_start(struct pair_upstream *upstream, struct server *server)
{
    errno = 0; /* the reason is printed here */
    if (upstream->chosen == NULL) {
        fprintf(stderr, "%s: %s: expected HOST:PORT, got none\n", server->name, upstream->option);
        return NULL;
    }
    int error = host_port_look_up(upstream->chosen, &upstream->addresses);
    errno = 0;
    if (error == 0)
        return upstream;
    fprintf(stderr, "%s: %s: cannot find %s: %s\n", server->name, upstream->option,
            upstream->chosen, gai_strerror(error));
    return NULL;
}

/* To the next address that can be tried. */
static void try_next(struct upstream_pair *client) NO_LOCK_HELD
{
    struct input_handler *handler = &client->pair.client.handler;
    const struct pair_upstream *upstream = application_data(handler);
    int64_t timeout = application_server(handler)->settings.connect_timeout;
    while (client->tried < upstream->addresses.count) {
        if (pair_connect(&client->pair, &upstream->addresses.all[client->tried++], timeout) == 0)
            return;
    }
    channel_close(client->pair.client.channel);
}

void pair_upstream_began(struct pair *pair)
{
    try_next(container_of(pair, struct upstream_pair, pair));
}

void pair_upstream_not_connected(struct pair *pair, int error)
{
    (void)error;
    try_next(container_of(pair, struct upstream_pair, pair));
}
