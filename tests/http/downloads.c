/*
 * Files that are too large to pass through anybody's memory: sent from the disk to the socket,
 * whatever the client and the file do meanwhile.
 */
#include "site.h"
#include "support/mapped.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(http_downloads, .timeout = 120);

#define HOST "Host: test\r\n"

enum { MIB = 1 << 20, BIG = 64 * MIB, PIECE = 65536 };

static struct reply reply;

static const struct client_buffers small_buffers = {.receive = 16384};

/** Asks for a file and takes the head of the answer. */
static int begin(const struct server_process *server, const char *target)
{
    char request[128];
    int fd = client_connect_with(server, small_buffers);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", target);
    client_send_text(fd, request);
    reply_head(fd, &reply);
    expect_status(&reply, 200);
    return fd;
}

/** Takes some bytes of a sparse file, from an offset that is a multiple of PIECE on. */
static void expect_sparse(int fd, off_t from, size_t length)
{
    static unsigned char got[PIECE];
    static unsigned char expected[PIECE];
    for (size_t done = 0; done < length; done += sizeof got) {
        off_t at = from + (off_t)done;
        size_t count;
        size_t here = length - done < sizeof got ? length - done : sizeof got;
        memcpy(expected, &at, sizeof at);
        enum client_outcome outcome = client_try_receive(fd, got, here, test_deadline(), &count);
        cr_assert_eq(outcome, CLIENT_GOT, "at %lld: %s", (long long)at + (long long)count,
                     client_outcome_text(outcome));
        cr_assert_eq(memcmp(got, expected, here), 0, "in the 64 KiB from %lld", (long long)at);
    }
}

/* Case 4, with a file: byte for byte, to a client that is in no hurry, in bounded memory. */
SiteTest(http_downloads, case_04_a_big_file_to_a_slow_client, " --send-buffer 65536")
{
    site_add_sparse(site, "big.bin", BIG);
    int warm = client_connect(server);
    expect_goes_on(warm);
    long before = probe_resident_kib(server->pid);
    int fd = begin(server, "/big.bin");
    cr_assert_eq(reply.length, BIG);
    for (off_t at = 0; at < BIG; at += 8 * MIB) {
        test_pause_ms(20); /* so that what can pile up does */
        expect_sparse(fd, at, 8 * MIB);
        long more = probe_resident_kib(server->pid) - before;
        cr_assert(probe_sanitized() || more < 1024, "%ld KiB more", more);
    }
    expect_goes_on(fd);
}

/* The next request is not looked at before most of the file has left: one open file for each. */
SiteTest(http_downloads, pipelined_downloads_come_one_after_the_other, " --send-buffer 65536")
{
    enum { DOWNLOADS = 10, SIZE = 4 * MIB };
    static char requests[4096];
    site_add_sparse(site, "file.bin", SIZE);
    int fd = client_connect_with(server, small_buffers);
    expect_goes_on(fd);
    long before = probe_descriptors(server->pid);
    for (int i = 0; i < DOWNLOADS; i++) {
        strcat(requests, "GET /file.bin HTTP/1.1\r\n" HOST "\r\n");
    }
    client_send_text(fd, requests);
    client_await_reply(fd);
    test_pause_ms(50);
    cr_assert_leq(probe_descriptors(server->pid), before + 1);
    for (int i = 0; i < DOWNLOADS; i++) {
        reply_head(fd, &reply);
        expect_status(&reply, 200);
        expect_sparse(fd, 0, SIZE);
    }
    expect_goes_on(fd);
    cr_assert(probe_await_descriptors(server->pid, before), "a file stays open");
}

VisitTest(http_downloads, a_part_from_the_middle_of_a_big_file, "")
{
    site_add_sparse(site, "big.bin", BIG);
    client_send_text(fd, "GET /big.bin HTTP/1.1\r\n" HOST "Range: bytes=33554432-34603007\r\n\r\n");
    reply_head(fd, &reply);
    expect_status(&reply, 206);
    cr_assert_str_eq(reply_field(&reply, "Content-Range"), "bytes 33554432-34603007/67108864");
    cr_assert_eq(reply.length, MIB);
    expect_sparse(fd, 32 * MIB, MIB);
    expect_goes_on(fd);
}

/* More than 32 bits can count: its end is fetched, and the beginning of a part of which they would
 * count 100 bytes. */
VisitTest(http_downloads, a_file_of_five_gigabytes, "")
{
    const off_t size = (off_t)5 << 30;
    int file = open(site_path(site, "huge.bin"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert_eq(ftruncate(file, size), 0);
    cr_assert_eq(pwrite(file, "the end", 7, size - 7), 7);
    close(file);
    const struct reply *answer = get(fd, "/huge.bin", "Range: bytes=-7\r\n");
    expect_status(answer, 206);
    expect_body(answer, "the end");
    cr_assert_str_eq(reply_field(answer, "Content-Range"),
                     "bytes 5368709113-5368709119/5368709120");
    answer = get(fd, "/huge.bin", "Range: bytes=5368609120-\r\n");
    expect_status(answer, 206);
    cr_assert_eq(answer->got, 100000);
    client_close(fd);

    fd = begin(server, "/huge.bin");
    cr_assert_eq(reply.length, size);
    client_close(fd);

    fd = client_connect(server);
    client_send_text(fd, "GET /huge.bin HTTP/1.1\r\n" HOST "Range: bytes=1-4294967396\r\n\r\n");
    reply_head(fd, &reply);
    expect_status(&reply, 206);
    cr_assert_eq(reply.length, ((off_t)4 << 30) + 100);
    static unsigned char got[MIB];
    client_expect(fd, got, sizeof got);
}

/* ---- what the file does meanwhile ---- */

/* Fewer bytes than were promised, and then the end: no padding, no endless loop. */
SiteTest(http_downloads, a_file_that_becomes_shorter, "")
{
    unsigned char *rest = mapped(BIG);
    site_add_sparse(site, "big.bin", BIG);
    int fd = begin(server, "/big.bin");
    expect_sparse(fd, 0, MIB);
    cr_assert_eq(truncate(site_path(site, "big.bin"), BIG / 2), 0);
    size_t got;
    enum client_outcome outcome = client_try_receive(fd, rest, BIG, test_deadline(), &got);
    cr_assert(outcome == CLIENT_ENDED || outcome == CLIENT_RESET, "%s",
              client_outcome_text(outcome));
    cr_assert_leq(got + MIB, BIG / 2, "%zu bytes", got + MIB);
    client_close(fd);
    fd = client_connect(server);
    expect_goes_on(fd);
    cr_assert_lt(probe_busy_during(server->pid, 100), 0.5, "it spins");
}

SiteTest(http_downloads, a_file_that_grows_or_goes_is_sent_as_it_was_promised, "")
{
    site_add_sparse(site, "grows.bin", BIG / 4);
    site_add_sparse(site, "goes.bin", BIG / 4);
    int grows = begin(server, "/grows.bin");
    int goes = begin(server, "/goes.bin");
    cr_assert_eq(truncate(site_path(site, "grows.bin"), BIG), 0);
    cr_assert_eq(unlink(site_path(site, "goes.bin")), 0);
    expect_sparse(grows, 0, BIG / 4);
    expect_sparse(goes, 0, BIG / 4);
    expect_goes_on(grows);
    expect_status(get(goes, "/goes.bin", ""), 404);
}

/* ---- what the client does meanwhile ---- */

/* Cases 7 and 8: no file stays open for a client that is gone. */
SiteTest(http_downloads, case_08_clients_that_vanish_in_the_middle, "")
{
    enum { CLIENTS = 10 };
    site_add_sparse(site, "big.bin", BIG);
    int warm = client_connect(server);
    expect_goes_on(warm);
    long before = probe_descriptors(server->pid);
    for (int i = 0; i < CLIENTS; i++) {
        int fd = begin(server, "/big.bin");
        expect_sparse(fd, 0, PIECE);
        if (i % 2 == 0) {
            client_reset(fd);
        } else {
            client_close(fd);
        }
    }
    cr_assert(probe_await_descriptors(server->pid, before), "%ld descriptors, %ld before",
              probe_descriptors(server->pid), before);
    expect_goes_on(warm);
}

SiteTest(http_downloads, case_06_a_client_that_half_closes_gets_all_of_it, "")
{
    site_add_sparse(site, "file.bin", BIG / 4);
    int fd = begin(server, "/file.bin");
    client_half_close(fd);
    expect_sparse(fd, 0, BIG / 4);
    client_expect_end(fd);
}

/* Case 11: he costs a descriptor and no memory, and with a progress timeout not even that. */
SiteTest(http_downloads, case_13_a_client_that_takes_nothing,
         " --idle-timeout 0 --progress-timeout 0.5 --send-buffer 16384")
{
    site_add_sparse(site, "big.bin", BIG);
    begin(server, "/big.bin");
    server_await_counter(server, "timed_out", 1);
    server_await_counter(server, "closed", 1);
}

/* Case 29: one worker, one fast download that never ends, and others that want a page. */
Test(http_downloads, case_29_a_download_does_not_hold_up_the_others)
{
    enum { PAGES = 50 };
    const off_t size = (off_t)1 << 40;
    struct site site = site_open();
    int file = open(site_path(&site, "endless.bin"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert_eq(ftruncate(file, size), 0);
    close(file);
    struct server_process server =
        server_has_option("--workers") ? site_serve(&site, " --workers 1") : site_serve(&site, "");
    int fast = begin(&server, "/endless.bin");
    int other = client_connect(&server);
    static char dropped[MIB];
    for (int i = 0; i < PAGES; i++) {
        size_t got;
        client_send_text(other, "GET /page.txt HTTP/1.1\r\n" HOST "\r\n");
        double end = test_deadline();
        while (!test_await(other, 1, test_now())) { /* POLLIN */
            client_try_receive(fast, dropped, sizeof dropped, test_now() + 1, &got);
            cr_assert_lt(test_now(), end, "page %d does not come", i);
        }
        reply_take(other, &reply, false);
        expect_status(&reply, 200);
    }
    server_close_all(&server);
    site_close(&site);
}

/* ---- a close that the client asked for ---- */

/* The drain timeout is for the server's end, and here is none: a client that pauses gets the rest.
 */
static void download_slowly(const char *request_line, const char *fields)
{
    enum { PAUSE_MS = 300 };
    struct site site = site_open();
    site_add_sparse(&site, "big.bin", BIG);
    struct server_process server = site_serve(&site, " --drain-timeout 0.1");
    int fd = client_connect_send(&server, request_line);
    client_send_text(fd, fields);
    reply_head(fd, &reply);
    expect_status(&reply, 200);
    test_pause_ms(PAUSE_MS); /* what is asked: does the server wait? */
    expect_sparse(fd, 0, BIG);
    client_expect_end(fd);
    server_close_all(&server);
    site_close(&site);
}

Test(http_downloads, with_connection_close_outlasts_the_drain_timeout)
{
    download_slowly("GET /big.bin HTTP/1.1\r\n", HOST "Connection: close\r\n\r\n");
}

Test(http_downloads, of_http_1_0_outlasts_the_drain_timeout)
{
    download_slowly("GET /big.bin HTTP/1.0\r\n", "\r\n");
}

/* ---- the end ---- */

/* Case 39: a download that is under way is given the drain timeout, and no longer. */
Test(http_downloads, case_39_a_stopping_server_finishes_a_download_in_time)
{
    struct site site = site_open();
    site_add_sparse(&site, "file.bin", BIG / 4);
    struct server_process server = site_serve(&site, " --drain-timeout 20");
    int fd = begin(&server, "/file.bin");
    server_signal(&server, SIGTERM);
    client_await_refusal(&server);
    expect_sparse(fd, 0, BIG / 4);
    client_expect_end(fd);
    client_close(fd);
    server_expect_exit(&server);
    site_close(&site);
}

Test(http_downloads, case_39_a_stopping_server_does_not_wait_for_ever)
{
    struct site site = site_open();
    site_add_sparse(&site, "big.bin", BIG);
    struct server_process server = site_serve(&site, " --drain-timeout 0.3");
    int fd = begin(&server, "/big.bin");
    double start = test_now();
    server_stop(&server);
    cr_assert_geq(test_now() - start, 0.25);
    client_close(fd);
    site_close(&site);
}
