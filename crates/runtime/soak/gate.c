/*
 * What stands before the runtime in programs of `soak.sh`: as long as AddressSanitizer begins, checked code cannot run, and the loader
 * allocates even then. The runtime's functions have other names in these programs (`recorded_malloc`), and are called once it can.
 */
#include <stddef.h>

static int is_ready;

/* The sanitizer begins before all constructors. */
__attribute__((constructor(101))) static void begin(void) { is_ready = 1; }

/* Calls at the end, so that the runtime sees where it was called from. */
#define GATE(name, parameters, arguments) \
    void *recorded_##name parameters; \
    void *__interceptor_##name parameters; \
    void *name parameters { \
        if (is_ready) return recorded_##name arguments; \
        return __interceptor_##name arguments; \
    }

GATE(malloc, (size_t n), (n))
GATE(calloc, (size_t n, size_t size), (n, size))
GATE(realloc, (void *old, size_t n), (old, n))

void recorded_free(void *addr);
void __interceptor_free(void *addr);
void free(void *addr) {
    if (is_ready) recorded_free(addr); else __interceptor_free(addr);
}
