//! Attributes accesses and misses to types and fields.
//!
//! [`Fields`] accompanies a simulation. It receives every access, every change of regions and every miss in order, and
//! counts them by field, by thread and by allocation site.
//!
//! An access counts once for its type and once for each field that it touches; if it touches several, the fields add up to
//! more than their type. A miss counts for the field that contains the first byte requested from the line. Bytes of a region
//! that belong to no field are its padding; bytes after a region's only element are *beyond* it.
//!
//! Which bytes of a line were never touched is known only when a region or the trace ends: its lines are then *settled*,
//! field by field, and count as fresh from there on.
//!
//! | file | what |
//! |---|---|
//! | `count` | counts by field |
//! | `quick` | the fast path for nearly all accesses |
//! | `space` | memory by pages: regions and touched bytes |
//! | `sharing` | lines that threads take over from each other |
//! | `settle` | used and unused bytes of lines |
//! | `source` | types out of programs and files; variables |
//! | `rows` | each access with its type |
//! | `report`, `show` | the results, as data and as text |
//! | `tool` | the analysis `types` |

mod count;
mod quick;
mod report;
mod rows;
mod settle;
mod sharing;
mod show;
mod source;
mod space;
pub mod tool;

#[cfg(test)]
mod tests;

pub(crate) use report::Around;
pub use report::{
    FieldRow, MissingField, Numbers, PartRow, SharedLine, SharedPart, SiteRow, ThreadRow, TypeReport, TypeRow,
};
pub use source::TypeSource;
pub(crate) use source::missing_types;

use crate::machine::{Miss, Purpose};
use count::{Counters, GAP, Kind, PARTS_BEHIND, TRAILING, Tally};
use hashbrown::HashMap;
use quick::{Cell, Told};
use quipu_model::Batch;
use quipu_model::lens::RegionEvent;
use quipu_symbols::attribute::{Attribution, Held, Shape, Spot, Types};
use quipu_symbols::places::Places;
use quipu_symbols::regions::Region;
use quipu_symbols::symbol_table::DataSymbol;
use rustc_hash::FxBuildHasher;
use sharing::{Sharing, Turn};
use space::{Line, NOBODY, PAGE_SHIFT, Space};
use std::ops::Range;
use std::sync::Arc;

/// Allocation sites with counts of their own; all further ones are counted with the first, which is memory without a region.
const MAX_SITES: usize = 1 << 16;
/// Threads with counts of their own; all further ones share the last.
const MAX_THREADS: usize = 1 << 12;

/// Prefix of the kind of a variable whose type is unknown.
pub(crate) const UNKNOWN: &str = "unknown type, symbol ";

/// An allocation site: a variable, or all annotations with the same type, element size, number of elements, and place if the
/// places are known.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Name of the variable; for annotations, the type's name as the trace spells it.
    pub(crate) name: String,
    /// Number of its kind.
    pub(crate) kind: u32,
    /// Whether it is a variable.
    pub(crate) is_variable: bool,
    /// Bytes per region.
    pub(crate) bytes: u64,
    /// Number of regions.
    pub(crate) regions: u64,
    /// Place that allocated them, if known.
    pub(crate) place: Option<u32>,
    pub(crate) counts: Tally,
    pub(crate) misses: Vec<u64>,
}

/// Counts by field; see the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    attribution: Attribution,
    line_shift: u32,
    /// Bytes per bit of a line, as a power of two.
    unit_shift: u32,
    n_levels: usize,
    kinds: Vec<Kind>,
    by_shape: HashMap<u32, u32, FxBuildHasher>,
    by_name: HashMap<Box<[u8]>, u32, FxBuildHasher>,
    sites: Vec<Site>,
    /// Sites of annotations, by kind, element size, number of elements, and place.
    site_of: HashMap<(u32, u64, u64, Option<u32>), u32, FxBuildHasher>,
    places: Arc<Places>,
    /// Counts of each thread, by counter.
    threads: Vec<Counters>,
    /// Counts that are kept for all threads together.
    totals: count::Totals,
    n_counters: u32,
    /// The cells of all kinds.
    cells: Vec<Cell>,
    /// Counter and site of each access of the last call, row by row; empty if nothing requested them.
    told: Vec<Told>,
    space: Space,
    sharing: Sharing,
    /// Lines touched, by counter, kind, site and thread.
    lines: count::LineSets,
    /// Regions that did not fit into the full map.
    n_left_out: u64,
    /// Buffer for the counters that one access touches.
    touched: Vec<u32>,
}

impl Fields {
    /// Creates empty counts. `line_shift` is the line size as a power of two, `n_levels` the number of levels with misses.
    pub(crate) fn new(types: Types, line_shift: u32, n_levels: usize) -> Fields {
        let mut fields = Fields {
            attribution: Attribution::new(types),
            line_shift: line_shift.min(PAGE_SHIFT),
            unit_shift: line_shift.saturating_sub(6),
            n_levels,
            kinds: Vec::new(),
            by_shape: HashMap::default(),
            by_name: HashMap::default(),
            sites: Vec::new(),
            site_of: HashMap::default(),
            places: Arc::default(),
            threads: Vec::new(),
            totals: count::Totals::default(),
            n_counters: 0,
            cells: quick::first_cells(),
            told: Vec::new(),
            space: Space::new(line_shift.min(PAGE_SHIFT)),
            sharing: Sharing::default(),
            lines: count::LineSets::default(),
            n_left_out: 0,
            touched: Vec::new(),
        };
        // Memory outside of all regions is the first kind, at the first site.
        let unknown = fields.add_kind("(no region)".to_owned(), None);
        fields.add_site("(no region)".to_owned(), unknown, false, 0);
        fields
    }

    /// Tells regions of different places apart from now on.
    pub(crate) fn set_places(&mut self, places: Arc<Places>) {
        self.places = places;
    }

    /// Resets all counts; regions and the state of lines stay.
    pub(crate) fn reset(&mut self) {
        self.settle_all();
        for counters in &mut self.threads {
            counters.clear();
        }
        self.totals.clear();
        self.lines.clear();
        self.sharing = Sharing::default();
        for site in &mut self.sites {
            (site.counts, site.regions) = (Tally::default(), 0);
            site.misses.fill(0);
        }
    }

    fn add_kind(&mut self, name: String, shape: Option<u32>) -> u32 {
        let (n_fields, cells) = match shape.map(|shape| self.attribution.types().shape(shape)) {
            // There are few types.
            Some(shape) => (shape.fields.len() as u32, quick::add_cells(&mut self.cells, shape)),
            None => (1, 0..0),
        };
        let kind = Kind { name, shape, base: self.n_counters, n_fields, cells };
        self.n_counters += n_fields + PARTS_BEHIND;
        self.kinds.push(kind);
        (self.kinds.len() - 1) as u32
    }

    fn add_site(&mut self, name: String, kind: u32, is_variable: bool, bytes: u64) -> u32 {
        if self.sites.len() >= MAX_SITES {
            return 0;
        }
        let misses = vec![0; self.n_levels];
        let counts = Tally::default();
        self.sites.push(Site { name, kind, is_variable, bytes, regions: 0, place: None, counts, misses });
        (self.sites.len() - 1) as u32
    }

    /// The kind of a type that was found.
    fn kind_of(&mut self, shape: u32) -> u32 {
        if let Some(kind) = self.by_shape.get(&shape) {
            return *kind;
        }
        let name = self.attribution.types().shape(shape).name.clone();
        let kind = self.add_kind(name, Some(shape));
        self.by_shape.insert(shape, kind);
        kind
    }

    /// The kind of a name in an annotation: a type, or a name that could not be resolved.
    fn kind_named(&mut self, name: &[u8]) -> u32 {
        if let Some(kind) = self.by_name.get(name) {
            return *kind;
        }
        let kind = match self.attribution.types_mut().find(name) {
            Some((shape, _)) => self.kind_of(shape),
            None if self.by_name.len() >= MAX_SITES => return 0,
            None => self.add_kind(String::from_utf8_lossy(name).into_owned(), None),
        };
        self.by_name.insert(name.into(), kind);
        kind
    }

    /// Adds the program's variables; `base` is added to their addresses in the file.
    pub(crate) fn add_variables(&mut self, base: u64) {
        let Some(program) = self.attribution.types().shared_program() else { return };
        for global in program.variables().globals.iter().filter(|global| global.size > 0) {
            let Some(ty) = global.ty else { continue };
            let addr = global.address.wrapping_add(base);
            match self.attribution.types_mut().of_type(ty) {
                Some((shape, n)) => {
                    let kind = self.kind_of(shape);
                    let site = self.add_site(global.name.clone(), kind, true, global.size);
                    self.attribution.add_shape(shape, addr, n, site);
                    self.count_region(site);
                }
                None => {
                    let kind = self.kind_named(program.text_of(ty).as_bytes());
                    let site = self.add_site(global.name.clone(), kind, true, global.size);
                    self.attribution.add_plain(addr, global.size, site);
                    self.count_region(site);
                }
            }
        }
    }

    /// Adds variables known only by name, relocated like those of [`Fields::add_variables`].
    pub(crate) fn add_symbols(&mut self, symbols: &[DataSymbol], base: u64) {
        for symbol in symbols.iter().take(MAX_SITES / 2) {
            let kind = self.add_kind(format!("{UNKNOWN}{}", symbol.name), None);
            let site = self.add_site(symbol.name.clone(), kind, true, symbol.size);
            self.attribution.add_plain(symbol.address.wrapping_add(base), symbol.size, site);
            self.count_region(site);
        }
    }

    fn count_region(&mut self, site: u32) {
        if let Some(site) = self.sites.get_mut(site as usize) {
            site.regions += 1;
        }
    }

    /// Applies one row of the batch's regions lens.
    pub(crate) fn event(&mut self, batch: &Batch, row: usize) {
        let regions = &batch.regions;
        let addr = regions.addr[row];
        if regions.what[row] == RegionEvent::Remove {
            let Some(region) = self.attribution.regions().removable(addr) else { return };
            let (start, end) = (region.start, region.end);
            self.settle(start, end);
            self.attribution.remove(addr);
            self.space.repaint(start, end, self.attribution.regions());
            return;
        }
        let (element_bytes, n_elements) = (regions.element_bytes[row], regions.n_elements[row]);
        // Annotations of no bytes hold nothing; marks are such.
        if element_bytes == 0 && n_elements == 0 {
            return;
        }
        let name = regions.type_name.get(row);
        let kind = self.kind_named(name);
        // Regions of records that are not read have no position.
        let record = batch.span.first_record + u64::from(regions.at[row]);
        let place = if batch.span.records > 0 { self.places.of_region(record) } else { None };
        let key = (kind, element_bytes, n_elements, place);
        let site = match self.site_of.get(&key) {
            Some(site) => *site,
            None => {
                let bytes = element_bytes.saturating_mul(n_elements);
                let site = self.add_site(String::from_utf8_lossy(name).into_owned(), kind, false, bytes);
                if let Some(added) = self.sites.get_mut(site as usize).filter(|_| site > 0) {
                    added.place = place;
                }
                self.site_of.insert(key, site);
                site
            }
        };
        let end = addr.saturating_add(element_bytes.saturating_mul(n_elements));
        self.settle(addr, end);
        match self.attribution.add_named(name, addr, element_bytes, n_elements, site) {
            Some(_) => self.count_region(site),
            None => self.n_left_out += 1,
        }
        self.space.repaint(addr, end, self.attribution.regions());
    }

    /// Applies all region changes of a batch whose accesses do not count.
    pub(crate) fn events(&mut self, batch: &Batch) {
        (0..batch.regions.len()).for_each(|row| self.event(batch, row));
    }

    /// Counts accesses of a thread.
    pub(crate) fn accesses(&mut self, batch: &Batch, rows: Range<usize>, thread: usize) {
        let thread = self.thread(thread);
        let mut counters = std::mem::take(&mut self.threads[thread]);
        self.accesses_of(&mut counters, thread as u32, batch, rows); // At most `MAX_THREADS`.
        self.threads[thread] = counters;
    }

    /// Index of a thread's counters, which are created if needed.
    fn thread(&mut self, thread: usize) -> usize {
        let thread = thread.min(MAX_THREADS - 1);
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, Counters::default);
        }
        self.threads[thread].fit(self.n_counters, self.n_levels);
        thread
    }

    /// Counts an access on the slow path, which handles any access.
    fn access(&mut self, counters: &mut Counters, thread: u32, addr: u64, size: u64, is_write: usize) {
        let regions = self.attribution.regions();
        let last = addr.wrapping_add(size - 1);
        let page = self.space.page(addr, regions);
        let is_in_line = addr >> self.line_shift == last >> self.line_shift;
        if is_in_line {
            self.touch(addr, last, thread, is_write);
        }
        let Some(region) = self.space.region(page, addr, self.attribution.regions()) else {
            // The access begins outside of all regions, so a region that begins within it does not count.
            counters.add(0, is_write);
            self.sites[0].counts.0[is_write] += 1;
            if !is_in_line {
                self.spill(addr, last, thread, is_write);
                self.totals.straddle(0);
            }
            return;
        };
        let site = &mut self.sites[region.what.origin as usize];
        site.counts.0[is_write] += 1;
        let kind = &self.kinds[site.kind as usize];
        match field_at(self.attribution.types(), kind, region, addr, size).filter(|_| is_in_line) {
            Some(field) => counters.add(kind.base + field, is_write),
            None => {
                let region = *region;
                self.access_parts(counters, thread, (addr, last), is_write, region);
            }
        }
    }

    /// Marks the touched bytes of a line for a thread.
    fn touch(&mut self, addr: u64, last: u64, thread: u32, is_write: usize) {
        let page = self.space.page(addr, self.attribution.regions());
        let line = self.space.line(page, addr);
        if line.owner != thread {
            take_over(line, addr >> self.line_shift, thread, &mut self.sharing, &mut self.lines);
        }
        line.seen[is_write] |= bits_between(addr, last, self.line_shift, self.unit_shift);
    }

    /// Counts an access to more than one field or line, to padding, or beyond a region.
    fn access_parts(
        &mut self,
        counters: &mut Counters,
        thread: u32,
        (addr, last): (u64, u64),
        is_write: usize,
        region: Region<Held>,
    ) {
        let site = &self.sites[region.what.origin as usize];
        let kind = &self.kinds[site.kind as usize];
        let end = region.end.min(last.saturating_add(1));
        // The buffer is kept between calls: an access may touch as many fields as it has bytes.
        let mut seen = std::mem::take(&mut self.touched);
        seen.clear();
        spans(self.attribution.types(), kind, &region, addr..end, &mut |counter, _| {
            if !seen.contains(&counter) {
                seen.push(counter);
            }
        });
        let (base, n_fields) = (kind.base, kind.n_fields);
        for counter in &seen {
            counters.add(*counter, is_write);
        }
        // The type itself counts the access only once.
        counters.add_extra(base + n_fields, (seen.len() as u64).saturating_sub(1), is_write);
        if seen.len() > 1 {
            self.totals.several(base);
        }
        if last >= region.end {
            self.totals.leave(base);
        }
        if addr >> self.line_shift != last >> self.line_shift {
            self.spill(addr, last, thread, is_write);
            self.totals.straddle(seen.first().map_or(base, |counter| *counter));
        }
        self.touched = seen;
    }

    /// Counts an access that continues in further lines.
    #[cold]
    fn spill(&mut self, addr: u64, last: u64, thread: u32, is_write: usize) {
        if last < addr {
            return;
        }
        let mut at = addr;
        loop {
            let line_end = at | ((1 << self.line_shift) - 1);
            self.touch(at, last.min(line_end), thread, is_write);
            if last <= line_end {
                return;
            }
            at = line_end + 1;
        }
    }

    /// Counts misses of a thread. They belong to the accesses of the last call if these were recorded in `told`. `levels`
    /// maps each cache to its level.
    pub(crate) fn misses(&mut self, misses: &[Miss], levels: &[Option<usize>], thread: usize) {
        let thread = self.thread(thread);
        for miss in misses {
            if !matches!(miss.purpose, Purpose::Read | Purpose::Write) {
                continue;
            }
            let Some(level) = levels[miss.cache as usize] else { continue };
            // An access recorded under one field lies in one line, so its miss has the same field.
            let told = self.told.get(miss.row as usize).copied().filter(|told| *told != Told::NOT);
            let told = match told {
                Some(told) => told,
                None => self.tell(miss),
            };
            if let Some(site) = self.sites.get_mut(told.site() as usize) {
                site.misses[level] += 1;
            }
            self.threads[thread].miss(told.counter(), level);
        }
    }

    /// Looks up the counter and site of the first byte that missed.
    fn tell(&mut self, miss: &Miss) -> Told {
        let region = match self.space.known(miss.addr) {
            Some(page) => self.space.region(page, miss.addr, self.attribution.regions()).copied(),
            // Pages exist only if accesses are counted.
            None => self.attribution.at(miss.addr).map(|hit| hit.region),
        };
        match region {
            Some(region) => Told::new(self.counter_at(&region, miss.addr, miss.size), region.what.origin),
            None => Told::new(0, 0),
        }
    }

    /// The counter of the first byte of an access to a region.
    fn counter_at(&self, region: &Region<Held>, addr: u64, size: u32) -> u32 {
        let kind = &self.kinds[self.sites[region.what.origin as usize].kind as usize];
        // Other fields that the access touches do not matter, but its size selects among overlapping members.
        let types = self.attribution.types();
        let size = u64::from(size).max(1);
        if let Some(field) = field_at(types, kind, region, addr, size) {
            return kind.base + field;
        }
        let end = addr.saturating_add(size).min(region.end);
        let mut found = None;
        spans(types, kind, region, addr..end, &mut |counter, _| {
            found = found.or(Some(counter));
        });
        found.unwrap_or(kind.base)
    }
}

/// The field of a region's element that contains all of these bytes, if a table look-up finds it; otherwise use [`spans`].
fn field_at(types: &Types, kind: &Kind, region: &Region<Held>, addr: u64, size: u64) -> Option<u32> {
    let offset = region.offset(addr);
    // Elements may be closer together than the size of their type.
    let stride = region.what.stride;
    let is_in_element = stride == 0 || offset + size <= stride;
    let field = match kind.shape {
        Some(shape) => types.shape(shape).whole(offset, size),
        None => Some(0),
    };
    field.filter(|_| is_in_element & (addr.wrapping_add(size - 1) < region.end))
}

/// The bits of a line that stand for the bytes from `first` to `last`, inclusive.
#[inline]
fn bits_between(first: u64, last: u64, line_shift: u32, unit_shift: u32) -> u64 {
    let in_line = |addr: u64| (addr & ((1 << line_shift) - 1)) >> unit_shift;
    let (first, last) = (in_line(first), in_line(last));
    (u64::MAX >> (63 - (last - first))) << first
}

/// Hands a line to a thread when another thread, or none, touched it last.
#[cold]
fn take_over(line: &mut Line, number: u64, thread: u32, sharing: &mut Sharing, lines: &mut count::LineSets) {
    lines.add(count::Whose::Thread(thread), number);
    lines.add(count::Whose::All, number);
    if line.owner != NOBODY {
        line.is_shared = true;
        sharing.ended(number, Turn { thread: line.owner, seen: line.seen });
    }
    line.hand_over(thread);
}

/// Splits some bytes of a region into fields and padding; calls `each` with the counter and the bytes of each part.
fn spans(
    types: &Types,
    kind: &Kind,
    region: &Region<Held>,
    bytes: Range<u64>,
    each: &mut dyn FnMut(u32, Range<u64>),
) {
    let Some(shape) = kind.shape.map(|shape| types.shape(shape)) else {
        return each(kind.base, bytes);
    };
    let stride = region.what.stride;
    let mut at = bytes.start;
    while at < bytes.end {
        let hit = region.hit(at);
        let element = at - hit.offset;
        let end = if stride == 0 { bytes.end } else { element.saturating_add(stride).min(bytes.end) };
        spans_of_element(shape, kind, hit.offset..end - element, &mut |counter, bytes| {
            each(counter, element + bytes.start..element + bytes.end);
        });
        at = end;
    }
}

fn spans_of_element(shape: &Shape, kind: &Kind, bytes: Range<u64>, each: &mut dyn FnMut(u32, Range<u64>)) {
    let inside = if shape.is_open { bytes.end } else { bytes.end.min(shape.size) };
    if bytes.start < inside {
        shape.touched(bytes.start..inside, &mut |spot, bytes| match spot {
            Spot::Field(found) => each(kind.base + found.field, bytes),
            Spot::Gap(_) => each(kind.base + kind.n_fields + GAP, bytes),
        });
    }
    let beyond = bytes.start.max(inside)..bytes.end;
    if beyond.start < beyond.end {
        each(kind.base + kind.n_fields + TRAILING, beyond);
    }
}
