/*
 * The clients: connections, their events, and when each sends its next burst.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS = 256,
    READ_SIZE = 256 * 1024,
    HEAD_SIZE = 4096, /* as load_traffic.c has it */
    QUIET_MS = 300,   /* without a word, the arrivals are over */
    PORTS = 12500,    /* connections from each address: with more, a free port is hard to find */
    AT_A_TIME = 256,  /* visits: messages that are not answered yet */
};

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static int connect_to(int port, uint32_t number)
{
    const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + number / PORTS)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        load_fail("cannot make a socket: %s", strerror(errno));
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    if (number >= PORTS && bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0)
        load_fail("cannot connect from another address: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        load_fail("cannot connect: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static void watch(const struct load *load, struct client *client, uint32_t events, int operation)
{
    struct epoll_event event = {.events = events, .data.ptr = client};
    if (epoll_ctl(load->epoll, operation, client->fd, &event) != 0)
        load_fail("epoll_ctl: %s", strerror(errno));
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        load_fail("no memory for the clients");
    return memory;
}

static void connect_client(struct load *load, struct client *client, uint32_t number)
{
    client->fd = connect_to(load->server.port, number);
    client->number = number;
    client->idle = number >= load->settings.connections;
    client->head = allocate(1, HEAD_SIZE);
    client->sent_at = allocate(load->settings.depth, sizeof(*client->sent_at));
    watch(load, client, EPOLLIN, EPOLL_CTL_ADD);
}

/* One message there and back. A server that has answered has surely accepted. */
static void exchange_one(struct load *load, struct client *client)
{
    static char data[READ_SIZE];
    size_t length;
    const char *request = load->traffic->request(client, 0, 1, &length);
    client->asked = 1;
    const struct timeval patience = {.tv_sec = load->settings.patience / 1000,
                                     .tv_usec = load->settings.patience % 1000 * 1000};
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (send(client->fd, request, length, MSG_NOSIGNAL) != (ssize_t)length)
        load_fail("client %u: cannot send a first message: %s", client->number, strerror(errno));
    while (client->answered < client->asked) {
        ssize_t got = recv(client->fd, data, sizeof(data), 0);
        if (got <= 0)
            load_fail("client %u: no reply to its first message", client->number);
        client->answered += load->traffic->receive(client, data, (size_t)got);
    }
}

/* Waits for the server's first word to a client; false if it has none for anybody. */
static bool await_welcome(const struct load *load, const struct client *client)
{
    struct pollfd wait = {.fd = client->fd, .events = POLLIN};
    int patience = client->number == 0 ? QUIET_MS : (int)load->settings.patience;
    bool welcome = poll(&wait, 1, patience) == 1;
    if (!welcome && client->number != 0)
        load_fail("client %u: is not welcome", client->number);
    return welcome;
}

/* What the server says about arrivals, until it says no more. */
static void skip_arrivals(const struct load *load)
{
    static char data[READ_SIZE];
    struct epoll_event events[EVENTS];
    int count;
    while ((count = epoll_wait(load->epoll, events, EVENTS, QUIET_MS)) > 0)
        for (int i = 0; i < count; i++)
            if (recv(((struct client *)events[i].data.ptr)->fd, data, sizeof(data), 0) <= 0)
                load_fail("a user was let go before the beginning");
}

/* The first user says the opening line, and it comes to all others. */
static void open_chat(struct load *load)
{
    static char data[READ_SIZE];
    size_t length;
    const char *line = chat_opening(&length);
    skip_arrivals(load);
    if (send(load->clients[0].fd, line, length, MSG_NOSIGNAL) != (ssize_t)length)
        load_fail("cannot say the opening line: %s", strerror(errno));
    for (size_t waiting = load->client_count - 1; waiting > 0;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(load->epoll, events, EVENTS, (int)load->settings.patience);
        if (count <= 0)
            load_fail("%zu users have not heard the opening line", waiting);
        for (int i = 0; i < count; i++) {
            struct client *client = events[i].data.ptr;
            ssize_t got = recv(client->fd, data, sizeof(data), MSG_DONTWAIT);
            if (got <= 0)
                load_fail("client %u: was let go before the beginning", client->number);
            if (client->number != 0 && chat_opened(client, data, (size_t)got))
                waiting--;
        }
    }
}

/* The server's memory, once its threads are back where they wait. */
static long long settled_memory(const struct load *load)
{
    const struct timespec settle = {.tv_nsec = 50000000};
    nanosleep(&settle, NULL);
    return server_memory(&load->server);
}

/* What the active clients have the server's threads keep is no part of what an idle one costs. */
void clients_connect(struct load *load)
{
    const struct load_settings *settings = &load->settings;
    const uint32_t measured =
        (uint32_t)(settings->idle > 0 ? settings->idle : settings->connections);
    load->client_count = settings->connections + settings->idle;
    load->clients = allocate(load->client_count, sizeof(*load->clients));
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    bool welcomes = true;
    for (uint32_t i = 0; i < load->client_count; i++) {
        if (i == load->client_count - measured)
            load->server.memory_base = settled_memory(load);
        connect_client(load, &load->clients[i], i);
        if (!load->traffic->one_speaks)
            exchange_one(load, &load->clients[i]);
        else if (welcomes)
            welcomes = await_welcome(load, &load->clients[i]);
    }
    if (load->traffic->one_speaks)
        open_chat(load);
    load->memory = (settled_memory(load) - load->server.memory_base) / (long long)measured;
}

static void close_all(struct load *load)
{
    const struct linger reset = {.l_onoff = 1};
    for (size_t i = 0; i < load->client_count; i++) {
        setsockopt(load->clients[i].fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(load->clients[i].fd);
        free(load->clients[i].head);
        free(load->clients[i].sent_at);
    }
}

void clients_close(struct load *load)
{
    close_all(load);
    free(load->clients);
    close(load->epoll);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Sends what is left of a burst, as far as the socket takes it. */
static void send_rest(struct load *load, struct client *client)
{
    ssize_t sent =
        send(client->fd, client->unsent, client->unsent_length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN)
        load_fail("client %u: the server has closed the connection (%s)", client->number,
                  strerror(errno));
    if (sent > 0) {
        client->unsent += sent;
        client->unsent_length -= (size_t)sent;
    }
    bool full = client->unsent_length > 0;
    if (full != client->awaits_room)
        watch(load, client, full ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
    client->awaits_room = full;
}

static uint64_t replies_to_each(const struct load *load)
{
    return load->traffic->one_speaks ? load->client_count - 1 : 1;
}

/* A burst of messages, which are sent now, whenever they were due. */
static void ask(struct load *load, struct client *client, uint64_t count)
{
    int64_t now = now_ns();
    for (uint64_t i = 0; i < count; i++)
        client->sent_at[(client->asked + i) % load->settings.depth] = now;
    client->unsent = load->traffic->request(client, client->asked, count, &client->unsent_length);
    client->asked += count;
    load->all_asked += count * replies_to_each(load);
    send_rest(load, client);
}

/*
 * The open loop's timetable: message i of all is due i times 1/rate after the beginning, and is
 * client i's, round and round. So when a client's j-th message is due need not be kept anywhere.
 */
static int64_t due_at(const struct load *load, const struct client *client, uint64_t j)
{
    uint64_t askers = load->traffic->one_speaks ? 1 : load->settings.connections;
    double message = (double)(j * askers + client->number);
    return load->open_began + (int64_t)(message * 1e9 / (double)load->settings.rate);
}

/* Messages of this client, from the exchange at its beginning on, that the timetable counts. */
static uint64_t by_timetable(const struct load *load, uint64_t number)
{
    return load->traffic->one_speaks ? number : number - 1;
}

/* Sends what is due at this client, as far as `depth` allows; the rest follows upon its replies. */
static void ask_due(struct load *load, struct client *client, int64_t now)
{
    const struct client *hears = load->traffic->one_speaks ? &load->clients[1] : client;
    while (client->asked - hears->answered < load->settings.depth && client->unsent_length == 0 &&
           due_at(load, client, by_timetable(load, client->asked)) <= now)
        ask(load, client, 1);
}

/* Sends all that is due. The moment of the next message. */
static int64_t ask_all_due(struct load *load, int64_t now)
{
    size_t askers = load->traffic->one_speaks ? 1 : load->settings.connections;
    for (;; load->next_due++) {
        struct client *client = &load->clients[load->next_due % askers];
        int64_t due = due_at(load, client, load->next_due / askers);
        if (due > now)
            return due;
        ask_due(load, client, now);
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Whether a message was due in the time that is measured. */
static bool is_measured(const struct load *load, int64_t due)
{
    return load->began != 0 && due >= load->began && (load->ended == 0 || due < load->ended);
}

/* A message that the server has refused, or dropped without a word. */
static void count_failed(struct load *load, struct client *client, bool refused)
{
    uint64_t number = client->answered++;
    load->all_replies++;
    load->last_reply = now_ns();
    if (refused && is_measured(load, due_at(load, client, by_timetable(load, number))))
        load->refused++;
}

static void count_replies(struct load *load, struct client *client, uint64_t count)
{
    int64_t now = now_ns();
    const struct client *asker = load->traffic->one_speaks ? &load->clients[0] : client;
    load->last_reply = now;
    load->all_replies += count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = client->answered++;
        if (load->settings.within > 0) {
            int64_t due = due_at(load, client, by_timetable(load, number));
            if (is_measured(load, due) && now - due <= (int64_t)load->settings.within * 1000000)
                load->in_time++;
        }
        if (!load->measuring)
            continue;
        int64_t sent = asker->sent_at[number % load->settings.depth];
        if (load->settings.rate > 0) {
            histogram_add(&load->latency, now - due_at(load, asker, by_timetable(load, number)));
            histogram_add(&load->from_sending, now - sent);
        } else {
            histogram_add(&load->latency, now - sent);
        }
        load->replies++;
    }
}

/* The whole burst is answered: the next one, in a closed loop. */
static void go_on(struct load *load, struct client *client)
{
    if (load->settings.rate > 0) {
        ask_due(load, client, now_ns());
        return;
    }
    if (!load->traffic->one_speaks && client->answered == client->asked)
        ask(load, client, load->settings.depth);
    else if (load->traffic->one_speaks && load->all_replies == load->all_asked)
        ask(load, &load->clients[0], load->settings.depth);
}

/* A line from a server that may refuse: replies keep their order, so what lies before one is lost.
 */
static void take_line(struct load *load, struct client *client, const char *line, size_t length)
{
    uint64_t number = client->answered;
    while (number < client->asked && !echo_is_reply(client, number, line, length))
        number++;
    if (number < client->asked) {
        while (client->answered < number)
            count_failed(load, client, false);
        count_replies(load, client, 1);
    } else if (client->answered < client->asked && length > 4 && memcmp(line, "ERR ", 4) == 0) {
        count_failed(load, client, true);
    } else {
        load_fail("client %u: neither a reply nor a refusal: %.*s", client->number,
                  (int)(length < 60 ? length : 60), line);
    }
}

/* How many lines were completed. */
static uint64_t take_lines(struct load *load, struct client *client, const char *data,
                           size_t length)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < length; i++) {
        if (client->place == HEAD_SIZE)
            load_fail("client %u: a line without an end", client->number);
        client->head[client->place++] = data[i];
        if (data[i] != '\n')
            continue;
        size_t line = (size_t)client->place;
        client->place = 0;
        take_line(load, client, client->head, line);
        lines++;
    }
    return lines;
}

static void receive(struct load *load, struct client *client, bool goes_on)
{
    static char data[READ_SIZE];
    ssize_t got = recv(client->fd, data, sizeof(data), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        load_fail("client %u: the server has closed the connection (%s)", client->number,
                  got == 0 ? "end of stream" : strerror(errno));
    if (load->traffic->one_speaks && client->number == 0)
        return; /* what is said to the speaker is nobody's business */
    if (client->idle)
        load_fail("client %u is idle, and got something", client->number);
    uint64_t count;
    if (load->settings.within > 0) {
        count = take_lines(load, client, data, (size_t)got);
    } else {
        count = load->traffic->receive(client, data, (size_t)got);
        if (count > 0)
            count_replies(load, client, count);
    }
    if (count > 0 && goes_on)
        go_on(load, client);
}

/* Waits until `until` at most, and deals with what has happened. */
static void turn(struct load *load, int64_t until, bool goes_on)
{
    struct epoll_event events[EVENTS];
    int64_t left = until - now_ns();
    left = left > 0 ? left : 0;
    struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    int count = epoll_pwait2(load->epoll, events, EVENTS, &timeout, NULL);
    for (int i = 0; i < count; i++) {
        struct client *client = events[i].data.ptr;
        if ((events[i].events & EPOLLOUT) != 0)
            send_rest(load, client);
        if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
            receive(load, client, goes_on);
    }
}

static void check_patience(const struct load *load)
{
    int64_t silence = now_ns() - load->last_reply;
    if (load->all_replies < load->all_asked && silence > load->settings.patience * 1000000)
        load_fail("%llu replies are missing, and none has come for %.1f s",
                  (unsigned long long)(load->all_asked - load->all_replies), (double)silence / 1e9);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void begin(struct load *load)
{
    load->open_began = load->last_reply = now_ns();
    if (load->settings.rate > 0)
        return;
    size_t askers = load->traffic->one_speaks ? 1 : load->settings.connections;
    for (size_t i = 0; i < askers; i++)
        ask(load, &load->clients[i], load->settings.depth);
}

/* How much of the measured time or number is done, 0 to 1 and beyond. */
static double done_part(const struct load *load)
{
    const struct load_settings *settings = &load->settings;
    if (settings->requests > 0)
        return (double)load->replies / (double)settings->requests;
    return (double)(now_ns() - load->began) / ((double)settings->duration * 1e6);
}

static void go_round(struct load *load)
{
    int64_t soon = now_ns() + 10000000; /* to look at the clocks */
    if (load->settings.rate > 0) {
        int64_t next = ask_all_due(load, now_ns());
        soon = next < soon ? next : soon;
    }
    turn(load, soon, true);
    check_patience(load);
}

static double own_cpu(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* What was used before: by the server, and by this process. */
struct stopwatch {
    struct usage server;
    double own;
};

static struct stopwatch begin_measuring(struct load *load)
{
    struct stopwatch watch = {.server = server_usage(&load->server), .own = own_cpu()};
    load->began = now_ns();
    load->measuring = true;
    return watch;
}

static void end_measuring(struct load *load, const struct stopwatch *watch)
{
    struct usage after = server_usage(&load->server);
    load->measuring = false;
    load->ended = now_ns();
    load->own_cpu = own_cpu() - watch->own;
    load->used = (struct usage){.cpu = after.cpu - watch->server.cpu,
                                .user = after.user - watch->server.user,
                                .system = after.system - watch->server.system};
}

void clients_run(struct load *load)
{
    begin(load);
    int64_t warm = now_ns() + load->settings.warm_up * 1000000;
    while (now_ns() < warm)
        go_round(load);

    struct stopwatch watch = begin_measuring(load);
    while (done_part(load) < 1) {
        go_round(load);
        report_progress(load, done_part(load));
    }
    end_measuring(load, &watch);
    load->threads = server_threads(&load->server);
}

/* ---- visits ---------------------------------------------------------------------------------- */

/* Takes replies until so few are outstanding. */
static void await_replies(struct load *load, uint64_t outstanding)
{
    while (load->all_asked - load->all_replies > outstanding) {
        turn(load, now_ns() + 10000000, false);
        check_patience(load);
    }
}

/* All come, say a message, and go when the last one has its reply. */
static void visit(struct load *load)
{
    memset(load->clients, 0, load->client_count * sizeof(*load->clients));
    load->last_reply = now_ns();
    for (uint32_t i = 0; i < load->client_count; i++) {
        connect_client(load, &load->clients[i], i);
        ask(load, &load->clients[i], 1);
        await_replies(load, AT_A_TIME);
    }
    await_replies(load, 0);
    load->threads = server_threads(&load->server);
    close_all(load);
}

/* Until the server sleeps: it still has to close what we have closed. */
static void await_rest(const struct load *load)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    double before;
    double after = server_usage(&load->server).cpu;
    do {
        before = after;
        nanosleep(&pause, NULL);
        after = server_usage(&load->server).cpu;
    } while (after - before > 0.0005);
}

void clients_visit(struct load *load)
{
    load->client_count = load->settings.connections;
    load->clients = allocate(load->client_count, sizeof(*load->clients));
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    visit(load); /* a server that has had a crowd keeps some of its memory for the next one */
    await_rest(load);

    struct stopwatch watch = begin_measuring(load);
    do {
        visit(load);
        await_rest(load);
        report_progress(load, done_part(load));
    } while (done_part(load) < 1);
    end_measuring(load, &watch);
    free(load->clients);
    close(load->epoll);
}

void clients_drain(struct load *load)
{
    /* Under overload only what can still be in time matters. */
    bool overload = load->settings.within > 0;
    int64_t end = load->ended + (int64_t)load->settings.within * 1000000;
    load->last_reply = now_ns();
    while (load->all_replies < load->all_asked && !(overload && now_ns() > end)) {
        turn(load, now_ns() + 10000000, overload);
        if (!overload)
            check_patience(load);
    }
}
