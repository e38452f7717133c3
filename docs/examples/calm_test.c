/* Tests calm.c without a server: docs/tutorial.md says how it is built. */
#include "common/apps/rehearsal.h"

#include <stdio.h>
#include <string.h>

extern const struct application calm_application;

static int failures;

static void expect(struct rehearsed *client, const char *expected)
{
    const char *read = rehearsed_read(client);
    if (strcmp(read, expected) != 0) {
        printf("expected \"%s\", read \"%s\"\n", expected, read);
        failures++;
    }
}

static void say(struct rehearsed *client, const char *text)
{
    rehearsed_send(client, text, strlen(text));
}

int main(void)
{
    struct rehearsal rehearsal;
    if (!rehearsal_open(&rehearsal, &calm_application, NULL))
        return 1;
    struct rehearsed *ann = rehearsal_connect(&rehearsal);
    struct rehearsed *bob = rehearsal_connect(&rehearsal);
    say(bob, "hello\nyo");
    say(bob, "u\n");
    expect(bob, "6 bytes\n4 bytes\n");
    rehearsal_pass_time(&rehearsal, 400);
    expect(ann, "");
    rehearsal_pass_time(&rehearsal, 100);
    expect(ann, "10 bytes in all\n");
    say(bob, "me\n");
    rehearsed_leave(bob); /* before the timer fires */
    expect(ann, "13 bytes in all\n");
    rehearsal_close(&rehearsal);
    printf("%d failures\n", failures);
    return failures != 0;
}
