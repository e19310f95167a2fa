//! The footer of an Arrow file.

use super::guard::guarded;
use super::input::Input;
use super::{ARROW_MAGIC, limits, place};
use crate::fault::of_flatbuffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::root_as_footer;
use arrow_schema::SchemaRef;
use quipu_model::{Error, Result};
use std::sync::Arc;

/// Schema and messages that the footer of a file lists.
pub(super) struct Footer {
    pub(super) schema: SchemaRef,
    /// Offset of the footer.
    pub(super) at: u64,
    /// Messages in the order of the file, each once.
    pub(super) blocks: Vec<Block>,
    /// Number of entries that name a message a second time.
    pub(super) n_twice: usize,
}

/// A message that a footer lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) at: u64,
    /// Bytes before the body, according to the footer.
    head_len: u64,
    pub(super) body_len: u64,
    pub(super) is_dictionary: bool,
}

impl Block {
    /// Offset after this message, according to the footer.
    pub(super) fn end(&self) -> u64 {
        self.at.saturating_add(self.head_len).saturating_add(self.body_len)
    }
}

/// Bytes after the footer: its length and the magic bytes.
const TAIL_BYTES: u64 = 4 + ARROW_MAGIC.len() as u64;

impl Footer {
    /// # Errors
    /// `Truncated`, `Malformed` or `Limit` if the file has no readable footer.
    pub(super) fn of(input: &Arc<Input>) -> Result<Footer> {
        let size = input.size();
        let none = || Error::truncated("the file has no footer at its end").at(&place(size));
        let at = size.checked_sub(TAIL_BYTES).ok_or_else(none)?;
        let tail = input.read_some(at, TAIL_BYTES as usize)?;
        let (length, mark) = tail.split_at(4);
        if mark != ARROW_MAGIC {
            return Err(none());
        }
        let length = u64::from(u32::from_le_bytes(length.try_into().unwrap_or_default()));
        let Some(start) = at.checked_sub(length) else {
            return Err(Error::malformed("the footer is longer than the file").at(&place(at)));
        };
        if length > limits::MESSAGE_HEAD_BYTES {
            let error = Error::limit("bytes in a footer", length, limits::MESSAGE_HEAD_BYTES);
            return Err(error.at(&place(at)));
        }
        let bytes = input.read_some(start, length as usize)?;
        let footer = guarded(|| {
            let footer = root_as_footer(&bytes).map_err(|error| {
                Error::malformed(format!("the footer is damaged: {}", of_flatbuffer(&error)))
            })?;
            let schema = footer.schema().ok_or_else(|| Error::malformed("the footer has no schema"))?;
            let batches = footer.recordBatches().into_iter().flatten().map(|block| (block, false));
            let dictionaries = footer.dictionaries().into_iter().flatten().map(|block| (block, true));
            let block = |(block, is_dictionary): (&arrow_ipc::Block, bool)| {
                let (at, body_len) =
                    (u64::try_from(block.offset()).ok()?, u64::try_from(block.bodyLength()).ok()?);
                let head_len = u64::try_from(block.metaDataLength()).ok()?;
                (at < size).then_some(Block { at, head_len, body_len, is_dictionary })
            };
            let blocks: Option<Vec<Block>> = batches.chain(dictionaries).map(block).collect();
            let mut blocks =
                blocks.ok_or_else(|| Error::malformed("the footer places a message outside of the file"))?;
            blocks.sort_by_key(|block| block.at);
            let n = blocks.len();
            blocks.dedup_by_key(|block| block.at);
            let n_twice = n - blocks.len();
            Ok(Footer { schema: Arc::new(fb_to_schema(schema)), at: start, blocks, n_twice })
        });
        footer.map_err(|error| error.at(&place(start)))
    }
}
