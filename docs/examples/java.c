/*
 * The lines of docs/java.md: what somebody who knows java.nio would look for, as it is written
 * here. Nothing calls this; that it compiles is all that is asked of it.
 */
#include "common/bytes/file_sender.h"
#include "common/bytes/output_chain.h"
#include "common/bytes/shared_message.h"
#include "common/bytes/socket_io.h"
#include "common/events/selector_provider.h"
#include "common/server/sockets.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

ssize_t bytes(struct input_queue *input, struct output_chain *output, struct segment *segment,
              struct buffer_factory *factory, struct shared_message *shared, int fd);
ssize_t channels(struct listener *listener, const struct endpoint *endpoint, struct log *log,
                 struct iovec *pieces, int fd, int file, off_t size);
size_t selectors(struct selector *selector, struct selection_key *key, void *handler, int fd);

ssize_t bytes(struct input_queue *input, struct output_chain *output, struct segment *segment,
              struct buffer_factory *factory, struct shared_message *shared, int fd)
{
    size_t index = 0;

    segment = buffer_factory_take(factory);
    size_t remaining = segment_length(segment);
    size_t room = segment_room(segment);
    buffer_factory_give_back(factory, segment);

    ssize_t received = input_queue_fill(input, fd);
    bool found = input_queue_index_of(input, '\n', &index);
    struct message line = input_queue_dequeue(input, index + 1);
    unsigned char first = input_queue_at(input, 0);
    input_queue_clear(input);

    shared_message_retain(shared);
    output_chain_drain(output);
    return received + (ssize_t)(remaining + room) + found + (ssize_t)line.length + first;
}

ssize_t channels(struct listener *listener, const struct endpoint *endpoint, struct log *log,
                 struct iovec *pieces, int fd, int file, off_t size)
{
    int flags = fcntl(fd, F_SETFL, O_NONBLOCK);
    ssize_t got = socket_receive(fd, pieces, 2);
    ssize_t put = socket_send(fd, pieces, 2);

    int opened = listener_open(listener, endpoint, 0);
    enum accept_result result = listener_accept(listener, SOCK_NONBLOCK, log, &fd);
    int half = shutdown(fd, SHUT_WR);
    close(fd);

    int error = 0;
    int outgoing = socket_connect(endpoint, 0);
    bool connected = socket_has_connected(outgoing, &error);

    ssize_t sent = file_sender_send(fd, file, 0, 65536);
    ssize_t read_at = pread(file, pieces[0].iov_base, pieces[0].iov_len, 4096);
    void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, file, 0);
    int locked = flock(file, LOCK_EX | LOCK_NB);
    int forced = fsync(file);
    return flags + got + put + opened + (ssize_t)result + half + sent + read_at + (map != NULL) +
           locked + forced + connected + error;
}

size_t selectors(struct selector *selector, struct selection_key *key, void *handler, int fd)
{
    int opened = selector_open(selector, selector_providers[0]);
    int registered = selector_register(selector, key, fd, SELECT_READ, handler);
    size_t count = selector_select(selector, -1);
    count += selector_select(selector, 0);
    bool is_registered = key->selector != NULL;
    struct selection_key *ready = selector_selected(selector, 0);
    bool readable = (ready->ready & SELECT_READ) != 0;
    handler = ready->attachment;
    int changed = selector_interest(key, SELECT_READ | SELECT_WRITE);
    selector_wakeup(selector);
    selector_cancel(key);
    selector_close(selector);
    return count + (size_t)(opened + registered + is_registered + readable + changed) +
           (handler != NULL);
}
