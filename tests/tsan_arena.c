/*
 * Lets Criterion start under ThreadSanitizer. Linked into test binaries built with
 * SANITIZER=thread and into nothing else.
 *
 * Criterion shares memory between its processes in an arena that it maps at
 * 0x200000000000 + (rand_r() & 0x3fffff) * 16 MiB, and nearly all of that range is
 * ThreadSanitizer's own. This rand_r() comes before the C library's and steers the arena into
 * 0x550000000000 to 0x553fff000000, which ThreadSanitizer leaves to the application and which lies
 * below every address at which the program itself is loaded.
 */
int rand_r(unsigned *seed);

int rand_r(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return 0x350000 + (int)((*seed >> 16) & 0x3fff);
}
