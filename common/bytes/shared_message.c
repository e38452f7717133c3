#include "common/bytes/shared_message.h"

#include <stdlib.h>

struct shared_message *shared_message_create(size_t length)
{
    struct shared_message *message = malloc(sizeof(*message) + length);
    if (message == NULL)
        return NULL;
    atomic_init(&message->references, 1);
    message->length = length;
    return message;
}

void shared_message_retain(struct shared_message *message)
{
    atomic_fetch_add_explicit(&message->references, 1, memory_order_relaxed);
}

/* Whoever takes the count to zero has to see all that the others did with the message before. */
void shared_message_release(struct shared_message *message)
{
    if (atomic_fetch_sub_explicit(&message->references, 1, memory_order_acq_rel) == 1)
        free(message);
}
