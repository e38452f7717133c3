/*
 * The steps that make the core.
 */
#include "step.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- C.1: a queue ---- */

/* A client whose line is too long learns why the connection ends, and reads it when it has sent
 * all.
 */
Test(stepC_1, a_client_learns_that_its_line_is_too_long)
{
    static const char wanted[] = "ERR line too long\n";
    char answer[64] = "";
    size_t length, got;
    char *line = line_of(200000, "", &length);
    struct server_process server = step_start(0);
    int eve = client_connect(&server);
    client_try_send(eve, line, length, step_patience());
    client_try_receive(eve, answer, sizeof(wanted) - 1, step_patience(), &got);
    verdict(strcmp(answer, wanted) == 0,
            "Eve's line was too long, and all that she heard was \"%s\"", answer);
    client_close(eve);
    free(line);
    step_stop(&server);
}

/* The longest line that is allowed, with either end. */
Test(stepC_1, a_line_of_65536_bytes_is_answered)
{
    enum { LONGEST = 65536 };
    static char line[LONGEST + 2], answer[sizeof(line)];
    struct server_process server = step_start(0);
    int ann = client_connect(&server);
    memset(line, 'x', LONGEST);
    memcpy(line + LONGEST, "\r\n", 2);
    client_try_send(ann, line, sizeof(line), step_patience());
    size_t got = step_receive(ann, answer, sizeof(answer));
    verdict(got == sizeof(line) && memcmp(answer, line, got) == 0,
            "Ann's line has %d bytes and an end of two, and %zu bytes came back", LONGEST, got);
    client_close(ann);
    step_stop(&server);
}

/* ---- C.2: a block that grows ---- */

/* What a client costs that is silent, after it has had an answer of 60,000 bytes. */
static void expect_cheap_silence(long most_kib)
{
    enum { CLIENTS = 100, LINE = 60000 };
    static char line[LINE];
    int clients[CLIENTS];
    struct server_process server = step_start(0);
    client_close(step_client(&server));
    long before = probe_resident_kib(server.pid);
    memset(line, 'x', LINE - 1);
    line[LINE - 1] = '\n';
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = step_client(&server);
    for (int i = 0; i < CLIENTS; i++)
        client_exchange(clients[i], line, LINE, line, LINE);
    long each = (probe_resident_kib(server.pid) - before) / CLIENTS;
    if (probe_sanitized())
        cr_skip("a sanitizer keeps what was freed");
    verdict(each <= most_kib,
            "%d clients have had an answer each and are silent, and hold %ld KiB each "
            "(a program that is built with a sanitizer keeps what it has freed)",
            CLIENTS, each);
    for (int i = 0; i < CLIENTS; i++)
        client_close(clients[i]);
    step_stop(&server);
}

Test(stepC_2, who_has_sent_nothing_new_holds_no_input)
{
    expect_cheap_silence(90);
}

/* ---- C.3: a chain ---- */

Test(stepC_3, who_has_read_its_answers_holds_no_output)
{
    expect_cheap_silence(16);
}

/* ---- C.7: a reserve ---- */

/* That a client reads this text, and nothing else, is a verdict. */
static void expect_text(int client, const char *wanted, const char *what)
{
    char answer[64] = "";
    size_t got;
    client_try_receive(client, answer, strlen(wanted), step_patience(), &got);
    verdict(strcmp(answer, wanted) == 0, "%s, and all that she heard was \"%s\"", what, answer);
}

/* A server with 64 descriptors has none for the seventieth client. */
Test(stepC_7, a_client_learns_that_there_is_no_room)
{
    enum { DESCRIPTORS = 64, CROWD = 70 };
    int clients[CROWD];
    struct server_process server = step_start(DESCRIPTORS);
    for (int i = 0; i < CROWD; i++)
        clients[i] = client_connect(&server);
    expect_text(clients[CROWD - 1], "ERR server busy\n", "Ann came when no descriptor was left");
    for (int i = 0; i < CROWD; i++)
        client_close(clients[i]);
    step_stop(&server);
}

/* ---- C.8: four times ---- */

Test(stepC_8, a_line_without_an_end_is_not_waited_for)
{
    char answer[64];
    size_t got;
    struct server_process server = step_start_with("--request-timeout 0.3");
    int mallory = client_connect_send(&server, "hel");
    enum client_outcome outcome =
        client_try_receive(mallory, answer, sizeof(answer), step_patience(), &got);
    verdict(outcome == CLIENT_ENDED,
            "Mallory has 300 ms for her line, and after %d ms she is still connected",
            step_patience_ms());
    client_close(mallory);
    step_stop(&server);
}

/* ---- C.9: a place ---- */

Test(stepC_9, a_client_without_a_place_is_told_so)
{
    struct server_process server = step_start_with("--max-connections 2");
    int bob = step_client(&server), carl = step_client(&server);
    int ann = client_connect(&server);
    expect_text(ann, "ERR server busy\n", "There are two places, and Ann came as the third");
    client_close(ann);
    client_close(bob);
    client_close(carl);
    step_stop(&server);
}

/* ---- C.16: what it may take ---- */

/*
 * Eve's line is too long, and most of the answers that come before are still in the server's send
 * buffer. She begins to read later than a server lingers, and does not stop sending until then.
 */
Test(stepC_16, who_reads_late_gets_all_answers)
{
    enum { LINES = 25, LINE = 60000, LATER_MS = 3000 };
    static char line[LINE], answers[LINES * LINE + sizeof("ERR line too long")];
    size_t length, got, wanted = sizeof(answers);
    char *endless = line_of(200000, "", &length);
    struct server_process server = step_start(0);
    int eve = client_connect(&server);
    memset(line, 'x', LINE - 1);
    line[LINE - 1] = '\n';
    for (int i = 0; i < LINES; i++)
        client_try_send(eve, line, LINE, step_patience());
    client_try_send(eve, endless, length, step_patience());
    test_pause_ms(LATER_MS);
    client_try_send(eve, "more\n", 5, step_patience());
    client_try_receive(eve, answers, wanted, step_patience(), &got);
    verdict(got == wanted, "Eve reads %d ms later, and gets %zu of %zu bytes", LATER_MS, got,
            wanted);
    client_close(eve);
    free(endless);
    step_stop(&server);
}

/* ---- C.22: behind a proxy ---- */

/* What a proxy sends ahead of the bytes of 203.0.113.7, in two pieces at most. */
static const char proxy_header[] =
    "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x07\x7f\0\0\x01\x12\x67\0\x50";

static void expect_no_header_answered(size_t first_piece)
{
    enum { LENGTH = sizeof(proxy_header) - 1 };
    char answer[LENGTH] = "";
    size_t got;
    struct server_process server =
        step_start_with(step_is_core_before(22) ? "" : "--proxy-protocol 127.0.0.1");
    int ann = client_connect(&server);
    client_send(ann, proxy_header, first_piece);
    if (first_piece < LENGTH) {
        step_await_read(&server, ann);
        client_try_send(ann, proxy_header + first_piece, LENGTH - first_piece, step_patience());
    }
    client_try_send(ann, "hello\n", 6, step_patience());
    client_try_receive(ann, answer, 6, step_patience(), &got);
    verdict(got == 6 && memcmp(answer, "hello\n", 6) == 0,
            "Ann said hello behind a proxy's header, and what came back are %zu other bytes", got);
    client_close(ann);
    step_stop(&server);
}

Test(stepC_22, a_proxys_header_is_no_line)
{
    expect_no_header_answered(sizeof(proxy_header) - 1);
}

/* Anybody can send such a header, so it is believed from a list only. */
Test(stepC_22, holds_whoever_is_no_proxy_is_not_served)
{
    char answer[64];
    size_t got;
    struct server_process server =
        step_start_with(step_is_core_before(22) ? "" : "--proxy-protocol 203.0.113.0/24");
    int eve = client_connect(&server);
    client_try_send(eve, proxy_header, sizeof(proxy_header) - 1, step_patience());
    client_try_receive(eve, answer, sizeof(answer), step_patience(), &got);
    verdict(got == 0, "Eve is no proxy, and was answered %zu bytes", got);
    client_close(eve);
    step_stop(&server);
}

/* ---- C.23: in pieces ---- */

Test(stepC_23, a_header_comes_in_two_pieces)
{
    expect_no_header_answered(20);
}

/* ---- C.27: how late ---- */

/* Waits until the server's log has a word, and how it goes on; NULL if it does not come. */
static const char *await_word(struct server_process *server, const char *word)
{
    static char log[8192];
    const char *found;
    double end = step_patience();
    do {
        test_pause_ms(1);
        server_errors(server, log, sizeof(log));
        found = strstr(log, word);
    } while ((found == NULL || strchr(found, '\n') == NULL) && test_left_ms(end) > 0);
    return found != NULL ? found + strlen(word) : NULL;
}

/* Whoever came while a line took 300 ms waited as long as that, at worst. */
Test(stepC_27, a_report_says_how_late_the_loop_was)
{
    struct server_process server = step_start_with("--block-ms 300");
    int carl = step_client(&server);
    server_signal(&server, SIGUSR1);
    const char *lag = await_word(&server, "lag_max_us=");
    verdict(lag != NULL && atol(lag) >= 300000,
            "a line took 300 ms, and the report says that the loop was late by %.9s us at most",
            lag != NULL ? lag : "?");
    client_close(carl);
    step_stop(&server);
}

/* ---- C.28: who holds it up ---- */

/*
 * Told while it lasts: a handler that takes three seconds. The log names the client's port. It also
 * says that the handler is back: at the latest when main looks the next time, where it is main that
 * looks.
 */
Test(stepC_28, a_client_that_holds_the_loop_up_is_named)
{
    char peer[64];
    struct sockaddr_in own;
    socklen_t size = sizeof(own);
    struct server_process server = step_start_with("--block-ms 3000 --cost-for slow");
    int carl = step_client(&server);
    getsockname(carl, (struct sockaddr *)&own, &size);
    snprintf(peer, sizeof(peer), "peer=127.0.0.1:%d ", ntohs(own.sin_port));
    step_ask(carl, "slow\n");
    const char *said = await_word(&server, "event=handler_slow ");
    verdict(said != NULL && strstr(said, peer) != NULL,
            "Carl's line takes three seconds, and in %d ms the log does not say so",
            step_patience_ms());
    client_expect_text(carl, "slow\n");
    verdict(await_word(&server, "event=handler_back ") != NULL,
            "Carl's line is over, and in %d ms the log does not say so", step_patience_ms());
    client_close(carl);
    step_stop(&server);
}

/* ---- C.29: a future ---- */

/* The application takes a minute for a line, and the server has half a second to stop. */
Test(stepC_29, a_handler_that_hangs_is_cut_short)
{
    struct server_process server = step_start_with("--block-ms 60000 --drain-timeout 0.5");
    int carl = client_connect(&server);
    step_ask(carl, "how long?\n");
    step_await_read(&server, carl);
    server_signal(&server, SIGTERM);
    step_stop_told(&server);
    client_close(carl);
}

/* ---- C.30: an element, and C.31: both sides ---- */

static void expect_shown(const char *word, const char *what)
{
    struct server_process server = step_start_with(step_is_core_before(30) ? "" : "--log-traffic");
    int ann = step_client(&server);
    verdict(await_word(&server, word) != NULL, "Ann said hello, and the log does not show %s",
            what);
    client_close(ann);
    step_stop(&server);
}

Test(stepC_30, what_comes_in_is_shown)
{
    expect_shown("event=input", "that");
}

Test(stepC_31, what_goes_out_is_shown)
{
    expect_shown("event=output", "what she was answered");
}

Test(stepC_31, each_line_is_shown_as_text)
{
    expect_shown("text=\"hello\\n\"", "her word");
}

/* ---- C.32: a rate ---- */

/* At forty bytes per second Eve's hundred and twenty take three seconds, and the loop sleeps. */
Test(stepC_32, a_client_gets_no_more_than_its_rate)
{
    enum { BYTES = 120 };
    char answers[BYTES];
    struct server_process server = step_start_with(step_is_core_before(32) ? "" : "--throttle 40");
    int eve = client_connect(&server);
    double begin = test_now();
    for (int i = 0; i < BYTES / 6; i++)
        client_send_text(eve, "hello\n");
    double busy = probe_busy_during(server.pid, 200);
    step_expect_alive(&server);
    size_t got = step_receive(eve, answers, BYTES);
    double took = test_now() - begin;
    verdict(got == BYTES, "Eve had %zu of %d bytes, and nothing wakes the rest", got, BYTES);
    verdict(took > 2.5, "Eve had %d bytes, at most 40 in a second, after %.2f s", BYTES, took);
    verdict(busy < 0.5, "while Eve's bytes wait the loop spins");
    client_close(eve);
    step_stop(&server);
}
