/*
 * Stage 3: those that go on without an event. No worker takes them here, so each turn refuses one
 * message, in the reactor's thread.
 */
#include "inside/again_tests.h"
#include "white_box.h"

AGAIN_TESTS(stage3_again)

static struct white_box box;

static struct reactor *again_open(struct input_handler_factory *factory)
{
    white_box_open(&box, "--idle-timeout=60");
    executor_shutdown(&box.executor, true);
    box.server.listener.factory = factory;
    return &box.reactor;
}

static void again_end_round(struct reactor *reactor)
{
    struct task *task;
    executor_submit_all(reactor->executor, &reactor->round);
    while ((task = task_list_remove_first(&reactor->round)) != NULL)
        handler_refuse(task);
}

static void again_close(void)
{
    white_box_close(&box);
}

static struct server *again_start(struct input_handler_factory *factory, const char *idle_timeout)
{
    white_box_open(&box, "%s --workers 1", idle_timeout);
    box.server.listener.factory = factory;
    white_box_run(&box);
    return &box.server;
}

static void again_stop(void)
{
    white_box_stop(&box);
}
