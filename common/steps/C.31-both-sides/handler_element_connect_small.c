/* Stands in for handler_element_connect.c: echo opens no connection, and one would have no element
 * here. */
#include "common/apps/handler_element.h"

int handler_element_connect(struct channel_facade *facade, const struct endpoint *to,
                            int64_t timeout, struct input_handler_factory *factory)
{
    return channel_connect(handler_element_of(facade)->outer, to, timeout, factory);
}
