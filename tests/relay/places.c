/*
 * What --max-connections means for a relay: it counts pairs, and a pair has its place until both of
 * its ends are gone.
 */
#include "support/backend.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(relay_places, .timeout = 120);

enum {
    PLACES = 4,
    UPLOAD = 60000, /* more than the two small socket buffers to the server hold */
};

/** What is sent waits in the relay; without this, in its system. */
#define SMALL "--send-buffer 4096 "

/** A relay whose server accepts and reads nothing. */
struct scene {
    struct backend backend;
    struct server_process relay;
    int servers[PLACES];
};

static struct scene open_scene(const char *options)
{
    struct scene scene = {.backend = backend_open(100)};
    int small = 2048;
    cr_assert_eq(setsockopt(scene.backend.listening, SOL_SOCKET, SO_RCVBUF, &small, sizeof small),
                 0);
    scene.relay = server_start("--app relay --to 127.0.0.1:%d --max-connections %d --stats %s",
                               scene.backend.port, PLACES, options);
    return scene;
}

static void close_scene(struct scene *scene)
{
    server_stop(&scene->relay);
    backend_close(&scene->backend);
}

/** A test that has `scene`, a pointer, which was opened with these options. */
#define SceneTest(suite, name, options)                                                            \
    TestWith(suite, name, struct scene, scene, *scene = open_scene(options), close_scene(scene))

/** A client takes a place, uploads, and leaves when the relay has read all of it. */
static void fill_place(struct scene *scene, int place, void leave(int client))
{
    static char bytes[UPLOAD];
    memset(bytes, 'q', sizeof bytes);
    int client = client_connect(&scene->relay);
    scene->servers[place] = backend_accept(&scene->backend);
    client_send(client, bytes, sizeof bytes);
    server_await_counter(&scene->relay, "bytes_in", (place + 1LL) * UPLOAD);
    leave(client);
    server_await_counter(&scene->relay, "closed", place + 1);
}

static void fill_places(struct scene *scene, void leave(int client))
{
    for (int i = 0; i < PLACES; i++) {
        fill_place(scene, i, leave);
    }
}

static void expect_busy(const struct scene *scene)
{
    int client = client_connect(&scene->relay);
    client_expect_text(client, "ERR server busy\n");
    client_expect_gone(client);
    client_close(client);
}

/** Reads all that was uploaded, and so lets the relay's end of that connection finish. */
static void read_upload(int server)
{
    static char got[UPLOAD];
    size_t length;
    double end = test_deadline();
    cr_assert_eq(client_try_receive(server, got, sizeof got, end, &length), CLIENT_GOT,
                 "%zu of %d bytes came", length, UPLOAD);
    client_expect_gone(server);
    client_close(server);
}

/** A client finds a place, perhaps after some that do not: the relay closes in its own time. */
static int await_place(const struct scene *scene)
{
    double end = test_deadline();
    for (;;) {
        int client = client_connect(&scene->relay);
        struct pollfd either[] = {{.fd = scene->backend.listening, .events = POLLIN},
                                  {.fd = client, .events = POLLIN}};
        cr_assert_gt(poll(either, 2, test_left_ms(end)), 0, "there is still no place");
        if (either[0].revents != 0) {
            return client;
        }
        client_close(client);
    }
}

/** A client finds a place, and a server behind it. */
static void expect_room(const struct scene *scene)
{
    int client = await_place(scene);
    int server = backend_accept(&scene->backend);
    client_pass(client, server, "there is room again\n");
    client_close(client);
    client_close(server);
}

/** Those that have not been closed yet, from that one on. */
static void close_servers(const struct scene *scene, int first)
{
    for (int i = first; i < PLACES; i++) {
        client_close(scene->servers[i]);
    }
}

static void has_its_place_until_its_server_is_gone(void leave(int client), const char *options)
{
    struct scene scene = open_scene(options);
    fill_places(&scene, leave);
    long descriptors = probe_descriptors(scene.relay.pid);
    for (int i = 0; i < 3; i++) {
        expect_busy(&scene);
    }
    cr_assert(probe_await_descriptors(scene.relay.pid, descriptors), "%ld of %ld descriptors",
              probe_descriptors(scene.relay.pid), descriptors);
    cr_assert_eq(server_counter(&scene.relay, "connects"), PLACES);
    read_upload(scene.servers[0]);
    expect_room(&scene);
    close_servers(&scene, 1);
    close_scene(&scene);
}

Test(relay_places, a_client_that_resets_leaves_its_place_to_its_server)
{
    has_its_place_until_its_server_is_gone(client_reset, SMALL "--idle-timeout 0");
}

/** The worker that has the last reference gives the place back. */
Test(relay_places, a_client_that_resets_leaves_its_place_to_its_server_with_workers)
{
    has_its_place_until_its_server_is_gone(client_reset, SMALL "--idle-timeout 0 --workers 3");
}

/** Who has to wait for a place is served as soon as a server's connection is gone. */
SceneTest(relay_places, one_that_waits_for_a_place_gets_it,
          SMALL "--idle-timeout 0 --overload wait")
{
    fill_places(scene, client_reset);
    int client = client_connect_send(&scene->relay, "waited for\n");
    backend_expect_nobody(&scene->backend, 100);
    read_upload(scene->servers[0]);
    int server = backend_accept(&scene->backend);
    client_expect_text(server, "waited for\n");
    client_close(client);
    client_close(server);
    close_servers(scene, 1);
}

/** A server that never reads the rest of an upload keeps the place no longer than a client could.
 */
static void is_free_after_the_idle_timeout(void leave(int client), const char *options)
{
    struct scene scene = open_scene(options);
    fill_places(&scene, leave);
    server_await_counter(&scene.relay, "closed", 2 * PLACES);
    expect_room(&scene);
    close_servers(&scene, 0);
    close_scene(&scene);
}

Test(relay_places, of_a_server_that_hangs_is_free_after_the_idle_timeout)
{
    is_free_after_the_idle_timeout(client_reset, SMALL "--idle-timeout 0.5");
}

/** The relay has sent all, and the server's system has not got all. */
Test(relay_places, of_a_server_whose_system_is_full_is_free_after_the_idle_timeout)
{
    is_free_after_the_idle_timeout(client_reset, "--idle-timeout 0.5");
}

Test(relay_places, of_a_server_that_hangs_is_free_after_an_orderly_end)
{
    is_free_after_the_idle_timeout(client_close, "--idle-timeout 0.5");
}

/**
 * Who came after the last byte that the server took is cut off after it, because both wait for the
 * same time. The server took some bytes, and the relay cannot see when; so it would be easy to give
 * it the time twice. One dispatcher looks at both, so it cuts them off in their order.
 */
Test(relay_places, of_a_server_that_hangs_is_not_held_for_twice_the_idle_timeout)
{
    bool is_pool = server_has_option("--dispatchers");
    struct scene scene =
        open_scene(is_pool ? SMALL "--idle-timeout 1 --dispatchers 1" : SMALL "--idle-timeout 1");
    fill_place(&scene, 0, client_reset);
    int silent = client_connect(&scene.relay);
    int server = backend_accept(&scene.backend);
    client_expect_gone(silent);
    cr_assert_geq(server_counter(&scene.relay, "timed_out"), 2,
                  "the server that hangs is still there");
    client_close(silent);
    client_close(server);
    client_close(scene.servers[0]);
    close_scene(&scene);
}
