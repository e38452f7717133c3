/*
 * Mailboxes for the tests of POP3, in a temporary folder: users with passwords, messages as files.
 *
 * Rules:
 * - A suite names mailboxes_make() as .init and mailboxes_remove() as .fini: also a test that fails
 *   leaves no folder behind.
 * - Main thread of the test only: these functions assert.
 */
#ifndef TESTS_POP3_MAILBOXES_H
#define TESTS_POP3_MAILBOXES_H

#include "support/client.h"

/** The password of all users. */
#define MAILBOX_PASSWORD "open sesame"

/** Makes the folder, with one user, ann, whose mailbox is empty. */
void mailboxes_make(void);

/** Removes all. */
void mailboxes_remove(void);

/** The folder, for --mail-dir; and what is written after it. Good until the next call. */
const char *mailboxes_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Adds a user to the file, who has no mailbox yet. */
void mailboxes_add_user(const char *user);

/** The same, with a hash that takes some ten milliseconds. */
void mailboxes_add_slow_user(const char *user);

/** Makes an empty mailbox. */
void mailboxes_add_mailbox(const char *user);

/** Puts a message where it is said, as in "ann/new/1.one". */
void mailboxes_deliver(const char *place, const char *text);
void mailboxes_deliver_bytes(const char *place, const void *data, size_t length);

/** Puts the bytes of one that is there to another place, too, by a link: for a thousand of them a
 * new file each would cost the system a second. */
void mailboxes_deliver_again(const char *place, const char *from);

/** Whether a file is there. */
bool mailboxes_have(const char *place);

/** Takes the lock on ann's mailbox, as another process would; a descriptor, or -1 if it is held. */
int mailboxes_lock(void);

/** Starts the server on them, with further options. */
#define mailboxes_serve(options) mailboxes_serve_at(HERE, options)
struct server_process mailboxes_serve_at(const char *where, const char *options);

/** A test that has `server`, a pointer: one that serves the mailboxes, with these options. */
#define MailTest(suite, name, options)                                                             \
    TestWith(suite, name, struct server_process, server, *server = mailboxes_serve(options),       \
             server_close_all(server))

/** Runs a command of the shell; what it writes, both streams, good until the next call. */
const char *shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
