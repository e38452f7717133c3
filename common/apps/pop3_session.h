/*
 * One client's session with a POP3 server: what there is to remember of it, how it answers, and the
 * commands it obeys. In three files: pop3_commands.c has a function for each command and a table of
 * them, pop3_answers.c what they answer with, and pop3.c ties a session to its connection.
 *
 * Interface:
 * - A session belongs to its handler: all calls come in the handler's own calls, with `facade` set.
 */
#ifndef COMMON_APPS_POP3_SESSION_H
#define COMMON_APPS_POP3_SESSION_H

#include "../input_handler.h"
#include "../server.h"
#include "maildir.h"
#include "pop3_text.h"
#include "pop3_users.h"

/** What all sessions share; it does not change while there are any. */
struct pop3 {
    struct server *server;
    struct pop3_users users;
    int mail_folder;        /* each user's mailbox is a folder in it */
    struct log_limit limit; /* of what clients can provoke */
};

enum pop3_state {
    POP3_AUTHORIZATION = 1, /* who is it? */
    POP3_TRANSACTION = 2,   /* a mailbox is open */
    POP3_OVER = 4,          /* UPDATE is behind it, or it has no right to it */
};

enum {
    /** A number and a unique identifier, or a size. */
    POP3_LIST_LINE_SIZE = 128,
};

struct pop3_session;

/** Puts the next piece of a long answer into the queue; false if that was the last one. */
typedef bool pop3_make_piece(struct pop3_session *session);

/** Writes what a list says of the message at index, and returns how many bytes that are. */
typedef size_t pop3_list_line(const struct pop3_session *session, size_t index,
                              char line[POP3_LIST_LINE_SIZE]);

struct pop3_session {
    struct input_handler handler; /* first: what the framework holds */
    struct pop3 *pop3;
    struct channel_facade *facade;
    enum pop3_state state;
    unsigned wrong_passwords;
    char user[POP3_USER_SIZE]; /* said by USER; empty: nobody yet */
    struct maildir mailbox;    /* in POP3_TRANSACTION */

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

/* ---- pop3_answers.c ---- */

/** Sends bytes as they are. */
void pop3_send(struct pop3_session *session, const void *data, size_t length);

/** Sends one line, which gets its CR LF here. */
__attribute__((format(printf, 2, 3))) void pop3_say(struct pop3_session *session,
                                                    const char *format, ...);

/** Begins a list of all messages that are not deleted; pop3_continue() does the rest. */
void pop3_begin_list(struct pop3_session *session, pop3_list_line *list_line);

/**
 * Begins to send the message in a file, which is the session's from now on: its header and so many
 * lines of its body. pop3_continue() does the rest.
 */
void pop3_begin_message(struct pop3_session *session, int file, uint64_t lines);

/** Sends the next piece of an answer that was begun. False once there is no more of it. */
bool pop3_continue(struct pop3_session *session);

/** Forgets the answer. Returns false. */
bool pop3_end_answer(struct pop3_session *session);

#endif
