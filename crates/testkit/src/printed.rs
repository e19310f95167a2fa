//! Traces as printed for people.

use quipu_model::print::Ordinals;
use quipu_model::trace::PrintOptions;
use quipu_model::{Finding, Paint, Reader, Result, Scan, Trace};

/// The printed records of a scan over the table that people view, without the head, and the findings of the read.
///
/// # Panics
/// If reading fails, or the lines are not UTF-8.
pub fn printed(trace: &dyn Trace, scan: &Scan) -> (Vec<String>, Vec<Finding>) {
    let mut findings = Vec::new();
    match print(trace, scan, &mut findings).map(String::from_utf8) {
        Ok(Ok(text)) => (text.lines().map(str::to_owned).collect(), findings),
        Ok(Err(error)) => panic!("records are printed as no text: {error}"),
        Err(error) => panic!("reading fails: {error}"),
    }
}

fn print(trace: &dyn Trace, scan: &Scan, findings: &mut Vec<Finding>) -> Result<Vec<u8>> {
    let table = trace.tables()?.iter().position(|schema| schema.is_derived()).unwrap_or(0);
    let mut reader: Box<dyn Reader> = trace.scan(&Scan { tables: vec![table], ..scan.clone() })?;
    let mut printer = trace.printer(&PrintOptions::default())?;
    let mut out = Vec::new();
    while let Some(batch) = reader.read()? {
        findings.append(&mut batch.findings);
        let rows: Vec<u32> = (0..batch.span.records).collect();
        printer.print(batch, &rows, Ordinals::default(), &Paint::PLAIN, &mut out);
    }
    Ok(out)
}
