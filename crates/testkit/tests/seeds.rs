//! Runs every seed of the fuzz targets through the body for sources, since any file is a source.

use quipu_testkit::fuzz;
use std::path::Path;

#[test]
fn every_seed_is_a_source() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    assert!(fuzz::each_file(seeds.join("source"), fuzz::source) > 0);
    assert!(fuzz::each_file(seeds.join("drmemtrace"), fuzz::source) > 0);
}

#[test]
#[should_panic(expected = "this input does not hold")]
fn a_seed_that_fails_is_named() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/source");
    fuzz::each_file(seeds, |bytes| assert!(bytes.is_empty(), "not empty"));
}
