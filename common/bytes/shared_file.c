#include "common/bytes/shared_file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

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
