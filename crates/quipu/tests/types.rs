//! `types` on real traces of Cacheray: compared with Cacheray's tables where those are correct, otherwise with numbers
//! computed from the records by a separate program, and with the variables of a program.

// A test whose setup fails has failed.
use quipu::cacheray::record::{Access, Add, Dialect, Record};
use quipu::engine::{RunOptions, Watch, plan, run};
use quipu::model::pass::Detail;
use quipu::model::{Given, OpenOptions, Window};
use quipu::symbols::dwarf::DebugInfo;
use quipu_testkit::fixtures;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The result of the tool.
fn types_of(trace: &Path, options: &[(&str, &str)]) -> Value {
    types_in(trace, options, &|_| {})
}

/// The result of the tool for a part of the trace.
fn types_in(trace: &Path, options: &[(&str, &str)], part: &dyn Fn(&mut RunOptions<'_>)) -> Value {
    let trace = quipu::open_path(trace, &OpenOptions::default()).unwrap();
    let mut given = Given::default();
    options.iter().for_each(|(name, value)| given.add(*name, *value));
    let watch = Watch::new();
    let planned = plan(quipu::tool("types", &trace.meta().format).unwrap(), &given, &*trace).unwrap();
    let mut run_options = RunOptions::new(&watch);
    part(&mut run_options);
    let outcome = run(&*trace, vec![planned], &run_options).unwrap();
    outcome.reports[0].document(Detail::Full);
    outcome.reports[0].json()
}

/// The result for one of the samples, with its file of types.
fn sample(name: &str, types: &str) -> Value {
    let folder = fixtures("cacheray");
    let types = folder.join("types").join(types);
    types_of(&folder.join(name), &[("types", types.to_str().unwrap())])
}

/// Reads and writes of each member of a type, including what is inside it; and the accesses of the type.
fn members(found: &Value, name: &str) -> (BTreeMap<String, [u64; 2]>, u64) {
    let of = found["types"].as_array().unwrap().iter().find(|of| of["name"] == name);
    let of = of.unwrap_or_else(|| panic!("no `{name}` in {found:#}"));
    let mut members: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for field in of["fields"].as_array().unwrap() {
        let path = field["path"].as_str().unwrap();
        let member = members.entry(path.split('.').next().unwrap().to_owned()).or_default();
        member[0] += field["reads"].as_u64().unwrap();
        member[1] += field["writes"].as_u64().unwrap();
    }
    (members, of["accesses"].as_u64().unwrap())
}

/// A table of Cacheray: reads of each member, and accesses of the type.
fn original(golden: &str, name: &str) -> (BTreeMap<String, u64>, u64) {
    let text = std::fs::read_to_string(fixtures("cacheray").join("sim").join(golden)).unwrap();
    let table = text.split(&format!("struct {name}{{\n")).nth(1).unwrap();
    let (rows, rest) = table.split_once("}\n").unwrap();
    let row = |row: &str| {
        let mut words = row.split_whitespace();
        (words.next().unwrap().to_owned(), words.next().unwrap().parse().unwrap())
    };
    let total = rest.lines().next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    (rows.lines().map(row).collect(), total)
}

#[test]
fn where_the_original_is_right_its_tables_are_the_same() {
    // Regions that begin at a multiple of the element size, and no padding after the last member.
    for (trace, types, golden, names) in [
        ("reorder-bad.trace", "reorder.dwarf.json", "reorder-bad.two-level.stdout", &["OrderA"][..]),
        ("reorder-good.trace", "reorder.dwarf.json", "reorder-good.two-level.stdout", &["OrderB"]),
        ("structs.trace", "structs.dwarf.json", "structs.two-level.stdout", &["Basic", "TdBasic"]),
    ] {
        let found = sample(trace, types);
        for name in names {
            let (ours, total) = members(&found, name);
            let (theirs, their_total) = original(golden, name);
            let reads: BTreeMap<String, u64> =
                ours.into_iter().map(|(name, [reads, _])| (name, reads)).collect();
            assert_eq!((reads, total), (theirs, their_total), "{trace} {name}");
        }
    }
}

#[test]
fn where_the_original_loses_accesses_all_are_found() {
    let found = sample("shapes.trace", "shapes.dwarf.json");
    assert_eq!(found["unknown"]["accesses"], 0);
    let of = |name| {
        let (members, accesses) = members(&found, name);
        let list = |(name, [reads, writes]): (&String, &[u64; 2])| format!("{name} {reads} {writes}");
        (members.iter().map(list).collect::<Vec<_>>().join(", "), accesses)
    };
    // Computed from the records: offsets from the first byte of the region, modulo the true size of the structure.
    assert_eq!(of("body"), ("id 0 32, mass 32 16, pos 0 160, vel 144 16".to_owned(), 400));
    assert_eq!(of("node"), ("fl 12 36, n 12 12, next 24 12, tag 12 0".to_owned(), 120));
    assert_eq!(of("pad"), ("c 0 4, d 0 4, l 4 4".to_owned(), 16));
    let lines = |name: &str| {
        let types = found["types"].as_array().unwrap();
        types.iter().find(|of| of["name"] == name).unwrap()["lines"].as_u64().unwrap()
    };
    assert_eq!((lines("body"), lines("node"), lines("pad")), (42, 10, 3));
    let grand = sample("grand.trace", "grand.dwarf.json");
    let (links, accesses) = members(&grand, "Link");
    assert_eq!((links["next"], links["data"], accesses), ([248, 100], [50, 100], 498));
    assert_eq!(grand["all"]["lines"], 51);
}

#[test]
fn parts_of_a_trace_know_the_types_of_what_was_annotated_elsewhere() {
    let accesses = |found: &Value| {
        let of = |row: &Value| (row["name"].to_string(), row["accesses"].as_u64().unwrap());
        let types: BTreeMap<String, u64> = found["types"].as_array().unwrap().iter().map(of).collect();
        (types, found["unknown"]["accesses"].as_u64().unwrap())
    };
    let sum = |parts: &[Value]| {
        let (mut all, mut unknown): (BTreeMap<String, u64>, u64) = (BTreeMap::new(), 0);
        for (types, of) in parts.iter().map(accesses) {
            unknown += of;
            types.into_iter().for_each(|(name, n)| *all.entry(name).or_default() += n);
        }
        all.retain(|_, n| *n > 0);
        (all, unknown)
    };
    let path = fixtures("cacheray").join("shapes.trace");
    let window =
        |range: std::ops::Range<u64>| types_in(&path, &[], &|of| of.window = Window::Records(range.clone()));
    let halves = [window(0..300), window(300..u64::MAX)];
    assert_eq!(sum(&halves), sum(&[types_of(&path, &[])]));
    assert_eq!(halves[1]["unknown"]["accesses"], 0);
    // Threads whose memory was annotated by another thread.
    let path = fixtures("cacheray").join("derived/random.trace");
    let whole = types_of(&path, &[]);
    let threads: Vec<u64> =
        whole["threads"].as_array().unwrap().iter().map(|of| of["thread"].as_u64().unwrap()).collect();
    assert!(threads.len() > 1, "{threads:?}");
    let of = |thread: &u64| types_in(&path, &[], &|of| of.threads_wanted = vec![(*thread).into()]);
    assert_eq!(sum(&threads.iter().map(of).collect::<Vec<_>>()), sum(&[whole]));
}

#[test]
fn two_hot_members_in_one_line_miss_half_as_often() {
    let lines = |name, of: &str| {
        let found = sample(name, "reorder.dwarf.json");
        let of = found["types"].as_array().unwrap().iter().find(|row| row["name"] == of).unwrap().clone();
        let field =
            |path: &str| of["fields"].as_array().unwrap().iter().find(|f| f["path"] == path).unwrap().clone();
        (of["lines"].as_u64().unwrap(), field("a")["heat"].clone(), field("pad")["heat"].clone())
    };
    assert_eq!(lines("reorder-bad.trace", "OrderA"), (256, "hot".into(), "untouched".into()));
    assert_eq!(lines("reorder-good.trace", "OrderB"), (128, "hot".into(), "untouched".into()));
}

#[test]
fn without_types_annotations_are_told_by_name() {
    let found = types_of(&fixtures("cacheray").join("grand.trace"), &[]);
    assert_eq!((&found["has_types"], &found["untyped"]["accesses"]), (&Value::Bool(false), &498.into()));
    let of = &found["types"][0];
    assert_eq!(
        (&of["name"], &of["is_known"], &of["regions"]),
        (&"struct.Link".into(), &false.into(), &100.into())
    );
    assert_eq!(found["sites"][0]["bytes"], 16);
}

#[test]
fn a_trace_without_regions_needs_a_program() {
    let advice_for = |path: &Path| {
        let trace = quipu::open_path(path, &OpenOptions::default()).unwrap();
        let Err(error) = plan(quipu::tool("types", "drmemtrace").unwrap(), &Given::default(), &*trace) else {
            panic!("nothing says what memory is")
        };
        assert!(error.message().contains("needs regions with types"), "{error}");
        error.advice().unwrap_or_default().to_owned()
    };
    let sample = fixtures("drmemtrace/allasm");
    let advice = advice_for(&sample);
    assert!(advice.contains("`quipu cc -g`") && advice.contains("--binary PROGRAM"), "{advice}");
    // If the trace says which program was recorded, and where it lay, so does the advice.
    let folder = tempfile::TempDir::new().unwrap();
    for file in std::fs::read_dir(&sample).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let own = std::env::current_exe().unwrap();
    let row = format!("  0,   0, 0x5000000000, 0x5000001000, 0x0, 0, v#1,0, {}\n", own.display());
    std::fs::write(folder.path().join("modules.log"), row).unwrap();
    let advice = advice_for(folder.path());
    assert!(advice.ends_with(&format!("--binary {} --base 0x5000000000", own.display())), "{advice}");
}

const PROGRAM: &str = "
struct slot { char tag; long value; };
static struct slot table[4];
int counter;
struct { int a : 3, b : 5; int rest; } flags;
int main(void) { table[1].value = counter; flags.a = 1; return table[2].tag; }
";

#[test]
fn variables_are_found_by_their_addresses_wherever_the_program_was_loaded() {
    if !Command::new("gcc").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("passed over: no `gcc` here");
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("p.c"), PROGRAM).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.current_dir(folder.path()).args(["-g", "-O0", "-no-pie", "-o", "p", "p.c"]);
    assert!(compiler.status().unwrap().success());
    let program = folder.path().join("p");
    let info = DebugInfo::open(&program).unwrap();
    let address = |name: &str| info.objects().globals.iter().find(|of| of.name == name).unwrap().address;
    for base in [0, 0x5555_0000_0000] {
        let mut bytes = Vec::new();
        let mut access = |tag: u8, addr: u64, size: u8| {
            let record = Record::Access(Access { tag, addr: addr + base, size, thread: 3 });
            quipu::cacheray::decode::encode(Dialect::Le64, &record, &mut bytes).unwrap();
        };
        access(1, address("table") + 16 + 8, 8);
        access(0, address("table") + 32, 1);
        access(0, address("counter"), 4);
        access(1, address("flags"), 1);
        access(0, address("flags") + 4, 4);
        for at in 0..40 {
            access(0, 0x7ffc_0000_0000 - base + at * 8, 8);
        }
        let block =
            Add { tag: 2, addr: 0x9000, thread: 3, element_bytes: 32, n_elements: 1, name: b"struct.slot" };
        quipu::cacheray::decode::encode(Dialect::Le64, &Record::Add(block), &mut bytes).unwrap();
        let trace = folder.path().join("trace");
        std::fs::write(&trace, &bytes).unwrap();
        let base = base.to_string();
        let found = types_of(&trace, &[("binary", program.to_str().unwrap()), ("base", &base)]);
        assert_eq!(
            (&found["all"]["accesses"], &found["unknown"]["accesses"]),
            (&45.into(), &40.into()),
            "{base}"
        );
        let (slot, accesses) = members(&found, "slot");
        assert_eq!((slot["tag"], slot["value"], accesses), ([1, 0], [0, 1], 2));
        let declared = found["types"].as_array().unwrap().iter().find(|of| of["name"] == "slot").unwrap();
        assert!(declared["declared"].as_str().unwrap().ends_with("p.c:2"), "{declared:#}");
        let site = |name: &str| {
            let sites = found["sites"].as_array().unwrap();
            sites.iter().find(|site| site["name"] == name).map(|site| site["accesses"].as_u64().unwrap())
        };
        assert_eq!((site("table"), site("counter"), site("flags")), (Some(2), Some(1), Some(2)));
        let flags = found["types"].as_array().unwrap().iter().flat_map(|of| of["fields"].as_array().unwrap());
        let written = flags.filter(|field| field["path"] == "a|b").map(|field| field["writes"].clone());
        assert_eq!(written.collect::<Vec<_>>(), [1]);
    }
}
