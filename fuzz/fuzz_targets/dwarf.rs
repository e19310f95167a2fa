//! Any bytes as a program with debug information: every question ends.
#![no_main]

use quipu_symbols::dwarf::DebugInfo;
use quipu_symbols::extract::{Compat, types_file};
use quipu_symbols::layout::Limits;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(info) = DebugInfo::parse(bytes) else { return };
    for id in info.type_ids().take(64) {
        let _ = info.read(id);
        let _ = info.flat(id, Limits { leaves: 64, elements: 4 });
    }
    let _ = info.find("struct.node.1");
    let objects = info.objects();
    let _ = info.line_of(objects.functions.first().map_or(0, |function| function.ranges[0].start));
    let _ = types_file(&info, Compat::Right);
    let _ = types_file(&info, Compat::Original);
});
