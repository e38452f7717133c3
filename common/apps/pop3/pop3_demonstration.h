/*
 * A mailbox to try a POP3 server with: one user, three messages, in a temporary folder that goes
 * when the server does.
 *
 * Interface: one thread at a time; opened before the first connection, closed after the last.
 */
#ifndef COMMON_APPS_POP3_DEMONSTRATION_H
#define COMMON_APPS_POP3_DEMONSTRATION_H

#include "common/apps/pop3/pop3_users.h"

#include <limits.h>
#include <sys/types.h>

struct pop3_demonstration {
    char folder[PATH_MAX]; /* of mailboxes, as --mail-dir names one; empty: there is none */
    pid_t caretaker;       /* the process that will remove the folder */
    int alive;             /* the end of a pipe: open as long as this process lives */
};

/** Makes the mailbox, and adds its user. False with errno; nothing is left behind then. */
bool pop3_demonstration_open(struct pop3_demonstration *demonstration, struct pop3_users *users);

/** Prints the user and the password on standard error. */
void pop3_demonstration_tell(const char *program);

/** Removes the folder and all in it. */
void pop3_demonstration_close(struct pop3_demonstration *demonstration);

#endif
