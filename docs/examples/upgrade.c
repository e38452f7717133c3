/*
 * Starts a server anew without losing anybody: upgrade PORT PROGRAM [OPTION...]
 *
 * It holds the listener, which the program takes over (LISTEN_FDS). At SIGHUP it starts the program
 * once more; the old one gets SIGTERM when the new one has printed its first line.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LISTENER = 3 };  /* where the convention has it */
static sigset_t before; /* the signals that were blocked when we were started */

/* What the child does until it is another program. */
static void become(char **program, int out)
{
    char pid[24];
    snprintf(pid, sizeof(pid), "%d", getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "1", 1);
    dup2(out, STDOUT_FILENO);
    sigprocmask(SIG_SETMASK, &before, NULL);
    execvp(program[0], program);
    perror(program[0]);
    _exit(127);
}

/* The process of a program that serves; 0: it does not. */
static pid_t start(char **program)
{
    int ends[2];
    char line[512];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 0;
    pid_t child = fork();
    if (child == 0)
        become(program, ends[1]);
    close(ends[1]);
    struct pollfd out = {.fd = ends[0], .events = POLLIN};
    ssize_t length = poll(&out, 1, 10000) == 1 ? read(ends[0], line, sizeof(line)) : 0;
    close(ends[0]);
    if (length > 0)
        return fwrite(line, 1, (size_t)length, stdout), fflush(stdout), child;
    fprintf(stderr, "upgrade: %s does not serve\n", program[0]);
    if (child > 0)
        kill(child, SIGKILL);
    return 0;
}

int main(int count, char **arguments)
{
    int port = count > 2 ? atoi(arguments[1]) : -1, status, got, on = 1;
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sigset_t wanted;
    sigemptyset(&wanted), sigaddset(&wanted, SIGHUP);
    sigaddset(&wanted, SIGTERM), sigaddset(&wanted, SIGCHLD);
    sigprocmask(SIG_BLOCK, &wanted, &before);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (port < 0 || bind(fd, (struct sockaddr *)&place, sizeof(place)) != 0 ||
        listen(fd, SOMAXCONN) != 0 || dup2(fd, LISTENER) < 0 || (fd != LISTENER && close(fd)))
        return perror("upgrade: expected PORT PROGRAM [OPTION...], and a port that is free"), 2;
    pid_t serving = start(arguments + 2);
    while (serving != 0 && sigwait(&wanted, &got) == 0) {
        pid_t next = got == SIGHUP ? start(arguments + 2) : 0;
        if (next != 0 || got == SIGTERM)
            kill(serving, SIGTERM);
        serving = next != 0 ? next : serving;
        for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
            if (ended == serving)
                return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
    }
    return EXIT_FAILURE;
}
