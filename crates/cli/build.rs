//! Passes the git revision of a release build to the program, which `quipu new-tool` uses.
//!
//! Only for releases, since otherwise every commit would trigger a rebuild. A build may set it in `QUIPU_REVISION`.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-env-changed=QUIPU_REVISION");
    let is_said = std::env::var_os("QUIPU_REVISION").is_some();
    if is_said || std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    if let Some(revision) = git(&["rev-parse", "HEAD"]) {
        println!("cargo:rustc-env=QUIPU_REVISION={revision}");
    }
}
