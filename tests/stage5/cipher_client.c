/*
 * A client that speaks the cipher: see cipher_client.h.
 */
#include "cipher_client.h"

#include "common/apps/cipher/cipher_nonce.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEN = 16 };

/* ---- keys ---- */

static void make_key(const char *file, unsigned char *key)
{
    FILE *stream = fdopen(open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), "w");
    cr_assert_not_null(stream, "%s: %s", file, strerror(errno));
    cr_assert_eq(getentropy(key, CHACHA20_KEY_SIZE), 0);
    for (int i = 0; i < CHACHA20_KEY_SIZE; i++) {
        fprintf(stream, "%02x", key[i]);
    }
    fprintf(stream, "\n");
    cr_assert_eq(fclose(stream), 0);
}

void cipher_place_make(struct cipher_place *place)
{
    strcpy(place->folder, "/tmp/cipher.XXXXXX");
    cr_assert_not_null(mkdtemp(place->folder), "%s", strerror(errno));
    snprintf(place->key_file, sizeof place->key_file, "%s/key", place->folder);
    snprintf(place->other_key_file, sizeof place->other_key_file, "%s/other", place->folder);
    make_key(place->key_file, place->key);
    make_key(place->other_key_file, place->other_key);
}

void cipher_place_remove(const struct cipher_place *place)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", place->folder);
    cr_assert_eq(system(command), 0); // NOLINT: the name is ours
}

/* ---- what passes ---- */

static unsigned char *add(struct cipher_bytes *bytes, const void *data, size_t length)
{
    if (bytes->length + length + 1 > bytes->capacity) {
        bytes->capacity = 2 * bytes->capacity + length + 1;
        bytes->data = realloc(bytes->data, bytes->capacity);
        cr_assert_not_null(bytes->data);
    }
    unsigned char *place = bytes->data + bytes->length;
    memcpy(place, data, length);
    place[length] = '\0';
    bytes->length += length;
    return place;
}

static unsigned char *pass(struct cipher_stream *stream, struct cipher_bytes *to, const void *data,
                           size_t length)
{
    size_t position = to->length;
    unsigned char *place = add(to, data, length);
    chacha20_xor(&stream->stream, position, place, place, length);
    return place;
}

void cipher_line_at(const char *where, struct cipher_client *client, const unsigned char *key,
                    char line[34])
{
    struct cipher_nonce nonce;
    cr_assert(cipher_nonce_make(&nonce, false), "%s", where);
    cipher_nonce_write(&nonce, line);
    chacha20_init(&client->went.stream, key, nonce.bytes);
}

void cipher_connect_at(const char *where, struct cipher_client *client,
                       const struct server_process *server, const unsigned char *key)
{
    unsigned char line[CIPHER_LINE_SIZE];
    size_t got;
    struct cipher_nonce nonce = {.of_server = true};
    *client = (struct cipher_client){0};
    client->fd = client_connect_at(where, server, (struct client_buffers){0});
    enum client_outcome outcome =
        client_try_receive(client->fd, line, sizeof line, test_deadline(), &got);
    cr_assert_eq(outcome, CLIENT_GOT, "%s: expected a line with a nonce, got %s", where,
                 client_outcome_text(outcome));
    cr_assert_eq(cipher_nonce_take(&nonce, line, got), CIPHER_NONCE_DONE, "%s: no nonce: %.34s",
                 where, (const char *)line);
    chacha20_init(&client->came.stream, key, nonce.bytes);
}

void cipher_open_at(const char *where, struct cipher_client *client,
                    const struct server_process *server, const unsigned char *key)
{
    char line[34];
    cipher_connect_at(where, client, server, key);
    cipher_line_at(where, client, key, line);
    client_send_at(where, client->fd, line, sizeof line);
}

void cipher_send_at(const char *where, struct cipher_client *client, const void *data,
                    size_t length)
{
    add(&client->went.clear, data, length);
    const unsigned char *sent = pass(&client->went, &client->went.wire, data, length);
    client_send_at(where, client->fd, sent, length);
}

const unsigned char *cipher_take_at(const char *where, struct cipher_client *client, size_t length)
{
    unsigned char *taken = malloc(length);
    size_t got;
    cr_assert_not_null(taken);
    enum client_outcome outcome =
        client_try_receive(client->fd, taken, length, test_deadline(), &got);
    cr_assert_eq(outcome, CLIENT_GOT, "%s: %zu of %zu bytes, then %s", where, got, length,
                 client_outcome_text(outcome));
    add(&client->came.wire, taken, length);
    const unsigned char *clear = pass(&client->came, &client->came.clear, taken, length);
    free(taken);
    return clear;
}

const char *cipher_take_until_at(const char *where, struct cipher_client *client, const char *end)
{
    size_t before = client->came.clear.length;
    const char *all;
    do {
        cipher_take_at(where, client, 1);
        all = (const char *)client->came.clear.data + before;
    } while (strstr(all, end) == NULL);
    return all;
}

void cipher_expect_text_at(const char *where, struct cipher_client *client, const char *text)
{
    const char *got = (const char *)cipher_take_at(where, client, strlen(text));
    cr_assert_str_eq(got, text, "%s", where);
}

/* ---- what was seen ---- */

/* Pieces of SEEN bytes, by their first eight. */
struct pieces {
    const unsigned char **table;
    size_t mask;
};

static size_t place_of(const struct pieces *pieces, const unsigned char *piece)
{
    uint64_t first;
    memcpy(&first, piece, sizeof first);
    return (size_t)(first * UINT64_C(0x9e3779b97f4a7c15) >> 20) & pieces->mask;
}

static bool has_piece(const struct pieces *pieces, const unsigned char *piece)
{
    for (size_t at = place_of(pieces, piece); pieces->table[at]; at = (at + 1) & pieces->mask) {
        if (memcmp(pieces->table[at], piece, SEEN) == 0) {
            return true;
        }
    }
    return false;
}

static struct pieces pieces_of(const struct cipher_bytes *clear, size_t most)
{
    size_t length = clear->length < most ? clear->length : most;
    struct pieces pieces = {.mask = 1023};
    while (pieces.mask < 2 * length) {
        pieces.mask = 2 * pieces.mask + 1;
    }
    pieces.table = calloc(pieces.mask + 1, sizeof *pieces.table);
    cr_assert_not_null(pieces.table);
    for (size_t i = 0; i + SEEN <= length; i++) {
        size_t at = place_of(&pieces, clear->data + i);
        while (pieces.table[at] && !has_piece(&pieces, clear->data + i)) {
            at = (at + 1) & pieces.mask;
        }
        pieces.table[at] = clear->data + i;
    }
    return pieces;
}

static bool is_seen(const struct pieces *pieces, const struct cipher_bytes *where)
{
    for (size_t i = 0; i + SEEN <= where->length; i++) {
        if (has_piece(pieces, where->data + i)) {
            return true;
        }
    }
    return false;
}

static void expect_unseen(const char *where, const struct cipher_client *client,
                          const struct cipher_bytes *clear, size_t most)
{
    struct pieces pieces = pieces_of(clear, most);
    cr_assert(is_seen(&pieces, clear), "%s: this test would not see clear text", where);
    cr_assert_not(is_seen(&pieces, &client->went.wire), "%s: clear text was sent", where);
    cr_assert_not(is_seen(&pieces, &client->came.wire), "%s: clear text came", where);
    free(pieces.table);
}

void cipher_expect_hidden_at(const char *where, const struct cipher_client *client, size_t most)
{
    expect_unseen(where, client, &client->went.clear, most);
    expect_unseen(where, client, &client->came.clear, most);
}

void cipher_close(struct cipher_client *client)
{
    client_close(client->fd);
    free(client->went.wire.data);
    free(client->went.clear.data);
    free(client->came.wire.data);
    free(client->came.clear.data);
}
