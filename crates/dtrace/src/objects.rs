//! The consumer's records as one JSON object, with each record on a line of its own.
//!
//! SPEC: dtrace.md#json

use crate::consumer::Consumer;
use crate::describe::{Capture, Rec};
use crate::format::{Amount, Piece};
use crate::json;
use crate::plan::{Op, Shown};
use crate::walk::Firing;
use crate::{messages, typed};
use quipu_model::Result;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Writes the object of a capture: `{"dtrace": {"probes": […], "aggregations": […]}}`.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// Whether the current list has an element.
    has_element: bool,
}

impl Listed {
    /// Begins the object and the list of probes, with the drops.
    pub(crate) fn begin(&mut self, capture: &Capture, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"dtrace\":{\"probes\":[");
        for drop in messages::dropped(capture) {
            self.element(&json::drop(&drop), out);
        }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Returns the same errors as printing its text.
    pub(crate) fn firing(
        &mut self,
        consumer: &mut Consumer,
        firing: &Firing<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (object, result) = consumer.object(firing);
        if let Some(object) = object {
            self.element(&object, out);
        }
        result
    }

    /// Ends the object, with the aggregations that no record printed. `None` leaves these out, for runs that did not process
    /// all records.
    pub(crate) fn end(&mut self, consumer: Option<&mut Consumer>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\n],\"aggregations\":[");
        self.has_element = false;
        for aggregation in consumer.map(Consumer::unprinted).unwrap_or_default() {
            self.element(&aggregation, out);
        }
        out.extend_from_slice(if self.has_element { b"\n]}}\n" } else { b"]}}\n" });
    }

    fn element(&mut self, object: &Json, out: &mut Vec<u8>) {
        let has_one = std::mem::replace(&mut self.has_element, true);
        out.extend_from_slice(if has_one { b",\n" } else { b"\n" });
        out.extend_from_slice(object.to_string().as_bytes());
    }
}

impl Consumer {
    /// A record as an object, if it prints anything; and an error if the object is incomplete.
    fn object(&mut self, firing: &Firing<'_>) -> (Option<Json>, Result<()>) {
        let plans = Arc::clone(&self.plans);
        let Some(plan) = plans.get(firing.record.position as usize).filter(|plan| !plan.is_silent) else {
            return (None, Ok(()));
        };
        let mut object = json::firing(&self.capture, firing);
        if plan.is_error && self.is_error_probe(firing.probe) {
            let mut message = Vec::new();
            messages::error(&self.capture, firing, &mut message);
            object.insert("error".to_owned(), String::from_utf8_lossy(message.trim_ascii_end()).into());
            return (Some(Json::Object(object)), Ok(()));
        }
        self.turn_host(firing.record.enabling.host);
        let mut output = Vec::new();
        let mut fault = None;
        for op in &plan.ops {
            let (recs, bytes) = (&firing.record.enabling.recs, firing.record.bytes);
            if let Err(message) = self.output(op, recs, bytes, &mut output) {
                fault.get_or_insert(message);
            }
        }
        object.insert("output".to_owned(), Json::Array(output));
        (Some(Json::Object(object)), fault.map_or(Ok(()), |message| Err(self.fault(firing, message))))
    }

    /// An object for each aggregation that no record has printed.
    fn unprinted(&mut self) -> Vec<Json> {
        self.turn_host(0);
        self.aggregates.settle();
        let all = self.aggregates();
        let variables: BTreeSet<u64> = all.entries().map(|entry| entry.variable).collect();
        let rest = variables.into_iter().filter(|variable| !all.is_printed(*variable));
        rest.map(|variable| json::aggregation(&self.capture, &self.settings, all, variable)).collect()
    }

    fn output(&mut self, op: &Op, recs: &[Rec], bytes: &[u8], to: &mut Vec<Json>) -> Result<(), String> {
        let capture = Arc::clone(&self.capture);
        let part = |at: &usize| (&recs[*at], recs[*at].of(bytes));
        match op {
            Op::Trace(at) => {
                let (rec, value) = part(at);
                to.push(json::value(&capture, rec, value));
            }
            Op::Typed(..) | Op::Print(..) => {
                let mut text = Vec::new();
                match op {
                    Op::Typed(at, ty)
                        if typed::classic(
                            &capture,
                            self.words().locale,
                            ty,
                            recs[*at].of(bytes),
                            &mut text,
                        ) => {}
                    Op::Typed(at, _) => {
                        let (rec, value) = part(at);
                        to.push(json::value(&capture, rec, value));
                        return Ok(());
                    }
                    _ => self.op(op, recs, bytes, &mut text)?,
                }
                to.push(json::typed(&text));
            }
            Op::Printf(format, parts) => {
                let mut text = Vec::new();
                let result = self.printf(format, &recs[parts.clone()], bytes, &mut text);
                to.push(json::message(&text));
                let mut values = recs[parts.clone()].iter().take(format.n_args);
                for piece in &format.pieces {
                    let Piece::Conversion(of) = piece else { continue };
                    let amounts = [of.width, of.precision].into_iter().filter(|of| *of == Amount::Argument);
                    to.extend(
                        values
                            .by_ref()
                            .take(amounts.count())
                            .map(|rec| json::value(&capture, rec, rec.of(bytes))),
                    );
                    let words = self.words();
                    let shown =
                        values.next().map(|rec| json::argument(&capture, words, *of, rec, rec.of(bytes)));
                    to.extend(shown);
                }
                return result;
            }
            Op::Shown(what, format, parts) => {
                let mut text = Vec::new();
                let result = self.printf(format, &recs[parts.clone()], bytes, &mut text);
                let name = match what {
                    Shown::System => "system",
                    Shown::Freopen => "freopen",
                };
                to.push(json::text(name, &text));
                return result;
            }
            Op::Printa(_, parts) => {
                self.aggregates.settle();
                for rec in &recs[parts.clone()] {
                    let variable = capture.order.number(rec.of(bytes));
                    to.push(json::aggregation(&capture, &self.settings, self.aggregates(), variable));
                    self.aggregates.set_printed(variable);
                }
            }
            Op::Tracemem(at) => {
                let all = recs[*at].of(bytes);
                let n = self.dump_length(all.len());
                to.push(json::named("tracemem", &all[..n]));
            }
            Op::Printm(at) => to.push(json::named("printm", recs[*at].of(bytes).get(8..).unwrap_or(&[]))),
            Op::Stack(at) => {
                let (rec, value) = part(at);
                to.push(json::stack(&capture, rec, value));
            }
            Op::Symbol(at) => {
                let (rec, value) = part(at);
                to.push(json::symbol(&capture, rec, value));
            }
            Op::Exit(_) | Op::Library(..) | Op::Size(_) | Op::Speculation | Op::Fault(_) => {
                return self.op(op, recs, bytes, &mut Vec::new());
            }
        }
        Ok(())
    }
}
