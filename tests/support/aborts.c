#include "support/aborts.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void expect_abort_at(const char *file, int line, void (*act)(void *with), void *with,
                     const char *words)
{
    char said[4096] = "";
    size_t length = 0;
    ssize_t got;
    int ends[2], status;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        act(with);
        _exit(0);
    }
    close(ends[1]);
    while (length < sizeof said - 1 &&
           (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0) {
        length += (size_t)got;
    }
    close(ends[0]);
    waitpid(child, &status, 0);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s:%d: status %x, %s", file,
              line, (unsigned)status, said);
    cr_assert_not_null(strstr(said, words), "%s:%d: expected '%s', got '%s'", file, line, words,
                       said);
}
