#include "common/events/selector_provider.h"

#include <string.h>

static bool parse_provider(const struct option *option, const char *text)
{
    for (size_t i = 0; selector_providers[i] != NULL; i++) {
        if (strcmp(selector_providers[i]->name, text) == 0) {
            *(const struct selector_provider **)option->target = selector_providers[i];
            return true;
        }
    }
    return false;
}

struct option selector_provider_option(const struct selector_provider **provider)
{
    return (struct option){.name = "--selector",
                           .value = "NAME",
                           .default_text = selector_providers[0]->name,
                           .help = "how to wait for sockets",
                           .expects = selector_provider_names,
                           .parse = parse_provider,
                           .target = provider};
}
