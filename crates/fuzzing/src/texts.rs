//! What people and other programs write: configurations, sets of calls, types, debug information; and instructions.

use quipu::apitrace::callset::CallSet;
use quipu::apitrace::edits::substitute::Rule;
use quipu::isa::{Arch, Decoder, Syntax};
use quipu::sim::sweep::Space;
use quipu::sim::{Pages, config};
use quipu::symbols::dwarf::DebugInfo;
use quipu::symbols::extract::{self, Compat};
use quipu::symbols::layout::Limits;
use quipu::symbols::remap::Remap;
use quipu::symbols::types_file::{Lookup, TypesFile};

/// Any text as a configuration of caches, as a space of caches to try, as Cacheray's caches, and as a list of pages: it is
/// read or refused, and what was read can be built.
///
/// # Panics
/// If what was read does not hold together.
pub fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(config) = config::parse(&text, "fuzzed") {
        config.machine.layout().expect("what was read holds together");
    }
    if let Ok(space) = Space::parse(&text, "fuzzed") {
        // It may be empty or too large, and says so.
        let _ = space.points();
    }
    let _ = quipu::sim::cacheray::Configuration::parse(&text);
    let _ = Pages::parse(&text, "fuzzed");
}

/// Any text as a set of calls, and as a replacement of values.
pub fn call_set(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // `@FILE` names a file, and any file of this machine would be read.
    if text.contains('@') {
        return;
    }
    let mut set = CallSet::default();
    let _ = set.add(&text);
    // Patterns are compiled, which takes its time; they come from command lines, which are short.
    if text.len() <= 256 {
        let _ = Rule::parse(&text, false);
        let _ = Rule::parse(&text, true);
    }
}

/// Any bytes as instructions of each architecture: each has a length within the bytes, and a text.
///
/// # Panics
/// If an instruction is longer than what it was read from, or has no text.
pub fn instructions(bytes: &[u8]) {
    for arch in [Arch::X86_64, Arch::X86_32, Arch::Aarch64, Arch::Regdeps] {
        let mut decoder = Decoder::new(arch, Syntax::Att).expect("this architecture has a decoder");
        let mut rest = bytes;
        let mut text = String::new();
        for _ in 0..256 {
            text.clear();
            decoder.text(0x1000, rest, &mut text);
            // What is known of an instruction in terms of REGDEPS may be nothing but its length.
            assert!(arch == Arch::Regdeps || !text.is_empty(), "{arch:?}: {rest:02x?} have no text");
            let step = match decoder.decode(0x1000, rest) {
                Ok(instr) => {
                    let length = usize::from(instr.len);
                    assert!(length > 0 && length <= rest.len(), "{arch:?}: {length} of {} bytes", rest.len());
                    length
                }
                Err(_) => 1,
            };
            match rest.get(step..) {
                Some(left) if !left.is_empty() => rest = left,
                _ => break,
            }
        }
    }
}

/// Any bytes as a file of types, and as a remap: what is read is written and read again as the same.
///
/// # Panics
/// If it is another.
pub fn types_file(bytes: &[u8]) {
    if let Ok(file) = TypesFile::parse(bytes) {
        assert_eq!(TypesFile::parse(file.text().as_bytes()).as_ref(), Ok(&file));
        let _ = Lookup::new(&file).find("struct.a");
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(remap) = Remap::parse(&text) {
        assert_eq!(Remap::parse(&remap.text()).map(|again| again.text()), Ok(remap.text()));
    }
}

/// Any bytes as a program with debug information: every question ends.
pub fn dwarf(bytes: &[u8]) {
    let Ok(info) = DebugInfo::parse(bytes) else { return };
    for id in info.type_ids().take(64) {
        let _ = info.read(id);
        let _ = info.flat(id, Limits { leaves: 64, elements: 4 });
    }
    let _ = info.find("struct.node.1");
    let objects = info.objects();
    let _ = info.line_of(objects.functions.first().map_or(0, |function| function.ranges[0].start));
    let _ = extract::types_file(&info, Compat::Right);
    let _ = extract::types_file(&info, Compat::Original);
}
