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

static bool sanitized_by(const char *name)
{
    const char *sanitizer = getenv("SANITIZER");
    return sanitizer && strstr(sanitizer, name);
}

bool probe_thread_sanitized(void)
{
    return sanitized_by("thread");
}

bool probe_sanitized(void)
{
    return sanitized_by("address") || probe_thread_sanitized();
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
    bool more = probe_thread_sanitized() && threads > 1; /* it comes with the first that is made */
    return threads - more;
}

bool probe_await_own_threads(pid_t pid, long wanted)
{
    double end = test_deadline();
    while (probe_own_threads(pid) != wanted) {
        if (test_left_ms(end) == 0) {
            return false;
        }
        test_pause_ms(2);
    }
    return true;
}

static DIR *threads_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    return opendir(path);
}

/**
 * The next thread that the program made itself, NULL behind the last; @p seen is 0 at the first.
 * Threads are listed in the order in which they were made. ThreadSanitizer's is the second: it
 * wakes ten times a second, and on a busy machine waits for a processor each time.
 */
static const char *next_own_thread(DIR *threads, int *seen)
{
    struct dirent *entry;
    while ((entry = readdir(threads)) != NULL) {
        if (entry->d_name[0] != '.' && !(++*seen == 2 && probe_thread_sanitized())) {
            return entry->d_name;
        }
    }
    return NULL;
}

/* Each is in the state S of proc(5). */
bool probe_asleep(pid_t pid)
{
    DIR *threads = threads_of(pid);
    bool sleep = threads != NULL;
    int seen = 0;
    for (const char *thread; sleep && (thread = next_own_thread(threads, &seen)) != NULL;) {
        char name[64];
        char state = 'S';
        snprintf(name, sizeof name, "/proc/%d/task/%.16s/stat", (int)pid, thread);
        FILE *file = fopen(name, "re");
        if (file) {
            sleep = fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'S';
            fclose(file);
        }
    }
    if (threads) {
        closedir(threads);
    }
    return sleep;
}

bool probe_await_asleep(pid_t pid)
{
    double end = test_deadline();
    while (!probe_asleep(pid)) {
        if (test_left_ms(end) <= 0) {
            return false;
        }
        test_pause_ms(1);
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
    double end = test_deadline();
    while (probe_descriptors(pid) > most) {
        if (test_left_ms(end) == 0) {
            return false;
        }
        test_pause_ms(2);
    }
    return true;
}

/** Seconds on a core and seconds waiting for one, of one thread; -1 if the system does not tell. */
static double thread_busy_seconds(pid_t pid, const char *thread)
{
    char path[64];
    unsigned long long ran = 0;
    unsigned long long waited = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/schedstat", (int)pid, thread);
    FILE *file = fopen(path, "re");
    int fields = file ? fscanf(file, "%llu %llu", &ran, &waited) : 0;
    if (file) {
        fclose(file);
    }
    return fields == 2 ? (double)(ran + waited) / 1e9 : -1;
}

double probe_cpu_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) {
        return -1;
    }
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static double busy_seconds(pid_t pid)
{
    DIR *threads = threads_of(pid);
    double sum = threads ? 0 : -1;
    int seen = 0;
    for (const char *thread; sum >= 0 && (thread = next_own_thread(threads, &seen)) != NULL;) {
        double busy = thread_busy_seconds(pid, thread);
        sum = busy < 0 ? -1 : sum + busy;
    }
    if (threads) {
        closedir(threads);
    }
    return sum > 0 ? sum : probe_cpu_seconds(pid);
}

/** As little as any test asks for. */
#define CALM 0.02

static double busy_once(pid_t pid, int milliseconds)
{
    double before = busy_seconds(pid);
    double begin = test_now();
    test_pause_ms(milliseconds);
    double after = busy_seconds(pid);
    if (before < 0 || after < 0) {
        return -1;
    }
    /* A thread that ended in between took its time with it. */
    double busy = after > before ? (after - before) / (test_now() - begin) : 0;
    /* One that has waited for a processor all that time is not charged before it gets one. */
    return busy <= CALM && !probe_asleep(pid) ? 1 : busy;
}

double probe_busy_during(pid_t pid, int milliseconds)
{
    enum { TRIES = 4 };
    double least = busy_once(pid, milliseconds);
    for (int i = 1; i < TRIES && least > CALM; i++) {
        double busy = busy_once(pid, milliseconds);
        least = busy < least ? busy : least;
    }
    return least;
}

long probe_resident_kib(pid_t pid)
{
    return status_value(pid, "VmRSS");
}

long probe_virtual_kib(pid_t pid)
{
    return status_value(pid, "VmSize");
}
