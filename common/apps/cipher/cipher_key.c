#include "common/apps/cipher/cipher_key.h"

#include "common/apps/cipher/cipher_nonce.h"
#include "common/base/log_value.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    KEY_DIGITS = 2 * CHACHA20_KEY_SIZE,
};

static bool parse_key_file(const struct option *option, const char *text)
{
    *(const char **)option->target = strcmp(text, "none") == 0 ? NULL : text;
    return *text != '\0';
}

static void add_option(struct options *options, const char *name, const char *help,
                       const char **target)
{
    options_add(options, (struct option){.name = name,
                                         .value = "KEYFILE",
                                         .default_text = "none",
                                         .help = help,
                                         .expects = "the name of a file with a key, or none",
                                         .parse = parse_key_file,
                                         .target = target});
}

void cipher_options(struct options *options, struct cipher_choice *choice)
{
    add_option(options, "--cipher", "encrypt what clients send and get; nobody is authenticated",
               &choice->clients);
    add_option(options, "--cipher-to", "the same, with the servers that it connects to",
               &choice->servers);
}

/* Whether space is all that is left. */
static bool ends(FILE *stream)
{
    int byte;
    while ((byte = getc(stream)) != EOF)
        if (!isspace(byte))
            return false;
    return true;
}

/* The digits that the file begins with; how many there are. */
static int read_digits(FILE *stream, unsigned char *key)
{
    int count = 0;
    int digit;
    while (count < KEY_DIGITS &&
           (digit = cipher_digit((unsigned char)tolower(getc(stream)))) >= 0) {
        unsigned char *into = &key[count++ / 2];
        *into = (unsigned char)(*into << 4 | digit);
    }
    return count;
}

static void warn_of_readers(FILE *stream, const char *file, const struct log *log)
{
    struct stat status;
    char name[256];
    log_value(name, sizeof(name), file, strlen(file));
    if (fstat(fileno(stream), &status) == 0 && (status.st_mode & (S_IRGRP | S_IROTH)) != 0)
        log_write(log, LOG_LEVEL_WARN,
                  "event=key_readable file=\"%s\" reason=\"others can read it\"", name);
}

static bool read_key(const char *file, unsigned char *key, const struct log *log)
{
    FILE *stream = fopen(file, "re");
    if (stream == NULL) {
        fprintf(stderr, "%s: cannot read the key from %s: %s\n", log->program, file,
                strerror(errno));
        return false;
    }
    warn_of_readers(stream, file, log);
    setvbuf(stream, NULL, _IONBF, 0); /* what is read stays nowhere else in memory */
    int digits = read_digits(stream, key);
    bool good = digits == KEY_DIGITS && ends(stream);
    if (ferror(stream))
        fprintf(stderr, "%s: cannot read the key from %s: %s\n", log->program, file,
                strerror(errno));
    else if (!good)
        fprintf(stderr, "%s: %s: expected a key of %d hexadecimal digits, got %d%s\n", log->program,
                file, KEY_DIGITS, digits, digits == KEY_DIGITS ? " and more" : "");
    good = good && !ferror(stream);
    fclose(stream);
    return good;
}

bool cipher_read_keys(struct cipher_choice *choice, const struct log *log)
{
    return (choice->clients == NULL || read_key(choice->clients, choice->clients_key, log)) &&
           (choice->servers == NULL || read_key(choice->servers, choice->servers_key, log));
}
