//! Prints selected records with the consumer.

use crate::consumer::{Consumer, Style};
use crate::describe::Capture;
use crate::objects::Listed;
use crate::table::Records;
use crate::walk::{Step, Walk};
use quipu_model::print::Ordinals;
use quipu_model::{Batch, Error, Paint, Printer, Result};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Storage form of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A folder of buffers with a description.
    Folder,
    /// Lines of JSON.
    Lines,
    /// A buffer that begins with metadata records.
    Buffer,
    /// Any file, which may have such records somewhere.
    Rest,
    /// A self-describing stream.
    Stream,
}

/// Prints selected records. It processes all records in order, because those that are not printed may affect the text of
/// later ones.
pub(crate) struct TextPrinter {
    capture: Arc<Capture>,
    consumer: Consumer,
    walk: Walk,
    /// Number of records processed.
    n_records: u64,
    /// Buffer for text that is discarded.
    scratch: Vec<u8>,
    has_printed: bool,
    /// The JSON object for the records, unless they are printed as text.
    listed: Option<Listed>,
    /// Enablings whose records cannot be printed.
    unprintable: FxHashSet<u32>,
    failure: Option<Error>,
}

impl TextPrinter {
    pub(crate) fn new(capture: &Arc<Capture>, style: Style, is_json: bool) -> Result<TextPrinter> {
        let mut trial = Consumer::new(capture, style);
        let faulty = capture.enablings.iter().filter(|of| trial.fault_of(of).is_some());
        let unprintable = faulty.map(|of| of.id).collect();
        let mut consumer = Consumer::new(capture, style);
        // Faults of the buffers were found when the trace was opened.
        consumer.take_buffers();
        Ok(TextPrinter {
            consumer,
            walk: Walk::new(capture)?,
            capture: Arc::clone(capture),
            n_records: 0,
            scratch: Vec::new(),
            has_printed: false,
            listed: is_json.then(Listed::default),
            unprintable,
            failure: None,
        })
    }

    /// Processes records up to the given one and prints that; false if there are no more records.
    fn take_to(&mut self, record: u64, out: &mut Vec<u8>) -> bool {
        let capture = Arc::clone(&self.capture);
        while let Some(step) = self.walk.next_step(&capture) {
            match step {
                Step::Cpu => self.consumer.turn_cpu(),
                Step::Pass => self.consumer.turn_pass(),
                Step::State(at) => self.consumer.state(at),
                Step::Fault(_) => {}
                Step::Firing(firing) => {
                    self.n_records += 1;
                    let is_wanted = self.n_records == record;
                    let mut messages = Vec::new();
                    let to = if is_wanted { &mut *out } else { &mut self.scratch };
                    let result = match &mut self.listed {
                        Some(listed) if is_wanted => listed.firing(&mut self.consumer, &firing, to),
                        _ => self.consumer.firing(&firing, to, &mut messages),
                    };
                    self.scratch.clear();
                    self.has_printed |= is_wanted;
                    if !self.has_printed {
                        self.consumer.forget_heading();
                    }
                    // If a record cannot be printed whatever its values, that was found when the trace was opened. The parts
                    // before the fault are printed, and so are other records.
                    if let (Err(error), true) = (result, is_wanted)
                        && !self.unprintable.contains(&firing.record.enabling.id)
                    {
                        self.failure.get_or_insert(error);
                    }
                    if is_wanted {
                        return true;
                    }
                }
            }
        }
        false
    }
}

impl TextPrinter {
    /// Processes states of aggregations after the last record; false if there are records left.
    fn take_rest(&mut self) -> bool {
        let capture = Arc::clone(&self.capture);
        while let Some(step) = self.walk.next_step(&capture) {
            match step {
                Step::Firing(_) => return false,
                Step::State(at) => self.consumer.state(at),
                Step::Cpu | Step::Pass | Step::Fault(_) => {}
            }
        }
        true
    }
}

impl Printer for TextPrinter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(listed) = &mut self.listed {
            listed.begin(&self.capture, out);
        }
    }

    fn print(&mut self, batch: &Batch, rows: &[u32], _: Ordinals, _: &Paint, out: &mut Vec<u8>) {
        let Some(records) = batch.tables.first().and_then(|table| table.get::<Records>()) else { return };
        for record in rows.iter().filter_map(|row| records.record.get(*row as usize)) {
            self.take_to(*record, out);
        }
    }

    fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        // Aggregations are those of the whole run, so they are printed only if all of it was processed.
        let is_whole = self.take_rest();
        match &mut self.listed {
            Some(listed) => listed.end(is_whole.then_some(&mut self.consumer), out),
            None if is_whole => self.failure = self.failure.take().or(self.consumer.end(out).err()),
            None => {}
        }
    }
}
