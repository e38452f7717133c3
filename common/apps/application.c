#include "application.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct application *const applications[] = {
    &application_echo,
    &application_chat,
    &application_pop3,
    &application_http,
};

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

void application_options(struct options *options, struct application_choice *choice)
{
    options_add(options, (struct option){.name = "--app",
                                         .value = "NAME",
                                         .standard = "echo",
                                         .help = "what to serve: echo, chat, pop3 or http",
                                         .takes = "one of echo, chat, pop3, http",
                                         .read = read_application,
                                         .target = &choice->chosen});
    for (size_t i = 0; i < sizeof(applications) / sizeof(applications[0]); i++)
        if (applications[i]->options != NULL)
            applications[i]->options(options, choice);
}

struct input_handler_factory *application_open(const struct application_choice *choice,
                                               struct server *server)
{
    errno = 0;
    struct input_handler_factory *factory = choice->chosen->open(server, choice);
    if (factory == NULL && errno != 0)
        fprintf(stderr, "%s: cannot open %s: %s\n", server->name, choice->chosen->name,
                strerror(errno));
    return factory;
}
