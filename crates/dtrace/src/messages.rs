//! What the consumer says on the error stream: errors in clauses, and drops.
//!
//! SPEC: dtrace.md#errors-and-drops

use crate::describe::{Capture, Dialect};
use crate::put;
use crate::walk::Firing;
use std::io::Write as _;

const FAULTS: [&str; 10] = [
    "unknown fault",
    "invalid address",
    "invalid alignment",
    "illegal operation",
    "divide-by-zero",
    "out of scratch space",
    "invalid kernel access",
    "invalid user access",
    "tuple stack overflow",
    "bad stack",
];

/// Appends the message of a record of the library's own clause.
pub(crate) fn error(capture: &Capture, firing: &Firing<'_>, out: &mut Vec<u8>) {
    let recs = firing.record.enabling.recs.iter();
    let mut words = recs.map(|rec| capture.order.number(rec.of(firing.record.bytes)));
    let mut word = || words.next().unwrap_or(0);
    let (a, b, at, fault, address) = (word(), word(), word(), word(), word());
    let name = FAULTS.get(usize::try_from(fault).unwrap_or(0)).copied().unwrap_or(FAULTS[0]);
    let has_address = matches!(fault, 1 | 2 | 9);
    // Writing to a vector cannot fail.
    if capture.dialect == Dialect::Linux {
        let _ = write!(out, "error in dt_clause_{b} for probe ID {a} (");
        let id = u32::try_from(a).unwrap_or(u32::MAX);
        probe(capture, id, out);
        let _ = write!(out, "): {name}");
        if has_address {
            let _ = write!(out, " ({address:#x})");
        }
        let _ = writeln!(out, " at BPF pc {at}");
        return;
    }
    let epid = u32::try_from(a).unwrap_or(u32::MAX);
    let id = capture.enabling(epid).map_or(0, |(_, enabling)| enabling.probe);
    let _ = write!(out, "error on enabled probe ID {epid} (ID {id}: ");
    probe(capture, id, out);
    let _ = write!(out, "): {name}");
    if has_address {
        let _ = write!(out, " ({address:#x})");
    }
    match b {
        0 => out.extend_from_slice(b" in predicate"),
        _ => {
            out.extend_from_slice(b" in action #");
            put::signed(out, b as i64, 0);
        }
    }
    if at as i64 != -1 {
        let _ = write!(out, " at DIF offset {at}");
    }
    out.push(b'\n');
}

fn probe(capture: &Capture, id: u32, out: &mut Vec<u8>) {
    if let Some(probe) = capture.probes.get(&id) {
        // Writing to a vector cannot fail.
        let _ = write!(out, "{}:{}:{}:{}", probe.provider, probe.module, probe.function, probe.name);
    }
}

/// What was dropped, with the tag and the words for it, and whether it is of a CPU.
pub(crate) fn drops(capture: &Capture) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    let tags = capture.settings.droptags;
    let mut add = |n: u64, tag: &str, what: &str, after: String| {
        if n > 0 {
            let tag = if tags { format!("[DTRACEDROP_{tag}] ") } else { String::new() };
            let plural = if n == 1 { "" } else { "s" };
            all.push((n, format!("{tag}{n} {what}{plural}{after}")));
        }
    };
    for buffer in &capture.states {
        add(buffer.drops, "AGGREGATION", "aggregation drop", format!(" on CPU {}", buffer.cpu));
    }
    for buffer in &capture.buffers {
        add(buffer.drops, "PRINCIPAL", "drop", format!(" on CPU {}", buffer.cpu));
    }
    let status = &capture.status;
    let dynamic = "dynamic variable drop";
    add(status.dyndrops, "DYNAMIC", dynamic, String::new());
    add(status.dyndrops_rinsing, "DYNRINSE", dynamic, " with non-empty rinsing list".to_owned());
    add(status.dyndrops_dirty, "DYNDIRTY", dynamic, " with non-empty dirty list".to_owned());
    add(status.specdrops, "SPEC", "speculative drop", String::new());
    let failed = "failed speculation";
    add(status.specdrops_busy, "SPECBUSY", failed, " (available buffer(s) still busy)".to_owned());
    add(status.specdrops_unavail, "SPECUNAVAIL", failed, " (no speculative buffer available)".to_owned());
    add(status.stkstroverflows, "STKSTROVERFLOW", "jstack()/ustack() string table overflow", String::new());
    add(status.dblerrors, "DBLERROR", "error", " in ERROR probe enabling".to_owned());
    all
}
