//! Instrumented libraries in programs that are not, programs that a build runs, and Quipu's own options beside the compiler's.

use crate::instrumented::*;

const LIBRARY: &str = "
    #include <stdlib.h>
    struct point { double x, y; };
    double sum(int n) {
        struct point *all = malloc(n * sizeof *all);
        double sum = 0;
        for (int i = 0; i < n; i++) all[i].x = i;
        for (int i = 0; i < n; i++) sum += all[i].x;
        free(all);
        return sum;
    }";

/// A scene with an instrumented library, and a program of this source that is not instrumented.
fn with_library(source: &str, flags: &[&str]) -> Scene {
    let scene = Scene::new("cc");
    scene.compile(LIBRARY, "libpoints.so.c", &["-O1", "-shared", "-fPIC"]);
    plain(&scene, source, flags);
    scene
}

/// Compiles a program without instrumentation.
fn plain(scene: &Scene, source: &str, flags: &[&str]) {
    fs::write(scene.path("host.c"), source).unwrap();
    let mut compile = Command::new("cc");
    compile.current_dir(&scene.folder).args(["host.c", "-o", "host"]).args(flags);
    assert!(compile.status().unwrap().success());
}

fn record(scene: &Scene, args: &[&str]) -> std::process::Output {
    let mut record = quipu();
    record.current_dir(&scene.folder).args(["record", "--container", "plain", "-o", "host.trace"]);
    record.args(args).output().unwrap()
}

/// Fails unless the recording has the accesses of the library, and the type of what it allocated.
fn check_points(scene: &Scene) {
    let run = scene.collect("host.quipu");
    assert_eq!(run.summary["accesses"], 200, "{}", run.summary);
    assert!(run.records.iter().any(|record| record.tag == 2 && record.region.2 == "struct.point"));
}

/// Removes what was recorded.
fn forget(scene: &Scene) {
    for name in ["host.trace", "host.quipu"] {
        fs::remove_file(scene.path(name)).unwrap();
    }
}

const LINKED: &str = "double sum(int n); int main(void) { return sum(100) != 4950; }";

#[test]
fn a_library_is_recorded_in_a_program_that_is_not_instrumented() {
    let scene = with_library(LINKED, &["-L.", "-lpoints", "-Wl,-rpath,$ORIGIN"]);
    let output = record(&scene, &["--", "./host"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("warning"), "{said}");
    check_points(&scene);
    // The library sends events, too.
    let args = ["run", "-q", "--with", "tsan", "--backend", "simplecount", "-o", "counts", "--", "./host"];
    assert!(quipu().current_dir(&scene.folder).args(args).status().unwrap().success());
    assert_ne!(fs::read_dir(scene.path("counts")).unwrap().count(), 0);
}

#[test]
fn types_of_a_library_suffice_if_the_program_has_none() {
    const ALLOCATES: &str = r#"
        #include <stdlib.h>
        double sum(int n);
        char *volatile kept;
        int main(void) { kept = malloc(100); return sum(100) != 4950; }"#;
    let scene = with_library(ALLOCATES, &["-L.", "-lpoints", "-Wl,-rpath,$ORIGIN"]);
    let output = record(&scene, &["--", "./host"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("no allocation has a type"), "{said}");
    let summary = scene.collect("host.quipu").summary;
    assert!(summary["allocations"].as_u64().unwrap() >= 2, "{summary}");
}

#[test]
fn a_library_that_a_program_loads_by_itself_is_recorded_if_that_is_asked_for() {
    const LOADS: &str = r#"
        #include <dlfcn.h>
        int main(void) {
            double (*sum)(int) = (double (*)(int))dlsym(dlopen("./libpoints.so", RTLD_NOW), "sum");
            return sum(100) != 4950;
        }"#;
    let scene = with_library(LOADS, &["-ldl"]);
    let output = record(&scene, &["--with", "tsan", "--", "./host"]);
    assert!(output.status.success(), "{output:?}");
    check_points(&scene);
    // A shell has no such library, and is left out; its children are recorded.
    forget(&scene);
    let output = record(&scene, &["--with", "tsan", "--follow-fork", "--", "sh", "-c", "./host; ./host; :"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.matches("in `").count() == 3, "{said}");
    assert_eq!(scene.captures().len(), 2, "{:?}", scene.captures());
    // A program that uses none is no recording.
    forget(&scene);
    let output = record(&scene, &["--with", "tsan", "--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("the program recorded nothing"), "{said}");
    assert!(!scene.path("host.trace").exists() && !scene.path("host.quipu").exists(), "{said}");
    // Children that recorded something are worth a hint, and others are not.
    for (script, part) in
        [("./host; :", "`--follow-fork` records them"), ("/bin/true; :", "compile it, or the libraries")]
    {
        let output = record(&scene, &["--with", "tsan", "--", "sh", "-c", script]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(part), "{script}: {said}");
    }
}

#[test]
fn a_program_with_annotations_alone_is_not_taken_for_an_instrumented_one() {
    const ANNOTATED: &str = "#include <quipu.h>\nint main(void) { static int all[4]; QUIPU_REGION(all, 4, int); QUIPU_REGION_END(all); return 0; }";
    let scene = Scene::new("cc");
    let mut prefix = quipu();
    let output = prefix.env("XDG_CACHE_HOME", scene.path("cache")).args(["cc", "--quipu-prefix"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let prefix = String::from_utf8(output.stdout).unwrap();
    plain(&scene, ANNOTATED, &["-I", &format!("{}/include", prefix.trim_end())]);
    assert!(Command::new(scene.path("host")).current_dir(&scene.folder).status().unwrap().success());
    assert_eq!(scene.captures(), [""; 0]);
    let output = quipu().current_dir(&scene.folder).args(["layout", "--", "./host"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("was not compiled to record the types"), "{said}");
}

#[test]
fn programs_by_which_builds_try_compilers_leave_no_recordings() {
    let scene = Scene::new("cc");
    let source = "int cell; int main(void) { cell = 1; return 0; }";
    let names = [
        "conftest",
        "cmTC_0a1b2",
        "sanity_check_for_c.exe",
        "sanitycheckc.exe",
        "output.exe",
        "build-script-build",
    ];
    let run = |name: &str, out: Option<&str>| {
        let mut program = Command::new(scene.path(name));
        program.current_dir(&scene.folder).env_remove("QUIPU_OUT");
        if let Some(out) = out {
            program.env("QUIPU_OUT", out);
        }
        assert!(program.status().unwrap().success(), "{name}");
    };
    for name in names {
        scene.compile(source, &format!("{name}.c"), &["-O0"]);
        run(name, None);
    }
    assert_eq!(scene.captures(), [""; 0]);
    // One that is asked for is made, and so are those of other programs.
    run("conftest", Some("%n.quipu"));
    scene.compile(source, "prog.c", &["-O0"]);
    run("prog", None);
    let captures = scene.captures();
    assert!(captures.len() == 2 && captures[0] == "conftest.quipu" && captures[1].starts_with("prog."));
}

#[test]
fn options_go_to_the_compiler_unless_they_are_our_own() {
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        let said = |args: &[&str]| {
            let mut cc = quipu();
            cc.current_dir(&scene.folder)
                .env("QUIPU_CC", compiler)
                .env("XDG_CACHE_HOME", scene.path("cache"));
            let output = cc.arg("cc").args(args).output().unwrap();
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
        };
        assert!(said(&["-v"]).contains(&format!("{compiler} version")), "{compiler}");
        let help = said(&["--help"]);
        assert!(help.contains("--quipu-prefix") && help.contains("QUIPU_OUT"), "{help}");
        assert!(help.contains("Everything else goes to the compiler"), "{help}");
        let runtime = said(&["--quipu-runtime"]);
        assert_eq!(Path::new(runtime.trim_end()), library().canonicalize().unwrap().join("libquipu_rt.so"));
        let prefix = said(&["--quipu-prefix"]);
        let prefix = Path::new(prefix.trim_end());
        assert!(prefix.starts_with(scene.path("cache").canonicalize().unwrap()), "{}", prefix.display());
        for file in [
            "include/quipu.h",
            "lib/cmake/Quipu/QuipuConfig.cmake",
            "lib/pkgconfig/quipu-gcc.pc",
            "lib/quipu/gcc.specs",
        ] {
            assert!(prefix.join(file).is_file(), "{file}");
        }
    }
}
