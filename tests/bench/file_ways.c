/*
 * Ways to send a file: what each costs, and what becomes of it if the file gets shorter meanwhile.
 *
 *   build/tests/file_ways
 *
 * Sends files of several sizes over a loopback connection to a child, which throws the bytes away.
 * Prints a line of JSON for each way and size: CPU time of the sender in microseconds, and page
 * faults, each for one file. Then a line for each way: what happens at the first byte that was cut
 * off.
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BUFFER = 65536,
    MOST = 10 * 1024 * 1024,
    BYTES_A_RUN = 256 * 1024 * 1024, /* how often a file is sent follows from that */
    TIMES = 2000,                    /* at most */
};

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

/* ---- the ways: each sends `size` bytes of `file`, and returns how many it could
 * ------------------ */

static size_t send_all(int to, const char *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t sent = send(to, data + done, size - done, MSG_NOSIGNAL);
        if (sent <= 0)
            break;
        done += (size_t)sent;
    }
    return done;
}

static size_t by_read(int to, int file, size_t size)
{
    static char buffer[BUFFER];
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(file, buffer, sizeof(buffer), (off_t)done);
        if (got <= 0 || send_all(to, buffer, (size_t)got) < (size_t)got)
            break;
        done += (size_t)got;
    }
    return done;
}

static char *map(int file, size_t size)
{
    char *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED)
        fail("mmap");
    return bytes;
}

static size_t by_mmap(int to, int file, size_t size)
{
    char *bytes = map(file, size);
    size_t done = send_all(to, bytes, size);
    munmap(bytes, size);
    return done;
}

/* As a server does that keeps its most wanted files mapped. */
static size_t by_kept_map(int to, int file, size_t size)
{
    static char *bytes;
    static size_t mapped;
    if (mapped != size) {
        if (bytes != NULL)
            munmap(bytes, mapped);
        bytes = map(file, size);
        mapped = size;
    }
    return send_all(to, bytes, size);
}

static size_t by_sendfile(int to, int file, size_t size)
{
    off_t place = 0;
    while ((size_t)place < size)
        if (sendfile(to, file, &place, size - (size_t)place) <= 0)
            break;
    return (size_t)place;
}

static const struct way {
    const char *name;
    size_t (*send)(int to, int file, size_t size);
} ways[] = {
    {"read and write", by_read},
    {"mmap and write", by_mmap},
    {"a map that is kept", by_kept_map},
    {"sendfile", by_sendfile},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* ---- what they cost
 * ------------------------------------------------------------------------------ */

static int file_of(size_t size)
{
    static char page[BUFFER];
    memset(page, 'x', sizeof(page));
    FILE *file = tmpfile();
    if (file == NULL)
        fail("tmpfile");
    for (size_t left = size; left > 0;) {
        size_t part = left < sizeof(page) ? left : sizeof(page);
        if (fwrite(page, 1, part, file) != part)
            fail("fwrite");
        left -= part;
    }
    fflush(file);
    return fileno(file);
}

/* Our end of a connection to a child that reads, and throws away what it reads. */
static int connect_to_child(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int ours = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
        connect(ours, (struct sockaddr *)&address, length) != 0)
        fail("socket");
    int theirs = accept(listener, NULL, NULL);
    pid_t child = fork();
    if (theirs < 0 || child < 0)
        fail("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ours);
        while (recv(theirs, NULL, MOST, MSG_TRUNC) > 0)
            ;
        _exit(0);
    }
    close(theirs);
    close(listener);
    return ours;
}

static double cpu_us(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

static long faults(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt + used.ru_majflt;
}

static void measure(const struct way *way, int to, int file, size_t size)
{
    int times = (int)(BYTES_A_RUN / size < TIMES ? BYTES_A_RUN / size : TIMES);
    way->send(to, file, size); /* the file is in memory, and what is kept is there */
    long faults_before = faults();
    double before = cpu_us();
    for (int i = 0; i < times; i++)
        if (way->send(to, file, size) != size)
            fail(way->name);
    double used = (cpu_us() - before) / times;
    printf("{\"way\": \"%s\", \"size\": %zu, \"cpu_us\": %.2f, \"faults\": %.2f}\n", way->name,
           size, used, (double)(faults() - faults_before) / times);
}

/* ---- a file that gets shorter
 * -------------------------------------------------------------------- */

enum { PAGES = 10 };

static const char *ends_by(ssize_t result)
{
    if (result < 0)
        return errno == EFAULT ? "EFAULT" : strerror(errno);
    return result == 0 ? "returns 0" : "goes on";
}

/* A program that looks at the bytes itself, to compress or to encrypt them for instance. */
static const char *look(const volatile char *byte)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(*byte == 'x' ? 0 : 1);
    if (waitpid(child, &status, 0) != child)
        fail("waitpid");
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS ? "SIGBUS" : "goes on";
}

static void cut_short(int to)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char byte;
    int file = file_of(PAGES * page);
    char *bytes = map(file, PAGES * page);
    off_t place = (off_t)page;
    if (ftruncate(file, (off_t)page) != 0)
        fail("ftruncate");
    printf("{\"cut\": \"read\", \"ends\": \"%s\"}\n", ends_by(pread(file, &byte, 1, (off_t)page)));
    printf("{\"cut\": \"sendfile\", \"ends\": \"%s\"}\n",
           ends_by(sendfile(to, file, &place, page)));
    printf("{\"cut\": \"write from the map\", \"ends\": \"%s\"}\n",
           ends_by(send(to, bytes + page, page, MSG_NOSIGNAL)));
    printf("{\"cut\": \"a look at the map\", \"ends\": \"%s\"}\n", look(bytes + page));
}

int main(void)
{
    static const size_t sizes[] = {1024, 102400, MOST};
    setvbuf(stdout, NULL, _IOLBF, 0);
    int to = connect_to_child();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int file = file_of(sizes[i]);
        for (size_t w = 0; w < WAYS; w++)
            measure(&ways[w], to, file, sizes[i]);
    }
    cut_short(to);
    return 0;
}
