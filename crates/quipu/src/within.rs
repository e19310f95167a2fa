//! Traces inside a carrier: damage to the carrier counts as damage to the trace.

use crate::Carrier;
use quipu_model::print::{Printer, RowForm};
use quipu_model::schema::Schema;
use quipu_model::trace::{CoreForm, PrintOptions, Surveyed};
use quipu_model::{
    Columns, Error, Finding, Format, Found, Meta, Module, OpenOptions, Reader, Result, Rounds, Scan, Shard,
    Trace, Window,
};
use quipu_source::Source;
use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Findings about a carrier, without those that reading the trace has reported in `found` or `error`.
pub(crate) fn others(carrier: &[Finding], found: &[Finding], error: Option<&Error>) -> Vec<Finding> {
    let mut others = Finding::not_met(carrier, found);
    if let Some(error) = error {
        others = Finding::not_met(&others, error.findings());
        others.retain(|finding| !error.is_same_fault(finding));
    }
    others
}

/// Combines findings about a carrier with those of reading the carried trace, whose reader knows more about the losses. The
/// trace is read only if the carrier is damaged.
pub(crate) fn with_trace(
    of_carrier: Vec<Finding>,
    format: &'static dyn Format,
    source: &Source,
    opening: &OpenOptions,
) -> Vec<Finding> {
    match of_carrier.iter().any(Finding::is_damage) {
        true => with_all(&of_carrier, format, source, opening),
        false => of_carrier,
    }
}

/// Does the same, but always reads the trace.
pub(crate) fn with_all(
    of_carrier: &[Finding],
    format: &'static dyn Format,
    source: &Source,
    opening: &OpenOptions,
) -> Vec<Finding> {
    let mut found = Found::default();
    let opening = OpenOptions { format: Some(format.info().name.to_owned()), ..opening.clone() };
    let read = format.open(source, &opening).and_then(|trace| {
        trace.meta().findings.iter().cloned().for_each(|finding| found.push(finding));
        trace.shards().iter().try_for_each(|shard| {
            let mut reader = trace.scan(&Scan::new(shard.id).columns(trace.columns()))?;
            found.read(&mut *reader, |_| Ok(()))
        })
    });
    let end = read.err().filter(Error::is_damage);
    let found = found.into_vec();
    let mut all = others(of_carrier, &found, None);
    all.extend(found);
    if let Some(end) = end {
        match all.iter().position(|finding| end.is_same_fault(finding)) {
            Some(at) => all[at] = all[at].clone().met_at_end(&end),
            None => all.push(Finding::of_end(&end)),
        }
    }
    all
}

impl Carrier {
    /// Reads the whole carrier and returns all findings about it.
    fn survey(&self) -> Result<Vec<Finding>> {
        Ok(self.format.describe(&self.source, &OpenOptions::default())?.findings)
    }
}

/// A trace with a carrier.
pub(crate) struct Within {
    trace: Box<dyn Trace>,
    carrier: Carrier,
    /// The format and the bytes of the trace.
    format: &'static dyn Format,
    source: Source,
    meta: Meta,
}

impl Within {
    /// Adds the findings about the carrier to those of opening the trace.
    pub(crate) fn new(
        trace: Box<dyn Trace>,
        carrier: &Carrier,
        format: &'static dyn Format,
        source: &Source,
    ) -> Within {
        let mut meta = trace.meta().clone();
        let more = others(&carrier.findings, &meta.findings, None);
        meta.findings.splice(0..0, more);
        Within { trace, carrier: carrier.clone(), format, source: source.clone(), meta }
    }
}

impl Trace for Within {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        self.trace.shards()
    }

    fn columns(&self) -> Columns {
        self.trace.columns()
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        self.trace.tables()
    }

    fn learn(&self) -> Result<()> {
        self.trace.learn()
    }

    fn modules(&self) -> Vec<Module> {
        self.trace.modules()
    }

    fn details(&self, table: usize) -> Range<usize> {
        self.trace.details(table)
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        self.trace.scan(scan)
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        self.trace.printer(options)
    }

    fn narrow(&self, options: &PrintOptions) -> Result<Window> {
        self.trace.narrow(options)
    }

    fn json_printer(&self, options: &PrintOptions) -> Result<Option<Box<dyn Printer>>> {
        self.trace.json_printer(options)
    }

    fn row_form(&self, options: &PrintOptions) -> Result<Option<Box<dyn RowForm>>> {
        self.trace.row_form(options)
    }

    /// The headers of the carried trace say nothing about the frames of the carrier.
    fn survey(&self, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        let mut surveyed = self.trace.survey(is_cancelled);
        match self.carrier.survey() {
            Ok(all) => {
                let opening = OpenOptions::default();
                let all = with_trace(all, self.format, &self.source, &opening);
                let more = others(&all, &surveyed.findings, surveyed.error.as_ref());
                surveyed.findings.splice(0..0, more);
            }
            Err(error) => drop(surveyed.error.get_or_insert(error)),
        }
        surveyed
    }

    fn as_any(&self) -> Option<&dyn Any> {
        self.trace.as_any()
    }

    fn origin(&self) -> Option<&dyn Trace> {
        self.trace.origin()
    }

    fn by_core(&self) -> Result<Box<dyn Trace>> {
        Ok(Box::new(Within::new(self.trace.by_core()?, &self.carrier, self.format, &self.source)))
    }

    fn rounds(&self, scan: &Scan) -> Result<Option<Box<dyn Rounds + '_>>> {
        self.trace.rounds(scan)
    }

    fn core_form(&self) -> Option<&'static dyn CoreForm> {
        self.trace.core_form()
    }

    fn n_delivered_damaged(&self) -> u64 {
        self.trace.n_delivered_damaged()
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        self.trace.mark_name(kind)
    }
}
