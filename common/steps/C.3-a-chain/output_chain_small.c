/*
 * Stands in for common/bytes/output_chain.c until step C.4: copies of bytes, and no marks. Whatever
 * waits is too much.
 */
#include "common/bytes/output_chain.h"

#include "common/bytes/socket_io.h"

#include <errno.h>
#include <string.h>

void output_chain_init(struct output_chain *chain, const struct output_settings *settings, int fd)
{
    *chain = (struct output_chain){.settings = settings, .fd = fd};
}

/* The links are a ring: the last one knows the first. */
static struct segment *append_link(struct output_chain *chain)
{
    struct segment *link = buffer_factory_take(chain->settings->buffers), *last = chain->last;
    if (link == NULL)
        return NULL;
    link->next = last != NULL ? last->next : link;
    if (last != NULL)
        last->next = link;
    return chain->last = link;
}

static void drop_first(struct output_chain *chain)
{
    struct segment *first = chain->last->next;
    chain->last->next = first->next;
    if (first == chain->last)
        chain->last = NULL;
    buffer_factory_give_back(chain->settings->buffers, first);
}

static enum output_result leave(struct output_chain *chain, enum output_result state)
{
    chain->state = (unsigned char)state;
    return state;
}

enum output_result output_chain_enqueue(struct output_chain *chain, struct piece piece)
{
    const unsigned char *data = piece.bytes.data;
    size_t length = piece.bytes.length;
    while (length > 0) {
        struct segment *last = chain->last;
        if (last == NULL || segment_room(last) == 0)
            last = append_link(chain);
        if (last == NULL)
            return leave(chain, OUTPUT_BROKEN);
        size_t here = length < segment_room(last) ? length : segment_room(last);
        memcpy(last->data + last->end, data, here);
        last->end += here;
        data += here;
        length -= here;
    }
    return leave(chain, chain->corked ? OUTPUT_WAITING : output_chain_drain(chain));
}

enum output_result output_chain_drain(struct output_chain *chain)
{
    while (chain->last != NULL) {
        struct segment *first = chain->last->next;
        struct iovec bytes = {first->data + first->start, segment_length(first)};
        ssize_t sent = socket_send(chain->fd, &bytes, 1);
        if (sent < 0)
            return leave(chain, errno == EAGAIN ? OUTPUT_CHOKED : OUTPUT_BROKEN);
        first->start += (size_t)sent;
        if (segment_length(first) == 0)
            drop_first(chain);
    }
    return leave(chain, OUTPUT_FLOWING);
}

void output_chain_cork(struct output_chain *chain)
{
    chain->corked = true;
}

enum output_result output_chain_uncork(struct output_chain *chain)
{
    chain->corked = false;
    return chain->state == OUTPUT_BROKEN ? OUTPUT_BROKEN : output_chain_drain(chain);
}

void output_chain_close(struct output_chain *chain)
{
    while (chain->last != NULL)
        drop_first(chain);
    leave(chain, OUTPUT_BROKEN);
}
