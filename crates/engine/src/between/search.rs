//! Looks for marks along the sequence of all shards: one read, which only remembers where parts begin and end.

use super::{Between, MarkName};
use crate::merge::Merge;
use crate::watch::Watch;
use quipu_model::lens::CallEdge;
use quipu_model::values::Type;
use quipu_model::{Batch, Columns, Error, ErrorKind, Result, Scan, ShardId, Trace};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A trace's parts between marks: records of each shard, and of the sequence of all.
pub(super) struct Found {
    pub(super) of_shards: Vec<Vec<Range<u64>>>,
    pub(super) of_sequence: Vec<Range<u64>>,
    /// For each shard, the records from the beginning of the first part to the end of the last one, its own or not.
    pub(super) spans: Vec<Range<u64>>,
}

/// Columns that tell of marks, the cheapest first. Further ones are read only for names that were not met.
const SORTS: [Columns; 3] = [Columns::MARKS.or(Columns::MARK_TEXT), Columns::CALLS, Columns::INSTRS];

/// Finds the parts. Errors are those of [`between`](super::between).
pub(super) fn find(
    trace: &dyn Trace,
    wanted: &Between,
    addresses: &dyn Fn(&str) -> Vec<u64>,
    watch: &Watch,
) -> Result<Found> {
    let (mut columns, mut last) = (Columns::NONE, None);
    for sort in SORTS {
        let more = sort.and(trace.columns());
        let mut search = Search::new(trace, wanted);
        if more.has(Columns::INSTRS) {
            search.pcs = search.ends.map(|end| end.map_or_else(Vec::new, |end| addresses(&end.name)));
            if search.pcs.iter().all(Vec::is_empty) {
                continue;
            }
        }
        if more.is_empty() {
            continue;
        }
        columns |= more;
        search.read(columns, watch)?;
        let is_done = search.has_met_all();
        last = Some(search);
        if is_done {
            break;
        }
    }
    let none = || Error::missing("parts between marks need marks, which this trace does not carry");
    last.ok_or_else(none)?.finish()
}

/// A search for marks along the sequence of all shards.
struct Search<'t> {
    trace: &'t dyn Trace,
    /// The first and the second mark.
    ends: [Option<&'t MarkName>; 2],
    /// Addresses of the functions of these names.
    pcs: [Vec<u64>; 2],
    /// Kinds of marks so far.
    kinds: HashMap<u32, Kind>,
    /// Texts of marks so far, each with the number of such marks.
    texts: HashMap<Vec<u8>, u64>,
    /// Functions of these names, by workload and id.
    functions: HashMap<(u16, u64), [bool; 2]>,
    /// For each shard, the number of types that were looked at for functions.
    n_types: Vec<usize>,
    /// Whether the first and the second mark occurred.
    met: [bool; 2],
    /// For each shard, the number of records before the current position of the sequence.
    reached: Vec<u64>,
    /// The same at the beginning of the current part.
    open: Option<Vec<u64>>,
    found: Found,
    /// The first fault of the trace, which may have hidden marks.
    fault: Option<Error>,
}

/// A kind of marks: whether it has the name of the first or of the second one, and the number of such marks without a text.
#[derive(Clone, Copy, Default)]
struct Kind {
    is: [bool; 2],
    n: u64,
}

/// Maximum number of different texts of marks that are remembered.
const MAX_TEXTS: usize = 4096;
/// Maximum number of marks that an error lists.
const MAX_LISTED: usize = 20;

impl<'t> Search<'t> {
    fn new(trace: &'t dyn Trace, wanted: &'t Between) -> Search<'t> {
        let n_shards = trace.shards().len();
        let ends = [wanted.from.as_ref(), wanted.to.as_ref()];
        let reached = vec![0; n_shards];
        let mut functions = HashMap::new();
        // Some traces name the module, too: `prog!main`.
        let is_called = |name: &str, wanted: &MarkName| {
            name == wanted.name || name.rsplit_once('!').is_some_and(|(_, name)| name == wanted.name)
        };
        for function in &trace.meta().functions {
            let has = |end: &MarkName| function.names.iter().any(|name| is_called(name, end));
            let is = ends.map(|end| end.is_some_and(has));
            if is != [false; 2] {
                functions.insert((function.workload, function.id), is);
            }
        }
        Search {
            trace,
            ends,
            pcs: [Vec::new(), Vec::new()],
            kinds: HashMap::new(),
            texts: HashMap::new(),
            functions,
            n_types: vec![0; n_shards],
            met: [false; 2],
            // The beginning of the trace begins the part if no mark does.
            open: wanted.from.is_none().then(|| reached.clone()),
            reached,
            found: Found {
                of_shards: vec![Vec::new(); n_shards],
                of_sequence: Vec::new(),
                // No part yet.
                spans: vec![Range { start: u64::MAX, end: 0 }; n_shards],
            },
            fault: None,
        }
    }

    /// Reads the trace with these columns. Faults of the trace are left to later reads to report, unless a mark is not found.
    fn read(&mut self, columns: Columns, watch: &Watch) -> Result<()> {
        let template = Scan { ahead: true, ..Scan::new(ShardId(0)).columns(columns) };
        let mut merge = Merge::new(self.trace, &template, watch)?;
        loop {
            if watch.is_cancelled() {
                return Err(Error::new(ErrorKind::Io, "interrupted while looking for marks"));
            }
            match merge.read() {
                Ok(Some(merged)) => self.take(merged.batch),
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.fault.get_or_insert(error);
                }
            }
        }
    }

    fn take(&mut self, batch: &Batch) {
        let (span, shard) = (batch.span, batch.span.shard as usize);
        for (at, is) in self.moments(batch) {
            let here = span.first_record.saturating_add(at.into());
            self.met = [self.met[0] || is[0], self.met[1] || is[1]];
            if is[1]
                && let Some(start) = self.open.take()
            {
                let end = self.position(shard, here);
                self.close(&start, &end);
            }
            if is[0] && self.open.is_none() {
                self.open = Some(self.position(shard, here));
            }
        }
        if let Some(reached) = self.reached.get_mut(shard) {
            *reached = (*reached).max(span.first_record.saturating_add(span.records.into()));
        }
    }

    /// The position of the sequence where `here` records of a shard have passed.
    fn position(&self, shard: usize, here: u64) -> Vec<u64> {
        let mut position = self.reached.clone();
        if let Some(records) = position.get_mut(shard) {
            *records = here;
        }
        position
    }

    /// Adds the part between two positions.
    fn close(&mut self, start: &[u64], end: &[u64]) {
        let of_all = |position: &[u64]| position.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
        self.found.of_sequence.push(of_all(start)..of_all(end));
        for (span, (start, end)) in self.found.spans.iter_mut().zip(start.iter().zip(end)) {
            *span = span.start.min(*start)..span.end.max(*end);
        }
        for (parts, (start, end)) in self.found.of_shards.iter_mut().zip(start.iter().zip(end)) {
            match parts.last_mut() {
                Some(last) if last.end >= *start => last.end = last.end.max(*end),
                _ if start < end => parts.push(*start..*end),
                _ => {}
            }
        }
    }

    /// The wanted marks of a batch, each with the index of its record, and whether it is the first or the second one.
    fn moments(&mut self, batch: &Batch) -> Vec<(u32, [bool; 2])> {
        let mut all = Vec::new();
        let marks = &batch.marks;
        for (row, (at, kind)) in marks.at.iter().zip(&marks.kind).enumerate() {
            let text = marks.text.get(row);
            let is = self.mark(*kind, marks.value.get(row).copied().unwrap_or(0), text);
            all.push((*at, is));
        }
        self.learn(batch);
        let workload = batch.span.thread.workload;
        let calls = batch.calls.at.iter().zip(batch.calls.function.iter().zip(&batch.calls.edge));
        for (at, (function, _)) in calls.filter(|(_, (_, edge))| **edge == CallEdge::Enter) {
            all.extend(self.functions.get(&(workload, *function)).map(|is| (*at, *is)));
        }
        if self.pcs.iter().any(|pcs| !pcs.is_empty()) {
            for (at, pc) in batch.instrs.at.iter().zip(&batch.instrs.pc) {
                all.push((*at, [self.pcs[0].contains(pc), self.pcs[1].contains(pc)]));
            }
        }
        all.retain(|(_, is)| *is != [false; 2]);
        all.sort_by_key(|(at, _)| *at);
        all
    }

    /// Counts a mark, and says whether it is a wanted one.
    fn mark(&mut self, kind: u32, value: u64, text: &[u8]) -> [bool; 2] {
        let (trace, ends) = (self.trace, self.ends);
        let of_kind = self.kinds.entry(kind).or_insert_with(|| {
            let name = trace.mark_name(kind);
            Kind { is: ends.map(|end| end.is_some_and(|end| end.kind() == name)), n: 0 }
        });
        let mut is = of_kind.is;
        if text.is_empty() {
            of_kind.n += 1;
        } else {
            let n_texts = self.texts.len();
            match self.texts.get_mut(text) {
                Some(n) => *n += 1,
                None if n_texts < MAX_TEXTS => {
                    self.texts.insert(text.to_vec(), 1);
                }
                None => {}
            }
        }
        for (is, end) in is.iter_mut().zip(ends) {
            *is &= end.and_then(MarkName::value).is_none_or(|wanted| wanted == value);
            *is |= !text.is_empty() && end.is_some_and(|end| end.name.as_bytes() == text);
        }
        is
    }

    /// Looks at functions that the read has named since.
    fn learn(&mut self, batch: &Batch) {
        let Some(n_types) = self.n_types.get_mut(batch.span.shard as usize) else { return };
        for ty in batch.types.as_slice().get(*n_types..).unwrap_or(&[]) {
            if let Type::Function(function) = &**ty {
                let name = &function.name[..];
                let is = self.ends.map(|end| end.is_some_and(|end| end.name.as_bytes() == name));
                if is != [false; 2] {
                    self.functions.insert((batch.span.thread.workload, function.id), is);
                }
            }
        }
        *n_types = batch.types.len();
    }

    fn has_met_all(&self) -> bool {
        self.ends.iter().zip(self.met).all(|(end, met)| end.is_none() || met)
    }

    fn finish(mut self) -> Result<Found> {
        if self.ends[1].is_none()
            && let Some(start) = self.open.take()
        {
            let end = vec![u64::MAX; start.len()];
            self.close(&start, &end);
        }
        let absent = self.ends.iter().zip(self.met).find_map(|(end, met)| end.filter(|_| !met));
        if let Some(name) = absent {
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            return Err(self.absent(name));
        }
        match self.ends {
            [Some(from), Some(to)] if self.found.of_sequence.is_empty() => {
                Err(Error::missing(format!("no mark `{to}` comes after a mark `{from}`")))
            }
            _ => Ok(self.found),
        }
    }

    /// The error for a mark that does not occur.
    #[cold]
    fn absent(&self, name: &MarkName) -> Error {
        let texts = self.texts.iter().map(|(text, n)| (String::from_utf8_lossy(text).into_owned(), *n));
        let texts: BTreeMap<String, u64> = texts.collect();
        let kinds = self.kinds.iter().filter(|(_, kind)| kind.n > 0);
        let kinds: BTreeMap<String, u64> =
            kinds.map(|(number, kind)| (self.trace.mark_name(*number).into_owned(), kind.n)).collect();
        let all = texts.iter().chain(&kinds).map(|(name, n)| format!("{name} ({n})"));
        let mut listed: Vec<String> = all.clone().take(MAX_LISTED).collect();
        let n_more = all.count() - listed.len();
        if n_more > 0 {
            listed.push(format!("and {n_more} more"));
        }
        let advice = match listed.is_empty() {
            true => "it has no marks at all; `QUIPU_MARK(\"name\")` of quipu.h sets one".to_owned(),
            false => format!("its marks, and how many of each: {}", listed.join(", ")),
        };
        Error::missing(format!("the trace has no mark `{name}`, and no call of a function of that name"))
            .hint(advice)
    }
}
