//! Any text as a configuration of caches, and as a space of caches to try: it is read or refused, and what was read can be built.
#![no_main]

use quipu_sim::config;
use quipu_sim::sweep::Space;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(config) = config::parse(&text, "fuzzed") {
        config.machine.layout().expect("what was read holds together");
    }
    if let Ok(space) = Space::parse(&text, "fuzzed") {
        // It may be empty or too large, and says so.
        let _ = space.points();
    }
});
