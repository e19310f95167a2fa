//! Prints differences as text for people, and as JSON for programs.

use super::{At, Difference, Show, Summary};
use crate::decode::Header;
use crate::print::json::JsonPrinter;
use crate::print::text::{Ink, decimal};
use crate::print::{CallPrinter, one_value};
use quipu_model::print::Ordinals;
use quipu_model::trace::PrintOptions;
use quipu_model::values::NO_NODE;
use quipu_model::{Error, ErrorKind, Given, Paint, Printer, Result};
use std::collections::VecDeque;
use std::io::{self, Write};

/// Indexes of the two traces.
const OLD: usize = 0;
const NEW: usize = 1;

/// Options of a printer that writes each call on one line.
fn one_line() -> PrintOptions {
    let given = Given::from([("multiline", "no"), ("call-nos", "no"), ("strings", "whole")]);
    PrintOptions { verbose: true, given, ..PrintOptions::default() }
}

#[cold]
fn failed(cause: io::Error) -> Error {
    // The caller recognises a closed pipe by the cause.
    Error::new(ErrorKind::Io, "cannot write the differences").because(cause)
}

/// Text: `-` and `+` before calls that are in one trace only; `|` before calls that differ, with `old -> new` for each
/// difference; and some equal calls as context.
pub struct Text<'o> {
    out: &'o mut dyn Write,
    ink: Ink,
    /// One printer for each trace, because each trace numbers its functions independently.
    printers: [CallPrinter; 2],
    /// Number of equal calls still to be shown after the last difference, and its maximum.
    left: u64,
    context: u64,
    /// Equal calls not shown yet; they become context if a difference follows.
    before: VecDeque<Vec<u8>>,
    n_hidden: u64,
    line: Vec<u8>,
}

impl<'o> Text<'o> {
    /// Creates the printer and writes the names of the traces.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn new(out: &'o mut dyn Write, paint: &Paint, context: u64, names: [&str; 2]) -> Result<Text<'o>> {
        let printer = || CallPrinter::new(&Header::default(), &one_line());
        writeln!(out, "--- {}\n+++ {}", names[0], names[1]).map_err(failed)?;
        Ok(Text {
            out,
            ink: Ink::of(paint),
            printers: [printer()?, printer()?],
            left: 0,
            context,
            before: VecDeque::new(),
            n_hidden: 0,
            line: Vec::new(),
        })
    }

    /// Appends a call of the trace with this index to the line.
    fn put(&mut self, trace: usize, at: At<'_>) {
        self.printers[trace].print(at.batch, &[at.row], Ordinals::default(), &Paint::PLAIN, &mut self.line);
    }

    fn number(&mut self, at: At<'_>) {
        if let Some(side) = at.side() {
            decimal(side.call.number, &mut self.line);
            self.line.push(b' ');
        }
    }

    /// Writes the current line, after the equal calls before it.
    fn difference(&mut self) -> Result<()> {
        let n_hidden = self.n_hidden - self.before.len() as u64;
        if n_hidden > 0 {
            let calls = if n_hidden == 1 { "equal call" } else { "equal calls" };
            writeln!(self.out, "@@ {n_hidden} {calls} @@").map_err(failed)?;
        }
        for line in self.before.drain(..) {
            self.out.write_all(&line).map_err(failed)?;
        }
        self.n_hidden = 0;
        self.left = self.context;
        self.out.write_all(&self.line).map_err(failed)?;
        self.line.clear();
        Ok(())
    }

    /// Writes a call that is in one trace only.
    fn single(&mut self, trace: usize, at: At<'_>) -> Result<()> {
        let (sign, ink) = [(b'-', self.ink.red), (b'+', self.ink.green)][trace];
        self.line.extend_from_slice(ink);
        self.line.extend_from_slice(&[sign, b' ']);
        self.number(at);
        self.put(trace, at);
        if !ink.is_empty() {
            self.line.pop();
            self.line.extend_from_slice(self.ink.normal);
            self.line.push(b'\n');
        }
        self.difference()
    }

    /// Appends the old and the new value to the line.
    fn values(&mut self, old: (At<'_>, Option<u32>), new: (At<'_>, Option<u32>)) {
        let text = |(at, node): (At<'_>, Option<u32>)| {
            let mut text = Vec::new();
            match node {
                Some(node) => one_value(&at.batch.values, &at.batch.types, node, &mut text),
                None => text.push(b'?'),
            }
            text
        };
        let (old, new) = (text(old), text(new));
        for (text, ink, behind) in [(&old, self.ink.red, &b" -> "[..]), (&new, self.ink.green, b"")] {
            self.line.extend_from_slice(ink);
            self.line.extend_from_slice(text);
            if !ink.is_empty() {
                self.line.extend_from_slice(self.ink.normal);
            }
            self.line.extend_from_slice(behind);
        }
        if old == new {
            self.line.extend_from_slice(b" (not the same one)");
        }
    }
}

impl Show for Text<'_> {
    fn property(&mut self, name: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Result<()> {
        let quoted = |text: &[u8]| serde_json::Value::from(String::from_utf8_lossy(text)).to_string();
        let name = String::from_utf8_lossy(name);
        let (sign, ink, text) = match (old, new) {
            (Some(old), Some(new)) => ("| ", self.ink.normal, format!("{} -> {}", quoted(old), quoted(new))),
            (Some(old), None) => ("- ", self.ink.red, quoted(old)),
            (None, Some(new)) => ("+ ", self.ink.green, quoted(new)),
            (None, None) => return Ok(()),
        };
        self.line.extend_from_slice(ink);
        self.line.extend_from_slice(format!("{sign}property {name} = {text}").as_bytes());
        self.line.extend_from_slice(self.ink.normal);
        self.line.push(b'\n');
        self.out.write_all(&self.line).map_err(failed)?;
        self.line.clear();
        Ok(())
    }

    fn same(&mut self, old: At<'_>, new: At<'_>) -> Result<()> {
        self.n_hidden += 1;
        if self.context == 0 {
            return Ok(());
        }
        if self.left == 0 && self.before.len() as u64 == self.context {
            self.before.pop_front();
        }
        self.line.extend_from_slice(b"  ");
        self.number(old);
        self.number(new);
        self.put(NEW, new);
        if self.left > 0 {
            self.left -= 1;
            self.n_hidden = 0;
            self.out.write_all(&self.line).map_err(failed)?;
            self.line.clear();
        } else {
            self.before.push_back(std::mem::take(&mut self.line));
        }
        Ok(())
    }

    fn changed(&mut self, old: At<'_>, new: At<'_>, difference: &Difference) -> Result<()> {
        let (Some(a), Some(b)) = (old.side(), new.side()) else { return Ok(()) };
        self.line.extend_from_slice(b"| ");
        self.number(old);
        self.number(new);
        self.line.extend_from_slice(new.name());
        self.line.push(b'(');
        let names = b.types.function(b.call.function).map_or(&[][..], |function| &function.args);
        let node = |side: &super::CallSide<'_>, index| {
            side.values.args_of(side.call).iter().find(|arg| arg.index == index).map(|arg| arg.node)
        };
        let last =
            |side: &super::CallSide<'_>| side.values.args_of(side.call).last().map_or(0, |arg| arg.index + 1);
        let n_args = last(&a).max(last(&b)).max(names.len() as u32);
        for index in 0..n_args {
            if index > 0 {
                self.line.extend_from_slice(b", ");
            }
            if let Some(name) = names.get(index as usize) {
                self.line.extend_from_slice(name);
                self.line.extend_from_slice(b" = ");
            }
            if difference.args.contains(&index) {
                self.values((old, node(&a, index)), (new, node(&b, index)));
            } else if let Some(node) = node(&b, index) {
                one_value(b.values, b.types, node, &mut self.line);
            } else {
                self.line.push(b'?');
            }
        }
        self.line.push(b')');
        let result = |node| (node != NO_NODE).then_some(node);
        if difference.result {
            self.line.extend_from_slice(b" = ");
            self.values((old, result(a.call.result)), (new, result(b.call.result)));
        } else if let Some(node) = result(b.call.result) {
            self.line.extend_from_slice(b" = ");
            one_value(b.values, b.types, node, &mut self.line);
        }
        if difference.completion {
            let returned = a.call.flags & crate::record::INCOMPLETE == 0;
            let words: &[u8] =
                if returned { b" // returned -> incomplete" } else { b" // incomplete -> returned" };
            self.line.extend_from_slice(words);
        }
        if difference.fake {
            let is_fake = a.call.flags & crate::record::FAKE != 0;
            let words: &[u8] = if is_fake { b" // fake -> real" } else { b" // real -> fake" };
            self.line.extend_from_slice(words);
        }
        self.line.push(b'\n');
        self.difference()
    }

    fn deleted(&mut self, old: At<'_>) -> Result<()> {
        self.single(OLD, old)
    }

    fn inserted(&mut self, new: At<'_>) -> Result<()> {
        self.single(NEW, new)
    }

    fn end(&mut self, summary: &Summary) -> Result<()> {
        let Summary { same, changed, deleted, inserted, properties, .. } = summary;
        if self.n_hidden > 0 && !summary.is_same() {
            let calls = if self.n_hidden == 1 { "equal call" } else { "equal calls" };
            writeln!(self.out, "@@ {} {calls} @@", self.n_hidden).map_err(failed)?;
        }
        let properties = match properties {
            0 => String::new(),
            1 => "; 1 property differs".to_owned(),
            n => format!("; {n} properties differ"),
        };
        writeln!(
            self.out,
            "{same} equal, {changed} changed, {deleted} only in the old, {inserted} only in the new{properties}"
        )
        .map_err(failed)
    }
}

/// JSON, one object a line. Keys: `op` (`property`, `changed`, `deleted`, `inserted`, at the end `summary`), `old` and `new`
/// (calls, as `quipu view --json` writes them), `args` (names or indexes of arguments that differ), `result`, `completion`,
/// `fake` (whether they differ). A `property` has `name`, and `old` and `new` (text, or `null` if missing); the summary has
/// `same`, `changed`, `deleted`, `inserted`, `properties`.
pub struct Json<'o> {
    out: &'o mut dyn Write,
    printer: JsonPrinter,
    line: Vec<u8>,
}

impl<'o> Json<'o> {
    /// Creates the printer.
    ///
    /// # Errors
    /// None at present.
    pub fn new(out: &'o mut dyn Write) -> Result<Json<'o>> {
        Ok(Json { out, printer: JsonPrinter::new(&PrintOptions::default())?, line: Vec::new() })
    }

    fn call(&mut self, key: &str, at: At<'_>) {
        self.line.extend_from_slice(format!(",\"{key}\":").as_bytes());
        self.printer.print(at.batch, &[at.row], Ordinals::default(), &Paint::PLAIN, &mut self.line);
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
    }

    fn begin(&mut self, op: &str) {
        self.line.clear();
        self.line.extend_from_slice(format!("{{\"op\":\"{op}\"").as_bytes());
    }

    fn finish(&mut self) -> Result<()> {
        self.line.extend_from_slice(b"}\n");
        self.out.write_all(&self.line).map_err(failed)
    }
}

impl Show for Json<'_> {
    fn property(&mut self, name: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Result<()> {
        self.begin("property");
        for (key, value) in [("name", Some(name)), ("old", old), ("new", new)] {
            let value = serde_json::Value::from(value.map(String::from_utf8_lossy));
            self.line.extend_from_slice(format!(",\"{key}\":{value}").as_bytes());
        }
        self.finish()
    }

    fn same(&mut self, _: At<'_>, _: At<'_>) -> Result<()> {
        Ok(())
    }

    fn changed(&mut self, old: At<'_>, new: At<'_>, difference: &Difference) -> Result<()> {
        self.begin("changed");
        self.call("old", old);
        self.call("new", new);
        let names =
            new.side().and_then(|side| side.types.function(side.call.function)).map(|known| &known.args);
        let args: Vec<serde_json::Value> = difference
            .args
            .iter()
            .map(|index| match names.and_then(|names| names.get(*index as usize)) {
                Some(name) => String::from_utf8_lossy(name).into(),
                None => (*index).into(),
            })
            .collect();
        let args = serde_json::Value::from(args);
        let Difference { result, completion, fake, .. } = difference;
        let rest =
            format!(",\"args\":{args},\"result\":{result},\"completion\":{completion},\"fake\":{fake}");
        self.line.extend_from_slice(rest.as_bytes());
        self.finish()
    }

    fn deleted(&mut self, old: At<'_>) -> Result<()> {
        self.begin("deleted");
        self.call("old", old);
        self.finish()
    }

    fn inserted(&mut self, new: At<'_>) -> Result<()> {
        self.begin("inserted");
        self.call("new", new);
        self.finish()
    }

    fn end(&mut self, summary: &Summary) -> Result<()> {
        let Summary { same, changed, deleted, inserted, properties, .. } = summary;
        self.begin("summary");
        let rest = format!(
            ",\"same\":{same},\"changed\":{changed},\"deleted\":{deleted},\"inserted\":{inserted},\"properties\":{properties}"
        );
        self.line.extend_from_slice(rest.as_bytes());
        self.finish()
    }
}
