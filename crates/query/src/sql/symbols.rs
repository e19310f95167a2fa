//! Looks up the function and source line of addresses of code, in the files that traces name.
//!
//! A file is opened when the first address in it is looked up, and each address is looked up once. A file that does not exist
//! or has no symbols yields no names; missing files are recorded once.

use quipu_model::{Module, Placed, Trace};
use quipu_symbols::functions::{Functions, loaded};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};

/// Maximum number of addresses whose names are remembered; further ones are looked up each time.
const MAX_KNOWN: usize = 1 << 20;

/// A program or library that the user names, for traces that name none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Path of the file.
    pub path: PathBuf,
    /// Offset from addresses in the file to addresses in memory.
    pub base: u64,
}

/// Function and source line of an address.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    pub(super) symbol: Option<Arc<str>>,
    pub(super) source: Option<Arc<str>>,
}

/// Names for the addresses of one trace.
pub(super) struct Names {
    trace: Arc<dyn Trace>,
    binaries: Arc<[Binary]>,
    files: OnceLock<Vec<File>>,
    known: RwLock<HashMap<u64, Named>>,
    missing: Arc<Missing>,
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

/// Files that were needed and do not exist: all of them, and those not reported yet.
#[derive(Debug, Default)]
pub(super) struct Missing(Mutex<(HashSet<PathBuf>, Vec<PathBuf>)>);

impl Missing {
    fn add(&self, path: &Path) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.0.insert(path.to_owned()) {
            files.1.push(path.to_owned());
        }
    }

    /// Returns the files that were not reported yet.
    pub(super) fn take(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).1)
    }
}

/// A file, or a part of one, and its addresses in memory.
struct File {
    addresses: Range<u64>,
    placed: Placed,
    path: PathBuf,
    read: Arc<OnceLock<Read>>,
}

/// Symbols of a file that was opened, and its lowest address.
#[derive(Default)]
struct Read {
    functions: Functions,
    lowest: u64,
}

impl Names {
    pub(super) fn new(trace: Arc<dyn Trace>, binaries: Arc<[Binary]>, missing: Arc<Missing>) -> Names {
        Names { trace, binaries, files: OnceLock::new(), known: RwLock::default(), missing }
    }

    /// Looks up the addresses of a batch that are not known yet. Returns the names that could not be remembered for lack of
    /// room.
    pub(super) fn learn(&self, addresses: impl Iterator<Item = u64>) -> HashMap<u64, Named> {
        let known = self.known();
        let mut new: HashMap<u64, Named> = HashMap::new();
        for address in addresses.filter(|address| !known.contains_key(address)) {
            new.entry(address).or_default();
        }
        drop(known);
        if new.is_empty() {
            return new;
        }
        // Two threads may look up the same address; both get the same result.
        for (address, named) in &mut new {
            *named = self.look_up(*address);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let n_free = MAX_KNOWN.saturating_sub(known.len());
        known.extend(new.extract_if(|_, _| true).take(n_free));
        new
    }

    /// All names that are remembered. Hold the lock for many rows rather than for each one.
    pub(super) fn known(&self) -> RwLockReadGuard<'_, HashMap<u64, Named>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_up(&self, address: u64) -> Named {
        let files = self.files.get_or_init(|| self.files());
        let Some(file) = files.iter().find(|file| file.addresses.contains(&address)) else {
            return Named::default();
        };
        let read = file.read.get_or_init(|| self.read(&file.path));
        let in_file = match file.placed {
            Placed::By(added) => address.wrapping_sub(added),
            Placed::From(start) => address.wrapping_sub(start).wrapping_add(read.lowest),
        };
        Named {
            symbol: read.functions.at(in_file).map(|(_, name)| name.into()),
            source: read.functions.source_at(in_file).map(|place| place.to_string().into()),
        }
    }

    fn read(&self, path: &Path) -> Read {
        if !path.is_file() {
            self.missing.add(path);
            return Read::default();
        }
        Read { functions: Functions::open(path), lowest: loaded(path).map_or(0, |range| range.start) }
    }

    /// The files that the trace names, then those that the user names.
    fn files(&self) -> Vec<File> {
        let mut opened: HashMap<PathBuf, Arc<OnceLock<Read>>> = HashMap::new();
        let mut file = |addresses: Range<u64>, placed, path: PathBuf| {
            let read = opened.entry(path.clone()).or_default().clone();
            File { addresses, placed, path, read }
        };
        let mut all: Vec<File> = Vec::new();
        for Module { addresses, placed, path, .. } in self.trace.modules() {
            // A module without a path, such as `[vdso]`, is not a file.
            if path.is_absolute() {
                all.push(file(addresses, placed, path));
            }
        }
        for Binary { path, base } in self.binaries.iter() {
            let range = loaded(path).unwrap_or(0..0);
            let addresses = range.start.wrapping_add(*base)..range.end.wrapping_add(*base);
            all.push(file(addresses, Placed::By(*base), path.clone()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_testkit::MemoryTrace;

    #[test]
    fn what_is_more_than_can_be_remembered_is_looked_up_for_its_batch() {
        let trace: Arc<dyn Trace> = Arc::new(MemoryTrace::random(1, 1, 10));
        let names = Names::new(trace, Arc::new([]), Arc::default());
        let most = MAX_KNOWN as u64;
        assert!(names.learn(0..most - 5).is_empty());
        // Known ones take no room.
        assert!(names.learn(0..100).is_empty());
        let more = names.learn(most - 10..most + 20);
        assert_eq!((names.known().len(), more.len()), (MAX_KNOWN, 20));
        for address in most - 10..most + 20 {
            assert!(names.known().contains_key(&address) != more.contains_key(&address), "{address}");
        }
    }
}
