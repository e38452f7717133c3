/*
 * Two applications in one server, for listeners.py: echo, and one that says each line as its own,
 * at 127.0.0.1 and the port that SECOND names (0: any), or at a path. WRONG names what it asks too
 * much.
 */
#include "common/apps/application_choice.h"
#include "common/apps/application_listen.h"

#include <stdlib.h>
#include <string.h>

static struct own_counter ended = {.name = "second_ended"};

static bool handle_input(struct input_handler *self, struct message line,
                         struct channel_facade *facade)
{
    (void)self;
    channel_printf(facade, "second: %.*s", (int)line.length, (const char *)line.data);
    return true;
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
    own_counter_add(&ended, 1);
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input, .stopped = stopped};

static struct application other = {.name = "second", .verbs = &verbs, .handler_size = 4096};

static struct application_listener *second;

static struct input_handler_factory *begin(struct server *server)
{
    const char *where = getenv("SECOND");
    const char *wrong = getenv("WRONG");
    struct endpoint place;
    if (where[0] == '/')
        endpoint_parse(&place, where, 0);
    else
        endpoint_parse(&place, "127.0.0.1", (unsigned)strtoul(where, NULL, 10));
    if (wrong != NULL && strcmp(wrong, "needs") == 0)
        other.needs = OFFERS_POST;
    if (wrong != NULL && strcmp(wrong, "max_message") == 0)
        other.max_message = 10;
    application_count(server, &ended);
    second = application_listen(server, &other, &place);
    return second != NULL ? application_open(&echo_application, server) : NULL;
}

static void end(struct input_handler_factory *factory)
{
    application_close(&echo_application, factory);
    application_listen_end(second);
}

const struct application two_application = {.name = "two", .open = begin, .close = end};
