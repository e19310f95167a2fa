/*
 * What stands behind the runtime in programs of `soak.sh`: the runtime stands before `malloc` and others, as AddressSanitizer does, and
 * there is one such place in a program. So the sanitizer's functions are what the runtime finds behind its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#define BEHIND(name, parameters, arguments) \
    void *__interceptor_##name parameters; \
    void *name parameters { return __interceptor_##name arguments; }

BEHIND(malloc, (size_t n), (n))
BEHIND(calloc, (size_t n, size_t size), (n, size))
BEHIND(realloc, (void *old, size_t n), (old, n))
BEHIND(reallocarray, (void *old, size_t n, size_t size), (old, n, size))
BEHIND(memalign, (size_t align, size_t n), (align, n))
BEHIND(aligned_alloc, (size_t align, size_t n), (align, n))
BEHIND(valloc, (size_t n), (n))
BEHIND(pvalloc, (size_t n), (n))

int __interceptor_posix_memalign(void **out, size_t align, size_t n);
int posix_memalign(void **out, size_t align, size_t n) { return __interceptor_posix_memalign(out, align, n); }

void __interceptor_free(void *addr);
void free(void *addr) { __interceptor_free(addr); }

/* The sanitizer finds this behind its own, too, and then wants the C library's. */
#define THREADS(name, parameters, arguments) \
    int __interceptor_##name parameters; \
    int name parameters { \
        static __thread int is_inside; \
        int (*next) parameters = __interceptor_##name; \
        if (is_inside) next = (int (*) parameters)dlsym(RTLD_NEXT, #name); \
        is_inside++; \
        int code = next arguments; \
        is_inside--; \
        return code; \
    }

THREADS(pthread_create, (pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *), void *argument),
        (thread, how, start, argument))
THREADS(pthread_join, (pthread_t thread, void **result), (thread, result))

/* A jump does not return, so the second call is the one that jumps. */
#define JUMPS(name) \
    void __interceptor_##name(void *place, int value); \
    void name(void *place, int value) { \
        static __thread int is_inside; \
        is_inside = !is_inside; \
        void (*next)(void *, int) = is_inside ? __interceptor_##name : (void (*)(void *, int))dlsym(RTLD_NEXT, #name); \
        next(place, value); \
    }

JUMPS(longjmp)
JUMPS(_longjmp)
JUMPS(siglongjmp)
