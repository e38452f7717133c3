/*
 * What ends in abort() has to say why.
 */
#ifndef TESTS_ABORTS_H
#define TESTS_ABORTS_H

/**
 * Calls act(with) in a child of this process, and asserts that it aborts and that standard error
 * has the words by then. Other threads of the process are not in the child.
 */
#define expect_abort(act, with, words) expect_abort_at(__FILE__, __LINE__, act, with, words)
void expect_abort_at(const char *file, int line, void (*act)(void *with), void *with,
                     const char *words);

#endif
