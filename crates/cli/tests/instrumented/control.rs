//! Recordings that other processes start, stop and look at, and windows.

use crate::instrumented::*;
use std::io::{BufRead, BufReader, Write};

/// For each line that it reads, 20,000 writes, which is more than a buffer has room for.
const ON_DEMAND: &str = r#"
    #include <stdio.h>
    static volatile long cells[64];
    int main(void) {
        printf("%p\n", (void *)cells);
        fflush(stdout);
        char line[16];
        while (fgets(line, sizeof line, stdin)) {
            for (int i = 0; i < 20000; i++) cells[i % 64] = i;
            puts("done");
            fflush(stdout);
        }
        return 0;
    }"#;

#[test]
fn a_running_program_is_paused_resumed_and_looked_at() {
    let scene = Scene::new("cc");
    scene.compile(ON_DEMAND, "prog.c", &["-O1"]);
    let mut child = scene.program("prog").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut said = from.lines().map(Result::unwrap);
    let start = u64::from_str_radix(said.next().unwrap().trim_start_matches("0x"), 16).unwrap();
    let addr = format!("{start:#x}..{:#x}", start + 64 * 8);
    let mut work = || {
        to.write_all(b"more\n").unwrap();
        assert_eq!(said.next().as_deref(), Some("done"));
    };
    let pid = child.id().to_string();
    let control = |more: &[&str]| {
        let output = quipu().current_dir(&scene.folder).args(["record", "--pid", &pid]).args(more).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{more:?}: {output:?}");
    };
    let writes = |file: &str| {
        let line = ["view", "--json", "--kind", "write", "--addr", &addr, file];
        let output = quipu().current_dir(&scene.folder).args(line).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    work();
    control(&["-o", "first.quipu"]);
    assert_eq!(writes("first.quipu"), 20_000);
    control(&["--pause"]);
    // The rest of the buffer is filled, and then nothing is recorded.
    work();
    work();
    control(&["-o", "paused.quipu"]);
    let n_paused = writes("paused.quipu");
    assert!((20_000..40_000).contains(&n_paused), "{n_paused}");
    work();
    control(&["-o", "paused.quipu", "--force"]);
    assert_eq!(writes("paused.quipu"), n_paused);
    control(&["--resume"]);
    work();
    drop(to);
    assert!(child.wait().unwrap().success());
    assert_eq!(writes("prog.quipu"), n_paused + 20_000);
    let refused = quipu().args(["record", "--pid", &std::process::id().to_string(), "--pause"]).output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("writes no recording"), "{refused:?}");
}

#[test]
fn windows_have_their_share_of_the_events() {
    let scene = Scene::new("cc");
    scene.compile(ON_DEMAND, "prog.c", &["-O1"]);
    let mut program = scene.program("prog");
    program.env("QUIPU_WINDOWS", "1/4").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = program.spawn().unwrap();
    child.stdin.take().unwrap().write_all("more\n".repeat(10).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = |kind: &str| {
        let line = ["view", "--json", "--kind", kind, "prog.quipu"];
        let output = quipu().current_dir(&scene.folder).args(line).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // Four buffers of 14,323 cells, of other events only a few, with three gaps between them.
    let n_writes = lines("write").len();
    assert!((56_000..=4 * 14_323).contains(&n_writes), "{n_writes}");
    let late = ["record", "--start-after", "1h", "-o", "late.trace", "--", "./prog"];
    let late = quipu().current_dir(&scene.folder).args(late).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(late.stderr).unwrap();
    assert!(late.status.code() == Some(2) && said.contains("before recording was started"), "{said}");
    let resumed = lines("resume");
    assert!(
        resumed.len() == 3 && resumed.iter().all(|line| line.contains("\"after_gap\":true")),
        "{resumed:?}"
    );
}

#[test]
fn a_signal_to_the_recorder_starts_and_stops_recording() {
    let scene = Scene::new("cc");
    scene.compile(ON_DEMAND, "prog.c", &["-O1"]);
    let line = ["record", "-q", "--toggle-signal", "USR2", "-o", "out.trace", "--", "./prog"];
    let mut record = quipu();
    record.current_dir(&scene.folder).args(line).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = record.spawn().unwrap();
    let (mut to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut said = from.lines().map(Result::unwrap);
    assert!(said.next().unwrap().starts_with("0x"));
    let mut work = || {
        to.write_all(b"more\n").unwrap();
        assert_eq!(said.next().as_deref(), Some("done"));
    };
    let pid = child.id().to_string();
    let signal = || {
        assert!(Command::new("kill").args(["-USR2", &pid]).status().unwrap().success());
        // The recorder looks at its signals fifty times a second.
        std::thread::sleep(Duration::from_millis(300));
    };
    work();
    signal();
    work();
    signal();
    work();
    work();
    drop(to);
    assert!(child.wait().unwrap().success());
    let line = ["view", "--json", "--kind", "write", "out.quipu"];
    let output = quipu().current_dir(&scene.folder).args(line).output().unwrap();
    let n_writes = String::from_utf8(output.stdout).unwrap().lines().count();
    // Those of the second line, and what had room in a buffer after the second signal.
    assert!((20_000..35_000).contains(&n_writes), "{n_writes}");
}
