/*
 * One client, for suites of stages 4 and 5: its connection has been answered once, and rests when a
 * test begins. Each includes its own framework.h and then this, and has a begin(ways, options) that
 * sets up its recorder and calls begin_serving().
 */
#ifndef TESTS_INSIDE_ONE_CLIENT_H
#define TESTS_INSIDE_ONE_CLIENT_H

static struct framework framework;
static struct recorder recorder; /* to be set up before begin_serving() */

static int begin_serving(const char *ways, const char *options)
{
    framework_start(&framework, "%s %s", ways, options);
    int client = framework_connect(&framework, &recorder.handler);
    client_echo(client, "hello\n");
    framework_await_asleep(&framework);
    return client;
}

#endif
