/*
 * What of a user's text other users' terminals are shown.
 */
#ifndef CHAT_PRINTABLE_H
#define CHAT_PRINTABLE_H

#include <stddef.h>

/**
 * Copies a text, with a question mark for each byte of a control character: a terminal could take
 * it as an order.
 */
void copy_printable(unsigned char *to, const unsigned char *from, size_t length);

#endif
