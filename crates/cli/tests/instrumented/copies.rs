//! Copies, fills and comparisons by functions of the C library.

use crate::instrumented::*;
use quipu_capture::tsan::link::COPYING;
use std::fmt::Write;

/// A call, and what it reads and writes: whether it writes, whether in `TO` (else in `FROM`), the offset there, the bytes.
///
/// `FROM` begins with a text of 21 characters, and so does `FROM + 128`, where another character follows in place of its end;
/// `TO` is all zeros. `n` is 97, which compilers do not know.
type Call = (&'static str, &'static [(bool, bool, u64, u64)]);

const TO: bool = true;
const FROM: bool = false;
const WRITE: bool = true;
const READ: bool = false;

const CALLS: [Call; 17] = [
    ("memcpy(TO, FROM, n)", &[(READ, FROM, 0, 97), (WRITE, TO, 0, 97)]),
    // Sizes that compilers know, and copies that they would make by instructions.
    ("memcpy(TO, FROM, 100)", &[(READ, FROM, 0, 100), (WRITE, TO, 0, 100)]),
    ("memset(TO, 0, 48)", &[(WRITE, TO, 0, 48)]),
    ("memmove(TO, FROM, n)", &[(READ, FROM, 0, 97), (WRITE, TO, 0, 97)]),
    ("sum += mempcpy(TO, FROM, n) == TO + n", &[(READ, FROM, 0, 97), (WRITE, TO, 0, 97)]),
    ("memset(TO, 1, n)", &[(WRITE, TO, 0, 97)]),
    ("strcpy(TO, FROM)", &[(READ, FROM, 0, 22), (WRITE, TO, 0, 22)]),
    ("sum += stpcpy(TO, FROM) == TO + 21", &[(READ, FROM, 0, 22), (WRITE, TO, 0, 22)]),
    ("strncpy(TO, FROM, 40)", &[(READ, FROM, 0, 22), (WRITE, TO, 0, 40)]),
    ("strncpy(TO, FROM, 5)", &[(READ, FROM, 0, 5), (WRITE, TO, 0, 5)]),
    ("strcat(TO, FROM)", &[(READ, FROM, 0, 22), (READ, TO, 0, 1), (WRITE, TO, 0, 22)]),
    ("strncat(TO, FROM, 5)", &[(READ, FROM, 0, 5), (READ, TO, 0, 1), (WRITE, TO, 0, 6)]),
    ("sum += strlen(FROM) == 21", &[(READ, FROM, 0, 22)]),
    // Comparisons end at the first difference.
    ("sum += memcmp(FROM, FROM + 128, n) < 0", &[(READ, FROM, 0, 22), (READ, FROM, 128, 22)]),
    ("sum += memcmp(FROM, FROM + 128, n - 76) == 0", &[(READ, FROM, 0, 21), (READ, FROM, 128, 21)]),
    ("sum += strcmp(FROM, FROM + 128) < 0", &[(READ, FROM, 0, 22), (READ, FROM, 128, 22)]),
    ("sum += strcmp(FROM, TO) > 0", &[(READ, FROM, 0, 1), (READ, TO, 0, 1)]),
];

/// A program that makes each call with memory of its own, and records nothing else.
fn source() -> String {
    let mut body = String::new();
    for (nth, (call, _)) in CALLS.iter().enumerate() {
        let call = call.replace("TO", &format!("to[{nth}]")).replace("FROM", &format!("from[{nth}]"));
        writeln!(body, "    {call};").unwrap();
    }
    let n = CALLS.len();
    format!(
        r#"
        #define _GNU_SOURCE
        #include <stdio.h>
        #include <string.h>
        char to[{n}][256], from[{n}][256];
        __attribute__((no_sanitize("thread"), noinline)) static void fill(void) {{
            static const char text[] = "twenty-one characters";
            for (int i = 0; i < {n}; i++) {{
                for (volatile int j = 0; j < 21; j++) from[i][j] = from[i][j + 128] = text[j];
                from[i][128 + 21] = '!';
            }}
        }}
        int main(int argc, char **argv) {{
            size_t n = 96 + argc;
            int sum = 0;
            (void)argv;
            fill();
        {body}
            printf("%p %p %d\n", (void *)to, (void *)from, sum);
            return 0;
        }}"#
    )
}

/// Fails unless the program recorded what its calls read and wrote, each as one access.
fn check(scene: &Scene, run: &Run, about: &str) {
    let [to, from, sum] = run.numbers()[..] else { panic!("{}", run.printed) };
    // The results of all calls are right.
    assert_eq!(sum as usize, CALLS.iter().filter(|(call, _)| call.starts_with("sum")).count(), "{about}");
    let args = ["view", "--json", "--kind", "read,write", "prog.quipu"];
    let text = quipu().current_dir(&scene.folder).args(args).output().unwrap().stdout;
    let mut found = vec![Vec::new(); CALLS.len()];
    for line in String::from_utf8(text).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["function"], "main", "{about}: {row}");
        let addr = row["addr"].as_str().unwrap().trim_start_matches("0x");
        let addr = u64::from_str_radix(addr, 16).unwrap();
        let all = 256 * CALLS.len() as u64;
        let is_to = (to..to + all).contains(&addr);
        assert!(is_to || (from..from + all).contains(&addr), "{about}: {row}");
        let at = addr - if is_to { to } else { from };
        found[(at / 256) as usize].push((
            row["kind"] == "write",
            is_to,
            at % 256,
            row["bytes"].as_u64().unwrap(),
        ));
    }
    for ((call, expected), mut found) in CALLS.iter().zip(found) {
        found.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{about}: {call}");
    }
}

#[test]
fn copies_are_recorded_as_ranges_by_all_compilers() {
    for flags in [&["-O0", "-w"][..], &["-O2", "-w"], &["-O2", "-w", "-D_FORTIFY_SOURCE=2"]] {
        for_each(C, &source(), "prog.c", flags, |scene, run| {
            check(scene, &run, &format!("{} {flags:?}", scene.compiler));
        });
    }
}

#[test]
fn copies_are_recorded_by_a_runtime_that_is_a_part_of_the_program() {
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        fs::write(scene.path("prog.c"), source()).unwrap();
        let mut compile = quipu();
        compile.env("QUIPU_RUNTIME", "static").env("QUIPU_CC", compiler).current_dir(&scene.folder);
        let compiled = compile.args(["cc", "-O2", "-w", "prog.c", "-o", "prog"]).output().unwrap();
        let is_prepared = !String::from_utf8_lossy(&compiled.stderr).contains("are not recorded");
        assert!(compiled.status.success() && is_prepared, "{compiler}: {compiled:?}");
        check(&scene, &scene.run("prog"), compiler);
    }
}

/// gcc calls its hooks for such copies, and then the C library.
#[test]
fn copies_of_large_structures_are_recorded_once() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <string.h>
        struct big { char bytes[20000]; };
        struct big from, to, cleared, again, source;
        __attribute__((noinline)) static void copy(struct big *to, const struct big *from) { *to = *from; }
        __attribute__((noinline)) static void clear(struct big *big) { *big = (struct big){{0}}; }
        int main(int argc, char **argv) {
            (void)argv;
            copy(&to, &from);
            clear(&cleared);
            for (int i = 0; i < 2 + argc; i++) memcpy(&again, &source, 19999 + argc);
            printf("%p %p %p %p %p\n", (void *)&from, (void *)&to, (void *)&cleared, (void *)&again, (void *)&source);
            return 0;
        }"#;
    for flags in ["-O0", "-O2"] {
        for_each(C, SOURCE, "prog.c", &[flags], |scene, run| {
            let bytes = |start: &u64| {
                let accesses = run.accesses(*start, 20_000);
                (accesses.iter().map(|(.., size)| size).sum::<u64>(), accesses[0].0 & 1)
            };
            let found: Vec<(u64, u8)> = run.numbers().iter().map(bytes).collect();
            let expected = [(20_000, 0), (20_000, 1), (20_000, 1), (60_000, 1), (60_000, 0)];
            assert_eq!(found, expected, "{} {flags}", scene.compiler);
        });
    }
}

#[test]
fn only_copies_of_the_program_are_recorded() {
    /// A library that was not compiled for recording copies, and so does the C library when it prints.
    const LIBRARY: &str = r#"
        #include <string.h>
        void plain(char *to, const char *from, unsigned long n) { memcpy(to, from, n); }"#;
    const SOURCE: &str = r#"
        #include <quipu.h>
        #include <stdio.h>
        #include <string.h>
        void plain(char *to, const char *from, unsigned long n);
        static char one[1000], other[1000];
        int main(int argc, char **argv) {
            (void)argv;
            plain(one, other, 500);
            QUIPU_PAUSE();
            memcpy(one, other, 600 + argc);
            QUIPU_RESUME();
            memcpy(one, other, 700 + argc);
            printf("%p %p\n", (void *)one, (void *)other);
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        fs::write(scene.path("plain.c"), LIBRARY).unwrap();
        let mut compile = Command::new(compiler);
        compile.current_dir(&scene.folder).args(["-O1", "-fno-builtin", "-shared", "-fPIC", "plain.c"]);
        assert!(compile.args(["-o", "libplain.so"]).status().unwrap().success());
        scene.compile(SOURCE, "prog.c", &["-O1", "-w", "-L.", "-lplain", "-Wl,-rpath,."]);
        let run = scene.run("prog");
        let [one, other] = run.numbers()[..] else { panic!("{}", run.printed) };
        let bytes = |start| run.accesses(start, 1000).into_iter().map(|(.., size)| size).sum::<u64>();
        assert_eq!((bytes(one), bytes(other)), (701, 701), "{compiler}");
        assert_eq!(run.summary["accesses"], 2, "{compiler}");
    }
}

#[test]
fn a_copy_without_room_ends_a_program_that_checks() {
    const SOURCE: &str = r#"
        #define _FORTIFY_SOURCE 2
        #include <stdio.h>
        #include <string.h>
        char room[10], text[100];
        int main(int argc, char **argv) {
            (void)argv;
            memcpy(room, text, 9 + argc);
            puts("fits");
            fflush(stdout);
            memcpy(room, text, 10 + argc);
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.c", &["-O2", "-w"]);
        let output = scene.program("prog").output().unwrap();
        assert!(!output.status.success() && output.stdout == b"fits\n", "{compiler}: {output:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("buffer overflow"),
            "{compiler}: {output:?}"
        );
    }
}

#[test]
fn a_program_that_records_nothing_copies_as_others_do() {
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(&source(), "prog.c", &["-O2", "-w"]);
        let output = scene.program("prog").env("QUIPU_OUT", "off").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let n = CALLS.iter().filter(|(call, _)| call.starts_with("sum")).count();
        assert!(output.status.success() && printed.ends_with(&format!(" {n}\n")), "{compiler}: {printed}");
        assert!(scene.captures().is_empty(), "{compiler}");
    }
}

#[test]
fn the_runtime_has_all_functions_that_programs_are_linked_with() {
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(library().join("libquipu_rt.so"));
    let listed = String::from_utf8(listed.output().unwrap().stdout).unwrap();
    for name in COPYING {
        let name = format!("__wrap_{name}");
        assert!(listed.lines().any(|line| line.split(' ').nth(2) == Some(name.as_str())), "{name}");
    }
}
