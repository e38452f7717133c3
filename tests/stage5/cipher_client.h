/*
 * A client that speaks the cipher (common/apps/cipher/cipher_element.h), and keeps what passes:
 * each byte as it was on the wire, and as clear text.
 *
 * Rules: main thread of a test only, these functions assert.
 */
#ifndef TESTS_CIPHER_CLIENT_H
#define TESTS_CIPHER_CLIENT_H

#include "common/apps/cipher/chacha20.h"
#include "support/client.h"

/** Where keys and files are: a temporary folder. */
struct cipher_place {
    char folder[64];
    char key_file[80];
    char other_key_file[80]; /* with another key */
    unsigned char key[CHACHA20_KEY_SIZE];
    unsigned char other_key[CHACHA20_KEY_SIZE];
};

struct cipher_bytes {
    unsigned char *data;
    size_t length;
    size_t capacity;
};

/** One direction. */
struct cipher_stream {
    struct chacha20 stream;
    struct cipher_bytes wire;  /* behind the line with the nonce */
    struct cipher_bytes clear; /* the same bytes */
};

struct cipher_client {
    int fd;
    struct cipher_stream went;
    struct cipher_stream came;
};

/** Makes a folder with two keys in it; cipher_place_remove() takes it away with all in it. */
void cipher_place_make(struct cipher_place *place);
void cipher_place_remove(const struct cipher_place *place);

/** Connects, takes the server's line, and has sent nothing. */
#define cipher_connect(client, server, key) cipher_connect_at(HERE, client, server, key)
void cipher_connect_at(const char *where, struct cipher_client *client,
                       const struct server_process *server, const unsigned char *key);

/** Makes the client's own line, 34 bytes, which is to be sent before anything else. */
#define cipher_line(client, key, line) cipher_line_at(HERE, client, key, line)
void cipher_line_at(const char *where, struct cipher_client *client, const unsigned char *key,
                    char line[34]);

/** Connects, and sends the line. */
#define cipher_open(client, server, key) cipher_open_at(HERE, client, server, key)
void cipher_open_at(const char *where, struct cipher_client *client,
                    const struct server_process *server, const unsigned char *key);

/** Encrypts and sends. */
#define cipher_send(client, data, length) cipher_send_at(HERE, client, data, length)
void cipher_send_at(const char *where, struct cipher_client *client, const void *data,
                    size_t length);
#define cipher_send_text(client, text) cipher_send(client, text, strlen(text))

/** Takes that many bytes and decrypts them; where they lie now. Good until the next call. */
#define cipher_take(client, length) cipher_take_at(HERE, client, length)
const unsigned char *cipher_take_at(const char *where, struct cipher_client *client, size_t length);

/** Takes up to the end of a text that has to come; all that came, as a string. */
#define cipher_take_until(client, end) cipher_take_until_at(HERE, client, end)
const char *cipher_take_until_at(const char *where, struct cipher_client *client, const char *end);

#define cipher_expect_text(client, text) cipher_expect_text_at(HERE, client, text)
void cipher_expect_text_at(const char *where, struct cipher_client *client, const char *text);

/** Expects the end of the stream, and no byte before it. */
#define cipher_expect_end(client) client_expect_end_at(HERE, (client)->fd)

/**
 * No 16 bytes that follow each other in the clear text of either direction, in its first `most`
 * bytes, were ever on the wire in the same order.
 */
#define cipher_expect_hidden(client, most) cipher_expect_hidden_at(HERE, client, most)
void cipher_expect_hidden_at(const char *where, const struct cipher_client *client, size_t most);

/** Closes, and frees. */
void cipher_close(struct cipher_client *client);

#endif
