//! The files that code was mapped from, for `modules.log`: the list, in the form of DynamoRIO's tracer, in which addresses of a
//! trace are looked up.
//!
//! One row stands for one file, from its lowest loaded byte to the end of its code. Code without a file, such as the kernel's
//! `[vdso]` or the output of a compiler at run time, is in no row.

use object::{Object, ObjectSegment, ReadCache};
use quipu_model::Result;
use quipu_model::fresh::{Folder, cannot};
use quipu_symbols::functions::{build_id, loaded};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Name of the list.
const NAME: &str = "modules.log";
/// Mappings begin at pages of this many bytes, and of multiples of it.
const PAGE_BYTES: u64 = 4096;

/// A mapping of code that the plugin reported with [`Module`](quipu_ring::qemu::Kind).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mapping {
    /// The first address, and the end.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Offset of its first byte in the file.
    pub(crate) offset: u64,
    pub(crate) path: PathBuf,
}

impl Mapping {
    /// Decodes the words after the first of a group; `None` if some are missing.
    pub(crate) fn of(words: &[u64]) -> Option<Mapping> {
        let [start, end, offset, n_bytes, path @ ..] = words else { return None };
        let bytes: Vec<u8> = path.iter().flat_map(|word| word.to_le_bytes()).collect();
        let path = bytes.get(..usize::try_from(*n_bytes).ok()?)?.to_vec();
        Some(Mapping { start: *start, end: *end, offset: *offset, path: OsString::from_vec(path).into() })
    }

    /// Address of the lowest loaded byte of the file; `None` if it is not a program or library with this code.
    pub(crate) fn base(&self) -> Option<u64> {
        let cache = ReadCache::new(File::open(&self.path).ok()?);
        let object = object::File::parse(&cache).ok()?;
        let in_file =
            object.segments().filter(|segment| segment.permissions().executable()).find_map(|code| {
                let (offset, len) = code.file_range();
                let begin = offset & !(PAGE_BYTES - 1);
                // The emulator maps code like data to be read, so the system may join it with segments before and after it.
                let mapped_end = self.offset.saturating_add(self.end.saturating_sub(self.start));
                let is_of_it = begin < mapped_end && self.offset < offset.saturating_add(len);
                is_of_it.then(|| code.address().wrapping_sub(offset).wrapping_add(self.offset))
            })?;
        Some(self.start.wrapping_sub(in_file).wrapping_add(loaded(&self.path)?.start))
    }
}

/// The files of a program's code.
#[derive(Debug, Default)]
pub(crate) struct Modules(Vec<Module>);

/// A file in memory.
#[derive(Debug, PartialEq, Eq)]
struct Module {
    /// Address of its lowest loaded byte, and the end of its code.
    start: u64,
    end: u64,
    path: PathBuf,
}

impl Modules {
    /// Adds a mapping of a file whose lowest loaded byte is at `base`.
    pub(crate) fn add(&mut self, base: u64, mapping: &Mapping) {
        match self.0.iter_mut().find(|known| known.start == base && known.path == mapping.path) {
            Some(known) => known.end = known.end.max(mapping.end),
            None => self.0.push(Module { start: base, end: mapping.end, path: mapping.path.clone() }),
        }
    }

    /// Writes the list of the program called `name` into a folder, which it creates.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub(crate) fn write(&self, name: &str, folder: &Folder) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|cause| cannot("create", folder, cause))?;
        let path = folder.join(NAME);
        let mut file = folder.create(&path)?;
        let written = file.write_all(self.text(name).as_bytes()).and_then(|()| file.flush());
        written.map_err(|cause| cannot("write", &path, cause))
    }

    /// The rows of the list. The program comes first, as in DynamoRIO's lists, although its loader is executed before it.
    fn text(&self, name: &str) -> String {
        let mut rows: Vec<&Module> = self.0.iter().collect();
        rows.sort_by_key(|module| module.path.file_name() != Some(OsStr::new(name)));
        let mut text = format!(
            "Module Table: version 4, count {}\nColumns: id, containing_id, start, end, entry, offset, path\n",
            rows.len()
        );
        for (id, Module { start, end, path }) in rows.iter().copied().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{id:>3}, {id:>3}, {start:#018x}, {end:#018x}, 0x0000000000000000, 0000000000000000, v#1,0, {}",
                path.display()
            );
        }
        // Other readers of such lists end after the rows.
        for (id, module) in rows.iter().enumerate() {
            if let Some(build) = build_id(&module.path) {
                let digits: String = build.iter().map(|byte| format!("{byte:02x}")).collect();
                let _ = writeln!(text, "build-id {id} {digits}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_first_row_and_files_have_one_row_each() {
        let mapping = |start: u64, path: &str| {
            let words = [start, start + 0x1000, 0x1000, path.len() as u64];
            let bytes = path.as_bytes().chunks(8).map(|bytes| {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            });
            Mapping::of(&words.into_iter().chain(bytes).collect::<Vec<_>>()).unwrap()
        };
        let mut modules = Modules::default();
        modules.add(0x7000, &mapping(0x8000, "/lib/ld.so"));
        modules.add(0x1000, &mapping(0x2000, "/bin/program"));
        modules.add(0x1000, &mapping(0x4000, "/bin/program"));
        let zeros = "0x0000000000000000, 0000000000000000, v#1,0";
        assert_eq!(
            modules.text("program").lines().skip(2).collect::<Vec<_>>(),
            [
                format!("  0,   0, 0x0000000000001000, 0x0000000000005000, {zeros}, /bin/program"),
                format!("  1,   1, 0x0000000000007000, 0x0000000000009000, {zeros}, /lib/ld.so"),
            ]
        );
        assert_eq!(Mapping::of(&[1, 2, 3]), None);
    }

    #[test]
    fn a_file_begins_before_its_code() {
        let own = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let of_own = |line: &&str| line.ends_with(own.to_str().unwrap());
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let first = maps.lines().find(of_own).and_then(|line| line.split_once('-')).unwrap().0;
        let code = maps.lines().filter(of_own).find(|line| line.contains(" r-xp ")).unwrap();
        let (range, rest) = code.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let offset = number(rest.split(' ').nth(1).unwrap());
        let (first, start, end) = (number(first), number(start), number(end));
        let mapping = Mapping { start, end, offset, path: own.clone() };
        assert_eq!(mapping.base(), Some(first));
        // Joined with the data before its code.
        let joined = Mapping { start: start - PAGE_BYTES, offset: offset - PAGE_BYTES, ..mapping };
        assert_eq!(joined.base(), Some(first));
    }

    #[test]
    fn a_mapping_without_code_of_its_file_has_no_base() {
        let path = std::env::current_exe().unwrap();
        let offset = std::fs::metadata(&path).unwrap().len() + PAGE_BYTES;
        let mapping = Mapping { start: 0x7000, end: 0x8000, offset, path };
        assert_eq!(mapping.base(), None);
    }
}
