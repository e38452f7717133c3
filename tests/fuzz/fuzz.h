/*
 * What the fuzz targets share: an input to take apart, a stream to read from, and a connection that
 * has no socket.
 *
 * A target is a file fuzz_NAME.c with libFuzzer's function in it. Where one can be written it
 * compares what the code does with a reference that is slow and obviously right; fuzz_check() ends
 * the run where they differ.
 *
 * Rules:
 * - What an input queue is filled by is wrapped at link time: it takes its bytes from fuzz_stream.
 * - Nothing is kept from one input to the next.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "common/events/selector.h"
#include "common/server/channel_calls.h"
#include "common/server/input_handler.h"
#include "common/server/server.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Ends the run, which libFuzzer counts as a finding. */
#define fuzz_check(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__, #condition);                \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/** Bytes that are taken one after the other. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

/** The next byte; 0 behind the end. */
uint8_t fuzz_byte(struct fuzz_input *input);

/** The next count bytes, or as many as there are. */
struct message fuzz_bytes(struct fuzz_input *input, size_t count);

struct fuzz_text;

/**
 * Makes a long input of a short one, because a fuzzer changes a hundred bytes far quicker than a
 * hundred thousand, and because a limit is rarely hit by chance. Three bytes FF HOW C stand for C
 * as often as one of the limits says, or up to 16 times less or 15 times more: HOW / 32 chooses the
 * limit, HOW % 32 the difference. The caller frees the text.
 */
struct fuzz_text fuzz_stretch(const uint8_t *data, size_t size, const size_t *limits, size_t count);

/** What the next fill finds: as much as it has room for, then EAGAIN, or the end if it says
 * so. */
struct fuzz_stream {
    const uint8_t *data;
    size_t size;
    bool ended;
};

extern struct fuzz_stream fuzz_stream;

/** Bytes that grow. */
struct fuzz_text {
    unsigned char *data;
    size_t length;
    size_t capacity;
};

void fuzz_text_add(struct fuzz_text *text, const void *data, size_t length);
__attribute__((format(printf, 2, 3))) void fuzz_text_print(struct fuzz_text *text,
                                                           const char *format, ...);
void fuzz_text_free(struct fuzz_text *text);

/** A connection: input from pieces, output into a text, and what became of it. */
struct fuzz_channel {
    struct channel_facade facade;
    struct input_handler *handler;
    struct input_queue input;
    struct fuzz_text output;
    int references;
    bool suspended;
    void *memory;                /* the handler's */
    struct channel_timer *timer; /* that is set; NULL: none is */
    bool closing;                /**< the handler has asked for it */
    bool over;                   /**< it has heard stopped */
    struct channel_task *begun;  /**< its result is not in yet; at most one */
};

void fuzz_channel_open(struct fuzz_channel *channel, struct server *server,
                       struct input_handler_factory *factory);

/** The bytes arrive, and every message that is whole then is handled, as a framework would. */
void fuzz_channel_receive(struct fuzz_channel *channel, struct message bytes);

/** The end, from stopping to stopped. */
void fuzz_channel_close(struct fuzz_channel *channel);

/** Asserts that nobody refers to it any more, and frees what it holds. */
void fuzz_channel_free(struct fuzz_channel *channel);

/** A folder that is removed at exit, with all in it; its path. */
const char *fuzz_folder(void);

/** Makes a file in it, and the folders that lead to it; with NULL a folder. */
void fuzz_file(const char *path, const void *data, size_t length);

/** A server that listens nowhere: settings as the user's text, one option after the other. */
void fuzz_server_open(struct server *server, int argc, char **argv);
void fuzz_server_close(struct server *server);

#endif
