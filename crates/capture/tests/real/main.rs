//! Compares types of allocations in real programs with the tables next to this file, which a reader of the sources wrote.

#![allow(clippy::unwrap_used)]

use quipu_capture::tsan::Capture;
use quipu_capture::tsan::callers::Callers;
use quipu_capture::tsan::merge::events;
use quipu_capture::tsan::sites::{Sites, Sort};
use quipu_cells::cell::heap;
use quipu_cells::event::Event;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::Path;

/// A reader's classification of an allocation.
struct Row {
    name: String,
    /// `function`, file and line of the allocating calls.
    born: Vec<(String, String, u64)>,
    /// Acceptable types: the names that the table has for the object at the start of the memory.
    types: Vec<String>,
    is_bytes: bool,
    /// Whether the memory is divided into blocks of other types: as a whole it has no type, so no answer is right.
    is_slab: bool,
}

/// Rows of memory without a useful type, from the list of allocators.
fn bytes(program: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/real/{program}.allocators.txt"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines =
        text.lines().skip_while(|line| *line != "[bytes]").skip(1).take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split([' ', '#']).next()).map(str::to_owned).collect()
}

fn rows(program: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real").join(format!("{program}.tsv"));
    let text = std::fs::read_to_string(path).unwrap();
    let bytes = bytes(program);
    let rows = text.lines().skip(1).map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let born = columns[1].split(" || ").flat_map(|born| {
            let (function, place) = born.split_once('@').unwrap();
            let (file, lines) = place.split_once(':').unwrap();
            let spots: Vec<_> = lines
                .split('|')
                .map(|line| (function.to_owned(), file.to_owned(), line.parse().unwrap()))
                .collect();
            spots
        });
        let said = columns[3].split([';', '(', '[']).next().unwrap();
        let is_slab = columns[3].contains("slab");
        let is_bytes = said.starts_with("bytes")
            || said.starts_with("mixed")
            || bytes.iter().any(|name| name == columns[0]);
        let pointers = columns[3].contains("(array of pointers)");
        let types = said.split([',', '=']).map(|name| {
            let name = name.trim().trim_start_matches("or ").trim_start_matches("struct ");
            let name = name.trim_start_matches("union ").trim_end_matches('*').trim_end();
            if pointers { format!("{name} *") } else { name.to_owned() }
        });
        Row { name: columns[0].to_owned(), born: born.collect(), types: types.collect(), is_bytes, is_slab }
    });
    rows.collect()
}

/// Normalizes a type name to the notation of the tables.
fn plain(name: &str) -> String {
    let words = ["struct", "class", "union"];
    let name =
        words.iter().find_map(|word| name.strip_prefix(word)?.strip_prefix(['.', ' '])).unwrap_or(name);
    let pointee = name.trim_end_matches(['*', ' ']);
    match name.len() - pointee.len() {
        // gcc's spelling.
        0 if pointee == "short unsigned int" => "unsigned short".to_owned(),
        0 => pointee.to_owned(),
        _ => format!("{} *", pointee.strip_prefix("struct ").unwrap_or(pointee)),
    }
}

#[derive(Default)]
struct Found {
    n_accesses: u64,
    n_allocations: u64,
}

/// `QUIPU_REAL` names the folder of recordings made by `./dev real`.
#[test]
#[ignore = "sources of four programs are fetched and compiled for it: ./dev real"]
fn types_of_real_programs_are_those_that_a_reader_gives() {
    let folder = std::env::var_os("QUIPU_REAL").expect("QUIPU_REAL names the folder of recordings");
    let mut table = String::new();
    for program in ["sqlite3", "lua", "zlib", "redis"] {
        let recording = Path::new(&folder).join(format!("{program}.quipu"));
        if !recording.is_file() {
            println!("{program}: no recording");
            continue;
        }
        table.push_str(&judge(program, &recording));
    }
    println!(
        "| program | heap accesses | judged | right | wrong | unknown |\n|---|---:|---:|---:|---:|---:|\n{table}"
    );
    if let Some(path) = std::env::var_os("QUIPU_REAL_TABLE") {
        std::fs::write(path, table).unwrap();
    }
}

fn judge(program: &str, recording: &Path) -> String {
    let rows = rows(program);
    let capture = Capture::open(recording).unwrap();
    let mut sites = Sites::default();
    let mut callers = Callers::default();
    let mut blocks: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let mut kinds: Vec<((String, String, String), Found)> = Vec::new();
    let mut numbers: HashMap<(String, String, String), usize> = HashMap::new();
    events(&capture, &mut |who, event| {
        callers.follow(who, event);
        match event {
            Event::Module { base, bytes, path } => sites.module(*base, *bytes, path),
            Event::Access(access) => {
                if let Some((start, (size, kind))) = blocks.range(..=access.addr).next_back()
                    && access.addr - start < *size
                {
                    kinds[*kind].1.n_accesses += 1;
                }
            }
            Event::Release(released) if released.call != heap::REALLOC => drop(blocks.remove(&released.addr)),
            Event::Alloc(region) if region.call != heap::REALLOC_FAILED => {
                let callers = || callers.of(who).iter().rev().copied();
                let found = sites.type_of(region.pc, callers(), region.element_bytes, region.n_elements);
                let said = match &found {
                    Ok(found) if found.sort == Sort::Bytes => format!("bytes {}", found.name),
                    Ok(found) => plain(&found.name),
                    Err(why) => format!("? {}", why.text()),
                };
                let mut row = None;
                let mut path = String::new();
                for pc in std::iter::once(region.pc).chain(callers()).take(12) {
                    for (function, file, line) in sites.places(pc) {
                        let file = file.rsplit('/').next().unwrap_or_default().to_owned();
                        let is_born = |born: &(String, String, u64)| {
                            born.0 == function && born.1 == file && line.abs_diff(born.2) <= 4
                        };
                        if path.len() < 200 {
                            path.push_str(&format!(" < {function}:{line}"));
                        }
                        // The nearest of several in one function.
                        let nearest = |row: &&Row| {
                            let same = row.born.iter().filter(|born| is_born(born));
                            same.map(|born| line.abs_diff(born.2)).min().unwrap_or(u64::MAX)
                        };
                        row = row.or_else(|| {
                            rows.iter().filter(|row| row.born.iter().any(is_born)).min_by_key(nearest)
                        });
                    }
                    if row.is_some() {
                        break;
                    }
                }
                let key = match row {
                    Some(row) => {
                        let is_right = match row.is_bytes {
                            _ if row.is_slab => false,
                            true if said.starts_with("bytes") || said.starts_with('?') => true,
                            _ => row.types.contains(&said),
                        };
                        let verdict = match () {
                            () if is_right => "right",
                            () if said.starts_with('?') || said.starts_with("bytes") => "unknown",
                            () => "wrong",
                        };
                        (row.name.clone(), verdict.to_owned(), said)
                    }
                    None => ("-".to_owned(), path, said),
                };
                let n = kinds.len();
                let kind = *numbers.entry(key.clone()).or_insert(n);
                if kind == n {
                    kinds.push((key, Found::default()));
                }
                kinds[kind].1.n_allocations += 1;
                blocks.insert(region.addr, (region.element_bytes * region.n_elements, kind));
            }
            _ => {}
        }
        Ok::<_, quipu_model::Error>(ControlFlow::Continue(()))
    })
    .unwrap();
    kinds.sort_by_key(|(_, found)| std::cmp::Reverse(found.n_accesses));
    let total: u64 = kinds.iter().map(|(_, found)| found.n_accesses).sum();
    let of = |verdict: &str| -> u64 {
        let same = kinds.iter().filter(|((row, said, _), _)| row != "-" && said == verdict);
        same.map(|(_, found)| found.n_accesses).sum()
    };
    let (right, wrong, unknown) = (of("right"), of("wrong"), of("unknown"));
    for ((row, verdict, said), found) in kinds.iter().take(70) {
        println!("{program}\t{}\t{}\t{row}\t{said}\t{verdict}", found.n_accesses, found.n_allocations);
    }
    let judged = right + wrong + unknown;
    let share = |n: u64, of: u64| format!("{:.1} %", 100.0 * n as f64 / of.max(1) as f64);
    format!(
        "| {program} | {total} | {} | {} | {} | {} |\n",
        share(judged, total),
        share(right, judged),
        share(wrong, judged),
        share(unknown, judged)
    )
}
