/*
 * What an application needs and what a stage offers: a stage that lacks something refuses in one
 * sentence that names both, and one that offers it all serves.
 */
#include "common/apps/application_choice.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>

TestSuite(application, .timeout = 60);

static int settle(unsigned needs, unsigned offers)
{
    struct application application = {.name = "mine", .needs = needs};
    struct application_choice choice = {.chosen = &application, .offers = offers};
    struct options options;
    options_init(&options, "stage9-test", "");
    return application_settle(&choice, &options, NULL);
}

static void refuses(unsigned needs, unsigned offers, const char *sentence)
{
    cr_assert_eq(settle(needs, offers), 2);
    fflush(stderr);
    cr_assert_stderr_eq_str(sentence);
}

Test(application, output_from_elsewhere_is_refused_by_name, .init = cr_redirect_stderr)
{
    refuses(OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_TIMERS, OFFERS_TIMERS,
            "stage9-test: --app: mine needs output from other connections' handlers, which "
            "stage9-test does not offer; stages 4 and 5 do\n");
}

Test(application, timers_are_refused_by_name, .init = cr_redirect_stderr)
{
    refuses(OFFERS_TIMERS, OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_POST,
            "stage9-test: --app: mine needs timers, which stage9-test does not offer; every stage "
            "of this course does\n");
}

Test(application, posts_are_refused_by_name, .init = cr_redirect_stderr)
{
    refuses(OFFERS_POST | OFFERS_TIMERS, OFFERS_TIMERS,
            "stage9-test: --app: mine needs functions that other threads post, which stage9-test "
            "does not offer; stages 4 and 5 do\n");
}

/* Two needs that are not met make one sentence. */
Test(application, one_sentence_is_enough, .init = cr_redirect_stderr)
{
    refuses(OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_POST, 0,
            "stage9-test: --app: mine needs output from other connections' handlers, which "
            "stage9-test does not offer; stages 4 and 5 do\n");
}

Test(application, what_is_offered_is_served)
{
    cr_assert_eq(settle(0, 0), OPTIONS_SERVE);
    cr_assert_eq(settle(OFFERS_TIMERS, OFFERS_TIMERS | OFFERS_POST), OPTIONS_SERVE);
}
