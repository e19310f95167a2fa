//! Compares dumps line by line, as apitrace does with the help of `diff`.
//!
//! The dumps omit the names of arguments, and have numbers of calls only on request, so that only what calls do is compared.
//! Each line is hashed, the hashes are aligned, and both dumps are made a second time to print the differences.

use super::{begun, ended};
use crate::print::CallPrinter;
use crate::reader::CallReader;
use crate::table::CALLS_TABLE;
use crate::trace::ApiTrace;
use quipu_model::align::{Run, align};
use quipu_model::damaged::Reading;
use quipu_model::print::Ordinals;
use quipu_model::trace::{PrintOptions, settled};
use quipu_model::{Error, ErrorKind, Found, Given, Paint, Printer, Reader, Result, Scan, ShardId};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::io::Write;

/// Options of the comparison and its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineForm {
    /// Whether lines begin with the number of their call, which is then compared too.
    pub call_nos: bool,
    /// Whether lines that both dumps have are omitted.
    pub suppress_common_lines: bool,
}

/// Writes the lines of two dumps: `- ` before lines of the old one only, `+ ` before those of the new one only, two blanks
/// before common lines unless they are omitted. Returns the outcome of reading each trace; if either could not be read to its
/// end, nothing is compared.
///
/// # Errors
/// Errors of opening and writing; `Usage` if a set of calls is malformed.
pub fn diff_lines(
    traces: [&ApiTrace; 2],
    calls: [&str; 2],
    form: LineForm,
    out: &mut dyn Write,
) -> Result<[Reading; 2]> {
    let hashes = |side: usize| settled(traces[side], || false, || hashes(traces[side], calls[side], form));
    let ((olds, old_reading), (news, new_reading)) = (hashes(0)?, hashes(1)?);
    let readings = [old_reading, new_reading];
    if readings.iter().any(|reading| reading.error.is_some()) {
        return Ok(readings);
    }
    let runs = align(&olds, &news);
    let (mut old, mut new) = (Lines::new(traces[0], calls[0], form)?, Lines::new(traces[1], calls[1], form)?);
    let mut put = |sign: &[u8], line: Option<&[u8]>| -> Result<()> {
        let line = line.ok_or_else(|| Error::truncated("the trace changed while it was read"))?;
        let write =
            out.write_all(sign).and_then(|()| out.write_all(line)).and_then(|()| out.write_all(b"\n"));
        write.map_err(|cause| Error::new(ErrorKind::Io, "cannot write the differences").because(cause))
    };
    for run in runs {
        match run {
            Run::Equal(n) => {
                for _ in 0..n {
                    new.next()?;
                    let line = old.next()?;
                    if !form.suppress_common_lines {
                        put(b"  ", line)?;
                    }
                }
            }
            Run::Delete(n) => {
                for _ in 0..n {
                    put(b"- ", old.next()?)?;
                }
            }
            Run::Insert(n) => {
                for _ in 0..n {
                    put(b"+ ", new.next()?)?;
                }
            }
        }
    }
    Ok(readings)
}

/// Hashes of the lines of a dump, and the outcome of reading it.
fn hashes(trace: &ApiTrace, calls: &str, form: LineForm) -> Result<(Vec<u64>, Reading)> {
    let mut lines = Lines::new(trace, calls, form)?;
    lines.found = begun(trace);
    let mut hashes = Vec::new();
    let error = loop {
        match lines.next() {
            Ok(Some(line)) => {
                let mut hasher = FxHasher::default();
                line.hash(&mut hasher);
                hashes.push(hasher.finish());
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    Ok((hashes, ended(lines.found, error)))
}

/// The lines of a dump, one by one.
struct Lines {
    reader: CallReader,
    printer: CallPrinter,
    text: Vec<u8>,
    at: usize,
    is_over: bool,
    /// Findings so far.
    found: Found,
}

impl Lines {
    fn new(trace: &ApiTrace, calls: &str, form: LineForm) -> Result<Lines> {
        let call_nos = if form.call_nos { "yes" } else { "no" };
        let given = Given::from([("arg-names", "no"), ("call-nos", call_nos), ("calls", calls)]);
        let options = PrintOptions { given, ..PrintOptions::default() };
        let scan = Scan { tables: vec![CALLS_TABLE], ..Scan::new(ShardId(0)) };
        Ok(Lines {
            reader: CallReader::new(trace.sound(), &scan)?,
            printer: CallPrinter::new(trace.header(), &options)?,
            text: Vec::new(),
            at: 0,
            is_over: false,
            found: Found::default(),
        })
    }

    fn next(&mut self) -> Result<Option<&[u8]>> {
        while self.at >= self.text.len() && !self.is_over {
            self.text.clear();
            self.at = 0;
            let batch = if self.printer.is_done() { None } else { self.reader.read()? };
            match batch {
                Some(batch) => {
                    batch.findings.drain(..).for_each(|finding| self.found.push(finding));
                    let rows: Vec<u32> = (0..batch.span.records).collect();
                    self.printer.print(batch, &rows, Ordinals::default(), &Paint::PLAIN, &mut self.text);
                }
                None => {
                    self.printer.end(&mut self.text);
                    self.is_over = true;
                }
            }
        }
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.at += end + 1;
        Ok(Some(&rest[..end]))
    }
}
