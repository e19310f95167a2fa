//! Accesses of programs: plain ones, ranges, atomics, in signal handlers, before `main` and after it.

use crate::instrumented::*;

#[test]
fn a_loop_is_recorded_access_by_access() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        long a[1000];
        __attribute__((noinline)) long sum(const long *p, int n) { long s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }
        int main(void) {
            for (int i = 0; i < 1000; i++) a[i] = i;
            long s = sum(a, 1000);
            printf("%p %ld\n", (void *)a, s);
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1"], |scene, run| {
        let compiler = scene.compiler;
        let [start, sum] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!(sum, 499_500);
        let expected = (0..1000).map(|i| (1, 8 * i, 8)).chain((0..1000).map(|i| (0, 8 * i, 8)));
        assert_eq!(run.accesses(start, 8000), expected.collect::<Vec<_>>(), "{compiler}");
        assert_eq!(run.summary["accesses"], 2000);
        assert_eq!(run.summary["calls"], 2);
        assert_eq!(run.summary["ending"], "exited");
        assert_eq!(run.summary["threads"], 1);
    });
}

#[test]
fn ranges_and_unaligned_members_are_recorded_in_pieces() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        struct __attribute__((packed)) odd { char tag; int value; };
        struct big { char bytes[100]; };
        static struct odd odd;
        static struct big from, to;
        __attribute__((noinline)) static void copy(struct big *to, const struct big *from) { *to = *from; }
        int main(void) {
            odd.value = 3;
            copy(&to, &from);
            printf("%p %p %p\n", (void *)&odd, (void *)&from, (void *)&to);
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1"], |scene, run| {
        let compiler = scene.compiler;
        let [odd, from, to] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!(run.accesses(odd, 5), [(0x81, 1, 4)], "{compiler}");
        // clang 14 calls the C library for copies.
        let bytes = |start| run.accesses(start, 100).into_iter().map(|(.., size)| size).sum::<u64>();
        assert_eq!((bytes(from), bytes(to)), (100, 100), "{compiler}");
    });
}

#[test]
fn atomic_operations_are_performed_and_recorded_as_the_original_does() {
    const SOURCE: &str = r#"
        #include <stdatomic.h>
        #include <stdio.h>
        static _Atomic(int) cell;
        static _Atomic(unsigned char) byte = 250;
        static unsigned __int128 wide;
        int main(void) {
            atomic_store(&cell, 5);
            int a = atomic_load_explicit(&cell, memory_order_acquire);
            int b = atomic_exchange(&cell, 7);
            int c = atomic_fetch_add(&cell, 3), d = atomic_fetch_sub(&cell, 1);
            int e = atomic_fetch_and(&cell, 13), f = atomic_fetch_or(&cell, 2), g = atomic_fetch_xor(&cell, 1);
            int expected = 10;
            int h = atomic_compare_exchange_strong(&cell, &expected, 20);
            int i = atomic_compare_exchange_strong(&cell, &expected, 30);
            atomic_fetch_add(&byte, 10);
            __atomic_fetch_add(&wide, ((unsigned __int128)1 << 64) + 2, __ATOMIC_SEQ_CST);
            unsigned __int128 was = __atomic_load_n(&wide, __ATOMIC_ACQUIRE);
            printf("%p %p %p %d %d %d %d %d %d %d %d %d %d %d %d %d %lu %lu\n", (void *)&cell, (void *)&byte, (void *)&wide,
                   a, b, c, d, e, f, g, h, i, expected, cell, byte, cell, (unsigned long)was, (unsigned long)(was >> 64));
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1", "-mcx16"], |scene, run| {
        let compiler = scene.compiler;
        let [cell, byte, wide, results @ ..] = &run.numbers()[..] else { panic!("{}", run.printed) };
        // 5, 5, 7, 10, 9, 9 & 13 = 9, 9 | 2 = 11, 11 ^ 1 = 10; then 20, then the failure.
        assert_eq!(results, [5, 5, 7, 10, 9, 9, 11, 1, 0, 20, 20, 4, 20, 2, 1], "{compiler}");
        let (read, write) = (0x40, 0x41);
        let changes =
            [write, read, read, write, read, write, read, write, read, write, read, write, read, write];
        let compares = [read, write, read];
        let loads = [read, read];
        let tags: Vec<u8> = run.accesses(*cell, 4).into_iter().map(|(tag, ..)| tag).collect();
        assert_eq!(tags, [&changes[..], &compares, &loads].concat(), "{compiler}");
        assert_eq!(run.accesses(*byte, 1), [(read, 0, 1), (write, 0, 1), (read, 0, 1)]);
        assert_eq!(run.accesses(*wide, 16), [(read, 0, 16), (write, 0, 16), (read, 0, 16)], "{compiler}");
    });
}

#[test]
fn handlers_of_signals_tear_nothing() {
    const SOURCE: &str = r#"
        #include <signal.h>
        #include <stdio.h>
        #include <sys/time.h>
        static volatile long handled;
        static long cells[4096];
        static void handle(int signal) { (void)signal; handled = handled + 1; }
        int main(void) {
            struct itimerval often = {{0, 50}, {0, 50}};
            signal(SIGALRM, handle);
            setitimer(ITIMER_REAL, &often, 0);
            long n = 0;
            while (n < 2000000 || handled < 50) { cells[n & 4095] = n; n++; }
            struct itimerval never = {{0, 0}, {0, 0}};
            setitimer(ITIMER_REAL, &never, 0);
            printf("%p %p %ld %ld\n", (void *)&handled, (void *)cells, handled, n);
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1"], |scene, run| {
        let compiler = scene.compiler;
        let [handled, cells, n_handled, n] = run.numbers()[..] else { panic!("{}", run.printed) };
        let writes = run.accesses(handled, 8).into_iter().filter(|(tag, ..)| *tag == 1).count();
        assert_eq!(writes as u64, n_handled, "{compiler}");
        let expected: Vec<_> = (0..n).map(|i| (1, 8 * (i % 4096), 8)).collect();
        assert!(run.accesses(cells, 8 * 4096) == expected, "{compiler}");
        assert_eq!(run.summary["unwritten"], 0);
    });
}

/// A handler that needs a new buffer leaves one open in which a record is still to be written, and later ones are closed.
#[test]
fn handlers_that_fill_buffers_keep_the_order() {
    const N: u64 = 15_000;
    const SOURCE: &str = r#"
        #include <signal.h>
        #include <stdio.h>
        #include <sys/time.h>
        static volatile long handled;
        static long cells[4096], own[15000];
        static void handle(int signal) {
            (void)signal;
            for (int i = 0; i < 15000; i++) own[i] = i;
            handled = handled + 1;
        }
        int main(void) {
            struct itimerval often = {{0, 200}, {0, 200}};
            signal(SIGALRM, handle);
            setitimer(ITIMER_REAL, &often, 0);
            long n = 0;
            while (n < 100000 || handled < 60) { cells[n & 4095] = n; n++; }
            struct itimerval never = {{0, 0}, {0, 0}};
            setitimer(ITIMER_REAL, &never, 0);
            printf("%p %p %p %ld %ld\n", (void *)&handled, (void *)cells, (void *)own, handled, n);
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1"], |scene, run| {
        let compiler = scene.compiler;
        let [handled, cells, own, n_handled, n] = run.numbers()[..] else { panic!("{}", run.printed) };
        let writes = run.accesses(handled, 8).into_iter().filter(|(tag, ..)| *tag == 1).count();
        assert_eq!(writes as u64, n_handled, "{compiler}");
        let is_in_order = |start: u64, n_elements: u64, n: u64| {
            let expected = (0..n).map(|i| (1, 8 * (i % n_elements), 8));
            run.accesses(start, 8 * n_elements).into_iter().eq(expected)
        };
        assert!(is_in_order(cells, 4096, n), "{compiler}: {n} accesses of main");
        assert!(is_in_order(own, N, N * n_handled), "{compiler}: {n_handled} runs of the handler");
        assert_eq!(run.summary["unwritten"], 0);
    });
}

/// Readers take larger ranges for damage.
#[test]
fn ranges_of_more_than_16_mib_are_recorded_as_several() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        void __tsan_write_range(void *, unsigned long);
        static char bytes[40 << 20];
        int main(void) {
            __tsan_write_range(bytes, sizeof bytes);
            printf("%p\n", (void *)bytes);
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1"], |scene, run| {
        let compiler = scene.compiler;
        let [bytes] = run.numbers()[..] else { panic!("{}", run.printed) };
        let accesses = run.accesses(bytes, 40 << 20);
        assert_eq!(accesses.iter().map(|(.., size)| size).sum::<u64>(), 40 << 20, "{compiler}");
        assert!(accesses.iter().is_sorted_by_key(|(_, offset, _)| *offset), "{compiler}");
        assert_eq!(run.summary["accesses"], 3, "{compiler}");
        let check = quipu().current_dir(&scene.folder).args(["check", "prog.quipu"]).output().unwrap();
        assert_eq!(check.status.code(), Some(0), "{compiler}: {check:?}");
    });
}

#[test]
fn what_happens_before_main_and_after_it_is_recorded() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <stdlib.h>
        static volatile short early, late, last;
        __attribute__((constructor(101))) static void before(void) { early = 1; }
        __attribute__((destructor(101))) static void after(void) { last = 3; }
        static void at_exit(void) { late = 2; }
        int main(void) {
            atexit(at_exit);
            printf("%p %p %p\n", (void *)&early, (void *)&late, (void *)&last);
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1"], |scene, run| {
        let compiler = scene.compiler;
        for object in run.numbers() {
            assert_eq!(run.accesses(object, 2), [(1, 0, 2)], "{compiler}");
        }
    });
}

#[test]
fn libraries_that_are_loaded_later_are_recorded() {
    const PLUGIN: &str =
        "static int cells[64]; void *fill(void) { for (int i = 0; i < 64; i++) cells[i] = i; return cells; }";
    const SOURCE: &str = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(void) {
            void *library = dlopen("./plugin", RTLD_NOW);
            void *(*fill)(void) = (void *(*)(void))dlsym(library, "fill");
            printf("%p\n", fill());
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(PLUGIN, "plugin.c", &["-O1", "-shared", "-fPIC"]);
        scene.compile(SOURCE, "prog.c", &["-O1", "-ldl"]);
        let run = scene.run("prog");
        let expected: Vec<_> = (0..64).map(|i| (1, 4 * i, 4)).collect();
        assert_eq!(run.accesses(run.numbers()[0], 256), expected, "{compiler}");
    }
}
