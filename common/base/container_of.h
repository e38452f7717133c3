/*
 * container_of(): from a member to the struct that it is part of. This is how a callback that gets
 * a timer, a task or a facade finds the connection to which that belongs.
 */
#ifndef COMMON_CONTAINER_OF_H
#define COMMON_CONTAINER_OF_H

#include <stddef.h>

/**
 * The struct of this type whose member the pointer points to. A pointer of another type than the
 * member's does not compile; that the pointer points into such a struct, the caller has to know.
 */
#define container_of(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(1 ? (pointer) : &((type *)0)->member) - offsetof(type, member)))

#endif
