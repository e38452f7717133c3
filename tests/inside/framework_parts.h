/*
 * What the framework.c of both stages have in common (framework.h), included at the end of each.
 * The stage brings: STAGE_NAME, and
 *
 *   stage_options()  its options, and other defaults
 *   stage_open()     its dispatchers, none of which runs yet
 *   stage_start()    their threads
 *   stage_next()     the dispatcher for the next connection
 *   stage_join()     the end of their threads, which have been told to stop
 *   stage_close()
 */
#ifndef TESTS_INSIDE_FRAMEWORK_PARTS_H
#define TESTS_INSIDE_FRAMEWORK_PARTS_H

/* The recorder counts life-cycle calls by numbers of its own. */
_Static_assert((int)LIFE_STARTING == (int)RECORDER_STARTING &&
                   (int)LIFE_STOPPED == (int)RECORDER_STOPPED,
               "the stage numbers the calls of a life in another way");

enum {
    WORDS_MAX = 40,
    SLEEP_STATE_ASLEEP = 1, /* in selector.c */
};

static void parse(struct framework *framework, struct chosen *chosen, char *text)
{
    struct options options;
    char program[] = STAGE_NAME;
    char *argv[WORDS_MAX] = {program};
    int argc = 1;
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        cr_assert_lt(argc, WORDS_MAX);
        argv[argc++] = word;
    }
    options_init(&options, program, "");
    server_options(&options, &framework->server.settings, "0");
    server_proxy_option(&options, &framework->server.settings);
    options_add(&options, selector_provider_option(&chosen->provider));
    stage_options(framework, &options, chosen);
    options_add(&options, executor_helpers_option(&chosen->helpers));
    options_add(&options, selector_guard_option(&chosen->guard_works));
    cr_assert_eq(options_parse(&options, argc, argv), OPTIONS_SERVE);
}

static void open_all(struct framework *framework, const struct selector_provider *wanted,
                     const char *options, va_list arguments)
{
    char text[1024];
    struct chosen chosen;
    vsnprintf(text, sizeof text, options, arguments);
    memset(framework, 0, sizeof *framework);
    parse(framework, &chosen, text);
    cr_assert_eq(server_open(&framework->server, STAGE_NAME), 0);
    connection_share(&framework->server.home, &handler_adapter_sharing);
    struct executor_settings settings = executor_settings(&framework->choice);
    executor_open(&framework->executor, &settings);
    struct executor_settings helpers = executor_helpers_settings(chosen.helpers);
    executor_open(&framework->helpers, &helpers);
    framework->server.helpers = helpers.max > 0 ? &framework->helpers : NULL;
    admission_init(&framework->admission, &framework->server);
    chosen.provider = wanted ? wanted : chosen.provider;
    cr_assert_eq(stage_open(framework, &chosen, settings.max > 0 ? &framework->executor : NULL), 0);
    const struct sockaddr_storage *address = &framework->server.listener.endpoint.address;
    framework->process = (struct server_process){
        .pid = getpid(),
        .family = AF_INET,
        .port = ntohs(((const struct sockaddr_in *)address)->sin_port),
    };
}

void framework_open(struct framework *framework, const char *options, ...)
{
    va_list arguments;
    va_start(arguments, options);
    open_all(framework, NULL, options, arguments);
    va_end(arguments);
}

void framework_open_on(struct framework *framework, const struct selector_provider *provider,
                       const char *options, ...)
{
    va_list arguments;
    va_start(arguments, options);
    open_all(framework, provider, options, arguments);
    va_end(arguments);
}

void framework_run(struct framework *framework)
{
    cr_assert_eq(stage_start(framework), 0);
    framework->runs = true;
}

/* ---- connections ---- */

int framework_accept_at(const char *where, struct framework *framework, int *fd)
{
    struct listener *listener = &framework->server.listener;
    int client = client_connect_at(where, &framework->process, framework->buffers);
    cr_assert(test_await(listener->fd, POLLIN, test_deadline()));
    cr_assert_eq(listener_accept(listener, SOCK_NONBLOCK, &framework->server.log, fd),
                 ACCEPT_CONNECTION, "%s: accept", where);
    return client;
}

bool framework_register(struct framework *framework, int fd, struct input_handler *handler)
{
    struct dispatcher *dispatcher = stage_next(framework);
    admission_enter(&framework->admission);
    bool registered = dispatcher_register_channel(dispatcher, fd, ONE_HANDLER(handler));
    if (registered) {
        recorders_add(handler);
    } else {
        admission_leave(&framework->admission);
    }
    return registered;
}

int framework_connect_at(const char *where, struct framework *framework,
                         struct input_handler *handler)
{
    int fd;
    int client = framework_accept_at(where, framework, &fd);
    cr_assert(framework_register(framework, fd, handler), "%s: cannot register", where);
    return client;
}

/* ---- waiting ---- */

/** Whether no worker has anything to do but those that are held, and no change waits. */
static bool nothing_under_way(struct framework *framework, size_t held)
{
    size_t count;
    struct executor_stats stats = executor_stats(&framework->executor);
    struct dispatcher *dispatchers = framework_dispatchers(framework, &count);
    for (size_t i = 0; i < count; i++) {
        if (atomic_load(&dispatchers[i].changes.newest) != NULL) {
            return false;
        }
    }
    return stats.threads - stats.idle == held && (stats.idle == 0 || stats.waiting == 0);
}

static bool all_asleep(struct framework *framework)
{
    size_t count;
    struct dispatcher *dispatchers = framework_dispatchers(framework, &count);
    for (size_t i = 0; i < count; i++) {
        struct selector *selector = &dispatchers[i].selector;
        if (atomic_load(&selector->sleep) != SLEEP_STATE_ASLEEP) {
            return false;
        }
    }
    return true;
}

/*
 * Nothing under way, the dispatchers asleep, and still nothing under way: then they have not begun
 * anything in between, and nobody else does. What they did before they went to sleep is seen here,
 * so a test may do a dispatcher's work in its place.
 */
void framework_await_asleep_at(const char *where, struct framework *framework, size_t held)
{
    double end = test_deadline();
    bool quiet = false;
    while (!quiet && test_left_ms(end) > 0) {
        quiet = nothing_under_way(framework, held) && all_asleep(framework) &&
                nothing_under_way(framework, held) && all_asleep(framework);
        if (!quiet) {
            test_pause_ms(1);
        }
    }
    cr_assert(quiet, "%s: the dispatchers do not go to sleep", where);
}

void framework_await_waiting_at(const char *where, struct framework *framework, size_t count)
{
    WAIT_FOR(executor_stats(&framework->executor).waiting == count);
    cr_assert_eq(executor_stats(&framework->executor).waiting, count,
                 "%s: waited for %zu tasks in the queue; there are %zu", where, count,
                 executor_stats(&framework->executor).waiting);
}

void framework_await_count_at(const char *where, const struct framework *framework,
                              enum counter counter, uint64_t count)
{
    WAIT_FOR(framework_count(framework, counter) >= count);
    cr_assert_eq(framework_count(framework, counter), count,
                 "%s: waited %d ms for counter %d to be %d; it is %d", where, test_deadline_ms(),
                 (int)counter, (int)count, (int)framework_count(framework, counter));
}

void framework_cut_off(struct channel_facade *facade)
{
    handler_adapter_ask(container_of(facade, struct handler_adapter, connection.facade), ASK_END,
                        0);
}

void recorder_lose(struct channel_facade *facade)
{
    framework_cut_off(facade);
}

/* ---- the end ---- */

void framework_close(struct framework *framework)
{
    if (!framework->ended) {
        server_drop_clients(&framework->process);
        framework_stop(framework);
    }
}

static void tell_to_stop(struct framework *framework)
{
    size_t count;
    struct dispatcher *dispatchers = framework_dispatchers(framework, &count);
    for (size_t i = 0; i < count; i++) {
        dispatcher_stop(&dispatchers[i]);
    }
}

/** The threads of all, which were told to stop. */
static void join(struct framework *framework)
{
    size_t count;
    struct dispatcher *dispatchers = framework_dispatchers(framework, &count);
    int64_t end = clock_ms() + test_deadline_ms();
    for (size_t i = 0; i < count && framework->runs; i++) {
        cr_assert(dispatcher_await(&dispatchers[i], end),
                  "dispatcher %zu does not end; %zu are registered", i + 1,
                  atomic_load(&dispatchers[i].registered));
    }
    if (framework->runs) {
        stage_join(framework);
        framework->runs = false;
    }
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(atomic_load(&dispatchers[i].registered), 0);
        cr_assert_eq(timer_heap_first(&dispatchers[i].timers), &dispatchers[i].end_timer);
        cr_assert_eq(dispatchers[i].timers.count, 1, "the timer of an adapter is still set");
    }
    executor_end(&framework->executor, false);
    executor_end(&framework->helpers, true);
}

void framework_halt(struct framework *framework)
{
    tell_to_stop(framework);
    join(framework);
}

void framework_stop(struct framework *framework)
{
    tell_to_stop(framework);
    framework_end(framework);
}

void framework_end(struct framework *framework)
{
    join(framework);
    uint64_t accepted =
        framework_count(framework, COUNTER_ACCEPTED) + framework_count(framework, COUNTER_CONNECTS);
    uint64_t closed = framework_count(framework, COUNTER_CLOSED);
    stage_close(framework);
    mutex_lock(&framework->admission.lock);
    size_t places = framework->admission.count;
    mutex_unlock(&framework->admission.lock);
    cr_assert_eq(places, recorder_references(), "somebody still has a place");
    executor_close(&framework->helpers);
    executor_close(&framework->executor);
    server_close(&framework->server);
    cr_assert_eq(closed, accepted, "%d connections were made and %d closed", (int)accepted,
                 (int)closed);
    recorders_expect_whole_lives();
    framework->ended = true;
}

#endif
