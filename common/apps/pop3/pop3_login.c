/*
 * PASS. A password takes its time: crypt(3) is slow on purpose, and to open a mailbox reads all its
 * mail. So the check is a task of the connection's (channel_begin()). While it is under way no
 * other client waits for it, and no further command of this one is obeyed.
 *
 * After wrong passwords the next one has to wait, and if many log in at once, those who came later
 * stand in line (pop3_guesses.h). Both are a timer: input is suspended until it fires, and no
 * thread waits. If the delay after wrong passwords is over, and the password may still not be
 * looked at because another guess came first, it is refused. One that stands in line never is.
 *
 * What the task works on it takes along, because the client may go meanwhile, and its session with
 * it. The check is not undone then: a wrong password counts, whether or not anybody hears of it.
 */
#include "common/apps/pop3/pop3_session.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log_value.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REFUSED_PASSWORDS = 3, /* that many end the connection */
};

struct login {
    struct channel_task task;
    struct channel_timer timer;   /* set while it has to wait; session->waiting then */
    struct pop3_session *session; /* for the answer; the task itself does not touch it */
    struct pop3 *pop3;
    struct pop3_guess guess;
    enum pop3_password found;
    bool has_waited;   /* for the end of a delay */
    bool is_looked_at; /* `found` says what the password is */
    int error;         /* why the mailbox could not be opened; 0: it is open */
    struct maildir mailbox;
    char user[POP3_USER_SIZE];
    char password[POP3_COMMAND_SIZE];
};

static struct login *login_of(struct channel_task *task)
{
    return container_of(task, struct login, task);
}

/* ---- The task ------------------------------------------------------------------------------ */

/*
 * The folder of mailboxes is opened by its name for each login. A descriptor that the server kept
 * would still be the old folder when somebody has moved it away and put another in its place.
 */
static int open_mailbox(struct login *login)
{
    int folder = open(login->pop3->mail_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool opened = folder >= 0 && maildir_open(&login->mailbox, folder, login->user) == 0;
    int error = errno;
    if (folder >= 0)
        close(folder);
    return opened ? 0 : error;
}

static void look_at_password(struct channel_task *task)
{
    struct login *login = login_of(task);
    struct pop3 *pop3 = login->pop3;
    login->found = pop3_users_check(&pop3->users, login->user, login->password);
    pop3_guesses_end(&pop3->guesses, &login->guess, login->found, clock_ms());
    login->is_looked_at = true;
    if (login->found == POP3_PASSWORD_RIGHT)
        login->error = open_mailbox(login);
}

static void free_login(struct login *login)
{
    explicit_bzero(login->password, sizeof(login->password));
    free(login);
}

/* The client has gone, perhaps before its password was checked. */
static void drop(struct channel_task *task)
{
    struct login *login = login_of(task);
    if (!login->is_looked_at)
        pop3_guesses_end(&login->pop3->guesses, &login->guess, POP3_PASSWORD_NOT_TOLD, clock_ms());
    else if (login->found == POP3_PASSWORD_RIGHT && login->error == 0)
        maildir_close(&login->mailbox);
    free_login(login);
}

/* ---- The answer ---------------------------------------------------------------------------- */

static void say_why_not(struct pop3_session *session, int error)
{
    const struct log *log = &session->pop3->server->log;
    if (error == EWOULDBLOCK) {
        pop3_say(session, "-ERR [IN-USE] the mailbox is open in another session");
        return;
    }
    char who[CHANNEL_TEXT_SIZE];
    char user[2 * POP3_USER_SIZE];
    channel_describe(session->facade, who);
    log_value(user, sizeof(user), session->user, strlen(session->user));
    log_limited(log, &session->pop3->limit, LOG_LEVEL_WARN,
                "event=mailbox_failed %s user=\"%s\" reason=\"%s\"", who, user, strerror(error));
    if (error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP)
        pop3_say(session, "-ERR [SYS/PERM] the mailbox cannot be opened");
    else
        pop3_say(session, "-ERR [SYS/TEMP] the mailbox cannot be opened now");
}

static void enter_mailbox(struct pop3_session *session, const struct login *login)
{
    if (login->error != 0) {
        say_why_not(session, login->error);
        return;
    }
    session->maildir = login->mailbox;
    session->state = POP3_TRANSACTION;
    channel_set_handler(session->facade, &session->mailbox.handler);
    pop3_say(session, "+OK %zu messages", session->maildir.count);
}

/* The client has been told why. */
static void count_refused(struct pop3_session *session)
{
    if (++session->refused_passwords < REFUSED_PASSWORDS)
        return;
    session->state = POP3_OVER;
    channel_close(session->facade);
}

/*
 * Nobody has looked at the password: for a program that can read the code in brackets that is a
 * reason to come back later, and none to ask for another one.
 */
static void refuse_for_now(struct pop3_session *session, int64_t wait)
{
    pop3_say(session, "-ERR [SYS/TEMP] too many wrong passwords, try again in %" PRId64 " s",
             (wait + 999) / 1000);
    count_refused(session);
}

static void refuse_password(struct pop3_session *session)
{
    pop3_say(session, "-ERR [AUTH] this is not a user with that password");
    count_refused(session);
}

static void forget_user_unless_logged_in(struct pop3_session *session)
{
    if (session->state == POP3_AUTHORIZATION)
        session->user[0] = '\0';
}

static void answer(struct channel_task *task, struct channel_facade *facade)
{
    struct login *login = login_of(task);
    struct pop3_session *session = login->session;
    (void)facade;
    switch (login->found) {
    case POP3_PASSWORD_RIGHT: enter_mailbox(session, login); break;
    case POP3_PASSWORD_WRONG: refuse_password(session); break;
    case POP3_PASSWORD_NOT_TOLD: pop3_say(session, "-ERR [SYS/TEMP] try again later"); break;
    }
    forget_user_unless_logged_in(session);
    free_login(login);
}

/* ---- PASS ---------------------------------------------------------------------------------- */

static void try_again(struct channel_timer *timer, struct channel_facade *facade) NO_LOCK_HELD;

static struct login *make_login(struct pop3_session *session, const char *password)
{
    struct login *login = calloc(1, sizeof(*login));
    if (login == NULL)
        return NULL;
    login->task =
        (struct channel_task){.run = look_at_password, .completed = answer, .dropped = drop};
    login->timer.fired = try_again;
    login->session = session;
    login->pop3 = session->pop3;
    memcpy(login->user, session->user, sizeof(login->user));
    snprintf(login->password, sizeof(login->password), "%s", password); /* no line is longer */
    return login;
}

static int64_t begin_guess(struct login *login)
{
    struct endpoint peer;
    channel_peer(login->session->facade, &peer);
    return pop3_guesses_begin(&login->pop3->guesses, &peer, login->user, clock_ms(), &login->guess);
}

static void refuse_login(struct login *login, int64_t wait)
{
    struct pop3_session *session = login->session;
    free_login(login);
    refuse_for_now(session, wait);
    forget_user_unless_logged_in(session);
}

static void put_off(struct login *login, int64_t wait)
{
    struct pop3_session *session = login->session;
    session->waiting = login;
    channel_suspend(session->facade);
    channel_set_timer(session->facade, &login->timer, wait);
}

/*
 * A delay is waited for once, because otherwise another client's guesses could keep this one
 * waiting forever. In line it waits for as long as it takes: each of those ahead has come before
 * it.
 */
static void try_login(struct login *login) NO_LOCK_HELD
{
    int64_t wait = begin_guess(login);
    if (wait == 0) {
        channel_begin(login->session->facade, &login->task, CHANNEL_WAITS);
    } else if (login->guess.is_in_line) {
        put_off(login, wait);
    } else if (login->has_waited) {
        refuse_login(login, wait);
    } else {
        login->has_waited = true;
        put_off(login, wait);
    }
}

static void try_again(struct channel_timer *timer, struct channel_facade *facade) NO_LOCK_HELD
{
    struct login *login = container_of(timer, struct login, timer);
    login->session->waiting = NULL;
    channel_resume(facade);
    try_login(login);
}

/* The server stops, or the client is gone. */
void pop3_end_login(struct pop3_session *session)
{
    struct login *login = session->waiting;
    session->waiting = NULL;
    if (login == NULL)
        return;
    pop3_guesses_end(&login->pop3->guesses, &login->guess, POP3_PASSWORD_NOT_TOLD, clock_ms());
    free_login(login);
    pop3_say(session, "-ERR [SYS/TEMP] the password was not checked, try again later");
    forget_user_unless_logged_in(session);
}

void pop3_log_in(struct pop3_session *session, const char *password)
{
    struct login *login = make_login(session, password);
    if (login != NULL) {
        try_login(login);
        return;
    }
    pop3_say(session, "-ERR [SYS/TEMP] try again later");
    forget_user_unless_logged_in(session);
}
