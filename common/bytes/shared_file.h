/*
 * An open file that several links of output queues send from.
 *
 * A file's bytes never pass through the server's memory: what a queue holds is a range of the file
 * and a reference to it. The position is each link's own, and nobody moves the descriptor's, so
 * that two ranges of one open file, in one queue or in two, do not disturb each other.
 *
 * Interface:
 * - All calls are safe from any thread.
 * - It owns the descriptor; the last release closes it. Nobody else seeks in it.
 * - Whoever creates one holds its first reference.
 */
#ifndef COMMON_SHARED_FILE_H
#define COMMON_SHARED_FILE_H

#include <stdatomic.h>
#include <stddef.h>

struct shared_file {
    atomic_size_t references;
    int fd;
};

/** Takes over fd, with one reference; NULL without memory, and fd stays the caller's. */
struct shared_file *shared_file_create(int fd);

/** Takes one more reference. */
void shared_file_retain(struct shared_file *file);

/** Gives one reference back. */
void shared_file_release(struct shared_file *file);

#endif
