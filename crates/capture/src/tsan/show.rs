//! Textual form of the events in a recording, for inspection.

use crate::tsan::callers::Callers;
use crate::tsan::merge::Who;
use crate::tsan::sites::{Sites, Spot};
use quipu_cells::cell::{access, atomic, heap, sync, text};
use quipu_cells::describe::SYNCS;
use quipu_cells::event::{self, Event};

/// Most callers listed for an allocation.
const MAX_CALLERS: usize = 16;

/// An event as a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Thread id of the kernel.
    pub tid: u64,
    /// Kind of event: `read`, `atomic-add`, `alloc`, `lock`, …
    pub kind: &'static str,
    /// Its position among all stamped events.
    pub stamp: Option<u64>,
    /// Address of the memory or object concerned.
    pub addr: Option<u64>,
    /// Size in bytes of the access or allocation.
    pub size: Option<u64>,
    /// Address of the instruction after the event.
    pub pc: Option<u64>,
    /// Source location of that address.
    pub spot: Spot,
    /// Further details, each with its name.
    pub details: Vec<(&'static str, Detail)>,
    /// Callers of the allocating function, innermost first.
    pub callers: Vec<(u64, Spot)>,
}

/// The value of a further detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Text.
    Text(String),
    /// A number.
    Count(u64),
    /// An address.
    Addr(u64),
    /// A flag that is set.
    Yes,
}

/// The family of a kind, if it has several kinds; filters accept families, too.
pub fn family(kind: &str) -> Option<&'static str> {
    match kind {
        _ if kind.starts_with("atomic-") => Some("atomic"),
        "read" | "write" => Some("access"),
        "enter" | "leave" => Some("call"),
        "alloc" | "free" => Some("heap"),
        "typed" | "untyped" => Some("region"),
        "thread-name" | "fiber-name" | "mark" => Some("text"),
        _ if SYNCS.iter().any(|(_, name)| *name == kind) => Some("sync"),
        _ => None,
    }
}

/// All kinds, except those of atomic operations.
pub fn kinds() -> Vec<&'static str> {
    let rest = [
        "read",
        "write",
        "enter",
        "leave",
        "alloc",
        "free",
        "typed",
        "untyped",
        "module",
        "unwritten",
        "unknown",
    ];
    let texts = ["thread-name", "fiber-name", "mark"];
    rest.into_iter()
        .chain(texts)
        .chain(ATOMICS.map(|(_, name)| name))
        .chain(SYNCS.iter().map(|(_, name)| *name))
        .collect()
}

/// The text of a mark that the program set; `None` for other events.
pub fn mark_of<'e>(event: &'e Event<'_>) -> Option<&'e [u8]> {
    match event {
        Event::Text { which: text::MARK, text, .. } => Some(*text),
        _ => None,
    }
}

/// Whether an event has a row, which all but padding have.
pub fn has_row(event: &Event<'_>) -> bool {
    !matches!(event, Event::Pad)
}

const ATOMICS: [(u8, &str); 11] = [
    (atomic::LOAD, "atomic-load"),
    (atomic::STORE, "atomic-store"),
    (atomic::EXCHANGE, "atomic-exchange"),
    (atomic::ADD, "atomic-add"),
    (atomic::SUB, "atomic-sub"),
    (atomic::AND, "atomic-and"),
    (atomic::OR, "atomic-or"),
    (atomic::XOR, "atomic-xor"),
    (atomic::NAND, "atomic-nand"),
    (atomic::COMPARE_VAL, "atomic-compare"),
    (atomic::COMPARE, "atomic-compare"),
];

/// Converts events to rows, in order.
#[derive(Debug, Default)]
pub struct Shower {
    sites: Sites,
    callers: Callers,
}

impl Shower {
    /// The row of an event; `None` for padding, and for events that are not `wanted`. From those, only the state needed for
    /// later events is kept.
    pub fn row(&mut self, who: Who, event: &Event<'_>, wanted: impl FnOnce(&Row) -> bool) -> Option<Row> {
        let mut row = Row { tid: who.tid, ..Row::default() };
        let mut allocated = None;
        self.callers.follow(who, event);
        match event {
            Event::Pad => return None,
            Event::Access(event) => access_row(&mut row, event),
            Event::Enter { caller, pc } => {
                (row.kind, row.pc) = ("enter", Some(*pc));
                row.details.push(("caller", Detail::Addr(*caller)));
            }
            Event::Leave { pc } => (row.kind, row.pc) = ("leave", Some(*pc)),
            Event::Atomic(event) => atomic_row(&mut row, event),
            Event::Alloc(region) => {
                region_row(&mut row, "alloc", region);
                row.details.insert(0, ("call", Detail::Text(call_name(region.call, "malloc").to_owned())));
                allocated = Some(region);
            }
            Event::Typed(region) => {
                region_row(&mut row, "typed", region);
                row.details.push(("type", Detail::Text(String::from_utf8_lossy(region.name).into_owned())));
            }
            Event::Release(heap) => {
                heap_row(&mut row, "free", heap);
                row.details.push(("call", Detail::Text(call_name(heap.call, "free").to_owned())));
            }
            Event::Untyped(heap) => heap_row(&mut row, "untyped", heap),
            Event::Sync(event) => sync_row(&mut row, event),
            Event::Text { object, which, text } => text_row(&mut row, *object, *which, text),
            Event::Module { base, bytes, path } => {
                (row.kind, row.addr, row.size) = ("module", Some(*base), Some(*bytes));
                row.details.push(("file", Detail::Text(String::from_utf8_lossy(path).into_owned())));
                self.sites.module(*base, *bytes, path);
            }
            Event::Hole => row.kind = "unwritten",
            Event::Unknown { kind } => {
                row.kind = "unknown";
                row.details.push(("number", Detail::Count((*kind).into())));
            }
        }
        if !wanted(&row) {
            return None;
        }
        if let Some(pc) = row.pc.filter(|pc| *pc != 0) {
            row.spot = self.sites.spot(pc).clone();
        }
        if let Some(region) = allocated {
            let callers: Vec<u64> = self.callers.of(who).iter().rev().copied().collect();
            let (element_bytes, n_elements) = (region.element_bytes, region.n_elements);
            let kind = self.sites.type_of(region.pc, callers.iter().copied(), element_bytes, n_elements);
            if let Ok(kind) = kind {
                row.details.push(("type", Detail::Text(kind.name)));
            }
            for caller in callers.into_iter().take(MAX_CALLERS) {
                row.callers.push((caller, self.sites.spot(caller).clone()));
            }
        }
        Some(row)
    }
}

fn access_row(row: &mut Row, event: &event::Access) {
    row.kind = if event.is_write() { "write" } else { "read" };
    (row.addr, row.size, row.pc) = (Some(event.addr), Some(event.size), Some(event.pc));
    let flags =
        [(access::UNALIGNED, "unaligned"), (access::VOLATILE, "volatile"), (access::VPTR, "vtable-pointer")];
    let set = flags.into_iter().filter(|(flag, _)| event.flags & flag != 0);
    row.details.extend(set.map(|(_, name)| (name, Detail::Yes)));
}

fn atomic_row(row: &mut Row, event: &event::Atomic) {
    let known = ATOMICS.iter().find(|(operation, _)| *operation == event.operation);
    row.kind = known.map_or("atomic-other", |(_, name)| name);
    (row.addr, row.size, row.pc) = (Some(event.addr), Some(event.size), Some(event.pc));
    row.stamp = Some(event.stamp);
    row.details.push(("order", Detail::Text(order_name(event.order.into()).to_owned())));
    if matches!(event.operation, atomic::COMPARE | atomic::COMPARE_VAL) {
        let how = if event.succeeded { "succeeded" } else { "failed" };
        row.details.push((how, Detail::Yes));
    }
    if event.expected != 0 {
        row.details.push(("expected", Detail::Addr(event.expected)));
    }
}

fn region_row(row: &mut Row, kind: &'static str, region: &event::Region<'_>) {
    (row.kind, row.addr, row.pc) = (kind, Some(region.addr), Some(region.pc));
    row.size = Some(region.element_bytes.saturating_mul(region.n_elements));
    row.stamp = Some(region.stamp);
    if region.n_elements != 1 {
        row.details.push(("elements", Detail::Count(region.n_elements)));
        row.details.push(("element-bytes", Detail::Count(region.element_bytes)));
    }
}

fn heap_row(row: &mut Row, kind: &'static str, event: &event::Heap) {
    (row.kind, row.addr, row.pc, row.stamp) = (kind, Some(event.addr), Some(event.pc), Some(event.stamp));
}

fn sync_row(row: &mut Row, event: &event::Sync) {
    let known = SYNCS.iter().find(|(what, _)| *what == event.what);
    row.kind = known.map_or("sync-other", |(_, name)| name);
    (row.stamp, row.pc) = (Some(event.stamp), Some(event.pc).filter(|pc| *pc != 0));
    row.addr = Some(event.object).filter(|object| *object != 0);
    let [first, second] = event.values;
    let mut tell = |name, detail| row.details.push((name, detail));
    match event.what {
        sync::START | sync::CREATE => {
            if first != 0 {
                tell("ticket", Detail::Count(first));
            }
            if second != 0 {
                tell("stack", Detail::Addr(second));
            }
        }
        sync::CONTEXT_MAKE if first != 0 => tell("then", Detail::Addr(first)),
        sync::LOCK | sync::UNLOCK => {
            if first & 1 != 0 {
                tell("for-reading", Detail::Yes);
            }
            if first & 2 != 0 {
                tell("tried", Detail::Yes);
            }
        }
        sync::WAIT => tell("lock", Detail::Addr(first)),
        sync::WOKEN => {
            tell("lock", Detail::Addr(first));
            if second != 0 {
                tell("result", Detail::Count(second));
            }
        }
        sync::FENCE | sync::SIGNAL_FENCE => tell("order", Detail::Text(order_name(first).to_owned())),
        sync::RESUME if first == sync::AFTER_GAP => tell("after-gap", Detail::Yes),
        sync::MUTEX_CREATE | sync::MUTEX_DESTROY | sync::FIBER_SWITCH if first != 0 => {
            tell("flags", Detail::Count(first));
        }
        _ => {}
    }
}

fn text_row(row: &mut Row, object: u64, which: u64, words: &[u8]) {
    row.kind = match which {
        text::THREAD => "thread-name",
        text::FIBER => "fiber-name",
        text::MARK => "mark",
        _ => "text-other",
    };
    match which {
        text::MARK => row.pc = Some(object),
        _ => row.addr = Some(object).filter(|object| *object != 0),
    }
    row.details.push(("text", Detail::Text(String::from_utf8_lossy(words).into_owned())));
}

fn call_name(call: u64, plain: &'static str) -> &'static str {
    match call {
        heap::MALLOC => plain,
        heap::CALLOC => "calloc",
        heap::REALLOC => "realloc",
        heap::ALIGNED => "aligned",
        heap::NEW if plain == "free" => "delete",
        heap::NEW => "new",
        heap::REALLOC_FAILED => "realloc-failed",
        _ => "other",
    }
}

fn order_name(order: u64) -> &'static str {
    match order & 0xff {
        0 => "relaxed",
        1 => "consume",
        2 => "acquire",
        3 => "release",
        4 => "acq-rel",
        5 => "seq-cst",
        _ => "other",
    }
}
