//! Call stacks of programs that jump or have several stacks, and the memory of stacks.

use crate::instrumented::*;

/// Functions of the program in which the memory at an address was allocated: the innermost first.
fn allocated_in(scene: &Scene, addr: u64) -> Vec<String> {
    let addr = format!("{addr:#x}");
    let args = ["view", "--json", "--kind", "alloc", "--addr", &addr, "prog.quipu"];
    let output = quipu().current_dir(&scene.folder).args(args).output().unwrap();
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    let callers = row["callers"].as_array().unwrap().iter();
    let of_program = |place: &&Value| place["module"].as_str().is_some_and(|path| path.ends_with("/prog"));
    let names = std::iter::once(&row).chain(callers).filter(of_program);
    names.map(|place| place["function"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_jump_leaves_the_functions_that_it_jumps_over() {
    const SOURCE: &str = r#"
        #include <setjmp.h>
        #include <stdio.h>
        #include <stdlib.h>
        static jmp_buf back;
        static sigjmp_buf far_back;
        __attribute__((noinline)) static void *take(void) { void *p = malloc(48); __asm__(""); return p; }
        __attribute__((noinline)) static void fail(int n) {
            if (n == 0) longjmp(back, 7);
            fail(n - 1);
            __asm__("");
        }
        __attribute__((noinline)) static void fail_far(int n) {
            if (n == 0) siglongjmp(far_back, 8);
            fail_far(n - 1);
            __asm__("");
        }
        __attribute__((noinline)) static void *try(void) {
            if (setjmp(back) == 0) fail(5);
            void *p = take();
            __asm__("");
            return p;
        }
        int main(void) {
            void *first = try();
            volatile int code = sigsetjmp(far_back, 1);
            if (code == 0) fail_far(3);
            void *second = take();
            int again = setjmp(back);
            if (again == 0) fail(9);
            printf("%p %p %d %d\n", first, second, code, again);
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1", "-w"], |scene, run| {
        let [first, second, code, again] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!((code, again), (8, 7), "{}", scene.compiler);
        assert_eq!(allocated_in(scene, first), ["take", "try", "main"], "{}", scene.compiler);
        assert_eq!(allocated_in(scene, second), ["take", "main"], "{}", scene.compiler);
        assert_eq!(run.summary["ending"], "exited", "{}", scene.compiler);
    });
}

#[test]
fn contexts_have_call_stacks_of_their_own() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <ucontext.h>
        static ucontext_t outside, inside;
        static char stack[256 << 10];
        static void *first, *second;
        static long seen[3];
        __attribute__((noinline)) static void *take(void) { void *p = malloc(40); __asm__(""); return p; }
        static void steps(int a, int b, int c) {
            seen[0] = a, seen[1] = b, seen[2] = c;
            first = take();
            swapcontext(&inside, &outside);
            second = take();
        }
        __attribute__((noinline)) static void go_on(void) { swapcontext(&outside, &inside); __asm__(""); }
        int main(void) {
            getcontext(&inside);
            inside.uc_stack.ss_sp = stack;
            inside.uc_stack.ss_size = sizeof stack;
            inside.uc_link = &outside;
            makecontext(&inside, (void (*)(void))steps, 3, 5, 6, 7);
            go_on();
            void *between = take();
            go_on();
            void *after = take();
            printf("%p %p %p %p %ld %ld %ld\n", first, between, second, after, seen[0], seen[1], seen[2]);
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1", "-w"], |scene, run| {
        let [first, between, second, after, seen @ ..] = &run.numbers()[..] else {
            panic!("{}", run.printed)
        };
        assert_eq!(seen, [5, 6, 7], "{}", scene.compiler);
        for (addr, expected) in [(first, "steps"), (between, "main"), (second, "steps"), (after, "main")] {
            assert_eq!(allocated_in(scene, *addr), ["take", expected], "{}", scene.compiler);
        }
    });
}

#[test]
fn a_quick_exit_ends_the_recording() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <stdlib.h>
        static volatile short early, late;
        static void at_end(void) { late = 2; }
        int main(void) {
            early = 1;
            at_quick_exit(at_end);
            printf("%p %p\n", (void *)&early, (void *)&late);
            fflush(stdout);
            quick_exit(0);
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1"], |scene, run| {
        assert_eq!(run.summary["ending"], "exited", "{}", scene.compiler);
        for object in run.numbers() {
            assert_eq!(run.accesses(object, 2), [(1, 0, 2)], "{}", scene.compiler);
        }
        let checked = quipu().current_dir(&scene.folder).args(["check", "prog.quipu"]).output().unwrap();
        assert_eq!(checked.status.code(), Some(0), "{}: {checked:?}", scene.compiler);
    });
}

/// The C library gives large blocks back, and the system maps stacks of new threads there.
#[test]
fn stacks_where_memory_was_freed_are_not_used_after_free() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <stdlib.h>
        __attribute__((noinline)) static double add(double *cells, int n) {
            double sum = 0;
            for (int i = 0; i < 64; i++) cells[i] = i * n;
            for (int i = 0; i < 64; i++) sum += cells[i];
            return sum;
        }
        int main(void) {
            double total = 0;
            for (int round = 0; round < 6; round++) {
                char *big = malloc(20 << 20);
                big[round] = 1;
                free(big);
                #pragma omp parallel for reduction(+:total) num_threads(2 + round % 3)
                for (int i = 0; i < 60; i++) {
                    double local[64];
                    total += add(local, i);
                }
            }
            printf("%.0f\n", total);
            return 0;
        }"#;
    // OpenMP of clang is a package of its own.
    if !compilers(C).contains(&"gcc") {
        return;
    }
    let scene = Scene::new("gcc");
    scene.compile(SOURCE, "prog.c", &["-O1", "-fopenmp"]);
    let run = scene.run("prog");
    assert_eq!(run.numbers(), [21_409_920]);
    let checked =
        quipu().current_dir(&scene.folder).args(["check", "--json", "prog.trace"]).output().unwrap();
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let rules: Vec<&str> =
        checked["rules"].as_array().unwrap().iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert!(rules.iter().all(|rule| *rule == "cacheray/never-removed"), "{checked}");
    // They are where memory was freed, so they have regions, which end.
    let stacks: Vec<u64> = run
        .regions("void*")
        .into_iter()
        .filter(|(_, bytes, _)| (1 << 20..20 << 20).contains(bytes))
        .map(|(addr, ..)| addr)
        .collect();
    assert!(!stacks.is_empty());
    for stack in stacks {
        let told = |tag: u8| run.records.iter().filter(|record| record.tag == tag && record.addr == stack);
        assert_eq!(told(2).count(), told(3).count(), "{stack:#x}");
    }
}
