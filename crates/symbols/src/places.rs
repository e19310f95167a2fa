//! Files of places: the code that allocated each region of a trace, beside the trace.
//!
//! ```text
//! quipu places 1 1480
//! make list.c:12 < main list.c:40
//! grow vec.c:7
//!
//! 0 0
//! 3 1
//! ```
//!
//! The first line ends with the size of the trace's file in bytes, which tells whether it is still that trace. Then come the
//! places, numbered from 0, up to an empty line. Each further line is a region: the number of records of the trace before the
//! one that adds it, and its place.

use crate::FileError;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Beginning of the first line.
const HEAD: &str = "quipu places 1 ";
/// Most bytes of a line.
const MAX_LINE_BYTES: u64 = 1 << 16;
/// Bytes that suffice for the first line.
const MAX_HEAD_BYTES: u64 = 64;
/// Most places; regions of further ones have none.
pub const MAX_NAMES: usize = 1 << 16;

/// Places where regions of a trace were allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Size of the trace's file in bytes.
    trace_bytes: u64,
    names: Vec<String>,
    /// For each region, the number of records before it, and its place. Ascending.
    regions: Vec<(u64, u32)>,
}

impl Places {
    /// Path of the file for a trace: `NAME.places`.
    #[must_use]
    pub fn path_beside(trace: &Path) -> PathBuf {
        let mut path = OsString::from(trace);
        path.push(".places");
        path.into()
    }

    /// The size of the trace that a file of places is of; `None` if the file is another.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn trace_bytes_in(path: &Path) -> io::Result<Option<u64>> {
        let mut line = Vec::new();
        BufReader::new(File::open(path)?.take(MAX_HEAD_BYTES)).read_until(b'\n', &mut line)?;
        Ok(line.strip_suffix(b"\n").and_then(|line| trace_bytes(std::str::from_utf8(line).ok()?)))
    }

    /// States the size of the trace's file in bytes.
    pub fn set_trace_bytes(&mut self, n_bytes: u64) {
        self.trace_bytes = n_bytes;
    }

    /// Adds a place and returns its number; `None` if there are too many.
    pub fn add_name(&mut self, name: &str) -> Option<u32> {
        if self.names.len() >= MAX_NAMES {
            return None;
        }
        // A name is one line, and not an empty one.
        let name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        self.names.push(if name.is_empty() { "?".to_owned() } else { name });
        u32::try_from(self.names.len() - 1).ok()
    }

    /// Adds a region after all others: the number of records before it, and its place.
    pub fn add_region(&mut self, record: u64, place: u32) {
        self.regions.push((record, place));
    }

    /// Whether there are no regions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The place of the region that is added after `record` records.
    #[must_use]
    pub fn of_region(&self, record: u64) -> Option<u32> {
        let at = self.regions.binary_search_by_key(&record, |(record, _)| *record).ok()?;
        self.regions.get(at).map(|(_, place)| *place)
    }

    /// The name of a place.
    #[must_use]
    pub fn name(&self, place: u32) -> Option<&str> {
        self.names.get(usize::try_from(place).ok()?).map(String::as_str)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{HEAD}{}", self.trace_bytes)?;
        for name in &self.names {
            writeln!(out, "{name}")?;
        }
        writeln!(out)?;
        for (record, place) in &self.regions {
            writeln!(out, "{record} {place}")?;
        }
        Ok(())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it is not one of places, or a line of it makes no sense.
    pub fn read(mut from: impl BufRead) -> Result<Places, FileError> {
        let wrong = |line: usize, what: &str| FileError::new(Some(line), what);
        let (mut places, mut has_names) = (Places::default(), false);
        let mut bytes = Vec::new();
        for number in 1.. {
            bytes.clear();
            let n = from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
            match n.map_err(|cause| FileError::new(Some(number), cause.to_string()))? {
                0 => break,
                n if n as u64 == MAX_LINE_BYTES => return Err(wrong(number, "this is no file of places")),
                _ => {}
            }
            let line = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes));
            match (number, has_names) {
                (1, _) => {
                    let bytes = trace_bytes(&line);
                    places.trace_bytes = bytes.ok_or_else(|| wrong(1, "this is no file of places"))?;
                }
                (_, false) if line.is_empty() => has_names = true,
                (_, false) => {
                    places.add_name(&line).ok_or_else(|| wrong(number, "too many places"))?;
                }
                (_, true) => {
                    let region = region(&line).filter(|(_, place)| places.name(*place).is_some());
                    let region = region.ok_or_else(|| wrong(number, "expected a record and a place"))?;
                    if places.regions.last().is_some_and(|last| last.0 >= region.0) {
                        return Err(wrong(number, "records do not ascend"));
                    }
                    places.regions.push(region);
                }
            }
        }
        match has_names {
            true => Ok(places),
            false => Err(FileError::new(None, "the file ends before its places do")),
        }
    }
}

/// The number at the end of the first line.
fn trace_bytes(line: &str) -> Option<u64> {
    line.strip_prefix(HEAD)?.parse().ok()
}

fn region(line: &str) -> Option<(u64, u32)> {
    let (record, place) = line.split_once(' ')?;
    Some((record.parse().ok()?, place.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut places = Places::default();
        let [a, b] = ["make a.c:1 < main a.c:9", "odd\nname"].map(|name| places.add_name(name).unwrap());
        for (record, place) in [(0, a), (7, b), (8, a)] {
            places.add_region(record, place);
        }
        places.set_trace_bytes(1480);
        let mut bytes = Vec::new();
        places.write(&mut bytes).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        for (text, found) in
            [(&bytes[..], Some(1480)), (&b"quipu places 11 9\n"[..], None), (&b"quipu places 1 9"[..], None)]
        {
            std::fs::write(&file, text).unwrap();
            assert_eq!(Places::trace_bytes_in(&file).unwrap(), found);
        }
        let read = Places::read(&bytes[..]).unwrap();
        assert_eq!(read, places);
        let name = |record| read.name(read.of_region(record)?);
        assert_eq!(name(0), Some("make a.c:1 < main a.c:9"));
        assert_eq!((name(7), name(8), name(9)), (Some("odd?name"), name(0), None));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, line) in [
            ("", None),
            ("something", Some(1)),
            ("quipu places 1 9\na\n\n0 0\n0 0\n", Some(5)),
            ("quipu places 1 9\na\n\n0 1\n", Some(4)),
            ("quipu places 1 9\na\n\nx 0\n", Some(4)),
        ] {
            assert_eq!(Places::read(text.as_bytes()).err().and_then(|error| error.line), line, "{text:?}");
        }
    }

    #[test]
    fn the_file_is_beside_the_trace() {
        assert_eq!(Places::path_beside(Path::new("a/b.trace")), Path::new("a/b.trace.places"));
    }
}
