/*
 * The command line: one table says what options there are, how each is parsed, what --help prints,
 * what the default is and what an error says.
 *
 * Interface:
 * - A server fills the table with options_add(), then calls options_parse() once.
 * - A default is text and goes through the same parser as what a user types, so that it cannot be
 *   something that a user could not have typed. What may be absent has a word for that, such as
 *   `none`, or 0.
 * - `--name VALUE` and `--name=VALUE` are the same. The last of several wins.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option;

/** Reads text into option->target; false if it is not what option->expects says. */
typedef bool option_parser(const struct option *option, const char *text);

struct option {
    const char *name;         /* "--port" */
    const char *value;        /* what --help calls the value, "N"; NULL: a flag, which takes none */
    const char *default_text; /* the default, as a user would type it; NULL for a flag */
    const char *help;         /* one line */
    const char *expects;      /* what the value must be, for the error; not for numbers */
    option_parser *parse;     /* NULL for a flag: the target is a bool and becomes true */
    void *target;             /* where the parser puts the value; lives as long as the options */
    bool given;               /* the user has typed it; options_parse() sets this */
    size_t min;               /* for option_parse_number */
    size_t max;               /* for option_parse_number */
};

enum {
    /** The rows of a table. The longest one of a stage has about 50; the rest is an author's. */
    OPTIONS_MAX = 128,

    /** options_parse() says: go on and serve. Anything else is the status to exit with. */
    OPTIONS_SERVE = -1,
};

struct options {
    const char *program;
    const char *summary; /* what the server is, for --help */
    const char *version;
    bool is_faulty; /* options_add() has refused one */
    size_t count;
    struct option table[OPTIONS_MAX];
};

void options_init(struct options *options, const char *program, const char *summary);

/**
 * Adds a row. If there is no room for it, or one of that name already, or its value has no default
 * or no parser, one line on standard error says so, of the first such row, and options_parse()
 * wants an exit.
 */
void options_add(struct options *options, struct option option);

/** A row that was added; NULL: there is none of that name. */
struct option *options_look_for(struct options *options, const char *name);

/** A row that was added, to change it before options_parse(). */
struct option *options_find(struct options *options, const char *name);

/** Gives an option that was added another default. */
void options_set_default(struct options *options, const char *name, const char *default_text);

/**
 * Gives an option another default after options_parse(), for a default that depends on another
 * option. A value that the user has typed stays, and an option that is not there is passed over.
 * False: the option does not take that, or it is a flag.
 */
bool options_set_if_absent(struct options *options, const char *name, const char *default_text);

/**
 * Sets all defaults, then reads the command line. --help and --version print to standard output and
 * want an exit with 0; bad usage prints one line to standard error and wants an exit with 2. A row
 * that options_add() has refused wants one with 1.
 */
int options_parse(struct options *options, int argc, char **argv);

/** Reads a whole number from option->min to option->max into a size_t. */
option_parser option_parse_number;

/** Reads a port number, 0 to 65535, into a size_t. */
option_parser option_parse_port;

/** Reads seconds, decimals allowed, into an int64_t of milliseconds. */
option_parser option_parse_seconds;

#endif
