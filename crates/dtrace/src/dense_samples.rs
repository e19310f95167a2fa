//! Linux samples in a denser form: a private encoding of streams, like [`dense`] for buffers.
//!
//! SPEC: dtrace.md#dense-bodies

use crate::dense::{self, Reader};
use crate::describe::{Capture, Enabling, Event};
use quipu_stream::frame::encoding;
use quipu_wire::record::Encoding;
use rustc_hash::FxHashMap;

/// The number of the encoding, in the private range.
pub const NUMBER: u16 = encoding::FIRST_PRIVATE + encoding::DTRACE_LINUX;

/// The name of the encoding.
pub const NAME: &str = "dtrace-linux-dense";

/// Flag: length, speculation and probe follow, because they differ from the last sample of the statement.
const IS_OTHER: u64 = 1;

/// Flag: the length of the sample and all its bytes follow.
const IS_PLAIN: u64 = 2;

/// Number of flag bits below the number of a statement.
const FLAG_BITS: u32 = 2;

/// The metadata record that announces the encoding.
pub(crate) fn announced() -> Encoding {
    dense::private(NUMBER, NAME, encoding::DTRACE_LINUX)
}

/// The last sample of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
struct Last {
    length: u64,
    speculation: u64,
    probe: u64,
    values: Vec<u64>,
}

impl Last {
    fn of<'l>(all: &'l mut FxHashMap<u32, Last>, enabling: &Enabling) -> &'l mut Last {
        let new = || Last { values: vec![0; enabling.recs.len()], ..Last::default() };
        all.entry(enabling.id).or_insert_with(new)
    }
}

/// The dense form of samples; `None` if an event is not a sample.
pub fn pack(capture: &Capture, events: &[Event]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let mut last = FxHashMap::default();
    let mut n_bytes = 0;
    for event in events {
        let Event::Sample { bytes, .. } = event else { return None };
        n_bytes += bytes.len() as u64;
        put(capture, bytes, &mut last, &mut body);
    }
    (n_bytes <= dense::limit_of(body.len())).then_some(body)
}

fn put(capture: &Capture, bytes: &[u8], last: &mut FxHashMap<u32, Last>, body: &mut Vec<u8>) {
    let order = capture.order;
    let word = |at| order.u32_at(bytes, at);
    let head = (word(0), word(4), word(8), word(12));
    let known = match head {
        (Some(size), Some(speculation), Some(probe), Some(statement))
            if u64::from(size) + 4 == bytes.len() as u64 =>
        {
            let enabling = capture.enabling(statement).map(|(_, enabling)| enabling);
            let is_covered = |of: &&Enabling| {
                of.recs.iter().all(|rec| rec.of(bytes).len() == rec.size as usize)
                    && dense::is_covered(capture, of, bytes)
            };
            enabling.filter(is_covered).map(|enabling| (enabling, speculation, probe))
        }
        _ => None,
    };
    let Some((enabling, speculation, probe)) = known else {
        dense::put_uv(body, IS_PLAIN);
        dense::put_uv(body, bytes.len() as u64);
        body.extend_from_slice(bytes);
        return;
    };
    let last = Last::of(last, enabling);
    let now = (bytes.len() as u64, u64::from(speculation), u64::from(probe));
    let is_other = (last.length, last.speculation, last.probe) != now;
    dense::put_uv(body, u64::from(enabling.id) << FLAG_BITS | if is_other { IS_OTHER } else { 0 });
    if is_other {
        (last.length, last.speculation, last.probe) = now;
        [now.0, now.1, now.2].into_iter().for_each(|number| dense::put_uv(body, number));
    }
    dense::put_parts(order, enabling, bytes, &mut last.values, body);
}

/// The result of unpacking a body.
#[derive(Debug, Default, PartialEq)]
pub struct Unpacked {
    /// The samples, up to where the body is malformed.
    pub samples: Vec<Box<[u8]>>,
    /// Whether the whole body was unpacked.
    pub is_whole: bool,
}

/// Unpacks a dense body to the samples that it stands for.
pub fn unpack(capture: &Capture, body: &[u8]) -> Unpacked {
    let mut unpacked = Unpacked::default();
    let mut reader = Reader::new(body);
    let mut last = FxHashMap::default();
    let mut left = dense::limit_of(body.len());
    while !reader.is_at_end() {
        match take(capture, &mut reader, &mut last, &mut left) {
            Some(sample) => unpacked.samples.push(sample),
            None => return unpacked,
        }
    }
    unpacked.is_whole = true;
    unpacked
}

fn take(
    capture: &Capture,
    reader: &mut Reader<'_>,
    last: &mut FxHashMap<u32, Last>,
    left: &mut u64,
) -> Option<Box<[u8]>> {
    let tag = reader.uv()?;
    if tag & IS_PLAIN != 0 {
        let n = reader.uv()?;
        *left = left.checked_sub(n)?;
        return Some(reader.bytes(usize::try_from(n).ok()?)?.into());
    }
    let (_, enabling) = capture.enabling(u32::try_from(tag >> FLAG_BITS).ok()?)?;
    let last = Last::of(last, enabling);
    if tag & IS_OTHER != 0 {
        (last.length, last.speculation, last.probe) = (reader.uv()?, reader.uv()?, reader.uv()?);
    }
    *left = left.checked_sub(last.length)?;
    let mut sample = vec![0; usize::try_from(last.length).ok()?];
    let size = last.length.checked_sub(4)?;
    for (at, number) in [size, last.speculation, last.probe, enabling.id.into()].into_iter().enumerate() {
        u32::try_from(number).ok()?;
        dense::put_number(capture.order, sample.get_mut(4 * at..4 * at + 4)?, number);
    }
    dense::take_parts(capture.order, enabling, reader, &mut last.values, &mut sample)?;
    Some(sample.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_bodies_stand_for_a_bounded_number_of_bytes() {
        let mut capture = Capture { dialect: crate::Dialect::Linux, ..Capture::default() };
        capture.add_enabling(Enabling { id: 3, ..Enabling::default() });
        capture.index();
        let mut body = Vec::new();
        dense::put_uv(&mut body, 3 << FLAG_BITS | IS_OTHER);
        [1 << 22, 0, 0].into_iter().for_each(|number| dense::put_uv(&mut body, number));
        let once = unpack(&capture, &body);
        assert_eq!((once.samples.len(), once.is_whole), (1, true));
        (0..1000).for_each(|_| dense::put_uv(&mut body, 3 << FLAG_BITS));
        let most = unpack(&capture, &body);
        assert!(!most.is_whole && most.samples.len() < 4, "{}", most.samples.len());
        for length in [0, 3, 4, 15, u64::MAX] {
            let mut body = Vec::new();
            dense::put_uv(&mut body, 3 << FLAG_BITS | IS_OTHER);
            [length, 0, 0].into_iter().for_each(|number| dense::put_uv(&mut body, number));
            assert_eq!(unpack(&capture, &body), Unpacked::default(), "{length}");
        }
    }
}
