//! Converts between the two encodings; refuses events that would lose information.

use crate::batch::Batch;
use crate::detail::Detail;
use crate::dump;
use crate::event::Event;
use crate::fault::{Fault, Wrong};
use crate::fixed::{self, Put};
use crate::variable::{self, Dialect};

/// Converts a dump of the fixed encoding to a stored stream of the variable one, which begins with its level of detail.
///
/// # Errors
/// Returns an error if the dump is malformed, or has an event that the variable encoding cannot represent: sizes other than
/// powers of two, operations without arguments, addresses of more than 56 bits, names that are empty or longer than 256
/// bytes. The offset is that of the batch in the dump.
pub fn to_variable(bytes: &[u8], detail: Detail) -> Result<Vec<u8>, Fault> {
    let mut reader = dump::Reader::new(bytes, detail);
    let mut batch = Batch::default();
    let mut encoder = variable::Encoder::stored(detail);
    let mut offset = 0;
    while reader.read(&mut batch)? {
        for event in &batch.events {
            encoder.put(event, &batch).map_err(|what| Fault { offset, what })?;
        }
        offset = reader.offset();
    }
    encoder.end();
    Ok(encoder.out)
}

/// Converts a stream of the variable encoding to a dump of the fixed one. Also returns the level of detail for reading the dump.
///
/// # Errors
/// Returns an error if the stream is malformed, or has something that the fixed encoding cannot represent: ids, or a level
/// of detail that changes after the first event.
pub fn to_fixed(bytes: &[u8], detail: Detail, dialect: Dialect) -> Result<(Vec<u8>, Detail), Fault> {
    let mut decoder = variable::Decoder::new(detail, dialect);
    let (mut batch, mut out) = (Batch::default(), Vec::new());
    let (mut used, mut has_ended) = (0, false);
    let mut encoder: Option<fixed::Encoder> = None;
    let mut fields = detail;
    while used < bytes.len() && !has_ended {
        let offset = used as u64;
        let progress = decoder.decode(&bytes[used..], &mut batch)?;
        (used, has_ended) = (used + progress.used, progress.has_ended);
        for event in &batch.events {
            if let (Event::Config(config), None) = (event, &encoder) {
                fields.configure(*config);
                continue;
            }
            let encoder = encoder.get_or_insert_with(|| fixed::Encoder::new(fields));
            put(encoder, event, &batch, &mut out).map_err(|what| Fault { offset, what })?;
        }
    }
    if let Some(encoder) = &mut encoder {
        dump::flush(encoder, &mut out);
    }
    Ok((out, fields))
}

fn put(encoder: &mut fixed::Encoder, event: &Event, batch: &Batch, out: &mut Vec<u8>) -> Result<(), Wrong> {
    if encoder.put(event, batch)? == Put::Full {
        dump::flush(encoder, out);
        // An empty buffer has room for any event that the encoding can represent.
        encoder.put(event, batch)?;
    }
    Ok(())
}
