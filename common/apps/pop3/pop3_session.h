/*
 * One client's session with a POP3 server: what there is to remember of it, how it answers, and the
 * commands it obeys. In four files: pop3_commands.c has a function for each command and a table of
 * them, pop3_login.c the one command that takes long, pop3_answers.c what they answer with, and
 * pop3.c ties a session to its connection.
 *
 * Interface:
 * - A session belongs to its handler: all calls come in the handler's own calls.
 */
#ifndef COMMON_APPS_POP3_SESSION_H
#define COMMON_APPS_POP3_SESSION_H

#include "common/apps/pop3/maildir.h"
#include "common/apps/pop3/pop3_guesses.h"
#include "common/apps/pop3/pop3_text.h"
#include "common/apps/pop3/pop3_users.h"
#include "common/server/channel_calls.h"
#include "common/server/input_handler.h"
#include "common/server/server.h"

/** What all sessions share. Only what has a lock of its own changes while there are any. */
struct pop3 {
    struct server *server;
    struct pop3_users users;
    const char *mail_dir;        /* each user's mailbox is a folder in it */
    struct log_limit limit;      /* of what clients can provoke */
    struct pop3_guesses guesses; /* wrong passwords */
};

enum pop3_state {
    POP3_AUTHORIZATION = 1, /* before the login */
    POP3_TRANSACTION = 2,   /* a mailbox is open */
    POP3_OVER = 4,          /* UPDATE is behind it, or it has no right to it */
};

enum {
    /** The longest command, with its CR LF (RFC 2449, section 4). */
    POP3_COMMAND_SIZE = 255,

    /** A number and a unique identifier, or a size. */
    POP3_LIST_LINE_SIZE = 128,
};

struct login;
struct pop3_session;

/** Puts the next piece of a long answer into the queue; false if that was the last one. */
typedef bool pop3_make_piece(struct pop3_session *session);

/** Writes what a list says of the message at index, and returns how many bytes that are. */
typedef size_t pop3_list_line(const struct pop3_session *session, size_t index,
                              char line[POP3_LIST_LINE_SIZE]);

/** A session has two handlers, one for each state that takes commands. */
struct pop3_handler {
    struct input_handler handler; /* first */
    struct pop3_session *session;
};

struct pop3_session {
    struct pop3_handler login;   /* what the framework calls until the login; first */
    struct pop3_handler mailbox; /* and from then on */
    struct pop3 *pop3;
    struct channel_facade *facade; /* from starting on, always the same */
    struct login *waiting;         /* a password that has to wait; NULL: none does */
    enum pop3_state state;
    unsigned refused_passwords;
    char user[POP3_USER_SIZE]; /* from USER; empty: not given yet */
    struct maildir maildir;    /* in POP3_TRANSACTION; then the update's, until that is over */
    struct channel_task update;
    bool is_updated; /* all that was marked is removed */

    /* The answer that is not complete yet. */
    pop3_make_piece *next_piece; /* NULL: there is none */
    pop3_list_line *list_line;   /* of a list: what it says of each message */
    size_t next_index;           /* of a list: the message it has come to */
    int file;                    /* of a message; -1: none is open */
    struct pop3_text text;
    struct pop3_top top;
};

/* ---- pop3_commands.c ---- */

/** Obeys a line without its end, which may be changed. */
void pop3_obey(struct pop3_session *session, char *line);

/** Gives the mailbox back, if there is one. What was marked as deleted stays. */
void pop3_close_mailbox(struct pop3_session *session);

/* ---- pop3_login.c ---- */

/**
 * Checks a password for session->user, and opens the mailbox if it is right. Both take their time,
 * so they are a task: the answer comes later, and before that of the next command.
 */
void pop3_log_in(struct pop3_session *session, const char *password) NO_LOCK_HELD;

/** If a password waits, it is not looked at. */
void pop3_end_login(struct pop3_session *session);

/* ---- pop3_answers.c ---- */

/** Sends bytes as they are. */
void pop3_send(struct pop3_session *session, const void *data, size_t length);

/** Sends one line, which gets its CR LF here. */
__attribute__((format(printf, 2, 3))) void pop3_say(struct pop3_session *session,
                                                    const char *format, ...);

/** Begins a list of all messages that are not deleted; pop3_continue() does the rest. */
void pop3_begin_list(struct pop3_session *session, pop3_list_line *list_line);

/**
 * Begins to send the message in a file, which is the session's from now on: its header and the
 * first `lines` lines of its body. pop3_continue() does the rest.
 */
void pop3_begin_message(struct pop3_session *session, int file, uint64_t lines);

/** Sends the next piece of an answer that was begun. False once there is no more of it. */
bool pop3_continue(struct pop3_session *session);

/** Forgets the answer. Returns false. */
bool pop3_end_answer(struct pop3_session *session);

#endif
