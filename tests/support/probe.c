/*
 * Looking at a process from outside: see probe.h.
 */
#include "probe.h"

#include "deadline.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool probe_sanitized(void)
{
#if defined(PROBE_THREAD_SANITIZER) || defined(PROBE_ADDRESS_SANITIZER)
    return true;
#else
    return false;
#endif
}

/** The number behind @p name in /proc/PID/status, -1 if there is none. */
static long status_value(pid_t pid, const char *name)
{
    char path[64];
    char line[256];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return -1;
    }
    while (value == -1 && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
            value = strtol(line + strlen(name) + 1, NULL, 10);
        }
    }
    fclose(file);
    return value;
}

long probe_own_threads(pid_t pid)
{
    long threads = status_value(pid, "Threads");
#if defined(PROBE_THREAD_SANITIZER)
    return threads > 1 ? threads - 1 : threads; /* it comes with the first thread that is made */
#else
    return threads;
#endif
}

bool probe_await_own_threads(pid_t pid, long wanted)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (probe_own_threads(pid) != wanted) {
        if (test_left_ms(end) == 0) {
            return false;
        }
        test_pause_ms(2);
    }
    return true;
}

long probe_descriptors(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    if (!directory) {
        return -1;
    }
    long count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(directory);
    return count;
}

bool probe_await_descriptors(pid_t pid, long most)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (probe_descriptors(pid) > most) {
        if (test_left_ms(end) == 0) {
            return false;
        }
        test_pause_ms(2);
    }
    return true;
}

double probe_cpu_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) {
        return -1;
    }
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

double probe_cpu_during(pid_t pid, int milliseconds)
{
    double before = probe_cpu_seconds(pid);
    test_pause_ms(milliseconds);
    return probe_cpu_seconds(pid) - before;
}

long probe_resident_kib(pid_t pid)
{
    return status_value(pid, "VmRSS");
}

long probe_virtual_kib(pid_t pid)
{
    return status_value(pid, "VmSize");
}
