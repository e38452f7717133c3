#include "connector.h"

#include "handler_adapter.h"

#include <errno.h>

/* Nothing here waits. The dispatcher waits, until the socket can be written. */
int connector_connect(struct dispatcher *dispatcher, const struct endpoint *to, int64_t timeout,
                      struct input_handler_factory *factory)
{
    int fd = socket_connect(to, (int)dispatcher->server->settings.send_buffer);
    if (fd < 0)
        return errno;
    struct handler_adapter *adapter =
        handler_adapter_create_outgoing(dispatcher, fd, to, timeout, factory);
    if (adapter == NULL) {
        socket_abandon(fd);
        return ENOMEM;
    }
    dispatcher_register_adapter(dispatcher, adapter, SELECT_WRITE);
    return 0;
}
