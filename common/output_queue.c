#include "output_queue.h"

void output_queue_init(struct output_queue *queue, const struct output_settings *settings, int fd)
{
    mutex_init(&queue->lock);
    mutex_lock(&queue->lock);
    output_chain_init(&queue->chain, settings, fd);
    mutex_unlock(&queue->lock);
}

void output_queue_destroy(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    output_chain_clear(&queue->chain);
    mutex_unlock(&queue->lock);
    mutex_destroy(&queue->lock);
}

enum output_result output_queue_enqueue(struct output_queue *queue, struct message message)
{
    mutex_lock(&queue->lock);
    enum output_result result = output_chain_enqueue(&queue->chain, message);
    mutex_unlock(&queue->lock);
    return result;
}

enum output_result output_queue_enqueue_shared(struct output_queue *queue,
                                               struct shared_message *message)
{
    mutex_lock(&queue->lock);
    enum output_result result = output_chain_enqueue_shared(&queue->chain, message);
    mutex_unlock(&queue->lock);
    return result;
}

enum output_result output_queue_enqueue_file(struct output_queue *queue, struct shared_file *file,
                                             size_t offset, size_t length)
{
    mutex_lock(&queue->lock);
    enum output_result result = output_chain_enqueue_file(&queue->chain, file, offset, length);
    mutex_unlock(&queue->lock);
    return result;
}

enum output_result output_queue_drain(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    enum output_result result = output_chain_drain(&queue->chain);
    mutex_unlock(&queue->lock);
    return result;
}

void output_queue_cork(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    output_chain_cork(&queue->chain);
    mutex_unlock(&queue->lock);
}

enum output_result output_queue_uncork(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    enum output_result result = output_chain_uncork(&queue->chain);
    mutex_unlock(&queue->lock);
    return result;
}

void output_queue_close(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    output_chain_close(&queue->chain);
    mutex_unlock(&queue->lock);
}

enum output_result output_queue_look(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    enum output_result result = output_chain_look(&queue->chain);
    mutex_unlock(&queue->lock);
    return result;
}

size_t output_queue_length(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    size_t length = output_chain_length(&queue->chain);
    mutex_unlock(&queue->lock);
    return length;
}

void output_queue_set_rate(struct output_queue *queue, uint64_t bytes_per_second)
{
    mutex_lock(&queue->lock);
    output_chain_set_rate(&queue->chain, bytes_per_second);
    mutex_unlock(&queue->lock);
}

int64_t output_queue_due(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    int64_t due = output_chain_due(&queue->chain);
    mutex_unlock(&queue->lock);
    return due;
}

uint64_t output_queue_newly_sent(struct output_queue *queue)
{
    mutex_lock(&queue->lock);
    uint64_t sent = output_chain_newly_sent(&queue->chain);
    mutex_unlock(&queue->lock);
    return sent;
}
