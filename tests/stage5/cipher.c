/*
 * --cipher, from outside: what passes on the wire is not the clear text, whatever the application
 * and however it sends it; the handshake, right and wrong; and that an application behind it keeps
 * its limits.
 */
#include "cipher_client.h"
#include "support/backend.h"
#include "support/deadline.h"
#include "support/logged.h"
#include "support/probe.h"
#include "support/server_process.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cipher_place place;

static void make_place(void)
{
    cipher_place_make(&place);
}

static void remove_place(void)
{
    cipher_place_remove(&place);
}

TestSuite(stage5_cipher, .init = make_place, .fini = remove_place, .timeout = 120);

/** A server with the cipher and these options. */
#define serve(options) server_start("--cipher %s %s", place.key_file, options)

static void expect_echo(const struct server_process *server)
{
    struct cipher_client client;
    cipher_open(&client, server, place.key);
    cipher_send_text(&client, "hello\n");
    cipher_expect_text(&client, "hello\n");
    cipher_close(&client);
}

/* ---- what passes on the wire ---- */

enum { PERIOD = 4099 };

/* A file of that size, the same bytes over and over. */
static void make_file(const char *name, size_t size, unsigned char *period)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", place.folder, name);
    cr_assert_eq(getentropy(period, 256), 0);
    for (size_t i = 256; i < PERIOD; i++) {
        period[i] = (unsigned char)(period[i - 256] + i / 256);
    }
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file);
    for (size_t i = 0; i < size; i += PERIOD) {
        fwrite(period, 1, size - i < PERIOD ? size - i : PERIOD, file);
    }
    cr_assert_eq(fclose(file), 0);
}

static void expect_file(struct cipher_client *client, size_t size, const unsigned char *period)
{
    cipher_take_until(client, "\r\n\r\n");
    const unsigned char *body = cipher_take(client, size);
    for (size_t i = 0; i < size; i += PERIOD) {
        size_t here = size - i < PERIOD ? size - i : PERIOD;
        cr_assert_eq(memcmp(body + i, period, here), 0, "at %zu", i);
    }
}

/* A file goes out by a path of its own (sendfile), and a small one by another. */
static void expect_hidden_files(const char *options, size_t large)
{
    enum { SMALL = 3000, MIDDLE = 35000 };
    unsigned char periods[3][PERIOD];
    struct cipher_client client;
    make_file("small", SMALL, periods[0]);
    make_file("middle", MIDDLE, periods[1]);
    make_file("large", large, periods[2]);
    struct server_process server =
        server_start("--cipher %s --app http --root %s %s", place.key_file, place.folder, options);
    cipher_open(&client, &server, place.key);
    cipher_send_text(&client, "GET /middle HTTP/1.1\r\nHost: here\r\n\r\n"
                              "GET /small HTTP/1.1\r\nHost: here\r\n\r\n"
                              "GET /middle HTTP/1.1\r\nHost: here\r\n\r\n");
    expect_file(&client, MIDDLE, periods[1]);
    expect_file(&client, SMALL, periods[0]);
    expect_file(&client, MIDDLE, periods[1]);
    cipher_expect_hidden(&client, (size_t)-1);
    cipher_close(&client);
    cipher_open(&client, &server, place.key);
    cipher_send_text(&client, "GET /large HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    expect_file(&client, large, periods[2]);
    cipher_expect_end(&client);
    cipher_expect_hidden(&client, 1000 + 2 * PERIOD);
    cipher_close(&client);
    server_stop(&server);
}

/* Much more than the socket takes at once; and more blocks than two bytes count, where these cost
 * little. */
static size_t large(void)
{
    return probe_sanitized() ? 1000000 : 5000000;
}

Test(stage5_cipher, files_are_hidden)
{
    expect_hidden_files("--send-buffer 262144", large());
}

Test(stage5_cipher, files_are_hidden_behind_other_elements_and_in_workers)
{
    expect_hidden_files("--send-buffer 262144 --workers 2 --log-traffic --suspicious 127.0.0.1 "
                        "--throttle 1000000000",
                        large());
}

/** A test whose body has `server`, a pointer, which was started with the key and these options. */
#define CipherTest(suite, name, options)                                                           \
    TestWith(suite, name, struct server_process, server, *server = serve(options),                 \
             server_close_all(server))

CipherTest(stage5_cipher, mail_is_hidden, "--app pop3")
{
    struct cipher_client client;
    cipher_open(&client, server, place.key);
    cipher_take_until(&client, "\r\n");
    cipher_send_text(&client, "USER mrose\r\nPASS tanstaaf\r\nLIST\r\n");
    cipher_take_until(&client, "\r\n.\r\n");
    cipher_send_text(&client, "RETR 1\r\n");
    const char *mail = cipher_take_until(&client, "\r\n.\r\n");
    cr_assert(strncmp(mail, "+OK", 3) == 0 && strlen(mail) > 100, "%s", mail);
    cipher_send_text(&client, "QUIT\r\n");
    cipher_take_until(&client, "\r\n");
    cipher_expect_end(&client);
    cipher_expect_hidden(&client, (size_t)-1);
    cipher_close(&client);
}

/* Other connections' handlers send, in other threads; short lines by copy, long ones shared. */
CipherTest(stage5_cipher, talk_is_hidden, "--app chat --dispatchers 2 --workers 2")
{
    enum { USERS = 4, LINES = 50 };
    struct cipher_client users[USERS];
    char line[1000];
    for (int i = 0; i < USERS; i++) {
        cipher_open(&users[i], server, place.key);
        cipher_take_until(&users[i], "\n");
    }
    for (int i = 0; i < LINES; i++) {
        int length = snprintf(line, sizeof line, "%d %s %*s\n", i, "what nobody else may hear",
                              i % 2 * 700 + 1, ".");
        cipher_send(&users[i % USERS], line, (size_t)length);
    }
    for (int i = 0; i < USERS; i++) {
        for (int heard = 0; heard < LINES - (LINES + USERS - 1 - i) / USERS;) {
            heard += strstr(cipher_take_until(&users[i], "\n"), "nobody else") != NULL;
        }
        cipher_expect_hidden(&users[i], (size_t)-1);
    }
    for (int i = 0; i < USERS; i++) {
        cipher_close(&users[i]);
    }
}

/* The element stands next to the channel, so that the log shows what the application gets. */
CipherTest(stage5_cipher, the_log_shows_clear_text, "--log-traffic")
{
    char errors[4096];
    expect_echo(server);
    server_errors(server, errors, sizeof errors);
    cr_assert_eq(logged(errors, "input", " bytes=6 text=\"hello\\n\""), 1, "%s", errors);
    cr_assert_eq(logged(errors, "output", " bytes=6 text=\"hello\\n\""), 1, "%s", errors);
}

CipherTest(stage5_cipher, whoever_is_turned_away_is_told_in_clear, "--max-connections 1")
{
    struct cipher_client client;
    cipher_open(&client, server, place.key);
    cipher_send_text(&client, "hello\n");
    cipher_expect_text(&client, "hello\n");
    int other = client_connect(server);
    client_expect_text(other, "ERR server busy\n");
    client_expect_end(other);
    client_close(other);
    cipher_close(&client);
}

/* ---- beginning ---- */

CipherTest(stage5_cipher, the_nonce_comes_in_pieces_and_with_what_follows_it, "--max-line 7")
{
    struct cipher_client client;
    char line[34];
    cipher_connect(&client, server, place.key);
    cipher_line(&client, place.key, line);
    for (size_t i = 0; i + 1 < sizeof line; i++) {
        client_send(client.fd, line + i, 1);
        client_await_delivered(client.fd);
    }
    unsigned char rest[8] = "\nhello\n";
    chacha20_xor(&client.went.stream, 0, rest + 1, rest + 1, 6);
    client_send(client.fd, rest, 7);
    cipher_expect_text(&client, "hello\n");
    cipher_close(&client);
}

static char last_line[34];

/* A client that begins with this is closed, and hears nothing but the server's line. */
static void expect_refused(const struct server_process *server, const char *start)
{
    size_t got;
    int client = client_connect(server);
    client_try_receive(client, last_line, sizeof last_line, test_now() + 30, &got);
    cr_assert_eq(got, sizeof last_line);
    client_send_text(client, start);
    client_expect_gone(client);
    client_close(client);
    expect_echo(server);
}

CipherTest(stage5_cipher, another_first_line_is_refused_at_once,
           "--request-timeout 0 --idle-timeout 0 --app echo")
{
    expect_refused(server, "hello\n");
    expect_refused(server, "\n");
    expect_refused(server, "chacha20 000102030405060708090a0b0\n");
    expect_refused(server, "chacha20 000102030405060708090a0b\r\n");
    expect_refused(server, "chacha20 000102030405060708090a\n");
    expect_refused(server, "chacha20 000102030405060708090A0B\n");
    expect_refused(server, "chacha20 00010203040506070809 a0b\n");
}

/* With that the two directions would be encrypted with the same stream. */
CipherTest(stage5_cipher, a_servers_own_line_is_refused, "--request-timeout 0 --idle-timeout 0")
{
    char line[35];
    size_t got;
    int client = client_connect(server);
    client_try_receive(client, line, 34, test_now() + 30, &got);
    cr_assert_eq(got, 34);
    client_send(client, line, got);
    client_expect_gone(client);
    client_close(client);
    expect_echo(server);
}

CipherTest(stage5_cipher, an_endless_line_is_refused, "--request-timeout 0 --idle-timeout 0")
{
    static char zeros[65536];
    size_t got;
    memset(zeros, '0', sizeof zeros);
    int client = client_connect(server);
    client_try_receive(client, last_line, sizeof last_line, test_now() + 30, &got);
    client_send_text(client, "chacha20 ");
    client_push(client, zeros, sizeof zeros, 1 << 20, 10000);
    client_expect_gone(client);
    client_close(client);
    expect_echo(server);
}

/* Nothing, a part of it, and a byte now and then: each has the time of a request, and no more. */
CipherTest(stage5_cipher, a_nonce_that_never_comes_is_cut_at_the_request_timeout,
           "--request-timeout 0.2 --idle-timeout 0")
{
    static const char *const starts[] = {"", "chacha20 0001", "chacha20 000102030405060708090a0b"};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        char line[34];
        size_t got;
        int client = client_connect(server);
        client_try_receive(client, line, sizeof line, test_now() + 30, &got);
        client_send_text(client, starts[i]);
        client_expect_end(client);
        client_close(client);
    }
    server_await_counter(server, "timed_out", 3);
    expect_echo(server);
}

CipherTest(stage5_cipher, two_connections_never_have_the_same_nonce, "")
{
    char lines[50][34];
    for (int i = 0; i < 50; i++) {
        size_t got;
        int client = client_connect(server);
        client_try_receive(client, lines[i], 34, test_now() + 30, &got);
        client_close(client);
        for (int j = 0; j < i; j++) {
            cr_assert_neq(memcmp(lines[i], lines[j], 34), 0, "%.33s", lines[i]);
        }
    }
}

/* ---- afterwards ---- */

/* What it sends and gets is noise; the others notice nothing. */
CipherTest(stage5_cipher, another_key_gets_noise, "--request-timeout 0.5")
{
    struct cipher_client client;
    char got[4096];
    size_t length;
    cipher_open(&client, server, place.other_key);
    cipher_send_text(&client, "hello, is anybody there?\nhello\nhello\n");
    expect_echo(server);
    client_half_close(client.fd);
    cr_assert_eq(client_try_receive(client.fd, got, sizeof got, test_now() + 30, &length),
                 CLIENT_ENDED);
    chacha20_xor(&client.came.stream, 0, (unsigned char *)got, (unsigned char *)got, length);
    cr_assert_null(memmem(got, length, "hello", 5));
    cipher_close(&client);
}

/* Erratum 20 behind the element: a byte now and then does not put it off. */
CipherTest(stage5_cipher, half_a_line_is_cut_at_the_request_timeout,
           "--request-timeout 0.3 --idle-timeout 0")
{
    struct cipher_client client;
    cipher_open(&client, server, place.key);
    cipher_send_text(&client, "a whole line\n");
    cipher_expect_text(&client, "a whole line\n");
    double begun = test_now();
    char sent = 'x';
    while (!test_await(client.fd, POLLIN, test_now() + 0.02)) {
        cr_assert_lt(test_now() - begun, 20, "it is still there");
        chacha20_xor(&client.went.stream, client.went.wire.length++, (unsigned char *)&sent,
                     (const unsigned char *)"x", 1);
        client_try_send(client.fd, &sent, 1, test_now() + 1);
    }
    cr_assert_geq(test_now() - begun, 0.25);
    client_expect_gone(client.fd);
    server_await_counter(server, "timed_out", 1);
    cipher_close(&client);
}

CipherTest(stage5_cipher, lines_in_one_segment_are_all_answered_and_long_ones_refused,
           "--max-line 20")
{
    struct cipher_client client;
    size_t length;
    char *lines = lines_numbered("line", 500, &length);
    cipher_open(&client, server, place.key);
    cipher_send(&client, lines, length);
    cipher_expect_text(&client, lines);
    cipher_send_text(&client, "a line that is longer than it may be\n");
    cipher_expect_text(&client, "ERR line too long\n");
    cipher_expect_end(&client);
    cipher_close(&client);
    free(lines);
}

/* ---- a relay between ---- */

CipherTest(stage5_cipher, a_relay_encrypts_what_passes_to_its_servers, "")
{
    struct cipher_client client;
    struct server_process relay =
        server_start("--app relay --to 127.0.0.1:%d --cipher-to %s", server->port, place.key_file);
    struct server_process both =
        server_start("--app relay --to 127.0.0.1:%d --cipher %s --cipher-to %s", server->port,
                     place.other_key_file, place.key_file);
    struct server_process plain =
        server_start("--app relay --to 127.0.0.1:%d --cipher %s", relay.port, place.other_key_file);
    int in_clear = client_connect_echo(&relay, "hello\n");
    client_close(in_clear);
    cipher_open(&client, &both, place.other_key);
    cipher_send_text(&client, "hello\n");
    cipher_expect_text(&client, "hello\n");
    cipher_close(&client);
    cipher_open(&client, &plain, place.other_key);
    cipher_send_text(&client, "through all three\n");
    cipher_expect_text(&client, "through all three\n");
    cipher_close(&client);
    server_stop(&plain);
    server_stop(&both);
    server_stop(&relay);
}

/* A target that says nothing, half a line, or something else; and one that sends the relay's own
 * line back. */
Test(stage5_cipher, a_target_without_a_nonce_is_cut_and_its_client_with_it)
{
    static const char *const answers[] = {"", "chacha20 8001", "HTTP/1.1 400 Bad Request\r\n\r\n"};
    enum { ANSWERS = sizeof answers / sizeof answers[0] };
    struct backend target = backend_open(10);
    struct server_process relay = server_start("--app relay --to 127.0.0.1:%d --cipher-to %s "
                                               "--request-timeout 0.2 --idle-timeout 0",
                                               target.port, place.key_file);
    for (size_t i = 0; i <= ANSWERS; i++) {
        char line[34] = "";
        size_t got = 0;
        int client = client_connect_send(&relay, "hello\n");
        int server = backend_accept(&target);
        while (got < sizeof line - 1) {
            size_t more;
            cr_assert_eq(client_try_receive(server, line + got, sizeof line - 1 - got,
                                            test_now() + 30, &more),
                         CLIENT_GOT);
            got += more;
        }
        client_send_text(server, i < ANSWERS ? answers[i] : line);
        client_expect_gone(client);
        client_close(client);
        client_close(server);
    }
    server_await_counter(&relay, "timed_out", 2);
    server_stop(&relay);
    backend_close(&target);
}

/* ---- key files ---- */

static void expect_no_start(const char *content, const char *says)
{
    char path[128];
    snprintf(path, sizeof path, "%s/bad", place.folder);
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file);
    fputs(content, file);
    fclose(file);
    chmod(path, 0600);
    struct program_result result = program_run("--port 0 --cipher %s", path);
    cr_assert_eq(result.exit_status, 1, "%s", result.err);
    cr_assert_not_null(strstr(result.err, says), "'%s' in: %s", says, result.err);
    cr_assert_eq(strchr(result.err, '\n'), result.err + strlen(result.err) - 1, "%s", result.err);
}

#define DIGITS "00112233445566778899aabbccddeeff"

Test(stage5_cipher, key_files_that_have_no_key)
{
    expect_no_start("", "expected a key of 64 hexadecimal digits, got 0\n");
    expect_no_start("a key\n", "expected a key of 64 hexadecimal digits, got 1\n");
    expect_no_start(DIGITS DIGITS "0", "expected a key of 64 hexadecimal digits, got 64 and more");
    struct program_result result = program_run("--port 0 --cipher %s/none", place.folder);
    cr_assert_eq(result.exit_status, 1);
    cr_assert_not_null(strstr(result.err, "cannot read the key from "), "%s", result.err);
    result = program_run("--port 0 --cipher-to %s", place.folder);
    cr_assert_eq(result.exit_status, 1);
    cr_assert_not_null(strstr(result.err, "Is a directory"), "%s", result.err);
}

Test(stage5_cipher, a_key_that_others_can_read_is_warned_of)
{
    char errors[4096];
    struct server_process server = serve("");
    server_errors(&server, errors, sizeof errors);
    cr_assert_str_eq(errors, "");
    expect_echo(&server);
    server_stop(&server);
    chmod(place.key_file, 0640);
    server = serve("");
    server_errors(&server, errors, sizeof errors);
    cr_assert_not_null(strstr(errors, "event=key_readable"), "%s", errors);
    expect_echo(&server);
    server_stop(&server);
}
