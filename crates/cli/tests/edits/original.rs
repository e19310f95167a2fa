//! The emulated command line of DynamoRIO's `record_filter`.

use super::*;

/// Runs the emulated filter; returns its text and its output folder.
fn record_filter(input: &str, options: &str) -> (String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (trace(input), folder.path().join("out"));
    let mut args = vec!["as", "drmemtrace", "-tool", "record_filter", "-indir", &input, "-outdir"];
    args.push(out.to_str().unwrap());
    args.extend(options.split_whitespace());
    let assert = quipu(&args).assert().code(0);
    (String::from_utf8(assert.get_output().stderr.clone()).unwrap(), folder)
}

#[test]
fn record_filter_says_and_writes_what_the_original_does() {
    let options = "-trim_before_timestamp 13352268558646120 -trim_after_timestamp 13352268558646661";
    let (text, folder) = record_filter("allasm", options);
    assert_eq!(text, "Output 288 entries from 329 entries.\n");
    let name = "drmemtrace.allasm_x86_64.trace.zip";
    let golden = PathBuf::from(trace("allasm.trim_timestamp"));
    assert!(members(&folder.path().join("out").join(name)) == members(&golden.join(name)));
    for schedule in ["serial_schedule.bin.gz", "cpu_schedule.bin.zip"] {
        let written = members(&folder.path().join("out").join(schedule));
        assert!(written == members(&golden.join(schedule)), "{schedule}");
    }
    let (text, _) = record_filter("allasm", "-trim_before_instr 31 -trim_after_instr 65");
    assert_eq!(text, "Output 104 entries from 329 entries.\n");
}

#[test]
fn record_filter_takes_the_names_of_both_programs() {
    let name = "drmemtrace.threadsig.872901.9125.trace.zip";
    for options in ["-filter_cache_size 4096", "-cache_filter_size 4096"] {
        let (_, folder) = record_filter("threadsig.x64", &format!("-only_thread 872901 {options}"));
        let golden = PathBuf::from(trace("threadsig.dcache_filter")).join(name);
        assert!(members(&folder.path().join("out").join(name)) == members(&golden));
    }
    let markers = "-filter_marker_types 19,25,27,28,30,40,41 -filter_keep_func_ids 4294967498";
    let options =
        format!("-only_thread 872906 -filter_encodings2regdeps {markers} -filter_modify_marker_value 3,-1");
    let (_, folder) = record_filter("threadsig.x64", &options);
    let name = "drmemtrace.threadsig.872906.1041.trace.zip";
    let golden = PathBuf::from(trace("threadsig.regdeps")).join(name);
    assert!(members(&folder.path().join("out").join(name)) == members(&golden));
}

#[test]
fn record_filter_refuses_what_it_would_ignore_or_destroy() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in");
    std::fs::create_dir(&input).unwrap();
    let name = "drmemtrace.allasm_x86_64.trace.zip";
    std::fs::copy(Path::new(&trace("allasm")).join(name), input.join(name)).unwrap();
    let (input, file) = (input.display().to_string(), input.join(name).display().to_string());
    let out = folder.path().join("out").display().to_string();
    let start = ["as", "drmemtrace", "-tool", "record_filter"];
    for (more, what) in [
        (&["-indir", &input, "-outdir", &out, "-jobs", "x"][..], "`x` is no number"),
        (&["-indir", &input, "-outdir", &input], "is where the trace is"),
        (&["-infile", &file, "-outdir", &input], "is where the trace is"),
    ] {
        let args: Vec<&str> = start.iter().chain(more).copied().collect();
        let assert = quipu(&args).assert().code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.contains(what), "{more:?}: {text}");
        assert_eq!(names(Path::new(&input)), [name]);
    }
}
