//! The form of table rows: selects calls and prints their values.
//!
//! Values are written as in calls: in JSON as typed objects, in text as `apitrace dump` does. The exception is text of a
//! whole string, which has no quotes.

use super::{FRAME_COLUMN, RECORD_COLUMN};
use crate::print::CallWriter;
use crate::print::json::Shown;
use crate::print::settings::{self, Choice, PrintForm};
use crate::print::text::Escapes;
use quipu_model::print::RowForm;
use quipu_model::trace::PrintOptions;
use quipu_model::values::{Call, Kind, Values};
use quipu_model::{Batch, Error, Result};

/// The form of rows of calls.
#[derive(Debug)]
pub struct CallForm {
    settings: PrintForm,
    choice: Choice,
    failure: Option<Error>,
}

impl CallForm {
    /// Rows of the calls that the options select. As with JSON, verbose calls are included.
    ///
    /// # Errors
    /// `Usage` if an option is malformed.
    pub fn new(options: &PrintOptions) -> Result<CallForm> {
        let (settings, choice) = settings::parse(&PrintOptions { verbose: true, ..options.clone() })?;
        let settings = PrintForm { escapes: Escapes::Whole, ..settings };
        Ok(CallForm { settings, choice, failure: None })
    }

    /// Number of files of raw memory that earlier values of the call have.
    fn blobs_before(&self, values: &Values, call: &Call, node: u32) -> u32 {
        if self.settings.blobs.is_none() {
            return 0;
        }
        let before = values.args_of(call).iter().take_while(|arg| arg.node != node);
        let nodes = before.flat_map(|arg| arg.node..values.behind(arg.node));
        nodes.filter(|at| values.node(*at).kind == Kind::Blob).count() as u32 // Fewer than nodes.
    }
}

/// The call that a row of the first table belongs to.
fn call_of(batch: &Batch, row: u32) -> Option<&Call> {
    let record = batch.tables.first()?.column(RECORD_COLUMN).number(row as usize);
    let at = record.checked_sub(batch.span.first_record + 1)?;
    batch.values.calls.get(usize::try_from(at).ok()?)
}

impl RowForm for CallForm {
    fn choose(&mut self, batch: &Batch, rows: &mut Vec<u32>) {
        let frames = batch.tables.first().map(|rows| rows.column(FRAME_COLUMN));
        rows.retain(|row| {
            let Some(call) = call_of(batch, *row) else { return false };
            let Some(function) = batch.types.function(call.function) else { return false };
            self.choice.has(call, function, || frames.map_or(0, |frames| frames.number(*row as usize)))
        });
    }

    fn is_done(&self) -> bool {
        self.choice.is_done()
    }

    fn json(&mut self, batch: &Batch, row: u32, node: u32, out: &mut Vec<u8>) {
        let Some(call) = call_of(batch, row) else { return };
        let n_blobs = self.blobs_before(&batch.values, call, node);
        let (values, types) = (&batch.values, &batch.types);
        let mut shown = Shown { settings: &self.settings, values, types, call, n_blobs, failure: None };
        // Writing to a vector cannot fail.
        let _ = serde_json::to_writer(&mut *out, &shown.value(node));
        self.failure = self.failure.take().or(shown.failure);
    }

    fn text(&mut self, batch: &Batch, row: u32, node: u32, out: &mut Vec<u8>) {
        let Some(call) = call_of(batch, row) else { return };
        let (values, types) = (&batch.values, &batch.types);
        let value = values.node(node);
        if value.kind == Kind::Text
            && let Ok(text) = std::str::from_utf8(values.bytes_of(value))
        {
            return out.extend_from_slice(text.as_bytes());
        }
        let n_blobs = self.blobs_before(values, call, node);
        let mut writer = CallWriter::of_values(&self.settings, values, types, call);
        writer.n_blobs = n_blobs;
        writer.value(node, out);
        self.failure = self.failure.take().or(writer.failure);
    }

    fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }
}
