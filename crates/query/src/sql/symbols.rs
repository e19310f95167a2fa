//! Names of functions and lines of sources for addresses of code, out of the files that traces name.
//!
//! Files are opened when the first address in them is asked for, and each address is looked up once. A file that is not there any
//! more, or that says nothing, gives nothing; what is missing is noted once.

use quipu_model::{Module, Placed, Trace};
use quipu_symbols::functions::{Functions, loaded};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};

/// Addresses whose names are remembered; further ones are looked up each time.
const MAX_KNOWN: usize = 1 << 20;

/// A program or library that is named for traces that know none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The file.
    pub path: PathBuf,
    /// What was added to its addresses.
    pub base: u64,
}

/// What is known of an address.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    pub(super) symbol: Option<Arc<str>>,
    pub(super) source: Option<Arc<str>>,
}

/// The names of one trace's addresses.
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

/// Files that were looked for and are not there.
#[derive(Debug, Default)]
pub(super) struct Missing(Mutex<(HashSet<PathBuf>, Vec<PathBuf>)>);

impl Missing {
    fn add(&self, path: &Path) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.0.insert(path.to_owned()) {
            files.1.push(path.to_owned());
        }
    }

    /// Those that were not told yet.
    pub(super) fn take(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).1)
    }
}

/// Where a file, or a part of one, lay.
struct File {
    addresses: Range<u64>,
    placed: Placed,
    path: PathBuf,
    read: Arc<OnceLock<Read>>,
}

/// A file that was opened.
#[derive(Default)]
struct Read {
    functions: Functions,
    lowest: u64,
}

impl Names {
    pub(super) fn new(trace: Arc<dyn Trace>, binaries: Arc<[Binary]>, missing: Arc<Missing>) -> Names {
        Names { trace, binaries, files: OnceLock::new(), known: RwLock::default(), missing }
    }

    /// Looks up the addresses of a batch that are not known yet, and returns those that are more than can be remembered.
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
        // Two threads may look up one address; both find the same.
        for (address, named) in &mut new {
            *named = self.look_up(*address);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let n_free = MAX_KNOWN.saturating_sub(known.len());
        known.extend(new.extract_if(|_, _| true).take(n_free));
        new
    }

    /// What was looked up so far. The lock is taken once for many rows.
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

    /// What the trace knows, then what was named for it.
    fn files(&self) -> Vec<File> {
        let mut opened: HashMap<PathBuf, Arc<OnceLock<Read>>> = HashMap::new();
        let mut file = |addresses: Range<u64>, placed, path: PathBuf| {
            let read = opened.entry(path.clone()).or_default().clone();
            File { addresses, placed, path, read }
        };
        let mut all: Vec<File> = Vec::new();
        for Module { addresses, placed, path, .. } in self.trace.modules() {
            // What has no path, such as `[vdso]`, is no file.
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
