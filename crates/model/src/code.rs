//! The code table: each distinct instruction of a shard once, so that rows carry an index instead of bytes.
//!
//! A trace of a billion instructions has tens of thousands of distinct ones. A reader adds an instruction when it first sees
//! these bytes at an address (again when the bytes change), and puts its index into each row.

mod shared;

pub use shared::SharedCodes;

use std::sync::Arc;

/// The longest encoding, in bytes: REGDEPS needs 16, x86 15.
pub const MAX_CODE_BYTES: usize = 16;

/// One distinct instruction: an address and the bytes found there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Code {
    /// Address of the instruction.
    pub pc: u64,
    /// Length of the instruction as fetched, in bytes; differs from the encoding's length only in REGDEPS traces.
    pub size: u16,
    len: u8,
    bytes: [u8; MAX_CODE_BYTES],
}

impl Code {
    /// An instruction at `pc` of `size` fetched bytes; bytes after the first [`MAX_CODE_BYTES`] are dropped.
    pub fn new(pc: u64, size: u16, bytes: &[u8]) -> Code {
        let len = bytes.len().min(MAX_CODE_BYTES);
        let mut code = Code { pc, size, len: len as u8, bytes: [0; MAX_CODE_BYTES] }; // At most 16.
        code.bytes[..len].copy_from_slice(&bytes[..len]);
        code
    }

    /// The encoding; empty if the trace does not have it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The distinct instructions of one read in order of first appearance, or those of many reads that share a table.
/// Append-only.
#[derive(Clone, Debug, Default)]
pub struct CodeTable {
    codes: Vec<Code>,
    /// The table that holds the instructions instead of `codes`, if many reads share one.
    shared: Option<Arc<SharedCodes>>,
}

impl CodeTable {
    /// An empty table for one read; with `shared`, instructions go there.
    pub fn sharing(shared: Option<Arc<SharedCodes>>) -> CodeTable {
        CodeTable { codes: Vec::new(), shared }
    }

    /// The table that this read shares with others, if it does. All reads that share it use the same indexes.
    pub fn shared(&self) -> Option<&Arc<SharedCodes>> {
        self.shared.as_ref()
    }

    /// The number that identifies the index space of a batch of `shard`: 0 for all shards that share a table, otherwise the
    /// shard itself.
    pub fn home(&self, shard: u32) -> u32 {
        if self.shared.is_some() { 0 } else { shard }
    }

    /// Adds an instruction and returns its index. The caller must know that it is new.
    pub fn push(&mut self, code: Code) -> u32 {
        if let Some(shared) = &self.shared {
            return shared.learn(code).0;
        }
        let index = self.codes.len() as u32; // Readers stop long before 2^32 distinct instructions.
        self.codes.push(code);
        index
    }

    /// The instruction at `index`.
    // PERF: called for each instruction that is printed.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Code> {
        match &self.shared {
            None => self.codes.get(index as usize),
            Some(shared) => shared.get(index),
        }
    }

    /// Number of distinct instructions so far.
    pub fn len(&self) -> usize {
        self.shared.as_ref().map_or(self.codes.len(), |shared| shared.len())
    }

    /// True if there are no instructions yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The instructions that this read does not share, in order of first appearance.
    pub fn as_slice(&self) -> &[Code] {
        &self.codes
    }
}
