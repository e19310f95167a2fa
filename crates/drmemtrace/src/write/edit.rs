//! What an edit decides: of each entry, whether it stays, and as what.

use crate::record::{Entry, FileType};

/// What stands before an entry in the file that is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The thread.
    pub tid: u64,
    /// Its process.
    pub pid: u64,
    /// Records that tools see, before this entry.
    pub records: u64,
    /// Instructions that tools see, before this entry.
    pub instrs: u64,
    /// The latest clock reading before this entry.
    pub timestamp: Option<u64>,
    /// The latest processor before this entry.
    pub cpu: Option<u64>,
}

/// An edit at work on one file. Entries come in the file's order; what only the source's chunks needed is gone.
///
/// Encodings and branch targets belong to the instruction after them: they go where it goes, and an encoding that is
/// dropped with its instruction comes back before the next one at that address (spec 17).
pub trait EntryEdit: Send {
    /// True for an edit that changes nothing: no option asks for it.
    const IS_NONE: bool = false;

    /// Judges an entry, which may be changed: true if it stays. What is put into `before` is written in front of it,
    /// whether it stays or not.
    fn judge(&mut self, entry: &mut Entry, at: &At, before: &mut Vec<Entry>) -> bool;

    /// True if [`EntryEdit::recode`] does anything.
    fn recodes(&self) -> bool {
        false
    }

    /// Changes the encoding of an instruction, given as the entries that hold its pieces.
    fn recode(&mut self, _instr: &Entry, _pieces: &mut Vec<Entry>) {}

    /// False if branch targets are to be left out.
    fn keeps_targets(&self) -> bool {
        true
    }

    /// The file-type bits of what is written.
    fn filetype(&self, filetype: FileType) -> FileType {
        filetype
    }

    /// True to lay entries out as DynamoRIO's filter does: full chunks also end before clock readings, exits and
    /// footers, and branch targets stand before the encodings.
    fn has_original_layout(&self) -> bool {
        false
    }

    /// Why the edit cannot be gone on with, once that turns out.
    fn fault(&mut self) -> Option<quipu_model::Error> {
        None
    }

    /// The name of the file that is written, which is called `name` if nothing speaks against it.
    fn file_name(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Records that were left out when they came and were put before another since; asked for once.
    fn returned(&mut self) -> u64 {
        0
    }

    /// What is left to be written before the end of the file, in front of its last footer.
    fn end(&mut self, _at: &At, _before: &mut Vec<Entry>) {}
}

/// The edit that changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEdit;

impl EntryEdit for NoEdit {
    const IS_NONE: bool = true;

    fn judge(&mut self, _: &mut Entry, _: &At, _: &mut Vec<Entry>) -> bool {
        true
    }
}
