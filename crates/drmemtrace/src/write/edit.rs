//! Edits: for each entry, whether it is kept, and in what form.

use crate::record::{Entry, FileType};

/// State of the source file before an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Current thread.
    pub tid: u64,
    /// Process of the current thread.
    pub pid: u64,
    /// Visible records before this entry.
    pub records: u64,
    /// Visible instructions before this entry.
    pub instrs: u64,
    /// The latest clock reading before this entry.
    pub timestamp: Option<u64>,
    /// The latest processor before this entry.
    pub cpu: Option<u64>,
}

/// The edit of one file. Entries come in the file's order, without those that only the source's chunks needed.
///
/// Encodings and branch targets belong to the instruction after them and follow it: an encoding that is dropped with its
/// instruction is written before the next one at that address (spec 17).
pub trait EntryEdit: Send {
    /// True for an edit that changes nothing, because no option requests it.
    const IS_NONE: bool = false;

    /// Decides about an entry, which may be changed: true if it is kept. Entries added to `before` are written in front of
    /// it, whether it is kept or not.
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

    /// The file-type bits of the output.
    fn filetype(&self, filetype: FileType) -> FileType {
        filetype
    }

    /// True to lay entries out as DynamoRIO's filter does: full chunks also end before clock readings, exits and
    /// footers, and branch targets stand before the encodings.
    fn has_original_layout(&self) -> bool {
        false
    }

    /// The reason why the edit cannot continue, once there is one.
    fn fault(&mut self) -> Option<quipu_model::Error> {
        None
    }

    /// The name of the output file, which is `name` by default.
    fn file_name(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Number of records that were left out at first and were put before another entry since; read once.
    fn returned(&mut self) -> u64 {
        0
    }

    /// Adds the entries that have to be written before the end of the file, in front of its last footer.
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
