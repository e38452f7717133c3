/*
 * A chain element that changes every byte: it stands next to the channel, encrypts what is sent and
 * decrypts what comes, with ChaCha20 and a key that both sides have (--cipher KEYFILE).
 *
 * This is not TLS: nobody is authenticated. Who listens learns nothing but lengths and times. Who
 * stands in between, though, can flip bits without being noticed, and can play a recorded client
 * again; and whoever once gets the key can read all that was ever recorded.
 *
 * Each side first sends a line in clear, with the nonce for what it is going to send
 * (cipher_nonce.h). Neither waits for the other one's line, so a server's greeting can follow its
 * line at once. From there on all bytes are ciphertext, as many as there are of clear text. A peer
 * that sends no such line within the request timeout is closed, and one that sends another one at
 * once. With another key there is nothing to notice: what is decrypted is noise, and the
 * application treats it as such.
 *
 * What the acceptor tells clients that it turns away goes out in clear, because there is no
 * connection yet.
 *
 * Interface:
 * - Its output has a lock, because bytes have to leave in the order in which they were encrypted.
 *   It comes before the locks of the channel.
 * - A shared message is encrypted once for each receiver, since each has a stream of its own. A
 *   range of a file is encrypted when it leaves (shared_file.h), so the page cache stays its only
 *   copy.
 * - Its clear text has an input queue with the same limit as the channel's.
 * - A direction that has sent CHACHA20_LENGTH bytes ends: the stream has no more.
 */
#ifndef COMMON_CIPHER_ELEMENT_H
#define COMMON_CIPHER_ELEMENT_H

#include "common/apps/cipher/cipher_key.h"
#include "common/apps/handler_element.h"

struct cipher_element_factory {
    struct input_handler_factory factory;
    struct input_handler_factory *inner;
    struct input_handler_verbs verbs;
    struct channel_facade_verbs facade_verbs;
    const struct cipher_choice *choice;
    const struct log *log;
};

/**
 * Makes elements in front of what inner makes. Has to outlive all of them; it needs no end. The
 * keys have been read (cipher_read_keys()).
 */
struct input_handler_factory *cipher_element_over(struct cipher_element_factory *factory,
                                                  struct input_handler_factory *inner,
                                                  const struct cipher_choice *choice,
                                                  const struct log *log);

#endif
