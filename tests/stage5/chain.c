/*
 * Chains of handlers in front of real connections: log over throttle over the application. What
 * passes is shown and not changed, and what an application keeps of its connection, which is an
 * element's facade, is good as long as it is kept.
 */
#include "framework.h"

#include "common/apps/log_element.h"
#include "common/apps/throttle_element.h"
#include "support/deadline.h"
#include "support/logged.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(stage5_chain, .timeout = 120);

static struct framework framework;
static struct recorder recorder;

/* ---- a chain in front of the recorder ---- */

static struct input_handler *create_recorder(struct input_handler_factory *self, void *memory)
{
    (void)memory;
    (void)self;
    recorder_init(&recorder);
    return &recorder.handler;
}

static struct input_handler_factory recorders = {.create = create_recorder};
static struct throttle_choice choice;

static bool is_suspicious(struct gatekeeper *self, const struct endpoint *peer)
{
    (void)self;
    (void)peer;
    return true;
}

static struct gatekeeper everybody = {is_suspicious};
static struct throttle_element_factory throttle;
static struct log_element_factory logger;

/** Three elements in front of the recorder: two that log, one that throttles. */
static struct input_handler *make_chain(uint64_t bytes_per_second)
{
    static struct log_element_factory outer_logger;
    static alignas(max_align_t) unsigned char memory[4096]; /* the connection's otherwise */
    struct log *log = &framework.server.log;
    choice =
        (struct throttle_choice){.gatekeeper = &everybody, .bytes_per_second = bytes_per_second};
    struct input_handler_factory *factory = log_element_over(&logger, &recorders, log);
    factory = throttle_element_over(&throttle, factory, &choice);
    factory = log_element_over(&outer_logger, factory, log);
    cr_assert_leq(factory->handler_size, sizeof(memory));
    struct input_handler *outermost = factory->create(factory, memory);
    cr_assert_not_null(outermost);
    cr_assert_neq(outermost, &recorder.handler);
    return outermost;
}

/* What goes to standard error meanwhile. */
static int saved_stderr;
static int shown;

static void divert_stderr(void)
{
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    shown = memfd_create("shown", MFD_CLOEXEC);
    cr_assert_eq(dup2(shown, STDERR_FILENO), STDERR_FILENO);
}

static const char *restore_stderr(void)
{
    static char text[65536];
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    ssize_t length = pread(shown, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    close(shown);
    return text;
}

/** A framework, and a chain for its one connection. */
static struct input_handler *open_with(const char *options, uint64_t bytes_per_second)
{
    framework_open(&framework, "%s", options);
    struct input_handler *chain = make_chain(bytes_per_second);
    divert_stderr();
    framework_run(&framework);
    return chain;
}

/** The client has closed. Returns what was logged. */
static const char *end(void)
{
    server_drop_clients(&framework.process);
    framework_await_closed(&framework, 1);
    framework_stop(&framework);
    recorder_expect_whole_life(&recorder);
    return restore_stderr();
}

static void serve_through_chain(const char *options)
{
    int client = framework_connect(&framework, open_with(options, 1000000));
    client_echo(client, "hello\n");
    client_send_text(client, "big 100000\nclose\n");
    size_t length;
    char *line = line_of(100000, "\n", &length);
    memset(line, 'x', length - 1);
    client_expect(client, line, length);
    client_expect_text(client, "closing\n");
    client_expect_end(client);
    const char *text = end();
    /* Both loggers have seen all of it. */
    cr_assert_eq(logged(text, "begun", " fd="), 2, "%s", text);
    cr_assert_eq(logged(text, "input", " bytes=6 text=\"hello\\n\""), 2, "%s", text);
    cr_assert_eq(logged(text, "output", " bytes=6 text=\"hello\\n\""), 2, "%s", text);
    cr_assert_eq(logged(text, "output", " bytes=100001 shown=60 text=\"xxx"), 2, "%s", text);
    cr_assert_eq(logged(text, "output", " bytes=8 text=\"closing\\n\""), 2, "%s", text);
    cr_assert_eq(logged(text, "ended", "reason=\"closed by the application\""), 2, "%s", text);
    free(line);
}

Test(stage5_chain, a_whole_life_behind_three_elements_in_the_dispatcher)
{
    serve_through_chain("--workers 0");
}

Test(stage5_chain, a_whole_life_behind_three_elements_in_a_worker)
{
    serve_through_chain("--workers 2");
}

/* Any thread may use the facade of an element, as it may the channel's own. */
Test(stage5_chain, others_use_the_facade_of_an_element)
{
    int client = framework_connect(&framework, open_with("--workers 0", 1000000));
    client_echo(client, "hello\n");
    framework_await_asleep(&framework);
    struct channel_facade *facade = recorder_facade(&recorder);
    struct endpoint peer;
    char name[ENDPOINT_TEXT_SIZE];
    channel_peer(facade, &peer);
    endpoint_format(&peer, name);
    cr_assert_eq(strncmp(name, "127.0.0.1:", 10), 0, "%s", name);
    recorder_send(&recorder, "from another thread\n");
    client_expect_text(client, "from another thread\n");
    channel_suspend(facade);
    client_send_text(client, "not yet\n");
    client_expect_silence(client, 30);
    channel_resume(facade);
    client_expect_text(client, "not yet\n");
    channel_close(facade);
    client_expect_end(client);
    end();
}

/* After `stopped`, and after the dispatcher itself is gone: AddressSanitizer would tell. */
Test(stage5_chain, facade_of_an_element_that_is_kept)
{
    int client = framework_connect(&framework, open_with("--workers 0", 1000000));
    client_echo(client, "hello\n");
    client_reset(client);
    framework_await_closed(&framework, 1);
    recorder_await(&recorder, calls[LIFE_STOPPED], 1);
    struct channel_facade *facade = recorder_facade(&recorder);
    channel_retain(facade);
    cr_assert_eq(recorder_send(&recorder, "is anybody there\n"), OUTPUT_BROKEN);
    channel_close(facade);
    channel_suspend(facade);
    framework_stop(&framework);
    restore_stderr();
    recorder_expect_whole_life(&recorder); /* gives one of the two back */
    struct endpoint peer = {.length = 1};
    channel_peer(facade, &peer);
    cr_assert_eq(peer.address.ss_family, AF_INET, "the peer is forgotten");
    channel_release(facade);
}

/* The element has set the rate before the application could send anything. */
Test(stage5_chain, throttled_from_the_first_byte)
{
    struct input_handler *chain = open_with("--workers 0", 100);
    double begun = test_now();
    int client = framework_connect(&framework, chain);
    client_echo(client, "thirty bytes of text, no more\n");
    double took = test_now() - begun;
    cr_assert_gt(took, 0.30 * 0.9, "30 bytes at 100 B/s took %.3f s", took);
    end();
}

/* Elements pass on what the application does not want to hear, and the connection ends all the
 * same. */
Test(stage5_chain, request_timeout_behind_elements)
{
    struct input_handler *chain = open_with("--workers 0 --request-timeout 0.1", 1000000);
    int client = framework_connect(&framework, chain);
    client_echo(client, "hello\n");
    client_send_text(client, "half");
    client_expect_end(client);
    framework_await_closed(&framework, 1);
    cr_assert_eq(framework_count(&framework, COUNTER_TIMED_OUT), 1);
    end();
}

/* Another handler behind the elements: they stay. */
Test(stage5_chain, handler_is_switched_behind_the_elements)
{
    struct recorder second;
    recorder_init(&second);
    struct input_handler *chain = open_with("--workers 0", 1000000);
    recorder.other = &second;
    int client = framework_connect(&framework, chain);
    client_echo(client, "to the first\n");
    client_send_text(client, "switch\n");
    client_echo(client, "to the second\n");
    client_close(client);
    framework_await_closed(&framework, 1);
    framework_stop(&framework);
    const char *text = restore_stderr();
    cr_assert_eq(logged(text, "input", " bytes=14 text=\"to the second\\n\""), 2, "%s", text);
    cr_assert_eq(logged(text, "ended", "reason=\"the client has closed\""), 2, "%s", text);
    cr_assert_eq(atomic_load(&recorder.messages), 2);
    cr_assert_eq(atomic_load(&second.messages), 1);
    cr_assert_eq(atomic_load(&second.calls[LIFE_STOPPED]), 1);
    channel_release(recorder_facade(&recorder));
}

/* The connection has ended too early: the application hears `unused` through all of the elements.
 */
static atomic_int told_unused;

static void note_unused(struct input_handler *self)
{
    (void)self;
    atomic_fetch_add(&told_unused, 1);
}

Test(stage5_chain, unused_reaches_the_application)
{
    struct input_handler_verbs verbs = {.unused = note_unused};
    struct input_handler *chain = open_with("--workers 0", 1000000);
    recorder.handler.verbs = input_handler_complete(&verbs);
    chain->verbs->unused(chain); /* as for one that ends before its PROXY header */
    cr_assert_eq(atomic_load(&told_unused), 1);
    framework_stop(&framework);
    restore_stderr();
}

/* ---- behind a proxy ---- */

/* The chain begins when the header has come: log and throttle know the client, not the proxy. */
ClientTest(stage5_chain, behind_a_proxy_the_elements_know_the_client,
           "--proxy-protocol 127.0.0.1 --log-traffic --suspicious 203.0.113.0/24 "
           "--throttle 1")
{
    static const char start[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";
    static const char addresses[] = "\xcb\0\x71\x07\x7f\0\0\x01\x12\x67\0\x50";
    client_send(client, start, sizeof start - 1);
    client_send(client, addresses, sizeof addresses - 1);
    client_send_text(client, "0123456789\n");
    client_await_reply(client);
    char errors[4096];
    server_errors(server, errors, sizeof errors);
    cr_assert_eq(logged(errors, "begun", "peer=203.0.113.7:4711"), 1, "%s", errors);
    cr_assert_eq(logged(errors, "input", "peer=203.0.113.7:4711"), 1, "%s", errors);
    client_expect_text(client, "0");
    client_expect_silence(client, 200); /* a byte a second: it is throttled */
}
