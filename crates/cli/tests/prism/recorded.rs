//! Records of other formats as workload events: the numbers agree with the records, and records without events are listed at
//! the end.

use super::*;

/// Loads, stores and instructions of a trace, as counted by its analyses.
fn counted(trace: &str) -> [u64; 3] {
    if trace.contains("cacheray") {
        let info = json(&["info", "--json", trace]);
        return [info["facts"]["reads"].as_u64().unwrap(), info["facts"]["writes"].as_u64().unwrap(), 0];
    }
    let mix = json(&["analyze", "--json", "mix", trace]);
    let found = |key: &str| find(&mix, key).unwrap_or_else(|| panic!("{key}: {mix}"));
    [found("loads"), found("stores"), found("instructions")]
}

/// The first number with this key, anywhere in the value.
fn find(value: &Value, key: &str) -> Option<u64> {
    match value {
        Value::Object(map) => match map.get(key).and_then(Value::as_u64) {
            Some(number) => Some(number),
            None => map.values().find_map(|value| find(value, key)),
        },
        Value::Array(items) => items.iter().find_map(|value| find(value, key)),
        _ => None,
    }
}

fn traces() -> [PathBuf; 4] {
    [
        fixtures("drmemtrace").join("thr"),
        fixtures("drmemtrace").join("tiny.gz/drmemtrace.tiny.05701.3845.trace.gz"),
        fixtures("lackey").join("nodes.lackey.gz"),
        fixtures("cacheray").join("structs.trace"),
    ]
}

#[test]
fn recorded_traces_give_as_many_events_as_they_have_records() {
    let folder = tempfile::tempdir().unwrap();
    for (nth, trace) in traces().iter().enumerate() {
        let trace = trace.to_str().unwrap();
        let out = folder.path().join(format!("{nth}.prism"));
        let out = out.to_str().unwrap();
        let output = quipu(&["convert", "-q", trace, "-o", out, "--set", "events=fixed"]);
        assert_eq!(output.status.code(), Some(0), "{trace}: {}", String::from_utf8_lossy(&output.stderr));
        let info = json(&["info", "--json", out]);
        let of = |name: &str| info["facts"]["by_type"][name].as_u64().unwrap_or(0);
        let has_instrs = !trace.contains("cacheray");
        let [loads, stores, instrs] = counted(trace);
        assert_eq!([of("load"), of("store")], [loads, stores], "{trace}");
        if has_instrs {
            assert_eq!(of("instruction"), instrs, "{trace}");
        }
        let run = folder.path().join(format!("{nth}.run"));
        let output = quipu(&[
            "run",
            "-q",
            "--backend",
            "stgen",
            "--backend",
            "simplecount",
            trace,
            "-o",
            run.to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(0), "{trace}: {}", String::from_utf8_lossy(&output.stderr));
        let lines = std::fs::read_to_string(run.join("simplecount/simplecount.txt")).unwrap();
        let line = |name: &str| {
            let start = format!("[SimpleCount] Total {name:<9} Events: ");
            let found = lines.lines().find_map(|line| line.strip_prefix(&start));
            found.unwrap().parse::<u64>().unwrap()
        };
        assert_eq!([line("ReadMem"), line("WriteMem"), line("Instr")], [loads, stores, of("instruction")]);
        let (reads, writes) = totals(&run.join("stgen/sigil.stats.out"));
        assert_eq!([reads, writes], [loads, stores], "{trace}");
    }
}

/// The file of a thread in a drmemtrace trace: its calls with their arguments, each at a different time.
fn traced(thread: u64, calls: &[(u64, u64, &[u64])]) -> Vec<u8> {
    use quipu::drmemtrace::record::{Entry, Marker, Type};
    let mut entries = vec![
        Entry::new(Type::HEADER, 0, 4),
        Entry::marker(Marker::VERSION, 4),
        Entry::marker(Marker::FILETYPE, 0x40), // x86-64.
        Entry::new(Type::THREAD, 4, thread),
        Entry::new(Type::PID, 4, 70),
    ];
    for (time, function, args) in calls {
        entries.push(Entry::marker(Marker::TIMESTAMP, *time));
        entries.push(Entry::marker(Marker::CPU_ID, 0));
        let enters = !args.is_empty();
        entries.push(Entry::marker(Marker::FUNC_ID, *function));
        if enters {
            entries.push(Entry::marker(Marker::FUNC_RETADDR, 0x40_1000));
            entries.extend(args.iter().map(|arg| Entry::marker(Marker::FUNC_ARG, *arg)));
        } else {
            entries.push(Entry::marker(Marker::FUNC_RETVAL, 0));
        }
        entries.push(Entry::new(Type::INSTR, 4, 0x40_1000 + 4 * time));
        entries.push(Entry::new(Type::WRITE, 8, 0x6000));
    }
    entries.extend([Entry::new(Type::THREAD_EXIT, 4, thread), Entry::new(Type::FOOTER, 0, 0)]);
    entries.iter().flat_map(bytes_of).collect()
}

/// The bytes of an entry of drmemtrace.
fn bytes_of(entry: &quipu::drmemtrace::record::Entry) -> Vec<u8> {
    let (kind, size) = (entry.kind.get().to_le_bytes(), entry.size.get().to_le_bytes());
    [&kind[..], &size, &entry.addr.get().to_le_bytes()].concat()
}

#[test]
fn calls_of_thread_libraries_in_the_list_of_functions_are_synchronization() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let trace = folder.path().join("trace");
    std::fs::create_dir(&trace).unwrap();
    let functions = [
        (1, 4, "pthread_create"),
        (2, 2, "pthread_join"),
        (3, 1, "pthread_mutex_lock"),
        (4, 1, "pthread_mutex_unlock@@GLIBC_2.2.5"),
        (5, 1, "pthread_barrier_wait"),
        (6, 2, "pthread_cond_wait"),
        (7, 1, "pthread_cond_signal"),
        (8, 1, "malloc"),
    ];
    let list = functions.map(|(id, n_args, name)| format!("{id},{n_args},0x{id}000,libc.so.6!{name}\n"));
    std::fs::write(trace.join("funclist.log"), list.concat()).unwrap();
    let none: &[u64] = &[];
    let first = traced(
        7,
        &[
            (10, 1, &[0x5000, 0, 0x40_2000, 0]),
            (11, 1, none),
            (12, 3, &[0xa0]),
            (20, 3, none),
            (21, 6, &[0xb0, 0xa0]),
            (40, 6, none),
            (41, 4, &[0xa0]),
            (42, 4, none),
            (43, 8, &[100]),
            (44, 8, none),
            (50, 5, &[0xc0]),
            (61, 5, none),
            (70, 2, &[0x7f00, 0]),
            (80, 2, none),
        ],
    );
    let second = traced(
        8,
        &[
            (22, 3, &[0xa0]),
            (23, 3, none),
            (30, 7, &[0xb0]),
            (31, 7, none),
            (32, 4, &[0xa0]),
            (33, 4, none),
            (60, 5, &[0xc0]),
            (62, 5, none),
        ],
    );
    std::fs::write(trace.join("one.trace"), first).unwrap();
    std::fs::write(trace.join("two.trace"), second).unwrap();
    done(&["convert", "-q", trace.to_str().unwrap(), "-o", &at("locks.prism")]);
    let events = rows(&[&at("locks.prism")]);
    const WHAT: [&str; 7] = ["create", "join", "lock", "unlock", "barrier", "wait", "signal"];
    let what = |line: &&String| line.split(',').find(|field| WHAT.contains(field)).map(str::to_owned);
    let synchronization: Vec<String> = events.iter().filter_map(|line| what(&line)).collect();
    assert_eq!(
        synchronization,
        ["create", "lock", "lock", "signal", "unlock", "wait", "unlock", "barrier", "barrier", "join"],
        "{events:#?}"
    );
    let output =
        quipu(&["run", "-q", "--backend", "simplecount", trace.to_str().unwrap(), "-o", &at("counted")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let counted = std::fs::read_to_string(at("counted/simplecount.txt")).unwrap();
    for (what, n) in
        [("Spawn", 1), ("Join", 1), ("Lock", 2), ("Unlock", 2), ("Barrier", 2), ("Wait", 1), ("Signal", 1)]
    {
        assert!(counted.contains(&format!("Total {what:<9} Events: {n}\n")), "{what}: {counted}");
    }
    // The created thread waits for the lock, the first one for the signal.
    let work = json(&["analyze", "workload", "--json", &at("locks.prism")]);
    assert!(find(&work, "critical_path") < find(&work, "work"), "{work}");
}

/// The list at the end of a run, as counts by text.
fn ledger(trace: &str, out: &str) -> BTreeMap<String, u64> {
    let output = quipu(&["run", "--json", "--backend", "simplecount", trace, "-o", out]);
    assert_eq!(output.status.code(), Some(0), "{trace}: {output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = answer["ledger"].as_array().unwrap_or_else(|| panic!("{answer}"));
    lines
        .iter()
        .map(|line| (line["what"].as_str().unwrap().to_owned(), line["count"].as_u64().unwrap_or(0)))
        .collect()
}

const COMPUTATIONS: &str = "computations, by the bytes of instructions";
const WITHOUT_ENCODINGS: &str = "of the instructions, those without encodings: no computation";

#[test]
fn synthetic_instructions_compute_as_often_as_those_that_they_stand_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let trace = |name: &str| fixtures("drmemtrace").join(name).to_str().unwrap().to_owned();
    let synthetic = trace("threadsig.regdeps");
    // The file from which it was made.
    let real = trace("threadsig.x64/drmemtrace.threadsig.872906.1041.trace.zip");
    let (of_synthetic, of_real) = (ledger(&synthetic, &at("synthetic")), ledger(&real, &at("real")));
    assert_eq!(of_synthetic["instructions"], of_real["instructions"]);
    let (n, n_real) = (of_synthetic[COMPUTATIONS], of_real[COMPUTATIONS]);
    // There, extending loads, vector comparisons with memory and compare-and-swaps are loads.
    assert!(n < n_real && n * 100 > n_real * 95, "{n} of {n_real}");
    // Categories, as counted by their own analysis.
    let categories = json(&["analyze", "--json", "categories", &synthetic]);
    let (mut sure, mut perhaps) = (0, 0);
    for set in categories["results"]["categories"]["sets"].as_array().unwrap() {
        let names: Vec<&str> =
            set["categories"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let count = set["count"].as_u64().unwrap();
        let is_sure = names.iter().any(|name| ["math", "convert"].contains(name)) || names == ["move"];
        sure += if is_sure { count } else { 0 };
        // If they have registers.
        perhaps +=
            if names == ["simd"] || names.is_empty() || names == ["uncategorized"] { count } else { 0 };
    }
    assert!(sure > 20_000 && (sure..=sure + perhaps).contains(&n), "{n}: {sure} and perhaps {perhaps}");
    let events = at("events.prism");
    done(&["convert", "-q", &synthetic, "-o", &events, "--set", "events=fixed"]);
    let rows = rows(&[&events]);
    let computed: Vec<&String> =
        rows.iter().filter(|row| row.contains(",integer,") || row.contains(",float,")).collect();
    assert_eq!(computed.len() as u64, n);
    // A move between registers of 8 bytes, and arithmetic on 4 bytes whose operation is hidden.
    for expected in [",integer,,8,move,1,", ",integer,,4,undefined,1,"] {
        assert!(computed.iter().any(|row| row.contains(expected)), "{expected}: {:?}", &computed[..20]);
    }
}

#[test]
fn instructions_whose_bytes_are_not_known_or_none_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (nth, trace) in
        [fixtures("drmemtrace").join("func-trace"), fixtures("lackey").join("nodes.lackey.gz")]
            .iter()
            .enumerate()
    {
        let trace = trace.to_str().unwrap();
        let said = ledger(trace, &at(&nth.to_string()));
        let [_, _, instrs] = counted(trace);
        assert_eq!(said[WITHOUT_ENCODINGS], instrs, "{trace}");
        assert!(!said.contains_key(COMPUTATIONS), "{trace}: {said:?}");
    }
    // `add eax, ebx` twice, an undecodable byte three times, and an instruction without bytes.
    use quipu::drmemtrace::record::{Entry, Marker, Type};
    let mut entries = vec![
        Entry::new(Type::HEADER, 0, 4),
        Entry::marker(Marker::VERSION, 4),
        Entry::marker(Marker::FILETYPE, 0x240), // x86-64 with encodings.
        Entry::new(Type::THREAD, 4, 7),
        Entry::new(Type::PID, 4, 7),
        Entry::marker(Marker::TIMESTAMP, 10),
        Entry::marker(Marker::CPU_ID, 0),
    ];
    let instr = |pc: u64, bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let size = bytes.len() as u16;
        [Entry::new(Type::ENCODING, size, u64::from_le_bytes(word)), Entry::new(Type::INSTR, size, pc)]
    };
    for _ in 0..2 {
        entries.extend(instr(0x1000, &[0x01, 0xd8]));
        entries.extend(instr(0x1002, &[0x06]));
    }
    entries.extend(instr(0x1003, &[0x06]));
    entries.extend([Entry::new(Type::THREAD_EXIT, 4, 7), Entry::new(Type::FOOTER, 0, 0)]);
    let bytes: Vec<u8> = entries.iter().flat_map(bytes_of).collect();
    let trace = put(folder.path(), "undecodable.trace", &bytes);
    let said = ledger(&trace, &at("undecodable"));
    assert_eq!(said["instructions"], 5);
    assert_eq!(said[COMPUTATIONS], 2, "{said:?}");
    assert_eq!(said["of the instructions, those whose bytes are none: no computation"], 3, "{said:?}");
    assert!(!said.contains_key(WITHOUT_ENCODINGS), "{said:?}");
}
