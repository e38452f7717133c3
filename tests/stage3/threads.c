/*
 * Looking at threads: see threads.h.
 */
#include "threads.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** From a line `TID (NAME) STATE ...`; user and system time are fields 14 and 15. */
static int parse(const char *line, struct thread_use *thread)
{
    const char *name = strchr(line, '(');
    const char *end = strrchr(line, ')');
    unsigned long user;
    unsigned long system;
    if (!name || !end ||
        sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) !=
            2) {
        return 0;
    }
    snprintf(thread->name, sizeof thread->name, "%.*s", (int)(end - name - 1), name + 1);
    thread->cpu = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    return 1;
}

/** 1, or 0 for a thread that is gone. */
static int look(pid_t pid, const char *tid, struct thread_use *thread)
{
    char path[300];
    char line[1024];
    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, tid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return 0;
    }
    int found = fgets(line, sizeof line, file) && parse(line, thread);
    fclose(file);
    return found;
}

int threads_look(pid_t pid, struct thread_use threads[THREADS_MAX])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *directory = opendir(path);
    cr_assert_not_null(directory, "the server is gone");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        cr_assert_lt(count, THREADS_MAX);
        count += entry->d_name[0] != '.' && look(pid, entry->d_name, &threads[count]);
    }
    closedir(directory);
    return count;
}

/* `worker 3` is named worker. */
static int has_name(const struct thread_use *thread, const char *name)
{
    size_t length = strlen(name);
    return strncmp(thread->name, name, length) == 0 && strchr(" ", thread->name[length]) != NULL;
}

int threads_named(pid_t pid, const char *name)
{
    struct thread_use threads[THREADS_MAX];
    int count = threads_look(pid, threads);
    int named = 0;
    for (int i = 0; i < count; i++) {
        named += has_name(&threads[i], name);
    }
    return named;
}

void threads_await_at(const char *where, pid_t pid, const char *name, int wanted)
{
    int named;
    WAIT_FOR((named = threads_named(pid, name)) == wanted);
    cr_assert_eq(named, wanted, "%s: waited %d ms for %d threads named %s; there are %d", where,
                 test_deadline_ms(), wanted, name, named);
}
