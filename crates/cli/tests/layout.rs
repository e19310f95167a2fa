//! `analyze layout` on artificial traces with known misses, and on real ones.

// A test whose setup fails has failed.
use quipu::cacheray::decode::encode;
use quipu::cacheray::record::{ADD, Access, Add, Dialect, READ, REMOVE, Record, Remove};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const START: u64 = 0x5555_0000_0000;
/// One core, without prefetches.
const PLAIN: [&str; 4] = ["-O", "prefetcher=none", "-O", "cores=1"];

fn quipu(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).current_dir(folder).args(args).output().unwrap()
}

fn layout(folder: &Path, args: &[&str]) -> Value {
    let output = quipu(folder, &[&["analyze", "layout", "--json"], &PLAIN[..], args].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    answer["results"]["layout"].clone()
}

/// Misses by layout, then by level.
fn misses(result: &Value) -> Vec<Vec<u64>> {
    let numbers =
        |row: &Value| row["misses"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    result["layouts"].as_array().unwrap().iter().map(numbers).collect()
}

/// Writes a trace of reads of some fields (offset and size) in each of `n` elements in turn, and a file of types.
fn made(folder: &Path, members: &[(&str, &str, u64, u64)], n: u64, reads: &[(u64, u8)]) {
    let size = members.iter().map(|(.., offset, bytes)| offset + bytes).max().unwrap();
    let mut bytes = Vec::new();
    let mut put = |record: &Record<'_>| encode(Dialect::Le64, record, &mut bytes).unwrap();
    let (element_bytes, n_elements) = (u32::try_from(size).unwrap(), u32::try_from(n).unwrap());
    put(&Record::Add(Add { tag: ADD, addr: START, thread: 0, element_bytes, n_elements, name: b"struct.T" }));
    for element in 0..n {
        for (offset, size) in reads {
            let addr = START + element * u64::from(element_bytes) + offset;
            put(&Record::Access(Access { tag: READ, addr, size: *size, thread: 0 }));
        }
    }
    put(&Record::Remove(Remove { tag: REMOVE, addr: START, thread: 0 }));
    std::fs::write(folder.join("made.trace"), &bytes).unwrap();
    let member = |(name, ty, offset, size): &(&str, &str, u64, u64)| serde_json::json!({ "id": 1, "memberName": name, "name": ty, "offset": offset, "size": size });
    let members: Vec<Value> = members.iter().map(member).collect();
    let types = serde_json::json!({ "structs": [{ "id": 1, "members": members, "name": "struct T" }], "typedefs": [], "unions": [], "version": 4 });
    std::fs::write(folder.join("made.json"), types.to_string()).unwrap();
}

const MADE: [&str; 5] = ["--type", "T", "--types", "made.json", "made.trace"];

#[test]
fn one_hot_member_of_an_array_misses_an_eighth_as_an_array_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    made(folder, &[("key", "long", 0, 8), ("rest", "char[]", 8, 56)], 1024, &[(0, 8)]);
    // One line per key before; eight keys per line after.
    let soa = layout(folder, &[&["--soa"], &MADE[..]].concat());
    assert_eq!(misses(&soa), [[1024, 1024], [128, 128]]);
    assert_eq!((&soa["accesses"], &soa["regions"]), (&1024.into(), &1.into()));
    assert_eq!(soa["layouts"][1]["members"][0]["misses"], serde_json::json!([128, 128]));
    assert!(soa["declaration"].as_str().unwrap().contains("long *key;"), "{soa}");
    // The same with the cold member split off.
    for split in ["hot", "key", "cold=rest"] {
        let split = layout(folder, &[&["--split", split], &MADE[..]].concat());
        assert_eq!(misses(&split)[1], [128, 128]);
        assert_eq!((&split["layouts"][1]["moved"], &split["layouts"][1]["divided"]), (&0.into(), &0.into()));
    }
    // Elements of twice the size with lines of their own, at other addresses.
    let padded = layout(folder, &[&["--pad", "rest=64", "--align", "64"], &MADE[..]].concat());
    assert_eq!(misses(&padded)[1], [1024, 1024]);
    assert_eq!((&padded["layouts"][1]["size"], &padded["layouts"][1]["moved"]), (&128.into(), &1.into()));
    assert!(padded["layouts"][1]["fresh_from"].as_str().is_some());
    let title = |args: &[&str]| layout(folder, &[args, &MADE[..]].concat())["layouts"][1]["what"].clone();
    assert_eq!(padded["layouts"][1]["what"], "64 bytes after rest, aligned to 64");
    assert_eq!(title(&["--pad", "key=line"]), "a new line after key");
    assert_eq!(title(&["--pad", "key=1,line"]), "1 byte after key, lines of its own for each element");
}

#[test]
fn the_text_names_the_machine_before_a_narrow_table_of_facts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    made(folder, &[("key", "long", 0, 8), ("rest", "char[]", 8, 56)], 16, &[(0, 8)]);
    let output = quipu(folder, &[&["analyze", "layout"], &PLAIN[..], &MADE].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("  machine: 1 core; "), "{text}");
    assert!(lines.iter().any(|line| line.starts_with("  accesses") && line.len() < 60), "{text}");
    let args = ["analyze", "layout", "-O", "machine=raspberry-pi-4"];
    let output = quipu(folder, &[&args[..], &MADE].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("  machine: raspberry-pi-4: 4 cores; "), "{text}");
}

#[test]
fn two_hot_members_in_one_line_miss_half_as_often() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let members =
        [("a", "long", 0, 8), ("x", "char[]", 8, 56), ("b", "long", 64, 8), ("y", "char[]", 72, 56)];
    made(folder, &members, 512, &[(0, 8), (64, 8)]);
    let ordered = layout(folder, &[&["--order", "a,b"], &MADE[..]].concat());
    assert_eq!(misses(&ordered), [[1024, 1024], [512, 512]]);
    let declaration = ordered["declaration"].as_str().unwrap();
    assert_eq!(
        declaration,
        "struct T {\n    long a; /* 0 */\n    long b; /* 8 */\n    char x[56]; /* 16 */\n    char y[56]; /* 72 */\n};\n"
    );
    // The same with a remap file of Cacheray.
    std::fs::write(folder.join("made.remap"), "struct T=a,0;b,8;x,16;y,72\n").unwrap();
    let remapped = layout(folder, &[&["--remap", "made.remap"], &MADE[..]].concat());
    assert_eq!(misses(&remapped), misses(&ordered));
    // Without options, it finds this layout and a better one: 512 elements of 16 hot bytes, four per line.
    let proposed = layout(folder, &MADE);
    let whats: Vec<&str> =
        proposed["layouts"].as_array().unwrap().iter().map(|row| row["what"].as_str().unwrap()).collect();
    assert_eq!(whats[..2], ["as it is", "used together side by side"]);
    assert_eq!(misses(&proposed)[1], [512, 512]);
    let best = usize::try_from(proposed["best"].as_u64().unwrap()).unwrap();
    assert_eq!(misses(&proposed)[best], [128, 128]);
    assert_eq!(whats[best], "hot apart: a, b");
}

#[test]
fn arrays_within_a_structure_become_one_of_structures() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Every eighth element of both arrays: a line each, then one line for both.
    let reads: Vec<(u64, u8)> = (0..1024).step_by(8).flat_map(|i| [(8 * i, 8), (8192 + 8 * i, 8)]).collect();
    made(folder, &[("keys", "long[]", 0, 8192), ("sizes", "long[]", 8192, 8192)], 1, &reads);
    let aos = layout(folder, &[&["--aos"], &MADE[..]].concat());
    assert_eq!(misses(&aos), [[256, 256], [128, 128]]);
    let declaration = aos["declaration"].as_str().unwrap();
    assert!(declaration.ends_with("struct T {\n    struct T_element elements[1024];\n};\n"), "{declaration}");
}

#[test]
fn members_have_the_misses_of_each_level_of_any_machine() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Three rounds over 256 lines: too many for the first level, just enough for the second.
    let rounds = 3;
    let reads: Vec<(u64, u8)> = (0..rounds * 256).map(|i| (64 * (i % 256), 8)).collect();
    made(folder, &[("key", "long", 0, 8), ("rest", "char[]", 8, 256 * 64 - 8)], 1, &reads);
    let cache = |name: &str, more: &str| format!("{name} {{\n{more}\nprefetcher none\n}}\n");
    let config = [
        "num_cores 1\nline_size 64\n".to_owned(),
        cache("L1I", "type instruction\ncore 0\nsize 4K\nassoc 4\nparent L2"),
        cache("L1D", "type data\ncore 0\nsize 4K\nassoc 4\nparent L2"),
        cache("L2", "size 16K\nassoc 16\nparent L3"),
        cache("L3", "size 64K\nassoc 16\nparent memory"),
    ];
    std::fs::write(folder.join("three.conf"), config.concat()).unwrap();
    let result = layout(folder, &[&["--pad", "rest=64", "-O", "config=three.conf"], &MADE[..]].concat());
    assert_eq!(result["levels"], serde_json::json!(["L1D", "L2", "L3"]));
    assert_eq!(misses(&result), [[768, 256, 256], [768, 256, 256]]);
    for row in result["layouts"].as_array().unwrap() {
        assert_eq!(row["type_misses"], row["misses"], "{row}");
        assert_eq!(row["members"][0]["misses"], serde_json::json!([3, 1, 1]), "{row}");
    }
}

#[test]
fn variables_of_a_program_are_moved_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/lackey/nodes.c.txt");
    let compiled = Command::new("gcc")
        .current_dir(folder)
        .args(["-g", "-no-pie", "-x", "c", "-o", "nodes"])
        .arg(source)
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("passed over: no `gcc` here; the Debian package is `gcc`");
        return;
    }
    let program = quipu::symbols::dwarf::DebugInfo::open(&folder.join("nodes")).unwrap();
    let nodes = program.objects().globals.iter().find(|global| global.name == "nodes").unwrap().address;
    // The key of each of the 256 nodes, which have 64 bytes; the trace has no regions.
    let lines: String = (0..256).map(|i| format!("r {:x} 8\n", nodes + 64 * i)).collect();
    std::fs::write(folder.join("nodes.xdin"), lines).unwrap();
    let soa = layout(folder, &["--type", "struct node", "--binary", "nodes", "--soa", "nodes.xdin"]);
    let lines_of = |bytes: u64| (nodes + bytes - 1) / 64 - nodes / 64 + 1;
    let (before, after) = (lines_of(64 * 255 + 8), lines_of(8 * 256));
    assert_eq!(misses(&soa), [[before, before], [after, after]]);
    let declaration = soa["declaration"].as_str().unwrap();
    assert!(declaration.contains("    uint64_t *key;\n    char (*name)[40];\n"), "{declaration}");
    // With a different base address, nothing is found there.
    let elsewhere = layout(
        folder,
        &["--type", "node", "--binary", "nodes", "--soa", "-O", "base=0x100000000", "nodes.xdin"],
    );
    assert_eq!(elsewhere["accesses"], 0);
}

#[test]
fn mistakes_are_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    made(folder, &[("a", "long", 0, 8), ("b", "long", 8, 8)], 4, &[(0, 8)]);
    for (args, what) in [
        (&["made.trace"][..], "wants to know which type"),
        (&["--type", "T", "made.trace"], "wants to know the members"),
        (&["--type", "U", "--types", "made.json", "made.trace"], "nothing is known of a type `U`"),
        (&["--order", "a,c", "--type", "T", "--types", "made.json", "made.trace"], "no member `c`"),
        (&["--order", "a,a", "--type", "T", "--types", "made.json", "made.trace"], "named twice"),
        (
            &["--split", "a,b", "--type", "T", "--types", "made.json", "made.trace"],
            "nothing is left to split off",
        ),
        (&["--aos", "--type", "T", "--types", "made.json", "made.trace"], "no two members that are arrays"),
        (&["--pad", "a", "--type", "T", "--types", "made.json", "made.trace"], "option `pad` wants"),
        (
            &["--soa", "--order", "a", "--type", "T", "--types", "made.json", "made.trace"],
            "exclude each other",
        ),
    ] {
        let output = quipu(folder, &[&["analyze", "layout"], args].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(what), "{args:?}: {text}");
    }
    // Other analyses only have orders of threads.
    let output = quipu(folder, &["analyze", "histogram", "--order", "a,b", "made.trace"]);
    assert_eq!(output.status.code(), Some(2));
    // A pipe can be read only once.
    let line =
        format!("cat made.trace | {} analyze layout --type T --types made.json", env!("CARGO_BIN_EXE_quipu"));
    let output = Command::new("sh").current_dir(folder).args(["-c", &line]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("a pipe can be read only once"), "{text}");
}

#[test]
fn the_original_s_better_order_is_found_in_its_worse_one() {
    let traces = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/cacheray");
    let types = "types/reorder.dwarf.json";
    let remapped = layout(
        &traces,
        &["--type", "OrderA", "--types", types, "--remap", "types/reorder.remap", "reorder-bad.trace"],
    );
    let rows = misses(&remapped);
    // 258 and 130 lines, as for the program whose source has the better order.
    assert_eq!(rows, [[258, 258], [130, 130]], "{remapped}");
    let proposed = layout(&traces, &["--type", "OrderA", "--types", types, "reorder-bad.trace"]);
    let best = usize::try_from(proposed["best"].as_u64().unwrap()).unwrap();
    assert!(misses(&proposed)[best][0] <= 130, "{proposed}");
}
