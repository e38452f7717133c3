/*
 * Lines of a server's log: `program: level: [thread] event=... peer=... fd=... key=value ...`.
 */
#ifndef TESTS_LOGGED_H
#define TESTS_LOGGED_H

#include <string.h>

/** How many lines of @p text are of @p event and have @p part in them. */
static inline int logged(const char *text, const char *event, const char *part)
{
    static const char begin[] = "] event=";
    int count = 0;
    for (const char *at = strstr(text, begin); at; at = strstr(at + 1, begin)) {
        const char *name = at + strlen(begin);
        size_t length = strcspn(name, "\n");
        const char *found = strstr(name, part);
        if (strncmp(name, event, strlen(event)) == 0 && strchr(" \n", name[strlen(event)]) &&
            found && found < name + length) {
            count++;
        }
    }
    return count;
}

#endif
