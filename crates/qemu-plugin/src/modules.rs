//! Reports the file that the code of a block is mapped from, once for each mapping, before its first block.
//!
//! Used only if the recorder wants functions by name. Runs while the emulator translates, which it does for one block
//! at a time.

use crate::guest;
use quipu_ring::Producer;
use quipu_ring::qemu::{self, Kind};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of mappings that are remembered; beyond that, mappings are looked up again.
const MOST_KNOWN: usize = 256;

/// Guest address ranges of the mappings that were reported or have no file.
static KNOWN: Mutex<Vec<Range<u64>>> = Mutex::new(Vec::new());
/// Set when memory was unmapped, so that `KNOWN` may be outdated.
static IS_OLD: AtomicBool = AtomicBool::new(false);

/// Called when the program unmapped memory.
pub(crate) fn forget() {
    IS_OLD.store(true, Ordering::Relaxed);
}

/// Reports the mapping at a guest address.
pub(crate) fn tell(producer: &mut Producer<'_>, pc: u64) {
    // No other thread holds the lock: the emulator translates one block at a time.
    let Ok(mut known) = KNOWN.try_lock() else { return };
    if IS_OLD.swap(false, Ordering::Relaxed) || known.len() >= MOST_KNOWN {
        known.clear();
    }
    if known.iter().any(|range| range.contains(&pc)) {
        return;
    }
    let Some(base) = guest::base() else { return };
    let mut maps = String::new();
    let is_read = File::open("/proc/self/maps").is_ok_and(|mut file| file.read_to_string(&mut maps).is_ok());
    let host = pc.wrapping_add(base);
    let Some((range, offset, path)) = is_read.then(|| find(&maps, host)).flatten() else { return };
    let range = range.start.wrapping_sub(base)..range.end.wrapping_sub(base);
    if path.starts_with('/') {
        let mut words = vec![0, range.start, range.end, offset, path.len() as u64];
        words.extend(path.as_bytes().chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        }));
        words[0] = qemu::head(Kind::Module, words.len() - 1, 0);
        producer.push_group(&words);
    }
    known.push(range);
}

/// The mapping that contains a host address: its address range, its offset in the file, and the path of the file.
fn find(maps: &str, host: u64) -> Option<(Range<u64>, u64, &str)> {
    maps.lines().find_map(|line| {
        let mut parts = line.splitn(6, ' ');
        let (from, to) = parts.next()?.split_once('-')?;
        let range = u64::from_str_radix(from, 16).ok()?..u64::from_str_radix(to, 16).ok()?;
        let offset = u64::from_str_radix(parts.nth(1)?, 16).ok()?;
        range.contains(&host).then_some((range, offset, parts.nth(2).unwrap_or_default().trim_start()))
    })
}
