//! Any bytes as a file of types, and as a remap: what is read is written and read again as the same.
#![no_main]

use quipu_symbols::remap::Remap;
use quipu_symbols::types_file::{Lookup, TypesFile};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(file) = TypesFile::parse(bytes) {
        assert_eq!(TypesFile::parse(file.text().as_bytes()).as_ref(), Ok(&file));
        let _ = Lookup::new(&file).find("struct.a");
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(remap) = Remap::parse(&text) {
        assert_eq!(Remap::parse(&remap.text()).map(|again| again.text()), Ok(remap.text()));
    }
});
