#include "common/apps/throttle_element.h"

#include "common/apps/chain_service.h"
#include "common/base/container_of.h"
#include "common/bytes/pace.h"

#include <string.h>

struct throttle_element {
    struct handler_element element;       /* first */
    const struct throttle_choice *choice; /* NULL: the peer is no client */
};

/* Before the application's `starting`, so that not a byte leaves faster. */
static void slow_down(struct input_handler *handler, struct channel_facade *facade)
{
    const struct throttle_choice *choice =
        container_of(handler, struct throttle_element, element.handler)->choice;
    struct endpoint peer;
    channel_peer(facade, &peer);
    if (choice != NULL && choice->gatekeeper->is_suspicious(choice->gatekeeper, &peer))
        channel_set_write_rate(facade, choice->bytes_per_second);
    handler_element_verbs.starting(handler, facade);
}

static void begin(struct handler_element *element, const struct handler_element *model,
                  struct input_handler *inner);

static const struct handler_element_kind kind = {sizeof(struct throttle_element), begin};

static void init(struct throttle_element *element, const struct throttle_choice *choice,
                 const struct input_handler_verbs *verbs, struct input_handler *inner)
{
    handler_element_init(&element->element, verbs, &handler_element_facade_verbs, inner);
    element->element.kind = &kind;
    element->choice = choice;
}

/* For a connection that the application opens: nobody is suspicious whom we have asked ourselves.
 */
static void begin(struct handler_element *element, const struct handler_element *model,
                  struct input_handler *inner)
{
    init(container_of(element, struct throttle_element, element), NULL, model->all_verbs, inner);
}

static struct input_handler *create(struct input_handler_factory *self, void *memory) NO_LOCK_HELD
{
    struct throttle_element_factory *factory =
        container_of(self, struct throttle_element_factory, factory);
    struct throttle_element *element = memory;
    struct input_handler *inner = input_handler_create(
        factory->inner, (unsigned char *)memory + handler_element_room(sizeof(*element)));
    if (inner == NULL)
        return NULL;
    init(element, factory->choice, &factory->verbs, inner);
    return &element->element.handler;
}

struct input_handler_factory *throttle_element_over(struct throttle_element_factory *factory,
                                                    struct input_handler_factory *inner,
                                                    const struct throttle_choice *choice)
{
    *factory = (struct throttle_element_factory){
        .factory = {.handler_size =
                        handler_element_room(sizeof(struct throttle_element)) + inner->handler_size,
                    .create = create},
        .inner = inner,
        .verbs = handler_element_verbs,
        .choice = choice};
    factory->verbs.starting = slow_down;
    return &factory->factory;
}

static bool is_of_networks(struct gatekeeper *self, const struct endpoint *peer)
{
    struct network_gatekeeper *gatekeeper =
        container_of(self, struct network_gatekeeper, gatekeeper);
    return network_list_contains(&gatekeeper->networks, peer);
}

static bool parse_suspicious(const struct option *option, const char *text)
{
    struct throttle_choice *choice = option->target;
    choice->gatekeeper = NULL;
    if (strcmp(text, "none") == 0)
        return true;
    choice->of_networks.gatekeeper.is_suspicious = is_of_networks;
    choice->gatekeeper = &choice->of_networks.gatekeeper;
    return network_list_parse(&choice->of_networks.networks, text);
}

void throttle_options(struct options *options, struct throttle_choice *choice)
{
    options_add(
        options,
        (struct option){
            .name = "--suspicious",
            .value = "NETWORKS",
            .default_text = "none",
            .help = "throttle clients from these networks, such as 10.0.0.0/8,2001:db8::/32",
            .expects = "networks, such as 10.0.0.0/8,2001:db8::/32, or none",
            .parse = parse_suspicious,
            .target = choice});
    options_add(options, (struct option){
                             .name = "--throttle",
                             .value = "BYTES",
                             .default_text = "5",
                             .help = "send at most BYTES bytes per second to each of those clients",
                             .parse = option_parse_number,
                             .target = &choice->bytes_per_second,
                             .min = 1,
                             .max = PACE_MAX_RATE < SIZE_MAX ? (size_t)PACE_MAX_RATE : SIZE_MAX});
}

/* ---- As a service --------------------------------------------------------------------------- */

static struct throttle_choice chosen;

static void add_options(struct options *options)
{
    throttle_options(options, &chosen);
}

static struct input_handler_factory *throttle_over(struct input_handler_factory *inner,
                                                   struct server *server)
{
    static struct throttle_element_factory factory;
    (void)server;
    return chosen.gatekeeper != NULL ? throttle_element_over(&factory, inner, &chosen) : inner;
}

const struct chain_service throttle_service = {add_options, throttle_over};
