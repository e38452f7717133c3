#include "common/apps/application_listen.h"

#include "common/server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Those of one server. It goes with the last of them. */
struct listener_set {
    struct application_listener *all;
    struct listener *first; /* the server's; from set_open() to set_close() its fd is the set's */
    int first_fd;           /* its socket */
    struct input_handler_factory *factory; /* its own; NULL: nobody was accepted yet */
};

struct application_listener {
    struct listener listener;
    const struct application *application;
    struct input_handler_factory *factory;
    struct listener_set *set;
    struct application_listener *next; /* in the set */
};

/* Of the sockets that are ready the system takes each in its turn. If there is none, accept(2)
 * finds nobody at the first one. */
static int set_find(struct listener *first)
{
    struct listener_set *set = first->set;
    struct epoll_event event = {.data.ptr = NULL};
    struct application_listener *found = NULL;
    if (set->factory == NULL)
        set->factory = first->factory;
    if (epoll_wait(first->fd, &event, 1, 0) == 1)
        found = event.data.ptr;
    first->factory = found != NULL ? found->factory : set->factory;
    return found != NULL ? found->listener.fd : set->first_fd;
}

static void set_close(struct listener *first)
{
    struct listener_set *set = first->set;
    for (struct application_listener *each = set->all; each != NULL; each = each->next)
        listener_close(&each->listener);
    close(first->fd);
    first->fd = set->first_fd;
    first->set = NULL;
}

/* Has the set tell of clients at a socket; at the server's first one if it is nobody's. */
static int set_add(int set, int socket, struct application_listener *owner)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = owner};
    return epoll_ctl(set, EPOLL_CTL_ADD, socket, &event);
}

/* The set that the server's listener is, or becomes. In a rehearsal that has no socket. NULL with
 * errno. */
static struct listener_set *set_open(struct listener *first)
{
    if (first->set != NULL)
        return first->set;
    struct listener_set *set = malloc(sizeof(*set));
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (set == NULL || fd < 0 || (first->fd >= 0 && set_add(fd, first->fd, NULL) != 0)) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        free(set);
        errno = error;
        return NULL;
    }
    *set = (struct listener_set){.first = first, .first_fd = first->fd};
    first->fd = fd;
    first->set = set;
    first->find = set_find;
    first->close_others = set_close;
    return set;
}

/* What does not fit together, because one server has one of it; NULL: nothing. */
static const char *fault_of(const struct application *application,
                            const struct server_settings *settings)
{
    if ((application->needs & ~settings->needs) != 0)
        return "expected all that it needs among the needs of the application that has it listen, "
               "got less";
    if (application->max_message != settings->max_message)
        return "expected the max_message of the application that has it listen, got another";
    return NULL;
}

/* Listens, and becomes one of the set. False with errno; nothing is left of it then. */
static bool listen_at(struct application_listener *own, struct server *server,
                      const struct endpoint *place)
{
    if (listener_open(&own->listener, place, (int)server->settings.send_buffer) != 0)
        return false;
    own->set = set_open(&server->listener);
    if (own->set != NULL && set_add(server->listener.fd, own->listener.fd, own) == 0) {
        own->next = own->set->all;
        own->set->all = own;
        return true;
    }
    int error = errno;
    listener_close(&own->listener);
    if (own->set != NULL && own->set->all == NULL) {
        set_close(&server->listener);
        free(own->set);
    }
    errno = error;
    return false;
}

/* As application_open(), but what the first application has said of its connections stays. */
static struct input_handler_factory *open_other(const struct application *other,
                                                struct server *server)
{
    const char *fault = fault_of(other, &server->settings);
    if (fault != NULL) {
        fprintf(stderr, "%s: cannot open %s: %s\n", server->name, other->name, fault);
        return NULL;
    }
    unsigned descriptors = server->settings.connection_descriptors;
    struct input_handler_factory *factory = application_open(other, server);
    if (server->settings.connection_descriptors < descriptors)
        server->settings.connection_descriptors = descriptors;
    return factory;
}

struct application_listener *application_listen(struct server *server,
                                                const struct application *other,
                                                struct endpoint *place)
{
    char text[ENDPOINT_TEXT_SIZE];
    const char *path = endpoint_path(place);
    struct application_listener *own = calloc(1, sizeof(*own));
    struct input_handler_factory *factory = own != NULL ? open_other(other, server) : NULL;
    if (factory != NULL && listen_at(own, server, place)) {
        own->application = other;
        own->factory = factory;
        *place = own->listener.endpoint;
        endpoint_format(place, text);
        log_write(&server->log, LOG_LEVEL_INFO, "event=listens application=%s address=%s",
                  other->name, path != NULL ? path : text);
        return own;
    }
    int error = errno;
    endpoint_format(place, text);
    if (factory != NULL || own == NULL)
        fprintf(stderr, "%s: cannot listen on %s for %s: %s\n", server->name,
                path != NULL ? path : text, other->name, strerror(error));
    application_close(other, factory);
    free(own);
    errno = 0;
    return NULL;
}

void application_listen_end(struct application_listener *own)
{
    if (own == NULL)
        return;
    struct application_listener **place = &own->set->all;
    while (*place != own)
        place = &(*place)->next;
    *place = own->next;
    listener_close(&own->listener);
    if (own->set->all == NULL) {
        if (own->set->first->set == own->set)
            set_close(own->set->first);
        free(own->set);
    }
    application_close(own->application, own->factory);
    free(own);
}
