#include "common/apps/cipher/cipher_element.h"

#include "common/apps/chain_service.h"
#include "common/apps/cipher/cipher_nonce.h"
#include "common/base/container_of.h"
#include "common/bytes/input_queue_more.h"
#include "common/bytes/shared_file.h"
#include "common/bytes/shared_message.h"
#include "common/server/channel_calls.h"
#include "common/server/server.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 4096, /* what is encrypted or decrypted on the stack */
};

struct cipher_element {
    struct handler_element element; /* first */
    const struct cipher_element_factory *factory;
    const unsigned char *key; /* NULL: it passes everything on */

    /* The handler's own calls'. */
    struct cipher_nonce peer; /* the peer's line, as far as it has come */
    bool refused;             /* it was none */
    struct chacha20 in;
    uint64_t received; /* bytes decrypted */
    struct input_queue clear;

    /* Any thread's. The connection's memory goes without a word, so the lock is never destroyed. */
    struct mutex lock;
    struct chacha20 out;             /* does not change after `starting` */
    uint64_t sent GUARDED_BY(&lock); /* bytes encrypted */
    bool failed GUARDED_BY(&lock);   /* something could not be: nothing may follow it */
};

static struct cipher_element *cipher_of(struct input_handler *handler)
{
    return container_of(handler, struct cipher_element, element.handler);
}

static struct cipher_element *cipher_of_facade(struct channel_facade *facade)
{
    return container_of(handler_element_of(facade), struct cipher_element, element);
}

/* ---- What comes ------------------------------------------------------------------------------ */

static void refuse_peer(struct cipher_element *self)
{
    char who[CHANNEL_TEXT_SIZE];
    self->refused = true;
    channel_describe(self->element.outer, who);
    log_write(self->factory->log, LOG_LEVEL_INFO,
              "event=closed %s reason=\"it began without a nonce\"", who);
    channel_close(self->element.outer);
}

/* Reads the peer's line, and not a byte more. Whether it is there. */
static bool take_nonce(struct cipher_element *self, struct input_queue *input)
{
    struct message piece;
    while (cipher_nonce_lacks(&self->peer) > 0 && !self->refused) {
        size_t count = input_queue_length(input);
        if (count > cipher_nonce_lacks(&self->peer))
            count = cipher_nonce_lacks(&self->peer);
        if (count == 0)
            return false;
        piece = input_queue_dequeue(input, count);
        switch (cipher_nonce_take(&self->peer, piece.data, piece.length)) {
        case CIPHER_NONCE_MORE: break;
        case CIPHER_NONCE_DONE: chacha20_init(&self->in, self->key, self->peer.bytes); break;
        case CIPHER_NONCE_BAD: refuse_peer(self);
        }
    }
    return !self->refused;
}

/* Moves a piece out of the channel's input into that of the handler behind. False without memory.
 */
static bool decrypt(struct cipher_element *self, struct input_queue *input, size_t count)
{
    unsigned char clear[PIECE];
    struct message piece;
    if (count > CHACHA20_LENGTH - self->received)
        return false;
    piece = input_queue_peek(input, count);
    chacha20_xor(&self->in, self->received, clear, piece.data, count);
    bool kept = input_queue_append(&self->clear, clear, count);
    explicit_bzero(clear, count); /* it may be a password */
    if (kept) {
        input_queue_discard(input, count);
        self->received += count;
    }
    return kept;
}

/* Moves all for which there is room. False if the connection has to end. */
static bool decrypt_input(struct cipher_element *self, struct input_queue *input)
{
    bool good = true;
    while (good && !input_queue_is_empty(input)) {
        size_t room = self->clear.limit - input_queue_length(&self->clear);
        size_t count = input_queue_length(input);
        count = count < room ? count : room;
        if (count == 0)
            break;
        good = decrypt(self, input, count < PIECE ? count : PIECE);
    }
    input_queue_retire(input);
    return good;
}

static enum framing_result next_message(struct input_handler *handler,
                                        struct channel_facade *facade,
                                        struct message *message) NO_LOCK_HELD
{
    struct cipher_element *self = cipher_of(handler);
    struct input_queue *input = channel_input(facade);
    if (!take_nonce(self, input))
        return FRAMING_INCOMPLETE;
    if (!decrypt_input(self, input))
        return FRAMING_NO_MEMORY;
    return handler_element_verbs.next_message(handler, facade, message);
}

/* It is asked before next_message. */
static bool is_urgent(struct input_handler *handler, struct channel_facade *facade) NO_LOCK_HELD
{
    struct cipher_element *self = cipher_of(handler);
    struct input_queue *input = channel_input(facade);
    return take_nonce(self, input) && decrypt_input(self, input) &&
           handler_element_verbs.is_urgent(handler, facade);
}

/* Until the peer's line is there a message has begun, in a way: its time runs. */
static bool holds_input(const struct input_handler *handler)
{
    const struct cipher_element *self =
        container_of(handler, const struct cipher_element, element.handler);
    return cipher_nonce_lacks(&self->peer) > 0 || !input_queue_is_empty(&self->clear) ||
           handler_element_verbs.holds_input(handler);
}

static struct input_queue *input_of(struct channel_facade *facade)
{
    return &cipher_of_facade(facade)->clear;
}

/* A message that was handled needs its memory no longer, and an idle connection holds none. */
static bool handle_input(struct input_handler *handler, struct message message,
                         struct channel_facade *facade) NO_LOCK_HELD
{
    bool goes_on = handler_element_verbs.handle_input(handler, message, facade);
    input_queue_retire(&cipher_of(handler)->clear);
    return goes_on;
}

static void refuse_input(struct input_handler *handler, struct message message,
                         struct channel_facade *facade) NO_LOCK_HELD
{
    handler_element_verbs.refuse_input(handler, message, facade);
    input_queue_retire(&cipher_of(handler)->clear);
}

/* ---- What is sent ---------------------------------------------------------------------------- */

/* A gap in the stream would make noise of all that follows it. */
static enum output_result fail(struct cipher_element *self) REQUIRES(&self->lock)
{
    self->failed = true;
    channel_close(self->element.outer);
    return OUTPUT_BROKEN;
}

/* Whether that much more may be encrypted. */
static bool may_send(const struct cipher_element *self, uint64_t length) REQUIRES(&self->lock)
{
    return !self->failed && length <= CHACHA20_LENGTH - self->sent;
}

/* As one piece, whatever its length: a part of one is never refused. */
static enum output_result send_bytes(struct cipher_element *self, const unsigned char *data,
                                     size_t length)
{
    unsigned char small[PIECE];
    bool is_small = length <= sizeof(small);
    struct shared_message *large = is_small ? NULL : shared_message_create(length);
    enum output_result result;
    mutex_lock(&self->lock);
    if ((!is_small && large == NULL) || !may_send(self, length)) {
        result = fail(self);
    } else {
        unsigned char *to = is_small ? small : large->data;
        chacha20_xor(&self->out, self->sent, to, data, length);
        self->sent += length;
        result = channel_enqueue(self->element.outer,
                                 is_small ? piece_bytes(small, length) : piece_shared(large));
    }
    mutex_unlock(&self->lock);
    if (large != NULL)
        shared_message_release(large);
    return result;
}

/* A file that is encrypted when it is read. Its byte 0 has a position in the stream, too. */
struct cipher_file {
    struct shared_file file; /* first */
    struct shared_file *clear;
    struct chacha20 stream;
    uint64_t position; /* of byte 0; it may wrap, the sum with an offset does not */
};

/*
 * If the file has changed since bytes were read that the socket did not take, others are encrypted
 * in their place. Those never left, so nobody has two ciphertexts of one position.
 */
static ssize_t read_encrypted(const struct shared_file *file, void *to, size_t count,
                              uint64_t offset)
{
    const struct cipher_file *self = container_of(file, const struct cipher_file, file);
    ssize_t got = shared_file_read(self->clear, to, count, offset);
    if (got > 0)
        chacha20_xor(&self->stream, self->position + offset, to, to, (size_t)got);
    return got;
}

static void destroy_encrypted(struct shared_file *file)
{
    struct cipher_file *self = container_of(file, struct cipher_file, file);
    shared_file_release(self->clear);
    free(self);
}

static const struct shared_file_verbs encrypted_verbs = {read_encrypted, destroy_encrypted};

static enum output_result send_file(struct cipher_element *self, struct shared_file *clear,
                                    uint64_t offset, uint64_t length)
{
    struct cipher_file *file = malloc(sizeof(*file));
    enum output_result result;
    if (file != NULL) {
        shared_file_init(&file->file, &encrypted_verbs);
        shared_file_retain(clear);
        file->clear = clear;
        file->stream = self->out;
    }
    mutex_lock(&self->lock);
    if (file == NULL || !may_send(self, length)) {
        result = fail(self);
    } else {
        file->position = self->sent - offset;
        self->sent += length;
        result = channel_enqueue(self->element.outer, piece_file(&file->file, offset, length));
    }
    mutex_unlock(&self->lock);
    if (file != NULL)
        shared_file_release(&file->file);
    return result;
}

static enum output_result enqueue(struct channel_facade *facade, struct piece piece)
{
    struct cipher_element *self = cipher_of_facade(facade);
    if (piece.kind == PIECE_BYTES)
        return send_bytes(self, piece.bytes.data, piece.bytes.length);
    return send_file(self, piece.range.file, piece.range.offset, piece.range.length);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

/* Our line is the first that leaves. Nobody else knows of the connection yet. */
static void starting(struct input_handler *handler, struct channel_facade *facade) NO_LOCK_HELD
{
    struct cipher_element *self = cipher_of(handler);
    const struct input_queue *input = channel_input(facade);
    struct cipher_nonce own;
    char line[CIPHER_LINE_SIZE];
    self->element.outer = facade;
    input_queue_init(&self->clear, input->factory, input->limit);
    if (cipher_nonce_make(&own, !self->peer.of_server)) {
        chacha20_init(&self->out, self->key, own.bytes);
        cipher_nonce_write(&own, line);
        channel_enqueue(facade, piece_bytes(line, sizeof(line)));
    } else {
        mutex_lock(&self->lock);
        fail(self);
        mutex_unlock(&self->lock);
    }
    handler_element_verbs.starting(handler, facade);
}

/* The channel's own queue is cleared after this call, too. */
static void stopping(struct input_handler *handler, struct channel_facade *facade) NO_LOCK_HELD
{
    handler_element_verbs.stopping(handler, facade);
    input_queue_clear(&cipher_of(handler)->clear);
}

static void begin(struct handler_element *element, const struct handler_element *model,
                  struct input_handler *inner);

static const struct handler_element_kind kind = {sizeof(struct cipher_element), begin};

/* In memory that is all zero. Without a key it stands there only to make others (connect). */
static void init(struct cipher_element *self, const struct cipher_element_factory *factory,
                 const unsigned char *key, struct input_handler *inner)
{
    handler_element_init(&self->element, key != NULL ? &factory->verbs : &handler_element_verbs,
                         key != NULL ? &factory->facade_verbs : &handler_element_facade_verbs,
                         inner);
    self->factory = factory;
    self->key = key;
    mutex_init(&self->lock);
}

/* For a connection that the application opens: we are the client. */
static void begin(struct handler_element *element, const struct handler_element *model,
                  struct input_handler *inner)
{
    const struct cipher_element_factory *factory =
        container_of(model, const struct cipher_element, element)->factory;
    struct cipher_element *self = container_of(element, struct cipher_element, element);
    init(self, factory, factory->choice->servers_key, inner);
    self->element.kind = model->kind;
    self->peer.of_server = true;
}

static struct input_handler *create(struct input_handler_factory *self, void *memory) NO_LOCK_HELD
{
    struct cipher_element_factory *factory =
        container_of(self, struct cipher_element_factory, factory);
    struct cipher_element *element = memory;
    struct input_handler *inner = input_handler_create(
        factory->inner, (unsigned char *)memory + handler_element_room(sizeof(*element)));
    if (inner == NULL)
        return NULL;
    init(element, factory, factory->choice->clients != NULL ? factory->choice->clients_key : NULL,
         inner);
    if (factory->choice->servers != NULL)
        element->element.kind = &kind;
    return &element->element.handler;
}

struct input_handler_factory *cipher_element_over(struct cipher_element_factory *factory,
                                                  struct input_handler_factory *inner,
                                                  const struct cipher_choice *choice,
                                                  const struct log *log)
{
    *factory = (struct cipher_element_factory){
        .factory = {.handler_size =
                        handler_element_room(sizeof(struct cipher_element)) + inner->handler_size,
                    .create = create},
        .inner = inner,
        .verbs = handler_element_verbs,
        .facade_verbs = handler_element_facade_verbs,
        .choice = choice,
        .log = log};
    factory->verbs.next_message = next_message;
    factory->verbs.is_urgent = is_urgent;
    factory->verbs.handle_input = handle_input;
    factory->verbs.refuse_input = refuse_input;
    factory->verbs.holds_input = holds_input;
    factory->verbs.starting = starting;
    factory->verbs.stopping = stopping;
    factory->facade_verbs.input = input_of;
    factory->facade_verbs.enqueue = enqueue;
    return &factory->factory;
}

/* ---- As a service --------------------------------------------------------------------------- */

static struct cipher_choice chosen;

static void add_options(struct options *options)
{
    cipher_options(options, &chosen);
}

static struct input_handler_factory *cipher_over(struct input_handler_factory *inner,
                                                 struct server *server)
{
    static struct cipher_element_factory factory;
    if (chosen.clients == NULL && chosen.servers == NULL)
        return inner;
    if (!cipher_read_keys(&chosen, &server->log))
        return NULL;
    return cipher_element_over(&factory, inner, &chosen, &server->log);
}

const struct chain_service cipher_service = {add_options, cipher_over};
