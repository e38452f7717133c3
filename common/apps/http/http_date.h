/*
 * Moments in HTTP: Sun, 06 Nov 1994 08:49:37 GMT (RFC 9110, section 5.6.7).
 *
 * Not strftime(3) and its kin: they ask for the language and the time zone of whoever started the
 * server, and take a lock for that.
 */
#ifndef COMMON_APPS_HTTP_DATE_H
#define COMMON_APPS_HTTP_DATE_H

#include "common/bytes/input_queue.h"

#include <time.h>

enum {
    HTTP_DATE_SIZE = 30, /* with the closing zero */
};

/** Writes a moment, from 1970 to 9999; one outside is written as the nearest inside. */
void http_date_write(char text[HTTP_DATE_SIZE], time_t moment);

/** Reads one, in that form or in the two of old: rfc850 and asctime. False if it is none. */
bool http_date_read(struct message text, time_t *moment);

#endif
