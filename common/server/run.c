#include "common/server/run.h"

#include <stddef.h>

_Thread_local struct run *run_own;

struct run *run_enter(struct run *run)
{
    struct run *before = run_own;
    run_own = run;
    return before;
}

void run_begin(struct run *run, const struct connection *connection)
{
    *run = (struct run){.connection = connection, .outer = run_enter(run)};
}

void run_end(struct run *run)
{
    run_make_calls(run);
    if (run->burst.end != NULL)
        run->burst.end(&run->burst);
    run_enter(run->outer);
}
