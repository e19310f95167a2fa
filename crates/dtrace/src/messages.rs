//! Messages of the consumer on standard error: errors in clauses, and drops.
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

/// Appends the message for a record of the library's own clause.
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

/// A number of dropped items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) n: u64,
    /// The consumer's tag for this kind of drop.
    pub(crate) tag: &'static str,
    pub(crate) message: String,
}

/// The drops of a capture, with the consumer's messages.
pub(crate) fn dropped(capture: &Capture) -> Vec<Dropped> {
    let mut all = Vec::new();
    let has_tags = capture.settings.droptags;
    let mut add = |n: u64, cpu: Option<u32>, tag: &'static str, what: &str, after: &str| {
        if n > 0 {
            let before = if has_tags { format!("[DTRACEDROP_{tag}] ") } else { String::new() };
            let plural = if n == 1 { "" } else { "s" };
            let on = cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
            all.push(Dropped { n, tag, message: format!("{before}{n} {what}{plural}{on}{after}") });
        }
    };
    for buffer in &capture.states {
        add(buffer.drops, Some(buffer.cpu), "AGGREGATION", "aggregation drop", "");
    }
    for buffer in &capture.buffers {
        add(buffer.drops, Some(buffer.cpu), "PRINCIPAL", "drop", "");
    }
    let status = &capture.status;
    let dynamic = "dynamic variable drop";
    add(status.dyndrops, None, "DYNAMIC", dynamic, "");
    add(status.dyndrops_rinsing, None, "DYNRINSE", dynamic, " with non-empty rinsing list");
    add(status.dyndrops_dirty, None, "DYNDIRTY", dynamic, " with non-empty dirty list");
    add(status.specdrops, None, "SPEC", "speculative drop", "");
    let failed = "failed speculation";
    add(status.specdrops_busy, None, "SPECBUSY", failed, " (available buffer(s) still busy)");
    add(status.specdrops_unavail, None, "SPECUNAVAIL", failed, " (no speculative buffer available)");
    add(status.stkstroverflows, None, "STKSTROVERFLOW", "jstack()/ustack() string table overflow", "");
    add(status.dblerrors, None, "DBLERROR", "error", " in ERROR probe enabling");
    all
}
