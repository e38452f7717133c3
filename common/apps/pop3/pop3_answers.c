/*
 * The answers of a POP3 server, above all the long ones. Nothing of them is made before there is
 * room for it in the output queue; until then a session remembers where it is in its list, or an
 * open file. So an answer of any size takes as much memory as a piece of it.
 */
#include "common/apps/pop3/pop3_session.h"
#include "common/base/log_value.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LINE_SIZE = 512, /* the longest first line of an answer (RFC 2449, section 4) */
    PIECE = 8192,    /* of a file, or of a list: what is made at a time */
};

void pop3_send(struct pop3_session *session, const void *data, size_t length)
{
    channel_enqueue(session->facade, piece_bytes(data, length));
}

void pop3_say(struct pop3_session *session, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line) - 2, format, arguments);
    va_end(arguments);
    line[length++] = '\r';
    line[length++] = '\n';
    pop3_send(session, line, (size_t)length);
}

bool pop3_continue(struct pop3_session *session)
{
    return session->next_piece != NULL && session->next_piece(session);
}

bool pop3_end_answer(struct pop3_session *session)
{
    session->next_piece = NULL;
    if (session->file >= 0)
        close(session->file);
    session->file = -1;
    return false;
}

/* ---- Lists --------------------------------------------------------------------------------- */

/* As many lines as there is room for; how many bytes that are. */
static size_t write_lines(struct pop3_session *session, char *to, size_t room)
{
    const struct maildir *mailbox = &session->maildir;
    size_t length = 0;
    for (; session->next_index < mailbox->count; session->next_index++) {
        if (room - length < POP3_LIST_LINE_SIZE)
            break;
        if (!mailbox->messages[session->next_index].deleted)
            length += session->list_line(session, session->next_index, to + length);
    }
    return length;
}

static bool send_list_piece(struct pop3_session *session)
{
    char piece[PIECE + POP3_TEXT_END_SIZE];
    struct pop3_text nothing_to_finish = {0};
    size_t length = write_lines(session, piece, PIECE);
    bool more = session->next_index < session->maildir.count;
    if (!more)
        length += pop3_text_end(&nothing_to_finish, (unsigned char *)piece + length);
    pop3_send(session, piece, length);
    return more || pop3_end_answer(session);
}

void pop3_begin_list(struct pop3_session *session, pop3_list_line *list_line)
{
    session->list_line = list_line;
    session->next_index = 0;
    session->next_piece = send_list_piece;
}

/* ---- Messages ------------------------------------------------------------------------------ */

/*
 * A failure in the middle cannot be told any more: whatever comes would be taken for the message.
 * The end of the connection without the final dot says that it is not complete.
 */
static bool break_off(struct pop3_session *session)
{
    int error = errno;
    char who[CHANNEL_TEXT_SIZE];
    char user[2 * POP3_USER_SIZE];
    channel_describe(session->facade, who);
    log_value(user, sizeof(user), session->user, strlen(session->user));
    log_limited(&session->pop3->server->log, &session->pop3->limit, LOG_LEVEL_WARN,
                "event=message_failed %s user=\"%s\" reason=\"%s\"", who, user, strerror(error));
    channel_close(session->facade);
    return pop3_end_answer(session);
}

static bool send_message_piece(struct pop3_session *session)
{
    unsigned char piece[PIECE];
    unsigned char sent[POP3_TEXT_SIZE(PIECE) + POP3_TEXT_END_SIZE];
    ssize_t got = maildir_read(session->file, piece, sizeof(piece));
    if (got < 0)
        return break_off(session);
    size_t wanted = pop3_top_take(&session->top, piece, (size_t)got);
    size_t length = pop3_text_add(&session->text, piece, wanted, sent);
    bool more = got > 0 && wanted == (size_t)got;
    if (!more)
        length += pop3_text_end(&session->text, sent + length);
    pop3_send(session, sent, length);
    return more || pop3_end_answer(session);
}

void pop3_begin_message(struct pop3_session *session, int file, uint64_t lines)
{
    session->file = file;
    session->text = (struct pop3_text){0};
    session->top = (struct pop3_top){.lines = lines};
    session->next_piece = send_message_piece;
}
