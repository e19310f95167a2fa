//! Random streams, and the seeds of the fuzz targets, rewritten and edited.

// The helpers of a test may panic as the test may.

use crate::fuzzing;
use proptest::prelude::*;
use quipu_drmemtrace::record::{Entry, Marker, Type};
use std::path::Path;
use zerocopy::IntoBytes;

/// An entry of any type, with addresses and values from a small set, so that they recur.
fn entry() -> impl Strategy<Value = Entry> {
    let value = prop_oneof![0_u64..8, 0x1000_u64..0x1010, Just(u64::MAX)];
    prop_oneof![
        6 => (10_u16..17, 0_u16..4, 0x1000_u64..0x1010).prop_map(|(kind, size, pc)| Entry::new(Type(kind), size, pc)),
        4 => (0_u16..2, 0_u16..16, value.clone()).prop_map(|(kind, size, addr)| Entry::new(Type(kind), size, addr)),
        4 => (0_u16..9, value.clone()).prop_map(|(size, bytes)| Entry::new(Type::ENCODING, size, bytes)),
        3 => (0_u16..48, value.clone()).prop_map(|(kind, value)| Entry::new(Type::MARKER, kind, value)),
        2 => (0_u64..100).prop_map(|time| Entry::marker(Marker::TIMESTAMP, time)),
        1 => (0_u16..55, 0_u16..60, value).prop_map(|(kind, size, addr)| Entry::new(Type(kind), size, addr)),
    ]
}

fn stream() -> impl Strategy<Value = Vec<Entry>> {
    (1_u64..8, 0_u64..0x1_0000, proptest::collection::vec(entry(), 0..200)).prop_map(
        |(version, filetype, body)| {
            let mut entries = vec![
                Entry::new(Type::HEADER, 0, version),
                Entry::marker(Marker::VERSION, version),
                Entry::marker(Marker::FILETYPE, filetype),
                Entry::new(Type::THREAD, 4, 7),
                Entry::new(Type::PID, 4, 7),
            ];
            entries.extend(body);
            entries
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn random_streams_come_back(entries in stream()) {
        fuzzing::rewrite(entries.as_bytes());
    }
}

#[test]
fn seeds_come_back() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut n_seeds = 0;
    for folder in ["drmemtrace", "rewrite"] {
        for file in std::fs::read_dir(seeds.join(folder)).unwrap() {
            let path = file.unwrap().path();
            eprintln!("{}", path.display());
            fuzzing::rewrite(&std::fs::read(path).unwrap());
            n_seeds += 1;
        }
    }
    assert!(n_seeds >= 27);
}
