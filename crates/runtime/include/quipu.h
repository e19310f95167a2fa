/*
 * quipu.h: what a program says of itself while it is recorded.
 *
 * Compile with `quipu cc` or `quipu c++`, and these calls tell which memory has which type, mark places, and suspend
 * recording. Without the runtime they do nothing and cost a test. Include it in C99 or C++11 and later.
 *
 *     struct node *pool = arena_take(1000 * sizeof *pool);
 *     QUIPU_REGION(pool, 1000, struct node);
 *     ...
 *     quipu_region_end(pool);
 */
#ifndef QUIPU_H
#define QUIPU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIPU_WEAK __attribute__((weak))

/* Calls of the Cacheray runtime, as its compiler pass makes them: a type for memory that the functions of these names gave. */
QUIPU_WEAK void __malloc_recorded(long bytes, const char *type, void *p);
QUIPU_WEAK void __calloc_recorded(long n, long bytes, const char *type, void *p);
QUIPU_WEAK void __realloc_recorded(void *old, long bytes, const char *type, void *p);
QUIPU_WEAK void __free_recorded(void *p);

/* The runtime's own; call the functions below, which test for it. */
QUIPU_WEAK void quipu_region(const void *p, size_t element_bytes, size_t n_elements, const char *type);
QUIPU_WEAK void quipu_region_end(const void *p);
QUIPU_WEAK void quipu_mark(const char *name);
QUIPU_WEAK void quipu_thread_name(const char *name);
QUIPU_WEAK void quipu_pause(void);
QUIPU_WEAK void quipu_resume(void);

#ifdef __cplusplus
}
#endif

/* From here on the memory at P is N elements of TYPE: `struct node`, `double`, ... */
#define QUIPU_REGION(p, n, type) \
    do { \
        if (quipu_region) quipu_region((p), sizeof(type), (n), #type); \
    } while (0)

/* From here on nothing is known of it. */
#define QUIPU_REGION_END(p) \
    do { \
        if (quipu_region_end) quipu_region_end(p); \
    } while (0)

/* A place to be found again. */
#define QUIPU_MARK(name) \
    do { \
        if (quipu_mark) quipu_mark(name); \
    } while (0)

/* The name of this thread for people. */
#define QUIPU_THREAD_NAME(name) \
    do { \
        if (quipu_thread_name) quipu_thread_name(name); \
    } while (0)

/* Nothing of what this thread does is recorded between these; they nest. */
#define QUIPU_PAUSE() \
    do { \
        if (quipu_pause) quipu_pause(); \
    } while (0)
#define QUIPU_RESUME() \
    do { \
        if (quipu_resume) quipu_resume(); \
    } while (0)

#ifdef __cplusplus

/* What these functions do themselves is not to be recorded. */
#define QUIPU_QUIET __attribute__((no_sanitize("thread")))

namespace quipu {

namespace detail {

/* The name of a type, without what the runtime of C++ knows of it: cut out of the name of this function. */
template <typename T>
struct type_name {
    QUIPU_QUIET static const char *get() {
        static char name[256];
        if (!name[0]) {
            const char *text = __PRETTY_FUNCTION__;
            const char *start = text;
            for (const char *at = text; *at; ++at) {
                if (at[0] == 'T' && at[1] == ' ' && at[2] == '=' && at[3] == ' ') {
                    start = at + 4;
                    break;
                }
            }
            size_t n = 0;
            int depth = 0;
            for (const char *at = start; *at && n < sizeof name - 1; ++at) {
                if (depth == 0 && (*at == ']' || *at == ';')) break;
                depth += (*at == '<' || *at == '[') - (*at == '>' || *at == ']');
                name[n++] = *at;
            }
        }
        return name;
    }
};

} // namespace detail

/* From here on the memory at `p` is `n` elements of its type. */
template <typename T>
QUIPU_QUIET inline void typed(const T *p, size_t n = 1) {
    if (quipu_region) quipu_region(p, sizeof(T), n, detail::type_name<T>::get());
}

/* A region for as long as this lives. */
class region {
  public:
    template <typename T>
    QUIPU_QUIET explicit region(const T *p, size_t n = 1) : p_(p) {
        typed(p, n);
    }
    QUIPU_QUIET region(const void *p, size_t element_bytes, size_t n, const char *type) : p_(p) {
        if (quipu_region) quipu_region(p, element_bytes, n, type);
    }
    QUIPU_QUIET ~region() { QUIPU_REGION_END(p_); }
    region(const region &) = delete;
    region &operator=(const region &) = delete;

  private:
    const void *p_;
};

/* Nothing of what this thread does is recorded as long as this lives. */
class pause {
  public:
    QUIPU_QUIET pause() { QUIPU_PAUSE(); }
    QUIPU_QUIET ~pause() { QUIPU_RESUME(); }
    pause(const pause &) = delete;
    pause &operator=(const pause &) = delete;
};

} // namespace quipu

#endif /* __cplusplus */
#endif /* QUIPU_H */
