/*
 * A facade without a reference, whose memory goes. Whoever still has its address has forgotten
 * channel_retain(), or has called channel_release() too early: the words name the call.
 */
#include "common/server/channel_facade.h"

#include <stdio.h>
#include <stdlib.h>

__attribute__((noreturn)) static void refuse(const char *call)
{
    fprintf(stderr,
            "%s: expected a facade of which somebody has a reference, got one whose last reference "
            "was given back (channel_retain(), channel_release())\n",
            call);
    abort();
}

/* What those ask first: posts, timers, tasks and holds. */
static struct channel_facade *no_outer(struct channel_facade *facade)
{
    (void)facade;
    refuse("a call of channel_calls.h");
}

static struct input_queue *no_input(struct channel_facade *facade)
{
    (void)facade;
    refuse("channel_input()");
}

static enum output_result no_enqueue(struct channel_facade *facade, struct piece piece)
{
    (void)facade;
    (void)piece;
    refuse("channel_enqueue()");
}

static enum output_result no_flush(struct channel_facade *facade)
{
    (void)facade;
    refuse("channel_flush()");
}

static void no_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    (void)facade;
    (void)handler;
    refuse("channel_set_handler()");
}

static void no_suspend(struct channel_facade *facade)
{
    (void)facade;
    refuse("channel_suspend()");
}

static void no_resume(struct channel_facade *facade)
{
    (void)facade;
    refuse("channel_resume()");
}

static void no_close(struct channel_facade *facade)
{
    (void)facade;
    refuse("channel_close()");
}

static void no_reset(struct channel_facade *facade)
{
    (void)facade;
    refuse("channel_reset()");
}

static void no_finish(struct channel_facade *facade)
{
    (void)facade;
    refuse("channel_finish()");
}

static int no_connect(struct channel_facade *facade, const struct endpoint *to, int64_t timeout,
                      struct input_handler_factory *factory)
{
    (void)facade;
    (void)to;
    (void)timeout;
    (void)factory;
    refuse("channel_connect()");
}

static bool no_set_write_rate(struct channel_facade *facade, uint64_t bytes_per_second)
{
    (void)facade;
    (void)bytes_per_second;
    refuse("channel_set_write_rate()");
}

static int no_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    (void)facade;
    (void)endpoint;
    refuse("channel_peer()");
}

static enum end_reason no_end_reason(struct channel_facade *facade)
{
    (void)facade;
    refuse("channel_end_reason()");
}

static void no_retain(struct channel_facade *facade)
{
    (void)facade;
    refuse("channel_retain()");
}

static void no_release(struct channel_facade *facade)
{
    (void)facade;
    refuse("channel_release()");
}

void channel_facade_end(struct channel_facade *facade)
{
    static const struct channel_facade_verbs verbs = {
        .outer = no_outer,
        .input = no_input,
        .enqueue = no_enqueue,
        .flush = no_flush,
        .set_handler = no_set_handler,
        .suspend = no_suspend,
        .resume = no_resume,
        .close = no_close,
        .reset = no_reset,
        .finish = no_finish,
        .connect = no_connect,
        .set_write_rate = no_set_write_rate,
        .peer = no_peer,
        .end_reason = no_end_reason,
        .retain = no_retain,
        .release = no_release,
    };
    facade->verbs = &verbs;
}
