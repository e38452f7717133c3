/*
 * How the log names a connection.
 */
#include "common/server/channel_facade.h"

#include <stdio.h>

void channel_describe(struct channel_facade *facade, char text[CHANNEL_TEXT_SIZE])
{
    struct endpoint peer;
    char place[ENDPOINT_TEXT_SIZE];
    int fd = channel_peer(facade, &peer);
    endpoint_format(&peer, place);
    snprintf(text, CHANNEL_TEXT_SIZE, "peer=%s fd=%d", place, fd);
}
