//! Counts checked by hand on a few accesses, and the fast path compared with a slow one.

use super::quick::Told;
use super::report::{SiteRow, TypeReport};
use super::{Around, Fields, TypeSource};
use crate::caches;
use crate::machine::{Miss, Purpose};
use crate::options::{BASE, BINARY};
use crate::simulate::{Setup, Simulation};
use quipu_model::lens::{AccessKind, RegionEvent};
use quipu_model::pass::Detail;
use quipu_model::{Batch, Given, Options, Pass};
use quipu_symbols::attribute::Types;
use quipu_symbols::places::Places;
use quipu_symbols::types_file::TypesFile;
use quipu_testkit::Rng;

/// A file of types that tests of two crates share.
const FILE: &str = include_str!("../../../symbols/tests/programs/pairs.dwarf.json");

fn types() -> Types {
    Types::of_file(&TypesFile::parse(FILE.as_bytes()).unwrap())
}

/// Builds a batch of one thread, row by row.
#[derive(Default)]
struct Script(Batch);

impl Script {
    fn of(thread: u64) -> Script {
        let mut batch = Batch::default();
        batch.span.thread = thread.into();
        Script(batch)
    }

    fn access(mut self, kind: AccessKind, addr: u64, size: u32) -> Script {
        let Batch { accesses, span, .. } = &mut self.0;
        accesses.at.push(span.records);
        accesses.kind.push(kind);
        accesses.addr.push(addr);
        accesses.size.push(size);
        span.records += 1;
        self
    }

    fn read(self, addr: u64, size: u32) -> Script {
        self.access(AccessKind::Read, addr, size)
    }

    fn write(self, addr: u64, size: u32) -> Script {
        self.access(AccessKind::Write, addr, size)
    }

    fn region(mut self, what: RegionEvent, addr: u64, element_bytes: u64, n: u64, name: &str) -> Script {
        let Batch { regions, span, .. } = &mut self.0;
        regions.at.push(span.records);
        regions.what.push(what);
        regions.addr.push(addr);
        regions.element_bytes.push(element_bytes);
        regions.n_elements.push(n);
        regions.type_name.push(name.as_bytes());
        span.records += 1;
        self
    }

    fn add(self, addr: u64, element_bytes: u64, n: u64, name: &str) -> Script {
        self.region(RegionEvent::Add, addr, element_bytes, n, name)
    }

    fn remove(self, addr: u64) -> Script {
        self.region(RegionEvent::Remove, addr, 0, 0, "")
    }
}

fn settings(args: &[(&str, &str)]) -> Setup {
    let mut all = Given::default();
    all.add("prefetcher", "none");
    args.iter().for_each(|(name, value)| all.add(*name, *value));
    let types = Some(TypeSource { types: types(), ..TypeSource::default() });
    Setup {
        types,
        tells_types: Some(10),
        top: 0,
        ..caches::settings(&caches::INFO.parse(&all).unwrap(), None).unwrap()
    }
}

fn report(scripts: Vec<Script>, args: &[(&str, &str)]) -> TypeReport {
    report_with(settings(args), scripts)
}

fn report_with(settings: Setup, scripts: Vec<Script>) -> TypeReport {
    let mut simulation = Simulation::new(settings, None).unwrap();
    scripts.iter().for_each(|script| simulation.take(&script.0).unwrap());
    let report = Pass::finish(simulation).unwrap();
    report.document(Detail::Full);
    report.as_any().downcast_ref::<TypeReport>().unwrap().clone()
}

#[test]
fn accesses_are_told_of_the_records_that_count() {
    let script = || {
        let script = Script::of(0).add(0x1000, 16, 2, "struct.Pair").write(0x1000, 1).read(0x1008, 8);
        script.read(0x1018, 8).write(0x1000, 1).read(0x101c, 4)
    };
    for (option, n, reads, writes) in [
        ("skip-refs", "1", 3, 1),
        ("warmup-refs", "2", 2, 1),
        ("sim-refs", "2", 1, 1),
        ("sim-refs", "9", 3, 2),
    ] {
        let report = report(vec![script()], &[(option, n)]);
        let [pair] = &report.types[..] else { panic!("{:?}", report.types) };
        assert_eq!((pair.numbers.reads, pair.numbers.writes), (reads, writes), "{option} {n}");
    }
}

#[test]
fn variables_of_programs_without_debug_information_have_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("prog.c"), folder.path().join("prog"));
    std::fs::write(&source, "long numbers[8]; static int n = 1; int main(void) { return n; }").unwrap();
    let compile = |flag: &str| {
        let args = [flag, "-no-pie", source.to_str().unwrap(), "-o", program.to_str().unwrap()];
        std::process::Command::new("gcc").args(args).status().is_ok_and(|status| status.success())
    };
    let mut options = Options::default();
    options.put(&BINARY, program.to_str().unwrap()).unwrap();
    options.put(&BASE, "0x1000000").unwrap();
    if !compile("-g") {
        eprintln!("passed over: no `gcc` here");
        return;
    }
    // A variable in the debug information is not listed among the symbols.
    let source_of_types = TypeSource::of(&options).unwrap().unwrap();
    assert!(source_of_types.symbols.iter().all(|symbol| symbol.name != "numbers"));
    assert!(compile("-g0"));
    let types = TypeSource::of(&options).unwrap().unwrap();
    let address = types.symbols.iter().find(|symbol| symbol.name == "numbers").unwrap().address;
    let mut simulation = Simulation::new(Setup { types: Some(types), ..settings(&[]) }, None).unwrap();
    let script = Script::of(0).read(address + 0x100_0038, 8).write(address + 0x100_0000, 8).read(address, 8);
    simulation.take(&script.0).unwrap();
    let report = Pass::finish(simulation).unwrap();
    let report = report.as_any().downcast_ref::<TypeReport>().unwrap();
    let found = report.types.iter().find(|of| of.name.ends_with("numbers")).unwrap();
    assert_eq!((found.numbers.reads, found.numbers.writes, found.regions), (1, 1, 1));
    assert_eq!(report.unknown.accesses, 1);
}

#[test]
fn wide_accesses_count_for_all_of_their_fields() {
    let member = |at: u32| {
        format!(r#"{{"id": 2, "memberName": "f{at}", "name": "int", "offset": {}, "size": 4}}"#, 4 * at)
    };
    let members = (0..16).map(member).collect::<Vec<_>>().join(",");
    let file = format!(
        r#"{{"structs": [{{"id": 1, "name": "struct Many", "members": [{members}]}}], "typedefs": [], "unions": [], "version": 4}}"#
    );
    let types = Types::of_file(&TypesFile::parse(file.as_bytes()).unwrap());
    let types = Some(TypeSource { types, ..TypeSource::default() });
    let script = Script::of(0).add(0x1000, 64, 1, "struct.Many").read(0x1000, 64).write(0x1020, 32);
    let report = report_with(Setup { types, ..settings(&[]) }, vec![script]);
    let [many] = &report.types[..] else { panic!("{:?}", report.types) };
    assert_eq!((many.numbers.reads, many.numbers.writes, many.several_fields), (1, 1, 2));
    let written: Vec<u64> = many.fields.iter().map(|field| field.part.numbers.writes).collect();
    assert!(many.fields.iter().all(|field| field.part.numbers.reads == 1), "{:?}", many.fields);
    assert_eq!(written, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn each_access_counts_for_its_type_once_and_for_every_field_that_it_touches() {
    let script = Script::of(0)
        .add(0x1000, 16, 2, "struct.Pair")
        .write(0x1000, 1)
        .read(0x1008, 8)
        .read(0x1018, 8)
        .read(0x101c, 4)
        // Key, padding and value at once.
        .read(0x1000, 16)
        // Padding only.
        .read(0x1013, 1)
        // From the last value to outside of the region.
        .write(0x1018, 16)
        .read(0x5000, 8)
        // Crosses a line border.
        .read(0x503c, 8);
    let report = report(vec![script], &[]);
    assert_eq!(report.levels, ["L1D", "LL"]);
    assert_eq!((report.all.accesses, report.all.reads, report.all.writes, report.all.lines), (9, 7, 2, 3));
    // Two lines of its own, and the bytes after the region.
    assert_eq!((report.unknown.accesses, report.unknown.lines), (2, 3));
    // 0x1000; 0x5000 and 0x5040.
    assert_eq!((&report.all.misses[..], &report.unknown.misses[..]), (&[3, 3][..], &[2, 2][..]));
    let [pair] = &report.types[..] else { panic!("{:?}", report.types) };
    assert_eq!((pair.name.as_str(), pair.size, pair.regions), ("Pair", 16, 1));
    let numbers = &pair.numbers;
    assert_eq!((numbers.accesses, numbers.reads, numbers.writes, numbers.lines), (7, 5, 2, 1));
    assert_eq!((numbers.misses.as_slice(), pair.several_fields, pair.leaving), (&[1, 1][..], 1, 1));
    assert_eq!((pair.fetched, pair.used, pair.straddling), (32, 16 + 1 + 8, 0));
    let [key, value] = &pair.fields[..] else { panic!("{:?}", pair.fields) };
    assert_eq!((key.part.numbers.reads, key.part.numbers.writes, key.part.numbers.misses[0]), (1, 1, 1));
    assert_eq!(
        (value.part.numbers.reads, value.part.numbers.writes, value.part.numbers.misses[0]),
        (4, 1, 0)
    );
    assert_eq!((key.part.fetched, key.part.used), (2, 1));
    assert_eq!((value.part.fetched, value.part.used), (16, 16));
    assert_eq!((pair.padding.numbers.reads, pair.padding.fetched, pair.padding.used), (2, 14, 8));
    // Five of seven are less than 80 %, so both fields are hot.
    assert_eq!((key.heat, value.heat), ("hot", "hot"));
    let [site] = &report.sites[..] else { panic!("{:?}", report.sites) };
    assert_eq!((site.bytes, site.regions, site.numbers.accesses, site.numbers.misses[0]), (32, 1, 7, 1));
}

#[test]
fn memory_that_is_given_out_again_counts_for_whom_it_belongs_to() {
    let script = Script::of(0)
        .add(0x1000, 16, 1, "struct.Pair")
        .read(0x1000, 1)
        .remove(0x1000)
        .read(0x1000, 8)
        .add(0x1000, 16, 1, "nobody.knows")
        .read(0x1000, 4)
        .remove(0x1000)
        .add(0x1000, 16, 1, "struct.Pair")
        .read(0x1008, 8)
        .remove(0x7777);
    let report = report(vec![script], &[]);
    let of = |name: &str| report.types.iter().find(|row| row.name == name).unwrap();
    let pair = of("Pair");
    assert_eq!((pair.regions, pair.numbers.accesses, pair.numbers.lines), (2, 2, 1));
    // Key and value once each; a fetch brings 16 bytes.
    assert_eq!((pair.fetched, pair.used), (32, 9));
    assert_eq!((pair.numbers.misses[0], report.unknown.accesses, report.untyped.accesses), (1, 1, 1));
    let unknown = of("nobody.knows");
    assert!(!unknown.is_known && unknown.fields.is_empty());
    assert_eq!((unknown.numbers.accesses, unknown.fetched, unknown.used), (1, 16, 4));
}

#[test]
fn accesses_across_lines_are_told_at_the_field_where_they_begin() {
    let script = Script::of(0).add(0x1038, 16, 1, "struct.Pair").read(0x103c, 8).read(0x1040, 8);
    let report = report(vec![script], &[]);
    let [pair] = &report.types[..] else { panic!() };
    assert_eq!((pair.straddling, pair.padding.straddling, pair.numbers.lines), (1, 1, 2));
    // The first byte requested from the second line is in the value.
    assert_eq!((pair.padding.numbers.misses[0], pair.fields[1].part.numbers.misses[0]), (1, 1));
}

#[test]
fn lines_that_two_threads_write_at_different_bytes_are_shared_for_nothing() {
    let mut scripts = vec![Script::of(7).add(0x1000, 16, 4, "struct.Pair")];
    for _ in 0..10 {
        scripts.push(Script::of(7).write(0x1008, 8).read(0x1008, 8));
        scripts.push(Script::of(8).write(0x1018, 8));
    }
    // This move is for data.
    scripts.push(Script::of(7).read(0x1018, 8));
    let report = report(scripts, &[]);
    assert_eq!((report.false_sharing, report.moves), (19, 1));
    let [line] = &report.shared[..] else { panic!("{:?}", report.shared) };
    assert_eq!((line.addr, line.false_sharing, line.moves), (0x1000, 19, 1));
    let parts: Vec<(u64, String)> = line.parts.iter().map(|part| (part.thread.tid, part.spelled())).collect();
    assert_eq!(parts, [(7, "Pair.value".to_owned()), (8, "Pair[1].value".to_owned())]);
    assert_eq!(report.types[0].false_sharing, 19);
    let threads: Vec<(u64, u64, u64)> =
        report.threads.iter().map(|row| (row.thread.tid, row.numbers.accesses, row.numbers.lines)).collect();
    assert_eq!(threads, [(7, 21, 1), (8, 10, 1)]);
    let of_pair: Vec<(u64, u64)> =
        report.types[0].threads.iter().map(|row| (row.thread.tid, row.numbers.writes)).collect();
    assert_eq!(of_pair, [(7, 10), (8, 10)]);
}

#[test]
fn what_was_shared_belongs_to_whom_the_memory_belonged_to() {
    // Ten lines, each falsely shared once before its region ends.
    let mut scripts = Vec::new();
    for addr in (0..10).map(|i| 0x10000 + i * 0x1000) {
        scripts.push(Script::of(7).add(addr, 16, 2, "struct.Pair").write(addr + 8, 8));
        scripts.push(Script::of(8).write(addr + 24, 8));
        scripts.push(Script::of(7).remove(addr));
    }
    // A different type at the same address later is not charged for the moves, and neither is its neighbour.
    scripts.push(Script::of(9).add(0x10000, 32, 1, "nobody.knows").write(0x10000, 4));
    scripts.push(Script::of(7).write(0x10010, 4));
    let report = report(scripts, &[]);
    assert_eq!((report.false_sharing, report.moves), (11, 0));
    let of = |name: &str| report.types.iter().find(|row| row.name == name).unwrap().false_sharing;
    assert_eq!((of("Pair"), of("nobody.knows")), (10, 1));
    for line in report.shared.iter().filter(|line| line.addr != 0x10000) {
        let parts: Vec<_> = line.parts.iter().map(|part| (part.thread.tid, part.spelled())).collect();
        assert_eq!(parts, [(7, "Pair.value".to_owned()), (8, "Pair[1].value".to_owned())]);
    }
}

#[test]
fn a_thread_does_not_share_with_itself_when_memory_changes_on_its_line() {
    let mut scripts = vec![Script::of(7).add(0x1000, 16, 1, "struct.Pair").write(0x1008, 8)];
    scripts.push(Script::of(8).write(0x1038, 8));
    // Regions that begin and end in between do not split the turn.
    scripts.push(Script::of(7).write(0x1008, 8).add(0x1010, 16, 1, "struct.Pair").write(0x1018, 8));
    scripts.push(Script::of(7).remove(0x1010).write(0x1008, 8));
    let report = report(scripts, &[]);
    assert_eq!((report.false_sharing, report.moves), (2, 0));
}

#[test]
fn a_miss_goes_to_the_member_of_a_union_that_fits_the_access() {
    let script = Script::of(0).add(0x1000, 80, 1, "struct.Wide").read(0x1048, 8).read(0x1048, 4);
    let report = report(vec![script], &[]);
    let [wide] = &report.types[..] else { panic!("{:?}", report.types) };
    let of = |path: &str| {
        let field = wide.fields.iter().find(|field| field.path == path).unwrap();
        (field.part.numbers.reads, field.part.numbers.misses[0])
    };
    assert_eq!((of("u.d"), of("u.i|f")), ((1, 1), (1, 0)));
}

#[test]
fn lines_that_threads_only_read_or_that_differ_do_not_move() {
    let mut scripts = vec![Script::of(1).add(0x1000, 16, 8, "struct.Pair")];
    for _ in 0..5 {
        scripts.push(Script::of(1).read(0x1008, 8).write(0x1040, 8));
        scripts.push(Script::of(2).read(0x1018, 8));
    }
    assert_eq!(report(scripts, &[]).false_sharing, 0);
}

#[test]
fn the_caches_tell_the_fields_that_miss() {
    let mut simulation =
        Simulation::new(Setup { tells_types: None, top: 10, ..settings(&[]) }, None).unwrap();
    let script =
        Script::of(0).add(0x1000, 80, 4, "struct.Wide").read(0x1000, 8).read(0x1050, 8).read(0x1048, 4);
    simulation.take(&script.read(0x9000, 4).0).unwrap();
    let json = Pass::finish(simulation).unwrap().json();
    assert_eq!(
        json["missing_fields"],
        serde_json::json!([
            {"type": "Wide", "field": "first", "misses": [2, 2]},
            {"type": null, "field": "", "misses": [1, 1]},
        ])
    );
}

/// The expected counters of an access, byte by byte, without tables or pages.
fn obvious(fields: &Fields, addr: u64, size: u64) -> (Vec<u32>, bool) {
    let regions = fields.attribution.regions();
    let at = |addr: u64| regions.stretches(addr, addr + 1).next().map(|(.., region)| *region);
    let Some(region) = at(addr) else { return (vec![0], false) };
    let kind = &fields.kinds[fields.sites[region.what.origin as usize].kind as usize];
    let mut counters = Vec::new();
    super::spans(
        fields.attribution.types(),
        kind,
        &region,
        addr..(addr + size).min(region.end),
        &mut |counter, _| {
            if !counters.contains(&counter) {
                counters.push(counter);
            }
        },
    );
    (counters, addr + size > region.end)
}

#[test]
fn annotations_of_different_places_are_different_sites() {
    let mut places = Places::default();
    let [a, b] = ["make a.c:1 < main a.c:9", "grow a.c:2"].map(|name| places.add_name(name).unwrap());
    for (record, place) in [(0, a), (1, b), (2, a)] {
        places.add_region(record, place);
    }
    let script = || {
        let pairs = [0x1000, 0x2000, 0x3000, 0x4000];
        let added = pairs.into_iter().fold(Script::of(1), |script, at| script.add(at, 8, 1, "struct.Pair"));
        pairs.into_iter().fold(added, |script, at| script.read(at, 4))
    };
    let sites = |settings: Setup| {
        let report = report_with(settings, vec![script()]);
        let of = |site: &SiteRow| (site.allocated.clone().unwrap_or_default(), site.regions);
        let mut sites: Vec<_> = report.sites.iter().map(of).collect();
        sites.sort();
        sites
    };
    assert_eq!(sites(settings(&[])), [(String::new(), 4)]);
    let settings = settings(&[]);
    let types = settings.types.clone().map(|types| TypeSource { places: places.into(), ..types });
    let found = sites(Setup { types, ..settings });
    // The last region has no place.
    assert_eq!(found, [(String::new(), 1), ("grow a.c:2".into(), 1), ("make a.c:1 < main a.c:9".into(), 2)]);
}

#[test]
fn the_quick_way_counts_what_the_slow_one_does() {
    let mut rng = Rng::new(3);
    let names = ["struct.Wide", "struct.Pair", "nothing", "i32*"];
    let mut fields = Fields::new(types(), 6, 2);
    let mut counts: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
    let mut leaving = 0;
    for _ in 0..400 {
        let mut script = Script::of(0);
        let addr = 0x1000 + 8 * rng.below(200);
        script = match rng.below(3) {
            0 => script.remove(addr),
            _ => script.add(addr, 1 + rng.below(200), rng.below(5), names[rng.below(4) as usize]),
        };
        fields.events(&script.0);
        let mut script = Script::of(0);
        for _ in 0..20 {
            let (addr, size) = (0x1000 + rng.below(1700), 1 + rng.below(16));
            let (counters, leaves) = obvious(&fields, addr, size);
            leaving += u64::from(leaves);
            counters.into_iter().for_each(|counter| *counts.entry(counter).or_default() += 1);
            script = script.read(addr, size as u32);
        }
        fields.accesses(&script.0, 0..20, 0);
    }
    for kind in &fields.kinds {
        for counter in kind.counters() {
            let seen = fields.threads[0].at(counter).0[0];
            assert_eq!(seen, counts.get(&counter).copied().unwrap_or(0), "{} {counter}", kind.name);
        }
    }
    let n_leaving: u64 = fields.kinds.iter().map(|kind| fields.totals.get(kind.base).leaving).sum();
    assert_eq!(n_leaving, leaving);
    let all: u64 = fields.kinds.iter().map(|kind| fields.threads[0].of_kind(kind).0[0]).sum();
    assert_eq!(all, 400 * 20);
}

#[test]
fn rows_at_once_are_told_as_one_by_one() {
    for line_shift in [6, 5, 7] {
        let mut rng = Rng::new(11);
        let names = ["struct.Wide", "struct.Pair", "nothing", "i32*", "i64"];
        let mut quick = Fields::new(types(), line_shift, 1);
        let mut plain = quick.clone();
        let mut n_told = 0;
        for round in 0..150 {
            let mut script = Script::of(0);
            for _ in 0..30 {
                let addr = 0x10000 + 8 * rng.below(60_000);
                script = match rng.below(3) {
                    0 => script.remove(addr),
                    _ => script.add(addr, 1 + rng.below(200), rng.below(5), names[rng.below(5) as usize]),
                };
            }
            quick.events(&script.0);
            plain.events(&script.0);
            let mut script = Script::of(0);
            let mut near = 0;
            for _ in 0..300 {
                if rng.below(4) == 0 {
                    near = 0x10000 + rng.below(500_000);
                }
                let kind = [AccessKind::Read, AccessKind::Write, AccessKind::Fetch][rng.below(3) as usize];
                script = script.access(kind, near + rng.below(64), 1 << rng.below(5));
            }
            let (batch, thread) = (script.0, round % 2);
            quick.accesses(&batch, 0..300, thread);
            let thread = plain.thread(thread);
            let mut counters = std::mem::take(&mut plain.threads[thread]);
            for row in 0..300 {
                let (addr, size) = (batch.accesses.addr[row], batch.accesses.size[row]);
                let purpose = match batch.accesses.kind[row] {
                    AccessKind::Read => Purpose::Read,
                    AccessKind::Write => Purpose::Write,
                    _ => continue,
                };
                let is_write = usize::from(purpose == Purpose::Write);
                plain.access(&mut counters, thread as u32, addr, size.into(), is_write);
                let miss = Miss { cache: 0, purpose, addr, size, pc: 0, row: 0 };
                let told = quick.told[row];
                if told != Told::NOT {
                    assert_eq!(told, quick.tell(&miss), "{addr:#x} {size}");
                    n_told += 1;
                }
            }
            plain.threads[thread] = counters;
        }
        assert!(n_told > 500, "{n_told}");
        let around = |levels| Around {
            line_size: 1 << line_shift,
            machine: String::new(),
            levels,
            threads: &[],
            top: 1000,
        };
        let [quick, plain] =
            [quick, plain].map(|fields| format!("{:?}", fields.report(&around(vec!["L1".to_owned()]))));
        assert!(quick == plain, "{quick}\n{plain}");
    }
}
