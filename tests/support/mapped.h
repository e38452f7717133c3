/*
 * Memory for arrays of megabytes. AddressSanitizer's search for leaks would read those of the
 * program itself, all of them, at the end of each test.
 */
#ifndef TESTS_MAPPED_H
#define TESTS_MAPPED_H

#include <criterion/criterion.h>
#include <stddef.h>
#include <sys/mman.h>

/** So many zeros, which stay until the test's process ends. */
static inline void *mapped(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(memory, MAP_FAILED);
    return memory;
}

#endif
