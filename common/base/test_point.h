/*
 * Named places in the code at which a test can hold a thread, so that a race is a schedule that the
 * test forces and not a matter of luck. In a normal build there is nothing there at all.
 */
#ifndef COMMON_TEST_POINT_H
#define COMMON_TEST_POINT_H

#ifdef TEST_POINTS
/** The test's: called by the thread that has reached the place of that name. */
void test_point(const char *name, const char *function, const char *file, int line);
#define TEST_POINT(name) test_point(name, __func__, __FILE__, __LINE__)
#else
#define TEST_POINT(name) ((void)0)
#endif

#endif
