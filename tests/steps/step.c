/*
 * What the tests of the steps share: see step.h.
 */
#include "step.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

TestSuite(step1_1, .timeout = 120);
TestSuite(step1_2, .timeout = 120);
TestSuite(step1_3, .timeout = 120);
TestSuite(step1_4, .timeout = 120);
TestSuite(step1_5, .timeout = 120);
TestSuite(step2_1, .timeout = 120);
TestSuite(step2_2, .timeout = 120);
TestSuite(step2_3, .timeout = 120);
TestSuite(step2_4, .timeout = 120);
TestSuite(step2_5, .timeout = 120);
TestSuite(step2_6, .timeout = 120);
TestSuite(step2_7, .timeout = 120);
TestSuite(step2_8, .timeout = 120);
TestSuite(step2_9, .timeout = 120);
TestSuite(stepC_1, .timeout = 120);
TestSuite(stepC_2, .timeout = 120);
TestSuite(stepC_3, .timeout = 120);
TestSuite(stepC_4, .timeout = 120);
TestSuite(stepC_5, .timeout = 120);
TestSuite(stepC_6, .timeout = 120);
TestSuite(stepC_7, .timeout = 120);
TestSuite(stepC_8, .timeout = 120);
TestSuite(stepC_9, .timeout = 120);
TestSuite(stepC_10, .timeout = 120);
TestSuite(stepC_11, .timeout = 120);
TestSuite(stepC_12, .timeout = 120);
TestSuite(stepC_13, .timeout = 120);
TestSuite(stepC_14, .timeout = 120);
TestSuite(stepC_15, .timeout = 120);
TestSuite(stepC_16, .timeout = 120);
TestSuite(stepC_20, .timeout = 120);
TestSuite(stepC_22, .timeout = 120);
TestSuite(stepC_23, .timeout = 120);
TestSuite(stepC_27, .timeout = 120);
TestSuite(stepC_28, .timeout = 120);
TestSuite(stepC_29, .timeout = 120);
TestSuite(stepC_30, .timeout = 120);
TestSuite(stepC_31, .timeout = 120);
TestSuite(stepC_32, .timeout = 120);
TestSuite(step3_1, .timeout = 120);
TestSuite(step3_2, .timeout = 120);
TestSuite(step3_3, .timeout = 120);
TestSuite(step3_4, .timeout = 120);
TestSuite(step3_5, .timeout = 120);
TestSuite(step3_6, .timeout = 120);
TestSuite(step3_7, .timeout = 120);
TestSuite(step3_8, .timeout = 120);
TestSuite(step3_9, .timeout = 120);
TestSuite(step4_1, .timeout = 120);
TestSuite(step4_2, .timeout = 120);
TestSuite(step4_3, .timeout = 120);
TestSuite(step4_4, .timeout = 120);
TestSuite(step4_5, .timeout = 120);
TestSuite(step4_6, .timeout = 120);
TestSuite(step4_7, .timeout = 120);
TestSuite(step5_1, .timeout = 120);
TestSuite(step5_2, .timeout = 120);
TestSuite(step5_3, .timeout = 120);
TestSuite(step5_4, .timeout = 120);

struct server_process step_start(size_t descriptors)
{
    return server_start_limited((struct server_limits){.descriptors = descriptors}, "");
}

static const char *step_name(void)
{
    const char *graded = getenv("STEP_GRADED");
    return graded != NULL ? graded : server_name();
}

bool step_is_known(void)
{
    return strncmp(step_name(), "st", 2) == 0;
}

bool step_is_bare(void)
{
    int stage = 0, step = 0;
    if (sscanf(step_name(), "stepC.%d", &step) == 1)
        return step <= 7;
    sscanf(step_name(), "step%d.%d", &stage, &step);
    return (stage == 1 && step <= 3) || (stage == 2 && step <= 7) || (stage == 5 && step == 4);
}

struct server_process step_start_with(const char *options)
{
    return server_start("%s", step_is_bare() ? "" : options);
}

bool step_is_core_before(int number)
{
    int step = 0;
    return sscanf(step_name(), "stepC.%d", &step) == 1 && step < number;
}

static void fail_with_end(struct server_process *server, int status)
{
    static char errors[2048];
    server_errors(server, errors, sizeof(errors));
    server_forget(server);
    verdict(false, "the server %s %d; its standard error: %s",
            WIFEXITED(status) ? "exited with status" : "was killed by signal",
            WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), errors);
}

void step_expect_alive(struct server_process *server)
{
    int status = server_await_end(server, test_now());
    if (status != -1)
        fail_with_end(server, status);
}

void step_stop(struct server_process *server)
{
    step_expect_alive(server);
    server_drop_clients(server);
    server_signal(server, SIGTERM);
    step_stop_told(server);
}

void step_stop_told(struct server_process *server)
{
    int status = server_await_end(server, test_now() + test_deadline_ms() / 1000.0);
    cr_assert_neq(status, -1, "the server did not end on SIGTERM");
    if (status != SIGTERM && status != 0)
        fail_with_end(server, status);
    server_forget(server);
}

void step_freeze(const struct server_process *server)
{
    char path[64], state = 0;
    double end = test_now() + test_deadline_ms() / 1000.0;
    server_signal(server, SIGSTOP);
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)server->pid);
    while (state != 'T' && test_left_ms(end) > 0) {
        FILE *stat = fopen(path, "re");
        if (stat == NULL || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
            state = 0;
        if (stat != NULL)
            fclose(stat);
        test_pause_ms(1);
    }
    cr_assert_eq(state, 'T', "the server does not stop");
}

void step_thaw(const struct server_process *server)
{
    server_signal(server, SIGCONT);
}

void step_expect_one_thread(void)
{
    enum { CLIENTS = 20 };
    struct server_process server = step_start(0);
    for (int i = 0; i < CLIENTS; i++)
        client_connect_echo(&server, "hello\n");
    long threads = probe_own_threads(server.pid);
    verdict(threads == 1, "%d silent clients cost %ld threads", CLIENTS, threads - 1);
    step_stop(&server);
}

void step_pin(const struct server_process *server)
{
    char path[64];
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    cr_assert_eq(sched_getaffinity(server->pid, sizeof(allowed), &allowed), 0);
    for (size_t i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &allowed))
            CPU_SET(i, &one);
    snprintf(path, sizeof(path), "/proc/%d/task", (int)server->pid);
    DIR *threads = opendir(path);
    cr_assert_not_null(threads);
    for (struct dirent *thread; (thread = readdir(threads)) != NULL;)
        if (thread->d_name[0] != '.')
            sched_setaffinity((pid_t)atoi(thread->d_name), sizeof(one), &one);
    closedir(threads);
}

void step_expect_rounds(const char *options, int clients, int rounds, const char *line, bool pinned)
{
    enum { MOST = 16 };
    int fds[MOST];
    char answer[64];
    size_t length = strlen(line), got;
    cr_assert(clients <= MOST && length <= sizeof(answer));
    struct server_process server = step_start_with(options);
    if (pinned)
        step_pin(&server);
    for (int i = 0; i < clients; i++)
        fds[i] = step_client(&server);
    for (int round = 1; round <= rounds; round++) {
        for (int i = 0; i < clients; i++)
            client_send_text(fds[i], line);
        for (int i = 0; i < clients; i++) {
            client_try_receive(fds[i], answer, length, step_patience(), &got);
            if (got < length)
                step_expect_alive(&server);
            verdict(got == length && memcmp(answer, line, got) == 0,
                    "of %d clients that have sent their line number %d, one got no answer in %d ms",
                    clients, round, step_patience_ms());
        }
    }
    step_stop(&server);
}

int step_client(const struct server_process *server)
{
    return client_connect_echo(server, "hello\n");
}

void step_ask(int client, const char *question)
{
    client_send_text(client, question);
    client_await_delivered(client);
}

/* A question about one connection over IPv4, by its ports; sock_diag(7). */
struct diag_request {
    struct nlmsghdr header;
    struct inet_diag_req_v2 about;
};

/* Bytes that wait in the server's end of a connection; -1: the system has no such end, or answers
 * no questions. */
static long asked_unread(int server_port, int client_port)
{
    struct inet_diag_sockid ends = {.idiag_sport = htons((uint16_t)server_port),
                                    .idiag_dport = htons((uint16_t)client_port),
                                    .idiag_src = {htonl(INADDR_LOOPBACK)},
                                    .idiag_dst = {htonl(INADDR_LOOPBACK)},
                                    .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}};
    struct diag_request request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST},
        .about = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .id = ends}};
    struct {
        struct nlmsghdr header;
        struct inet_diag_msg about;
    } answer = {.header.nlmsg_type = NLMSG_ERROR};
    int questions = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (questions >= 0 && send(questions, &request, sizeof(request), 0) == sizeof(request))
        recv(questions, &answer, sizeof(answer), 0);
    close(questions);
    return answer.header.nlmsg_type == SOCK_DIAG_BY_FAMILY ? (long)answer.about.idiag_rqueue : -1;
}

/* The same out of the list of all connections, which are tens of thousands while other tests run.
 */
static long listed_unread(int server_port, int client_port)
{
    char line[512];
    long unread = -1;
    FILE *sockets = fopen("/proc/net/tcp", "re");
    cr_assert_not_null(sockets);
    while (unread == -1 && fgets(line, sizeof(line), sockets) != NULL) {
        unsigned local, remote, received;
        if (sscanf(line, " %*d: %*x:%x %*x:%x %*x %*x:%x", &local, &remote, &received) == 3 &&
            local == (unsigned)server_port && remote == (unsigned)client_port)
            unread = (long)received;
    }
    fclose(sockets);
    return unread;
}

static long unread_by_server(const struct server_process *server, int client_port)
{
    long unread = asked_unread(server->port, client_port);
    return unread >= 0 ? unread : listed_unread(server->port, client_port);
}

void step_await_read(const struct server_process *server, int client)
{
    struct sockaddr_in own;
    socklen_t size = sizeof(own);
    double end = step_patience();
    client_await_delivered(client);
    getsockname(client, (struct sockaddr *)&own, &size);
    while (unread_by_server(server, ntohs(own.sin_port)) > 0 && test_left_ms(end) > 0)
        test_pause_ms(1);
}

void step_await_done(struct server_process *server, long most)
{
    double end = step_patience();
    long open;
    while ((open = probe_descriptors(server->pid)) > most && !probe_asleep(server->pid) &&
           test_left_ms(end) > 0)
        test_pause_ms(1);
    if (open <= 0) /* those of a program that ends are gone before it has */
        server_await_end(server, end);
}

bool step_has_answer(int client)
{
    int waiting = 0;
    ioctl(client, FIONREAD, &waiting);
    return waiting > 0;
}

int step_patience_ms(void)
{
    const char *text = getenv("STEP_PATIENCE_MS");
    int chosen = text != NULL ? atoi(text) : 0;
    return chosen > 0 ? chosen : test_deadline_ms();
}

double step_patience(void)
{
    return test_now() + step_patience_ms() / 1000.0;
}

size_t step_receive(int client, char *data, size_t length)
{
    enum { PIECE = 1 << 16 };
    size_t count = 0, got = 1;
    for (; count < length && got > 0; count += got)
        client_try_receive(client, data + count, length - count < PIECE ? length - count : PIECE,
                           step_patience(), &got);
    return count;
}

bool step_answers(int client, const char *line)
{
    return client_try_echo(client, line, step_patience());
}
