/*
 * The parts of the store.
 *
 *   store.c            the application: bytes of clients become batches of requests, for the strand
 *   store_commands.c   the table of all commands, and how one is carried out
 *   store_keys.c       keys: finding, making and deleting them, their values and expiry; DEL, TTL
 *   store_strings.c    GET, SET, INCR, ...
 *   store_lists.c      LPUSH, RPOP, LRANGE, ...
 *   store_ties.c       which clients wait for a key, or have subscribed to a channel
 *   store_waits.c      BLPOP, BRPOP
 *   store_channels.c   SUBSCRIBE, PUBLISH, ...
 *   store_transactions.c  MULTI, EXEC, DISCARD
 *   store_server.c     what is about the connection or the server: PING, INFO, ...
 *
 * All of it but store.c's side of a connection is the strand's: one thread at a time makes its
 * calls, so there is no lock, and each command sees a store in which no other one is half done.
 */
#ifndef STORE_PARTS_H
#define STORE_PARTS_H

#include "common/apps/application.h"
#include "common/apps/store/store_reply.h"
#include "common/apps/store/store_request.h"
#include "common/apps/store/store_table.h"
#include "common/apps/strand_group.h"

struct store_call;
struct store_client;
struct store_key;

enum {
    STORE_NAME_SIZE = 64, /* of a client's name, with its NUL */
};

/* ---- The store ----------------------------------------------------------------------------- */

struct store {
    struct strand_group group; /* first */
    struct table keys;         /* store_key */
    struct table waits;        /* store_topic: keys for which clients wait */
    size_t waiting;            /* clients that do */
    struct table channels;     /* store_topic: to which clients have subscribed */
    struct list_link ready;    /* of waits: there is something for them */
    size_t used;               /* bytes of all that is kept */
    size_t limit;              /* more than that is refused */
    struct store_reply reply;
    struct request_words words;
};

/* ---- A client ------------------------------------------------------------------------------ */

/** A transaction. */
struct store_multi {
    bool is_open;
    bool is_aborted;      /* EXEC will refuse */
    unsigned char *bytes; /* of the requests that are queued */
    size_t length;
    size_t count;
};

/** What the store keeps for a connection. */
struct store_client {
    struct strand_member member;  /* first */
    struct request_reader reader; /* the handler's: of the request that has come in part */
    size_t done; /* bytes of the batch that have been carried out; the handler's, while there is
                    none */

    /* The strand's. */
    struct store *store;
    bool is_closed; /* what is left of its batch is not carried out */
    char name[STORE_NAME_SIZE];

    struct list_link ties; /* to keys that it waits for, or to channels: never to both */
    size_t tied;           /* how many these are */
    bool waits;
    bool pops_in_front;         /* when its wait is over */
    struct channel_timer timer; /* of its wait */

    struct store_multi multi;
};

/* ---- Ties ---------------------------------------------------------------------------------- */

/** A key that clients wait for, or a channel. */
struct store_topic {
    struct table_node node; /* in that table; its name is at the end */
    struct table *table;
    struct list_link ties; /* the oldest first */
    size_t count;
    struct list_link ready; /* of store->ready, if it is there */
    unsigned char name[];
};

/** Between a client and a topic. */
struct store_tie {
    struct list_link of_topic;
    struct list_link of_client;
    struct store_topic *topic;
    struct store_client *client;
};

/** NULL: no client has a tie to it. */
struct store_topic *store_find_topic(const struct table *table, struct message name);

/** Ties the client. False without memory: the client was told. */
bool store_tie_to(struct store_call *call, struct table *table, struct message name);

void store_untie(struct store_tie *tie);
void store_untie_all(struct store_client *client);

/** Frees a topic that has no tie and is not ready. */
void store_drop_topic(struct store *store, struct store_topic *topic);

/** A list has got something: behind this request, those who wait for it are served. */
void store_has_grown(struct store *store, const struct store_key *key);

/** Serves those who wait for what has grown. */
void store_serve(struct store *store);

/** The client has no tie any more, and is not told. */
void store_forget_wait(struct store_client *client);

/* ---- Commands ------------------------------------------------------------------------------ */

/** A request that is being carried out. */
struct store_call {
    struct store *store;
    struct store_client *client;
    struct store_reply *reply;
    const struct store_command *command; /* NULL: there is no such one */
    struct message request;              /* its bytes */
    size_t count;
    const struct message *words; /* the first is the command's name */
    struct store_key *key;       /* of a command about one key; NULL: it is not there */
    bool is_in_exec;             /* it may not wait */
};

typedef void store_function(struct store_call *call);

enum {
    STORE_GROWS = 1,            /* it is refused if the store is full */
    STORE_WHILE_SUBSCRIBED = 2, /* a subscriber may send it */
    STORE_AT_ONCE = 4,          /* MULTI does not queue it */
    STORE_FAMILY = 8,           /* if there is a second word, none of those before it has it */
    STORE_ON_KEY = 16,          /* it is about the key that its first argument names */
    STORE_ON_STRING = 32,       /* and of this type, or it is refused */
    STORE_ON_LIST = 64,
    STORE_IN_FRONT = 128, /* of a list; without: at its end */
    STORE_IN_MS = 256,    /* its times are; without: in seconds */
    STORE_DELETES = 512,  /* what it answers with, or counts */
    STORE_DOWN = 1024,    /* it counts down */
};

struct store_command {
    const char *name; /* in small letters, as errors show it */
    int arity;        /* words that it has; negative: at least so many */
    store_function *run;
    unsigned flags;
    const char *second; /* the word behind its name; NULL: any, or none */
};

/** Whether its command has that flag. */
static inline bool store_has_flag(const struct store_call *call, unsigned flag)
{
    return (call->command->flags & flag) != 0;
}

/** All commands; the last one has no name. */
extern const struct store_command store_commands[];

/** Runs a command that nothing speaks against. */
void store_run(struct store_call *call);

/** Reads the request with which these bytes begin. False: it is none, and the client was told. */
bool store_read(struct store_call *call, struct message bytes);

/**
 * Carries out the request with which these bytes begin, and puts its answer into the store's reply.
 * Returns the number of its bytes.
 */
size_t store_carry_out(struct store_client *client, struct message bytes);

/** Queues a request behind MULTI, and says so. */
void store_queue(struct store_call *call);

/** MULTI is over, and what was queued is dropped. */
void store_forget_queue(struct store_client *client);

/** Whether a word is that one, in letters of either case. */
bool store_word_is(struct message word, const char *name);

/**
 * Which of these words it is, the last of which is NULL: the first one is 1, and each one twice the
 * one before. 0: none.
 */
unsigned store_option(struct message word, const char *const *options);

/** An error that has the command's full name, in quotes, between these texts. */
void store_refuse(struct store_call *call, const char *before, const char *behind);

/** It has too few words, or too many. */
void store_reply_arity(struct store_call *call);

/* ---- Keys and values ----------------------------------------------------------------------- */

enum store_type { STORE_STRING, STORE_LIST };

/** A string, or an element of a list. */
struct store_item {
    struct list_link link;
    size_t length;
    unsigned char bytes[];
};

/** Is never without an item, but while it is made. */
struct store_key {
    struct table_node node; /* in store->keys; its name is at the end */
    enum store_type type;
    size_t length; /* how many items */
    struct list_link items;
    int64_t expires; /* behind that moment, in ms of clock_ms(); 0: it stays */
    struct channel_timer timer;
    unsigned char name[];
};

static inline struct store_item *store_item_of(const struct list_link *link)
{
    return container_of(link, struct store_item, link);
}

static inline struct message store_bytes_of(const struct store_item *item)
{
    return (struct message){item->bytes, item->length};
}

/** Memory that counts. NULL: there is none, and the client was told. */
void *store_allocate(struct store_call *call, size_t size);

/** Gives it back; NULL is ignored. */
void store_free(struct store *store, void *memory, size_t size);

/** A copy of both. NULL without memory: the client was told. */
struct store_item *store_make_item(struct store_call *call, struct message bytes,
                                   struct message more);

/** Takes it out of its key, which has to count it out. NULL is ignored. */
void store_free_item(struct store *store, struct store_item *item);

void store_insert(struct store_key *key, struct store_item *item, bool in_front);

/** Frees all items: the key has to get one, or to be deleted. */
void store_clear(struct store *store, struct store_key *key);

/** NULL: there is none, or its time is over. */
struct store_key *store_find(struct store *store, struct message name);

/** True of no key (NULL). False: the client was told. */
bool store_has_type(struct store_call *call, const struct store_key *key, enum store_type type);

/** A key that was not there, and has no item yet. NULL without memory: the client was told. */
struct store_key *store_add(struct store_call *call, struct message name, enum store_type type);

/** With its value. */
void store_delete(struct store *store, struct store_key *key);

void store_delete_all(struct store *store);

/** Behind that moment, in ms of clock_ms(), it is not there any more. */
void store_expire_at(struct store *store, struct store_key *key, int64_t moment);

/** It stays. */
void store_persist(struct store *store, struct store_key *key);

/**
 * When something expires: a number of units from now on, at least `min`. A unit is that many ms.
 * False: the word is no such number, and the client was told.
 */
bool store_parse_time(struct store_call *call, struct message word, int64_t unit, int64_t min,
                      int64_t *moment);

/** Answers with the first element of a list, or the last one, and drops it; an empty list goes. */
void store_reply_pop(struct store *store, struct store_key *key, bool in_front);

/* ---- The functions of commands, by file ---------------------------------------------------- */

store_function store_do_ping, store_do_echo, store_do_select, store_do_quit, store_do_reset,
    store_do_command, store_do_command_docs, store_do_config_get, store_do_info,
    store_do_client_setname, store_do_client_getname;
store_function store_do_get, store_do_set, store_do_mget, store_do_mset, store_do_append,
    store_do_strlen, store_do_incr;
store_function store_do_push, store_do_pop, store_do_llen, store_do_lrange, store_do_pop_or_wait;
store_function store_do_subscribe, store_do_unsubscribe, store_do_publish, store_do_multi,
    store_do_exec, store_do_discard;
store_function store_do_exists, store_do_type, store_do_expire, store_do_persist, store_do_ttl,
    store_do_dbsize, store_do_flushall;

#endif
