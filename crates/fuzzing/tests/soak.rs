//! Runs the script of `./dev soak` with a stand-in for cargo: which steps it runs, and how it ends.

// Helpers of tests may panic, too.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Writes its arguments down and fails for those that have the word in `FAILS`. It knows two fuzz targets and no fuzzer.
const CARGO: &str = r#"#!/bin/sh
echo "$*" >>"$CARGO_TARGET_DIR/said"
case "$*" in
    *"seeds --targets") printf 'din\nlackey\n' ;;
    *"+nightly"*) exit 1 ;;
    *"$FAILS"*) exit 101 ;;
esac
"#;

/// A folder for the stand-in and for what the script keeps.
struct Soak {
    folder: PathBuf,
}

impl Soak {
    fn new(name: &str) -> Soak {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).unwrap();
        let cargo = folder.join("bin/cargo");
        fs::write(&cargo, CARGO).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        Soak { folder }
    }

    /// Runs the script. Commands of cargo with the word `fails` fail.
    fn run(&self, fails: &str, args: &[&str]) -> Output {
        let path = std::env::var("PATH").unwrap();
        Command::new("bash")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("soak.sh"))
            .args(args)
            .env("PATH", format!("{}:{path}", self.folder.join("bin").display()))
            .env("CARGO_TARGET_DIR", &self.folder)
            .env("FAILS", fails)
            .output()
            .unwrap()
    }

    /// The arguments of each call of cargo since the last question.
    fn said(&self) -> String {
        let said = self.folder.join("said");
        let text = fs::read_to_string(&said).unwrap_or_default();
        let _ = fs::remove_file(said);
        text
    }
}

/// The last lines on standard error, which name what failed.
fn failed(output: &Output) -> Vec<String> {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    errors.lines().filter_map(|line| line.strip_prefix("failed: ").map(str::to_owned)).collect()
}

#[test]
fn a_step_that_fails_is_named_at_the_end_and_keeps_no_other_from_running() {
    let soak = Soak::new("failing-step");
    let args = ["5", "--only", "damage", "--only", "recording", "--only", "fuzz"];
    let output = soak.run(" damage", &args);
    let said = soak.said();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    // There is no fuzzer, either.
    assert_eq!(failed(&output), ["damage", "fuzz"]);
    assert!(said.contains("--no-fail-fast damage") && said.contains("--no-fail-fast record"), "{said}");

    // Steps that passed are not run again.
    let output = soak.run("nothing", &["5", "--only", "damage", "--only", "recording", "--resume"]);
    let said = soak.said();
    assert_eq!((output.status.code(), failed(&output).len()), (Some(0), 0), "{output:?}");
    assert!(said.contains("damage") && !said.contains("record"), "{said}");
}

#[test]
fn one_step_runs_alone_and_leaves_what_others_did() {
    let soak = Soak::new("one-step");
    assert_eq!(soak.run("nothing", &["5", "--only", "recording"]).status.code(), Some(0));
    assert!(!soak.said().contains("damage"));
    assert_eq!(soak.run("nothing", &["5", "--only", "damage"]).status.code(), Some(0));
    let said = soak.said();
    assert!(said.contains("damage") && !said.contains("record") && !said.contains("seeds"), "{said}");
    assert!(soak.folder.join("soak/recording.done").exists());
}

#[test]
fn arguments_that_make_no_sense_end_with_2_before_anything_runs() {
    let soak = Soak::new("wrong-arguments");
    for args in [
        &["5", "--only", "damages"][..],
        &["--only"],
        &["5s"],
        &["--resumed"],
        &["5", "--only", "damage", "din"],
        &["5", "--only", "fuzz", "dim"],
    ] {
        let output = soak.run("nothing", args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(!soak.said().contains("test"), "{args:?}");
    }
    let help = soak.run("nothing", &["--help"]);
    assert_eq!((help.status.code(), soak.said().is_empty()), (Some(0), true), "{help:?}");
}
