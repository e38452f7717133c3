/*
 * A mailbox in a file system: a Maildir (Bernstein, maildir(5)). A message is a file, in new/ as
 * long as no reader has taken notice of it, in cur/ afterwards. Who delivers writes it elsewhere
 * and moves it in whole, so reading needs no lock. POP3 asks for one nonetheless: the numbers of
 * the messages must not change during a session (RFC 1939, section 4).
 *
 *   1605962044.M1P42.host          in new/: its unique name
 *   1605962044.M1P42.host:2,S      the same message in cur/, with flags that readers set
 *
 * Interface:
 * - An open maildir is locked: nobody else opens it by these functions, be it another session of
 *   this process or another process. The lock is flock(2) on the folder itself; it belongs to the
 *   descriptor, so it is gone with it, whatever becomes of its holder. flock(1) takes it, too.
 * - It belongs to one session, one thread at a time.
 * - Nothing is changed but by maildir_remove_deleted().
 * - Mail readers that know no lock may rename a message meanwhile (a flag, new/ to cur/): it is
 *   found again by its unique name. Who moves one is likely to move more, so one look into both
 *   folders finds all of them. One that has gone stays in the list and cannot be opened.
 * - No link is followed below the mailbox's folder. What is no regular file is no message, and
 *   neither is one that the server may not read.
 */
#ifndef COMMON_APPS_MAILDIR_H
#define COMMON_APPS_MAILDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    /** What RFC 1939 allows in a unique identifier, with the closing zero. */
    MAILDIR_ID_SIZE = 71,
};

struct maildir_message {
    const char *folder; /* "new" or "cur", when it was last seen */
    char *name;         /* in there */
    uint64_t octets;    /* as POP3 counts them, each line with CR LF */
    bool deleted;       /* is to be removed */
    bool is_gone;       /* the last look into both folders has not found it */
    bool is_wanted;     /* in the list, while that is made */
};

struct maildir {
    int fd; /* the folder, and the lock on it */
    size_t count;
    size_t capacity;
    struct maildir_message *messages; /* in the order in which they were delivered */
};

/**
 * Locks the mailbox `name` in a folder and lists its messages, which reads all of them once. 0, or
 * -1 with errno: EWOULDBLOCK if somebody has it open, ENOENT if there is no such Maildir.
 */
int maildir_open(struct maildir *maildir, int folder, const char *name);

/** Frees the list, and gives the lock back. Marks are forgotten. */
void maildir_close(struct maildir *maildir);

/** Opens a message for reading. A descriptor, the caller's; or -1 with errno. */
int maildir_open_message(struct maildir *maildir, struct maildir_message *message);

/** Reads on in a message that was opened. How many bytes; 0 at its end; -1 with errno. */
ssize_t maildir_read(int file, unsigned char *to, size_t size);

/**
 * Removes the messages that are marked as deleted, and takes off their marks. False if some could
 * not be removed. It costs a system call for each, and blocks on the disk.
 */
bool maildir_remove_deleted(struct maildir *maildir);

/**
 * What UIDL says: the unique name if that is an identifier as RFC 1939 wants it (1 to 70 visible
 * ASCII characters); else a digest of it.
 */
void maildir_unique_id(const struct maildir_message *message, char id[MAILDIR_ID_SIZE]);

#endif
