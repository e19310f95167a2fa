//! Cacheray's tools as drop-ins, compared with the output of Cacheray's own.

// A test whose setup fails has failed.
use flate2::read::GzDecoder;
use quipu::cacheray::decode::encode;
use quipu::cacheray::record::{
    ADD, ATOMIC, Access, Add, Dialect, READ, REMOVE, Record, Remove, UNALIGNED, WRITE,
};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/cacheray")
}

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).current_dir(folder()).args(args).output().unwrap()
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Cacheray prints structures, and the lines about the remap, in the order of a hash table: each block of a structure is one
/// piece, and pieces are compared in the order of their text.
fn sorted(stdout: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in stdout.lines() {
        match pieces.last_mut() {
            Some(last) if is_open => {
                last.push('\n');
                last.push_str(line);
            }
            _ => pieces.push(line.to_owned()),
        }
        is_open = (is_open || line.ends_with('{')) && !line.starts_with("Total hits for");
    }
    pieces.sort();
    pieces
}

#[test]
fn the_simulator_writes_what_the_original_writes() {
    let mut goldens: Vec<String> = std::fs::read_dir(folder().join("sim"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".stdout").map(str::to_owned))
        .collect();
    goldens.sort();
    assert_eq!(goldens.len(), 23);
    for golden in goldens {
        let (name, rest) = golden.split_once('.').unwrap();
        let (config, is_remapped) = match rest.strip_suffix(".remap") {
            Some(config) => (config, true),
            None => (rest, false),
        };
        let trace = match name {
            "big" => "upstream/big.trace".to_owned(),
            "random" => "derived/random.trace".to_owned(),
            _ => format!("{name}.trace"),
        };
        let family = if name.starts_with("reorder") { "reorder" } else { name };
        let (types, remap) = (format!("types/{family}.dwarf.json"), format!("types/{family}.remap"));
        let config = format!("configs/{config}.json");
        let out = tempfile::tempdir().unwrap();
        let out_name = out.path().to_str().unwrap();
        let mut args =
            vec!["as", "cacheray", "simulator", "-i", &trace, "-c", &config, "-t", "--out", out_name];
        if folder().join(&types).exists() {
            args.extend(["-d", &types]);
        }
        if is_remapped {
            args.extend(["-r", &remap]);
        }
        let output = quipu(&args);
        assert_eq!(output.status.code(), Some(0), "{golden}: {}", String::from_utf8_lossy(&output.stderr));
        let expected =
            std::fs::read_to_string(folder().join("sim").join(format!("{golden}.stdout"))).unwrap();
        assert_eq!(sorted(&String::from_utf8(output.stdout).unwrap()), sorted(&expected), "{golden}");
        let written: Vec<PathBuf> =
            std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let events =
            written.iter().find(|path| path.to_string_lossy().contains(".SimulationOutput.")).unwrap();
        let expected = unpacked(&folder().join("sim").join(format!("{golden}.events.gz")));
        assert!(std::fs::read_to_string(events).unwrap() == expected, "{golden}: events differ");
        let log = folder().join("sim").join(format!("{name}.tracelog.gz"));
        if log.exists() {
            let ours = std::fs::read_to_string(out.path().join("traceLog.txt")).unwrap();
            assert!(ours == unpacked(&log), "{golden}: the log differs");
        }
    }
}

/// Like `simulator … -s | head -1`.
#[test]
fn events_that_nobody_reads_end_the_simulator_quietly() {
    let out = tempfile::tempdir().unwrap();
    let config = "configs/two-level.json";
    let folder_that_is_not_there = out.path().join("a/b");
    for trace in ["structs.trace", "upstream/big.trace"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .current_dir(folder())
            .args(["as", "cacheray", "simulator", "-i", trace, "-c", config, "-s", "-t", "--out"])
            .arg(&folder_that_is_not_there)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
        assert!(folder_that_is_not_there.join("traceLog.txt").is_file());
    }
}

#[test]
fn the_checker_counts_what_the_original_counts() {
    let expected = std::fs::read_to_string(folder().join("tracecheck.txt")).unwrap();
    let mut n_files = 0;
    for part in expected.split("== ").filter(|part| !part.is_empty()) {
        let (file, text) = part.split_once('\n').unwrap();
        let output = quipu(&["as", "cacheray", "tracecheck", file]);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), text, "{file}");
        // Cacheray's program always exits with 0.
        let is_damaged = file == "mt-interleaved.cut.trace";
        assert_eq!(output.status.code(), Some(i32::from(is_damaged)), "{file}");
        n_files += 1;
    }
    assert!(n_files >= 9, "{n_files}");
}

/// Cacheray counts a record by its tag before reading the rest, and does not notice that the file ends there.
#[test]
fn the_checker_counts_what_begins_before_a_cut() {
    let access = |tag| Access { tag, addr: 0x5555_5555_0000, size: 8, thread: 7 };
    let add = Add {
        tag: ADD,
        addr: 0x5555_5555_0000,
        thread: 7,
        element_bytes: 24,
        n_elements: 2,
        name: b"struct.T",
    };
    let records = [
        Record::Add(add),
        Record::Access(access(READ)),
        Record::Access(access(WRITE | ATOMIC)),
        Record::Remove(Remove { tag: REMOVE, addr: 0x5555_5555_0000, thread: 7 }),
        Record::Access(access(READ | UNALIGNED)),
        Record::Add(Add { name: b"", ..add }),
    ];
    // According to the specification: 29 bytes and the name, 18, 18, 17, 18, 29.
    let starts = [(0, 2u8), (37, 0), (55, 0x41), (73, 3), (90, 0x80), (108, 2)];
    let mut bytes = Vec::new();
    records.iter().for_each(|record| encode(Dialect::Le64, record, &mut bytes).unwrap());
    assert_eq!(bytes.len(), 137);
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.trace");
    for n_bytes in 0..=bytes.len() {
        std::fs::write(&cut, &bytes[..n_bytes]).unwrap();
        let mut expected = "The file was correct\nAccess stats:\n".to_owned();
        for tag in 0..=u8::MAX {
            let n = starts.iter().filter(|(start, of)| *start < n_bytes && *of == tag).count();
            if n > 0 {
                expected += &format!("\t{tag}: {n}\n");
            }
        }
        let output = quipu(&["as", "cacheray", "tracecheck", cut.to_str().unwrap()]);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{n_bytes}");
        // Cacheray is silent about the cut; Quipu reports it.
        let is_cut =
            n_bytes < bytes.len() && n_bytes > 0 && starts.iter().all(|(start, _)| *start != n_bytes);
        let errors = String::from_utf8(output.stderr).unwrap();
        let said = (output.status.code(), errors.contains(" lost"), errors.contains("[cacheray/cut]"));
        assert_eq!(said, (Some(i32::from(is_cut)), is_cut, is_cut), "{n_bytes}: {errors}");
    }
}

#[test]
fn a_cut_trace_leaves_whole_blocks_of_events_and_no_report() {
    let out = tempfile::tempdir().unwrap();
    let out_name = out.path().to_str().unwrap();
    let config = "configs/l1-1k-2way.json";
    let trace = "derived/grand.cut-1000.trace";
    let output = quipu(&["as", "cacheray", "simulator", "-i", trace, "-c", config, "-t", "--out", out_name]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("ERROR: trace file parse error"));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("STATISTICS"));
    let written: Vec<_> = std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(written.len(), 1);
    assert_eq!(written[0].metadata().unwrap().len() % 8192, 0);
}

#[test]
fn wrong_options_are_refused_by_name() {
    for (args, what) in [
        (&["-c", "configs/two-level.json"][..], "no trace is given"),
        (&["-i", "shapes.trace"], "no configuration is given"),
        (&["-i", "shapes.trace", "-c", "facts.json"], "facts.json"),
        (&["-i", "shapes.trace", "-x"], "`-x`"),
        (&["-i", "shapes.trace,grand.trace", "-c", "configs/two-level.json"], "several traces"),
    ] {
        let output = quipu(&[&["as", "cacheray", "simulator"], args].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(what), "{args:?}: {text}");
    }
}

#[test]
fn files_of_types_that_cannot_be_read_are_told_by_name_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let whole = std::fs::read(self::folder().join("types/shapes.dwarf.json")).unwrap();
    std::fs::write(path("cut.json"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(path("other.json"), r#"{"structs": 1}"#).unwrap();
    std::fs::write(path("bytes.json"), [0xff, 0, 0xfe]).unwrap();
    let config = "configs/two-level.json";
    let out = path("out");
    for (file, why) in [
        (path("none.json"), "No such file or directory"),
        (path(""), "Is a directory"),
        (path("cut.json"), "EOF while parsing"),
        (path("other.json"), "invalid type: integer 1, expected a sequence"),
        (path("bytes.json"), ""),
    ] {
        for args in [
            &["analyze", "types", "shapes.trace", "--types", &file][..],
            &["analyze", "layout", "shapes.trace", "--type", "body", "--types", &file],
            &["as", "cacheray", "simulator", "-i", "shapes.trace", "-c", config, "--out", &out, "-d", &file],
        ] {
            let output = quipu(args);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
            assert!(text.contains(&file) && text.contains(why), "{args:?}: {text}");
            assert!(output.stdout.is_empty(), "{args:?}");
        }
    }
}

#[test]
fn the_model_gives_the_same_counts_through_lenses() {
    let config = "configs/two-level.json";
    let output =
        quipu(&["sim", "cache", "--model", "cacheray", "--config", config, "--json", "shapes.trace"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let levels = answer["results"]["cacheray-caches"]["levels"].as_array().unwrap().clone();
    let golden = std::fs::read_to_string(folder().join("sim/shapes.two-level.stdout")).unwrap();
    assert_eq!(levels.len(), 2);
    for level in &levels {
        let (name, of) = (level["name"].as_str().unwrap(), |key: &str| level[key].as_u64().unwrap());
        let text = format!("{name}: \n{} accesses\n{} hits. ", of("accesses"), of("hits"));
        assert!(golden.contains(&text) && golden.contains(&format!("\n{} misses. ", of("misses"))), "{text}");
    }
    let output = quipu(&["sim", "cache", "--model", "cacheray", "shapes.trace"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_usual_caches_run_on_typed_accesses() {
    let output = quipu(&["sim", "cache", "--json", "reorder-bad.trace"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let misses = |name: &str| {
        let output = quipu(&["sim", "cache", "--prefetcher", "none", "--json", name]);
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        answer.to_string()
    };
    // 258 and 130 distinct lines, and caches that hold them all: each line misses once.
    assert!(misses("reorder-bad.trace").contains("\"misses\":258"));
    assert!(misses("reorder-good.trace").contains("\"misses\":130"));
}

fn converted(args: &[&str]) -> (Option<i32>, serde_json::Value, String) {
    let output = quipu(&[&["convert", "--json"], args].concat());
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), answer, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn outcomes(answer: &serde_json::Value) -> Vec<(String, String, u64)> {
    let text = |line: &serde_json::Value, key: &str| line[key].as_str().unwrap().to_owned();
    let lines = answer["ledger"].as_array().unwrap();
    lines
        .iter()
        .map(|line| (text(line, "outcome"), text(line, "what"), line["count"].as_u64().unwrap()))
        .collect()
}

#[test]
fn typed_accesses_become_entries_and_come_back() {
    let out = tempfile::tempdir().unwrap();
    let path = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    let (there, back) = (path("there.zip"), path("back.trace"));
    let (code, answer, stderr) = converted(&["shapes.trace", "-o", &there, "--to", "drmemtrace"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("carried over: accesses, threads"), "{stderr}");
    assert!(stderr.contains("no room for:  marks, regions of types, flags of atomic"), "{stderr}");
    let expected = [
        ("kept", "beginnings of threads", 1),
        ("kept", "accesses", 536),
        ("dropped", "regions of types", 30),
        ("made up", "ends of threads", 1),
        ("made up", "size of lines", 1),
        ("made up", "size of pages", 1),
    ];
    let mut found = outcomes(&answer);
    found.sort();
    let mut expected: Vec<_> =
        expected.iter().map(|(outcome, what, n)| ((*outcome).to_owned(), (*what).to_owned(), *n)).collect();
    expected.sort();
    assert_eq!(found, expected);
    let checked = quipu(&["check", &there]);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    // The same caches get the same accesses.
    let config = "configs/two-level.json";
    let levels = |trace: &str| {
        let args = ["sim", "cache", "--model", "cacheray", "--config", config, "--json", trace];
        let answer: serde_json::Value = serde_json::from_slice(&quipu(&args).stdout).unwrap();
        answer["results"]["cacheray-caches"].to_string()
    };
    assert_eq!(levels("shapes.trace"), levels(&there));
    let (code, _, stderr) = converted(&[&there, "-o", &back, "--to", "cacheray"]);
    assert_eq!(code, Some(0), "{stderr}");
    let rows = |trace: &str| -> Vec<String> {
        let output = quipu(&["view", "--csv", "--kind", "access", trace]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().skip(1).map(|line| line.split_once(',').unwrap().1.to_owned()).collect()
    };
    let accesses = rows("shapes.trace");
    assert_eq!(accesses.len(), 536);
    assert_eq!(rows(&back), accesses);
}

#[test]
fn a_conversion_that_must_lose_nothing_says_that_it_does() {
    let out = tempfile::tempdir().unwrap();
    let path = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    let to = path("a.zip");
    let (code, ..) = converted(&["shapes.trace", "-o", &to, "--to", "drmemtrace", "--lossless"]);
    assert_eq!(code, Some(1));
    let (code, _, stderr) = converted(&["shapes.trace", "-o", &path("b"), "--to", "apitrace"]);
    assert!(code == Some(2) && stderr.contains("cannot become those of apitrace"), "{stderr}");
    let (code, _, stderr) = converted(&["shapes.trace", "-o", &path("c"), "--to", "nothing"]);
    assert!(code == Some(2) && stderr.contains("no format is called `nothing`"), "{stderr}");
    // Within the same format, the dialect is an option.
    let (code, _, stderr) = converted(&["shapes.trace", "-o", &path("d.trace"), "--set", "dialect=be64"]);
    assert_eq!(code, Some(0), "{stderr}");
    let expected = std::fs::read(folder().join("derived/shapes.big-endian.trace")).unwrap();
    assert!(std::fs::read(path("d.trace")).unwrap() == expected);
}

#[test]
fn dwarf2json_writes_the_types_beside_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("game.c");
    std::fs::write(
        &source,
        "struct Link { struct Link *next; int data; } link; int main(void) { return 0; }",
    )
    .unwrap();
    let program = folder.path().join("game.v1.bin");
    let compiled = Command::new("gcc").args(["-g", "-gdwarf-4", "-o"]).arg(&program).arg(&source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("passed over: no `gcc` here; the Debian package is `gcc`");
        return;
    }
    for option in [&[][..], &["--original"]] {
        let mut args = vec!["as", "cacheray", "dwarf2json"];
        args.extend(option);
        args.push(program.to_str().unwrap());
        let output = quipu(&args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(folder.path().join("game.dwarf.json")).unwrap();
        assert!(text.contains("\"name\": \"struct Link*\",\n                    \"offset\": 0"), "{text}");
    }
    let output = quipu(&["as", "cacheray", "dwarf2json", source.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("no ELF file"), "{message}");
}

/// Types that are only declared, aliases of `void`, several names for one type, and all kinds of members.
const OPAQUE: &str = r"
struct opaque; typedef struct opaque opaque_t; typedef struct opaque *handle;
union never; typedef union never never_t; typedef void nothing; typedef void (*back)(int, struct opaque *);
enum color { RED }; struct empty {};
typedef struct { int a; } first, second; typedef union { int a; float f; } either, other;
struct flex { int n; double d[]; }; struct zero { int n; char z[0]; };
struct bits { unsigned a : 3, b : 5, : 4, c : 20; unsigned long long d : 40; };
struct large { int x; char m[5000000000ULL]; };
struct holder {
    opaque_t *o; handle h; nothing *p; back f; never_t *u; enum color c; second s2; other o2;
    struct { int x; union { int y; float z; }; struct { char q; } named; };
    int m[3][4]; struct flex *fl; const volatile char *s; long double ld; unsigned a : 3, b : 5; __int128 wide;
} H;
struct bits B; struct large *L; struct empty E; struct zero Z;
int vla(int n) { typedef int row[n]; row r; r[0] = n; return r[0]; }
int main(void) { struct local { int q; } l = { 1 }; opaque_t *o = H.o; handle h = o; nothing *p = h; never_t *n = H.u;
    back f = H.f; return l.q + (p == (void *)n) + (f == 0) + vla(B.a) + (L != 0) + Z.n; }
";

/// Classes with bases, also virtual ones, templates, closures, references, pointers to members, and names that are not
/// ASCII.
const CLASSES: &str = r"
namespace ns {
class Base { public: virtual ~Base(); int b; static int shared; protected: char c; };
Base::~Base() {}
class Empty {};
template <class T> struct Of : Base { T t; Empty e; enum class E : char { X }; E ee; };
}
struct Virtual : virtual ns::Base { int v; };
struct Several : ns::Base, ns::Empty { int (Several::*pm)(int); int Several::*pd; int &r; Several(int &x) : r(x) {} };
class Forward; struct Uses { Forward *f; }; struct gr\u00f6\u00dfe { int n; };
int main() {
    int x = 1; ns::Of<int> t; ns::Of<double> d; Virtual v; Several m(x); Uses u{}; gr\u00f6\u00dfe g{1};
    struct { int anonymous; } an{1}; auto closure = [&](int y) { return y + x; };
    return t.b + d.b + v.v + (u.f != nullptr) + m.r + closure(an.anonymous) + g.n;
}
";

/// Asserts the requirements of Cacheray's simulator, and of the check of its extractor, for a file of types: version 4;
/// every key with a value of the right type (sizes of structures' members are signed 32-bit numbers, other numbers signed
/// 64-bit ones); each entry once; and no structure without an end, which would contain every address.
fn assert_readable(text: &str, what: &str) {
    let file: serde_json::Value = serde_json::from_str(text).unwrap();
    assert!(text.is_ascii(), "{what}");
    for list in ["structs", "unions"] {
        let key_of = |key: &str| -> Vec<String> {
            let mut keys: Vec<String> =
                file[list].as_array().unwrap().iter().map(|of| of[key].to_string()).collect();
            keys.sort();
            keys
        };
        for key in ["id", "name"] {
            let keys = key_of(key);
            assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{what}: {list}, {key}: {keys:?}");
        }
    }
    for of in file["structs"].as_array().unwrap() {
        let members = of["members"].as_array().unwrap();
        assert!(members.last().is_some_and(|last| last["size"].as_i64() != Some(-1)), "{what}: {of}");
        let fits =
            |member: &serde_json::Value| member["size"].as_i64().is_some_and(|n| i32::try_from(n).is_ok());
        assert!(members.iter().all(fits), "{what}: {of}");
    }
    assert_eq!(file["version"], 4, "{what}");
    for (list, has_offset) in [("structs", true), ("unions", false)] {
        for of in file[list].as_array().unwrap() {
            assert!(
                of["id"].is_u64() && of["name"].as_str().is_some_and(|name| !name.is_empty()),
                "{what}: {of}"
            );
            for member in of["members"].as_array().unwrap() {
                let is_whole = member["id"].is_u64()
                    && ["memberName", "name"]
                        .iter()
                        .all(|key| member[key].as_str().is_some_and(|t| !t.is_empty()))
                    && member["size"].as_i64().is_some_and(|size| size >= -1)
                    && member["offset"].is_u64() == has_offset;
                assert!(is_whole, "{what}: {member}");
            }
        }
    }
    for typedef in file["typedefs"].as_array().unwrap() {
        let is_text = |key: &str| typedef[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(is_text("type") && is_text("def"), "{what}: {typedef}");
    }
}

#[test]
fn types_of_every_version_of_dwarf_are_written_as_the_original_reads_them() {
    for compiler in ["gcc", "clang"] {
        for flags in FLAGS {
            let Some(text) = types_of(compiler, flags, "opaque.c", OPAQUE) else { continue };
            let what = format!("{compiler} {flags:?}");
            assert_readable(&text, &what);
            assert!(text.contains("\"name\": \"struct opaque*\""), "{what}: {text}");
            for absent in ["struct opaque", "struct empty"] {
                assert!(!text.contains(&format!("\"name\": \"{absent}\"")), "{what}: {absent}");
            }
            assert!(text.contains("\"size\": 2147483647"), "{what}: {text}");
        }
    }
}

#[test]
fn types_of_classes_are_written_as_the_original_reads_them() {
    for compiler in ["g++", "clang++"] {
        for flags in FLAGS {
            let Some(text) = types_of(compiler, flags, "classes.cc", CLASSES) else { continue };
            assert_readable(&text, &format!("{compiler} {flags:?}"));
            assert!(text.contains("\"struct gr\\u00f6\\u00dfe\""), "{compiler} {flags:?}: {text}");
        }
    }
}

/// Versions of DWARF, and ways to split it.
const FLAGS: [&[&str]; 7] = [
    &["-gdwarf-2"],
    &["-gdwarf-3"],
    &["-gdwarf-4"],
    &["-gdwarf-5"],
    &["-gdwarf-4", "-fdebug-types-section"],
    &["-gdwarf-5", "-gsplit-dwarf"],
    &["-gdwarf-5", "-flto", "-O1"],
];

/// The types of a program as the drop-in writes them; `None` if the compiler is missing or rejects the flags.
fn types_of(compiler: &str, flags: &[&str], name: &str, source: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let (path, program) = (folder.path().join(name), folder.path().join("types.bin"));
    std::fs::write(&path, source).unwrap();
    let compiled = Command::new(compiler)
        .current_dir(folder.path())
        .args(flags)
        .arg("-w")
        .arg("-o")
        .arg(&program)
        .arg(&path)
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("passed over: no `{compiler}` here that takes {flags:?}");
        return None;
    }
    let output = quipu(&["as", "cacheray", "dwarf2json", program.to_str().unwrap()]);
    assert!(output.status.success(), "{compiler} {flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(std::fs::read_to_string(folder.path().join("types.dwarf.json")).unwrap())
}

#[test]
fn threads_of_64_bits_are_read_and_stand_in_the_ledger_where_they_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, to) = (folder.path().join("wide.trace"), folder.path().join("wide.zip"));
    let threads = [0x7f12_3456_7700, 0xffff_7f12_3456_7000, u64::MAX];
    let mut bytes = Vec::new();
    for (i, thread) in (0..30).zip(threads.iter().cycle()) {
        let access = Access { tag: READ, addr: 0x7fff_0000 + 8 * i, size: 8, thread: *thread };
        encode(Dialect::Le64, &Record::Access(access), &mut bytes).unwrap();
    }
    std::fs::write(&trace, bytes).unwrap();
    let trace = trace.to_str().unwrap();
    let shown = quipu(&["view", "--json", trace]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let text = String::from_utf8(shown.stdout).unwrap();
    for thread in threads {
        assert_eq!(text.matches(&thread.to_string()).count(), 10, "{thread}: {text}");
    }
    let converted = quipu(&["convert", "--to", "drmemtrace", "--json", trace, "-o", to.to_str().unwrap()]);
    assert_eq!(converted.status.code(), Some(0), "{converted:?}");
    let answer: serde_json::Value = serde_json::from_slice(&converted.stdout).unwrap();
    let line = |line: &&serde_json::Value| {
        line["what"] == "threads of more than 48 bits, whose upper bits name a workload"
    };
    let wide = answer["ledger"].as_array().unwrap().iter().find(line).unwrap();
    assert_eq!((&wide["outcome"], &wide["count"]), (&"changed".into(), &2.into()), "{answer}");
}
