/*
 * Posts, with the handler in the dispatcher and in a worker. The tests
 * are those of stage 4.
 */
#include "framework.h"

#define stage4_posts stage5_posts
#include "stage4/posts.c"
