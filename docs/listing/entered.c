/*
 * Notes each function that a server enters and leaves, for `make listing`. The server is compiled
 * once more with -finstrument-functions, and this file, without that, is linked to it. At exit it
 * writes a line for each into the file that ENTERED names: the clock in ns, the thread, the address
 * of the function, and `+` or `-`.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    MOST = 1 << 20, /* what one client with two lines makes a server do is far less */
};

static struct step {
    int64_t ns;
    unsigned long thread;
    void *function;
    char what;
} steps[MOST];

static atomic_int count;

static void note(void *function, char what)
{
    int i = atomic_fetch_add(&count, 1);
    struct timespec now;
    if (i >= MOST)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    steps[i] = (struct step){(int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
                             (unsigned long)pthread_self(), function, what};
}

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    note(function, '+');
}

void __cyg_profile_func_exit(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)caller;
    note(function, '-');
}

__attribute__((destructor)) static void write_steps(void)
{
    const char *path = getenv("ENTERED");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    for (int i = 0; i < count && i < MOST; i++)
        fprintf(file, "%lld %lu %p %c\n", (long long)steps[i].ns, steps[i].thread,
                steps[i].function, steps[i].what);
    fclose(file);
}
