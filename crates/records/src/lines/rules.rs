//! Checks the rules for records of lines in the text of the lines, so that each place is exact.

use crate::check::{Log, Rules};
use crate::lines::{Line, LineCodec, Seen};
use quipu_model::Batch;

/// State of the check.
#[derive(Debug)]
pub struct LineRules {
    codec: LineCodec,
    seen: Seen,
}

impl Rules<LineCodec> for LineRules {
    fn new(codec: &LineCodec) -> LineRules {
        LineRules { codec: *codec, seen: Seen::default() }
    }

    fn batch(&mut self, batch: &Batch, log: &mut Log) {
        let LineRules { codec, seen } = self;
        let mut ordinal = batch.span.first_record;
        // Other lines may precede the first record.
        let (mut at, mut first) = (0, None);
        for text in batch.raw().split_inclusive(|byte| *byte == b'\n') {
            let line = text.strip_suffix(b"\n").unwrap_or(text);
            if let Line::Record(record) = (codec.reading.line)(line.strip_suffix(b"\r").unwrap_or(line)) {
                let offset = batch.span.offset + (at - *first.get_or_insert(at));
                (codec.language.judge)(codec, seen, &record, &mut |rule, what| {
                    log.add(rule, || (Some(offset), Some(ordinal), what));
                });
                ordinal += 1;
            }
            at += text.len() as u64;
        }
    }

    fn merge(&mut self, later: LineRules) {
        self.seen.has_instr |= later.seen.has_instr;
    }
}
