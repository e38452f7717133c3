/*
 * The compiler reads this before each file of a counted server (counted.c): each atomic
 * read-modify-write counts itself first. The names are those that <stdatomic.h> of gcc and of clang
 * uses; a macro is not expanded within itself.
 */
#ifndef TESTS_BENCH_COUNTED_H
#define TESTS_BENCH_COUNTED_H

void counted_atomic(void);

#define __atomic_exchange(...)         (counted_atomic(), __atomic_exchange(__VA_ARGS__))
#define __atomic_compare_exchange(...) (counted_atomic(), __atomic_compare_exchange(__VA_ARGS__))
#define __atomic_fetch_add(...)        (counted_atomic(), __atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_sub(...)        (counted_atomic(), __atomic_fetch_sub(__VA_ARGS__))
#define __atomic_fetch_or(...)         (counted_atomic(), __atomic_fetch_or(__VA_ARGS__))
#define __atomic_fetch_and(...)        (counted_atomic(), __atomic_fetch_and(__VA_ARGS__))
#define __c11_atomic_exchange(...)     (counted_atomic(), __c11_atomic_exchange(__VA_ARGS__))
#define __c11_atomic_compare_exchange_strong(...)                                                  \
    (counted_atomic(), __c11_atomic_compare_exchange_strong(__VA_ARGS__))
#define __c11_atomic_compare_exchange_weak(...)                                                    \
    (counted_atomic(), __c11_atomic_compare_exchange_weak(__VA_ARGS__))
#define __c11_atomic_fetch_add(...) (counted_atomic(), __c11_atomic_fetch_add(__VA_ARGS__))
#define __c11_atomic_fetch_sub(...) (counted_atomic(), __c11_atomic_fetch_sub(__VA_ARGS__))
#define __c11_atomic_fetch_or(...)  (counted_atomic(), __c11_atomic_fetch_or(__VA_ARGS__))
#define __c11_atomic_fetch_and(...) (counted_atomic(), __c11_atomic_fetch_and(__VA_ARGS__))

#endif
