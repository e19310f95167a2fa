//! Resolves addresses: which object is at an address, and how that object is structured.
//!
//! | file | what |
//! |---|---|
//! | [`attribute`] | the type, element and field that an access hits |
//! | [`dwarf`] | a program's debug information: types, variables, functions, lines |
//! | [`extract`] | files of types from debug information |
//! | [`functions`] | the function that contains an address |
//! | [`layout`] | the leaves of a type, byte by byte |
//! | [`places`] | the code that allocated each region of a trace |
//! | [`regions`] | the live region of memory that contains an address |
//! | [`types_file`] | types in the form of Cacheray's extractor, and the look-up of names in them |
//! | [`remap`] | files with the offsets of members in another layout |
//!
//! This crate does not depend on traces.

pub mod attribute;
pub mod dwarf;
pub mod extract;
pub mod functions;
pub mod layout;
pub mod places;
pub mod regions;
pub mod remap;
pub mod symbol_table;
pub mod types_file;

use std::fmt;

/// An error in a file of types or of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The line, counted from 1, if known.
    pub line: Option<usize>,
    /// What was expected and what was found.
    pub what: String,
}

impl FileError {
    pub(crate) fn new(line: Option<usize>, what: impl Into<String>) -> FileError {
        FileError { line, what: what.into() }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for FileError {}
