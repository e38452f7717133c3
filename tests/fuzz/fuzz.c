/*
 * What the fuzz targets share: see fuzz.h.
 */
#include "fuzz.h"

#include "common/bytes/shared_file.h"

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

enum {
    STRETCHED_MOST = 150000, /* more than twice the longest limit there is */
};

struct fuzz_text fuzz_stretch(const uint8_t *data, size_t size, const size_t *limits, size_t count)
{
    struct fuzz_text text = {0};
    for (size_t i = 0; i < size; i++) {
        size_t times = 1;
        if (data[i] == 0xff && size - i > 2 && text.length < STRETCHED_MOST) {
            times = limits[data[i + 1] / 32 % count] + data[i + 1] % 32 - 16;
            i += 2;
        }
        while (times-- > 0) {
            fuzz_text_add(&text, &data[i], 1);
        }
    }
    return text;
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

static void send_range(struct fuzz_channel *channel, const struct piece *piece)
{
    unsigned char bytes[4096];
    uint64_t sent = 0;
    while (sent < piece->range.length) {
        uint64_t left = piece->range.length - sent;
        size_t wanted = left < sizeof bytes ? (size_t)left : sizeof bytes;
        ssize_t got =
            pread(piece->range.file->fd, bytes, wanted, (off_t)(piece->range.offset + sent));
        fuzz_check(got > 0, "a range of a file that is not there");
        fuzz_text_add(&channel->output, bytes, (size_t)got);
        sent += (size_t)got;
    }
}

static enum output_result facade_enqueue(struct channel_facade *facade, struct piece piece)
{
    struct fuzz_channel *channel = channel_of(facade);
    if (channel->over) {
        return OUTPUT_BROKEN;
    }
    switch (piece.kind) {
    case PIECE_BYTES: fuzz_text_add(&channel->output, piece.bytes.data, piece.bytes.length); break;
    case PIECE_FILE: send_range(channel, &piece); break;
    }
    return OUTPUT_FLOWING;
}

static void facade_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    channel_of(facade)->handler = handler;
}

static void facade_suspend(struct channel_facade *facade)
{
    channel_of(facade)->suspended = true;
}

static void facade_resume(struct channel_facade *facade)
{
    channel_of(facade)->suspended = false;
}

/* There is no time here: a timer fires when the call that has set it is over. */
static void facade_set_timer(struct channel_facade *facade, struct channel_timer *timer,
                             int64_t milliseconds)
{
    (void)milliseconds;
    fuzz_check(channel_of(facade)->timer == NULL || channel_of(facade)->timer == timer,
               "two timers");
    channel_of(facade)->timer = timer;
}

static void facade_cancel_timer(struct channel_facade *facade, struct channel_timer *timer)
{
    if (channel_of(facade)->timer == timer)
        channel_of(facade)->timer = NULL;
}

static void facade_close(struct channel_facade *facade)
{
    channel_of(facade)->closing = true;
}

static void facade_begin(struct channel_facade *facade, struct channel_task *task,
                         enum channel_meanwhile meanwhile)
{
    fuzz_check(meanwhile == CHANNEL_WAITS && channel_of(facade)->begun == NULL,
               "a second task before the first one is back");
    channel_of(facade)->begun = task;
}

/* The task is done, and its result arrives: before the next message, as the handler wanted it. */
static void complete_task(struct fuzz_channel *channel)
{
    struct channel_task *task = channel->begun;
    channel->begun = NULL;
    if (task == NULL) {
        return;
    }
    task->run(task);
    if (channel->closing) {
        task->dropped(task);
    } else {
        task->completed(task, &channel->facade);
    }
}

static bool facade_set_write_rate(struct channel_facade *facade, uint64_t bytes_per_second)
{
    (void)facade;
    (void)bytes_per_second;
    return true;
}

static int facade_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    (void)facade;
    endpoint_parse(endpoint, "127.0.0.1", 1);
    return 0;
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
    .set_handler = facade_set_handler,
    .suspend = facade_suspend,
    .resume = facade_resume,
    .set_timer = facade_set_timer,
    .cancel_timer = facade_cancel_timer,
    .close = facade_close,
    .begin = facade_begin,
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
    *channel = (struct fuzz_channel){.facade.verbs = &verbs};
    channel->memory = calloc(1, factory->handler_size + 1);
    fuzz_check(channel->memory != NULL, "no memory");
    channel->handler = factory->create(factory, channel->memory);
    fuzz_check(channel->handler != NULL, "no handler");
    input_queue_init(&channel->input, &server->buffers,
                     line_framing_input_limit(server->settings.max_line));
    tell(channel, channel->handler->verbs->starting);
    tell(channel, channel->handler->verbs->started);
}

static bool answer_goes_on(struct fuzz_channel *channel)
{
    const struct input_handler_verbs *handler = channel->handler->verbs;
    return handler->continue_output(channel->handler, &channel->facade);
}

/* The next message is handled; false if there is none, or none is wanted. */
static bool handle_message(struct fuzz_channel *channel)
{
    struct message message;
    while (!channel->closing && channel->timer != NULL) {
        struct channel_timer *timer = channel->timer;
        channel->timer = NULL;
        timer->fired(timer, timer->facade);
    }
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
        complete_task(channel);
        return true;
    case FRAMING_TOO_LONG:
    case FRAMING_REFUSED: channel->closing = true; return false;
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
    handler->verbs->stopped(handler, &channel->facade);
    channel->over = true;
}

void fuzz_channel_free(struct fuzz_channel *channel)
{
    fuzz_check(channel->references == 0, "%d references are left", channel->references);
    input_queue_clear(&channel->input);
    fuzz_text_free(&channel->output);
    free(channel->memory);
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
