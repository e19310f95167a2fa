//! Simulates many accesses at once, cache by cache.
//!
//! If no cache takes lines away from another (none is inclusive, exclusive or coherent), the behaviour of a cache depends
//! only on its requests and their order. So a chunk of accesses goes through the first caches of a core, one after the
//! other. The misses of each become a list of requests to the next; where the paths of instructions and data join, their
//! lists are merged in the order of the accesses. Each step is a plain loop over one array of requests and one cache,
//! compiled for its policy.
//!
//! Most accesses go to the line that the same side used last. They become one request that counts several times. This is
//! correct as long as nothing happens in the set in between; [`joins`] decides when that is certain. If one cache serves
//! both sides, the other side may use other sets in between.
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

/// Number of accesses in a chunk.
pub(super) const CHUNK: usize = 2048;
/// Room for the requests of one side: an access makes at most two (larger ones are not processed in chunks), and one is
/// written past the last.
pub(super) const SIDE: usize = 2 * CHUNK + 2;

/// Accesses as columns of equal length, except `pc`, which may be empty.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Kind of each access.
    pub kind: &'a [AccessKind],
    /// First byte of each access.
    pub addr: &'a [u64],
    /// Size in bytes.
    pub size: &'a [u32],
    /// Address of the instruction.
    pub pc: &'a [u64],
    /// Whether prefetches and flushes are skipped, as TLBs do.
    pub is_demand_only: bool,
}

impl<'a> Rows<'a> {
    /// A range of the rows.
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

    /// Whether a kind of access is skipped.
    fn skips(&self, kind: AccessKind) -> bool {
        self.is_demand_only && !is_ordinary(kind)
    }
}

/// A request for one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) line: u64,
    /// Row of the access in the chunk's columns, with one of the flags below.
    pub(super) row: u32,
    /// Number of further uses counted with this one: of its line or, where only their number matters, of lines used before.
    pub(super) again: u32,
}

/// Flag of a request that a cache makes itself.
pub(super) const OWN: u32 = 1 << 31;
/// Flag of a request for a prefetch by the program.
pub(super) const PREFETCH: u32 = 1 << 30;
/// Flag of a request for a line that the requesting cache has requested before.
const KNOWN: u32 = 1 << 29;

impl Want {
    pub(super) const NOTHING: Want = Want { line: NO_LINE, row: 0, again: 0 };

    pub(super) fn is_prefetch(self) -> bool {
        self.row & (OWN | PREFETCH) != 0
    }

    pub(super) fn row(self) -> usize {
        (self.row & !(OWN | PREFETCH | KNOWN)) as usize
    }

    /// The request's purpose, first byte and size.
    fn request(self, rows: &Rows<'_>, shift: u32, space: u64) -> Request {
        let row = self.row();
        let purpose = PURPOSES[(self.row >> 30) as usize][rows.kind[row] as usize % 8];
        let is_own = self.row & OWN != 0;
        let addr = rows.addr[row];
        // Sizes are missing if individual misses are not needed.
        let size = rows.size.get(row).copied().unwrap_or(0);
        // For lines after the first, and for requests by a cache, the address is the start of the line.
        let start = self.line << shift;
        let is_first = !is_own & ((addr >> shift | space) == self.line);
        let whole = Request { addr, size, pc: rows.pc(row), purpose, row: row as u32 }; // A row of a chunk.
        let rest = whole.rest_at(start);
        let size = if is_own { 0 } else { rest.size };
        Request {
            addr: if is_first { addr } else { start },
            size: if is_first { whole.size } else { size },
            ..whole
        }
    }
}

/// Purposes of requests, indexed by their upper flags and the kind of access.
///
/// PERF: the kind is unpredictable, so this is a table look-up instead of a branch.
const PURPOSES: [[Purpose; 8]; 4] = {
    let mut demand = [Purpose::Fetch; 8];
    demand[AccessKind::Read as usize] = Purpose::Read;
    demand[AccessKind::Write as usize] = Purpose::Write;
    [demand, [Purpose::Prefetch; 8], [Purpose::OwnPrefetch; 8], [Purpose::OwnPrefetch; 8]]
};

/// Whether accesses of this kind (read, write, fetch) take the fast path.
fn is_ordinary(kind: AccessKind) -> bool {
    const ORDINARY: u32 =
        1 << AccessKind::Read as u32 | 1 << AccessKind::Write as u32 | 1 << AccessKind::Fetch as u32;
    ORDINARY >> kind as u32 & 1 == 1
}

/// The paths of requests through a machine, and the buffers for them.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// For each core: the caches for instructions only, those for data only, and the shared ones, each from the core towards
    /// memory.
    paths: Vec<[Vec<usize>; 3]>,
    /// Requests to the first caches: of instructions and, from [`SIDE`] on, of data.
    first: Box<[Want]>,
    /// For each side: the requests that a cache receives, and those that it makes. Shared caches use one of the two pairs.
    lists: [[Vec<Want>; 2]; 2],
}

impl Streams {
    /// `None` if evictions of one cache affect another, or pages have several sizes.
    pub(super) fn new(spec: &MachineSpec, layout: &Layout) -> Option<Streams> {
        let is_free = |cache: &CacheSpec| cache.inclusion == Inclusion::Free;
        if spec.coherent || !spec.large.is_empty() || !spec.caches.iter().all(is_free) {
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

/// Whether consecutive uses of a line can be counted together although the cache may prefetch in between: if prefetched
/// lines go to other sets, or cannot evict the line used last.
pub(super) fn joins(cache: &CacheSpec, sets: u64) -> bool {
    let keeps = cache.policy == Policy::Lru && cache.ways > 1;
    // With another number of sets, the line after the last of the address space can be in the same set.
    let is_power = sets.is_power_of_two();
    match cache.prefetch {
        Prefetch::None => true,
        Prefetch::NextLine => keeps || (sets > 1 && is_power),
        Prefetch::Stride => keeps,
        Prefetch::Stream => sets > MAX_WANTED as u64 && is_power,
    }
}

impl Machine {
    /// Simulates many accesses of a core, in order. Same as [`Machine::access`] for each, except for the order of the log:
    /// the misses of one cache are in order, those of different caches need not be.
    pub fn run(&mut self, core: usize, rows: Rows<'_>) {
        let n = rows.addr.len().min(rows.kind.len()).min(rows.size.len());
        // PERF: for a single access, building requests takes longer than simulating it.
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
                // An access that touches more than two lines or none, or a flush.
                let n_logged = self.misses.len();
                self.access(core, rows.kind[at], rows.addr[at], rows.size[at], rows.pc(at));
                self.number(n_logged, at);
                at += 1;
            }
        }
        self.streams = Some(streams);
    }

    /// Adds `at`, the offset of the chunk, to the rows of the misses logged from index `n_logged` on.
    #[inline]
    pub(super) fn number(&mut self, n_logged: usize, at: usize) {
        if at > 0 {
            for miss in self.misses.iter_mut().skip(n_logged) {
                miss.row = miss.row.saturating_add(u32::try_from(at).unwrap_or(u32::MAX));
            }
        }
    }

    /// Simulates at most [`CHUNK`] accesses, up to the first that needs [`Machine::access`]; returns their number. Appends
    /// requests to memory to `asks`. Only valid if the two sides share no cache.
    pub(super) fn run_asking(&mut self, core: usize, rows: Rows<'_>, asks: &mut Vec<Want>) -> usize {
        let Some(mut streams) = self.streams.take() else { return 0 };
        let taken = self.chunk(core, rows, &mut streams);
        merge(&streams.lists[0][1], &streams.lists[1][1], asks);
        self.streams = Some(streams);
        taken
    }

    /// Simulates accesses up to the first that needs [`Machine::access`]; returns their number.
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
            // One first cache serves both sides, and all requests are on the second.
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
            // Uses joined by the cache before were a single miss, so each of these requests is a single use.
            let (mut pass, store) = self.at(*cache, rows);
            each!(store, store => pass.run(store, asked, asks));
        }
    }

    /// Sends `wanted` through a first cache; its misses and prefetches go to `list[1]`.
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

/// Which uses of a line become one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides {
    /// Whether consecutive uses of one line by the same side do.
    pub(super) joins: bool,
    /// Whether one cache serves both sides.
    pub(super) is_unified: bool,
    /// If it does: accesses of the other side in between are allowed if they differ from the line in one of these bits; then
    /// only the number of uses matters.
    pub(super) set_mask: u64,
}

/// Turns accesses into requests: those for instructions at the beginning of `wanted`, those for data (or all, if one cache
/// serves both sides) from [`SIDE`] on. Returns the number of accesses, and the number of requests of each side.
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
    // PERF: which side comes next, and whether the line is the same as before, is unpredictable: so no branch, and no array
    // indexed by the side. `lines` and `places` hold the last line and the write position of the current side first, then
    // those of the other; they are swapped with masks, since the compiler may turn anything else into a branch.
    let mut side = INSTR;
    let mut lines = [NO_LINE; 2];
    // Where each side writes next; with a single list for both, only the second is used.
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
            // In a single list, the other side must not join across this access.
            lines = [last | space, if UNIFIED { NO_LINE } else { lines[1] }];
            continue;
        }
        turn(&mut side, u64::from(kind != AccessKind::Fetch).wrapping_neg(), &mut lines, &mut places);
        let is_new = (lines[0] != line) | !JOINS;
        // It is always written after the last; `place` advances only if it is new.
        let place = if UNIFIED { &mut end } else { &mut places[0] };
        wanted[*place as usize] = want;
        *place += u64::from(is_new);
        if JOINS {
            wanted[*place as usize - 1].again += u32::from(!is_new);
        }
        if UNIFIED {
            // A request in the same set ends joining for the other side; no line has all bits set.
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

/// Makes `of` the current side.
#[inline(always)]
fn turn(side: &mut u64, of: u64, lines: &mut [u64; 2], places: &mut [u64; 2]) {
    let change = *side ^ of;
    *side = of;
    for pair in [lines, places] {
        let bits = (pair[0] ^ pair[1]) & change;
        *pair = [pair[0] ^ bits, pair[1] ^ bits];
    }
}

/// Side and flag of an access to two lines, or of a kind other than read, write and fetch. `None` for flushes, and for
/// accesses that touch more lines or none, or wrap around the end of the address space.
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

/// Merges the requests of both sides in the order of the accesses.
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
