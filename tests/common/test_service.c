/*
 * The service: the reply is the request, and what a message costs.
 *
 * Work is measured in CPU time of the thread, so a busy machine does not matter; a wait is asserted
 * as a lower bound only.
 */
#include "common/base/clock.h"
#include "common/server/service.h"
#include "support/deadline.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

TestSuite(service, .timeout = 120);

static const struct message request = {(const unsigned char *)"hello\n", 6};

static int64_t cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t cpu_of_one(struct service *service)
{
    int64_t before = cpu_us();
    service_process(service, request);
    return cpu_us() - before;
}

#define ServiceTest(suite, name)                                                                   \
    TestWith(suite, name, struct service, service, service_init(service), service_destroy(service))

ServiceTest(service, answers_with_the_request_itself)
{
    for (int costs = 0; costs < 2; costs++) {
        service->work_us = service->block_ms = (uint64_t)costs;
        struct message reply = service_process(service, request);
        cr_assert_eq(reply.data, request.data);
        cr_assert_eq(reply.length, request.length);
    }
}

ServiceTest(service, work_takes_cpu_time)
{
    service->work_us = 20000;
    int64_t used = cpu_of_one(service);
    cr_assert_geq(used, 20000, "%lld us", (long long)used);
}

ServiceTest(service, blocking_takes_time_and_no_cpu)
{
    service->block_ms = 50;
    int64_t began = clock_ms();
    int64_t used = cpu_of_one(service);
    int64_t passed = clock_ms() - began;
    cr_assert_geq(passed, 50, "%lld ms", (long long)passed);
    cr_assert_lt(used, 25000, "%lld us", (long long)used);
}

ServiceTest(service, one_message_in_so_many_pays)
{
    service->work_us = 10000;
    service->cost_every = 3;
    for (int i = 0; i < 7; i++) {
        int64_t used = cpu_of_one(service);
        cr_assert_eq(used >= 10000, i % 3 == 0, "message %d cost %lld us", i, (long long)used);
    }
}

ServiceTest(service, only_messages_with_a_text_in_them_pay)
{
    static const struct {
        const char *request;
        bool pays;
    } cases[] = {{"why?\n", true}, {"hello\n", false}, {"?\n", true}, {"\n", false}};
    service->work_us = 10000;
    service->cost_for = "?";
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const unsigned char *data = (const unsigned char *)cases[i].request;
        int64_t before = cpu_us();
        service_process(service, (struct message){data, strlen(cases[i].request)});
        cr_assert_eq(cpu_us() - before >= 10000, cases[i].pays, "%s", cases[i].request);
    }
}

static void *process_many(void *argument)
{
    for (int i = 0; i < 300; i++)
        service_process(argument, request);
    return NULL;
}

/* What has been cut short costs nothing, but is counted: who pays goes by all threads' messages. */
ServiceTest(service, counts_the_messages_of_all_threads)
{
    pthread_t threads[8];
    service->work_us = 1;
    service->cost_every = 7;
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, process_many, service);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(atomic_load(&service->served), 2400);
}

static void *process_one(void *argument)
{
    service_process(argument, request);
    return NULL;
}

/* Starts threads that pay a cost of an hour, cuts it short, and joins them. */
static void cut_short(uint64_t work_us, uint64_t block_ms)
{
    struct service service;
    pthread_t threads[4];
    service_init(&service);
    service.work_us = work_us;
    service.block_ms = block_ms;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, process_one, &service);
    WAIT_FOR(atomic_load(&service.served) >= 4);
    service_cut_short(&service);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL); /* the suite's time limit is the judge */
    service_process(&service, request); /* free from now on */
    service_destroy(&service);
}

Test(service, work_can_be_cut_short)
{
    cut_short(3600000000u, 0);
}

Test(service, blocking_can_be_cut_short)
{
    cut_short(0, 3600000);
}
