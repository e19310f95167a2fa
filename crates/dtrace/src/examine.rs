//! Finds faults in the buffers of a capture once, when it is loaded, so that all verbs report the same.

use crate::aggregate::Records;
use crate::buffer::Cursor;
use crate::consumer::{Consumer, Style};
use crate::describe::{Buffer, Capture, Dialect};
use crate::messages;
use crate::rules;
use crate::types::Type;
use crate::walk::{Step, Walk};
use quipu_model::loss::Amount;
use quipu_model::{Error, Finding, Loss, Place};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of faults of buffers or samples that are reported one by one.
pub(crate) const MAX_FAULTS: u64 = 100;

/// Alignment of records whose enablings do not need a larger one, in bytes.
const ALIGNMENT: u32 = 8;

/// Adds findings to a capture: drops, then faults of its buffers.
pub(crate) fn all(capture: &mut Capture, file: &str) {
    let place = || Place { file: Some(file.to_owned()), ..Place::default() };
    let mut findings: Vec<Finding> = Vec::new();
    for drop in messages::dropped(capture) {
        let loss = Loss { records: Amount::known(Some(drop.n)), ..Loss::from(place()) };
        findings.push(rules::DROPS.broken(place(), drop.message).losing(loss).stated());
    }
    // Further losses are summed up in one finding, which comes first, because only the first findings of each rule are printed.
    let (shown, more) = capture.lost.split_at(capture.lost.len().min(MAX_FAULTS as usize));
    if !more.is_empty() {
        let records = more.iter().map(|lost| Amount::known(lost.records)).reduce(Amount::plus);
        let loss = Loss { records: records.unwrap_or_default(), ..Loss::from(place()) };
        let message = format!("`{}` more losses are declared, beside the first `{MAX_FAULTS}`", more.len());
        findings.push(rules::LOST.broken(place(), message).losing(loss).stated());
    }
    findings.extend(shown.iter().map(|lost| lost.finding(place())));
    let (mut n_faults, first) = (0, findings.len());
    faults(capture, &mut |error| {
        n_faults += 1;
        if n_faults <= MAX_FAULTS {
            findings.push(rules::finding(&error));
        }
    });
    if n_faults > MAX_FAULTS {
        let n_more = n_faults - MAX_FAULTS;
        let message =
            format!("`{n_more}` more buffers or samples cannot be read on, beside the first `{MAX_FAULTS}`");
        findings.insert(first, rules::UNKNOWN.broken(place(), message));
    }
    if capture.dialect != Dialect::Linux {
        findings.extend(cleared(capture));
    }
    findings.extend(hosts(capture, file));
    findings.extend(unprintable(capture, file));
    // Values of these types are printed to a limited depth.
    let endless = capture.types.endless().into_iter().take(MAX_FAULTS as usize);
    let message = |of: &Type| format!("the type `{}` ({}) contains itself", of.name, of.id);
    findings.extend(endless.map(|of| rules::FORMAT.broken(place(), message(of))));
    capture.findings.append(&mut findings);
}

/// Reports options of hosts that cannot apply to each of them.
fn hosts(capture: &Capture, file: &str) -> Option<Finding> {
    let has_aggregations = !capture.aggregations.is_empty();
    let others =
        capture.hosts.iter().map(|host| capture.settings.differences(&host.settings, has_aggregations));
    let others: Vec<Vec<&str>> = others.filter(|names| !names.is_empty()).collect();
    let names: BTreeSet<String> = others.iter().flatten().map(|name| format!("`{name}`")).collect();
    let message = format!(
        "`{}` of `{}` hosts have other options than the first for what is of all hosts: {}; those of the first are used",
        others.len(),
        capture.hosts.len() + 1,
        names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    );
    let place = Place { file: Some(file.to_owned()), ..Place::default() };
    (!others.is_empty()).then(|| rules::HOSTS.broken(place, message))
}

/// Reports enablings whose records cannot be printed as described: tries each once, with a record of zeros.
fn unprintable(capture: &mut Capture, file: &str) -> Vec<Finding> {
    let shared = Arc::new(std::mem::take(capture));
    let mut findings = Vec::new();
    let mut consumer = Consumer::new(&shared, Style::default());
    for (enabling, message) in shared.enablings.iter().filter_map(|of| Some((of, consumer.fault_of(of)?))) {
        let what = if shared.dialect == Dialect::Linux { "statement" } else { "EPID" };
        let place = Place { file: Some(file.to_owned()), ..Place::default() };
        findings.push(rules::FORMAT.broken(place, format!("{what} {}: {message}", enabling.id)));
        if findings.len() as u64 >= MAX_FAULTS {
            break;
        }
    }
    drop(consumer);
    *capture = Arc::unwrap_or_clone(shared);
    findings
}

/// Reports the reasons why buffers of aggregations, then those of records, cannot be read to their ends.
fn faults(capture: &Capture, found: &mut dyn FnMut(Error)) {
    for buffer in &capture.states {
        let mut records = Records::new(capture, buffer);
        loop {
            match records.next_record() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    found(error);
                    break;
                }
            }
        }
    }
    if capture.dialect == Dialect::Linux {
        // Samples have no buffers of their own, and a walk accepts any order of them.
        let Ok(mut walk) = Walk::new(capture) else { return };
        while let Some(step) = walk.next_step(capture) {
            if let Step::Fault(error) = step {
                found(error);
            }
        }
        return;
    }
    for buffer in &capture.buffers {
        let mut cursor = Cursor::new(buffer);
        loop {
            match cursor.next_record(capture, buffer) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    found(error);
                    break;
                }
            }
        }
    }
}

/// The longest part of a range outside known gaps.
fn longest_gap(range: Range<usize>, known: &[Range<usize>]) -> Option<Range<usize>> {
    let first = known.partition_point(|one| one.end <= range.start);
    let within = known[first..].iter().take_while(|one| one.start < range.end);
    let ends = within.clone().map(|one| one.start).chain([range.end]);
    let starts = std::iter::once(range.start).chain(within.map(|one| one.end));
    starts.zip(ends).map(|(start, end)| start..end.max(start)).max_by_key(Range::len)
}

/// Reports words of zeros before records that alignment does not explain. Zeros at the end of a buffer, and before the
/// oldest record of a ring, were cleared by the kernel and are not reported.
fn cleared(capture: &Capture) -> Vec<Finding> {
    let mut gaps = Gaps::default();
    for buffer in &capture.buffers {
        each_cleared(capture, buffer, &mut |gap, _| gaps.add(buffer, gap));
    }
    // Buffers of aggregations are not rings.
    for buffer in &capture.states {
        let (mut records, mut end) = (Records::new(capture, buffer), 0);
        while let Ok(Some((_, record))) = records.next_record() {
            let start = std::mem::replace(&mut end, records.offset());
            if let Some(gap) = cleared_before(buffer, start..end - record.len(), ALIGNMENT) {
                gaps.add(buffer, gap);
            }
        }
    }
    gaps.finish()
}

/// Calls `found` with each such range in a buffer of records, and the offset of the record after it.
pub(crate) fn each_cleared(capture: &Capture, buffer: &Buffer, found: &mut dyn FnMut(Range<usize>, usize)) {
    let (mut cursor, mut end) = (Cursor::new(buffer), buffer.oldest);
    while let Ok(Some(record)) = cursor.next_record(capture, buffer) {
        // The newer part of a ring begins at 0.
        let start = if record.offset < end { 0 } else { end };
        end = cursor.offset();
        if let Some(gap) = cleared_before(buffer, start..record.offset, record.enabling.align) {
            found(gap, record.offset);
        }
    }
}

/// The zeros before a record that its alignment does not explain, if there are any.
fn cleared_before(buffer: &Buffer, range: Range<usize>, align: u32) -> Option<Range<usize>> {
    longest_gap(range, &buffer.gaps).filter(|gap| gap.len() as u64 >= u64::from(align.max(ALIGNMENT)))
}

/// Gaps between records: the first ones separately, the others as a sum.
#[derive(Default)]
struct Gaps {
    findings: Vec<Finding>,
    n_more: u64,
    n_bytes: u64,
    /// Place of the first of the others.
    first: Option<Place>,
}

impl Gaps {
    fn add(&mut self, buffer: &Buffer, gap: Range<usize>) {
        let n_bytes = gap.len() as u64;
        let place =
            || Place { file: Some(buffer.file.clone()), offset: Some(gap.start as u64), ..Place::default() };
        if self.findings.len() as u64 >= MAX_FAULTS {
            self.first.get_or_insert_with(place);
            (self.n_more, self.n_bytes) = (self.n_more + 1, self.n_bytes + n_bytes);
            return;
        }
        let message =
            format!("`{n_bytes}` zero bytes stand before a record, more than its alignment explains");
        self.findings.push(rules::CLEARED.broken(place(), message));
    }

    fn finish(mut self) -> Vec<Finding> {
        // This finding comes first, because only the first findings of each rule are printed.
        if let Some(first) = self.first {
            let Gaps { n_more, n_bytes, .. } = self;
            let message = format!(
                "`{n_more}` more gaps between records, beside the first `{MAX_FAULTS}`, have `{n_bytes}` bytes"
            );
            self.findings.insert(0, rules::CLEARED.broken(first, message));
        }
        self.findings
    }
}
