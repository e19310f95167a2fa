//! The results by type, field, allocation site and thread.

use super::count::{GAP, Kind, TRAILING, Whose};
use super::{Fields, Site};
use crate::report::ThreadCounts;
use hashbrown::HashMap;
use quipu_model::ThreadId;
use quipu_model::result;
use quipu_model::result::Hex;
use quipu_symbols::attribute::Field;
use quipu_symbols::layout::Cell as Byte;
use rustc_hash::FxBuildHasher;

/// The smallest set of fields with this share of their type's accesses is hot.
const HOT: f64 = 0.8;
/// A field with less than this share of its type's accesses is cold.
const COLD: f64 = 0.01;

result! {
    /// Accesses and misses by type and field.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct TypeReport {
        pub line_size: u64 => "Bytes in a line.";
        pub machine: String => "The machine, in words.";
        pub levels: Vec<String> => "Cache levels that data goes through, from the cores to memory.";
        pub all: Numbers => "All accesses.";
        pub unknown: Numbers => "Accesses to memory outside all regions.";
        pub untyped: Numbers => "Accesses to regions whose type was not found.";
        pub types: Vec<TypeRow> => "Types.";
        pub more_types: u64 => "Number of further types.";
        pub sites: Vec<SiteRow> => "Allocation sites and variables.";
        pub more_sites: u64 => "Number of further sites.";
        pub threads: Vec<ThreadRow> => "Threads, in order of appearance.";
        pub moves: u64, named("true_sharing") => "Transfers of lines between threads by true sharing.";
        pub false_sharing: u64 => "Transfers of lines between threads by false sharing.";
        pub shared: Vec<SharedLine> => "Lines transferred between threads.";
        pub more_shared: u64 => "Number of further such lines.";
        pub has_types: bool => "Whether any source of types was available.";
        pub regions_left_out: u64 => "Regions ignored because the maximum number was reached.";
    }
}

result! {
    /// Numbers of accesses, lines and misses.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Numbers {
        pub accesses: u64 => "Reads and writes.";
        pub reads: u64 => "Reads.";
        pub writes: u64 => "Writes.";
        pub lines: u64 => "Distinct lines touched.";
        pub misses: Vec<u64> => "Misses of each level, without prefetches.";
    }
}

result! {
    /// One type.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct TypeRow {
        pub name: String, key => "Name of the type; if it was not found, the name in the trace.";
        pub is_known: bool => "Whether the type was found.";
        pub size: u64 => "Size in bytes, including trailing padding; 0 if unknown.";
        pub align: u64 => "Alignment in bytes, as far as the fields reveal it.";
        pub declared: Option<String> => "File and line of the declaration.";
        pub regions: u64 => "Regions of the type.";
        pub numbers: Numbers, flat => "Counts for the type.";
        pub straddling: u64 => "Accesses that straddle lines.";
        pub several_fields: u64 => "Accesses to more than one field, counting padding as a field.";
        pub leaving: u64 => "Accesses that begin in a region and continue after it.";
        pub fetched: u64 =>
            "Bytes of the type in lines in which it was touched; counted again when memory is reused for another region.";
        pub used: u64 => "Fetched bytes that were touched.";
        pub false_sharing: u64 => "Transfers of lines with this type between threads by false sharing.";
        pub fields: Vec<FieldRow> => "Fields, by offset.";
        pub padding: PartRow => "Bytes that belong to no field.";
        pub trailing: PartRow => "Bytes after the only element of a longer region.";
        pub threads: Vec<ThreadRow> => "Accesses of each thread; threads without any are left out.";
    } beside {
        pub(super) bytes: Vec<Byte> =>
            "Field of each byte, for the picture; only for types that are not too large.";
    }
}

result! {
    /// One field.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct FieldRow {
        pub path: String => "Path of the field; empty if the type has no members.";
        pub text: String, named("type") => "Type of the field, as declared.";
        pub offset: u64 => "Offset of its first occurrence, in bytes.";
        pub size: u64 => "Size of each occurrence, in bytes.";
        pub count: u64 => "Number of occurrences in the type.";
        pub declared: Option<String> => "File and line of the declaration.";
        pub heat: &'static str => "`hot`, `warm`, `cold` or `untouched`.";
        pub part: PartRow, flat => "Counts for the field.";
    }
}

result! {
    /// Counts for some bytes of a type.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct PartRow {
        pub numbers: Numbers, flat => "Counts for these bytes.";
        pub straddling: u64 => "Accesses that begin here and straddle lines.";
        pub fetched: u64 => "These bytes in lines in which the type was touched.";
        pub used: u64 => "Fetched bytes that were touched.";
    }
}

result! {
    /// An allocation site: a variable, or equal annotations, of the same place if a file of places says where they come from.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct SiteRow {
        pub name: String => "Name of the variable, or of the type in the annotation.";
        pub kind: &'static str => "`variable` or `annotation`.";
        pub allocated: Option<String> =>
            "Function, file and line that allocated the regions, then those of the caller; `null` if not known.";
        pub of: Option<String>, named("type") => "Type; `null` if it was not found.";
        pub bytes: u64 => "Size of each region, in bytes.";
        pub regions: u64 => "Number of regions.";
        pub numbers: Numbers, flat => "Counts for these regions.";
    }
}

result! {
    /// One thread.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct ThreadRow {
        pub thread: ThreadId, flat => "The thread.";
        pub numbers: Numbers, flat => "Counts for the thread.";
    }
}

result! {
    /// A line that was transferred between threads.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct SharedLine {
        pub addr: u64 as Hex, key => "First address of the line.";
        pub false_sharing: u64 =>
            "Transfers by false sharing: one of two threads wrote, and neither touched a byte that the other wrote.";
        pub moves: u64, named("true_sharing") => "Transfers by true sharing.";
        pub parts: Vec<SharedPart> => "Parts of the line that the threads touched, in transfers by false sharing.";
    }
}

result! {
    /// A part of a shared line that a thread touched.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct SharedPart {
        pub thread: ThreadId, flat => "The thread.";
        pub of: Option<String> => "Type or variable; `null` for memory outside all regions.";
        pub element: u64 => "Index of the element in its region.";
        pub field: Option<String> => "Field; `null` for padding and memory without fields.";
    }
}

result! {
    /// A field with misses, as listed by `caches`.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct MissingField {
        pub of: Option<String>, named("type") => "Type; `null` for memory outside all regions.";
        pub field: Option<String> => "Field; `null` if there is none.";
        pub misses: Vec<u64> => "Misses of each level.";
    }
}

/// Facts about the run that the report needs in addition to counts.
pub(crate) struct Around<'a> {
    pub(crate) line_size: u64,
    /// The machine, in words.
    pub(crate) machine: String,
    pub(crate) levels: Vec<String>,
    pub(crate) threads: &'a [ThreadCounts],
    pub(crate) top: usize,
}

/// Largest type in bytes that gets a byte map.
const MAX_PICTURE: u64 = 1 << 12;

impl Numbers {
    fn add(&mut self, reads: u64, writes: u64, misses: &[u64]) {
        self.reads += reads;
        self.writes += writes;
        self.accesses += reads + writes;
        if self.misses.len() < misses.len() {
            self.misses.resize(misses.len(), 0);
        }
        for (all, of) in self.misses.iter_mut().zip(misses) {
            *all += of;
        }
    }

    fn plus(&mut self, other: &Numbers) {
        self.add(other.reads, other.writes, &other.misses);
    }

    /// Sort key: misses of the last level, then of those before it, then accesses. Hotter is larger.
    pub(super) fn rank(&self) -> (Vec<u64>, u64) {
        (self.misses.iter().rev().copied().collect(), self.accesses)
    }
}

impl Fields {
    /// Builds the report.
    pub(crate) fn report(mut self, around: &Around<'_>) -> TypeReport {
        self.settle_all();
        let n_levels = around.levels.len();
        let empty = Numbers { misses: vec![0; n_levels], ..Numbers::default() };
        let false_sharing = self.false_sharing_by_kind();
        let mut types: Vec<TypeRow> = Vec::new();
        let (mut all, mut untyped, mut unknown) = (empty.clone(), empty.clone(), empty.clone());
        for (number, kind) in (0..).zip(&self.kinds) {
            let row = self.type_row(number, kind, around, false_sharing.get(&number).copied().unwrap_or(0));
            all.plus(&row.numbers);
            match number {
                0 => unknown = row.numbers,
                _ => {
                    if !row.is_known {
                        untyped.plus(&row.numbers);
                        untyped.lines += row.numbers.lines;
                    }
                    types.push(row);
                }
            }
        }
        types.retain(|row| {
            row.numbers.accesses > 0 || (row.regions > 0 && !self.is_variables_only(&row.name))
        });
        types.sort_by(|a, b| b.numbers.rank().cmp(&a.numbers.rank()).then_with(|| a.name.cmp(&b.name)));
        let more_types = types.len().saturating_sub(around.top) as u64;
        types.truncate(around.top);
        let mut sites: Vec<SiteRow> =
            (0..).zip(&self.sites).skip(1).map(|(number, site)| self.site_row(number, site)).collect();
        sites.retain(|site| site.numbers.accesses > 0 || site.kind == "annotation");
        sites.sort_by(|a, b| {
            let place = |site: &SiteRow| (site.name.clone(), site.bytes, site.allocated.clone());
            b.numbers.rank().cmp(&a.numbers.rank()).then_with(|| place(a).cmp(&place(b)))
        });
        let more_sites = sites.len().saturating_sub(around.top) as u64;
        sites.truncate(around.top);
        let threads = self.thread_rows(around);
        all.lines = self.lines.count(Whose::All);
        let mut shared: Vec<SharedLine> =
            self.sharing.lines.iter().map(|(line, of)| self.shared_line(*line, of, around)).collect();
        let (moves, false_sharing) =
            shared.iter().fold((0, 0), |sum, line| (sum.0 + line.moves, sum.1 + line.false_sharing));
        shared.retain(|line| line.false_sharing > 0);
        shared.sort_by_key(|line| (std::cmp::Reverse(line.false_sharing), line.addr));
        let more_shared = shared.len().saturating_sub(around.top) as u64;
        shared.truncate(around.top);
        TypeReport {
            line_size: around.line_size,
            machine: around.machine.clone(),
            levels: around.levels.clone(),
            all,
            unknown,
            untyped,
            types,
            more_types,
            sites,
            more_sites,
            threads,
            moves,
            false_sharing,
            shared,
            more_shared,
            has_types: !self.attribution.types().is_empty(),
            regions_left_out: self.n_left_out,
        }
    }

    /// The fields with most misses, and the number of further fields that miss.
    pub(crate) fn missing(&self, top: usize) -> (Vec<MissingField>, u64) {
        let mut rows = Vec::new();
        for (number, kind) in (0_u32..).zip(&self.kinds) {
            for counter in kind.counters() {
                let mut numbers = Numbers { misses: vec![0; self.n_levels], ..Numbers::default() };
                self.threads.iter().for_each(|of| numbers.add(0, 0, of.misses_at(counter)));
                if numbers.misses.iter().any(|misses| *misses > 0) {
                    rows.push((
                        numbers.rank(),
                        MissingField {
                            of: (number > 0).then(|| kind.name.clone()),
                            field: match kind.shape {
                                Some(_) => self.field_of(kind, counter).map(|field| field.path.clone()),
                                None => Some(String::new()),
                            },
                            misses: numbers.misses,
                        },
                    ));
                }
            }
        }
        rows.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| (&x.of, &x.field).cmp(&(&y.of, &y.field))));
        let more = rows.len().saturating_sub(top) as u64;
        rows.truncate(top);
        (rows.into_iter().map(|(_, row)| row).collect(), more)
    }

    /// Whether the type occurs in variables only, never in an annotation.
    fn is_variables_only(&self, name: &str) -> bool {
        let of = |site: &&Site| self.kinds.get(site.kind as usize).is_some_and(|kind| kind.name == name);
        self.sites.iter().filter(of).all(|site| site.is_variable)
    }

    fn field_of(&self, kind: &Kind, counter: u32) -> Option<&Field> {
        let shape = self.attribution.types().shape(kind.shape?);
        shape.fields.get((counter - kind.base) as usize)
    }

    fn numbers(&self, counter: u32, whose: Whose) -> Numbers {
        let mut numbers = Numbers { misses: vec![0; self.n_levels], ..Numbers::default() };
        for of in &self.threads {
            let [reads, writes] = of.at(counter).0;
            numbers.add(reads, writes, of.misses_at(counter));
        }
        numbers.lines = self.lines.count(whose);
        numbers
    }

    fn part(&self, counter: u32) -> PartRow {
        let total = self.totals.get(counter);
        PartRow {
            numbers: self.numbers(counter, Whose::Counter(counter)),
            straddling: total.straddling,
            fetched: total.fetched,
            used: total.used,
        }
    }

    fn type_row(&self, number: u32, kind: &Kind, around: &Around<'_>, false_sharing: u64) -> TypeRow {
        let shape = kind.shape.map(|shape| self.attribution.types().shape(shape));
        let place =
            |place: &Option<quipu_symbols::dwarf::types::Place>| place.as_ref().map(ToString::to_string);
        let field = |(counter, field): (u32, &Field)| FieldRow {
            path: field.path.clone(),
            text: field.text.clone(),
            offset: field.offset,
            size: field.size,
            count: field.count,
            declared: place(&field.place),
            heat: "",
            part: self.part(counter),
        };
        let mut fields: Vec<FieldRow> =
            shape.map_or_else(Vec::new, |shape| (kind.base..).zip(&shape.fields).map(field).collect());
        name_heat(&mut fields);
        let mut numbers = Numbers { misses: vec![0; self.n_levels], ..Numbers::default() };
        let mut threads = Vec::new();
        for (thread, of) in self.threads.iter().enumerate() {
            let mut own = Numbers { misses: vec![0; self.n_levels], ..Numbers::default() };
            let [reads, writes] = of.of_kind(kind).0;
            own.add(reads, writes, &[]);
            kind.counters().for_each(|counter| own.add(0, 0, of.misses_at(counter)));
            numbers.plus(&own);
            if own.accesses > 0 {
                threads.push(ThreadRow { numbers: own, ..named(thread as u32, around) });
            }
        }
        numbers.lines = self.lines.count(Whose::Kind(number));
        let sum = |of: fn(&super::count::Total) -> u64| {
            kind.counters().map(|counter| of(&self.totals.get(counter))).sum::<u64>()
        };
        let regions = self.sites.iter().filter(|site| site.kind == number).map(|site| site.regions).sum();
        let behind = kind.base + kind.n_fields;
        TypeRow {
            name: kind.name.clone(),
            is_known: kind.shape.is_some(),
            size: shape.map_or(0, |shape| shape.size),
            align: shape.map_or(0, |shape| shape.align),
            declared: shape.and_then(|shape| place(&shape.place)),
            regions,
            numbers,
            straddling: sum(|of| of.straddling),
            several_fields: sum(|of| of.several),
            leaving: sum(|of| of.leaving),
            fetched: sum(|of| of.fetched),
            used: sum(|of| of.used),
            false_sharing,
            fields,
            padding: self.part(behind + GAP),
            trailing: self.part(behind + TRAILING),
            threads,
            bytes: shape
                .filter(|shape| shape.size <= MAX_PICTURE)
                .map_or_else(Vec::new, |shape| (0..shape.size).map(|at| shape.cell(at)).collect()),
        }
    }

    fn site_row(&self, number: u32, site: &Site) -> SiteRow {
        let kind = self.kinds.get(site.kind as usize);
        let mut numbers = Numbers::default();
        numbers.add(site.counts.0[0], site.counts.0[1], &site.misses);
        numbers.lines = self.lines.count(Whose::Site(number));
        SiteRow {
            name: site.name.clone(),
            kind: if site.is_variable { "variable" } else { "annotation" },
            allocated: site.place.and_then(|place| self.places.name(place)).map(str::to_owned),
            of: kind.filter(|kind| kind.shape.is_some()).map(|kind| kind.name.clone()),
            bytes: site.bytes,
            regions: site.regions,
            numbers,
        }
    }

    fn thread_rows(&self, around: &Around<'_>) -> Vec<ThreadRow> {
        let rows = self.threads.iter().enumerate().map(|(thread, of)| {
            let mut row = named(thread as u32, around); // At most `MAX_THREADS`.
            row.numbers.misses = vec![0; self.n_levels];
            for kind in &self.kinds {
                let [reads, writes] = of.of_kind(kind).0;
                row.numbers.add(reads, writes, &[]);
                kind.counters().for_each(|counter| row.numbers.add(0, 0, of.misses_at(counter)));
            }
            row.numbers.lines = self.lines.count(Whose::Thread(thread as u32));
            row
        });
        rows.filter(|row| row.numbers.accesses > 0).collect()
    }

    fn shared_line(&self, line: u64, of: &super::sharing::Shared, around: &Around<'_>) -> SharedLine {
        let part =
            |with: &super::sharing::SharedWith| {
                let site = self.sites.get(with.origin as usize).filter(|_| with.origin > 0);
                let kind = site.and_then(|site| self.kinds.get(site.kind as usize));
                let thread = named(with.thread, around);
                SharedPart {
                    thread: thread.thread,
                    of: site.zip(kind).map(|(site, kind)| {
                        if site.is_variable { site.name.clone() } else { kind.name.clone() }
                    }),
                    element: with.element,
                    field: kind
                        .and_then(|kind| self.field_of(kind, with.counter))
                        .map(|field| field.path.clone()),
                }
            };
        let mut parts: Vec<SharedPart> = of.with.iter().map(part).collect();
        parts.sort_by(|a, b| {
            (a.thread, a.element, &a.of, &a.field).cmp(&(b.thread, b.element, &b.of, &b.field))
        });
        SharedLine { addr: line << self.line_shift, false_sharing: of.moves[1], moves: of.moves[0], parts }
    }

    /// Number of false-sharing moves of lines by kind.
    fn false_sharing_by_kind(&self) -> HashMap<u32, u64, FxBuildHasher> {
        let mut moves: HashMap<u32, u64, FxBuildHasher> = HashMap::default();
        for of in self.sharing.lines.values().flat_map(|line| &line.by_kind) {
            *moves.entry(of.kind).or_default() += of.moves;
        }
        moves
    }
}

/// Row of a thread by its number. From [`MAX_THREADS`](super::MAX_THREADS) on, one row stands for all the rest.
fn named(thread: u32, around: &Around<'_>) -> ThreadRow {
    let of = around.threads.get(thread as usize).copied().unwrap_or_default();
    ThreadRow { thread: of.thread, numbers: Numbers::default() }
}

impl SharedPart {
    /// Name for people: `Node[3].next`.
    pub(super) fn spelled(&self) -> String {
        let Some(of) = &self.of else { return "(no region)".to_owned() };
        let element = if self.element > 0 { format!("[{}]", self.element) } else { String::new() };
        match self.field.as_deref() {
            Some("") => format!("{of}{element}"),
            Some(field) => format!("{of}{element}.{field}"),
            None => format!("{of}{element} (padding)"),
        }
    }
}

impl MissingField {
    /// Name for people: `Node.next`.
    pub(crate) fn spelled(&self) -> String {
        match (self.of.as_deref(), self.field.as_deref()) {
            (None, _) => "(no region)".to_owned(),
            (Some(of), None) => format!("{of} (padding)"),
            (Some(of), Some("")) => of.to_owned(),
            (Some(of), Some(field)) => format!("{of}.{field}"),
        }
    }
}

/// Labels fields as hot, cold or untouched.
fn name_heat(fields: &mut [FieldRow]) {
    let total: u64 = fields.iter().map(|field| field.part.numbers.accesses).sum();
    let mut order: Vec<usize> = (0..fields.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(fields[*at].part.numbers.accesses));
    let mut before = 0;
    for at in order {
        let accesses = fields[at].part.numbers.accesses;
        // Shares of a total.
        let (share, reached) = (accesses as f64 / total.max(1) as f64, before as f64 / total.max(1) as f64);
        fields[at].heat = match () {
            () if accesses == 0 => "untouched",
            () if share < COLD => "cold",
            () if reached < HOT => "hot",
            () => "warm",
        };
        before += accesses;
    }
}
