//! The hooks that compilers call, name by name. SPEC: stream.md#cells.
//!
//! No compiler calls all of them, so a program makes the calls by hand.

use crate::instrumented::*;
use std::collections::BTreeSet;
use std::fmt::Write;

const SIZES: [u64; 5] = [1, 2, 4, 8, 16];
const BITS: [u64; 5] = [8, 16, 32, 64, 128];
const CHANGES: [&str; 7] =
    ["exchange", "fetch_add", "fetch_sub", "fetch_and", "fetch_or", "fetch_xor", "fetch_nand"];

/// Tag, offset and size of the accesses that a call records.
type Recorded = Vec<(u8, u64, u64)>;

#[test]
fn every_name_is_exported_by_both_libraries() {
    let mut names: Vec<String> = Vec::new();
    for size in SIZES {
        for kind in ["read", "write", "read_write", "volatile_read", "volatile_write"] {
            names.push(format!("__tsan_{kind}{size}"));
            names.push(format!("__tsan_unaligned_{kind}{size}"));
        }
        names.extend(["load", "store"].map(|kind| format!("__sanitizer_cov_{kind}{size}")));
        names.extend(["read", "write"].map(|kind| format!("__tsan_{kind}{size}_pc")));
    }
    for bits in BITS {
        let plain = ["load", "store"].into_iter().chain(CHANGES);
        let compare = ["compare_exchange_val", "compare_exchange_strong", "compare_exchange_weak"];
        names.extend(plain.chain(compare).map(|operation| format!("__tsan_atomic{bits}_{operation}")));
    }
    let rest = "init read_range write_range memcpy memmove memset vptr_read vptr_update func_entry func_exit \
        ignore_thread_begin ignore_thread_end atomic_thread_fence atomic_signal_fence acquire release \
        mutex_create mutex_destroy mutex_pre_lock mutex_post_lock mutex_pre_unlock mutex_post_unlock \
        mutex_pre_signal mutex_post_signal mutex_pre_divert mutex_post_divert create_fiber destroy_fiber \
        switch_to_fiber get_current_fiber set_fiber_name external_read external_write external_register_tag \
        external_assign_tag flush_memory get_current_report get_report_data get_report_tag get_report_stack \
        get_report_mop get_report_loc get_report_loc_object_type get_report_mutex get_report_thread \
        get_report_unique_tid get_alloc_stack locate_address";
    names.extend(rest.split_whitespace().map(|name| format!("__tsan_{name}")));
    let others = "__malloc_recorded __calloc_recorded __realloc_recorded __free_recorded \
        __sanitizer_cov_trace_pc __sanitizer_cov_trace_pc_guard __sanitizer_cov_trace_pc_guard_init \
        malloc calloc realloc reallocarray free aligned_alloc memalign posix_memalign valloc pvalloc \
        _Znwm _Znam _ZdlPv _ZdaPv _ZdlPvm _ZnwmSt11align_val_t _ZnwmRKSt9nothrow_t \
        pthread_create pthread_join pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock \
        pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_rwlock_unlock pthread_spin_lock pthread_spin_unlock \
        pthread_cond_wait pthread_cond_timedwait pthread_cond_signal pthread_cond_broadcast \
        pthread_barrier_wait sem_wait sem_post \
        setjmp _setjmp __sigsetjmp longjmp _longjmp siglongjmp __longjmp_chk \
        getcontext setcontext swapcontext makecontext";
    names.extend(others.split_whitespace().map(str::to_owned));
    for (file, flag) in [("libquipu_rt.so", "-D"), ("libquipu_rt.a", "-g")] {
        let listed =
            Command::new("nm").args([flag, "--defined-only"]).arg(library().join(file)).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let defined: BTreeSet<&str> = listed
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2))
            .map(|name| name.split('@').next().unwrap())
            .collect();
        let missing: Vec<&String> = names.iter().filter(|name| !defined.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "{file}: {missing:?}");
    }
}

#[test]
fn each_hook_records_what_its_name_says() {
    const UNALIGNED: u8 = 0x80;
    // A call of a hook, in which `P` stands for an address of its own, and the accesses that it records there.
    let mut calls: Vec<(String, Recorded)> = Vec::new();
    for size in SIZES {
        for (prefix, flag) in [("", 0), ("unaligned_", UNALIGNED)] {
            let (read, write) = ((flag, 0, size), (flag | 1, 0, size));
            for volatile in ["", "volatile_"] {
                calls.push((format!("__tsan_{prefix}{volatile}read{size}(P)"), vec![read]));
                calls.push((format!("__tsan_{prefix}{volatile}write{size}(P)"), vec![write]));
            }
            calls.push((format!("__tsan_{prefix}read_write{size}(P)"), vec![read, write]));
        }
        calls.push((format!("__sanitizer_cov_load{size}(P)"), vec![(0, 0, size)]));
        calls.push((format!("__sanitizer_cov_store{size}(P)"), vec![(1, 0, size)]));
        calls.push((format!("__tsan_read{size}_pc(P, main)"), vec![(0, 0, size)]));
        calls.push((format!("__tsan_write{size}_pc(P, main)"), vec![(1, 0, size)]));
    }
    calls.push(("__tsan_vptr_read(P)".into(), vec![(0, 0, 8)]));
    calls.push(("__tsan_vptr_update(P, cells)".into(), vec![(1, 0, 8)]));
    let pieces = |tag| vec![(tag, 0, 16), (tag, 16, 4), (tag, 20, 1)];
    calls.push(("__tsan_read_range(P, 21L)".into(), pieces(0)));
    calls.push(("__tsan_write_range(P, 21L)".into(), pieces(1)));
    calls.push(("__tsan_read_range(P, 0L)".into(), vec![]));
    calls.push((
        "failed += __tsan_memset(P, 'x', 21L) != (void *)P || P[20] != 'x' || P[21]".into(),
        pieces(1),
    ));
    calls.push((
        "failed += __tsan_memcpy(P, text, 21L) != (void *)P || differs(P, text, 22)".into(),
        pieces(1),
    ));
    calls.push((
        "failed += __tsan_memmove(P, text, 21L) != (void *)P || differs(P, text, 22)".into(),
        pieces(1),
    ));
    let mut body = String::new();
    for (nth, (call, _)) in calls.iter().enumerate() {
        writeln!(body, "    {};", call.replace('P', &format!("cells[{nth}]"))).unwrap();
    }
    let source = format!(
        "#include <stdio.h>\n\
         __attribute__((no_sanitize(\"thread\"))) static int differs(const char *a, const char *b, int n) {{\n    \
         while (n--) if (*a++ != *b++) return 1;\n    return 0;\n}}\n\
         void *__tsan_memset(void *, int, unsigned long), *__tsan_memcpy(void *, const void *, unsigned long), \
         *__tsan_memmove(void *, const void *, unsigned long);\n\
         static char cells[{}][64] __attribute__((aligned(64)));\n\
         static const char text[32] = \"twenty-one characters\";\n\
         __attribute__((no_sanitize(\"thread\"))) int main(void) {{\n    int failed = 0;\n{body}    \
         printf(\"%p %d\\n\", (void *)cells, failed);\n    return 0;\n}}\n",
        calls.len()
    );
    for_each(C, &source, "prog.c", &["-O1", "-w"], |scene, run| {
        let [cells, failed] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!(failed, 0, "{}", scene.compiler);
        for (nth, (call, expected)) in calls.iter().enumerate() {
            assert_eq!(run.accesses(cells + 64 * nth as u64, 64), *expected, "{}: {call}", scene.compiler);
        }
    });
}

#[test]
fn atomic_operations_of_all_sizes_are_performed_and_recorded() {
    // ONE has a bit set in each half of 128 bits, so that no half is lost. A line counts as failed if its condition does not
    // hold.
    const OPERATIONS: &str = "
        __tsan_atomicB_store(at, 7 * ONE, 5);
        CHECK(__tsan_atomicB_exchange(at, 9 * ONE, 5) == 7 * ONE)
        CHECK(__tsan_atomicB_fetch_add(at, 3 * ONE, 0) == 9 * ONE)
        CHECK(__tsan_atomicB_fetch_sub(at, 2 * ONE, 1) == 12 * ONE)
        CHECK(__tsan_atomicB_fetch_and(at, 6 * ONE, 2) == 10 * ONE)
        CHECK(__tsan_atomicB_fetch_or(at, 9 * ONE, 3) == 2 * ONE)
        CHECK(__tsan_atomicB_fetch_xor(at, 3 * ONE, 4) == 11 * ONE)
        CHECK(__tsan_atomicB_fetch_nand(at, 8 * ONE, 5) == 8 * ONE)
        CHECK(__tsan_atomicB_compare_exchange_val(at, (T)~(8 * ONE), ONE, 5, 0) == (T)~(8 * ONE))
        CHECK(__tsan_atomicB_compare_exchange_val(at, 5 * ONE, 6 * ONE, 5, 0) == ONE)
        *e = ONE;
        CHECK(__tsan_atomicB_compare_exchange_strong(at, e, 2 * ONE, 5, 0) == 1 && *e == ONE)
        *e = 5 * ONE;
        CHECK(__tsan_atomicB_compare_exchange_strong(at, e, 3 * ONE, 5, 0) == 0 && *e == 2 * ONE)
        CHECK(__tsan_atomicB_compare_exchange_weak(at, e, 4 * ONE, 5, 0) == 1 && *e == 2 * ONE)
        CHECK(__tsan_atomicB_compare_exchange_weak(at, e, ONE, 5, 0) == 0 && *e == 4 * ONE)
        CHECK(__tsan_atomicB_load(at, 2) == 4 * ONE)
        __tsan_atomic_thread_fence(5);
        __tsan_atomic_signal_fence(5);
    ";
    let mut functions = String::new();
    for bits in BITS {
        let kind = if bits == 128 { "unsigned __int128".into() } else { format!("uint{bits}_t") };
        let one = if bits == 128 { "(((T)1 << 64) | 1)" } else { "((T)1)" };
        let mut declared = format!("T __tsan_atomic{bits}_load(const volatile T *, int);\n");
        writeln!(declared, "void __tsan_atomic{bits}_store(volatile T *, T, int);").unwrap();
        for change in CHANGES {
            writeln!(declared, "T __tsan_atomic{bits}_{change}(volatile T *, T, int);").unwrap();
        }
        writeln!(declared, "T __tsan_atomic{bits}_compare_exchange_val(volatile T *, T, T, int, int);")
            .unwrap();
        for how in ["strong", "weak"] {
            writeln!(
                declared,
                "int __tsan_atomic{bits}_compare_exchange_{how}(volatile T *, T *, T, int, int);"
            )
            .unwrap();
        }
        let body = OPERATIONS
            .replace("atomicB", &format!("atomic{bits}"))
            .replace("CHECK", "failed += !")
            .lines()
            .map(|line| if line.ends_with(')') { format!("{line};\n") } else { format!("{line}\n") })
            .collect::<String>();
        write!(
            functions,
            "#define T {kind}\n#define ONE {one}\n{declared}static T cell{bits}, expected{bits};\n\
             __attribute__((no_sanitize(\"thread\"), noinline)) static int run{bits}(void) {{\n\
             volatile T *at = &cell{bits}; T *e = &expected{bits}; int failed = 0;\n{body}\
             return failed;\n}}\n#undef T\n#undef ONE\n"
        )
        .unwrap();
    }
    let calls: String = BITS.map(|bits| format!("run{bits}(), &cell{bits}, &expected{bits}, ")).concat();
    let source = format!(
        "#include <stdint.h>\n#include <stdio.h>\n{functions}int main(void) {{\n    \
         printf(\"{}\\n\", {});\n    return 0;\n}}\n",
        "%d %p %p ".repeat(BITS.len()),
        calls.trim_end_matches(", ")
    );
    let (read, write) = (0x40_u8, 0x41_u8);
    let of_cell = [
        &[write][..],
        &[read, write].repeat(7),
        &[read, write, read],
        &[read, write, read].repeat(2),
        &[read],
    ]
    .concat();
    let of_expected = [read, read, write].repeat(2);
    for_each(C, &source, "prog.c", &["-O1", "-w"], |scene, run| {
        let numbers = run.numbers();
        assert_eq!(numbers.len(), 3 * BITS.len(), "{}", run.printed);
        for (numbers, bits) in numbers.chunks(3).zip(BITS) {
            let [failed, cell, expected] = numbers[..] else { panic!("{}", run.printed) };
            assert_eq!(failed, 0, "{}: {bits} bits", scene.compiler);
            let tags = |start| {
                let accesses = run.accesses(start, bits / 8).into_iter();
                accesses.map(|(tag, offset, size)| {
                    assert_eq!((offset, size), (0, bits / 8), "{}: {bits} bits", scene.compiler);
                    tag
                })
            };
            assert_eq!(tags(cell).collect::<Vec<_>>(), of_cell, "{}: {bits} bits", scene.compiler);
            assert_eq!(tags(expected).collect::<Vec<_>>(), of_expected, "{}: {bits} bits", scene.compiler);
        }
    });
}
