#include "application.h"

#include <string.h>

static const struct application *const applications[] = {&application_echo, &application_chat};

static bool read_application(const struct option *option, const char *text)
{
    for (size_t i = 0; i < sizeof(applications) / sizeof(applications[0]); i++) {
        if (strcmp(applications[i]->name, text) == 0) {
            *(const struct application **)option->target = applications[i];
            return true;
        }
    }
    return false;
}

struct option application_option(const struct application **application)
{
    return (struct option){.name = "--app",
                           .value = "NAME",
                           .standard = "echo",
                           .help = "what to serve: echo or chat",
                           .takes = "one of echo, chat",
                           .read = read_application,
                           .target = application};
}
