/*
 * Sets an application's options without a server's command line.
 */
#ifndef SUPPORT_CONFIGURE_H
#define SUPPORT_CONFIGURE_H

#include "common/apps/application.h"
#include "common/base/options.h"

#include <stdbool.h>

/**
 * Gives the application's options these words, `--option`, value and so on up to NULL; those that
 * are not among them have their defaults. At most 8 words, which live as long as the application.
 * False if one of them is wrong; standard error says why.
 */
static inline bool configure(const struct application *application, const char *const *words)
{
    static char program[] = "test";
    struct options options;
    char *argv[10] = {program};
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++)
        argv[argc] = (char *)words[argc - 1];
    options_init(&options, program, "");
    application->options(&options);
    return options_parse(&options, argc, argv) == OPTIONS_SERVE;
}

#endif
