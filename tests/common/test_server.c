/*
 * What every server has: its options with the defaults that users rely on, opening, the ready line,
 * closing.
 */
#include "common/server/server.h"
#include "helpers.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(server, .timeout = 120);

static struct server_settings settings;

static struct {
    char out[16384];
    char err[4096];
} printed;

/* Reads a command line, of words that a space separates, into the settings. */
static int parse(const char *command_line)
{
    static char words[1024];
    char *argv[64] = {"stage9-test"};
    int argc = 1;
    struct options options;
    struct capture out;
    snprintf(words, sizeof(words), "%s", command_line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    options_init(&options, "stage9-test", "a server");
    server_options(&options, &settings, "7009");
    server_proxy_option(&options, &settings);
    capture_start(&out, STDOUT_FILENO);
    int status;
    CAPTURED(STDERR_FILENO, printed.err, status = options_parse(&options, argc, argv));
    capture_stop(&out, printed.out, sizeof(printed.out));
    return status;
}

static void accepts(const char *command_line)
{
    cr_assert_eq(parse(command_line), OPTIONS_SERVE, "%s", printed.err);
}

static void refuses(const char *command_line, const char *text)
{
    char line[512];
    snprintf(line, sizeof(line), "stage9-test: %s\n", text);
    cr_assert_eq(parse(command_line), 2, "%s", command_line);
    cr_assert_str_eq(printed.err, line, "%s", printed.err);
}

/* ---- options ---- */

Test(server, has_the_defaults_that_its_users_rely_on)
{
    char place[ENDPOINT_TEXT_SIZE];
    accepts("");
    endpoint_format(&settings.bind, place);
    cr_assert_str_eq(place, "127.0.0.1:0");
    cr_assert_eq(settings.port, 7009);
    cr_assert_eq(settings.max_line, 65536);
    cr_assert_eq(settings.max_connections, 0);
    cr_assert_eq(settings.overload, OVERLOAD_REJECT);
    cr_assert_str_eq(settings.turn_away, "ERR server busy\n");
    cr_assert(settings.deadlines.idle == 0 && settings.deadlines.request == 0);
    cr_assert(settings.deadlines.lifetime == 0 && settings.deadlines.progress == 0);
    cr_assert_eq(settings.drain_timeout, 5000);
    cr_assert_eq(settings.output_high_mark, 65536);
    cr_assert_eq(settings.output_low_mark, 16384);
    cr_assert_eq(settings.output_cap, 1048576);
    cr_assert_eq(settings.send_buffer, 0);
    cr_assert_eq(settings.work_us, 0);
    cr_assert_eq(settings.block_ms, 0);
    cr_assert_eq(settings.cost_every, 1);
    cr_assert_null(settings.cost_for);
    cr_assert_eq(settings.log_level, LOG_LEVEL_WARN);
    cr_assert_not(settings.stats);
    cr_assert_null(settings.trace);
    cr_assert_eq(settings.proxies.count, 0);
}

Test(server, each_option_sets_what_it_says)
{
    char place[ENDPOINT_TEXT_SIZE];
    accepts("--bind ::1 --port 1 --max-line 2 --max-connections 3 --idle-timeout 4 "
            "--request-timeout 5 --lifetime 6 --progress-timeout 7 --drain-timeout 0.5 "
            "--output-high-mark 9 --output-low-mark 10 --output-cap 11 --send-buffer 12 "
            "--work-us 13 --block-ms 14 --cost-every 15 --cost-for ? --stats --log debug "
            "--trace there --proxy-protocol 10.0.0.0/8,::1");
    endpoint_format(&settings.bind, place);
    cr_assert_str_eq(place, "[::1]:0");
    cr_assert_eq(settings.port, 1);
    cr_assert_eq(settings.max_line, 2);
    cr_assert_eq(settings.max_connections, 3);
    cr_assert_eq(settings.deadlines.idle, 4000);
    cr_assert_eq(settings.deadlines.request, 5000);
    cr_assert_eq(settings.deadlines.lifetime, 6000);
    cr_assert_eq(settings.deadlines.progress, 7000);
    cr_assert_eq(settings.drain_timeout, 500);
    cr_assert_eq(settings.output_high_mark, 9);
    cr_assert_eq(settings.output_low_mark, 10);
    cr_assert_eq(settings.output_cap, 11);
    cr_assert_eq(settings.send_buffer, 12);
    cr_assert_eq(settings.work_us, 13);
    cr_assert_eq(settings.block_ms, 14);
    cr_assert_eq(settings.cost_every, 15);
    cr_assert_str_eq(settings.cost_for, "?");
    cr_assert_eq(settings.log_level, LOG_LEVEL_DEBUG);
    cr_assert(settings.stats);
    cr_assert_str_eq(settings.trace, "there");
    cr_assert_eq(settings.proxies.count, 2);
}

/* Those of which tests/conformance/usage.c does not ask each stage. */
Test(server, bad_values_are_refused_with_the_texts_that_were_promised)
{
    refuses("--log warning", "--log: expected one of error, warn, info, debug, got 'warning'");
    refuses("--bind localhost", "--bind: expected an IP address, got 'localhost'");
    refuses("--trace=", "--trace: expected the name of a file, or none, got ''");
    refuses("--cost-every 0", "--cost-every: expected a number from 1 to 1000000000, got '0'");
    refuses("--cost-for=", "--cost-for: expected a text, or all, got ''");
    refuses("--stats=1", "--stats: takes no value");
}

Test(server, every_log_level_has_a_name)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++) {
        char command_line[32];
        snprintf(command_line, sizeof(command_line), "--log %s", names[i]);
        accepts(command_line);
        cr_assert_eq((int)settings.log_level, i, "%s", names[i]);
    }
}

Test(server, overload_says_what_a_client_is_told)
{
    accepts("--overload wait");
    cr_assert_eq(settings.overload, OVERLOAD_WAIT);
    accepts("--overload redirect=example.org:7002");
    cr_assert_eq(settings.overload, OVERLOAD_REDIRECT);
    cr_assert_str_eq(settings.turn_away, "ERR server busy, try example.org:7002\n");
    accepts("--overload=redirect=[::1]:7002");
    cr_assert_str_eq(settings.turn_away, "ERR server busy, try [::1]:7002\n");
    accepts("--overload redirect=a:1 --overload reject");
    cr_assert_eq(settings.overload, OVERLOAD_REJECT);
    cr_assert_str_eq(settings.turn_away, "ERR server busy\n");
}

Test(server, a_redirect_goes_to_a_host_and_a_port)
{
    static const char *const bad[] = {
        "redirect",          "redirect=",        "redirect=host",
        "redirect=:80",      "redirect=host:",   "redirect=:",
        "redirect=host:x",   "redirect=host:-1", "redirect=host:70000",
        "redirect=host:80x", "rejected",         "waiting",
        "redirect=host:0",   "redirect=ho*t:80", "redirect=[:80",
        "redirect=[a:80",    "redirect=[]:80",   "redirect=::1:80"};
    char text[512];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char command_line[64];
        snprintf(command_line, sizeof(command_line), "--overload=%s", bad[i]);
        snprintf(text, sizeof(text),
                 "--overload: expected one of reject, wait, redirect=HOST:PORT, got '%s'", bad[i]);
        refuses(command_line, text);
    }
}

Test(server, a_redirect_that_is_accepted_is_told_whole)
{
    char host[400];
    char command_line[512];
    for (size_t length = 1; length < sizeof(host); length += 7) {
        memset(host, 'h', length);
        host[length] = '\0';
        snprintf(command_line, sizeof(command_line), "--overload=redirect=%s:80", host);
        if (parse(command_line) == OPTIONS_SERVE) {
            char expected[512];
            snprintf(expected, sizeof(expected), "ERR server busy, try %s:80\n", host);
            cr_assert_str_eq(settings.turn_away, expected, "a host of %zu letters", length);
        } else {
            cr_assert_gt(length, 200, "a host of %zu letters is refused", length);
        }
    }
}

/* ---- opening, announcing, closing ---- */

static struct server server;

static void open_server(const char *command_line)
{
    accepts(command_line);
    memset(&server, 0, sizeof(server));
    server.settings = settings;
    cr_assert_eq(server_open(&server, "stage9-test"), 0);
}

static void announce(char *text, size_t size)
{
    struct capture capture;
    capture_start(&capture, STDOUT_FILENO);
    server_announce(&server, "echo");
    capture_stop(&capture, text, size);
}

static unsigned port_of_server(void)
{
    return ntohs(((const struct sockaddr_in *)&server.listener.endpoint.address)->sin_port);
}

Test(server, the_parts_of_a_stop_share_the_drain_timeout)
{
    open_server("--port 0 --drain-timeout 2");
    int64_t before = clock_ms();
    int64_t end = server_drain_end(&server);
    cr_assert_geq(end, before + 2000);
    cr_assert_leq(end, clock_ms() + 2000);
    double until = test_deadline();
    while (clock_ms() == end - 2000)
        cr_assert(test_left_ms(until) > 0, "time stands still");
    cr_assert_eq(server_drain_end(&server), end, "later parts begin anew");
    server_close(&server);
}

Test(server, says_where_it_listens_in_one_line)
{
    char text[256];
    char expected[256];
    open_server("--port 0");
    announce(text, sizeof(text));
    snprintf(expected, sizeof(expected), "stage9-test: echo on 127.0.0.1:%u\n", port_of_server());
    cr_assert_str_eq(text, expected);
    server_close(&server);
}

Test(server, says_where_it_listens_on_ipv6)
{
    char text[256];
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (probe < 0 || bind(probe, (struct sockaddr *)&address, sizeof(address)) != 0)
        cr_skip_test("no IPv6 here");
    close(probe);
    open_server("--port 0 --bind ::1");
    announce(text, sizeof(text));
    cr_assert_eq(strncmp(text, "stage9-test: echo on [::1]:", 27), 0, "%s", text);
    cr_assert_null(strstr(text, ":0\n"), "%s", text);
    server_close(&server);
}

/* The ready line is read through a pipe, where a line that is not flushed stays behind. */
Test(server, flushes_the_ready_line)
{
    int ends[2];
    char text[256];
    open_server("--port 0");
    fflush(stdout);
    cr_assert_eq(pipe(ends), 0);
    int usual = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    server_announce(&server, "echo");
    dup2(usual, STDOUT_FILENO);
    close(usual);
    close(ends[1]);
    ssize_t length = read(ends[0], text, sizeof(text));
    cr_assert_gt(length, 0);
    cr_assert_eq(text[length - 1], '\n');
    close(ends[0]);
    server_close(&server);
}

Test(server, that_cannot_listen_says_where_and_why_and_holds_nothing)
{
    char text[256];
    char expected[256];
    char command_line[64];
    struct server second;
    open_server("--port 0");
    long before = probe_descriptors(getpid());
    snprintf(command_line, sizeof(command_line), "--port %u", port_of_server());
    accepts(command_line);
    second.settings = settings;
    int result;
    CAPTURED(STDERR_FILENO, text, result = server_open(&second, "stage9-test"));
    cr_assert_eq(result, -1);
    snprintf(expected, sizeof(expected),
             "stage9-test: cannot listen on 127.0.0.1:%u: Address already in use\n",
             port_of_server());
    cr_assert_str_eq(text, expected);
    cr_assert_eq(probe_descriptors(getpid()), before);
    server_close(&server);
}

Test(server, that_cannot_write_its_trace_says_so_and_holds_nothing)
{
    char text[256];
    struct server other;
    long before = probe_descriptors(getpid());
    accepts("--port 0 --trace /nowhere/at/all");
    other.settings = settings;
    int result;
    CAPTURED(STDERR_FILENO, text, result = server_open(&other, "stage9-test"));
    cr_assert_eq(result, -1);
    cr_assert_str_eq(text, "stage9-test: cannot write a trace: No such file or directory\n");
    cr_assert_eq(probe_descriptors(getpid()), before);
}

Test(server, writes_its_trace_when_it_closes)
{
    char name[64];
    char command_line[128];
    struct stat status;
    snprintf(name, sizeof(name), "/tmp/server-test-%ld.json", (long)getpid());
    snprintf(command_line, sizeof(command_line), "--port 0 --trace %s", name);
    open_server(command_line);
    cr_assert_eq(stat(name, &status), 0, "it is there from the beginning");
    cr_assert_eq(status.st_size, 0, "and empty");
    server_close(&server);
    cr_assert_eq(stat(name, &status), 0);
    cr_assert_gt(status.st_size, 0);
    unlink(name);
}

Test(server, says_so_if_its_trace_cannot_be_written_when_it_closes)
{
    char name[64];
    char command_line[128];
    char text[256];
    long before = probe_descriptors(getpid());
    snprintf(name, sizeof(name), "/tmp/server-test-%ld.json", (long)getpid());
    snprintf(command_line, sizeof(command_line), "--port 0 --trace %s", name);
    open_server(command_line);
    cr_assert_eq(unlink(name), 0);
    cr_assert_eq(mkdir(name, 0700), 0);
    CAPTURED(STDERR_FILENO, text, server_close(&server));
    rmdir(name);
    cr_assert_str_eq(text, "stage9-test: cannot write the trace: Is a directory\n");
    cr_assert_eq(probe_descriptors(getpid()), before);
}

/* All that it does before it ends belongs to a stop that is bounded. In a child: it never returns.
 */
Test(server, whose_trace_nobody_reads_ends_in_time)
{
    if (probe_thread_sanitized())
        cr_skip_test("ThreadSanitizer keeps signals back from a thread that is in write(2)");
    char name[64];
    char command_line[128];
    char bytes[4096] = "";
    int status = -1;
    snprintf(name, sizeof(name), "/tmp/server-test-%ld.fifo", (long)getpid());
    snprintf(command_line, sizeof(command_line), "--port 0 --drain-timeout 0 --trace %s", name);
    cr_assert_eq(mkfifo(name, 0600), 0);
    int pipe_fd = open(name, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    while (write(pipe_fd, bytes, sizeof(bytes)) > 0)
        ;
    pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
        open_server(command_line);
        raise(SIGTERM);
        server_close(&server);
        _exit(2);
    }
    pid_t ended;
    WAIT_FOR((ended = waitpid(child, &status, WNOHANG)) != 0);
    if (ended == 0)
        kill(child, SIGKILL);
    unlink(name);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %#x", (unsigned)status);
}

Test(server, closing_gives_all_back)
{
    long before = probe_descriptors(getpid());
    open_server("--port 0");
    struct endpoint endpoint = server.listener.endpoint;
    server_close(&server);
    cr_assert_eq(probe_descriptors(getpid()), before);
    struct listener listener;
    cr_assert_eq(listener_open(&listener, &endpoint, 0), 0, "the port is free: %s",
                 strerror(errno));
    listener_close(&listener);
}

Test(server, prints_its_counters_at_the_end_if_asked_to)
{
    for (int stats = 0; stats < 2; stats++) {
        char text[4096];
        open_server(stats ? "--port 0 --stats" : "--port 0");
        counters_add(&server.counters, COUNTER_ACCEPTED, 12);
        CAPTURED(STDERR_FILENO, text, server_close(&server));
        if (stats)
            cr_assert_not_null(strstr(text, "stage9-test: stats accepted=12 "), "%s", text);
        else
            cr_assert_str_eq(text, "");
    }
}

Test(server, hands_its_settings_on)
{
    open_server("--port 0 --work-us 7 --block-ms 8 --cost-every 9 --cost-for ? --log error "
                "--output-low-mark 1 --output-high-mark 2 --output-cap 3");
    cr_assert_eq(server.service.work_us, 7);
    cr_assert_eq(server.service.block_ms, 8);
    cr_assert_eq(server.service.cost_every, 9);
    cr_assert_str_eq(server.service.cost_for, "?");
    cr_assert_eq(server.log.level, LOG_LEVEL_ERROR);
    cr_assert_str_eq(server.log.program, "stage9-test");
    cr_assert_eq(server.home.output.low_mark, 1);
    cr_assert_eq(server.home.output.high_mark, 2);
    cr_assert_eq(server.home.output.cap, 3);
    server_close(&server);
}

Test(server, puts_the_output_limits_in_order)
{
    open_server("--port 0 --output-low-mark 500 --output-high-mark 200 --output-cap 100");
    cr_assert_eq(server.home.output.low_mark, 500);
    cr_assert_eq(server.home.output.high_mark, 500);
    cr_assert_eq(server.home.output.cap, 500);
    server_close(&server);
}

Test(server, ignores_sigpipe)
{
    struct sigaction action;
    open_server("--port 0");
    sigaction(SIGPIPE, NULL, &action);
    cr_assert_eq(action.sa_handler, SIG_IGN);
    server_close(&server);
}

/* ---- a second port ---- */

/* ---- how many connections ---- */

/*
 * What runs the tests leaves descriptors to them with gaps between, the more tests run beside each
 * other. The server takes the lowest free one for the number of those in use.
 */
static void fill_gaps(void)
{
    int highest = STDERR_FILENO;
    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            highest = fd;
    int fd;
    do
        fd = dup(STDERR_FILENO);
    while (fd >= 0 && fd < highest);
}

/* How many descriptors can be had. */
static size_t free_descriptors(void)
{
    size_t most = 0;
    for (int tries = 0; tries < 5; tries++) { /* a sanitizer's thread may have one meanwhile */
        int fds[1024];
        size_t count = 0;
        while (count < 1024 && (fds[count] = dup(STDERR_FILENO)) >= 0)
            count++;
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
        most = count > most ? count : most;
    }
    return most;
}

Test(server, takes_as_many_connections_as_the_descriptor_limit_allows)
{
    if (!limits_are_real())
        cr_skip_test("not under valgrind");
    char text[256];
    struct rlimit limit = {.rlim_cur = 50, .rlim_max = 100};
    fill_gaps();
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct capture capture;
    open_server("--port 0");
    capture_start(&capture, STDOUT_FILENO);
    server_announce(&server, "echo");
    size_t most = (size_t)server.settings.max_connections;
    size_t possible = free_descriptors();
    capture_stop(&capture, text, sizeof(text));
    getrlimit(RLIMIT_NOFILE, &limit);
    cr_assert_eq(limit.rlim_cur, 100, "as many as it may have");
    cr_assert_geq(most, 60, "%zu connections", most);
    cr_assert_geq(possible, most + 1, "%zu connections, and one to be turned away", most);
    server_close(&server);
}

/* Each of them may open files: the default is smaller then, and what the user says is not. */
Test(server, leaves_connections_the_descriptors_that_they_need)
{
    if (!limits_are_real())
        cr_skip_test("not under valgrind");
    char text[256];
    struct rlimit limit = {.rlim_cur = 100, .rlim_max = 100};
    fill_gaps();
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct capture capture;
    open_server("--port 0");
    server.settings.connection_descriptors = 4;
    capture_start(&capture, STDOUT_FILENO);
    server_announce(&server, "echo");
    size_t most = (size_t)server.settings.max_connections;
    size_t possible = free_descriptors();
    capture_stop(&capture, text, sizeof(text));
    cr_assert_geq(most, 15, "%zu connections", most);
    cr_assert_geq(possible, 4 * most + 1, "%zu connections, %zu descriptors", most, possible);
    server_close(&server);
}

Test(server, takes_as_many_connections_as_it_was_told_to)
{
    char text[256];
    open_server("--port 0 --max-connections 7");
    announce(text, sizeof(text));
    cr_assert_eq(server.settings.max_connections, 7);
    server_close(&server);
}

Test(server, takes_one_connection_at_least)
{
    if (!limits_are_real())
        cr_skip_test("not under valgrind");
    char text[256];
    struct rlimit limit;
    open_server("--port 0");
    struct capture capture;
    capture_start(&capture, STDOUT_FILENO);
    int lowest_free = dup(STDERR_FILENO);
    close(lowest_free);
    limit.rlim_cur = limit.rlim_max = (rlim_t)lowest_free + 1;
    setrlimit(RLIMIT_NOFILE, &limit);
    int last_one = dup(STDERR_FILENO);
    server.settings.max_connections = 0;
    server_announce(&server, "echo");
    close(last_one);
    capture_stop(&capture, text, sizeof(text));
    cr_assert_eq(server.settings.max_connections, 1);
    server_close(&server);
}
