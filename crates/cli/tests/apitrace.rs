//! Compares the program's results on traces of graphics calls with those of apitrace.

// Helpers of a test may panic like the test itself.
use assert_cmd::Command;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/apitrace")
}

fn quipu(args: &[&str]) -> std::process::Output {
    Command::cargo_bin("quipu").unwrap().current_dir(folder()).args(args).output().unwrap()
}

/// A golden file, unpacked by our own reader.
fn golden(name: &str) -> Vec<u8> {
    let source = quipu::source::Source::open(&folder().join(name)).unwrap();
    source.head(64 << 20).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Splits a command line of the goldens, which has no quotes, into words; a set of calls may consist of several.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match words.last_mut() {
            Some(last) if last.starts_with("--calls") && word.starts_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Command lines of apitrace that are not emulated, each with the reason.
const NOT_PLAYED: &[(&str, &str)] = &[(
    "dump-corrupt",
    "its trace takes a megabyte, and is not in the repository; damage.rs of the format has smaller ones",
)];

/// Variants of `kinds` for comparisons, with the commands that make them.
const VARIANTS: &[(&str, &[&str])] = &[
    ("kinds-b.trace", &["trim", "--calls=0-40,45-256"]),
    ("kinds-c.trace", &["sed", "-e", "s/GL_TRIANGLES/GL_POINTS/"]),
];

/// A folder with copies of all traces, for command lines that write.
fn workplace() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let entry = entry.unwrap();
        if entry.path().extension().is_some_and(|extension| extension == "trace") {
            std::fs::copy(entry.path(), place.path().join(entry.file_name())).unwrap();
        }
    }
    for (name, command) in VARIANTS {
        let args = [&["as", "apitrace"], *command, &["-o", name, "kinds.trace"]].concat();
        assert_eq!(quipu_in(place.path(), &args).status.code(), Some(0), "{name}");
    }
    place
}

fn quipu_in(folder: &std::path::Path, args: &[&str]) -> std::process::Output {
    Command::cargo_bin("quipu").unwrap().current_dir(folder).args(args).output().unwrap()
}

/// A case may have several command lines: each is run, and the last one prints the golden.
#[test]
fn the_command_lines_of_the_original_give_its_output_and_exit_code() {
    let place = workplace();
    let mut n_compared = 0;
    for entry in std::fs::read_dir(folder().join("golden-cli")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(case) = name.strip_suffix(".cmd") else { continue };
        if NOT_PLAYED.iter().any(|(left_out, _)| *left_out == case) {
            continue;
        }
        let commands = text(&golden(&format!("golden-cli/{name}")));
        let (mut printed, mut complained, mut code) = (String::new(), String::new(), None);
        for command in commands.trim().split(" ;; ").filter(|command| !command.contains(" variant ")) {
            let words = words(command);
            let args: Vec<&str> =
                ["as", "apitrace"].into_iter().chain(words.iter().map(String::as_str)).collect();
            let output = quipu_in(place.path(), &args);
            printed = text(&output.stdout);
            // For a truncated trace, Quipu reports the loss; apitrace is silent.
            let errors = text(&output.stderr);
            let is_ours = |line: &&str| {
                line.starts_with("warning: ")
                    || ["[source/truncated]", "[apitrace/cut]"].iter().any(|rule| line.ends_with(rule))
                    || line.contains(" lost after ")
            };
            let errors = errors.lines().filter(|line| !is_ours(line));
            complained.extend(errors.map(|line| {
                format!(
                    "{line}
"
                )
            }));
            code = output.status.code();
        }
        let expected = golden(&format!("golden-cli/{case}.out.gz"));
        assert_eq!(printed, text(&expected), "{case}");
        let errors = text(&golden(&format!("golden-cli/{case}.err")));
        // apitrace's errors and exit code are missing for one case.
        if let Some((errors, expected)) = errors.trim_end().rsplit_once("rc ") {
            assert_eq!(code.map(|code| code.to_string()).as_deref(), Some(expected), "{case}");
            assert_eq!(complained, errors, "{case}");
        }
        n_compared += 1;
    }
    assert_eq!(n_compared, 33);
}

#[test]
fn a_cut_trace_is_printed_as_apitrace_prints_it_and_ends_with_1() {
    let output = quipu(&["as", "apitrace", "dump", "-v", "zlib-no-eof.trace"]);
    assert_eq!(text(&output.stdout), text(&golden("golden/zlib-no-eof.dump-v.txt.gz")));
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(" lost after zlib-no-eof.trace: offset 0x95b"), "{errors}");
}

#[test]
fn info_of_every_trace_is_what_the_original_prints() {
    for name in [
        "kinds",
        "kinds.brotli",
        "kinds.zstd",
        "kinds.zstd-noseek",
        "synth-d3d-kinds",
        "header-only-2-bytes",
        "threads-3x20",
        "tri",
        "glxgears-300",
    ] {
        let output = quipu(&["as", "apitrace", "info", "--dump-frames", &format!("{name}.trace")]);
        assert_eq!(text(&output.stdout), text(&golden(&format!("golden/{name}.info.json"))), "{name}");
        assert_eq!(output.status.code(), Some(0), "{name}");
    }
}

#[test]
fn info_of_a_gzip_trace_counts_as_info_of_the_same_stream_in_snappy() {
    let place = workplace();
    for (name, version) in [("synth-v0", 0), ("synth-v3", 3), ("kinds", 6)] {
        let packed = place.path().join(format!("{name}.gzip"));
        let packed = packed.to_str().unwrap();
        let repacked = quipu(&["as", "apitrace", "repack", "--zlib", &format!("{name}.trace"), packed]);
        assert_eq!(repacked.status.code(), Some(0), "{name}: {}", text(&repacked.stderr));
        // apitrace itself counts too few bytes in gzip traces, so its result for the Snappy form is expected.
        let expected: serde_json::Value =
            serde_json::from_slice(&golden(&format!("golden/{name}.info.json"))).unwrap();
        let output = quipu(&["as", "apitrace", "info", "--dump-frames", packed]);
        let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(info["ContainerType"], "ZLib");
        assert_eq!(info["ContainerVersion"], version);
        for key in ["ContainerVersion", "API", "FramesCount", "ActualDataSize", "Frames"] {
            assert_eq!(info[key], expected[key], "{name}: {key}");
        }
    }
}

/// A stream packed into a container.
fn packed(stream: &[u8], packing: quipu::apitrace::trace::Packing) -> Vec<u8> {
    let mut writer = quipu::apitrace::pack::StreamWriter::new(Vec::new(), packing, None).unwrap();
    writer.write(stream).unwrap();
    writer.finish().unwrap()
}

#[test]
fn a_stream_of_a_newer_version_is_named_by_every_verb_in_every_container() {
    let place = workplace();
    let whole = {
        let source = quipu::source::Source::open(&folder().join("kinds.trace")).unwrap();
        source.head(64 << 20).unwrap()
    };
    assert_eq!(whole[..2], [6, 6]);
    let old = {
        let source = quipu::source::Source::open(&folder().join("synth-v3.trace")).unwrap();
        source.head(64 << 20).unwrap()
    };
    // Replaces the version and the semantic version; the rest stays.
    for (head, body, version) in [
        (&[7, 6][..], &whole[2..], 7),
        (&[7, 7], &whole[2..], 7),
        (&[16, 6], &whole[2..], 16),
        (&[16, 16], &whole[2..], 16),
        (&[100, 100], &whole[2..], 100),
        (&[0xc8, 1, 0xc8, 1], &whole[2..], 200),
        (&[0xe8, 7, 6], &whole[2..], 1000),
        (&[7], &old[1..], 7),
    ] {
        let stream = [head, body].concat();
        let said = format!("stream version {version} is newer than this program");
        use quipu::apitrace::trace::Packing::{Brotli, Gzip, Plain, SeekableZstd, Snappy, Zstd};
        for packing in [Plain, Snappy, Gzip, Zstd, SeekableZstd, Brotli] {
            let name = packing.name();
            let path = place.path().join("newer.trace");
            std::fs::write(&path, self::packed(&stream, packing)).unwrap();
            let path = path.to_str().unwrap();
            for verb in [
                &["view"][..],
                &["check"],
                &["info"],
                &["info", "--quick"],
                &["report"],
                &["as", "apitrace", "dump"],
                &["as", "apitrace", "info"],
            ] {
                let output = quipu(&[verb, &[path]].concat());
                let (errors, out) = (text(&output.stderr), text(&output.stdout));
                let what = format!("{verb:?} {name} {head:?}: {errors}{out}");
                assert!((errors + &out).replace('`', "").contains(&said), "{what}");
                assert_ne!(output.status.code(), Some(0), "{what}");
                assert!(verb == ["check"] || !out.contains("version 6") && !out.contains("glX"), "{what}");
            }
        }
    }
}

#[test]
fn every_command_line_of_apitrace_is_taken_or_refused_as_the_docs_say() {
    let page = include_str!("../../../docs/formats/apitrace.md");
    let (_, table) = page.split_once("<!-- options -->").unwrap();
    let (table, _) = table.split_once("<!-- end of options -->").unwrap();
    let (mut n_taken, mut n_refused) = (0, 0);
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).splitn(2, " | ").collect();
        let place = tempfile::tempdir().unwrap();
        std::fs::copy(folder().join("kinds.trace"), place.path().join("TRACE")).unwrap();
        let words: Vec<&str> = cells[0].trim_matches('`').split(' ').collect();
        let output = quipu_in(place.path(), &[&["as", "apitrace"], &words[..]].concat());
        let errors = text(&output.stderr);
        if cells[1].starts_with("taken") {
            assert_eq!(output.status.code(), Some(0), "{row}: {errors}");
            n_taken += 1;
        } else {
            assert_eq!(output.status.code(), Some(2), "{row}: {errors}");
            assert!(errors.contains(cells[1]), "{row}: {errors}");
            n_refused += 1;
        }
    }
    assert!(n_taken >= 40 && n_refused >= 10, "{n_taken} {n_refused}");
}

#[test]
fn a_level_that_there_is_not_is_refused_and_nothing_is_written() {
    let place = workplace();
    for (option, said) in [
        ("--brotli=99", "error: brotli quality must be between 0 and 11\n"),
        ("--brotli=-1", "error: brotli quality must be between 0 and 11\n"),
        ("--zstd=99", "error: zstd quality must be between 1 and 22\n"),
        ("--zlib=99", "error: zlib quality must be between 1 and 9\n"),
    ] {
        let output =
            quipu_in(place.path(), &["as", "apitrace", "repack", option, "kinds.trace", "out.trace"]);
        assert_eq!(text(&output.stderr), said);
        assert_eq!(output.status.code(), Some(1), "{option}");
        assert!(!place.path().join("out.trace").exists(), "{option}");
    }
}

#[test]
fn lines_have_the_numbers_of_their_calls_if_that_is_asked() {
    let place = workplace();
    let edited = ["as", "apitrace", "sed", "-es/GL_TRIANGLES/GL_POINTS/", "-oedited.trace", "kinds.trace"];
    assert_eq!(quipu_in(place.path(), &edited).status.code(), Some(0));
    let diff = |options: &[&str]| {
        let args = [&["as", "apitrace", "diff"], options, &["kinds.trace", "edited.trace"]].concat();
        text(&quipu_in(place.path(), &args).stdout)
    };
    let (plain, numbered) = (diff(&["--tool=diff"]), diff(&["--tool=diff", "--call-nos"]));
    let is_numbered =
        |line: &&str| line[2..].split(' ').next().is_some_and(|word| word.parse::<u64>().is_ok());
    assert_eq!(plain.lines().filter(is_numbered).count(), 0, "{plain}");
    assert!(plain.lines().count() > 100 && plain.contains("\n- gl"), "{plain}");
    // A call of several lines has its number in the first line.
    let calls = |text: &str| text.lines().filter(|line| line.contains('(')).count();
    assert!(calls(&plain) > 100 && calls(&numbered) == calls(&plain));
    let first = numbered.lines().find(|line| line.starts_with("  ") && line.contains("glXChooseVisual"));
    assert!(first.is_some_and(|line| line.starts_with("  0 glXChooseVisual")), "{numbered}");
    assert!(numbered.lines().filter(is_numbered).count() > 100, "{numbered}");
}

#[test]
fn what_a_verb_cannot_do_with_a_trace_of_calls_is_refused() {
    let place = workplace();
    for (args, error) in [
        (&["view", "--since", "4"][..], "traces of format apitrace have no clock"),
        (&["view", "--take-instrs", "3"], "traces of calls have no instructions to count"),
        (&["convert", "-o", "out.trace", "--thread", "1"], "a stream is copied as a whole"),
        (&["recover", "-o", "out.trace", "--thread", "1"], "a trace is recovered as a whole"),
        (&["recover", "-o", "out.trace", "--strict"], "`recover` reads on after errors"),
        (&["info", "--thread", "1"], "write those wanted first: `quipu trim --thread`"),
        (&["check", "--thread", "1"], "write those wanted first: `quipu trim --thread`"),
        (&["analyze", "nosuch"], "help: tools: frames, "),
    ] {
        let output = quipu_in(place.path(), &[args, &["threads-3x20.trace"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(error), "{args:?}: {}", text(&output.stderr));
        // Analyses that need columns which such a trace lacks are not suggested.
        for tool in ["categories", " hot,"] {
            assert!(!text(&output.stderr).contains(tool), "{args:?}: {}", text(&output.stderr));
        }
    }
}

#[test]
fn view_prints_what_the_original_dumps() {
    for (args, file) in [
        (&["view", "kinds.trace"][..], "golden/kinds.dump.txt.gz"),
        (&["view", "-q", "glxgears-300.trace"], "golden/glxgears-300.dump.txt.gz"),
        (&["view", "--multiline=no", "kinds.trace"], "golden-cli/dump-oneline.out.gz"),
        (&["view", "--thread-ids", "threads-3x20.trace"], "golden-cli/dump-threads2.out.gz"),
        (&["view", "--call-nos=no", "tri.trace"], "golden-cli/dump-nonos.out.gz"),
        (&["view", "--verbose", "--calls", "draw", "kinds.trace"], "golden-cli/dump-draw.out.gz"),
        (&["view", "--color=always", "kinds.trace"], "golden-cli/dump-color.out.gz"),
    ] {
        let output = quipu(args);
        assert_eq!(text(&output.stdout), text(&golden(file)), "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn calls_of_little_interest_are_counted_and_printed_on_request() {
    let view = |args: &[&str]| {
        let output = quipu(&[&["view", "tri.trace"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let ((few, said), (all, nothing)) = (view(&[]), view(&["--all"]));
    // Each of them takes one line.
    let n = all.lines().count() - few.lines().count();
    assert!(n > 1, "{n}");
    let note = |n: usize| format!("{n} calls of little interest are left out; --all prints them, too\n");
    assert_eq!((said, nothing), (note(n), String::new()));
    assert_eq!(view(&["-q"]).1, "");
    // Only calls that are selected otherwise are counted.
    let n_strings = all.lines().filter(|line| line.contains(" glGetString(")).count();
    assert_eq!(view(&["--grep", "^glGetString$"]), (String::new(), note(n_strings)));
    // Rows for other programs have all calls.
    assert_eq!(view(&["--csv"]).1, "");
}

#[test]
fn a_limit_counts_printed_calls_and_take_counts_read_ones() {
    let view = |args: &[&str]| text(&quipu(&[&["view", "-q", "tri.trace"], args].concat()).stdout);
    let vertices = ["--grep", "^glVertex3f$"];
    let all = view(&vertices);
    let first: String = all.lines().take(2).map(|line| format!("{line}\n")).collect();
    assert_eq!(all.lines().count(), 3);
    for form in [&[][..], &["--json"], &["--csv"], &["--columns", "function,call"]] {
        let printed = view(&[&vertices[..], &["--limit", "2"], form].concat());
        let n_head = usize::from(form.contains(&"--csv") || form.contains(&"--columns"));
        assert_eq!(printed.lines().count(), n_head + 2, "{form:?}: {printed}");
    }
    assert_eq!(view(&[&vertices[..], &["--limit", "2"]].concat()), first);
    // No vertex is among the first two calls.
    assert_eq!(view(&[&vertices[..], &["--take", "2"]].concat()), "");
    let columns = view(&[&vertices[..], &["--limit", "1", "--columns", "function,tid"]].concat());
    assert_eq!(columns, "function,tid\nglVertex3f,0\n");
    let unknown = quipu(&["view", "tri.trace", "--columns", "call,functoin"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean `function`?"), "{}", text(&unknown.stderr));
}

#[test]
fn json_has_one_typed_object_for_each_call() {
    let output = quipu(&["view", "--json", "synth-d3d-kinds.trace"]);
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 20);
    assert_eq!(lines[0]["args"][0]["value"]["struct"], "GUID");
    assert_eq!(lines[5]["args"][1]["value"], u64::MAX);
    assert_eq!(lines[6]["args"][2]["value"]["rest"], 4);
    assert_eq!(lines[18]["incomplete"], true);
    assert_eq!(lines[14]["stack"][0]["line"], 42);
    assert_eq!(lines[5]["args"][2]["value"].to_string(), "1e-45");
}

#[test]
fn rows_for_other_programs_name_the_functions() {
    let output = quipu(&["view", "--csv", "--take", "2", "tri.trace"]);
    assert_eq!(
        text(&output.stdout),
        "record,call,tid,frame,function,args,fake,incomplete\n1,0,0,0,glXQueryExtension,3,0,0\n\
         2,1,0,0,glXChooseFBConfig,4,0,0\n"
    );
}

#[test]
fn blobs_go_to_files() {
    let target = tempfile::tempdir().unwrap();
    let blobs = format!("--blobs={}", target.path().display());
    let output = quipu(&["view", "--calls", "draw", &blobs, "kinds.trace"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let whole = quipu(&["view", &blobs, "kinds.trace"]);
    assert!(text(&whole.stdout).contains("blob(\"blob_call"), "files are named");
    for entry in std::fs::read_dir(target.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(text(&whole.stdout).contains(&name), "{name}");
    }
    assert!(std::fs::read_dir(target.path()).unwrap().count() > 3);
}

#[test]
fn the_stream_is_copied_between_containers() {
    let target = tempfile::tempdir().unwrap();
    let golden = text(&golden("golden/kinds.dump.txt.gz"));
    for (verb, name, container) in [
        (&["convert", "kinds.trace", "-o"][..], "a.trace", "Zstandard (seekable)"),
        (&["convert", "kinds.trace", "-o"], "a.trace.br", "Brotli"),
        (&["convert", "kinds.zstd.trace", "--container", "snappy", "-o"], "b.trace", "Snappy"),
        (&["as", "apitrace", "repack", "--zlib", "kinds.brotli.trace"], "c.trace", "ZLib"),
        (&["as", "apitrace", "repack", "--zstd=1", "kinds.trace"], "d.trace", "Zstandard (seekable)"),
    ] {
        let path = target.path().join(name);
        let path = path.to_str().unwrap();
        let output = quipu(&[verb, &[path]].concat());
        assert_eq!(output.status.code(), Some(0), "{verb:?}: {}", text(&output.stderr));
        assert_eq!(text(&quipu(&["view", path]).stdout), golden, "{verb:?}");
        let info: serde_json::Value =
            serde_json::from_slice(&quipu(&["as", "apitrace", "info", path]).stdout).unwrap();
        assert_eq!(info["ContainerType"], container, "{verb:?}");
        assert_eq!(info["ActualDataSize"], 130_202, "{verb:?}");
    }
    let refused = quipu(&["convert", "kinds.trace", "-o", "x.zip"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn an_empty_trace_is_still_one_when_it_is_converted() {
    let target = tempfile::tempdir().unwrap();
    for (container, name, is_written) in [
        ("zstd", "a.trace", true),
        ("zstd-noseek", "b.trace", true),
        ("gzip", "c.trace", true),
        ("gzip", "c.gz", false),
        ("snappy", "d.trace", true),
        ("brotli", "e.br", true),
        ("brotli", "f.trace", false),
        ("plain", "g.trace", false),
    ] {
        let path = target.path().join(name);
        let path = path.to_str().unwrap();
        let output = quipu(&["convert", "header-only-2-bytes.trace", "--container", container, "-o", path]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(if is_written { 0 } else { 2 }), "{container}: {told}");
        assert_eq!(std::fs::exists(path).unwrap(), is_written, "{container}");
        if is_written {
            let shown = quipu(&["view", path]);
            assert_eq!((shown.status.code(), &shown.stdout[..]), (Some(0), &b""[..]), "{container}");
            assert!(text(&shown.stderr).contains("there is nothing in the trace"), "{container}");
        } else {
            assert!(told.contains("nothing would tell what the file is"), "{container}: {told}");
        }
    }
}

#[test]
fn tables_are_printed_as_csv_and_json_of_the_calls_that_are_chosen() {
    let golden = text(&golden("golden/tri.dump-v.txt.gz"));
    let line = golden.lines().find(|line| line.contains(" glViewport(")).unwrap();
    let number = line.split(' ').next().unwrap();
    assert!(line.ends_with("glViewport(x = 0, y = 0, width = 250, height = 250)"), "{line}");
    let record = number.parse::<u64>().unwrap() + 1;
    let run = |args: &[&str]| text(&quipu(&[&["view", "tri.trace"], args].concat()).stdout);
    assert_eq!(
        run(&["--table", "call.glViewport", "--calls", number]),
        format!(
            "record,call,tid,frame,fake,incomplete,x,y,width,height,result\n{record},{number},0,0,0,0,0,0,250,250,\n"
        )
    );
    assert_eq!(
        run(&["--table", "call.glViewport", "--calls", number, "--json"]),
        format!(
            "{{\"record\":{record},\"call\":{number},\"tid\":0,\"frame\":0,\"fake\":false,\"incomplete\":false,\
             \"x\":0,\"y\":0,\"width\":250,\"height\":250,\"result\":null}}\n"
        )
    );
    let head = "record,call,tid,frame,function,index,name,kind,bits,value\n";
    let start = format!("{record},{number},0,0,glViewport");
    assert_eq!(
        run(&["--table", "args", "--grep", "glViewport", "--calls", number, "--csv"]),
        format!(
            "{head}{start},0,x,unsigned,0x0,0\n{start},1,y,unsigned,0x0,0\n\
             {start},2,width,unsigned,0xfa,250\n{start},3,height,unsigned,0xfa,250\n"
        )
    );
    // If only few calls in a batch are of the function, all of its rows must appear.
    let n_draws = golden.lines().filter(|line| line.contains(" glVertex3f(")).count();
    let rows = run(&["--table", "call.glVertex3f"]);
    assert_eq!(rows.lines().count(), 1 + n_draws, "{rows}");
    assert_eq!(
        run(&["--csv", "--calls", number]),
        format!(
            "record,call,tid,frame,function,args,fake,incomplete\n{record},{number},0,0,glViewport,4,0,0\n"
        )
    );
    let kinds = text(&quipu(&["view", "kinds.trace", "--table", "args", "--kind", "double"]).stdout);
    assert!(kinds.lines().skip(1).all(|line| line.contains(",double,")), "{kinds}");
    assert!(kinds.lines().count() > 1);
    let unknown = quipu(&["view", "tri.trace", "--table", "viewport"]);
    assert_eq!(unknown.status.code(), Some(2));
    let message = text(&unknown.stderr);
    assert!(message.contains("the trace has no table `viewport`"), "{message}");
    assert!(message.contains("tables: call.glViewport"), "{message}");
    let entries = quipu(&["view", "../drmemtrace/allasm", "--table", "entries", "--take", "3"]);
    assert_eq!(entries.status.code(), Some(2), "{}", text(&entries.stderr));
    let entries = text(&quipu(&["view", "../drmemtrace/allasm", "--table", "entries"]).stdout);
    assert!(entries.starts_with("type,size,addr\nheader,0,0x6\n"), "{entries:.80}");
}

/// Raw memory goes to the same files from a table as from `view`.
#[test]
fn raw_memory_in_tables_is_written_to_files() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let into = |place: &tempfile::TempDir, more: &[&str]| {
        let blobs = format!("--blobs={}", place.path().display());
        let output = quipu(&[&["view", "kinds.trace", &blobs, "--json"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(place.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    let files = into(&one, &[]);
    assert!(files.len() > 3);
    assert!(files == into(&other, &["--table", "args"]));
}

#[test]
fn a_trace_from_a_pipe_is_converted_and_trimmed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("piped.trace");
    let path = path.to_str().unwrap();
    for (trace, args, n_calls) in [
        ("kinds.trace", &["convert", "-", "-o", path][..], 257),
        ("kinds.gzip.trace", &["convert", "-o", path, "--container", "snappy"], 257),
        ("kinds.brotli.trace", &["trim", "--calls", "draw", "-", "-o", path], 24),
        // These read the trace more than once.
        ("kinds.trace", &["recover", "-", "-o", path], 257),
        ("kinds.gzip.trace", &["edit", "-e", "s/a/b/", "-", "-o", path], 257),
    ] {
        let bytes = std::fs::read(folder().join(trace)).unwrap();
        let mut command = Command::cargo_bin("quipu").unwrap();
        let output = command.args(args).arg("--force").write_stdin(bytes).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        let info: serde_json::Value =
            serde_json::from_slice(&quipu(&["info", "--json", path]).stdout).unwrap();
        assert_eq!(info["facts"]["calls"], n_calls, "{args:?}");
    }
}

#[test]
fn a_trace_from_a_pipe_is_checked_compared_and_written_as_text() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("piped.txt");
    let path = path.to_str().unwrap();
    let bytes = std::fs::read(folder().join("kinds.trace")).unwrap();
    let piped = |args: &[&str]| {
        let mut command = Command::cargo_bin("quipu").unwrap();
        // Temporary files are removed again.
        command.env("TMPDIR", place.path());
        command.current_dir(folder()).args(args).write_stdin(bytes.clone()).output().unwrap()
    };
    let text_of =
        |output: &std::process::Output| text(&output.stdout).replace("standard input", "kinds.trace");
    let checked = piped(&["check", "-"]);
    assert_eq!(text_of(&checked), text(&quipu(&["check", "kinds.trace"]).stdout));
    assert_eq!(piped(&["diff", "-", "kinds.zstd.trace"]).status.code(), Some(0));
    assert_eq!(piped(&["diff", "-", "-"]).status.code(), Some(2));
    assert_eq!(piped(&["disassemble", "-", "-o", path]).status.code(), Some(0));
    let direct = place.path().join("direct.txt");
    let direct = direct.to_str().unwrap();
    quipu(&["disassemble", "kinds.trace", "-o", direct]);
    assert!(std::fs::read(path).unwrap() == std::fs::read(direct).unwrap());
    let trim = ["trim", "--frames", "2", "--setup", "--force"];
    assert_eq!(piped(&[&trim[..], &["-", "-o", path]].concat()).status.code(), Some(0));
    quipu(&[&trim[..], &["kinds.trace", "-o", direct]].concat());
    assert!(std::fs::read(path).unwrap() == std::fs::read(direct).unwrap());
    let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("quipu-")), "{left:?}");
}

#[test]
fn each_format_says_which_containers_and_levels_it_has() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out");
    let path = path.to_str().unwrap();
    for (args, container) in [
        (&["convert", "--container", "brotli", "--level", "3"][..], "Brotli"),
        (&["trim", "--calls", "draw", "--container", "zstd-noseek", "--level", "22"], "Zstandard"),
        (&["recover", "--container", "brotli", "--level", "0"], "Brotli"),
        (&["recover", "--container", "gz"], "ZLib"),
    ] {
        let output = quipu(&[args, &["kinds.trace", "-o", path, "--force"]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        let info: serde_json::Value =
            serde_json::from_slice(&quipu(&["info", "--json", path]).stdout).unwrap();
        assert_eq!(info["facts"]["container"], container, "{args:?}");
    }
    for (args, message) in [
        (
            &["convert", "--container", "zip", "kinds.trace"][..],
            "zstd, zstd-noseek, snappy, gzip, brotli, plain",
        ),
        (&["convert", "--container", "tar", "kinds.trace"], "no container is called `tar`"),
        (&["recover", "--container", "gzip", "--level", "10", "kinds.trace"], "expected 1 to 9 for gzip"),
        (&["convert", "--container", "snappy", "--level", "1", "kinds.trace"], "no levels of snappy"),
        (
            &["convert", "--container", "brotli", "../drmemtrace/allasm"],
            "zip, gzip, lz4, snappy, zstd, plain",
        ),
        (
            &["convert", "--container", "zstd", "--level", "20", "../drmemtrace/allasm"],
            "expected 1 to 19 for zstd",
        ),
    ] {
        let output = quipu(&[args, &["-o", path, "--force"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(message), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_wrong_set_of_calls_is_an_error() {
    for args in
        [&["view", "--calls", "x", "tri.trace"][..], &["as", "apitrace", "dump", "--calls=1-x", "tri.trace"]]
    {
        let output = quipu(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn info_says_what_only_reading_tells() {
    let output = quipu(&["info", "--json", "kinds.zstd.trace"]);
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["format"], "apitrace");
    assert_eq!(info["facts"]["calls"], 257);
    assert_eq!(info["facts"]["frames"], 5);
    assert_eq!(info["facts"]["api"], "OpenGL + GLX/WGL/CGL");
    assert_eq!(info["facts"]["container"], "Zstandard (seekable)");
}

#[test]
fn a_part_is_trimmed_by_calls_frames_threads_and_positions() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("part.trace");
    let path = path.to_str().unwrap();
    for (args, n_calls) in [
        (&["--calls", "draw", "kinds.trace"][..], 24),
        (&["--frames", "0-1", "threads-3x20.trace"], 69),
        (&["--thread", "1", "threads-3x20.trace"], 287),
        (&["--skip", "10", "--take", "5", "threads-3x20.trace"], 5),
        (&["--frames", "2", "--thread", "1", "threads-3x20.trace"], 14),
    ] {
        let output = quipu(&[&["trim", "--force", "--json", "-o", path], args].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let info: serde_json::Value =
            serde_json::from_slice(&quipu(&["info", "--json", path]).stdout).unwrap();
        assert_eq!(info["facts"]["calls"], done["calls"], "{args:?}");
        assert_eq!(done["calls"], n_calls, "{args:?}");
        assert_eq!(info["facts"]["container"], "Zstandard (seekable)");
    }
    for (args, message) in [
        (&["trim", "--calls", "3", "kinds.trace", "-o", path][..], "there is something of that name already"),
        (&["trim", "--force", "kinds.trace", "-o", path], "no part is named"),
        (&["trim", "--force", "--calls", "x", "kinds.trace", "-o", path], "`x` is no set of calls"),
        (
            &["trim", "--force", "--take-instrs", "3", "kinds.trace", "-o", path],
            "`trim` of apitrace traces has no option `take-instrs`: calls have neither instructions nor a clock",
        ),
        (
            &["trim", "--calls", "3", "../drmemtrace/allasm", "-o", path],
            "`trim` of drmemtrace traces has no option `calls`: there are instructions here, and no calls of graphics",
        ),
        (
            &["convert", "--force", "--sharding", "cores", "kinds.trace", "-o", path],
            "`convert` of apitrace traces has no option `sharding`: a stream of calls is one file",
        ),
        (
            &["edit", "-e", "s/a/b/", "../drmemtrace/allasm", "-o", path],
            "`edit` is not for traces of format drmemtrace",
        ),
        (
            &["disassemble", "../drmemtrace/allasm", "-o", path],
            "`disassemble` is not for traces of format drmemtrace",
        ),
        (&["assemble", "kinds.trace", "-o", path], "this is no text of a trace"),
        (&["edit", "kinds.trace", "-o", path, "--force"], "nothing is to be replaced"),
        (&["edit", "-e", "nonsense", "kinds.trace", "-o", path, "--force"], "`nonsense` is no replacement"),
    ] {
        let output = quipu(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(message), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn values_are_edited_by_name_number_and_pattern() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("edited.trace");
    let path = path.to_str().unwrap();
    let unknown = quipu(&["edit", "--force", "-e", "s/GL_TRIANGLES/GL_ROUND/", "kinds.trace", "-o", path]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("`GL_ROUND` cannot replace"), "{}", text(&unknown.stderr));
    let original = text(&quipu(&["view", "--strings", "whole", "--verbose", "kinds.trace"]).stdout);
    for (args, from, to, n_lines) in [
        (
            &["-r", "-e", "s/#version ([0-9]+)/#version 330 was $1/"][..],
            "#version 120",
            "#version 330 was 120",
            2,
        ),
        (&["-e", "s/64/32/", "--arg", "width"], "width = 64", "width = 32", 1),
        (&["--set", "width=5", "--function", "Viewport", "--calls", "3"], "width = 128", "width = 5", 1),
        (&["-r", "-e", "s/GL_TRIANGLE.*/GL_LINES/", "--calls", "draw"], "GL_TRIANGLES", "GL_LINES", 3),
        (&["-e", "s/GL_TRUE/GL_FALSE/", "--arg", "return"], ") = GL_TRUE", ") = GL_FALSE", 2),
    ] {
        let output = quipu(&[&["edit", "--force", "--json", "-o", path, "kinds.trace"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let edited = text(&quipu(&["view", "--strings", "whole", "--verbose", path]).stdout);
        let changed: Vec<_> = original.lines().zip(edited.lines()).filter(|(old, new)| old != new).collect();
        assert_eq!(changed.len(), n_lines, "{args:?}: {changed:?}");
        assert_eq!(done["calls_changed"], n_lines, "{args:?}");
        for (old, new) in changed {
            assert_eq!(old.replace(from, to), new, "{args:?}");
        }
    }
    for (args, note) in [
        (&["edit", "-e", "s/nobody/somebody/"][..], "nothing was replaced"),
        (&["edit", "-r", "-e", "s/GL_TRI/GL_QUADRI/"], "names left as they were"),
    ] {
        let output = quipu(&[args, &["--force", "--json", "-o", path, "kinds.trace"]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let notes: Vec<&str> =
            done["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str()).collect();
        assert!(notes.iter().any(|text| text.starts_with(note)), "{args:?}: {notes:?}");
        assert!(text(&output.stderr).contains(&format!("note: {note}")), "{}", text(&output.stderr));
    }
    std::fs::write(path, "old").unwrap();
    for args in [
        &["--thread", "9"][..],
        &["--calls", "1000"],
        &["--frames", "9999"],
        &["--setup", "--calls", "1000"],
        &["--setup", "--frames", "9999"],
    ] {
        let output = quipu(&[&["trim", "--force", "-o", path, "kinds.trace"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        let told = text(&output.stderr);
        assert!(told.contains("no call of the trace is selected"), "{args:?}: {told}");
        assert!(told.contains("the trace has 257 calls and 5 frames, numbers 0 to 4"), "{args:?}: {told}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "old", "{args:?}");
    }
    let misfit = quipu(&["edit", "--force", "--set", "width=wide", "kinds.trace", "-o", path]);
    assert_eq!(misfit.status.code(), Some(2));
    assert!(text(&misfit.stderr).contains("`wide` cannot replace"), "{}", text(&misfit.stderr));
}

#[test]
fn a_text_is_assembled_to_the_same_trace() {
    let place = tempfile::tempdir().unwrap();
    let (file, path) = (place.path().join("kinds.txt"), place.path().join("kinds.trace"));
    let (file, path) = (file.to_str().unwrap(), path.to_str().unwrap());
    let output = quipu(&["disassemble", "kinds.trace", "-o", file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(quipu(&["assemble", file, "-o", path]).status.code(), Some(0));
    assert_eq!(text(&quipu(&["view", path]).stdout), text(&golden("golden/kinds.dump.txt.gz")));
    let content = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, content.replacen("glViewport(x = 0", "glViewport(left = 0", 1)).unwrap();
    let wrong = quipu(&["assemble", file, "-o", path, "--force"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("there is no argument `left`"), "{}", text(&wrong.stderr));
    assert_eq!(
        text(&quipu(&["view", path]).stdout),
        text(&golden("golden/kinds.dump.txt.gz")),
        "the old file is there"
    );
}

#[test]
fn traces_are_compared_with_an_exit_code() {
    let place = workplace();
    let run = |args: &[&str]| quipu_in(place.path(), args);
    let same = run(&["diff", "kinds.trace", "kinds.zstd.trace"]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    assert_eq!(
        text(&same.stdout),
        "--- kinds.trace\n+++ kinds.zstd.trace\n257 equal, 0 changed, 0 only in the old, 0 only in the new\n"
    );
    let other = run(&["diff", "--context", "0", "--calls", "0-100", "kinds.trace", "kinds-c.trace"]);
    assert_eq!(other.status.code(), Some(1));
    assert_eq!(
        text(&other.stdout),
        "--- kinds.trace\n+++ kinds-c.trace\n@@ 64 equal calls @@\n\
         | 64 64 glDrawElements(mode = GL_TRIANGLES -> GL_POINTS, count = 3, type = GL_UNSIGNED_SHORT, indices = NULL)\n\
         @@ 8 equal calls @@\n\
         | 73 73 glDrawArrays(mode = GL_TRIANGLES -> GL_POINTS, first = 0, count = 3)\n\
         @@ 2 equal calls @@\n\
         | 76 76 glDrawElements(mode = GL_TRIANGLES -> GL_POINTS, count = 3, type = GL_UNSIGNED_SHORT, indices = blob(6))\n\
         @@ 24 equal calls @@\n98 equal, 3 changed, 0 only in the old, 0 only in the new\n"
    );
    let json = run(&["diff", "--json", "kinds.trace", "kinds-b.trace"]);
    assert_eq!(json.status.code(), Some(1));
    let lines: Vec<serde_json::Value> =
        text(&json.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ops: Vec<_> = lines.iter().map(|line| line["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["deleted", "deleted", "deleted", "deleted", "summary", "reading", "reading"]);
    assert_eq!(lines[1]["old"]["function"], "glCompileShader");
    assert_eq!(lines[4]["same"], 253);
    let lone = run(&["diff", "kinds.trace", "nonexistent.trace"]);
    assert_eq!(lone.status.code(), Some(2));
    let allasm = folder().join("../drmemtrace/allasm");
    let allasm = allasm.to_str().unwrap();
    let wrong = run(&["diff", allasm, allasm]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("`diff` is not for traces of format drmemtrace"),
        "{}",
        text(&wrong.stderr)
    );
}

#[test]
fn a_result_has_no_position_among_arguments() {
    let json = text(&quipu(&["view", "--table", "args", "--json", "kinds.trace"]).stdout);
    assert!(json.contains("\"index\":null") && !json.contains("\"index\":4294967295"));
    let csv = text(&quipu(&["view", "--table", "args", "--csv", "kinds.trace"]).stdout);
    assert!(csv.contains(",glXChooseVisual,,,array,"));
}

#[test]
fn raw_memory_goes_to_a_folder_that_is_made() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("deep/blobs");
    let output = quipu(&["view", &format!("--blobs={}", folder.display()), "kinds.trace"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let n_files = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(n_files, text(&output.stdout).matches("blob(\"").count());
    assert!(n_files > 5, "{n_files}");
}

#[test]
fn the_original_is_asked_for_help_without_harm() {
    for (args, part) in [
        (&["help"][..], "dump    print the calls of traces as text"),
        (&["help", "sed"], "-e s/SEARCH/REPLACE/"),
        (&["dump", "--help"], "--thread-ids[=BOOL]"),
        (&["trim", "-h"], "--frames=SET"),
        (&["version"], "apitrace, played by Quipu "),
    ] {
        let output = quipu(&[&["as", "apitrace"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains(part), "{args:?}: {}", text(&output.stdout));
    }
    let output = quipu(&["as", "apitrace", "help", "replay"]);
    assert_eq!(output.status.code(), Some(2));
}
