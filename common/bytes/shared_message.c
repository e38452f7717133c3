#include "common/bytes/shared_message.h"

#include "common/bytes/output_parts.h"

#include <errno.h>
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

/* ---- In an output chain --------------------------------------------------------------------- */

/* The link's start is this chain's position in the message. */
static int append(struct output_chain *chain, const struct piece *piece, size_t taken)
{
    size_t left = piece->bytes.length - taken;
    if (piece->bytes.length < SHARED_MESSAGE_MIN || left == 0)
        return output_chain_append_copy(chain, piece->bytes.data + taken, left);
    struct segment *link = malloc(sizeof(*link));
    if (link == NULL)
        return ENOMEM;
    shared_message_retain(piece->shared);
    *link = (struct segment){.start = taken,
                             .end = piece->bytes.length,
                             .verbs = &shared_message_verbs,
                             .object = piece->shared};
    output_chain_append_link(chain, link);
    chain->overhead += (uint32_t)sizeof(*link);
    chain->length += left;
    return 0;
}

static const unsigned char *bytes(const struct segment *link)
{
    const struct shared_message *message = link->object;
    return message->data;
}

static void release(struct output_chain *chain, struct segment *link)
{
    chain->overhead -= (uint32_t)sizeof(*link);
    shared_message_release(link->object);
    free(link);
}

const struct link_verbs shared_message_verbs = {append, bytes, NULL, release};
