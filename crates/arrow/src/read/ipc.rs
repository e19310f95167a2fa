//! Record batches of a file or stream of Arrow.
//!
//! A file is a stream between two marks, with a footer that says where its messages are. The heads of messages say all of that
//! as well, so the footer is not needed, and a file without its end gives what it has.

use super::guard::guarded;
use super::input::Input;
use super::{ARROW_MAGIC, Batches, CONTINUATION, Group, limits};
use crate::fault::of_arrow;
use crate::write::Form;
use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{MessageHeader, MetadataVersion, RecordBatch as Head, root_as_message};
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
    /// Looks at the heads of all messages; the error is what kept it from finding the rest.
    ///
    /// # Errors
    /// If not even the schema can be read.
    pub(super) fn of(input: &Arc<Input>, form: Form) -> Result<(Messages, Option<Error>)> {
        let is_file = form == Form::File;
        let mut at = if is_file { after_magic(input)? } else { 0 };
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
        let (mut batches, mut dictionaries) = (Vec::new(), Vec::new());
        at = first.body_at() + first.body_len;
        let cut = loop {
            let message = match next(input, at) {
                Ok(Some(message)) => message,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            let about = guarded(|| {
                let head = head_of(input, &message)?;
                let message = root_as_message(&head).map_err(|error| Error::malformed(error.to_string()))?;
                let n_rows = message.header_as_record_batch().map_or(0, |batch| batch.length());
                let n_rows = u64::try_from(n_rows)
                    .map_err(|_| Error::malformed("a batch has fewer rows than none"))?;
                Ok((message.header_type(), n_rows))
            });
            let end = message.body_at() + message.body_len;
            match about {
                Ok((MessageHeader::RecordBatch, n_rows)) => {
                    batches.push(Message { n_rows, n_dictionaries: dictionaries.len(), ..message });
                }
                Ok((MessageHeader::DictionaryBatch, _)) => dictionaries.push(message),
                Ok(_) => {}
                Err(error) => break Some(error.at(&place(at))),
            }
            if batches.len() + dictionaries.len() > limits::MESSAGES {
                let n = limits::MESSAGES as u64;
                break Some(Error::limit("messages of a file", n + 1, n).at(&place(at)));
            }
            at = end;
        };
        let messages = Messages {
            schema,
            batches: Arc::new(batches),
            dictionaries: Arc::new(dictionaries),
            is_file,
            known: Arc::default(),
        };
        Ok((messages, cut))
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
    let mut message = Message { at, head_len: head_len as u32, body_len: 0, n_rows: 0, n_dictionaries: 0 };
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
