//! Many accesses at once, cache by cache.
//!
//! Where no cache takes lines away from another (nothing is inclusive, exclusive or coherent), what a cache does depends
//! only on what it is asked, in which order. So a chunk of accesses goes through the first caches of a core, one after the other;
//! what each of them misses becomes a list of requests for the next; the lists of instructions and of data come together,
//! in the order of the accesses, where their ways do. Each step is a plain loop over one array of requests and one
//! cache, compiled for its policy.
//!
//! Most accesses are to the line that the same side has used just before. They become one request that counts for several. That
//! is right as long as nothing happens in the set between; [`joins`] says when that is certain. Where one cache serves both
//! sides, the other side may have been in other sets meanwhile.
//!
//! PERF: three to four times as fast as one access after the other; bench `default_hierarchy`.

use super::{Machine, Purpose, Request};
use crate::prefetch::MAX_WANTED;
use crate::sets::{NO_LINE, Store, each};
use crate::spec::{CacheSpec, Inclusion, Layout, MachineSpec, Policy, Prefetch};
use quipu_model::lens::AccessKind;
use std::ops::{Range, RangeInclusive};

mod pass;

pub(super) use pass::Pass;

/// Accesses in a chunk.
pub(super) const CHUNK: usize = 2048;
/// Room for the requests of one side: an access makes two at most (what makes more is not taken in chunks), and one is written
/// after the last.
pub(super) const SIDE: usize = 2 * CHUNK + 2;

/// Accesses as columns of equal length, but for `pc`, which may be empty.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// What each access does.
    pub kind: &'a [AccessKind],
    /// Its first byte.
    pub addr: &'a [u64],
    /// Its bytes.
    pub size: &'a [u32],
    /// Its instruction.
    pub pc: &'a [u64],
    /// Whether prefetches and flushes are passed over, as TLBs do.
    pub is_demand_only: bool,
}

impl<'a> Rows<'a> {
    /// Some of the rows.
    pub(super) fn part(self, range: Range<usize>) -> Rows<'a> {
        Rows {
            kind: &self.kind[range.clone()],
            addr: &self.addr[range.clone()],
            size: &self.size[range.clone()],
            pc: self.pc.get(range).unwrap_or(&[]),
            ..self
        }
    }

    pub(super) fn pc(&self, row: usize) -> u64 {
        self.pc.get(row).copied().unwrap_or(0)
    }

    /// Whether a row is left out.
    fn skips(&self, kind: AccessKind) -> bool {
        self.is_demand_only && !is_ordinary(kind)
    }
}

/// A request for one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) line: u64,
    /// The access, by its row in the chunk's columns, and perhaps one of the marks.
    pub(super) row: u32,
    /// How many more uses are counted with it: of its line or, where nothing else than their number matters, of lines used
    /// before.
    pub(super) again: u32,
}

/// Mark of a request that a cache makes by itself.
pub(super) const OWN: u32 = 1 << 31;
/// Mark of a request that the program makes for a prefetch.
pub(super) const PREFETCH: u32 = 1 << 30;
/// Mark of a request for a line that was asked for before, by the cache that asks now.
const KNOWN: u32 = 1 << 29;

impl Want {
    pub(super) const NOTHING: Want = Want { line: NO_LINE, row: 0, again: 0 };

    pub(super) fn is_prefetch(self) -> bool {
        self.row & (OWN | PREFETCH) != 0
    }

    pub(super) fn row(self) -> usize {
        (self.row & !(OWN | PREFETCH | KNOWN)) as usize
    }

    /// What for, and from which byte on.
    fn request(self, rows: &Rows<'_>, shift: u32, space: u64) -> Request {
        let row = self.row();
        let purpose = PURPOSES[(self.row >> 30) as usize][rows.kind[row] as usize % 8];
        let is_own = self.row & OWN != 0;
        let addr = rows.addr[row];
        // Where single misses are not asked for, sizes are left out.
        let size = rows.size.get(row).copied().unwrap_or(0);
        // Of lines after the first one, and of what a cache wants, it is the beginning.
        let start = self.line << shift;
        let is_first = !is_own & ((addr >> shift | space) == self.line);
        let whole = Request { addr, size, pc: rows.pc(row), purpose, row: row as u32 }; // Of a chunk.
        let rest = whole.rest_at(start);
        let size = if is_own { 0 } else { rest.size };
        Request {
            addr: if is_first { addr } else { start },
            size: if is_first { whole.size } else { size },
            ..whole
        }
    }
}

/// What requests are for: by their upper marks, and the kind of access.
///
/// PERF: which kind it is is anybody's guess, so it is looked up.
const PURPOSES: [[Purpose; 8]; 4] = {
    let mut demand = [Purpose::Fetch; 8];
    demand[AccessKind::Read as usize] = Purpose::Read;
    demand[AccessKind::Write as usize] = Purpose::Write;
    [demand, [Purpose::Prefetch; 8], [Purpose::OwnPrefetch; 8], [Purpose::OwnPrefetch; 8]]
};

/// True for the kinds of access that are sorted without ado.
fn is_ordinary(kind: AccessKind) -> bool {
    const ORDINARY: u32 =
        1 << AccessKind::Read as u32 | 1 << AccessKind::Write as u32 | 1 << AccessKind::Fetch as u32;
    ORDINARY >> kind as u32 & 1 == 1
}

/// The ways of requests through a machine, and the arrays in which they wait.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// For each core: the caches that only instructions go through, those that only data goes through, and the rest, each
    /// from the core to memory.
    paths: Vec<[Vec<usize>; 3]>,
    /// Requests to the first caches, of instructions and, from [`SIDE`] on, of data.
    first: Box<[Want]>,
    /// What the caches of a side, or those of both, are asked next, and what they ask.
    lists: [[Vec<Want>; 2]; 2],
}

impl Streams {
    /// `None` where what one cache loses matters to another.
    pub(super) fn new(spec: &MachineSpec, layout: &Layout) -> Option<Streams> {
        let is_free = |cache: &CacheSpec| cache.inclusion == Inclusion::Free;
        if spec.coherent || !spec.caches.iter().all(is_free) {
            return None;
        }
        let chain = |first: usize| std::iter::successors(Some(first), |at| layout.parent[*at]);
        let paths = layout.first.iter().map(|[instr, data]| {
            let data: Vec<usize> = chain(*data).collect();
            let own: Vec<usize> = chain(*instr).take_while(|at| !data.contains(at)).collect();
            let n_both = chain(*instr).count() - own.len();
            let (data, both) = data.split_at(data.len() - n_both);
            [own, data.to_vec(), both.to_vec()]
        });
        let first = vec![Want::NOTHING; 2 * SIDE].into();
        Some(Streams { paths: paths.collect(), first, lists: Default::default() })
    }
}

/// Whether further uses of a line right after a use can be counted with it, though the cache may have prefetched
/// for it in between: if prefetched lines go to other sets, or cannot drive out the line used last.
pub(super) fn joins(cache: &CacheSpec, sets: u64) -> bool {
    let keeps = cache.policy == Policy::Lru && cache.ways > 1;
    match cache.prefetch {
        Prefetch::None => true,
        Prefetch::NextLine => keeps || sets > 1,
        Prefetch::Stride => keeps,
        Prefetch::Stream => sets > MAX_WANTED as u64,
    }
}

impl Machine {
    /// Runs many accesses of a core, in their order. The same as [`Machine::access`] for each, but for the order of the log:
    /// the misses of one cache are in order, those of several need not be.
    pub fn run(&mut self, core: usize, rows: Rows<'_>) {
        let n = rows.addr.len().min(rows.kind.len()).min(rows.size.len());
        // PERF: making requests of a single access takes longer than the access.
        let streams = if n > 1 { self.streams.take() } else { None };
        let Some(mut streams) = streams else {
            for row in 0..n {
                if !rows.skips(rows.kind[row]) {
                    let n_logged = self.misses.len();
                    self.access(core, rows.kind[row], rows.addr[row], rows.size[row], rows.pc(row));
                    self.number(n_logged, row);
                }
            }
            return;
        };
        let mut at = 0;
        while at < n {
            let chunk = rows.part(at..n.min(at + CHUNK));
            let n_logged = self.misses.len();
            let taken = self.chunk(core, chunk, &mut streams);
            self.number(n_logged, at);
            at += taken;
            if taken < chunk.addr.len() {
                // An access of many lines, of none, or a flush.
                let n_logged = self.misses.len();
                self.access(core, rows.kind[at], rows.addr[at], rows.size[at], rows.pc(at));
                self.number(n_logged, at);
                at += 1;
            }
        }
        self.streams = Some(streams);
    }

    /// Counts the rows of the misses logged since there were `n_logged` from the beginning on; the chunk is `at` away from it.
    #[inline]
    pub(super) fn number(&mut self, n_logged: usize, at: usize) {
        if at > 0 {
            for miss in self.misses.iter_mut().skip(n_logged) {
                miss.row = miss.row.saturating_add(u32::try_from(at).unwrap_or(u32::MAX));
            }
        }
    }

    /// Runs at most [`CHUNK`] accesses, up to the first that is out of the ordinary; how many. What the machine asks of memory is
    /// added to `asks`. Only where the caches of the two sides have nothing in common.
    pub(super) fn run_asking(&mut self, core: usize, rows: Rows<'_>, asks: &mut Vec<Want>) -> usize {
        let Some(mut streams) = self.streams.take() else { return 0 };
        let taken = self.chunk(core, rows, &mut streams);
        merge(&streams.lists[0][1], &streams.lists[1][1], asks);
        self.streams = Some(streams);
        taken
    }

    /// Runs accesses up to the first that is out of the ordinary; how many.
    fn chunk(&mut self, core: usize, rows: Rows<'_>, streams: &mut Streams) -> usize {
        let [instr, data] = self.first[core];
        let sides = Sides {
            joins: self.caches[instr].joins && self.caches[data].joins,
            is_unified: instr == data,
            set_mask: self.caches[data].set_mask,
        };
        let (taken, n_wanted) = sort((self.shift, self.space), sides, rows, &mut streams.first);
        let Streams { paths, first, lists } = streams;
        let (first_instr, first_data) = first.split_at(SIDE);
        let (first_instr, first_data) = (&first_instr[..n_wanted[0]], &first_data[..n_wanted[1]]);
        let [instr, data, both] = &paths[core];
        let [instr_list, data_list] = lists;
        if let ([], [], [cache, farther @ ..]) = (&instr[..], &data[..], &both[..]) {
            // The first cache serves both sides, whose requests are all on one.
            instr_list[1].clear();
            self.pass(*cache, first_data, rows, data_list);
            self.follow(farther, rows, data_list);
            return taken;
        }
        for (path, wanted, list) in
            [(instr, first_instr, &mut *instr_list), (data, first_data, &mut *data_list)]
        {
            let [cache, farther @ ..] = &path[..] else { continue };
            self.pass(*cache, wanted, rows, list);
            self.follow(farther, rows, list);
        }
        if !both.is_empty() {
            let [merged, asks] = instr_list;
            merged.clear();
            merge(asks, &data_list[1], merged);
            std::mem::swap(merged, asks);
            self.follow(both, rows, instr_list);
        }
        taken
    }

    /// Sends the requests in `list[1]` through one cache after the other.
    fn follow(&mut self, path: &[usize], rows: Rows<'_>, list: &mut [Vec<Want>; 2]) {
        for cache in path {
            if list[1].is_empty() {
                return;
            }
            let [asked, asks] = list;
            std::mem::swap(asked, asks);
            asks.clear();
            // What the cache before has joined was one miss of it, so all of these are for one use.
            let (mut pass, store) = self.at(*cache, rows);
            each!(store, store => pass.run(store, asked, asks));
        }
    }

    /// Sends `wanted` through a first cache; what it misses, and prefetches, goes into `list[1]`.
    fn pass(&mut self, cache: usize, wanted: &[Want], rows: Rows<'_>, list: &mut [Vec<Want>; 2]) {
        let [_, asks] = list;
        asks.clear();
        let (mut pass, store) = self.at(cache, rows);
        each!(store, store => pass.run(store, wanted, asks));
    }

    fn at<'m>(&'m mut self, cache: usize, rows: Rows<'m>) -> (Pass<'m>, &'m mut Store) {
        let of = &mut self.caches[cache];
        let pass = Pass {
            ledger: &mut of.ledger,
            prefetcher: &mut of.prefetcher,
            log: &mut self.misses,
            rows,
            shift: self.shift,
            line_mask: self.line_mask,
            space: self.space,
        };
        (pass, &mut of.store)
    }
}

/// Which uses of a line are one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides {
    /// Whether those are of the line that the same side has used just before.
    pub(super) joins: bool,
    /// Whether one cache serves both sides.
    pub(super) is_unified: bool,
    /// If it does: the other side may have used lines in between that differ in one of these bits, and uses are only counted.
    pub(super) set_mask: u64,
}

/// Makes requests of accesses: those for instructions from the beginning of `wanted` on, those for data (or all, if one cache
/// serves both sides) from [`SIDE`] on. How many accesses were taken, and how many requests each side has.
pub(super) fn sort(
    (shift, space): (u32, u64),
    sides: Sides,
    rows: Rows<'_>,
    wanted: &mut [Want],
) -> (usize, [usize; 2]) {
    match (sides.is_unified, sides.joins) {
        (false, false) => sort_as::<false, false>((shift, space), 0, rows, wanted),
        (false, true) => sort_as::<false, true>((shift, space), 0, rows, wanted),
        (true, false) => sort_as::<true, false>((shift, space), 0, rows, wanted),
        (true, true) => sort_as::<true, true>((shift, space), sides.set_mask, rows, wanted),
    }
}

fn sort_as<const UNIFIED: bool, const JOINS: bool>(
    (shift, space): (u32, u64),
    set_mask: u64,
    rows: Rows<'_>,
    wanted: &mut [Want],
) -> (usize, [usize; 2]) {
    let n_rows = rows.addr.len();
    let (kinds, sizes) = (&rows.kind[..n_rows], &rows.size[..n_rows]);
    // PERF: whose turn it is, and whether the line is the same as before, is anybody's guess: no branch, and no array
    // indexed by the side. The line that a side has used last, and its place in `wanted`, are first those of the side whose turn
    // it is, then those of the other; they change by masks, since the compiler may make a branch of anything else.
    let mut side = INSTR;
    let mut lines = [NO_LINE; 2];
    // Where each side writes next; if there is one list for both, the second alone counts.
    let mut places = [0, SIDE as u64];
    let mut end = SIDE as u64;
    let mut taken = n_rows;
    for row in 0..n_rows {
        let kind = kinds[row];
        let (addr, size) = (rows.addr[row], u64::from(sizes[row]));
        let first = addr >> shift;
        let last = addr.wrapping_add(size).wrapping_sub(1) >> shift;
        let line = first | space;
        let want = Want { line, row: row as u32, again: 0 }; // A chunk is short.
        if (first != last) | !is_ordinary(kind) {
            if rows.skips(kind) {
                continue;
            }
            let Some((of, mark)) = unusual(kind, first..=last, size) else {
                taken = row;
                break;
            };
            turn(&mut side, of, &mut lines, &mut places);
            let want = Want { row: want.row | mark, ..want };
            let place = if UNIFIED { &mut end } else { &mut places[0] };
            wanted[*place as usize] = want;
            wanted[*place as usize + 1] = Want { line: last | space, ..want };
            *place += 1 + u64::from(first != last);
            // In one list the other side begins anew, wherever it was.
            lines = [last | space, if UNIFIED { NO_LINE } else { lines[1] }];
            continue;
        }
        turn(&mut side, u64::from(kind != AccessKind::Fetch).wrapping_neg(), &mut lines, &mut places);
        let is_new = (lines[0] != line) | !JOINS;
        // It is written after the last, whether it stays there or not.
        let place = if UNIFIED { &mut end } else { &mut places[0] };
        wanted[*place as usize] = want;
        *place += u64::from(is_new);
        if JOINS {
            wanted[*place as usize - 1].again += u32::from(!is_new);
        }
        if UNIFIED {
            // A request in the same set ends what the other side may join; no line has all bits.
            let is_near = is_new & ((line ^ lines[1]) & set_mask == 0);
            lines[1] |= u64::from(is_near).wrapping_neg();
        }
        lines[0] = line;
    }
    turn(&mut side, INSTR, &mut lines, &mut places);
    let [n_instr, end_data] = if UNIFIED { [0, end] } else { places };
    (taken, [n_instr as usize, end_data as usize - SIDE])
}

/// The sides, as masks.
const INSTR: u64 = 0;
const DATA: u64 = u64::MAX;

/// It is the turn of this side.
#[inline(always)]
fn turn(side: &mut u64, of: u64, lines: &mut [u64; 2], places: &mut [u64; 2]) {
    let change = *side ^ of;
    *side = of;
    for pair in [lines, places] {
        let bits = (pair[0] ^ pair[1]) & change;
        *pair = [pair[0] ^ bits, pair[1] ^ bits];
    }
}

/// The side of an access that is of two lines or no ordinary one, and its mark; `None` for what is odd: flushes, and what is of
/// more lines, of none, or goes round the end of all addresses.
#[inline(never)]
fn unusual(kind: AccessKind, lines: RangeInclusive<u64>, size: u64) -> Option<(u64, u32)> {
    let (first, last) = lines.into_inner();
    if first != last && (last != first + 1 || size == 0) {
        return None;
    }
    match kind {
        AccessKind::FlushData | AccessKind::FlushInstr => None,
        AccessKind::Fetch => Some((INSTR, 0)),
        AccessKind::PrefetchInstr => Some((INSTR, PREFETCH)),
        AccessKind::Prefetch => Some((DATA, PREFETCH)),
        AccessKind::Read | AccessKind::Write => Some((DATA, 0)),
    }
}

/// Brings the requests of both sides into the order of the accesses.
fn merge(instr: &[Want], data: &[Want], into: &mut Vec<Want>) {
    let (mut instr, mut data) = (instr, data);
    while let (Some(one), Some(other)) = (instr.first(), data.first()) {
        if one.row() < other.row() {
            into.push(*one);
            instr = &instr[1..];
        } else {
            into.push(*other);
            data = &data[1..];
        }
    }
    into.extend_from_slice(instr);
    into.extend_from_slice(data);
}
