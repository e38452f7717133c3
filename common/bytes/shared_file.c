#include "common/bytes/shared_file.h"

#include <stdlib.h>
#include <unistd.h>

struct shared_file *shared_file_create(int fd)
{
    struct shared_file *file = malloc(sizeof(*file));
    if (file == NULL)
        return NULL;
    atomic_init(&file->references, 1);
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
    close(file->fd);
    free(file);
}
