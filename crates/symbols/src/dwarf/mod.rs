//! Reads a program's debug information: its types, variables, functions and lines.
//!
//! | file | what |
//! |---|---|
//! | `sections` | files and sections: finding, unpacking, relocating |
//! | `units` | units of all files as one list; references between entries |
//! | `forms` | values of attributes as bytes |
//! | `walk` | the one walk over all entries |
//! | `index` | names of types, and the look-up of a name |
//! | `names` | names as text |
//! | [`types`] | a type as data |
//! | `read` | entries as types |
//! | `spell` | the text of a type |
//! | `virtuals` | offsets of virtual base classes |
//! | `align` | alignment of types |
//! | [`objects`] | variables, functions, lines |
//! | [`inlined`] | inlined functions |
//! | [`frames`] | the functions that contain an address, with all their declarations |
//!
//! Supports DWARF 4 and 5 in ELF files (2 and 3 as far as they look alike), with split units, packages of them, type units,
//! compressed sections, and separate debug files. Nothing of the program itself is read. Work is done on demand: opening
//! reads sections and headers of units, the first look-up of a name walks all entries once, and a type is read when it is
//! requested.
//!
//! Everything in the file is hostile: no look-up panics, and data that cannot be read is an error, or is missing.

mod align;
mod forms;
pub mod frames;
pub(crate) mod index;
pub mod inlined;
mod names;
pub mod objects;
pub(crate) mod read;
mod sections;
mod spell;
pub mod types;
pub(crate) mod units;
mod virtuals;
mod walk;

#[cfg(test)]
mod tests;

use index::Index;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
pub use types::{Type, TypeId};
use units::{Unit, Units, View};

/// Maximum length of a chain of references between entries.
pub(crate) const MAX_DEPTH: usize = 64;

/// The message for a file without debug information.
const ABSENT: &str = "the file has no debug information";

/// The debug information of a program.
pub struct DebugInfo {
    units: Units,
    index: OnceLock<Index>,
    spelling: OnceLock<names::Spelling>,
    objects: OnceLock<objects::Objects>,
    variables: OnceLock<objects::Objects>,
    /// Aliases of structures that have no name of their own.
    aliases: OnceLock<HashMap<TypeId, String>>,
}

impl DebugInfo {
    /// Opens a program, a library, an object or a separate debug file.
    ///
    /// Split units are looked for in `FILE.dwp`, where they were compiled, and beside the file; for a program without debug
    /// information, its separate debug file is used, if that is where debuggers look.
    ///
    /// # Errors
    /// If the file cannot be read, is not an ELF file, or has no debug information that can be found.
    pub fn open(path: &Path) -> Result<DebugInfo, DebugError> {
        let mut main = sections::load_path(path, sections::Flavour::Whole)?;
        if !main.has_units() {
            let missing = match &main.link {
                Some((link, _)) => format!("{ABSENT}, and `{link}` is not found"),
                None => ABSENT.to_owned(),
            };
            main = sections::separate(&main).ok_or_else(|| DebugError::new(missing).in_file(path))?;
        }
        DebugInfo::new(main, path.parent().unwrap_or(Path::new(""))).map_err(|error| error.in_file(path))
    }

    /// The same for bytes in memory; split units are missing.
    ///
    /// # Errors
    /// As [`DebugInfo::open`].
    pub fn parse(bytes: &[u8]) -> Result<DebugInfo, DebugError> {
        let main = sections::load_bytes(bytes)?;
        if !main.has_units() {
            return Err(DebugError::new(ABSENT));
        }
        DebugInfo::new(main, Path::new(""))
    }

    fn new(main: sections::Loaded, folder: &Path) -> Result<DebugInfo, DebugError> {
        let units = Units::new(main, folder)?;
        let (objects, variables) = (OnceLock::new(), OnceLock::new());
        let (index, spelling, aliases) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(DebugInfo { units, index, spelling, objects, variables, aliases })
    }

    /// Names of split units that were not found.
    pub fn missing(&self) -> &[String] {
        &self.units.missing
    }

    /// Number of units.
    pub fn n_units(&self) -> usize {
        self.units.list.len()
    }

    pub(crate) fn view(&self) -> View<'_> {
        View::new(&self.units)
    }

    pub(crate) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(&self.units))
    }

    /// The name to show for a type: for one without a name, as in `typedef struct {…} T`, its alias.
    pub fn shown_name(&self, ty: &Type) -> String {
        let alias = || self.aliases.get_or_init(|| index::aliases(self)).get(&ty.id).cloned();
        let is_unnamed = ty.name.is_none() && ty.is_record();
        is_unnamed.then(alias).flatten().unwrap_or_else(|| ty.path.clone())
    }

    pub(crate) fn unit(&self, id: TypeId) -> Option<&Unit> {
        self.units.list.get(usize::try_from(id.unit).ok()?)
    }

    /// The offset of a type's entry in its section, by which other tools identify it.
    pub fn section_offset(&self, id: TypeId) -> u64 {
        self.unit(id).map_or(0, |unit| unit.offset + u64::from(id.offset))
    }
}

impl fmt::Debug for DebugInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DebugInfo").field("n_units", &self.n_units()).finish_non_exhaustive()
    }
}

/// The reason why debug information could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugError {
    /// The file.
    pub file: Option<PathBuf>,
    /// The section.
    pub section: Option<String>,
    /// The offset: in the uncompressed section if that is known, else in the file.
    pub offset: Option<u64>,
    /// What was expected and what was found.
    pub what: String,
}

impl DebugError {
    #[cold]
    pub(crate) fn new(what: impl Into<String>) -> DebugError {
        DebugError { file: None, section: None, offset: None, what: what.into() }
    }

    /// True if the file can be read but has no debug information.
    pub fn is_absent(&self) -> bool {
        self.what.starts_with(ABSENT)
    }

    pub(crate) fn in_file(mut self, path: &Path) -> DebugError {
        self.file.get_or_insert_with(|| path.to_owned());
        self
    }

    pub(crate) fn in_section(mut self, name: &str) -> DebugError {
        self.section.get_or_insert_with(|| name.to_owned());
        self
    }

    pub(crate) fn at(mut self, offset: u64) -> DebugError {
        self.offset.get_or_insert(offset);
        self
    }
}

impl fmt::Display for DebugError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(section) = &self.section {
            write!(f, "section `{section}`: ")?;
        }
        if let Some(offset) = self.offset {
            write!(f, "offset {offset:#x}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for DebugError {}
