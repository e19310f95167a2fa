//! The rules of `check`: synchronization and calls that do not fit together.
//!
//! Memory use grows with the number of held locks, created threads and open calls, each up to a limit.

use crate::INFO;
use crate::codec::Codec;
use crate::event::{Kind, sync};
use crate::rules;
use crate::table::code;
use quipu_model::lens::CallEdge;
use quipu_model::{Batch, Columns, RuleInfo, ThreadId, ToolInfo};
use quipu_records::check::{self, Check, Log, Rules};
use rustc_hash::{FxHashMap, FxHashSet};

/// The tool `check`.
pub(crate) static CHECK: Check<Codec> = Check::new(&CHECK_INFO);
static CHECK_INFO: ToolInfo = check::info(INFO.name, Columns::ACCESSES.or(Columns::MARKS).or(Columns::CALLS));

/// Maximum number of locks, handles and calls remembered; later ones are not judged.
const MAX_KNOWN: usize = 1 << 20;

/// State of the rules.
#[derive(Debug, Default)]
pub struct PrismRules {
    /// For each thread and object: how often the thread holds it, and the record that locked it.
    held: FxHashMap<(ThreadId, u64), (u64, u64)>,
    created: FxHashSet<u64>,
    /// Number of open calls of a function, by thread and function.
    inside: FxHashMap<(ThreadId, u64), u64>,
    is_full: bool,
}

impl PrismRules {
    fn mark(&mut self, batch: &Batch, row: usize, log: &mut Log) {
        let marks = &batch.marks;
        let (thread, value) = (batch.span.thread, marks.value[row]);
        let ordinal = batch.span.first_record + u64::from(marks.at[row]);
        let mut tell = |rule: &'static RuleInfo, what: &dyn Fn() -> String| {
            log.add(rule, || (None, Some(ordinal), what()));
        };
        let is = |kind: u8| marks.kind[row] == u32::from(code(Kind::Sync, kind));
        if is(sync::LOCK) || is(sync::SPIN_LOCK) {
            self.is_full |= self.held.len() >= MAX_KNOWN;
            if !self.is_full {
                let held = self.held.entry((thread, value)).or_insert((0, ordinal));
                held.0 += 1;
            }
        } else if is(sync::UNLOCK) {
            match self.held.get_mut(&(thread, value)) {
                Some((1, _)) => drop(self.held.remove(&(thread, value))),
                Some((n, _)) => *n -= 1,
                None if self.is_full => {}
                None => tell(&rules::UNLOCKED, &|| format!("`{value:#x}` is unlocked, and was not locked")),
            }
        } else if is(sync::SPIN_UNLOCK) {
            // When a spin lock is initialized, Prism's front end reports an unlock: in libpthread, both are the same function.
            self.held.remove(&(thread, value));
        } else if is(sync::CREATE) {
            self.is_full |= self.created.len() >= MAX_KNOWN;
            if !self.is_full {
                self.created.insert(value);
            }
        } else if is(sync::JOIN) && !self.created.contains(&value) && !self.is_full {
            tell(&rules::JOINED, &|| format!("the thread of handle `{value:#x}` is joined"));
        }
    }

    fn call(&mut self, batch: &Batch, row: usize, log: &mut Log) {
        let calls = &batch.calls;
        let key = (batch.span.thread, calls.function[row]);
        if calls.edge[row] == CallEdge::Enter {
            self.is_full |= self.inside.len() >= MAX_KNOWN;
            if !self.is_full {
                *self.inside.entry(key).or_insert(0) += 1;
            }
            return;
        }
        match self.inside.get_mut(&key) {
            Some(n) if *n > 0 => *n -= 1,
            _ if self.is_full => {}
            _ => {
                let ordinal = batch.span.first_record + u64::from(calls.at[row]).saturating_sub(1);
                let name = batch.types.as_slice().iter().find_map(|ty| match &**ty {
                    quipu_model::values::Type::Function(function) if function.id == key.1 => {
                        Some(String::from_utf8_lossy(&function.name).into_owned())
                    }
                    _ => None,
                });
                let name = name.unwrap_or_default();
                log.add(&rules::LEFT, || {
                    (None, Some(ordinal), format!("`{name}` is left, and was not entered"))
                });
            }
        }
    }
}

impl Rules<Codec> for PrismRules {
    fn new(_: &Codec) -> PrismRules {
        PrismRules::default()
    }

    fn batch(&mut self, batch: &Batch, log: &mut Log) {
        let accesses = &batch.accesses;
        for row in 0..accesses.addr.len() {
            if accesses.size[row] == 0 {
                let ordinal = batch.span.first_record + u64::from(accesses.at[row]);
                let addr = accesses.addr[row];
                log.add(&rules::NO_BYTES, || {
                    (None, Some(ordinal), format!("an access to `{addr:#x}` has no bytes"))
                });
            }
        }
        (0..batch.marks.kind.len()).for_each(|row| self.mark(batch, row, log));
        (0..batch.calls.function.len()).for_each(|row| self.call(batch, row, log));
    }

    fn merge(&mut self, later: PrismRules) {
        // A stream is one shard, read as one piece, so keys do not collide.
        self.held.extend(later.held);
        self.created.extend(later.created);
        self.inside.extend(later.inside);
        self.is_full |= later.is_full;
    }

    fn end(self, log: &mut Log) {
        let mut held: Vec<_> = self.held.into_iter().collect();
        held.sort_unstable_by_key(|(_, (_, record))| *record);
        for ((thread, object), (_, record)) in held {
            log.add(&rules::HELD, || {
                (None, Some(record), format!("thread `{thread}` holds `{object:#x}` at the end"))
            });
        }
    }
}
