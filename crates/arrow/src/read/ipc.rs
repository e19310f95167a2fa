//! Record batches of a file or stream of Arrow.
//!
//! A file is a stream between two marks, with a footer that says where its messages are. The heads of messages say all of that
//! as well, so the footer is not needed, and a file without its end gives what it has. Where a head is damaged, the footer says
//! where the next message is.

use super::guard::guarded;
use super::input::Input;
use super::{ARROW_MAGIC, Batches, CONTINUATION, Flaw, Group, Loses, limits};
use crate::fault::of_arrow;
use crate::write::Form;
use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{MessageHeader, MetadataVersion, RecordBatch as Head, root_as_footer, root_as_message};
use arrow_schema::SchemaRef;
use quipu_model::{Error, ErrorKind, Place, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes before the head of a message.
const PREFIX_BYTES: u64 = 8;
/// Bytes that messages of files may be aligned to.
const MAX_ALIGNMENT: usize = 64;

/// Where a message stands.
#[derive(Clone, Copy, Debug)]
struct Message {
    at: u64,
    head_len: u32,
    body_len: u64,
    n_rows: u64,
    /// Dictionaries that stand before it.
    n_dictionaries: usize,
    /// Whether one of them is lost.
    lacks_dictionary: bool,
}

impl Message {
    fn head_at(&self) -> u64 {
        self.at + PREFIX_BYTES
    }

    fn body_at(&self) -> u64 {
        self.head_at() + u64::from(self.head_len)
    }
}

/// Dictionaries as they are after some of their messages.
#[derive(Debug, Default)]
struct Known {
    n: usize,
    by_id: HashMap<i64, ArrayRef>,
}

/// All messages of a file.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    schema: SchemaRef,
    batches: Arc<Vec<Message>>,
    dictionaries: Arc<Vec<Message>>,
    /// A file has all dictionaries of its batches, wherever they stand; in a stream those before count.
    is_file: bool,
    known: Arc<Mutex<Known>>,
}

impl Messages {
    /// Looks at the heads of all messages.
    ///
    /// # Errors
    /// If not even the schema can be read.
    pub(super) fn of(input: &Arc<Input>, form: Form) -> Result<(Messages, Vec<Flaw>)> {
        if form == Form::Stream {
            let mut found = Found::default();
            let (schema, flaw) = match found.walk(input, 0)? {
                (schema, Err(error)) => (schema, Some(Flaw::new(error, Loses::Rest, found.batches.len()))),
                (schema, Ok(_)) => (schema, None),
            };
            return Ok((found.into_messages(schema, false), flaw.into_iter().collect()));
        }
        let mut flaws = Vec::new();
        if input.read_some(0, ARROW_MAGIC.len())? != ARROW_MAGIC {
            let error = Error::malformed("the file does not begin with the mark of Arrow").at(&place(0));
            flaws.push(Flaw::new(error, Loses::Nothing, 0));
        }
        let footer = Footer::of(input);
        let mut found = Found::default();
        let walked = after_magic(input).and_then(|at| found.walk(input, at));
        let schema = match (walked, footer) {
            (Ok((schema, Ok(_))), Ok(footer)) if found.n_messages() == footer.blocks.len() => schema,
            (Ok((schema, Ok(end))), Err(error)) => {
                // A footer that is too long for us is none that is damaged.
                if error.is_damage() && error.kind() != ErrorKind::Limit {
                    let loses = if end == End::Said { Loses::Nothing } else { Loses::Rest };
                    flaws.push(Flaw::new(error, loses, found.batches.len()));
                }
                schema
            }
            (walked, Ok(footer)) => {
                found = Found::default();
                let before = flaws.len();
                found.take_all(input, &footer, &mut flaws);
                let error = walked.map_or_else(Some, |(_, end)| end.err());
                // The schema, or what follows the last message.
                if let Some(error) = error.filter(|_| flaws.len() == before) {
                    flaws.insert(0, Flaw::new(error, Loses::Nothing, 0));
                }
                footer.schema
            }
            (Ok((schema, Err(error))), Err(_)) => {
                flaws.push(Flaw::new(error, Loses::Rest, found.batches.len()));
                schema
            }
            (Err(error), Err(_)) => return Err(error),
        };
        Ok((found.into_messages(schema, true), flaws))
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn groups(&self) -> Vec<Group> {
        let mut first_row = 0_u64;
        let group = |message: &Message| {
            let before = first_row;
            first_row = first_row.saturating_add(message.n_rows);
            let n_bytes = u64::from(message.head_len) + message.body_len;
            Group { first_row: before, n_rows: message.n_rows, offset: message.at, n_bytes }
        };
        self.batches.iter().map(group).collect()
    }

    /// Reads columns of a batch.
    pub(super) fn read_batch(
        &self,
        input: &Input,
        group: usize,
        roots: &[usize],
    ) -> Result<arrow_array::RecordBatch> {
        let message = self.batches[group];
        if message.lacks_dictionary {
            return Err(Error::new(ErrorKind::Damaged, "a dictionary that precedes it is damaged"));
        }
        let n = if self.is_file { self.dictionaries.len() } else { message.n_dictionaries };
        let by_id = self.dictionaries(input, n)?;
        let head = head_of(input, &message)?;
        let body = body_of(input, &message)?;
        let root = root_as_message(&head).map_err(|error| Error::malformed(error.to_string()))?;
        let batch =
            root.header_as_record_batch().ok_or_else(|| Error::malformed("the message is no batch"))?;
        check(&batch, &body)?;
        let schema = self.schema.clone();
        read_record_batch(&body, batch, schema, &by_id, Some(roots), &root.version()).map_err(of_arrow)
    }

    pub(super) fn read(&self, input: &Arc<Input>, group: usize, roots: &[usize]) -> Result<Batches> {
        let batch = guarded(|| self.read_batch(input, group, roots))?;
        let n_rows = batch.num_rows();
        let slices = (0..n_rows).step_by(limits::BATCH_ROWS);
        Ok(Box::new(slices.map(move |at| Ok(batch.slice(at, limits::BATCH_ROWS.min(n_rows - at))))))
    }

    /// The dictionaries after the first `n` messages of such.
    fn dictionaries(&self, input: &Input, n: usize) -> Result<HashMap<i64, ArrayRef>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { n: have, mut by_id } = std::mem::take(&mut *known);
        let have = if have > n {
            by_id.clear();
            0
        } else {
            have
        };
        for message in &self.dictionaries[have..n] {
            let mut read = || {
                let head = head_of(input, message)?;
                let body = body_of(input, message)?;
                let root = root_as_message(&head).map_err(|error| Error::malformed(error.to_string()))?;
                let batch = root.header_as_dictionary_batch();
                let batch = batch.ok_or_else(|| Error::malformed("the message is no dictionary"))?;
                let data = batch.data().ok_or_else(|| Error::malformed("a dictionary has no values"))?;
                check(&data, &body)?;
                let version: MetadataVersion = root.version();
                read_dictionary(&body, batch, &self.schema, &mut by_id, &version).map_err(of_arrow)
            };
            read().map_err(|error| error.at(&place(message.at)))?;
        }
        *known = Known { n, by_id: by_id.clone() };
        Ok(by_id)
    }
}

/// How a walk over messages ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// With the mark that ends a stream.
    Said,
    /// With the last byte.
    OfBytes,
}

/// Messages as they are found.
#[derive(Default)]
struct Found {
    batches: Vec<Message>,
    dictionaries: Vec<Message>,
    lacks_dictionary: bool,
}

impl Found {
    fn n_messages(&self) -> usize {
        self.batches.len() + self.dictionaries.len()
    }

    fn into_messages(self, schema: SchemaRef, is_file: bool) -> Messages {
        Messages {
            schema,
            batches: Arc::new(self.batches),
            dictionaries: Arc::new(self.dictionaries),
            is_file: is_file && !self.lacks_dictionary,
            known: Arc::default(),
        }
    }

    /// Finds all messages from the one with the schema on, each after the one before it. The inner error is what kept it from
    /// finding the rest.
    fn walk(&mut self, input: &Arc<Input>, at: u64) -> Result<(SchemaRef, Result<End>)> {
        let Some(first) = next(input, at)? else {
            return Err(Error::truncated("the stream has no schema").at(&place(at)));
        };
        let schema = guarded(|| {
            let head = head_of(input, &first)?;
            let message = root_as_message(&head).map_err(|error| Error::malformed(error.to_string()))?;
            let schema = message.header_as_schema();
            let schema = schema.ok_or_else(|| Error::malformed("the first message is no schema"))?;
            Ok(Arc::new(fb_to_schema(schema)))
        });
        let schema = schema.map_err(|error| error.at(&place(first.at)))?;
        let mut at = first.body_at() + first.body_len;
        loop {
            match self.take(input, at) {
                Ok(Some(message)) => at = message.body_at() + message.body_len,
                Ok(None) => {
                    return Ok((schema, Ok(if at < input.size() { End::Said } else { End::OfBytes })));
                }
                Err(error) => return Ok((schema, Err(error))),
            }
        }
    }

    /// Takes the message at a place; `None` at the end.
    fn take(&mut self, input: &Arc<Input>, at: u64) -> Result<Option<Message>> {
        let Some(message) = next(input, at)? else { return Ok(None) };
        let about = guarded(|| {
            let head = head_of(input, &message)?;
            let message = root_as_message(&head).map_err(|error| Error::malformed(error.to_string()))?;
            let n_rows = message.header_as_record_batch().map_or(0, |batch| batch.length());
            let n_rows =
                u64::try_from(n_rows).map_err(|_| Error::malformed("a batch has fewer rows than none"))?;
            Ok((message.header_type(), n_rows))
        });
        match about.map_err(|error| error.at(&place(at)))? {
            (MessageHeader::RecordBatch, n_rows) => {
                let (n_dictionaries, lacks_dictionary) = (self.dictionaries.len(), self.lacks_dictionary);
                self.batches.push(Message { n_rows, n_dictionaries, lacks_dictionary, ..message });
            }
            (MessageHeader::DictionaryBatch, _) => self.dictionaries.push(message),
            _ => {}
        }
        if self.n_messages() > limits::MESSAGES {
            let n = limits::MESSAGES as u64;
            return Err(Error::limit("messages of a file", n + 1, n).at(&place(at)));
        }
        Ok(Some(message))
    }

    /// Takes the messages that a footer names; those that are damaged are flaws.
    fn take_all(&mut self, input: &Arc<Input>, footer: &Footer, flaws: &mut Vec<Flaw>) {
        for (nth, block) in footer.blocks.iter().enumerate() {
            let (n_batches, n_dictionaries) = (self.batches.len(), self.dictionaries.len());
            let taken = self.take(input, block.at).and_then(|message| {
                let is_it = message.is_some_and(|message| message.body_len == block.body_len);
                let is_of_kind = match block.is_dictionary {
                    true => self.dictionaries.len() > n_dictionaries,
                    false => self.batches.len() > n_batches,
                };
                let what = "the message is not the one that the footer names";
                (is_it && is_of_kind).then_some(()).ok_or_else(|| Error::malformed(what).at(&place(block.at)))
            });
            let Err(error) = taken else { continue };
            self.batches.truncate(n_batches);
            self.dictionaries.truncate(n_dictionaries);
            self.lacks_dictionary |= block.is_dictionary;
            let loses = if nth + 1 == footer.blocks.len() { Loses::Rest } else { Loses::Group };
            flaws.push(Flaw::new(error, loses, n_batches));
        }
    }
}

/// What the end of a file says of its messages.
struct Footer {
    schema: SchemaRef,
    /// In the order of the file.
    blocks: Vec<Block>,
}

/// A message that a footer names.
struct Block {
    at: u64,
    body_len: u64,
    is_dictionary: bool,
}

/// Bytes after the footer of a file: its length, and the mark.
const TAIL_BYTES: u64 = 4 + ARROW_MAGIC.len() as u64;

impl Footer {
    /// # Errors
    /// `Truncated`, `Malformed` or `Limit` if there is none that can be read.
    fn of(input: &Arc<Input>) -> Result<Footer> {
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
            let footer = root_as_footer(&bytes)
                .map_err(|error| Error::malformed(format!("the footer is damaged: {error}")))?;
            let schema = footer.schema().ok_or_else(|| Error::malformed("the footer has no schema"))?;
            let batches = footer.recordBatches().into_iter().flatten().map(|block| (block, false));
            let dictionaries = footer.dictionaries().into_iter().flatten().map(|block| (block, true));
            let block = |(block, is_dictionary): (&arrow_ipc::Block, bool)| {
                let (at, body_len) =
                    (u64::try_from(block.offset()).ok()?, u64::try_from(block.bodyLength()).ok()?);
                (at < size).then_some(Block { at, body_len, is_dictionary })
            };
            let blocks: Option<Vec<Block>> = batches.chain(dictionaries).map(block).collect();
            let mut blocks =
                blocks.ok_or_else(|| Error::malformed("the footer places a message outside of the file"))?;
            blocks.sort_by_key(|block| block.at);
            Ok(Footer { schema: Arc::new(fb_to_schema(schema)), blocks })
        });
        footer.map_err(|error| error.at(&place(start)))
    }
}

/// Where the first message of a file stands: zeros fill the space after the mark.
fn after_magic(input: &Input) -> Result<u64> {
    let head = input.read_some(0, MAX_ALIGNMENT)?;
    let zeros = head.iter().skip(ARROW_MAGIC.len()).take_while(|byte| **byte == 0).count();
    Ok((ARROW_MAGIC.len() + zeros) as u64)
}

fn place(offset: u64) -> Place {
    Place { offset: Some(offset), ..Place::default() }
}

/// The message at a place; `None` at the end of the stream.
fn next(input: &Input, at: u64) -> Result<Option<Message>> {
    if at >= input.size() {
        return Ok(None);
    }
    let here = place(at);
    let prefix = input.read_some(at, PREFIX_BYTES as usize)?;
    if prefix.starts_with(ARROW_MAGIC) {
        return Ok(None);
    }
    let number =
        |from: usize| prefix.get(from..from + 4).and_then(|it| it.try_into().ok()).map(i32::from_le_bytes);
    let Some(length) = number(4) else {
        return Err(Error::truncated("the stream ends in the middle of a message").at(&here));
    };
    if !prefix.starts_with(&CONTINUATION) {
        return Err(Error::malformed("no message begins here").at(&here));
    }
    if length == 0 {
        return Ok(None);
    }
    let head_len =
        u64::try_from(length).map_err(|_| Error::malformed("a head has fewer bytes than none").at(&here))?;
    if head_len > limits::MESSAGE_HEAD_BYTES {
        return Err(
            Error::limit("bytes in the head of a message", head_len, limits::MESSAGE_HEAD_BYTES).at(&here)
        );
    }
    let mut message = Message {
        at,
        head_len: head_len as u32, // Within the limit.
        body_len: 0,
        n_rows: 0,
        n_dictionaries: 0,
        lacks_dictionary: false,
    };
    let head = head_of(input, &message)?;
    let body_len = guarded(|| {
        let message = root_as_message(&head).map_err(|error| Error::malformed(error.to_string()))?;
        u64::try_from(message.bodyLength()).map_err(|_| Error::malformed("a body has fewer bytes than none"))
    });
    message.body_len = body_len.map_err(|error| error.at(&here))?;
    let left = input.size() - message.body_at();
    if message.body_len > left {
        let what = format!("a message of `{}` bytes has `{left}`", message.body_len);
        return Err(Error::truncated(what).at(&here));
    }
    Ok(Some(message))
}

fn head_of(input: &Input, message: &Message) -> Result<Vec<u8>> {
    let read = input.read(message.head_at(), message.head_len as usize);
    read.map_err(|cause| input.unreadable(cause).at(&place(message.at)))
}

fn body_of(input: &Input, message: &Message) -> Result<Buffer> {
    if message.body_len > limits::MESSAGE_BYTES {
        return Err(Error::limit("bytes of a message", message.body_len, limits::MESSAGE_BYTES));
    }
    let read = input.read(message.body_at(), message.body_len as usize);
    Ok(read.map_err(|cause| input.unreadable(cause))?.into())
}

/// Makes sure that the buffers of a batch lie in its body, and do not claim to become more than they may.
fn check(batch: &Head<'_>, body: &Buffer) -> Result<()> {
    let is_packed = batch.compression().is_some();
    let mut unpacked = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let (start, len) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let (Ok(start), Ok(len)) = (start, len) else {
            return Err(Error::malformed("a buffer has fewer bytes than none"));
        };
        let Some(bytes) = start.checked_add(len).and_then(|end| body.as_slice().get(start..end)) else {
            return Err(Error::malformed("a buffer lies outside of its message"));
        };
        if is_packed && let Some(said) = bytes.first_chunk::<8>() {
            // Where packing does not help, -1 stands before the bytes.
            let said = u64::try_from(i64::from_le_bytes(*said)).unwrap_or(len as u64);
            unpacked = unpacked.saturating_add(said);
        }
    }
    if unpacked > limits::MESSAGE_BYTES {
        return Err(Error::limit("bytes of a message", unpacked, limits::MESSAGE_BYTES));
    }
    // Lengths of columns without buffers are bound by that of the batch.
    let longest = batch.nodes().into_iter().flatten().map(|node| node.length()).max().unwrap_or(0);
    let n_bytes = (body.len() as u64).max(unpacked);
    let most = n_bytes.saturating_mul(8).saturating_add(limits::LIST_VALUES);
    if u64::try_from(longest.max(batch.length())).is_ok_and(|n| n > most) {
        return Err(Error::new(ErrorKind::Limit, "a batch has more rows than its bytes can hold"));
    }
    Ok(())
}
