//! Recordings that are sent to another machine, while their programs run and after they were killed.

use super::{C, Scene, quipu};
use crate::network::{Collecting, producer};
use quipu_cells::layout::SYNC;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Threads with loops, locks and typed memory, which run until a file `stop` exists or they are killed.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct item { long key; struct item *next; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct item *first;
static void *work(void *which) {
    for (long i = 0; i % 20 || access("stop", F_OK); i++) {
        struct item *item = malloc(sizeof(struct item));
        item->key = i;
        pthread_mutex_lock(&lock);
        item->next = first;
        first = item;
        if (i % 3 == 2) { struct item *old = first; first = old->next; free(old); }
        pthread_mutex_unlock(&lock);
        if (i % 20 == 0) usleep(20000);
    }
    return which;
}
int main(void) {
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (long i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

/// Exit code and output of a verb on a recording.
fn told(line: &[&str], recording: &Path) -> (Option<i32>, String) {
    let output = quipu().args(line).arg(recording).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Asserts that all verbs give the same result for both recordings.
fn assert_same(here: &Path, there: &Path) {
    for line in
        [&["view"][..], &["view", "--json"], &["view", "--table", "records", "--csv", "--format", "stream"]]
    {
        let (here, there) = (told(line, here), told(line, there));
        assert!(here.1.lines().count() > 1000, "{line:?}: {}", here.1);
        assert!(here == there, "{line:?}: {:?} and {:?}", here.0, there.0);
    }
    let said = |recording: &Path| {
        let mut info: Value = serde_json::from_str(&told(&["info", "--json"], recording).1).unwrap();
        // These describe the file itself.
        for key in ["recording", "bytes", "findings"] {
            info.as_object_mut().unwrap().remove(key);
        }
        info
    };
    assert_eq!(said(here), said(there));
    let trace = |recording: &Path| {
        let out = recording.with_extension("trace");
        let line = ["convert", "--to", "cacheray", "-o"];
        let made = quipu().args(line).arg(&out).arg(recording).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        fs::read(out).unwrap()
    };
    assert!(trace(here) == trace(there), "the traces with types differ");
    assert_eq!(told(&["check", "-q"], here).0, told(&["check", "-q"], there).0);
}

#[test]
fn a_recording_is_the_same_where_it_was_sent_while_its_program_ran() {
    let scene = Scene::new(C[0]);
    scene.compile(PROGRAM, "prog.c", &["-O1", "-g", "-pthread"]);
    let out = scene.path("collected");
    let collecting = Collecting::start(&["-o", out.to_str().unwrap()]);
    let mut program = scene.program("prog").spawn().unwrap();
    let recording = scene.path("prog.quipu");
    while !fs::metadata(&recording).is_ok_and(|meta| meta.len() > 8192) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let sender = quipu()
        .args(["send", "--json", "--to", &collecting.address.to_string()])
        .arg(&recording)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let there = out.join(format!("{}.quipu", producer(&fs::read(&recording).unwrap())));
    // A frame with events of a thread has arrived while it runs.
    let has_arrived = |bytes: &[u8]| {
        const DATA: u8 = 2;
        bytes.windows(16).any(|head| head.starts_with(&SYNC) && head[9] == DATA)
    };
    let begun = Instant::now();
    while !fs::read(&there).is_ok_and(|bytes| has_arrived(&bytes)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing arrives while the program runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    // It is a valid recording already, of a program that still runs.
    let (_, info) = told(&["info", "--json"], &there);
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!((&info["ending"], &info["pid"]), (&"stopped".into(), &program.id().into()), "{info}");
    fs::write(scene.path("stop"), "").unwrap();
    assert!(program.wait().unwrap().success());
    let sent = sender.wait_with_output().unwrap();
    let sent_json: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!((sent.status.code(), &sent_json["complete"]), (Some(0), &true.into()), "{sent_json}");
    assert_eq!(collecting.stop().0, Some(0));
    assert_same(&recording, &there);
}

#[test]
fn a_recording_of_a_program_that_was_killed_is_the_same_where_it_was_sent() {
    let scene = Scene::new(C[0]);
    scene.compile(PROGRAM, "prog.c", &["-O1", "-g", "-pthread"]);
    let out = scene.path("collected");
    let collecting = Collecting::start(&["-o", out.to_str().unwrap()]);
    let mut program = scene.program("prog").spawn().unwrap();
    let begun = Instant::now();
    let recording = scene.path("prog.quipu");
    while begun.elapsed() < Duration::from_secs(2) || !recording.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    program.kill().unwrap();
    program.wait().unwrap();
    let sent = quipu()
        .args(["send", "--no-follow", "--to", &collecting.address.to_string()])
        .arg(&recording)
        .output()
        .unwrap();
    assert!(sent.status.success(), "{sent:?}");
    // It has no END.
    assert_eq!(collecting.stop().0, Some(1));
    let there = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    assert_same(&recording, &there);
}
