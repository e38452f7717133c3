/*
 * Lets a program under ThreadSanitizer hear a signal that comes at its very start. Linked into
 * everything that is built with SANITIZER=thread, and into nothing else.
 *
 * ThreadSanitizer keeps the signals of a thread in memory that it maps when the thread first
 * blocks, or when its first signal comes. In gcc 12 a signal that comes while the thread maps that
 * memory is forgotten, because it lies in a second mapping. (`SigCtx` in
 * tsan_interceptors_posix.cpp; later versions compare and exchange there.) A server would first
 * block right after it has announced that it serves, just when a test may send SIGTERM. So it
 * blocks here once, before main().
 */
#include <poll.h>
#include <stddef.h>

__attribute__((constructor)) static void block_once(void)
{
    poll(NULL, 0, 0);
}
