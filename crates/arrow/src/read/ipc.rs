//! Record batches of an Arrow file or stream.
//!
//! A file is a stream between two magic strings, with a footer that lists the offsets of its messages. The messages' headers
//! hold the same information, so the footer is not needed, and a truncated file yields the batches that it has. Where a header
//! is damaged, the footer gives the offset of the next message; messages that the footer omits are read too.

use super::footer::{Block, Footer};
use super::guard::guarded;
use super::input::Input;
use super::{ARROW_MAGIC, Batches, CONTINUATION, Flaw, Group, Loses, limits, place};
use crate::fault::{of_arrow, of_flatbuffer};
use crate::write::Form;
use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{MessageHeader, MetadataVersion, RecordBatch as Head, root_as_message};
use arrow_schema::{DataType, Field, SchemaRef};
use quipu_model::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes before the header of a message.
const PREFIX_BYTES: u64 = 8;
/// Maximum alignment of messages in a file, in bytes.
const MAX_ALIGNMENT: usize = 64;

/// Position and lengths of a message.
#[derive(Clone, Copy, Debug)]
struct Message {
    at: u64,
    head_len: u32,
    body_len: u64,
    n_rows: u64,
    /// Number of dictionaries before this message.
    n_dictionaries: usize,
    /// Whether a dictionary before this message is lost.
    lacks_dictionary: bool,
}

impl Message {
    fn head_at(&self) -> u64 {
        self.at + PREFIX_BYTES
    }

    fn body_at(&self) -> u64 {
        self.head_at() + u64::from(self.head_len)
    }

    /// Offset of the next message.
    fn end(&self) -> u64 {
        self.body_at() + self.body_len
    }
}

/// Dictionaries after their first `n` messages.
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
    /// In a file, every dictionary applies to every batch, wherever it is; in a stream, only the preceding ones apply.
    is_file: bool,
    known: Arc<Mutex<Known>>,
}

impl Messages {
    /// Reads the headers of all messages.
    ///
    /// # Errors
    /// Fails if not even the schema can be read.
    pub(super) fn of(input: &Arc<Input>, form: Form) -> Result<(Messages, Vec<Flaw>)> {
        if form == Form::Stream {
            let mut found = Found::default();
            let (schema, at) = schema_at(input, 0)?;
            let walked = found.walk(input, at).err();
            let flaw = walked.map(|error| Flaw::new(error, Loses::Rest, found.batches.len()));
            return Ok((found.into_messages(schema, false), flaw.into_iter().collect()));
        }
        let mut flaws = Vec::new();
        if input.read_some(0, ARROW_MAGIC.len())? != ARROW_MAGIC {
            let error = Error::malformed("the file does not begin with the mark of Arrow").at(&place(0));
            flaws.push(Flaw::new(error, Loses::Nothing, 0));
        }
        let mut found = Found::default();
        let begun = after_magic(input).and_then(|at| schema_at(input, at));
        let schema = match (begun, Footer::of(input)) {
            (begun, Ok(footer)) => {
                let (said, at) = match begun {
                    Ok((said, at)) => (Some(said), at),
                    Err(error) => {
                        flaws.push(Flaw::new(error, Loses::Nothing, 0));
                        (None, footer.blocks.first().map_or(footer.at, |block| block.at))
                    }
                };
                let before = flaws.len();
                found.take_all(input, &footer, at, &mut flaws);
                if let Some(error) = found.contradiction(&footer) {
                    flaws.insert(before, Flaw::new(error, Loses::Nothing, 0));
                }
                match said.filter(|said| *said != footer.schema) {
                    Some(said) => {
                        let what = "the first message and the footer have different schemas";
                        flaws.insert(
                            before,
                            Flaw::new(Error::malformed(what).at(&place(0)), Loses::Nothing, 0),
                        );
                        found.fitting(input, said, footer.schema)
                    }
                    None => footer.schema,
                }
            }
            (Ok((schema, at)), Err(footer)) => {
                match found.walk(input, at) {
                    // A footer that exceeds our limit is not damage.
                    Ok(end) if footer.is_damage() && footer.kind() != ErrorKind::Limit => {
                        let loses = if end == End::Said { Loses::Nothing } else { Loses::Rest };
                        flaws.push(Flaw::new(footer, loses, found.batches.len()));
                    }
                    Ok(_) => {}
                    Err(error) => flaws.push(Flaw::new(error, Loses::Rest, found.batches.len())),
                }
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
        let root = root_as_message(&head).map_err(|error| Error::malformed(of_flatbuffer(&error)))?;
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

    /// Returns the dictionaries after the first `n` dictionary messages.
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
                let root = root_as_message(&head).map_err(|error| Error::malformed(of_flatbuffer(&error)))?;
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
    /// With the end-of-stream marker.
    Said,
    /// With the last byte of the input.
    OfBytes,
}

/// Messages found so far.
#[derive(Default)]
struct Found {
    batches: Vec<Message>,
    dictionaries: Vec<Message>,
    lacks_dictionary: bool,
    /// Number of messages in the file that its footer does not list.
    n_unnamed: usize,
    /// Number of messages that the footer lists but that are not in the file.
    n_absent: usize,
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

    /// Finds all messages from `at` on, one directly after the other. An error is the reason why the rest was not found.
    fn walk(&mut self, input: &Arc<Input>, mut at: u64) -> Result<End> {
        while let Some(message) = self.take(input, at)? {
            at = message.end();
        }
        Ok(if at < input.size() { End::Said } else { End::OfBytes })
    }

    /// Takes the message at an offset; `None` at the end.
    fn take(&mut self, input: &Arc<Input>, at: u64) -> Result<Option<Message>> {
        let Some(message) = next(input, at)? else { return Ok(None) };
        let about = guarded(|| {
            let head = head_of(input, &message)?;
            let message = root_as_message(&head).map_err(|error| Error::malformed(of_flatbuffer(&error)))?;
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

    /// Takes the messages from `at` on: those that follow each other and those that the footer lists. Damage becomes a flaw,
    /// and the footer gives the offset at which reading continues.
    fn take_all(&mut self, input: &Arc<Input>, footer: &Footer, mut at: u64, flaws: &mut Vec<Flaw>) {
        let mut blocks = footer.blocks.as_slice();
        loop {
            // The footer lists messages before the first one or inside an intact one.
            let n_passed = blocks.partition_point(|block| block.at < at);
            self.n_absent += n_passed;
            blocks = &blocks[n_passed..];
            let named = blocks.first().copied().filter(|block| block.at == at);
            blocks = &blocks[usize::from(named.is_some())..];
            let (n_batches, n_dictionaries) = (self.batches.len(), self.dictionaries.len());
            let error = match self.take(input, at) {
                Ok(Some(message)) => {
                    let n_named = self.n_messages() - n_batches - n_dictionaries;
                    let is_of_kind = named.is_none_or(|block| match block.is_dictionary {
                        true => self.dictionaries.len() > n_dictionaries,
                        false => self.batches.len() > n_batches,
                    });
                    if is_of_kind && is_bounded(input, &message, named, blocks) {
                        self.n_unnamed += if named.is_none() { n_named } else { 0 };
                        at = message.end();
                        continue;
                    }
                    Error::malformed("the message is not the one that the footer names").at(&place(at))
                }
                Ok(None) if named.is_none() && blocks.is_empty() => return,
                Ok(None) => Error::malformed("the stream ends before its last message").at(&place(at)),
                Err(error) => error,
            };
            self.batches.truncate(n_batches);
            self.dictionaries.truncate(n_dictionaries);
            let is_full = error.kind() == ErrorKind::Limit && self.n_messages() >= limits::MESSAGES;
            // The next message begins after this one or where the footer lists it.
            let after = named.map(|block| block.end()).filter(|end| {
                *end > at
                    && blocks.first().is_none_or(|block| *end <= block.at)
                    && next(input, *end).is_ok_and(|message| message.is_some())
            });
            let after = after.or_else(|| blocks.first().map(|block| block.at)).filter(|_| !is_full);
            // Between the last message and the footer is only the end-of-stream marker.
            let is_mark =
                named.is_none() && blocks.is_empty() && footer.at.saturating_sub(at) <= MAX_ALIGNMENT as u64;
            self.lacks_dictionary |= match named {
                Some(block) => block.is_dictionary,
                None => !is_mark && footer.schema.flattened_fields().iter().any(|field| is_dictionary(field)),
            };
            let loses = match after {
                _ if is_mark => Loses::Nothing,
                Some(_) => Loses::Group,
                None => Loses::Rest,
            };
            flaws.push(Flaw::new(error, loses, n_batches));
            match after {
                Some(after) => at = after,
                None => return,
            }
        }
    }

    /// Returns an error if the footer lists other messages than the file has.
    fn contradiction(&self, footer: &Footer) -> Option<Error> {
        let Found { n_unnamed, n_absent, .. } = self;
        let what = match (*n_unnamed, n_absent + footer.n_twice) {
            (0, 0) => return None,
            (0, n) => format!("the footer names `{n}` messages that do not stand there"),
            (n, _) => format!("the footer leaves out `{n}` messages that stand in the file"),
        };
        Some(Error::malformed(what).at(&place(footer.at)))
    }

    /// Decides which of two schemas the batches have, as far as that is possible: `first` if they can be read with it.
    fn fitting(&self, input: &Arc<Input>, first: SchemaRef, second: SchemaRef) -> SchemaRef {
        let reads = |schema: &SchemaRef| {
            let found = Found {
                batches: self.batches.clone(),
                dictionaries: self.dictionaries.clone(),
                ..Found::default()
            };
            let messages = found.into_messages(schema.clone(), true);
            let roots: Vec<usize> = (0..schema.fields().len()).collect();
            let read = |group: &usize| guarded(|| messages.read_batch(input, *group, &roots)).is_ok();
            (0..messages.batches.len().min(TRIED_BATCHES)).filter(read).count()
        };
        if reads(&second) > reads(&first) { second } else { first }
    }
}

/// Batches that are decompressed to decide between two schemas.
const TRIED_BATCHES: usize = 4;

fn is_dictionary(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Dictionary(..))
}

/// True if the length of a message is plausible given the footer: `named` is the footer's entry for it, `blocks` are the
/// entries after it.
fn is_bounded(input: &Arc<Input>, message: &Message, named: Option<Block>, blocks: &[Block]) -> bool {
    let is_other = named.is_some_and(|block| block.body_len != message.body_len);
    let within = blocks.iter().take_while(|block| block.at < message.end());
    let has_within = within.clone().next().is_some();
    if !is_other && !has_within {
        return true;
    }
    let is_followed = next(input, message.end()).is_ok();
    // Either the header or the footer is wrong: the one that does not lead to another message.
    let leads = || within.take(TRIED_BATCHES).any(|block| matches!(next(input, block.at), Ok(Some(_))));
    if is_other { is_followed && !leads() } else { is_followed || !leads() }
}

/// Reads the schema at an offset; also returns the offset of the messages after it.
fn schema_at(input: &Arc<Input>, at: u64) -> Result<(SchemaRef, u64)> {
    let Some(first) = next(input, at)? else {
        return Err(Error::truncated("the stream has no schema").at(&place(at)));
    };
    let schema = guarded(|| {
        let head = head_of(input, &first)?;
        let message = root_as_message(&head).map_err(|error| Error::malformed(of_flatbuffer(&error)))?;
        let schema = message.header_as_schema();
        let schema = schema.ok_or_else(|| Error::malformed("the first message is no schema"))?;
        Ok(Arc::new(fb_to_schema(schema)))
    });
    let schema = schema.map_err(|error| error.at(&place(first.at)))?;
    Ok((schema, first.end()))
}

/// Offset of the first message of a file: zeros pad the magic string.
fn after_magic(input: &Input) -> Result<u64> {
    let head = input.read_some(0, MAX_ALIGNMENT)?;
    let zeros = head.iter().skip(ARROW_MAGIC.len()).take_while(|byte| **byte == 0).count();
    Ok((ARROW_MAGIC.len() + zeros) as u64)
}

/// Reads the message at an offset; `None` at the end of the stream.
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
        let message = root_as_message(&head).map_err(|error| Error::malformed(of_flatbuffer(&error)))?;
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

/// Checks that the buffers of a batch lie in its body and do not claim to decompress to more than the limit.
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
            // A buffer that is stored uncompressed has -1 before its bytes.
            let said = u64::try_from(i64::from_le_bytes(*said)).unwrap_or(len as u64);
            unpacked = unpacked.saturating_add(said);
        }
    }
    if unpacked > limits::MESSAGE_BYTES {
        return Err(Error::limit("bytes of a message", unpacked, limits::MESSAGE_BYTES));
    }
    // The length of a column without buffers is limited by that of the batch.
    let longest = batch.nodes().into_iter().flatten().map(|node| node.length()).max().unwrap_or(0);
    let n_bytes = (body.len() as u64).max(unpacked);
    let most = n_bytes.saturating_mul(8).saturating_add(limits::LIST_VALUES);
    if u64::try_from(longest.max(batch.length())).is_ok_and(|n| n > most) {
        return Err(Error::new(ErrorKind::Limit, "a batch has more rows than its bytes can hold"));
    }
    Ok(())
}
