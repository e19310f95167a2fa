/* What compilers call, returning at once: what the calls alone cost. For `run.sh`. */
#define NOTHING(name) \
    void name(void) {}
#define SIZES(name) NOTHING(name##1) NOTHING(name##2) NOTHING(name##4) NOTHING(name##8) NOTHING(name##16)

SIZES(__tsan_read)
SIZES(__tsan_write)
SIZES(__tsan_unaligned_read)
SIZES(__tsan_unaligned_write)
SIZES(__tsan_read_write)
NOTHING(__tsan_init)
NOTHING(__tsan_func_entry)
NOTHING(__tsan_func_exit)
NOTHING(__tsan_read_range)
NOTHING(__tsan_write_range)
NOTHING(__tsan_vptr_read)
NOTHING(__tsan_vptr_update)
