//! The output of Cacheray's simulator: events, a log of the trace, and the report.
//!
//! SPEC: cacheray.md#cacherays-model.

use super::caches::{Event, Level};
use super::structs::{CountedStruct, Remapped, Structs};
use quipu_model::Paint;
use std::fmt::Write as _;

/// Line size and number of sets that Cacheray uses to split printed addresses, regardless of its caches.
const SHOWN_LINE: i64 = 64;
const SHOWN_SETS: i64 = 512;

/// Tag, index and offset of an address.
fn parts(addr: i64) -> (i64, i64, i64) {
    (addr / SHOWN_LINE / SHOWN_SETS, addr / SHOWN_LINE % SHOWN_SETS, addr % SHOWN_LINE)
}

/// Appends the line of an event.
pub fn event(level: &str, event: Event, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = match event {
        Event::Hit { addr, size } => {
            let (tag, index, offset) = parts(addr);
            writeln!(
                out,
                "{level}: HIT {addr:#x}, {size} bytes. Tag, index, offset[{tag}, {index}, {offset}]"
            )
        }
        Event::Miss { addr, size } => {
            let (tag, index, offset) = parts(addr);
            writeln!(
                out,
                "{level}: MISS {addr:#x}, {size} bytes.  Tag, index, offset[{tag}, {index}, {offset}]"
            )
        }
        Event::Evicted { old, new } => {
            writeln!(out, "{level}: EVICTED content of block -1, previously {old:#x}, now {new:#x}")
        }
    };
}

/// Appends the line of an access in the log of the trace.
pub fn logged_access(thread: u64, is_write: bool, addr: u64, size: u8, out: &mut String) {
    let what = if is_write { "WRITE" } else { "READ" };
    let (tag, index, _) = parts(addr as i64); // Signed in Cacheray.
    let _ = writeln!(
        out,
        "CPU: {thread}\tEVENT: {what}\tAddress: {addr:#x}\tSIZE: {}\tTag: {tag}\tIndex: {index}",
        size as i8 // Signed too.
    );
}

/// Appends the line of an annotation in the log of the trace.
pub fn logged_add(thread: u64, addr: u64, element_bytes: u32, n_elements: u32, name: &str, out: &mut String) {
    let (element_bytes, n_elements) = (element_bytes as i32, n_elements as i32); // Signed too.
    let _ = writeln!(
        out,
        "CPU: {thread}\tEVENT: RTTA_ADD\tAddress: {addr:#x}\tELEMSIZE: {element_bytes}\tELEMCOUNT: {n_elements}\tTYPENAME: {name}"
    );
}

/// Appends the line of an annotation's end in the log of the trace.
pub fn logged_remove(thread: u64, addr: u64, out: &mut String) {
    let _ = writeln!(out, "CPU: {thread}\tEVENT: RTTA_REMOVE\tAddress: {addr:#x}");
}

/// Output before the simulation: the caches, from the last to the first, and the results of the remap. `paint` has the form of
/// its colours.
pub fn beginning(levels: &[Level], remapped: &[Remapped], paint: &Paint) -> String {
    let mut out = String::new();
    for level in levels.iter().rev().filter(|level| !level.is_full()) {
        let Level { name, block_bytes, n_sets, n_blocks, ways, .. } = level;
        let _ = writeln!(
            out,
            "Created cache {name} with block size {block_bytes} sets {n_sets} n_blocks {n_blocks} assoc {ways} cache size {}",
            n_blocks * block_bytes
        );
    }
    for one in remapped {
        let _ = match one {
            Remapped::Done(name) => writeln!(out, "Reordering {name}"),
            Remapped::NotNamed(name) => writeln!(out, "Could not find {name}"),
        };
    }
    let Paint { mark, reset, .. } = paint;
    let _ = writeln!(out, "{mark}STARTING BINARY TRACE SIMULATION\n{reset}");
    out
}

/// Appends the lines printed when an annotation's type name is looked up.
pub fn found(name: &str, out: &mut String) {
    let _ = writeln!(out, "Found struct called {name}");
    let rewritten = quipu_symbols::types_file::Lookup::rewritten(name);
    if rewritten != name.trim() {
        let _ = writeln!(out, "Found struct called {rewritten}");
    }
}

/// Longest name of a member; longer ones are cut.
const NAME_CHARS: usize = 16;

/// The report after the simulation. Structures are sorted by name; Cacheray prints them in the order of a hash table. `paint`
/// has the form of its colours.
pub fn report(levels: &[Level], structs: &Structs, n_records: u64, paint: &Paint) -> String {
    let mut present: Vec<CountedStruct> = structs.present().collect();
    present.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = String::new();
    let Paint { mark, reset, .. } = paint;
    let _ = writeln!(out, "{mark}TRACE SIMULATION FINISHED{reset}\nProcessed {n_records} events");
    let _ = writeln!(out, "STRUCT ACCESS STATISTICS FOR {} CACHES\n{RULE}", levels.len());
    let _ = writeln!(out, "RTTAs present: {}\nStructs present: {}", structs.n_adds, structs.n_elements);
    let accesses: u64 = present.iter().map(|one| one.accesses).sum();
    let _ = writeln!(out, "Struct types present: {}\nStruct accesses: {accesses}\n", present.len());
    let _ = write!(out, "{:<20} {:<16} {:<16}", "Struct Name", "Accesses", "Full Misses");
    for number in 1..=levels.len() {
        let _ = write!(out, "{:<10}", format!("L{number}"));
    }
    out.push('\n');
    for one in present {
        let _ = writeln!(out, "{}{{", one.name);
        for member in &one.members {
            let name = match member.name.char_indices().nth(NAME_CHARS) {
                None => member.name.clone(),
                Some(_) => format!("{}...", member.name.chars().take(NAME_CHARS - 3).collect::<String>()),
            };
            let name = format!("   {name}");
            let _ = write!(out, "{name:<20} {:<16} {:<16}", member.accesses, member.full_misses);
            member.hits.iter().for_each(|hits| {
                let _ = write!(out, "{hits:<10}");
            });
            out.push('\n');
        }
        let _ = writeln!(out, "}}\nTotal hits for {}: {}\n", one.name, one.accesses);
    }
    let _ = writeln!(out, "{RULE}\n");
    for level in levels {
        let Level { name, accesses, hits, misses, reads, .. } = level;
        let rate = |count: u64| java_double(count as f64 / *reads as f64 * 100.0); // As in Cacheray.
        let _ = writeln!(out, "{name}: \n{accesses} accesses");
        let _ = writeln!(out, "{hits} hits. {}% hit rate.", rate(*hits));
        let _ = writeln!(out, "{misses} misses. {}% miss rate.\n ", rate(*misses));
    }
    out
}

const RULE: &str = "==============================================";

/// A number as Java prints it.
fn java_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if number == 0.0 || (1e-3..1e7).contains(&number.abs()) {
        return format!("{number:?}");
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if digits.contains('.') => format!("{digits}E{exponent}"),
        Some((digits, exponent)) => format!("{digits}.0E{exponent}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_java_does() {
        for (number, text) in [
            (27.88844621513944, "27.88844621513944"),
            (100.0, "100.0"),
            (0.0, "0.0"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (0.0001, "1.0E-4"),
            (0.00012, "1.2E-4"),
        ] {
            assert_eq!(java_double(number), text);
        }
    }
}
