/*
 * The echo itself: every line comes back byte for byte, its LF or CR LF included, in order, to the
 * client that sent it.
 */
#include "support/client.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(echo, .timeout = 120);

ClientTest(echo, one_line, "")
{
    client_echo(client, "hello, world\n");
    client_echo(client, "and a second one\n");
}

ClientTest(echo, cr_lf_comes_back_as_cr_lf, "")
{
    client_echo(client, "ends with CR LF\r\n");
    client_echo(client, "ends with LF\n");
    client_echo(client, "CR \r inside and two at the end\r\r\n");
}

/* The chat of the slides ate an empty line and forgot the whole lines behind it (erratum 2). */
ClientTest(echo, empty_lines, "")
{
    client_echo(client, "\n");
    client_echo(client, "\r\n");
    client_echo(client, "\r\nhello\n");
    client_echo(client, "\n\n\r\n\n\r\nhello\r\n\n");
}

ClientTest(echo, nul_bytes, "")
{
    static const char line[] = "a\0b\0\0c\n\0\n\0\0\r\n";
    client_send(client, line, sizeof line - 1);
    client_expect(client, line, sizeof line - 1);
}

ClientTest(echo, every_byte_value, "")
{
    char line[512];
    size_t length = 0;
    for (int value = 0; value < 256; value++) {
        if (value != '\n') {
            line[length++] = (char)value;
        }
    }
    line[length++] = '\n';
    client_send(client, line, length);
    client_expect(client, line, length);
}

ClientTest(echo, case_01_one_byte_at_a_time, "")
{
    static const char lines[] = "one byte\nat a time\r\n\n\r\nwith\0NUL\nand a last line\n";
    size_t line = 0;
    for (size_t i = 0; i < sizeof lines - 1; i++) {
        client_send(client, lines + i, 1);
        if (lines[i] == '\n') {
            /* The reply comes with the last byte of its line, and not later. */
            client_expect(client, lines + line, i + 1 - line);
            line = i + 1;
        }
    }
    client_half_close(client);
    client_expect_end(client);
}

/* The slides' input queue was one buffer of 1,024 bytes: a longer line never ended, and cost a
 * core. */
ClientTest(echo, erratum_01_line_longer_than_1024_bytes, "")
{
    static const size_t lengths[] = {1022, 1023, 1024, 1025, 2048, 5000, 65536};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t length;
        char *line = line_of(lengths[i], "\n", &length);
        client_send(client, line, length);
        client_expect(client, line, length);
        free(line);
    }
}

/* Where a server keeps lines in blocks, the borders are where bytes get lost. */
ClientTest(echo, lines_around_powers_of_two, "")
{
    for (size_t power = 64; power <= 32768; power *= 2) {
        for (size_t content = power - 3; content <= power + 2; content++) {
            size_t length;
            char *line = line_of(content, content % 2 ? "\r\n" : "\n", &length);
            client_send(client, line, length);
            client_expect(client, line, length);
            free(line);
        }
    }
}

/** A small generator, so that a failure can be repeated: the seed is fixed. */
static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

ClientTest(echo, random_lines_in_random_pieces, "")
{
    enum { TOTAL = 1 << 20 };
    char *text = malloc(TOTAL);
    cr_assert_not_null(text);
    unsigned state = 20061;
    for (size_t i = 0; i < TOTAL; i++) {
        unsigned random = next_random(&state);
        /* Mostly short lines, some long ones, all byte values. */
        text[i] = random % 97 == 0 && i % 40000 < 30000 ? '\n' : (char)(random % 251);
    }
    text[TOTAL - 1] = '\n';
    for (size_t at = 0; at < TOTAL;) {
        size_t piece = 1 + next_random(&state) % (next_random(&state) % 8 ? 3000 : 100000);
        piece = piece < TOTAL - at ? piece : TOTAL - at;
        while (text[at + piece - 1] != '\n') {
            piece++; /* ends a line, so that this piece can be expected back */
        }
        client_exchange(client, text + at, piece, text + at, piece);
        at += piece;
    }
    client_half_close(client);
    client_expect_end(client);
    free(text);
}

ServerTest(echo, each_client_gets_its_own_lines, "")
{
    enum { CLIENTS = 50, ROUNDS = 10 };
    int clients[CLIENTS];
    char line[64];
    clients_connect(server, clients, CLIENTS, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            snprintf(line, sizeof line, "client %d round %d\n", i, round);
            client_send_text(clients[i], line);
        }
        for (int i = 0; i < CLIENTS; i++) {
            snprintf(line, sizeof line, "client %d round %d\n", i, round);
            client_expect_text(clients[i], line);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_half_close(clients[i]);
        client_expect_end(clients[i]);
    }
}

ServerTest(echo, half_lines_of_two_clients_do_not_mix, "")
{
    int a = client_connect(server);
    int b = client_connect(server);
    client_send_text(a, "first half of a, ");
    client_send_text(b, "first half of b, ");
    int c = client_connect(server);
    client_echo(c, "a third client\n"); /* both halves have most likely arrived by now */
    client_close(c);
    client_ask(b, "second half of b\n", "first half of b, second half of b\n");
    client_ask(a, "second half of a\n", "first half of a, second half of a\n");
}
