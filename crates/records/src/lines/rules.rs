//! Checks the rules for records of lines in the text of the lines, so that each place is exact.

use crate::check::{Log, Rules};
use crate::lines::{LineCodec, Seen};
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
        let mut first = None;
        (codec.reading.each)(batch.raw(), &mut |at, record| {
            let offset = batch.span.offset + (at - *first.get_or_insert(at));
            (codec.language.judge)(codec, seen, record, &mut |rule, what| {
                log.add(rule, || (Some(offset), Some(ordinal), what.to_string()));
            });
            ordinal += 1;
        });
    }

    fn merge(&mut self, later: LineRules) {
        self.seen.has_instr |= later.seen.has_instr;
    }
}
