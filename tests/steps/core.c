/*
 * The steps that make the core.
 */
#include "step.h"

#include <stdlib.h>
#include <string.h>

/* ---- C.1: a queue ---- */

/* A client whose line is too long learns why the connection ends, and reads it when it has sent
 * all.
 */
Test(stepC_1, a_client_learns_that_its_line_is_too_long)
{
    static const char wanted[] = "ERR line too long\n";
    char answer[64] = "";
    size_t length, got;
    char *line = line_of(200000, "", &length);
    struct server_process server = step_start(0);
    int eve = client_connect(&server);
    client_try_send(eve, line, length, step_patience());
    client_try_receive(eve, answer, sizeof(wanted) - 1, step_patience(), &got);
    verdict(strcmp(answer, wanted) == 0,
            "Eve's line was too long, and all that she heard was \"%s\"", answer);
    client_close(eve);
    free(line);
    step_stop(&server);
}

/* The longest line that is allowed, with either end. */
Test(stepC_1, a_line_of_65536_bytes_is_answered)
{
    enum { LONGEST = 65536 };
    static char line[LONGEST + 2], answer[sizeof(line)];
    struct server_process server = step_start(0);
    int ann = client_connect(&server);
    memset(line, 'x', LONGEST);
    memcpy(line + LONGEST, "\r\n", 2);
    client_try_send(ann, line, sizeof(line), step_patience());
    size_t got = step_receive(ann, answer, sizeof(answer));
    verdict(got == sizeof(line) && memcmp(answer, line, got) == 0,
            "Ann's line has %d bytes and an end of two, and %zu bytes came back", LONGEST, got);
    client_close(ann);
    step_stop(&server);
}
