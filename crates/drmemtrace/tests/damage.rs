//! Every fixture, cut and changed in many ways: no panic, no hang, no unbounded memory, and the records before the damage
//! are kept.
//!
//! Small fixtures are tested with all cases in each run. Large ones get a sample of 32 cases, which `QUIPU_DAMAGE=full`
//! extends to 160, so that each test ends within ten minutes.

// The helpers of a test may panic as the test may.
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::listing::{named_like_a_trace, starts_like_a_trace};
use quipu_source::Source;
use quipu_testkit::damage::{self, Damage};
use quipu_testkit::fixtures;
use std::path::{Path, PathBuf};

/// Fixtures whose records are at most this many bytes when inflated are tested with all cases in each run.
const SMALL_BYTES: usize = 110_000;

fn traces() -> PathBuf {
    fixtures("drmemtrace")
}

/// All trace files under `folder`.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "golden" && !name.ends_with(".raw") {
                files(&path, found);
            }
        } else if !name.contains("schedule")
            && (named_like_a_trace(&name)
                || Source::open(&path).unwrap().head(16).is_ok_and(|head| starts_like_a_trace(&head)))
        {
            found.push(path);
        }
    }
}

/// Damages the files whose position in the list modulo `n_parts` is `part`, as tests run in parallel.
fn survive(part: usize, n_parts: usize) {
    let is_full = std::env::var("QUIPU_DAMAGE").is_ok_and(|value| value == "full");
    let mut found = Vec::new();
    files(&traces(), &mut found);
    assert!(found.len() > 30, "only {} fixtures", found.len());
    for path in found.iter().skip(part).step_by(n_parts) {
        let bytes = std::fs::read(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let inflated = Source::open(path).unwrap().head(SMALL_BYTES + 1).unwrap().len();
        let (truncations, changes) = if is_full { (40, 120) } else { (8, 24) };
        let damage = if inflated <= SMALL_BYTES {
            Damage::default()
        } else {
            Damage { truncations, changes, ..Damage::default() }
        };
        let survived = damage::format(&DRMEMTRACE, &name, &bytes, &damage);
        assert_eq!(survived.cases, damage.truncations + damage.changes, "{name}");
        assert!(survived.complained + survived.refused > damage.truncations / 2, "{name}: {survived:?}");
    }
}

#[test]
fn the_first_half_of_the_fixtures_survives_any_damage() {
    survive(0, 2);
}

#[test]
fn the_second_half_of_the_fixtures_survives_any_damage() {
    survive(1, 2);
}
