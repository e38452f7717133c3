#include "common/apps/memory_bound.h"

#include "common/base/thread.h"

#include <inttypes.h>
#include <stdbool.h>

enum {
    PAGE = 4096,         /* a segment with its header */
    ITSELF = 2048,       /* handler or adapter, key, times, what is kept of a header */
    PROCESS = 4 << 20,   /* the program, its libraries, and what the allocator keeps */
    POOL = 256 * PAGE,   /* segments that are kept for all */
    ENDS = 2 * PAGE,     /* the unused parts of a queue's first and last segment */
    PAGES_PER_PART = 64, /* one page in so many pays for the headers of the others */
};

/* A queue's room is one segment, or one block that grows to the limit. */
static uint64_t input_room(const struct server_settings *settings)
{
    uint64_t message = settings->max_message > 0 ? settings->max_message : settings->max_line + 2;
    return message < PAGE ? PAGE : message + PAGE / 2;
}

/* No message is handled above the mark, so the last answer is what can go over it. */
static uint64_t output_room(const struct server_settings *settings, bool from_elsewhere)
{
    uint64_t most = settings->output_high_mark + input_room(settings);
    if (from_elsewhere && most < settings->output_cap)
        most = settings->output_cap;
    return most + most / PAGES_PER_PART + ENDS;
}

static uint64_t of_client(const struct server_settings *settings,
                          const struct application *application, const struct memory_shape *shape)
{
    bool from_elsewhere = (application->needs & OFFERS_OUTPUT_FROM_ELSEWHERE) != 0;
    uint64_t connection = (1 + shape->elements) * input_room(settings) +
                          output_room(settings, from_elsewhere) + ITSELF;
    bool opens_another = (application->needs & OFFERS_CONNECTIONS) != 0;
    return (opens_another ? 2 : 1) * connection + shape->stack;
}

/* Beside its stack and its segments there is the old block while a queue grows. */
static uint64_t of_thread(const struct server_settings *settings)
{
    return THREAD_STACK_SIZE + (SEGMENT_CACHE_LIMIT + 1) * (uint64_t)PAGE + input_room(settings);
}

void memory_bound_log(const struct server *server, const struct application *application,
                      struct memory_shape shape)
{
    const struct server_settings *settings = &server->settings;
    uint64_t each = of_client(settings, application, &shape);
    uint64_t all =
        settings->max_connections * each + shape.threads * of_thread(settings) + POOL + PROCESS;
    log_write(&server->log, LOG_LEVEL_INFO,
              "event=memory_bound bytes=%" PRIu64 " clients=%zu each=%" PRIu64, all,
              settings->max_connections, each);
}
