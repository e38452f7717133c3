#include "common/server/service.h"

#include "common/base/clock.h"

#include <string.h>

void service_init(struct service *service)
{
    *service = (struct service){.cost_every = 1};
    mutex_init(&service->lock);
    condition_init(&service->cut);
}

void service_destroy(struct service *service)
{
    condition_destroy(&service->cut);
    mutex_destroy(&service->lock);
}

static uint64_t thread_cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* CPU time of this thread, not time of day: on a busy machine the work stays the same. */
static void work(struct service *service)
{
    uint64_t end = thread_cpu_us() + service->work_us;
    while (thread_cpu_us() < end && !atomic_load(&service->cut_short))
        ;
}

static void block(struct service *service)
{
    int64_t end = clock_ms() + (int64_t)service->block_ms;
    mutex_lock(&service->lock);
    bool waiting = true;
    while (waiting && !atomic_load(&service->cut_short))
        waiting = condition_wait_until(&service->cut, &service->lock, end);
    mutex_unlock(&service->lock);
}

static bool pays(struct service *service, struct message request)
{
    const char *text = service->cost_for;
    if (service_is_free(service))
        return false;
    if (text != NULL && memmem(request.data, request.length, text, strlen(text)) == NULL)
        return false;
    return atomic_fetch_add(&service->served, 1) % service->cost_every == 0;
}

struct message service_process(struct service *service, struct message request)
{
    if (pays(service, request)) {
        if (service->work_us > 0)
            work(service);
        if (service->block_ms > 0)
            block(service);
    }
    return request;
}

void service_cut_short(struct service *service)
{
    mutex_lock(&service->lock);
    atomic_store(&service->cut_short, true);
    condition_broadcast(&service->cut);
    mutex_unlock(&service->lock);
}
