//! What addresses mean: which object lies where, and what it is made of.
//!
//! | file | what |
//! |---|---|
//! | [`attribute`] | which type, element and field an access hits |
//! | [`dwarf`] | what a program's debug information says: types, variables, functions, lines |
//! | [`extract`] | files of types from debug information |
//! | [`functions`] | which function has the code at an address |
//! | [`layout`] | the leaves of a type, byte by byte |
//! | [`regions`] | which of the live regions of memory an address lies in |
//! | [`types_file`] | types as Cacheray's extractor writes them, and how names are looked up in them |
//! | [`remap`] | files that say where members lie in another layout |
//!
//! This crate knows no trace.

pub mod attribute;
pub mod dwarf;
pub mod extract;
pub mod functions;
pub mod layout;
pub mod regions;
pub mod remap;
pub mod symbol_table;
pub mod types_file;

use std::fmt;

/// What is wrong with a file of types or of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The line, counted from 1, if it is known.
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
