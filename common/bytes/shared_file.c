#include "common/bytes/shared_file.h"

#include "common/bytes/file_sender.h"
#include "common/bytes/output_parts.h"
#include "common/bytes/socket_io.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    READ_PIECE = 16384, /* of a file that has to pass through our memory */
};

void shared_file_init(struct shared_file *file, const struct shared_file_verbs *verbs)
{
    atomic_init(&file->references, 1);
    file->verbs = verbs;
    file->fd = -1;
}

ssize_t shared_file_read(const struct shared_file *file, void *to, size_t count, uint64_t offset)
{
    ssize_t got;
    if (file->verbs != NULL)
        return file->verbs->read(file, to, count, offset);
    do
        got = pread(file->fd, to, count, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got;
}

struct shared_file *shared_file_create(int fd)
{
    struct shared_file *file = malloc(sizeof(*file));
    if (file == NULL)
        return NULL;
    shared_file_init(file, NULL);
    file->fd = fd;
    return file;
}

void shared_file_retain(struct shared_file *file)
{
    atomic_fetch_add_explicit(&file->references, 1, memory_order_relaxed);
}

/* Whoever takes the count to zero closes after all that the others did with the descriptor. */
void shared_file_release(struct shared_file *file)
{
    if (atomic_fetch_sub_explicit(&file->references, 1, memory_order_acq_rel) > 1)
        return;
    if (file->verbs != NULL) {
        file->verbs->destroy(file);
        return;
    }
    close(file->fd);
    free(file);
}

/* ---- In an output chain --------------------------------------------------------------------- */

/* Whether all that the chain counts can still be counted with the range. */
static bool is_countable(const struct output_chain *chain, uint64_t offset, uint64_t length)
{
    return length <= UINT64_MAX - offset && length <= UINT64_MAX - chain->length;
}

static int append(struct output_chain *chain, const struct piece *piece, size_t taken)
{
    (void)taken; /* of a file nothing is offered before it is in the chain */
    if (!is_countable(chain, piece->range.offset, piece->range.length))
        return EOVERFLOW;
    if (piece->range.length == 0)
        return 0;
    struct segment *link = malloc(sizeof(*link));
    if (link == NULL)
        return ENOMEM;
    shared_file_retain(piece->range.file);
    *link = (struct segment){.verbs = &shared_file_link_verbs,
                             .object = piece->range.file,
                             .offset = piece->range.offset,
                             .left = piece->range.length};
    output_chain_append_link(chain, link);
    chain->length += link->left;
    return 0;
}

/*
 * Reads a piece of the file and offers it to the socket. What that does not take is read again the
 * next time: nothing is kept in between.
 */
static ssize_t write_what_is_read(struct output_chain *chain, const struct segment *link,
                                  size_t *offered)
{
    unsigned char piece[READ_PIECE];
    size_t most = *offered < sizeof(piece) ? *offered : sizeof(piece);
    ssize_t got = shared_file_read(link->object, piece, most, link->offset);
    if (got <= 0) {
        errno = got == 0 ? ESTALE : errno;
        return -1;
    }
    struct iovec iov = {piece, (size_t)got};
    *offered = (size_t)got;
    return output_chain_wrote(chain, socket_send(chain->fd, &iov, 1));
}

/* Offers the socket `most` bytes of the range. */
static ssize_t write_range(struct output_chain *chain, struct segment *link, size_t most,
                           size_t *offered)
{
    const struct shared_file *file = link->object;
    ssize_t written;
    *offered = link->left < most ? (size_t)link->left : most;
    if (file->verbs != NULL)
        written = write_what_is_read(chain, link, offered);
    else
        written = output_chain_wrote(
            chain, file_sender_send(chain->fd, file->fd, (off_t)link->offset, *offered));
    if (written <= 0)
        return written;
    chain->length -= (uint64_t)written;
    link->offset += (uint64_t)written;
    link->left -= (uint64_t)written;
    if (link->left == 0)
        output_chain_drop_first(chain);
    return written;
}

static void release(struct output_chain *chain, struct segment *link)
{
    (void)chain;
    shared_file_release(link->object);
    free(link);
}

const struct link_verbs shared_file_link_verbs = {append, NULL, write_range, release};
