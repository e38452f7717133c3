/*
 * Protohackers' problem 2, Means to an End: a client inserts prices with their times, and asks for
 * the mean price between two times. A message has nine bytes: I or Q, and two numbers.
 */
#include "common/apps/application.h"
#include "common/bytes/input_queue.h"

#include <stdlib.h>

enum { MESSAGE_SIZE = 9 };

struct price {
    int32_t time;
    int32_t price;
};

struct client {
    struct input_handler handler; /* first */
    struct price *prices;
    size_t count;
    size_t room;
};

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    struct input_queue *input = channel_input(facade);
    (void)self;
    if (input_queue_length(input) < MESSAGE_SIZE)
        return FRAMING_INCOMPLETE;
    *message = input_queue_dequeue(input, MESSAGE_SIZE);
    return FRAMING_MESSAGE;
}

static int32_t number_at(const unsigned char *at)
{
    return (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
}

static bool insert(struct client *client, struct price price)
{
    if (client->count == client->room) {
        size_t room = client->room > 0 ? 2 * client->room : 16;
        struct price *prices = realloc(client->prices, room * sizeof(*prices));
        if (prices == NULL)
            return false;
        client->prices = prices;
        client->room = room;
    }
    client->prices[client->count++] = price;
    return true;
}

static int32_t mean(const struct client *client, int32_t from, int32_t to)
{
    int64_t sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < client->count; i++) {
        if (client->prices[i].time >= from && client->prices[i].time <= to) {
            sum += client->prices[i].price;
            count++;
        }
    }
    return count > 0 ? (int32_t)(sum / count) : 0;
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct client *client = (struct client *)self;
    int32_t first = number_at(message.data + 1);
    int32_t second = number_at(message.data + 5);
    if (message.data[0] == 'I')
        return insert(client, (struct price){first, second});
    if (message.data[0] != 'Q')
        return false;
    uint32_t answer = (uint32_t)mean(client, first, second);
    const unsigned char bytes[] = {(unsigned char)(answer >> 24), (unsigned char)(answer >> 16),
                                   (unsigned char)(answer >> 8), (unsigned char)answer};
    channel_enqueue(facade, piece_copy((struct message){bytes, sizeof(bytes)}));
    return true;
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    free(((struct client *)self)->prices);
}

static const struct input_handler_verbs verbs = {
    .next_message = next_message, .handle_input = handle_input, .stopped = stopped};

const struct application means_application = {
    .name = "means", .verbs = &verbs, .handler_size = sizeof(struct client)};
