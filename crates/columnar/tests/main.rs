//! Tests of Parquet and Arrow files as traces.

#![allow(clippy::unwrap_used)]

use quipu_columnar::COLUMNAR;
use quipu_model::{Confidence, Format, OpenOptions, Scan, ShardId};
use quipu_source::Source;
use quipu_testkit::fixtures;

#[test]
fn files_are_recognised_by_their_first_bytes() {
    for (bytes, expected) in [
        (&b"PAR1\x15\x04\x15\x00"[..], Confidence::Sure),
        (b"ARROW1\0\0\xff\xff\xff\xff\x10\x01\0\0\x10\0\0\0", Confidence::Sure),
        (b"\xff\xff\xff\xff\x10\x01\0\0\x10\0\0\0", Confidence::Likely),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Confidence::No),
        (b"PAR", Confidence::No),
        (b"", Confidence::No),
    ] {
        let found = COLUMNAR.probe(&Source::from_bytes("x", bytes.to_vec()));
        assert_eq!(found, expected, "{bytes:?}");
    }
}

#[test]
fn every_cut_of_a_file_gives_an_error_or_what_precedes_it() {
    for (name, n_all) in [("pyarrow.parquet", 400), ("polars.arrows", 400), ("mixed.arrow", 192)] {
        let bytes = std::fs::read(fixtures("columnar").join(name)).unwrap();
        let mut most = 0;
        for len in (0..bytes.len()).step_by(37).chain([bytes.len()]) {
            let source = Source::from_bytes(name, bytes[..len].to_vec());
            let Ok(trace) = COLUMNAR.open(&source, &OpenOptions::default()) else { continue };
            let scan = Scan { columns: trace.columns(), tables: vec![0], ..Scan::new(ShardId(0)) };
            let mut reader = trace.scan(&scan).unwrap();
            let (mut n_rows, mut n_findings) = (0, 0);
            while let Some(batch) = reader.read().unwrap() {
                n_rows += batch.tables[0].n_rows();
                n_findings += batch.findings.len();
            }
            assert!(n_rows >= most, "{name} cut at {len}: {n_rows} rows after {most}");
            // A stream that is cut between two messages looks complete, and the bytes after the last message have no rows.
            assert!(n_findings > 0 || n_rows == 0 || n_rows == n_all, "{name} cut at {len}: {n_rows} rows");
            assert!(len < bytes.len() || n_findings == 0, "{name} whole");
            most = n_rows;
        }
        assert_eq!(most, n_all, "{name}");
    }
}
