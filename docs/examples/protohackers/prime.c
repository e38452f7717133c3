/*
 * Protohackers' problem 1, Prime Time: each line is a JSON object that asks whether a number is
 * prime. One that is malformed gets a malformed answer, and the connection is closed.
 */
#include "common/apps/application.h"
#include "docs/examples/protohackers/json.h"

#include <errno.h>

__extension__ typedef unsigned __int128 twice;

static unsigned long long power(unsigned long long base, unsigned long long exponent,
                                unsigned long long modulus)
{
    twice result = 1;
    for (twice square = base % modulus; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1)
            result = result * square % modulus;
        square = square * square % modulus;
    }
    return (unsigned long long)result;
}

/* Whether a number that may be prime is shown by this base to be none (Miller and Rabin). */
static bool is_witness(unsigned long long base, unsigned long long number)
{
    unsigned long long exponent = number - 1;
    int halved = 0;
    for (; exponent % 2 == 0; exponent /= 2)
        halved++;
    unsigned long long x = power(base, exponent, number);
    if (x == 1)
        return false;
    for (; halved > 0 && x != number - 1; halved--)
        x = (unsigned long long)((twice)x * x % number);
    return halved == 0;
}

/* With these bases there is no error for numbers of 64 bits. */
static bool is_prime(unsigned long long number)
{
    static const unsigned long long bases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        if (number % bases[i] == 0)
            return number == bases[i];
        if (number < 2 || is_witness(bases[i], number))
            return false;
    }
    return true;
}

/* Whether the line asks for a number; fractions and negative ones are numbers, too. */
static bool read_request(struct message line, bool *prime)
{
    const char *end = (const char *)line.data + line.length;
    struct span object = {skip_space((const char *)line.data, end), end};
    char *behind;
    unsigned long long value;
    if (object.at == end || *object.at != '{')
        return false;
    object.end = skip_value(object.at, end, 0);
    if (object.end == NULL || skip_space(object.end, end) != end)
        return false;
    struct span number = member_of(object, "\"number\"");
    if (!is(member_of(object, "\"method\""), "\"isPrime\"") ||
        (*number.at != '-' && (*number.at < '0' || *number.at > '9')))
        return false;
    strtod(number.at, &behind);
    errno = 0;
    *prime = read_number(number, &value) && errno == 0 && is_prime(value);
    return behind == number.end;
}

static bool handle_input(struct input_handler *self, struct message line,
                         struct channel_facade *facade)
{
    bool prime;
    (void)self;
    if (!read_request(line, &prime)) {
        channel_printf(facade, "{\"error\":\"malformed\"}\n");
        return false;
    }
    channel_printf(facade, "{\"method\":\"isPrime\",\"prime\":%s}\n", prime ? "true" : "false");
    return true;
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input};

const struct application prime_application = {.name = "prime", .verbs = &verbs};
