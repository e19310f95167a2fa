//! Workload events that are damaged, truncated, or of unknown types: what verbs keep and report.

use super::{buffer, gunzip, json, named, put, quipu, sample, sync};
use serde_json::Value;
use std::path::Path;

/// Each rule, with an encoding and bytes that violate it.
fn broken() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let swap = sync(5, 1);
    let with = |slots: &[&[u8]], names: &[u8]| {
        let slots: Vec<&[u8]> = std::iter::once(&swap[..]).chain(slots.iter().copied()).collect();
        buffer(&slots, names)
    };
    let configured =
        |rest: &[u8]| [&[0xa0, 0xe0, 0xa4, 0x80, 0x45, 1, 0, 0, 0, 0, 0, 0, 0][..], rest].concat();
    let store = [&[1][..], &0x1000u64.to_le_bytes(), &[0, 0, 2]].concat();
    let (whole, head) = (with(&[], b""), [&9999u64.to_le_bytes()[..], &[0; 8]].concat());
    vec![
        ("empty", "fixed", Vec::new()),
        ("cut", "fixed", whole[..30].to_vec()),
        ("cut", "variable", configured(&[0x0b, 1, 2])),
        ("unknown-kind", "variable", configured(&[0xe0, 1, 2, 3])),
        ("unknown-kind", "variable", configured(&[0x7f, 1, 2, 3])),
        ("unknown-tag", "fixed", with(&[&[9]], b"")),
        ("unknown-type", "fixed", with(&[&sync(31, 7)], b"")),
        ("nonsense", "fixed", with(&[&[9][..]; 9], b"")),
        ("nonsense", "variable", configured(&[0; 80])),
        ("bytes-after-end", "variable", configured(&[0xc0, 1])),
        ("no-end", "variable", configured(&[])),
        ("buffer", "fixed", [whole.clone(), head].concat()),
        ("name", "fixed", with(&[&named(3, 2, 9)], b"main\0")),
        ("name", "fixed", with(&[&named(3, 0, 4)], b"main\0")),
        ("unknown-configuration", "variable", configured(&[0xbc, 0xff])),
        ("no-configuration", "variable", vec![0x45, 1, 0, 0, 0, 0, 0, 0, 0]),
        ("no-thread", "fixed", buffer(&[&store], b"")),
        ("wait-without-mutex", "fixed", with(&[&sync(8, 7)], b"")),
        ("no-bytes", "fixed", with(&[&store], b"")),
        ("unlock-without-lock", "fixed", with(&[&sync(7, 7)], b"")),
        ("lock-held", "fixed", with(&[&sync(6, 7)], b"")),
        ("join-without-create", "fixed", with(&[&sync(2, 7)], b"")),
        ("exit-without-enter", "fixed", with(&[&named(4, 0, 5)], b"main\0")),
    ]
}

#[test]
fn each_rule_of_prism_is_broken_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let rules = quipu::format_named("prism").unwrap().rules();
    for (nth, (rule, encoding, bytes)) in broken().into_iter().enumerate() {
        let path = put(folder.path(), &format!("{nth}.bin"), &bytes);
        let open = format!("encoding={encoding}");
        let output = quipu(&["check", "--json", "--format", "prism", "--open", &open, &path]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let full = format!("prism/{rule}");
        assert!(said.contains(&full), "{nth} {rule}: {said} {}", String::from_utf8_lossy(&output.stderr));
        let severity = rules.iter().find(|rule| rule.name == full).unwrap().severity;
        let code = i32::from(severity == quipu::model::Severity::Error);
        assert_eq!(output.status.code(), Some(code), "{nth} {rule}: {said}");
        seen.push(full);
    }
    // The rule for one of several files of threads.
    let threads = folder.path().join("threads").to_str().unwrap().to_owned();
    assert_eq!(quipu(&["split", "-q", &in_turns(folder.path()), "-o", &threads]).status.code(), Some(0));
    let output = quipu(&["check", "--json", &format!("{threads}/thread-2.prism")]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("prism/one-thread"), "{said}");
    seen.push("prism/one-thread".to_owned());
    for rule in rules {
        assert!(seen.iter().any(|seen| seen == rule.name), "{} is broken by no bytes", rule.name);
    }
}

#[test]
fn a_wrong_name_loses_its_event_alone() {
    let folder = tempfile::tempdir().unwrap();
    let slots = [&sync(5, 1)[..], &named(3, 2, 9), &sync(6, 0x40), &named(3, 0, 5)];
    let path = put(folder.path(), "name.bin", &buffer(&slots, b"main\0"));
    let output = quipu(&["view", "--format", "prism", &path]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("lock") && text.contains("0x40") && text.contains("main"), "{text}");
}

#[test]
fn what_is_whole_of_damaged_buffers_is_kept_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let swap = sync(5, 1);
    let load = [&[1][..], &0x1000u64.to_le_bytes(), &[8, 0, 1]].concat();
    let bad_name = named(3, 200, 9);
    let slots: [&[u8]; 4] = [&swap, &load, &bad_name, &load];
    let whole = buffer(&slots, b"");
    let cut = [&whole[..], &whole[..16 + 18 + 18 + 5]].concat();
    let path = put(folder.path(), "cut.bin", &cut);
    let out = folder.path().join("kept.bin").to_str().unwrap().to_owned();
    let open = ["--format", "prism", "--open", "encoding=fixed"];
    let args = [&["convert", "-q", "--plain", "--keep-damaged"], &open[..], &[&path, "-o", &out]].concat();
    let output = quipu(&args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let check = quipu(&[&["check", "-q"], &open[..], &[&out]].concat());
    assert_eq!(check.status.code(), Some(0), "{check:?}");
    let info = json(&[&["info", "--json"], &open[..], &[&out]].concat());
    // Three of the first buffer, two of the second.
    assert_eq!(info["facts"]["records"], 5, "{info}");
}

/// A single unknown type may be from a newer front end; a run of them is damage, in both encodings and for every verb.
#[test]
fn zeros_among_events_are_no_events() {
    let folder = tempfile::tempdir().unwrap();
    for (name, encoding, start, n, resumes) in [
        ("fixed/prodcons.main.fixed18.gz", "fixed", 534_720, 1800, true),
        ("variable/prodcons.sigrind.bin.gz", "variable", 100_000, 4000, false),
    ] {
        let mut bytes = gunzip(&std::fs::read(sample(name)).unwrap());
        let n_whole = {
            let path = put(folder.path(), "whole.bin", &bytes);
            let info = json(&[
                "info",
                "--json",
                "--format",
                "prism",
                "--open",
                &format!("encoding={encoding}"),
                &path,
            ]);
            info["facts"]["records"].as_u64().unwrap()
        };
        bytes[start..start + n].fill(0);
        let path = put(folder.path(), "zeros.bin", &bytes);
        let out = folder.path().join("out").to_str().unwrap().to_owned();
        let open = format!("encoding={encoding}");
        let mut places = Vec::new();
        for verb in [
            &["check"][..],
            &["info"],
            &["view"],
            &["report"],
            &["analyze", "mix"],
            &["convert", "-o", &out],
            &["run", "--backend", "simplecount", "-o", &out],
        ] {
            let output = quipu(&[verb, &["--format", "prism", "--open", &open, &path]].concat());
            let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
            assert_eq!(output.status.code(), Some(1), "{verb:?} {name}: {}", tail(&said));
            assert!(!Path::new(&out).exists(), "{verb:?} {name}");
            let place =
                said.lines().find(|line| line.contains("lost") && line.contains("zeros.bin: offset 0x"));
            let place = place.unwrap_or_else(|| panic!("{verb:?} {name}: {}", tail(&said)));
            let offset = place.split("offset 0x").nth(1).unwrap();
            places.push(offset.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap().to_owned());
        }
        places.dedup();
        assert_eq!(places.len(), 1, "{name}: {places:?}");
        let stopped = usize::from_str_radix(&places[0], 16).unwrap();
        assert!((start - 18..start + 18).contains(&stopped), "{name}: {stopped}");
        let args = ["check", "--json", "--format", "prism", "--open", &open, &path];
        let check: Value = serde_json::from_slice(&quipu(&args).stdout).unwrap();
        let gap = &check["lost"]["gaps"][0];
        assert_eq!(gap["resumed"].is_object(), resumes, "{check}");
        if let Some(n_lost) = gap["records"].as_u64() {
            let args = ["info", "--json", "--format", "prism", "--open", &open, &path];
            let info: Value = serde_json::from_slice(&quipu(&args).stdout).unwrap();
            assert_eq!(info["facts"]["records"].as_u64().unwrap() + n_lost, n_whole, "{name}");
        }
        // The rest is written, and is undamaged.
        let args =
            ["convert", "-q", "--keep-damaged", "--format", "prism", "--open", &open, &path, "-o", &out];
        assert_eq!(quipu(&args).status.code(), Some(1));
        let check = quipu(&["check", &out]);
        assert_eq!(check.status.code(), Some(0), "{check:?}");
        std::fs::remove_file(&out).unwrap();
    }
}

/// The last part of a text.
fn tail(said: &str) -> &str {
    let at = said.len().saturating_sub(2000);
    said.get(at..).unwrap_or(said)
}

/// Eight events of unknown types among 64 are kept; nine are damage.
#[test]
fn nonsense_is_more_than_eight_of_sixty_four() {
    let folder = tempfile::tempdir().unwrap();
    for n in [8, 9] {
        let (swap, lock, odd) = (sync(5, 1), sync(12, 0x40), [9; 18]);
        let mut slots: Vec<&[u8]> = vec![&lock; 200];
        slots[0] = &swap;
        (0..n).for_each(|nth| slots[60 + nth * 7] = &odd);
        let path = put(folder.path(), "odd.bin", &[buffer(&slots, b""), buffer(&[&lock], b"")].concat());
        let args = ["info", "--json", "--format", "prism", "--open", "encoding=fixed", &path];
        let output = quipu(&args);
        let info: Value = serde_json::from_slice(&output.stdout).unwrap();
        // One is an error, too, but loses only its own event.
        assert_eq!(output.status.code(), Some(1), "{n}: {info}");
        // Events after the last of the nine are read again.
        assert_eq!(info["facts"]["records"], if n == 8 { 201 } else { 201 - 57 }, "{info}");
    }
}

#[test]
fn what_follows_the_end_of_a_buffer_is_counted_unless_it_is_zero() {
    let folder = tempfile::tempdir().unwrap();
    let events = gunzip(&std::fs::read(sample("variable/prodcons.sigrind.bin.gz")).unwrap());
    let mut ended = events.clone();
    ended[0] = 0xc0;
    let zeros = [&[0xa0, 0xe0, 0xa4, 0x80, 0x45, 1, 0, 0, 0, 0, 0, 0, 0, 0xc0][..], &[0; 100]].concat();
    for (bytes, is_told) in [(&ended, true), (&zeros, false)] {
        let path = put(folder.path(), "end.bin", bytes);
        let args = ["check", "--json", "--format", "prism", "--open", "encoding=variable", &path];
        let output = quipu(&args);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(said.contains("prism/bytes-after-end"), is_told, "{said}");
        if is_told {
            let n = bytes[1..].iter().filter(|byte| **byte != 0).count();
            assert!(
                said.contains(&format!("`{n}` bytes")) && said.contains("ends within the buffer"),
                "{said}"
            );
        }
    }
}

/// Name slots are in the order of the file, and each is one event.
#[test]
fn a_cut_within_names_loses_the_events_that_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = gunzip(&std::fs::read(sample("fixed/prodcons.main.fixed18.gz")).unwrap());
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (n_events, n_names) = (word(0), word(8));
    for cut in [16 + n_events * 18 + n_names / 2, 16 + n_events * 18] {
        let path = put(folder.path(), "cut.bin", &bytes[..cut]);
        let args = ["check", "--json", "--format", "prism", "--open", "encoding=fixed", &path];
        let output = quipu(&args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let check: Value = serde_json::from_slice(&output.stdout).unwrap();
        let gaps = check["lost"]["gaps"].as_array().unwrap();
        let offsets: Vec<u64> = gaps.iter().map(|gap| gap["stopped"]["offset"].as_u64().unwrap()).collect();
        assert!(offsets.is_sorted(), "{check}");
        let n_lost: u64 = gaps.iter().map(|gap| gap["records"].as_u64().unwrap()).sum();
        let info: Value = serde_json::from_slice(&quipu(&[&["info"], &args[1..]].concat()).stdout).unwrap();
        assert_eq!(info["facts"]["records"].as_u64().unwrap() + n_lost, n_events as u64, "{check}");
        for gap in gaps {
            // A place counts the events before it, without those that were lost.
            assert!(gap["stopped"]["record"].as_u64().unwrap() > 0, "{check}");
        }
    }
}

#[test]
fn damage_of_the_first_frame_ends_all_verbs_alike() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let dump = sample("fixed/prodcons.main.fixed18.gz");
    let convert =
        |args: &[&str]| assert_eq!(quipu(&[&["convert", "-q"], args].concat()).status.code(), Some(0));
    convert(&["--format", "prism", "--open", "encoding=fixed", &dump, "-o", &at("fixed.prism")]);
    convert(&[&at("fixed.prism"), "--events", "variable", "-o", &at("variable.prism")]);
    for name in ["fixed.prism", "variable.prism"] {
        let whole = std::fs::read(at(name)).unwrap();
        let mut changed = whole.clone();
        changed[whole.len() / 3] ^= 0xff;
        for (what, bytes) in [("cut", &whole[..whole.len() * 2 / 3]), ("changed", &changed)] {
            let path = put(folder.path(), &format!("{what}-{name}"), bytes);
            let out = at("out");
            for verb in [
                &["convert", &path, "-o", &out][..],
                &["run", "--backend", "simplecount", &path, "-o", &out],
                &["report", "--no-machine", &path],
                &["check", &path],
                &["view", &path],
            ] {
                let output = quipu(verb);
                assert_eq!(output.status.code(), Some(1), "{what} {verb:?}: {output:?}");
                assert!(!Path::new(&out).exists(), "{what} {verb:?}");
            }
        }
    }
}

#[test]
fn events_of_unknown_types_are_found_shown_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let swap = sync(5, 1);
    let load = [&[1][..], &0x1000u64.to_le_bytes(), &[8, 0, 4]].concat();
    let compute = [2, 1, 3, 9, 8];
    let none = [&[1][..], &0x1000u64.to_le_bytes(), &[8, 0, 0]].concat();
    let slots: [&[u8]; 10] = [
        &swap,
        &load,
        &compute,
        &sync(31, 7),
        &[3, 9, 0],
        &[4, 77, 0, 0, 0, 0, 0, 0, 0, 0],
        &[9, 9],
        &[0],
        &none,
        &[3, 0, 0],
    ];
    let path = put(folder.path(), "unknown.bin", &buffer(&slots, b""));
    let open = ["--format", "prism", "--open", "encoding=fixed", "--open", "detail=fixed"];
    let output = quipu(&[&["check", "--json"], &open[..], &[&path]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    for what in [
        "the unknown type of an access `4`",
        "the unknown operation `9`",
        "the unknown type of synchronization `31`",
        "the unknown type of control flow `9`",
        "the unknown type of a context `77`",
        "an event of the unknown tag `9`",
        "an event of the unknown tag `0`",
        "the unknown type of an access `0`",
        "the unknown type of control flow `0`",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
    let view = quipu(&[&["view"], &open[..], &[&path]].concat());
    assert_eq!(view.status.code(), Some(1));
    let shown = String::from_utf8(view.stdout).unwrap();
    for what in ["unknown 0.4", "operation 9", "unknown 2.31", "unknown 4.9", "unknown 3.77", "unknown 7.9"] {
        assert!(shown.contains(what), "{what}: {shown}");
    }
    // Back ends report that they did not get all events.
    let run = quipu(&[&["run", "--backend", "null", "-o", "x"], &open[..], &[&path]].concat());
    assert_eq!(run.status.code(), Some(1), "{run:?}");
}

/// Events of three threads that take turns, each with accesses of its own.
fn in_turns(folder: &Path) -> String {
    let swap = |thread: u8| [&[0x45, thread][..], &[0; 7]].concat();
    let mut bytes = vec![0xa0, 0xe0, 0xa4, 0x80];
    for turn in 0..3000_u32 {
        bytes.extend(swap(1 + (turn % 3) as u8));
        for nth in 0..20_u32 {
            let address = u64::from((turn * 20 + nth).wrapping_mul(0x9e37_79b9) >> 8);
            bytes.extend([&[0x0b][..], &address.to_le_bytes()[..6], &[8]].concat());
        }
    }
    bytes.push(0xc0);
    let plain = put(folder, "turns.bin", &bytes);
    let whole = folder.join("turns.prism").to_str().unwrap().to_owned();
    let args = ["convert", "-q", "--format", "prism", "--open", "encoding=variable", &plain, "-o", &whole];
    assert_eq!(quipu(&args).status.code(), Some(0));
    whole
}

/// The events of a trace without their numbers, the exit code, and the messages.
fn events_of(path: &str) -> (Vec<String>, Option<i32>, String) {
    let output = quipu(&["view", "--table", "events", "--csv", path]);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().skip(1).map(|row| row.split_once(',').unwrap().1.to_owned()).collect();
    (rows, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Whether `some` is a subsequence of `all`.
fn is_within(some: &[String], all: &[String]) -> bool {
    let mut all = all.iter();
    some.iter().all(|row| all.any(|other| other == row))
}

/// Frames with events in a file: offset, header size in bytes, number of events.
fn frames(bytes: &[u8]) -> Vec<(usize, usize, usize)> {
    let (mut at, mut all) = (0, Vec::new());
    while at < bytes.len() {
        let number = |place: usize| u32::from_le_bytes(*bytes[at + place..].first_chunk().unwrap()) as usize;
        let n_header = usize::from(bytes[at + 11]) * 8;
        if bytes[at + 9] == 2 {
            all.push((at, n_header, number(44)));
        }
        at += (n_header + number(16)).next_multiple_of(8) + 8;
    }
    all
}

#[test]
fn a_damaged_byte_costs_the_events_of_its_frame_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let turns = in_turns(folder.path());
    // The only thread of a file has no swap other than its first.
    let swap = [&[0x45, 9][..], &[0; 7]].concat();
    let access = |nth: u32| [&[0x0b][..], &(u64::from(nth) * 8).to_le_bytes()[..6], &[8]].concat();
    let events: Vec<u8> = (0..30_000).flat_map(access).collect();
    let plain =
        put(folder.path(), "alone.bin", &[&[0xa0, 0xe0, 0xa4, 0x80][..], &swap, &events, &[0xc0]].concat());
    let alone = at("alone.prism");
    let convert =
        |args: &[&str]| assert_eq!(quipu(&[&["convert", "-q"], args].concat()).status.code(), Some(0));
    convert(&["--format", "prism", "--open", "encoding=variable", &plain, "-o", &alone]);
    let fixed = [at("turns.fixed.prism"), at("alone.fixed.prism")];
    convert(&[&turns, "--events", "fixed", "-o", &fixed[0]]);
    convert(&[&alone, "--events", "fixed", "-o", &fixed[1]]);
    for path in [&turns, &alone, &fixed[0], &fixed[1]] {
        let (all, code, _) = events_of(path);
        assert!(code == Some(0) && all.len() > 30_000);
        let bytes = std::fs::read(path).unwrap();
        let frames = frames(&bytes);
        assert!(frames.len() > 3, "{path}");
        for (nth, (offset, n_header, n_events)) in frames.iter().enumerate() {
            // Damages the payload, or the header, so that not even the frame's number is known.
            for (damaged, is_header) in [(offset + n_header + 20, false), (offset + 40, true)] {
                let mut bad = bytes.clone();
                bad[damaged] ^= 0x55;
                let bad = put(folder.path(), "bad.prism", &bad);
                let (kept, code, said) = events_of(&bad);
                assert_eq!(code, Some(1), "{path} {nth}: {said}");
                assert_eq!(kept.len(), all.len() - n_events, "{path} {nth}: {said}");
                assert!(is_within(&kept, &all), "{path} {nth}: something is invented");
                // A damaged header does not give the number of events; the next frame may.
                let n = quipu::model::number::grouped(*n_events as u64);
                assert!(
                    said.contains(&format!("{n} records are lost"))
                        || is_header && said.contains("an unknown number of records"),
                    "{path} {nth}: {said}"
                );
                // Converting it gives the same events.
                let kept_too = at("kept.prism");
                let output = quipu(&["convert", "--keep-damaged", "--force", &bad, "-o", &kept_too]);
                assert_eq!(output.status.code(), Some(1), "{path} {nth}: {output:?}");
                let (again, code, said) = events_of(&kept_too);
                assert_eq!(code, Some(0), "{path} {nth}: {said}");
                let without = |rows: &[String]| -> Vec<String> {
                    let is_own = |row: &&String| !row.contains(",configure-") && !row.contains(",swap,");
                    rows.iter().filter(is_own).cloned().collect()
                };
                assert!(without(&again) == without(&kept), "{path} {nth}");
            }
        }
    }
}

#[test]
fn slots_after_nonsense_are_read_and_so_are_buffers_after_a_wrong_head() {
    let folder = tempfile::tempdir().unwrap();
    let whole = gunzip(&std::fs::read(sample("fixed/prodcons.main.fixed18.gz")).unwrap());
    let events = |bytes: &[u8]| {
        let path = put(folder.path(), "dump.bin", bytes);
        let open = ["--format", "prism", "--open", "encoding=fixed"];
        let output = quipu(&[&["view", "--table", "events", "--csv"], &open[..], &[&path]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<String> =
            text.lines().skip(1).map(|row| row.split_once(',').unwrap().1.to_owned()).collect();
        let written = folder.path().join("kept.prism").to_str().unwrap().to_owned();
        let convert = ["convert", "-q", "--keep-damaged", "--force"];
        quipu(&[&convert, &open[..], &[&path, "-o", &written]].concat());
        let (again, ..) = events_of(&written);
        assert!(again == rows, "{} of {} are read back", again.len(), rows.len());
        (rows, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (all, code, _) = events(&whole);
    assert_eq!((code, all.len()), (Some(0), 55_605));
    for at in [140_891, 362_889, 529_828] {
        let mut bad = whole.clone();
        bad[at..at + 400].fill(0);
        let (kept, code, said) = events(&bad);
        assert_eq!(code, Some(1), "{at}: {said}");
        let n_lost = all.len() - kept.len();
        assert!((21..=24).contains(&n_lost) && is_within(&kept, &all), "{at}: {n_lost} are lost: {said}");
        assert!(said.contains(&format!("{n_lost} records are lost")), "{at}: {said}");
    }
    // Repeated or missing bytes: the rest of the buffer is lost, and everything before the next swap.
    for (at, n) in [(596_853, 56_537), (412_461, 39_600), (841_235, 358)] {
        let mut bad = whole.clone();
        if n > 1000 {
            let twice = bad[at..at + n].to_vec();
            bad.splice(at..at, twice);
        } else {
            bad.drain(at..at + n);
        }
        let (kept, code, said) = events(&bad);
        assert_eq!(code, Some(1), "{at}: {said}");
        assert!(kept.len() > all.len() * 3 / 4, "{at}: {} are left: {said}", kept.len());
        assert_eq!(kept.last(), all.last(), "{at}: {said}");
        // Events of the buffer that are accepted before the misalignment of slots is detected.
        let known: std::collections::HashSet<&String> = all.iter().collect();
        let n_wrong = kept.iter().filter(|row| !known.contains(row)).count();
        assert!(n_wrong < 100, "{at}: {n_wrong} are invented");
    }
}

#[test]
fn a_folder_of_files_of_threads_says_what_is_missing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let whole = in_turns(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let threads = at("threads");
    assert_eq!(quipu(&["split", "-q", &whole, "-o", &threads]).status.code(), Some(0));
    let (all, ..) = events_of(&whole);
    let member = format!("{threads}/thread-2.prism");
    let bytes = std::fs::read(&member).unwrap();
    let refuses = |what: &str| {
        let out = at("out");
        for args in [
            &["check", &threads][..],
            &["info", &threads],
            &["report", &threads],
            &["view", &threads],
            &["run", "--backend", "simplecount", &threads, "-o", &out],
            &["convert", &threads, "-o", &at("out.prism")],
            &["merge", &threads, "-o", &at("merged.prism")],
        ] {
            let output = quipu(args);
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert_eq!(output.status.code(), Some(1), "{what}: {args:?}: {said}");
            assert!(said.contains("thread-2"), "{what}: {args:?}: {said}");
        }
    };
    for part in [1, 2, 5, 9] {
        std::fs::write(&member, &bytes[..bytes.len() * part / 10]).unwrap();
        let (kept, code, said) = events_of(&threads);
        assert_eq!(code, Some(1), "cut after {part} tenths: {said}");
        assert!(said.contains("thread-2"), "cut after {part} tenths: {said}");
        assert!(kept.len() > all.len() / 2 && is_within(&kept, &all), "cut after {part} tenths: {said}");
    }
    std::fs::write(&member, &bytes[..bytes.len() / 2]).unwrap();
    refuses("cut");
    // The carrier and the reader of the files both meet the damage, and it counts once.
    let lost = |verb: &str| {
        let output = quipu(&[verb, "--json", &threads]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["lost"]["records"].clone()
    };
    assert_eq!(lost("info"), lost("check"));
    for at in (100..bytes.len()).step_by(bytes.len() / 12) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x55;
        std::fs::write(&member, &bad).unwrap();
        let (kept, code, said) = events_of(&threads);
        assert_eq!(code, Some(1), "byte {at}: {said}");
        assert!(kept.len() > all.len() / 2 && is_within(&kept, &all), "byte {at}: {said}");
    }
    std::fs::remove_file(&member).unwrap();
    refuses("missing");
    // A file named directly, and a folder in which only that file is left.
    let left = format!("{threads}/thread-1.prism");
    std::fs::remove_file(format!("{threads}/thread-3.prism")).unwrap();
    let says = |path: &str, wanted: i32| {
        let out = at("out");
        for args in [
            &["check", path][..],
            &["info", path],
            &["run", "--backend", "simplecount", path, "-o", &out, "--force"],
            &["convert", path, "-o", &at("out.prism"), "--force"],
        ] {
            let output = quipu(args);
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert_eq!(output.status.code(), Some(wanted), "{args:?}: {said}");
            assert!(said.contains("42,000 events of other threads are not here"), "{args:?}: {said}");
        }
    };
    says(&left, 0);
    says(&threads, 1);
    let output = quipu(&["check", "--json", &threads]);
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(check["lost"]["records"], 42_000, "{check}");
    // A copy of a file is not an additional thread.
    assert_eq!(quipu(&["split", "-q", "--force", &whole, "-o", &threads]).status.code(), Some(0));
    std::fs::copy(&left, format!("{threads}/thread-11.prism")).unwrap();
    let output = quipu(&["check", &threads]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("stream/frame-twice"), "{said}");
    assert!(events_of(&threads).0 == all);
}

/// The remains of a damaged dump, written without a stream, can be read back completely: events of unknown types at the end
/// of one buffer and at the start of the next now are in the same buffer.
#[test]
fn plain_events_that_are_kept_of_damage_are_no_nonsense() {
    let folder = tempfile::tempdir().unwrap();
    let (swap, lock, odd, none) = (sync(5, 1), sync(12, 0x40), sync(31, 7), [0; 18]);
    let mut slots: Vec<&[u8]> = vec![&lock; 200];
    (0..8).for_each(|nth| slots[185 + nth * 2] = &odd);
    let mut further: Vec<&[u8]> = vec![&lock; 200];
    (0..8).for_each(|nth| further[nth * 2] = &odd);
    let mut damaged: Vec<&[u8]> = vec![&lock; 200];
    (0..40).for_each(|nth| damaged[100 + nth] = &none);
    let all = [&[&swap[..]][..], &slots].concat();
    let bytes =
        [buffer(&all, b""), buffer(&further, b""), buffer(&damaged, b""), buffer(&[&lock], b"")].concat();
    let path = put(folder.path(), "odd.bin", &bytes);
    let open = ["--format", "prism", "--open", "encoding=fixed"];
    let n_rows = |path: &str| {
        let output = quipu(&[&["view", "-q", "--table", "events", "--csv"], &open[..], &[path]].concat());
        String::from_utf8(output.stdout).unwrap().lines().count() as u64 - 1
    };
    assert_eq!(n_rows(&path), 602 - 40);
    let out = folder.path().join("out.bin").to_str().unwrap().to_owned();
    let convert = ["convert", "--plain", "--keep-damaged"];
    let output = quipu(&[&convert, &open[..], &[&path, "-o", &out]].concat());
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("8 events of unknown types left out"), "{said}");
    assert_eq!(n_rows(&out), 602 - 40 - 8, "{said}");
    let check = quipu(&[&["check", "--json"], &open[..], &[&out]].concat());
    let check: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert!(!check.to_string().contains("prism/nonsense"), "{check}");
}

/// Rows without the configuration events that list the fields of events.
fn without_configurations(mut rows: Vec<String>) -> Vec<String> {
    rows.retain(|row| !row.contains(",configure-"));
    rows
}

/// Verbs that read a whole trace, with their outputs.
fn verbs(folder: &str, out: &str) -> Vec<Vec<String>> {
    let to = |name: &str| format!("{out}/{name}");
    let verbs: [(&[&str], Option<&str>); 14] = [
        (&["check"], None),
        (&["check", "--json"], None),
        (&["info"], None),
        (&["info", "--json"], None),
        (&["report", "--no-machine"], None),
        (&["analyze", "mix"], None),
        (&["analyze", "--json", "mix"], None),
        (&["view"], None),
        (&["convert"], Some("a.prism")),
        (&["convert", "--keep-damaged"], Some("b.prism")),
        (&["merge"], Some("c.prism")),
        (&["merge", "--keep-damaged"], Some("d.prism")),
        (&["split", "--keep-damaged"], Some("e")),
        (&["run", "--backend", "simplecount"], Some("f")),
    ];
    let with = |(verb, to_file): &(&[&str], Option<&str>)| {
        let mut args: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
        args.push(folder.to_owned());
        if let Some(name) = to_file {
            args.extend(["-o".to_owned(), to(name), "--force".to_owned()]);
        }
        args
    };
    verbs.iter().map(with).collect()
}

/// Damage to the file of a thread.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Cut(usize),
    Flipped(usize),
    Removed,
}

#[test]
fn harm_of_one_file_of_a_thread_is_named_and_counted_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let dump = sample("fixed/prodcons.main.fixed18.gz");
    let convert =
        |args: &[&str]| assert_eq!(quipu(&[&["convert", "-q"], args].concat()).status.code(), Some(0));
    convert(&["--format", "prism", "--open", "encoding=fixed", &dump, "-o", &at("fixed.prism")]);
    convert(&[&at("fixed.prism"), "--events", "variable", "-o", &at("variable.prism")]);
    let turns = in_turns(folder.path());
    std::fs::create_dir(at("out")).unwrap();
    for (whole, step) in [(at("fixed.prism"), 2), (at("variable.prism"), 5), (turns, 3)] {
        let threads = at("threads");
        assert_eq!(quipu(&["split", "-q", "--force", &whole, "-o", &threads]).status.code(), Some(0));
        let (all, code, said) = events_of(&threads);
        assert_eq!(code, Some(0), "{said}");
        let n_rows = all.len();
        let all = without_configurations(all);
        let n_configurations = n_rows - all.len();
        for thread in 1..=3 {
            let member = format!("{threads}/thread-{thread}.prism");
            let bytes = std::fs::read(&member).unwrap();
            let len = bytes.len();
            let mut harms =
                vec![Harm::Removed, Harm::Cut(0), Harm::Cut(60), Harm::Cut(290), Harm::Cut(len - 10)];
            harms.extend((1..8).step_by(step).map(|part| Harm::Cut(len * part / 8)));
            harms.extend([20, 45, 200].map(Harm::Flipped));
            harms.extend((1..16).step_by(step).map(|part| Harm::Flipped(len * part / 16)));
            for (nth, harm) in harms.into_iter().enumerate() {
                let mut bad = bytes.clone();
                match harm {
                    Harm::Cut(at) => bad.truncate(at),
                    Harm::Flipped(at) => bad[at] ^= 0x55,
                    Harm::Removed => {}
                }
                match harm {
                    Harm::Removed => std::fs::remove_file(&member).unwrap(),
                    _ => std::fs::write(&member, &bad).unwrap(),
                }
                let context = format!("{whole}: thread {thread} {harm:?}");
                let (kept, code, said) = events_of(&threads);
                let kept = without_configurations(kept);
                let n_lost = all.len() - kept.len();
                assert!(is_within(&kept, &all), "{context}: something is invented");
                assert!(n_lost == 0 || code == Some(1), "{context}: {said}");
                for verb in ["check", "info"] {
                    let output = quipu(&[verb, "--json", &threads]);
                    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
                    let lost = &answer["lost"]["records"];
                    // The count may include configuration events, which occur more than once.
                    let n = lost.as_u64().or(Some(0).filter(|_| lost.is_null()));
                    let n_more = n.and_then(|n| usize::try_from(n).ok()?.checked_sub(n_lost));
                    let is_right = n_more.is_some_and(|n| n == 0 || n == n_configurations);
                    assert!(is_right, "{context}: {verb}: {n_lost} are lost: {answer:#}");
                }
                // Frames before a cut are kept.
                if let Harm::Cut(at) = harm {
                    let frames = frames(&bytes);
                    let whole = frames.windows(2).filter(|both| both[1].0 <= at).map(|both| both[0].2);
                    let n_own = kept.iter().filter(|row| row.starts_with(&format!("{thread},"))).count();
                    assert!(n_own + n_configurations + 3 >= whole.sum(), "{context}: {n_own}: {said}");
                }
                if nth % 5 > 0 {
                    continue;
                }
                for args in verbs(&threads, &at("out")) {
                    let args: Vec<&str> = args.iter().map(String::as_str).collect();
                    let output = quipu(&args);
                    let said = [output.stdout, output.stderr].concat();
                    let said = String::from_utf8_lossy(&said);
                    let about = format!("{context}: {args:?}: {}", tail(&said));
                    assert!(n_lost == 0 || output.status.code() == Some(1), "{about}");
                    for other in (1..=3).filter(|other| *other != thread) {
                        assert!(!said.contains(&format!("thread-{other}")), "{about}");
                    }
                    let is_missing = said.contains("missing files");
                    assert!(!is_missing || matches!(harm, Harm::Removed), "{about}");
                    if n_lost > 0 {
                        assert!(said.contains(&format!("thread-{thread}")), "{about}");
                    }
                }
            }
            std::fs::write(&member, &bytes).unwrap();
        }
    }
}
