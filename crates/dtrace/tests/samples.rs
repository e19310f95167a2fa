//! The samples: captures, with the output of the real consumers.

use quipu_dtrace::{Capture, Printed, linux, meta, options::Settings, script};
use quipu_source::{Source, StreamOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of the samples.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/dtrace")
}

/// The folders of all cases of a family, sorted.
pub fn cases(family: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(root().join(family))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    all.sort();
    all
}

pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Contents of a file of a case, which may be packed.
pub fn bytes(path: &Path) -> Vec<u8> {
    let packed = path.with_file_name(format!("{}.gz", name_of(path)));
    let source = Source::open(if path.exists() { path } else { &packed }).unwrap();
    let container = source.container().unwrap();
    let mut stream = container.stream(container.all_members(), &StreamOptions::default()).unwrap();
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while stream.next(&mut block).unwrap().is_some() {
        all.extend_from_slice(&block);
    }
    all
}

pub fn classic(path: &Path) -> Capture {
    let text = bytes(&path.join(meta::FILE));
    meta::read("meta.json", &text, &mut |name| Ok(bytes(&path.join(name)))).unwrap()
}

pub fn printed(capture: Capture, has_quirks: bool) -> Printed {
    quipu_dtrace::print(&Arc::new(capture), has_quirks.into()).unwrap()
}

/// The line that gives a kernel address a name.
pub fn symbol(lo: u64, name: &str) -> String {
    let hi = lo + 0x400;
    format!("{{\"t\":\"symbol\",\"lo\":{lo},\"hi\":{hi},\"object\":\"vmlinux\",\"name\":\"{name}\"}}\n")
}

/// Names of a live kernel that a case needs and its files lack; they are taken from the consumer's text.
pub fn additions(name: &str) -> String {
    match name {
        "stack" => {
            symbol(0xffff_ffff_814b_84f0, "bpf_trace_run2")
                + &symbol(0xffff_ffff_8141_5880, "__bpf_trace_sys_enter")
                + &symbol(0xffff_ffff_8141_5bf0, "syscall_trace_enter")
        }
        "sym_mod" | "printa_mod" => symbol(0xffff_ffff_821f_94a0, "schedule"),
        _ => String::new(),
    }
}

pub fn raw(path: &Path) -> Vec<u8> {
    bytes(&path.join("raw.jsonl"))
}

/// The options on the command line of a case.
pub fn options(path: &Path) -> Settings {
    Settings::of_command(&String::from_utf8(bytes(&path.join("opts"))).unwrap())
}

pub fn linux_capture(path: &Path) -> Capture {
    let mut text = String::from_utf8(raw(path)).unwrap();
    text.push_str(&additions(&name_of(path)));
    let mut capture = linux::read("raw.jsonl", text.as_bytes()).unwrap();
    capture.settings = options(path);
    script::apply(&mut capture, &bytes(&path.join(script::FILE)));
    capture
}
