/*
 * What the fuzz targets share: see fuzz.h.
 */
#include "fuzz.h"

#include "common/shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct fuzz_stream fuzz_stream;

/* ---- The input ---- */

uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->size == 0) {
        return 0;
    }
    input->size--;
    return *input->data++;
}

struct message fuzz_bytes(struct fuzz_input *input, size_t count)
{
    struct message bytes = {input->data, count < input->size ? count : input->size};
    input->data += bytes.length;
    input->size -= bytes.length;
    return bytes;
}

/* ---- The stream ---- */

ssize_t __wrap_socket_receive(int fd, const struct iovec *iov, int count);

ssize_t __wrap_socket_receive(int fd, const struct iovec *iov, int count)
{
    size_t copied = 0;
    (void)fd;
    for (int i = 0; i < count; i++) {
        size_t rest = fuzz_stream.size - copied;
        size_t here = iov[i].iov_len < rest ? iov[i].iov_len : rest;
        memcpy(iov[i].iov_base, fuzz_stream.data + copied, here);
        copied += here;
    }
    fuzz_stream.data += copied;
    fuzz_stream.size -= copied;
    if (copied == 0 && !fuzz_stream.ended) {
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)copied;
}

/* ---- Text ---- */

void fuzz_text_add(struct fuzz_text *text, const void *data, size_t length)
{
    while (text->capacity < text->length + length) {
        text->capacity = text->capacity == 0 ? 256 : 2 * text->capacity;
        text->data = realloc(text->data, text->capacity);
        fuzz_check(text->data != NULL, "memory");
    }
    if (length > 0) {
        memcpy(text->data + text->length, data, length);
    }
    text->length += length;
}

void fuzz_text_print(struct fuzz_text *text, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fuzz_check(length >= 0 && (size_t)length < sizeof line, "a line of %d bytes", length);
    fuzz_text_add(text, line, (size_t)length);
}

void fuzz_text_free(struct fuzz_text *text)
{
    free(text->data);
    *text = (struct fuzz_text){0};
}

/* ---- The channel ---- */

static struct fuzz_channel *channel_of(struct channel_facade *facade)
{
    return (struct fuzz_channel *)facade;
}

static struct input_queue *facade_input(struct channel_facade *facade)
{
    return &channel_of(facade)->input;
}

static enum output_result facade_enqueue(struct channel_facade *facade, struct message message)
{
    struct fuzz_channel *channel = channel_of(facade);
    if (channel->over) {
        return OUTPUT_BROKEN;
    }
    fuzz_text_add(&channel->output, message.data, message.length);
    return OUTPUT_FLOWING;
}

static enum output_result facade_enqueue_shared(struct channel_facade *facade,
                                                struct shared_message *message)
{
    return facade_enqueue(facade, (struct message){message->data, message->length});
}

static enum output_result facade_enqueue_file(struct channel_facade *facade,
                                              struct shared_file *file, size_t offset,
                                              size_t length)
{
    unsigned char piece[4096];
    while (length > 0) {
        size_t wanted = length < sizeof piece ? length : sizeof piece;
        ssize_t got = pread(file->fd, piece, wanted, (off_t)offset);
        fuzz_check(got > 0, "a range of a file that is not there");
        facade_enqueue(facade, (struct message){piece, (size_t)got});
        offset += (size_t)got;
        length -= (size_t)got;
    }
    return OUTPUT_FLOWING;
}

static void facade_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    channel_of(facade)->handler = handler;
}

static unsigned facade_interest(struct channel_facade *facade)
{
    return channel_of(facade)->interest;
}

static void facade_modify_interest(struct channel_facade *facade, unsigned set, unsigned reset)
{
    struct fuzz_channel *channel = channel_of(facade);
    channel->interest = (channel->interest | set) & ~reset;
}

static void facade_close(struct channel_facade *facade)
{
    channel_of(facade)->closing = true;
}

static bool facade_set_write_rate(struct channel_facade *facade, uint64_t bytes_per_second)
{
    (void)facade;
    (void)bytes_per_second;
    return true;
}

static void facade_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    (void)facade;
    endpoint_parse(endpoint, "127.0.0.1", 1);
}

static void facade_retain(struct channel_facade *facade)
{
    channel_of(facade)->references++;
}

static void facade_release(struct channel_facade *facade)
{
    fuzz_check(channel_of(facade)->references > 0, "more releases than references");
    channel_of(facade)->references--;
}

static const struct channel_facade_verbs verbs = {
    .input = facade_input,
    .enqueue = facade_enqueue,
    .enqueue_shared = facade_enqueue_shared,
    .enqueue_file = facade_enqueue_file,
    .set_handler = facade_set_handler,
    .interest = facade_interest,
    .modify_interest = facade_modify_interest,
    .close = facade_close,
    .set_write_rate = facade_set_write_rate,
    .peer = facade_peer,
    .retain = facade_retain,
    .release = facade_release,
};

static void tell(struct fuzz_channel *channel,
                 void (*call)(struct input_handler *, struct channel_facade *))
{
    if (call != NULL) {
        call(channel->handler, &channel->facade);
    }
}

void fuzz_channel_open(struct fuzz_channel *channel, struct server *server,
                       struct input_handler_factory *factory)
{
    *channel = (struct fuzz_channel){.facade.verbs = &verbs, .interest = SELECT_READ};
    channel->handler = factory->create(factory);
    fuzz_check(channel->handler != NULL, "no handler");
    input_queue_init(&channel->input, &server->buffers,
                     line_framing_input_limit(server->settings.max_line));
    tell(channel, channel->handler->verbs->starting);
    tell(channel, channel->handler->verbs->started);
}

static bool answer_goes_on(struct fuzz_channel *channel)
{
    const struct input_handler_verbs *handler = channel->handler->verbs;
    return handler->continue_output != NULL &&
           handler->continue_output(channel->handler, &channel->facade);
}

/* The next message is handled; false if there is none, or none is wanted. */
static bool handle_message(struct fuzz_channel *channel)
{
    struct message message;
    while (!channel->closing && answer_goes_on(channel)) {
    }
    if (channel->closing) {
        return false;
    }
    struct input_handler *handler = channel->handler;
    switch (handler->verbs->next_message(handler, &channel->facade, &message)) {
    case FRAMING_MESSAGE:
        if (!handler->verbs->handle_input(handler, message, &channel->facade)) {
            channel->closing = true;
        }
        return true;
    case FRAMING_TOO_LONG: channel->closing = true; return false;
    case FRAMING_INCOMPLETE: return false;
    case FRAMING_NO_MEMORY: fuzz_check(false, "no memory");
    }
    return false;
}

void fuzz_channel_receive(struct fuzz_channel *channel, struct message bytes)
{
    fuzz_stream = (struct fuzz_stream){.data = bytes.data, .size = bytes.length};
    while (fuzz_stream.size > 0 && !channel->closing) {
        ssize_t got = input_queue_fill(&channel->input, 0);
        fuzz_check(got > 0, "a queue at its limit with no message in it");
        while (handle_message(channel)) {
        }
    }
}

void fuzz_channel_close(struct fuzz_channel *channel)
{
    if (channel->over) {
        return;
    }
    if (!channel->closing) {
        tell(channel, channel->handler->verbs->end_of_input);
    }
    tell(channel, channel->handler->verbs->stopping);
    struct input_handler *handler = channel->handler;
    if (handler->verbs->stopped != NULL) {
        handler->verbs->stopped(handler, &channel->facade);
    }
    channel->over = true;
}

void fuzz_channel_free(struct fuzz_channel *channel)
{
    fuzz_check(channel->references == 0, "%d references are left", channel->references);
    input_queue_clear(&channel->input);
    fuzz_text_free(&channel->output);
}

/* ---- Files ---- */

static char folder[256];

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void)
{
    if (folder[0] == '\0') {
        const char *place = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/fuzz.XXXXXX", place != NULL ? place : "/tmp");
        fuzz_check(mkdtemp(folder) != NULL, "%s", strerror(errno));
        atexit(remove_folder);
    }
    return folder;
}

void fuzz_file(const char *path, const void *data, size_t length)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", fuzz_folder(), path);
    for (char *slash = full + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    if (length == 0 && data == NULL) {
        mkdir(full, 0700);
        return;
    }
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_check(fd >= 0 && write(fd, data, length) == (ssize_t)length, "%s: %s", full,
               strerror(errno));
    close(fd);
}

/* ---- The server ---- */

void fuzz_server_open(struct server *server, int argc, char **argv)
{
    static struct options options;
    *server = (struct server){.name = "fuzz"};
    options_init(&options, server->name, "");
    server_options(&options, &server->settings, "0");
    fuzz_check(options_parse(&options, argc, argv) == OPTIONS_SERVE, "the options of a target");
    server->log = (struct log){.program = server->name, .level = LOG_LEVEL_ERROR};
    buffer_factory_init(&server->buffers, 0); /* freed at once: what is used after that is seen */
    service_init(&server->service);
    server->service.cost_every = 1;
}

void fuzz_server_close(struct server *server)
{
    service_destroy(&server->service);
    buffer_factory_destroy(&server->buffers);
}
