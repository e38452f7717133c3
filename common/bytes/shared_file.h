/*
 * An open file that several links of output queues send from; or something else of which any range
 * can be read, such as a file that is encrypted on its way (cipher_element.c).
 *
 * A file's bytes never pass through the server's memory: what a queue holds is a range of the file
 * and a reference to it. The position is each link's own, and nobody moves the descriptor's, so
 * that two ranges of one open file, in one queue or in two, do not disturb each other.
 *
 * Interface:
 * - All calls are safe from any thread.
 * - It owns the descriptor; the last release closes it. Nobody else seeks in it.
 * - A range may be read more than once, whenever the socket did not take what was read before.
 * - Whoever creates one holds its first reference.
 */
#ifndef COMMON_SHARED_FILE_H
#define COMMON_SHARED_FILE_H

#include "common/bytes/output_chain.h"

struct shared_file;

/** What a file is that is not just a descriptor. */
struct shared_file_verbs {
    /**
     * As pread(2), and it may read less. Whichever thread drains the queue, or several that drain
     * several queues. An error breaks the queue.
     */
    ssize_t (*read)(const struct shared_file *file, void *to, size_t count, uint64_t offset);

    /** After the last release: frees it. */
    void (*destroy)(struct shared_file *file);
};

/** The beginning of a struct that has more in it, if there are verbs. */
struct shared_file {
    atomic_size_t references;
    const struct shared_file_verbs *verbs; /* NULL: the bytes are those of fd */
    int fd;
};

/** Begins one with verbs, in the caller's memory, with one reference. It has no descriptor. */
void shared_file_init(struct shared_file *file, const struct shared_file_verbs *verbs);

/** Reads up to count bytes from offset on; as pread(2). */
ssize_t shared_file_read(const struct shared_file *file, void *to, size_t count, uint64_t offset);

/** Takes over fd, with one reference; NULL without memory, and fd stays the caller's. */
struct shared_file *shared_file_create(int fd);

/** Takes one more reference. */
void shared_file_retain(struct shared_file *file);

/** Gives one reference back. */
void shared_file_release(struct shared_file *file);

/** How an output chain keeps one (output_parts.h). */
extern const struct link_verbs shared_file_link_verbs;

/**
 * A range of a file, for an output chain to send. It waits like anything else and counts with all
 * its bytes, though they take no memory: a client that is sent a big file is choked until most of
 * it has left. The file may grow or change while the range waits; if it ends before the range does,
 * the chain breaks, because the peer was promised bytes that do not exist.
 */
static inline struct piece piece_file(struct shared_file *file, uint64_t offset, uint64_t length)
{
    return (struct piece){
        .kind = PIECE_FILE, .verbs = &shared_file_link_verbs, .range = {file, offset, length}};
}

#endif
