#include "throttle_element.h"

#include "pace.h"

#include <string.h>

struct throttle_element {
    struct handler_element element; /* first */
    const struct throttle_choice *choice;
};

/* Before the application hears of the connection, so that not a byte goes out faster. */
static void slow_down(struct input_handler *handler, struct channel_facade *facade)
{
    const struct throttle_choice *choice = ((struct throttle_element *)handler)->choice;
    struct endpoint peer;
    channel_peer(facade, &peer);
    if (network_contains(&choice->suspicious, &peer))
        channel_set_write_rate(facade, choice->bytes_per_second);
    handler_element_verbs.starting(handler, facade);
}

static struct input_handler *create(struct input_handler_factory *self)
{
    struct throttle_element_factory *factory = (struct throttle_element_factory *)self;
    struct input_handler *inner = factory->inner->create(factory->inner);
    if (inner == NULL)
        return NULL;
    struct handler_element *element = handler_element_create(
        sizeof(struct throttle_element), &factory->verbs, &handler_element_facade_verbs, inner);
    if (element == NULL)
        return NULL;
    ((struct throttle_element *)element)->choice = factory->choice;
    return &element->handler;
}

struct input_handler_factory *throttle_element_over(struct throttle_element_factory *factory,
                                                    struct input_handler_factory *inner,
                                                    const struct throttle_choice *choice)
{
    *factory = (struct throttle_element_factory){
        .factory.create = create, .inner = inner, .verbs = handler_element_verbs, .choice = choice};
    factory->verbs.starting = slow_down;
    return &factory->factory;
}

static bool read_suspicious(const struct option *option, const char *text)
{
    struct throttle_choice *choice = option->target;
    choice->wanted = strcmp(text, "none") != 0;
    return !choice->wanted || network_parse(&choice->suspicious, text);
}

void throttle_options(struct options *options, struct throttle_choice *choice)
{
    options_add(options, (struct option){.name = "--suspicious",
                                         .value = "CIDR",
                                         .standard = "none",
                                         .help = "clients from there are sent slowly: 10.0.0.0/8",
                                         .takes = "a network, such as 10.0.0.0/8, or none",
                                         .read = read_suspicious,
                                         .target = choice});
    options_add(options, (struct option){.name = "--throttle",
                                         .value = "BYTES",
                                         .standard = "5",
                                         .help = "how slowly: so many bytes a second",
                                         .read = option_number,
                                         .target = &choice->bytes_per_second,
                                         .least = 1,
                                         .most = PACE_MOST_RATE});
}
