//! Compilers as called by make and CMake.

use crate::instrumented::*;

#[test]
fn the_runtime_can_be_a_part_of_the_program() {
    const SOURCE: &str = "#include <stdlib.h>\nint main(void) { volatile int *p = malloc(4); *p = 3; free((void *)p); return *p & 0; }";
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        fs::write(scene.path("prog.c"), SOURCE).unwrap();
        let mut compile = quipu();
        compile.env("QUIPU_RUNTIME", "static").env("QUIPU_CC", compiler).current_dir(&scene.folder);
        assert!(compile.args(["cc", "-O1", "prog.c", "-o", "prog"]).status().unwrap().success());
        let needed = Command::new("ldd").arg(scene.path("prog")).output().unwrap();
        assert!(!String::from_utf8_lossy(&needed.stdout).contains("quipu"));
        let run = scene.run("prog");
        assert_eq!(
            (&run.summary["accesses"], &run.summary["allocations"]),
            (&2.into(), &1.into()),
            "{compiler}"
        );
    }
}

#[test]
fn make_takes_it_for_a_compiler() {
    let Ok(_) = Command::new("make").arg("--version").output() else {
        eprintln!("passed over: there is no make");
        return;
    };
    let scene = Scene::new("cc");
    fs::write(scene.path("a.c"), MAIN).unwrap();
    fs::write(scene.path("b.c"), TWICE).unwrap();
    fs::write(
        scene.path("Makefile"),
        "CFLAGS = -O0 -MMD\nboth: a.o b.o\n\t$(CC) -o $@ $^\nonce: a.c\n\t$(CC) $(CFLAGS) a.c b.c -o $@\n",
    )
    .unwrap();
    let mut make = Command::new("make");
    make.arg("-s").arg("both").arg("once").arg(format!("CC={} cc", env!("CARGO_BIN_EXE_quipu")));
    assert!(make.current_dir(&scene.folder).env("QUIPU_LIB", library()).status().unwrap().success());
    assert!(fs::read_to_string(scene.path("b.d")).unwrap().contains("b.c"));
    for name in ["both", "once"] {
        check_twice(&scene, name);
    }
}

#[test]
fn a_runtime_of_another_build_is_refused() {
    let scene = Scene::new("cc");
    fs::write(scene.path("prog.c"), "int cell; int main(void) { cell = 1; return 0; }").unwrap();
    let whole = fs::read(library().join("libquipu_rt.so")).unwrap();
    let mark = b"\0quipu runtime ";
    let at = whole.windows(mark.len()).position(|window| window == mark).unwrap() + mark.len();
    let with = |place: usize, byte: u8| {
        let mut other = whole.clone();
        other[place] = byte;
        other
    };
    for (other, says) in [(with(at, b'9'), "9.1.0-"), (with(at - 3, b'?'), "one of an earlier version")] {
        fs::write(scene.path("libquipu_rt.so"), other).unwrap();
        for args in [&["cc", "prog.c", "-o", "prog"][..], &["rustc-flags"]] {
            let output = quipu()
                .current_dir(&scene.folder)
                .env("QUIPU_LIB", scene.path(""))
                .args(args)
                .output()
                .unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            assert!(said.contains("of another build") && said.contains(says), "{args:?}: {said}");
            assert!(said.contains("libquipu_rt.so") && !scene.path("prog").exists(), "{args:?}: {said}");
        }
    }
    // A program with such a runtime is recorded, with a warning.
    scene.compile("int cell; int main(void) { cell = 1; return 0; }", "prog.c", &["-O0"]);
    fs::write(scene.path("libquipu_rt.so"), with(at, b'9')).unwrap();
    let record = ["record", "-o", "prog.trace", "--", "./prog"];
    let output =
        quipu().current_dir(&scene.folder).env("QUIPU_LIB", scene.path("")).args(record).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("record/other-runtime") || said.contains("of another build (9.1.0-"), "{said}");
}

/// Recomputes the checksums of the frame whose payload contains this position.
fn seal(bytes: &mut [u8], at: usize) {
    use quipu_cells::checksum::of_constant as crc;
    let sync = [0xF5, 0x51, 0x50, 0x55, 0x31, 0x0D, 0x0A, 0x1A];
    let start = bytes[..at].windows(sync.len()).rposition(|window| window == sync).unwrap();
    let len = u32::from_le_bytes(bytes[start + 16..start + 20].try_into().unwrap()) as usize;
    let payload = crc(&bytes[start + 96..][..len]);
    bytes[start + 84..start + 88].copy_from_slice(&payload.to_le_bytes());
    let header = crc(&bytes[start..start + 92]);
    bytes[start + 92..start + 96].copy_from_slice(&header.to_le_bytes());
}

#[test]
fn a_recording_of_an_older_runtime_says_what_its_tables_lack() {
    let scene = Scene::new("cc");
    let source = "#include <pthread.h>
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        int main(void) { pthread_mutex_lock(&lock); return pthread_mutex_unlock(&lock); }";
    scene.compile(source, "prog.c", &["-O0"]);
    scene.run("prog");
    let says = |verb: &[&str], name: &str| {
        let output = quipu().current_dir(&scene.folder).args(verb).arg(name).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{verb:?}: {output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    assert!(!says(&["check"], "prog.quipu").contains("stream/other-recorder"));
    // Restores the form before the table of synchronization was declared as one.
    let mut bytes = fs::read(scene.path("prog.quipu")).unwrap();
    let (category, key) = (b"\x07\x64sync", 1..6);
    let at = bytes.windows(category.len()).position(|window| window == category).unwrap();
    bytes[at..][key].copy_from_slice(b"\x64sink");
    seal(&mut bytes, at);
    fs::write(scene.path("old.quipu"), bytes).unwrap();
    for verb in [&["check"][..], &["info"], &["report", "--no-machine"]] {
        let said = says(verb, "old.quipu");
        assert!(said.contains("`sync` does not say that it is of category `sync`"), "{verb:?}: {said}");
    }
}

#[test]
fn the_wrapper_has_the_exit_code_of_the_compiler_and_says_what_is_missing() {
    let scene = Scene::new("cc");
    let mut compile = quipu();
    compile.current_dir(&scene.folder).args(["cc", "nothing.c", "-o", "nothing"]).stderr(Stdio::null());
    assert_eq!(compile.status().unwrap().code(), Some(1));
    let output = quipu().env("QUIPU_CC", "no-such-compiler").args(["cc", "-c", "a.c"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no-such-compiler"));
}

const MAIN: &str = "int twice(int); int main(void) { return twice(3) - 6; }";
const TWICE: &str = "int cell; int twice(int n) { cell = n; return cell + n; }";

/// Fails unless the program, which writes and reads one place, recorded both.
fn check_twice(scene: &Scene, name: &str) {
    let run = scene.run(name);
    let tags: Vec<(u8, u64)> =
        run.records.iter().filter(|record| record.tag < 2).map(|record| (record.tag, record.size)).collect();
    assert_eq!(tags, [(1, 4), (0, 4)], "{} {name}", scene.compiler);
}

#[test]
fn each_step_of_a_build_can_be_done_by_itself() {
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        fs::write(scene.path("a.c"), MAIN).unwrap();
        fs::write(scene.path("b.c"), TWICE).unwrap();
        let cc = |args: &str| {
            let mut cc = quipu();
            cc.env("QUIPU_CC", compiler).current_dir(&scene.folder).arg("cc").args(args.split(' '));
            let output = cc.output().unwrap();
            assert!(output.status.success(), "{compiler} {args}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(cc("-E b.c").contains("int twice(int n)"));
        cc("-S -O0 b.c");
        assert!(fs::read_to_string(scene.path("b.s")).unwrap().contains("__tsan_write4"), "{compiler}");
        cc("-c -O0 -MMD -MP a.c");
        assert!(fs::read_to_string(scene.path("a.d")).unwrap().contains("a.c"), "{compiler}");
        // Separately assembled code can be linked, too.
        cc("-c b.s -o b.o");
        cc("a.o b.o -o objects");
        check_twice(&scene, "objects");
        cc("-c -O0 -fPIC -o p.o b.c");
        assert!(
            Command::new("ar")
                .current_dir(&scene.folder)
                .args(["rcs", "libb.a", "p.o"])
                .status()
                .unwrap()
                .success()
        );
        cc("-o archive a.o -L. -lb");
        check_twice(&scene, "archive");
        cc("-shared -o libtwice.so p.o");
        cc("-o shared a.o -L. -ltwice -Wl,-rpath,$ORIGIN");
        check_twice(&scene, "shared");
        cc("-O0 -x c a.c b.c -o once");
        check_twice(&scene, "once");
        cc("-Werror a.o b.o -o strict");
        check_twice(&scene, "strict");
        fs::write(scene.path("args"), "-O0 'a.c' b.c\n-o listed").unwrap();
        cc("@args");
        check_twice(&scene, "listed");
        cc("-O0 -no-pie a.c b.c -o fixed");
        check_twice(&scene, "fixed");
        cc("-O0 -fPIE -pie a.c b.c -o moving");
        check_twice(&scene, "moving");
    }
}

#[test]
fn a_compiler_may_stand_behind_another_program() {
    let scene = Scene::new("gcc");
    fs::write(scene.path("a.c"), MAIN).unwrap();
    fs::write(scene.path("b.c"), TWICE).unwrap();
    // Like ccache, it runs the rest of its arguments.
    let prefix = scene.path("prefix");
    fs::write(&prefix, "#!/bin/sh\necho \"$1\" >>said\nexec \"$@\"\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&prefix).status().unwrap().success());
    let wrapped = Command::new(&prefix)
        .current_dir(&scene.folder)
        .env("QUIPU_LIB", library())
        .args([env!("CARGO_BIN_EXE_quipu"), "cc", "-O0", "a.c", "b.c", "-o", "outside"])
        .status();
    assert!(wrapped.unwrap().success());
    check_twice(&scene, "outside");
    let mut inside = quipu();
    inside
        .current_dir(&scene.folder)
        .env("QUIPU_CC", "./prefix gcc")
        .args(["cc", "-O0", "a.c", "b.c", "-o", "inside"]);
    assert!(inside.status().unwrap().success());
    check_twice(&scene, "inside");
    let said = fs::read_to_string(scene.path("said")).unwrap();
    assert_eq!(said.lines().filter(|line| *line == "gcc").count(), 3, "two sources and the program: {said}");
}

#[test]
fn cmake_takes_it_for_compilers_of_c_and_of_cxx() {
    if Command::new("cmake").arg("--version").output().is_err() {
        eprintln!("passed over: there is no cmake");
        return;
    }
    for (cc, cxx) in [("gcc", "g++"), ("clang", "clang++")] {
        if compilers([cc, cxx]).len() < 2 {
            continue;
        }
        let scene = Scene::new(cc);
        fs::write(scene.path("a.cpp"), "extern \"C\" int twice(int);\nint main() { return twice(3) - 6; }")
            .unwrap();
        fs::write(scene.path("b.c"), TWICE).unwrap();
        fs::write(
            scene.path("CMakeLists.txt"),
            "cmake_minimum_required(VERSION 3.13)\nproject(twice C CXX)\nset(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR})\n\
             add_library(static STATIC b.c)\nadd_library(shared SHARED b.c)\n\
             add_executable(with-static a.cpp)\ntarget_link_libraries(with-static static)\n\
             add_executable(with-shared a.cpp)\ntarget_link_libraries(with-shared shared)\n",
        )
        .unwrap();
        let cmake = |args: &[&str]| {
            let mut cmake = Command::new("cmake");
            cmake
                .current_dir(&scene.folder)
                .env("QUIPU_LIB", library())
                .envs([("QUIPU_CC", cc), ("QUIPU_CXX", cxx)])
                .env("CC", format!("{} cc", env!("CARGO_BIN_EXE_quipu")))
                .env("CXX", format!("{} c++", env!("CARGO_BIN_EXE_quipu")))
                .env("QUIPU_OUT", "off");
            let output = cmake.args(args).output().unwrap();
            assert!(output.status.success(), "{cc}: {output:?}");
        };
        cmake(&["-S", ".", "-B", "build"]);
        cmake(&["--build", "build"]);
        check_twice(&scene, "with-static");
        check_twice(&scene, "with-shared");
    }
}
