/*
 * Helpers of the unit tests: see helpers.h.
 */
#include "helpers.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct rng rng_from(uint64_t seed)
{
    return (struct rng){.state = seed};
}

/* splitmix64 */
static uint64_t rng_next(struct rng *rng)
{
    uint64_t mixed = rng->state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

size_t rng_below(struct rng *rng, size_t bound)
{
    return (size_t)(rng_next(rng) % bound);
}

size_t rng_between(struct rng *rng, size_t least, size_t most)
{
    return least + rng_below(rng, most - least + 1);
}

void fill_pattern(unsigned char *data, size_t length, uint64_t seed)
{
    struct rng rng = rng_from(seed);
    for (size_t i = 0; i < length; i += sizeof(uint64_t)) {
        uint64_t eight = rng_next(&rng);
        memcpy(data + i, &eight, length - i < sizeof(eight) ? length - i : sizeof(eight));
    }
}

static void set_non_blocking(int fd)
{
    cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
}

void pair_open(int ends[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0, "%s", strerror(errno));
    set_non_blocking(ends[0]);
    set_non_blocking(ends[1]);
}

void pair_open_small(int ends[2])
{
    const int smallest = 1;
    pair_open(ends);
    for (int i = 0; i < 2; i++) {
        setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &smallest, sizeof(smallest));
        setsockopt(ends[i], SOL_SOCKET, SO_RCVBUF, &smallest, sizeof(smallest));
    }
}

void pair_close(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

void put(int fd, const void *data, size_t length)
{
    ssize_t written = write(fd, data, length);
    cr_assert_eq(written, (ssize_t)length, "wrote %zd of %zu bytes", written, length);
}

size_t take_now(int fd, void *data, size_t size)
{
    size_t taken = 0;
    while (taken < size) {
        ssize_t got = read(fd, (char *)data + taken, size - taken);
        if (got <= 0)
            break;
        taken += (size_t)got;
    }
    return taken;
}

/* Whether nothing is on its way: bytes that arrive make room. True for what is no TCP socket. */
static bool is_settled(int fd)
{
    int unacknowledged = 0, unsent = 0;
    return ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 || ioctl(fd, SIOCOUTQNSD, &unsent) != 0 ||
           unacknowledged == unsent;
}

size_t fill_up(int fd)
{
    static const char block[4096];
    double end = test_deadline();
    size_t filled = 0, before;
    bool settled;
    do {
        settled = is_settled(fd);
        before = filled;
        for (size_t size = sizeof(block); size > 0; size /= 2)
            for (ssize_t written; (written = write(fd, block, size)) > 0;)
                filled += (size_t)written;
        if (!settled)
            test_pause_ms(1);
    } while ((!settled || filled > before) && test_left_ms(end) > 0);
    return filled;
}

int tcp_listen(struct sockaddr_in *address)
{
    socklen_t length = sizeof(*address);
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)address, length), 0, "%s", strerror(errno));
    cr_assert_eq(listen(fd, 16), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)address, &length), 0);
    return fd;
}

int tcp_connect(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)address, sizeof(*address)), 0, "%s",
                 strerror(errno));
    set_non_blocking(fd);
    return fd;
}

void tcp_pair_open(int ends[2])
{
    struct sockaddr_in address;
    int listening = tcp_listen(&address);
    ends[0] = tcp_connect(&address);
    ends[1] = accept(listening, NULL, NULL);
    cr_assert_geq(ends[1], 0);
    close(listening);
    set_non_blocking(ends[1]);
}

void close_with_reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
}

void capture_start(struct capture *capture, int fd)
{
    fflush(NULL);
    capture->fd = fd;
    capture->file = tmpfile();
    capture->saved = dup(fd);
    cr_assert(capture->file != NULL && capture->saved >= 0);
    cr_assert_eq(dup2(fileno(capture->file), fd), fd);
}

void capture_stop(struct capture *capture, char *text, size_t size)
{
    fflush(NULL);
    dup2(capture->saved, capture->fd);
    close(capture->saved);
    rewind(capture->file);
    size_t length = fread(text, 1, size - 1, capture->file);
    text[length] = '\0';
    fclose(capture->file);
}

/* Blocks that keep others from getting memory, linked through their first bytes. */
struct block {
    struct block *next;
};

static struct block *hoard;
static struct rlimit usual_limit;

bool limits_are_real(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded == NULL || strstr(preloaded, "vgpreload") == NULL;
}

bool memory_can_run_out(void)
{
    return limits_are_real() && !probe_sanitized();
}

static void take_all_of(size_t size)
{
    for (struct block *block; (block = malloc(size)) != NULL;) {
        block->next = hoard;
        hoard = block;
    }
}

/* The heap cannot grow past the limit; what it has free is taken, the small sizes one by one
 * because the C library keeps lists of each. */
void memory_take_all(void)
{
    getrlimit(RLIMIT_AS, &usual_limit);
    struct rlimit tight = {.rlim_cur = 4096, .rlim_max = usual_limit.rlim_max};
    setrlimit(RLIMIT_AS, &tight);
    for (size_t size = (size_t)1 << 24; size > 2048; size /= 2)
        take_all_of(size);
    for (size_t size = 2048; size >= 24; size -= 8)
        take_all_of(size);
}

void memory_give_back(void)
{
    setrlimit(RLIMIT_AS, &usual_limit);
    while (hoard != NULL) {
        struct block *next = hoard->next;
        free(hoard);
        hoard = next;
    }
}
