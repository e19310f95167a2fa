//! Verbs that write, on damaged traces: no output unless requested, and their messages about it.

use super::*;

#[test]
fn verbs_that_write_make_nothing_of_a_damaged_trace_unless_asked_to() {
    let (damaged, [n_good, _], [n_records, n_instrs]) = with_a_flipped_bit();
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("flipped.zip"), folder.path().join("out.zip"));
    std::fs::write(&path, damaged).unwrap();
    let target = out.to_str().unwrap();
    for call in [
        &["convert", "-o", target][..],
        &["merge", "-o", target],
        &["trim", "--take", "10M", "-o", target],
        &["filter", "--drop", "prefetch", "-o", target],
        &["convert", "--to", "cacheray", "-o", target],
    ] {
        let (_, said, code) = quipu(call, &path);
        assert_eq!((code, out.exists()), (1, false), "{call:?}: {said}");
        assert!(said.contains("nothing was written; --keep-damaged"), "{call:?}: {said}");
        let first = said.lines().find(|line| line.contains(" lost ")).unwrap();
        assert!(first.starts_with("error: 1,000 instructions ("), "{call:?}: {first}");
        let kept: Vec<&str> = call.iter().copied().chain(["--keep-damaged", "--force"]).collect();
        let (_, said, code) = quipu(&kept, &path);
        assert_eq!((code, out.exists()), (1, true), "{call:?}: {said}");
        assert!(said.contains("what was written is doubtful"), "{call:?}: {said}");
        std::fs::remove_file(&out).unwrap();
    }
    let (answer, said, _) = quipu(&["convert", "--keep-damaged", "--json", "-o", target], &path);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["files"][0]["doubtful_from"].as_u64(), Some(n_good), "{said}");
    assert!(said.contains(&format!("after record {n_good}, what was written is doubtful")), "{said}");
    // Nothing from the damaged chunk, and everything from the others.
    let read = &answer["read"];
    assert_eq!(
        (read["records"].as_u64(), read["instrs"].as_u64()),
        (Some(7846 - n_records), Some(5952 - n_instrs)),
        "{answer:#}"
    );
}

/// The first record that is doubtful is the same for every output, `view` included. Records count in each file of a folder.
#[test]
fn tables_for_other_programs_say_after_which_record_they_are_doubtful() {
    let folder = tempfile::tempdir().unwrap();
    let within = |name: &str| folder.path().join(name);
    let one = within("one.trace");
    let mut bytes = trace_of("tiny.plain");
    bytes[12 * 1000] = 200; // No entry has this type.
    std::fs::write(&one, bytes).unwrap();
    let text = within("large.din");
    std::fs::write(&text, "r 1000 4\nr 2000 4\nr 3000 ffffffff\nw 4000 4\n").unwrap();
    for (path, n_good) in [(&one, 892), (&text, 2)] {
        let (_, said, _) = quipu(&["view"], path);
        assert!(said.contains(&format!("after record {n_good}, what was printed is doubtful")), "{said}");
        for name in ["out.parquet", "out.arrow", "out.arrows"] {
            let out = within(name);
            let call = ["convert", "--keep-damaged", "--force", "--json", "-o", out.to_str().unwrap()];
            let (answer, said, code) = quipu(&call, path);
            let expected = format!("{name}: after record {n_good}, what was written is doubtful");
            assert!(code == 1 && said.contains(&expected), "{name}: {said}");
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["doubtful_from"].as_u64(), Some(n_good), "{name}: {answer:#}");
        }
    }

    let (several, out) = (within("several"), within("several.parquet"));
    let plain = ["convert", "--container", "plain", "-o", several.to_str().unwrap()];
    let (_, said, code) = quipu(&plain, Path::new(&format!("{TRACES}/thr")));
    assert_eq!(code, 0, "{said}");
    let mut files: Vec<_> = std::fs::read_dir(&several).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "trace"));
    files.sort();
    for (file, at) in [(&files[1], 600), (&files[3], 300)] {
        let mut bytes = std::fs::read(file).unwrap();
        bytes[12 * at] = 200;
        std::fs::write(file, bytes).unwrap();
    }
    let call = ["convert", "--keep-damaged", "--json", "-o", out.to_str().unwrap()];
    let (answer, said, code) = quipu(&call, &several);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(code, 1, "{said}");
    for (nth, (shard, n_good)) in [("shard-00001", 404_u64), ("shard-00003", 175)].into_iter().enumerate() {
        let file = format!("*/{shard}.parquet");
        let expected = format!("{file}: after record {n_good}, what was written is doubtful");
        assert!(said.contains(&expected), "{expected}: {said}");
        let told = &answer["doubtful"][nth];
        assert_eq!((told["file"].as_str(), told["doubtful_from"].as_u64()), (Some(&*file), Some(n_good)));
    }
    assert_eq!(said.matches("what was written is doubtful").count(), 2, "{said}");
}

#[test]
fn a_conversion_minds_what_opening_the_trace_found() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("wrong.trace"), folder.path().join("out.cacheray"));
    let mut bytes = std::fs::read(format!("{TRACES}/small/drmemtrace.small.x64.trace")).unwrap();
    bytes[5] = 1; // No trace has this version.
    std::fs::write(&path, bytes).unwrap();
    let call = ["convert", "--to", "cacheray", "-o", out.to_str().unwrap()];
    let (_, said, code) = quipu(&call, &path);
    assert_eq!((code, out.exists()), (1, false), "{said}");
    assert!(said.contains("drmemtrace/no-header"), "{said}");
    assert_eq!(said.matches("--keep-damaged keeps").count(), 1, "{said}");
    let (_, said, code) = quipu(&[&call[..], &["--keep-damaged"]].concat(), &path);
    assert_eq!((code, out.exists()), (1, true), "{said}");
    assert!(said.contains("after record 0, what was written is doubtful"), "{said}");
}

#[test]
fn a_conversion_of_which_damage_leaves_nothing_names_the_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("wrong.trace.gz"), folder.path().join("out"));
    let mut bytes = trace_of("tiny.gz");
    let n_bytes = bytes.len();
    bytes[n_bytes - 8] ^= 1; // The checksum of the whole file.
    std::fs::write(&path, bytes).unwrap();
    let call = ["convert", "--to", "cacheray", "--keep-damaged", "-o", out.to_str().unwrap()];
    let (_, said, code) = quipu(&call, &path);
    assert_eq!((code, out.exists()), (1, false), "{said}");
    assert!(said.contains("nothing of the trace can be read") && said.contains("CRC-32"), "{said}");
}

#[test]
fn no_stream_is_made_of_an_archive_of_which_damage_leaves_no_byte() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drmemtrace.tiny.1.trace.zip");
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    archive.start_file("chunk.0000", stored).unwrap();
    archive.write_all(&trace_of("tiny.plain")).unwrap();
    let mut bytes = archive.finish().unwrap().into_inner();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    for name in ["out.quipu", "out.zip"] {
        let out = folder.path().join(name);
        let call = ["convert", "--keep-damaged", "-o", out.to_str().unwrap()];
        let (_, said, code) = quipu(&call, &path);
        assert_eq!((code, out.exists()), (1, false), "{name}: {said}");
        assert!(said.contains("nothing of the trace can be read") && said.contains("CRC-32"), "{said}");
    }
}

#[test]
fn verbs_that_write_name_the_place_of_damage_that_nonsense_follows() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("drmemtrace.tiny.05701.3845.trace"), folder.path().join("out"));
    let mut bytes = trace_of("tiny.plain");
    // All entries after these bytes are shifted.
    let at = bytes.len() / 20;
    let again = bytes[at..at + 64].to_vec();
    bytes.splice(at..at, again);
    std::fs::write(&path, bytes).unwrap();
    let first = |call: &[&str]| {
        let (_, said, code) = quipu(call, &path);
        assert_eq!(code, 1, "{call:?}: {said}");
        said.lines().find(|line| line.contains("[drmemtrace/unknown-type]")).unwrap().to_owned()
    };
    let read = first(&["analyze", "mix"]);
    assert!(read.contains("record 386, instr 280"), "{read}");
    assert_eq!(first(&["convert", "-o", out.to_str().unwrap()]), read);
}

#[test]
fn all_damaged_files_of_a_folder_are_named_where_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    std::fs::create_dir(&trace).unwrap();
    quipu_testkit::copy_files(&quipu_testkit::fixtures("drmemtrace").join("thr"), &trace);
    let files = std::fs::read_dir(&trace).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(".trace.zip")).collect();
    files.sort();
    files.pop();
    for file in &files {
        let mut bytes = std::fs::read(file).unwrap();
        let at = bytes.len() * 2 / 3;
        bytes[at] ^= 0x90;
        std::fs::write(file, bytes).unwrap();
    }
    assert!(files.len() > 1);
    let lost = |said: &str| {
        let first = said.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        first.rsplit_once("; ").unwrap_or_default().0.to_owned()
    };
    let (_, said, _) = quipu(&["report"], &trace);
    let (of_all, out) = (lost(&said), folder.path().join("out"));
    assert!(of_all.contains(&format!("in {} places", files.len())), "{of_all}");
    for (verb, ending) in [
        (&["convert"][..], ""),
        (&["convert"], "arrow"),
        (&["convert"], "parquet"),
        (&["convert"], "quipu"),
        (&["convert", "--to", "cacheray"], ""),
        (&["trim", "--take", "1000000"], ""),
        (&["merge"], ""),
        (&["split"], ""),
    ] {
        let out = out.with_extension(ending);
        let (_, said, code) = quipu(&[verb, &["-o", out.to_str().unwrap()]].concat(), &trace);
        assert_eq!((code, lost(&said)), (1, of_all.clone()), "{verb:?}: {said}");
        let is_named = |file: &&std::path::PathBuf| {
            let start = format!("error: {}(", file.display());
            said.lines().any(|line| line.starts_with(&start) && line.ends_with("[source/malformed]"))
        };
        assert!(files.iter().all(|file| is_named(&file)), "{verb:?} {ending}: {said}");
        assert!(!out.exists(), "{verb:?} {ending}");
    }
}

/// Opening one of several files detects that it is truncated; reading it determines the loss.
#[test]
fn what_is_made_of_each_file_of_a_folder_says_what_a_cut_one_loses() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    std::fs::create_dir(&trace).unwrap();
    quipu_testkit::copy_files(&fixtures("drmemtrace").join("thr"), &trace);
    let files = std::fs::read_dir(&trace).unwrap().map(|entry| entry.unwrap().path());
    let file = files.filter(|path| path.to_string_lossy().ends_with(".trace.zip")).max().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..4015]).unwrap();
    let lost = |said: &str| {
        let first = said.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        first.rsplit_once("; ").unwrap_or_default().0.to_owned()
    };
    let (_, said, _) = quipu(&["report"], &trace);
    let read = lost(&said);
    assert!(read.contains(" bytes are lost") && read.contains("offset 0x"), "{said}");
    for ending in ["", "arrow", "parquet", "quipu"] {
        let out = folder.path().join("out").with_extension(ending);
        let (_, said, code) = quipu(&["convert", "-o", out.to_str().unwrap()], &trace);
        assert_eq!((code, out.exists(), lost(&said)), (1, false, read.clone()), "{ending}: {said}");
    }
}

#[test]
fn what_is_put_into_a_stream_says_where_reading_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zeros.trace");
    let mut bytes = std::fs::read(fixtures("apitrace").join("threads-3x20.trace")).unwrap();
    bytes[4433..4497].fill(0);
    std::fs::write(&path, bytes).unwrap();
    for ending in ["", "arrow", "parquet", "quipu"] {
        let out = folder.path().join("out").with_extension(ending);
        let (_, said, code) = quipu(&["convert", "-o", out.to_str().unwrap()], &path);
        assert_eq!((code, out.exists()), (1, false), "{ending}: {said}");
        let first = said.lines().next().unwrap_or_default();
        assert!(
            first.contains("is lost after") && first.contains("offset 0x1f91, record 89"),
            "{ending}: {said}"
        );
    }
}

#[test]
fn however_many_threads_write_all_files_that_contradict_their_ordinals_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    std::fs::create_dir(&trace).unwrap();
    let chunked = quipu_testkit::fixtures("drmemtrace").join("tiny.chunk1000");
    let whole = std::fs::read(chunked.join("drmemtrace.tiny.05701.3845.trace.zip")).unwrap();
    let damaged = Harm::Repacked(Repacked::Gap).done_to(&whole).unwrap();
    for n in 0..4 {
        std::fs::write(trace.join(format!("drmemtrace.copy.{n}.trace.zip")), &damaged).unwrap();
    }
    for threads in ["1", "4"] {
        let out = folder.path().join("out");
        let (_, said, code) = quipu(&["convert", "-j", threads, "-o", out.to_str().unwrap()], &trace);
        let named = (0..4).filter(|n| said.contains(&format!("drmemtrace.copy.{n}."))).count();
        assert_eq!((code, named, out.exists()), (1, 4, false), "-j {threads}: {said}");
    }
}

#[test]
fn a_schedule_that_is_read_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let from = quipu_testkit::fixtures("drmemtrace").join("thr");
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let schedule = out.join("cpu_schedule.bin.zip");
    std::fs::copy(from.join("cpu_schedule.bin.zip"), &schedule).unwrap();
    let before = std::fs::read(&schedule).unwrap();
    let args =
        ["as", "drmemtrace", "-tool", "record_filter", "-core_sharded", "-outdir", out.to_str().unwrap()];
    let args = [&args[..], &["-cpu_schedule_file", schedule.to_str().unwrap(), "-indir"]].concat();
    let (_, said, code) = quipu(&args, &from);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("never written over"), "{said}");
    assert_eq!(std::fs::read(&schedule).unwrap(), before);
}

#[test]
fn verbs_that_write_say_all_that_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("drmemtrace.tiny.05701.3845.trace"), folder.path().join("out"));
    let mut bytes = trace_of("tiny.plain");
    // Unknown types come first and lose nothing; nonsense comes much later.
    let at = bytes.len() / 2;
    let again = bytes[at..at + 64].to_vec();
    bytes.splice(at..at, again);
    std::fs::write(&path, bytes).unwrap();
    let lost = |call: &[&str]| {
        let (_, said, code) = quipu(call, &path);
        assert_eq!((code, out.exists()), (1, false), "{call:?}: {said}");
        let line = said.lines().find(|line| line.starts_with("error: ")).unwrap();
        line.rsplit_once("; ").unwrap_or_else(|| panic!("{call:?}: {said}")).0.to_owned()
    };
    let read = lost(&["analyze", "mix"]);
    assert!(read.contains(" lost, ") || read.contains(" lost after"), "{read}");
    let target = out.to_str().unwrap();
    for call in [
        &["convert", "-o", target][..],
        &["trim", "--take", "10M", "-o", target],
        &["merge", "-o", target],
        &["convert", "--to", "cacheray", "-o", target],
    ] {
        assert_eq!(lost(call), read, "{call:?}");
    }
}

#[test]
fn recovering_names_the_place_where_all_others_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("zeros.trace"), folder.path().join("out.trace"));
    let good = std::fs::read(quipu_testkit::fixtures("apitrace").join("threads-3x20.trace")).unwrap();
    // Zeros read as an event of a function without a name; `recover` discards such events.
    for thousandths in [250, 300, 550] {
        let mut bytes = good.clone();
        let at = bytes.len() * thousandths / 1000;
        bytes[at..at + 64].fill(0);
        std::fs::write(&path, bytes).unwrap();
        let (_, said, _) = quipu(&["view"], &path);
        let is_place = |line: &&str| line.contains("offset ") && !line.contains(" lost ");
        let place = said.lines().find(is_place).unwrap();
        let place = place.split(": ").find(|part| part.starts_with("offset ")).unwrap();
        let (_, said, code) = quipu(&["recover", "--force", "-o", out.to_str().unwrap()], &path);
        assert!(code == 1 && said.contains(&format!("{place}: ")), "{thousandths}: {place}: {said}");
    }
}

#[test]
fn what_writes_calls_minds_that_the_header_of_the_stream_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("flipped.trace"), folder.path().join("out"));
    let mut bytes = std::fs::read(fixtures("apitrace").join("synth-v0.trace")).unwrap();
    bytes[20] ^= 0x41;
    std::fs::write(&path, bytes).unwrap();
    let (_, said, code) = quipu(&["view"], &path);
    assert!(code == 1 && said.contains("[apitrace/lost-header]"), "{said}");
    for verb in
        [&["convert"][..], &["trim", "--take", "10"], &["edit", "--property", "a=b"], &["disassemble"]]
    {
        let call = [verb, &["-o", out.to_str().unwrap()]].concat();
        let (_, said, code) = quipu(&call, &path);
        assert_eq!((code, out.exists()), (1, false), "{call:?}: {said}");
        assert!(said.contains("[apitrace/lost-header]"), "{call:?}: {said}");
        assert!(said.contains("nothing was written; --keep-damaged"), "{call:?}: {said}");
        let (_, said, code) = quipu(&[&call[..], &["--keep-damaged"]].concat(), &path);
        assert_eq!((code, out.exists()), (1, true), "{call:?}: {said}");
        assert!(said.contains("after record 0, what was written is doubtful"), "{call:?}: {said}");
        std::fs::remove_file(&out).unwrap();
    }
}

#[test]
fn of_a_trace_that_ends_within_its_header_no_verb_keeps_anything() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("flipped.trace"), folder.path().join("out"));
    let mut bytes = std::fs::read(quipu_testkit::fixtures("apitrace").join("kinds.zstd.trace")).unwrap();
    // Now the first block of the stream is a few bytes short.
    let at = bytes.len() / 10;
    bytes[at] ^= 0x90;
    std::fs::write(&path, bytes).unwrap();
    let target = out.to_str().unwrap();
    for verb in [&["convert"][..], &["trim", "--take", "10"], &["disassemble"]] {
        let call: Vec<&str> = verb.iter().copied().chain(["--keep-damaged", "-o", target]).collect();
        let (_, said, code) = quipu(&call, &path);
        assert_eq!((code, out.exists()), (1, false), "{call:?}: {said}");
        assert!(said.contains("ends within its header"), "{call:?}: {said}");
        assert!(said.contains("nothing of the trace can be read"), "{call:?}: {said}");
    }
}

#[test]
fn a_frame_of_a_stream_whose_checksum_is_wrong_is_not_copied_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(fixtures("stream").join("two-producers.quipu")).unwrap();
    // Within the rows of a frame.
    bytes[620] ^= 0x10;
    let path = folder.path().join("flipped.quipu");
    std::fs::write(&path, bytes).unwrap();
    let (out, said, code) = quipu(&["view"], &path);
    assert!(code == 1 && said.contains("[stream/payload-crc]"), "{out}{said}");
    let copy = folder.path().join("copy.quipu");
    let convert = ["convert", "-o", copy.to_str().unwrap()];
    let (out, said, code) = quipu(&convert, &path);
    assert!(code == 1 && said.contains("[stream/payload-crc]") && !copy.exists(), "{code} {out}{said}");
    let (out, said, code) = quipu(&[&convert[..], &["--keep-damaged"]].concat(), &path);
    assert!(code == 1 && said.contains("is doubtful") && copy.exists(), "{code} {out}{said}");
}
