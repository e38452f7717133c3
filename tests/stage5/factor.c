/*
 * The example of tasks beside which messages go on, docs/examples/factor.c, in the framework.
 */
#include "docs/examples/factor.c"

#include "framework.h"

#include <criterion/criterion.h>

TestSuite(stage5_factor, .timeout = 120);

static struct framework framework;

/* A helper is held with the first number, the other one does the second and the third. */
Test(stage5_factor, numbers_come_in_their_order_and_lines_go_on)
{
    test_point_count(HELPER_ENDS);
    framework_start(&framework, "--workers 0 --helpers 2");
    struct input_handler_factory *factory =
        application_open(&factor_application, &framework.server);
    cr_assert_not_null(factory);
    int client = framework_connect(&framework, factory->create(factory, NULL));
    test_point_hold(HELPER_ENDS);
    client_send_text(client, "1000003\n");
    test_point_await_held(HELPER_ENDS, 1);
    client_ask(client, "91\n4\nhello\n", "hello\n");
    test_point_await_count(HELPER_ENDS, 3);
    test_point_release(HELPER_ENDS);
    client_expect_text(client, "1000003 has the factor 1000003\n"
                               "91 has the factor 7\n4 has the factor 2\n");
    framework_close(&framework);
    application_close(&factor_application, factory);
}
