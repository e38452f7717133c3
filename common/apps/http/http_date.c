#include "common/apps/http/http_date.h"

#include <stdio.h>
#include <string.h>

static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

enum {
    DAY = 86400,
    LAST_MOMENT = 2932896, /* the day of 31 Dec 9999, counted from 1 Jan 1970 */
};

struct calendar {
    int year;
    int month; /* from 1 on */
    int day;   /* from 1 on */
    int seconds;
};

/*
 * Days since 1 Jan 1970. Years begin in March here, so that the odd day is the last one; the months
 * from March on have 153 days in every five.
 */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return y * 365 + y / 4 - y / 100 + y / 400 + of_year - 719468;
}

/* The other way round, for days from 1970 on. */
static struct calendar calendar_of(int64_t number)
{
    int64_t shifted = number + 719468;
    int64_t era = shifted / 146097; /* 400 years */
    int64_t of_era = shifted % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    return (struct calendar){.day = (int)(of_year - (153 * month + 2) / 5 + 1),
                             .month = (int)(month < 10 ? month + 3 : month - 9),
                             .year = (int)(year + era * 400 + (month >= 10 ? 1 : 0))};
}

static void write_digits(char *to, int number, int count)
{
    while (count-- > 0) {
        to[count] = (char)('0' + number % 10);
        number /= 10;
    }
}

void http_date_write(char text[HTTP_DATE_SIZE], time_t moment)
{
    int64_t number = moment / DAY;
    int seconds = (int)(moment % DAY);
    if (moment < 0)
        number = seconds = 0;
    else if (number > LAST_MOMENT) {
        number = LAST_MOMENT;
        seconds = DAY - 1;
    }
    struct calendar calendar = calendar_of(number);
    memcpy(text, "---, -- --- ---- --:--:-- GMT", HTTP_DATE_SIZE);
    memcpy(text, days[(number + 4) % 7], 3);
    write_digits(text + 5, calendar.day, 2);
    memcpy(text + 8, months[calendar.month - 1], 3);
    write_digits(text + 12, calendar.year, 4);
    write_digits(text + 17, seconds / 3600, 2);
    write_digits(text + 20, seconds / 60 % 60, 2);
    write_digits(text + 23, seconds % 60, 2);
}

/* What a pattern's characters stand for: what was found there, digits and letters. */
struct found {
    int numbers[128];
    char month[4];
    size_t month_length;
};

/*
 * Matches the text with a pattern, in which `w` is any letter, `b` a letter of the month, `_` a
 * blank or a digit of the day, and other lower-case letters are digits of a number. All else means
 * itself.
 */
static bool matches(struct message text, const char *pattern, struct found *found)
{
    *found = (struct found){0};
    if (text.length != strlen(pattern))
        return false;
    for (size_t i = 0; i < text.length; i++) {
        char c = (char)text.data[i];
        char wanted = pattern[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (wanted == '_' && c == ' ')
            continue;
        if (wanted == '_')
            wanted = 'd';
        if (wanted == 'w' || wanted == 'b') {
            if (!is_letter)
                return false;
            if (wanted == 'b')
                found->month[found->month_length++] = c;
        } else if (wanted >= 'a' && wanted <= 'z') {
            if (c < '0' || c > '9')
                return false;
            found->numbers[(int)wanted] = found->numbers[(int)wanted] * 10 + c - '0';
        } else if (wanted != c) {
            return false;
        }
    }
    return true;
}

static bool convert(const struct found *found, int year, time_t *moment)
{
    const int *numbers = found->numbers;
    int month = 0;
    while (month < 12 && strcmp(months[month], found->month) != 0)
        month++;
    if (month == 12 || numbers['d'] < 1 || numbers['d'] > 31 || numbers['h'] > 23 ||
        numbers['m'] > 59 || numbers['s'] > 60)
        return false;
    int seconds = (numbers['h'] * 60 + numbers['m']) * 60 + numbers['s'];
    *moment = (time_t)(days_of(year, month + 1, numbers['d']) * DAY + seconds);
    return true;
}

/* The name of the day, in full, stands in front of an rfc850 date. */
static struct message behind_day(struct message text)
{
    const unsigned char *comma = memchr(text.data, ',', text.length);
    if (comma == NULL)
        return (struct message){text.data, 0};
    return (struct message){comma, text.length - (size_t)(comma - text.data)};
}

/* A year of two digits is the one of those that is not more than 50 years ahead; about. */
static int full_year(int two_digits)
{
    return two_digits < 70 ? 2000 + two_digits : 1900 + two_digits;
}

bool http_date_read(struct message text, time_t *moment)
{
    struct found found;
    if (matches(text, "www, dd bbb yyyy hh:mm:ss GMT", &found) ||
        matches(text, "www bbb _d hh:mm:ss yyyy", &found))
        return convert(&found, found.numbers['y'], moment);
    if (matches(behind_day(text), ", dd-bbb-yy hh:mm:ss GMT", &found))
        return convert(&found, full_year(found.numbers['y']), moment);
    return false;
}
