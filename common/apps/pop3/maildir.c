#include "common/apps/pop3/maildir.h"

#include "common/apps/pop3/pop3_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE = 8192,  /* of a message, read at a time to measure it */
    LOOKS_MAX = 8, /* for messages that are to be removed, while somebody moves them on */
};

static const char in_new[] = "new";
static const char in_cur[] = "cur";

static void close_keeping_errno(int fd)
{
    int error = errno;
    close(fd);
    errno = error;
}

/* ---- Names --------------------------------------------------------------------------------- */

/* Flags follow a colon. */
static size_t unique_length(const char *name)
{
    return strcspn(name, ":");
}

/* By unique name: that begins with the second of the delivery. */
static int compare_names(const char *a, const char *b)
{
    size_t a_length = unique_length(a);
    size_t b_length = unique_length(b);
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    if (order != 0)
        return order;
    return (a_length > b_length) - (a_length < b_length);
}

/* One message may be in the list twice, if it was moved between the looks into the two folders. */
static int compare_messages(const void *a, const void *b)
{
    const struct maildir_message *left = a;
    const struct maildir_message *right = b;
    int order = compare_names(left->name, right->name);
    return order != 0 ? order : strcmp(left->folder, right->folder);
}

static bool is_unique_id(const char *name, size_t length)
{
    if (length == 0 || length >= MAILDIR_ID_SIZE)
        return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] < 0x21 || name[i] > 0x7e)
            return false;
    return true;
}

/* FNV-1a: short, and two names of one mailbox do not meet by chance. */
static uint64_t digest(const char *name, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return hash;
}

void maildir_unique_id(const struct maildir_message *message, char id[MAILDIR_ID_SIZE])
{
    size_t length = unique_length(message->name);
    if (is_unique_id(message->name, length))
        snprintf(id, MAILDIR_ID_SIZE, "%.*s", (int)length, message->name);
    else
        snprintf(id, MAILDIR_ID_SIZE, "digest-%016" PRIx64, digest(message->name, length));
}

/* ---- Files --------------------------------------------------------------------------------- */

static int open_folder(const struct maildir *maildir, const char *folder)
{
    return openat(maildir->fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static DIR *list_folder(const struct maildir *maildir, const char *folder)
{
    int fd = open_folder(maildir, folder);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (directory == NULL && fd >= 0)
        close_keeping_errno(fd);
    return directory;
}

/* Non-blocking, because a pipe could lie there whose other end nobody opens. */
static int open_file(int folder, const char *name)
{
    struct stat status;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int known = fstat(fd, &status);
    if (known == 0 && S_ISREG(status.st_mode))
        return fd;
    close_keeping_errno(fd);
    if (known == 0)
        errno = ENXIO;
    return -1;
}

static int remove_file(int folder, const char *name)
{
    return unlinkat(folder, name, 0);
}

/* Does something to the message's file where it was last seen. */
static int try_file(const struct maildir *maildir, const struct maildir_message *message,
                    int (*act)(int folder, const char *name))
{
    int folder = open_folder(maildir, message->folder);
    if (folder < 0)
        return -1;
    int result = act(folder, message->name);
    close_keeping_errno(folder);
    return result;
}

/* ---- Looking for what others have moved ---------------------------------------------------- */

/* Calls a function with each name in a folder. False with errno if not all could be listed. */
static bool each_name(struct maildir *maildir, const char *folder,
                      bool (*call)(struct maildir *maildir, const char *folder, const char *name))
{
    DIR *directory = list_folder(maildir, folder);
    if (directory == NULL)
        return false;
    bool good = true;
    const struct dirent *entry;
    while (good && (errno = 0, entry = readdir(directory)) != NULL)
        good = call(maildir, folder, entry->d_name);
    good = good && errno == 0;
    int error = errno;
    closedir(directory);
    errno = error;
    return good;
}

static int compare_with_name(const void *name, const void *message)
{
    return compare_names(name, ((const struct maildir_message *)message)->name);
}

/* A file is there: if it is one of the messages, that is where it is now. */
static bool note_place(struct maildir *maildir, const char *folder, const char *name)
{
    struct maildir_message *message = bsearch(name, maildir->messages, maildir->count,
                                              sizeof(*maildir->messages), compare_with_name);
    if (message == NULL)
        return true;
    char *copy = strdup(name);
    if (copy == NULL)
        return false;
    free(message->name);
    message->name = copy;
    message->folder = folder;
    message->is_gone = false;
    return true;
}

static void set_gone(struct maildir *maildir, bool is_gone)
{
    for (size_t i = 0; i < maildir->count; i++)
        maildir->messages[i].is_gone = is_gone;
}

/*
 * Looks where all messages are now. First new, then cur: readers move mail in that direction, so
 * what they move meanwhile is seen at least once. False with errno.
 */
static bool look_again(struct maildir *maildir)
{
    set_gone(maildir, true);
    if (each_name(maildir, in_new, note_place) && each_name(maildir, in_cur, note_place))
        return true;
    int error = errno;
    set_gone(maildir, false);
    errno = error;
    return false;
}

/* What a look has not found is not looked for again: a client may ask for each of a thousand. */
int maildir_open_message(struct maildir *maildir, struct maildir_message *message)
{
    int file = try_file(maildir, message, open_file);
    if (file >= 0 || errno != ENOENT || message->is_gone)
        return file;
    return look_again(maildir) ? try_file(maildir, message, open_file) : -1;
}

ssize_t maildir_read(int file, unsigned char *to, size_t size)
{
    ssize_t length;
    do
        length = read(file, to, size);
    while (length < 0 && errno == EINTR);
    return length;
}

/*
 * Removes what is marked and still where it was last seen. What the last look has not found
 * somebody else has removed, which is as good. How many are neither; *failed: whether one could not
 * be removed.
 */
static size_t remove_seen(struct maildir *maildir, bool *failed)
{
    size_t missing = 0;
    for (size_t i = 0; i < maildir->count; i++) {
        struct maildir_message *message = &maildir->messages[i];
        if (!message->deleted)
            continue;
        bool removed = try_file(maildir, message, remove_file) == 0;
        bool is_missing = !removed && errno == ENOENT && !message->is_gone;
        *failed = *failed || (!removed && errno != ENOENT);
        message->deleted = is_missing;
        missing += is_missing ? 1 : 0;
    }
    return missing;
}

bool maildir_remove_deleted(struct maildir *maildir)
{
    bool failed = false;
    set_gone(maildir, false);
    for (int looks = 0; remove_seen(maildir, &failed) > 0; looks++)
        if (looks == LOOKS_MAX || !look_again(maildir))
            return false;
    return !failed;
}

/* ---- The list ------------------------------------------------------------------------------ */

static bool make_room(struct maildir *maildir)
{
    if (maildir->count < maildir->capacity)
        return true;
    size_t capacity = maildir->capacity == 0 ? 16 : 2 * maildir->capacity;
    struct maildir_message *messages =
        reallocarray(maildir->messages, capacity, sizeof(*maildir->messages));
    if (messages == NULL)
        return false;
    maildir->messages = messages;
    maildir->capacity = capacity;
    return true;
}

/* What begins with a dot is nobody's mail. */
static bool add_message(struct maildir *maildir, const char *folder, const char *name)
{
    if (name[0] == '.')
        return true;
    char *copy = make_room(maildir) ? strdup(name) : NULL;
    if (copy == NULL)
        return false;
    maildir->messages[maildir->count++] = (struct maildir_message){.folder = folder, .name = copy};
    return true;
}

/* Counts the octets of a file as it will be sent; false with errno if it cannot be read. */
static bool measure(int fd, uint64_t *octets)
{
    unsigned char piece[PIECE];
    unsigned char sent[POP3_TEXT_SIZE(PIECE) + POP3_TEXT_END_SIZE];
    struct pop3_text text = {0};
    ssize_t length;
    while ((length = maildir_read(fd, piece, sizeof(piece))) > 0)
        pop3_text_add(&text, piece, (size_t)length, sent);
    pop3_text_end(&text, sent);
    *octets = text.octets;
    return length == 0;
}

/* What is no message: gone, a link, something else than a file, or not for us to read. */
static bool is_no_message(int error)
{
    return error == ENOENT || error == ELOOP || error == ENXIO || error == EACCES;
}

/* Measures a message, if it is one. False with errno if that cannot be found out. */
static bool look_at(struct maildir *maildir, struct maildir_message *message)
{
    int fd = maildir_open_message(maildir, message);
    message->is_wanted = fd >= 0;
    if (fd < 0)
        return is_no_message(errno);
    bool measured = measure(fd, &message->octets);
    close_keeping_errno(fd);
    return measured;
}

/* The second of two that are the same is not. */
static void want_each_once(struct maildir *maildir)
{
    struct maildir_message *messages = maildir->messages;
    for (size_t i = 0; i < maildir->count; i++)
        messages[i].is_wanted =
            i == 0 || compare_names(messages[i - 1].name, messages[i].name) != 0;
}

static void keep_wanted(struct maildir *maildir)
{
    size_t kept = 0;
    for (size_t i = 0; i < maildir->count; i++) {
        struct maildir_message message = maildir->messages[i];
        if (message.is_wanted)
            maildir->messages[kept++] = message;
        else
            free(message.name);
    }
    maildir->count = kept;
}

/* Leaves out the second of two that are the same, and what is no message. False with errno. */
static bool keep_messages(struct maildir *maildir)
{
    want_each_once(maildir);
    keep_wanted(maildir);
    for (size_t i = 0; i < maildir->count; i++)
        if (!look_at(maildir, &maildir->messages[i]))
            return false;
    keep_wanted(maildir);
    return true;
}

/* First new, then cur: what moves from one to the other meanwhile is seen, perhaps twice. */
static bool list_messages(struct maildir *maildir)
{
    if (!each_name(maildir, in_new, add_message) || !each_name(maildir, in_cur, add_message))
        return false;
    if (maildir->count > 1)
        qsort(maildir->messages, maildir->count, sizeof(*maildir->messages), compare_messages);
    return keep_messages(maildir);
}

int maildir_open(struct maildir *maildir, int folder, const char *name)
{
    *maildir = (struct maildir){.fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (maildir->fd < 0)
        return -1;
    if (flock(maildir->fd, LOCK_EX | LOCK_NB) == 0 && list_messages(maildir))
        return 0;
    int error = errno;
    maildir_close(maildir);
    errno = error;
    return -1;
}

void maildir_close(struct maildir *maildir)
{
    for (size_t i = 0; i < maildir->count; i++)
        free(maildir->messages[i].name);
    free(maildir->messages);
    close(maildir->fd);
    *maildir = (struct maildir){.fd = -1};
}
