#include "common/apps/pop3/pop3_guesses.h"

#include "common/base/container_of.h"

#include <stddef.h>
#include <string.h>

enum {
    FREE_OF_DELAY = 2, /* wrong passwords */
    MAX_AT_ONCE = 8,   /* passwords that are looked at: several people may log in at a moment */
    LINE_STEP_MS = 5,  /* what one that is ahead in line takes at least */
    FIRST_DELAY_MS = 1000,
    LONGEST_DELAY_MS = 15 * 1000,
    REMEMBERED_MS = 15 * 60 * 1000, /* wrong passwords, after their delay */
    KNOWN_MS = 24 * 60 * 60 * 1000, /* an address that a user has logged in from */
};

void pop3_guesses_init(struct pop3_guesses *guesses, uint64_t seed)
{
    mutex_init(&guesses->lock);
    guesses->seed = seed;
    mutex_lock(&guesses->lock);
    list_init(&guesses->all);
    mutex_unlock(&guesses->lock);
}

void pop3_guesses_destroy(struct pop3_guesses *guesses)
{
    mutex_destroy(&guesses->lock);
}

/* ---- Keys ---------------------------------------------------------------------------------- */

static uint64_t add_byte(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

/*
 * FNV-1a, with a last step that mixes all bits into the low ones, which choose the set. The kind is
 * a byte in front of the data: if it were only a part of the seed, the first byte of a user's name
 * could make up for it, and four bytes of a name would have the key of an IPv4 address.
 */
static uint64_t hash(uint64_t seed, char kind, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    uint64_t hash = add_byte(seed ^ UINT64_C(0xcbf29ce484222325), (unsigned char)kind);
    for (size_t i = 0; i < length; i++)
        hash = add_byte(hash, bytes[i]);
    return hash ^ hash >> 32;
}

static uint64_t address_key(uint64_t seed, const struct endpoint *peer)
{
    const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)&peer->address;
    const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)&peer->address;
    if (peer->address.ss_family == AF_INET)
        return hash(seed, '4', &ipv4->sin_addr, 4);
    if (peer->address.ss_family != AF_INET6)
        return hash(seed, '?', "", 0);
    const unsigned char *bytes = ipv6->sin6_addr.s6_addr;
    return IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr) ? hash(seed, '4', bytes + 12, 4)
                                                  : hash(seed, '6', bytes, 8);
}

/* Under the lock, because one that stands in line is compared with others. */
static void set_keys(struct pop3_guess *guess, uint64_t seed, const struct endpoint *peer,
                     const char *user)
{
    guess->address = address_key(seed, peer);
    guess->user = hash(seed, 'u', user, strlen(user));
    guess->both = hash(guess->address, 'b', user, strlen(user));
}

/* ---- Tables -------------------------------------------------------------------------------- */

/* The entry of a key; NULL if there is none, or it is forgotten. */
static struct pop3_guesses_entry *find(struct pop3_guesses_entry *set, uint64_t key, int64_t now)
{
    for (size_t i = 0; i < POP3_GUESSES_WAYS; i++)
        if (set[i].key == key && set[i].forgotten > now)
            return &set[i];
    return NULL;
}

/* Whether an entry is a better one to give up than another. */
static bool matters_less(const struct pop3_guesses_entry *a, const struct pop3_guesses_entry *b,
                         int64_t now)
{
    bool a_lives = a->forgotten > now;
    bool b_lives = b->forgotten > now;
    if (a_lives != b_lives)
        return b_lives;
    return a->wrong != b->wrong ? a->wrong < b->wrong : a->forgotten < b->forgotten;
}

/* The entry of a key, which is made if there is none. */
static struct pop3_guesses_entry *obtain(struct pop3_guesses_entry *set, uint64_t key, int64_t now)
{
    struct pop3_guesses_entry *found = find(set, key, now);
    if (found != NULL)
        return found;
    struct pop3_guesses_entry *victim = &set[0];
    for (size_t i = 1; i < POP3_GUESSES_WAYS; i++)
        if (matters_less(&set[i], victim, now))
            victim = &set[i];
    *victim = (struct pop3_guesses_entry){.key = key, .next = now};
    return victim;
}

/* Where an address or a user has its place. */
static struct pop3_guesses_entry *guesser_set(struct pop3_guesses *guesses, uint64_t key)
    REQUIRES(&guesses->lock)
{
    return guesses->guessers.sets[key % POP3_GUESSES_SETS];
}

/*
 * Where an address has its place that is known for a user. All of one user are in the same set, so
 * that somebody who logs in from thousands of addresses pushes out those of his own, and of the few
 * users in the same set, but not everybody's.
 */
static struct pop3_guesses_entry *known_set(struct pop3_guesses *guesses,
                                            const struct pop3_guess *guess) REQUIRES(&guesses->lock)
{
    return guesses->known.sets[guess->user % POP3_GUESSES_SETS];
}

static struct pop3_guesses_entry *find_guesser(struct pop3_guesses *guesses, uint64_t key,
                                               int64_t now) REQUIRES(&guesses->lock)
{
    return find(guesser_set(guesses, key), key, now);
}

static struct pop3_guesses_entry *find_known(struct pop3_guesses *guesses,
                                             const struct pop3_guess *guess, int64_t now)
    REQUIRES(&guesses->lock)
{
    return find(known_set(guesses, guess), guess->both, now);
}

/* ---- Guesses ------------------------------------------------------------------------------- */

static int64_t delay_after(unsigned wrong)
{
    int64_t delay = FIRST_DELAY_MS;
    if (wrong <= FREE_OF_DELAY)
        return 0;
    for (unsigned i = FREE_OF_DELAY + 1; i < wrong && delay < LONGEST_DELAY_MS; i++)
        delay *= 2;
    return delay < LONGEST_DELAY_MS ? delay : LONGEST_DELAY_MS;
}

/*
 * The entries that limit a guess, at most two; how many there are. Of an address that is known for
 * the user it is the entry of the two together.
 */
static size_t limits_of(struct pop3_guesses *guesses, const struct pop3_guess *guess, int64_t now,
                        struct pop3_guesses_entry *limits[2]) REQUIRES(&guesses->lock)
{
    size_t count = 0;
    limits[count] = find_known(guesses, guess, now);
    if (limits[count] != NULL)
        return 1;
    limits[count] = find_guesser(guesses, guess->address, now);
    count += limits[count] != NULL;
    limits[count] = find_guesser(guesses, guess->user, now);
    count += limits[count] != NULL;
    return count;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_limited_with(const struct pop3_guess *one, const struct pop3_guess *other)
{
    if (one->is_known || other->is_known)
        return one->both == other->both;
    return one->address == other->address || one->user == other->user;
}

/* ---- The line ------------------------------------------------------------------------------ */

/*
 * How many that came before it, and share a limit with it, are not done. Note that it is O(n): one
 * asks the more seldom, the more are ahead of it.
 */
static size_t count_ahead(struct pop3_guesses *guesses, const struct pop3_guess *guess)
    REQUIRES(&guesses->lock)
{
    size_t count = 0;
    const struct list_link *link = guesses->all.next;
    for (; link != &guesses->all && link != &guess->link; link = link->next)
        count += is_limited_with(guess, container_of(link, struct pop3_guess, link)) ? 1 : 0;
    return count;
}

static bool is_listed(const struct pop3_guess *guess)
{
    return guess->is_in_line || guess->is_under_way;
}

/* Puts it behind all others, unless it has its place already. */
static void enter(struct pop3_guesses *guesses, struct pop3_guess *guess) REQUIRES(&guesses->lock)
{
    if (!is_listed(guess))
        list_insert_behind(guesses->all.previous, &guess->link);
}

static void leave(struct pop3_guesses *guesses, struct pop3_guess *guess) REQUIRES(&guesses->lock)
{
    if (is_listed(guess))
        list_remove(&guess->link);
    guesses->under_way -= guess->is_under_way ? 1 : 0;
    guess->is_in_line = false;
    guess->is_under_way = false;
}

/* How long until its turn can come, if nobody has been wrong. 0: it is its turn. */
static int64_t time_in_line(struct pop3_guesses *guesses, const struct pop3_guess *guess)
    REQUIRES(&guesses->lock)
{
    size_t ahead = count_ahead(guesses, guess);
    bool is_full = guesses->under_way >= POP3_GUESSES_UNDER_WAY;
    if (ahead < MAX_AT_ONCE && !is_full)
        return 0;
    return (int64_t)(ahead < MAX_AT_ONCE ? MAX_AT_ONCE : ahead) * LINE_STEP_MS;
}

/* ---- Beginning ----------------------------------------------------------------------------- */

/*
 * Guesses that come on many connections at once must not all be let through before it is known what
 * the first one was. So a guess that is let through puts off the next one as soon as there is a
 * delay; and while there is none, so few are looked at together.
 */
int64_t pop3_guesses_begin(struct pop3_guesses *guesses, const struct endpoint *peer,
                           const char *user, int64_t now, struct pop3_guess *guess)
{
    struct pop3_guesses_entry *limits[2];
    int64_t moment = now;
    mutex_lock(&guesses->lock);
    set_keys(guess, guesses->seed, peer, user);
    size_t count = limits_of(guesses, guess, now, limits);
    guess->is_known = find_known(guesses, guess, now) != NULL;
    for (size_t i = 0; i < count; i++)
        moment = later(moment, limits[i]->next);
    int64_t wait = moment - now;
    if (wait > 0) {
        leave(guesses, guess);
    } else {
        wait = time_in_line(guesses, guess);
        enter(guesses, guess);
        guess->is_in_line = wait > 0;
        guess->is_under_way = wait == 0;
        guesses->under_way += guess->is_under_way ? 1 : 0;
    }
    for (size_t i = 0; i < count && wait == 0; i++)
        limits[i]->next = now + delay_after(limits[i]->wrong);
    mutex_unlock(&guesses->lock);
    return wait;
}

static void count_wrong(struct pop3_guesses_entry *entry, int64_t now)
{
    if (entry->wrong < UINT32_MAX)
        entry->wrong++;
    entry->next = now + delay_after(entry->wrong);
    entry->forgotten = later(entry->forgotten, entry->next + REMEMBERED_MS);
}

/* Its wrong passwords are forgiven the user, but not the address: it may have one of its own. */
static void forgive(struct pop3_guesses *guesses, const struct pop3_guess *guess, int64_t now)
    REQUIRES(&guesses->lock)
{
    struct pop3_guesses_entry *user = find_guesser(guesses, guess->user, now);
    struct pop3_guesses_entry *address = find_guesser(guesses, guess->address, now);
    if (user != NULL)
        user->forgotten = now;
    if (address != NULL)
        address->next = now; /* as it was before pop3_guesses_begin() put it off */
}

/*
 * A user who comes back to a known address was not limited by what others have guessed, so nothing
 * of that is forgiven. Otherwise a guesser could end the delay of his address by logging in to a
 * mailbox of his own, and guesses at Ann would be free whenever her mail program looks for mail.
 */
static void count_right(struct pop3_guesses *guesses, const struct pop3_guess *guess, int64_t now)
    REQUIRES(&guesses->lock)
{
    if (find_known(guesses, guess, now) == NULL)
        forgive(guesses, guess, now);
    struct pop3_guesses_entry *known = obtain(known_set(guesses, guess), guess->both, now);
    known->wrong = 0;
    known->next = now;
    known->forgotten = now + KNOWN_MS;
}

static void count_wrong_one(struct pop3_guesses *guesses, const struct pop3_guess *guess,
                            int64_t now) REQUIRES(&guesses->lock)
{
    struct pop3_guesses_entry *known = find_known(guesses, guess, now);
    if (known != NULL) {
        count_wrong(known, now);
        return;
    }
    count_wrong(obtain(guesser_set(guesses, guess->address), guess->address, now), now);
    count_wrong(obtain(guesser_set(guesses, guess->user), guess->user, now), now);
}

void pop3_guesses_end(struct pop3_guesses *guesses, struct pop3_guess *guess,
                      enum pop3_password found, int64_t now)
{
    mutex_lock(&guesses->lock);
    leave(guesses, guess);
    switch (found) {
    case POP3_PASSWORD_RIGHT: count_right(guesses, guess, now); break;
    case POP3_PASSWORD_WRONG: count_wrong_one(guesses, guess, now); break;
    case POP3_PASSWORD_NOT_TOLD: break;
    }
    mutex_unlock(&guesses->lock);
}
