//! Traces of every family inside streams: all bytes come back, and every analysis gives the same result.

use quipu::engine::{InTime, RunOptions, Watch, plan, run};
use quipu::model::transform::{Silent, TransformJob, Transformed};
use quipu::model::{Damaged, Error, Given, OpenOptions, Options, Trace, Transform};
use quipu::source::{Content, Source, StreamOptions};
use quipu::streamed::carry::IntoStream;
use quipu_testkit::fixtures;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A family of traces that streams carry byte for byte: each has a row, here, in [`WRITERS`], or in [`EXEMPT`].
struct Family {
    /// Name of the format.
    format: &'static str,
    /// Folder of samples; each file or folder that opens is one.
    folder: &'static str,
    /// Minimum number of samples.
    n_least: usize,
    /// Number of samples that `convert` reproduces byte for byte.
    n_exact: usize,
}

const FAMILIES: &[Family] = &[
    Family { format: "drmemtrace", folder: "drmemtrace", n_least: 20, n_exact: 0 },
    Family { format: "drmemtrace-raw", folder: "drmemtrace-raw", n_least: 1, n_exact: 1 },
    Family { format: "apitrace", folder: "apitrace", n_least: 15, n_exact: 10 },
    Family { format: "cacheray", folder: "cacheray", n_least: 7, n_exact: 5 },
    Family { format: "lackey", folder: "lackey", n_least: 2, n_exact: 2 },
    Family { format: "din", folder: "din", n_least: 3, n_exact: 3 },
];

/// Samples of a format that writes streams itself.
struct Writer {
    /// Name of the format.
    format: &'static str,
    /// Folder of samples, each a file or folder.
    folder: &'static str,
    /// Options to open the samples, whose bytes need not say what they are.
    given: Pairs,
    /// Options of `convert` for the same bytes as those of the sample.
    back: Pairs,
    /// Number of samples whose bytes come back, and of those that are damaged and refused.
    n_samples: usize,
    n_damaged: usize,
}

/// Names and values of options.
type Pairs = &'static [(&'static str, &'static str)];

/// Events of Prism say neither what they are nor how they are encoded.
const FIXED: Pairs = &[("encoding", "fixed")];
const VARIABLE: Pairs = &[("encoding", "variable"), ("sizes", "sigrind")];
const PLAIN: Pairs = &[("plain", "yes")];

const WRITERS: &[Writer] = &[
    Writer { format: "dtrace", folder: "dtrace/classic", given: &[], back: &[], n_samples: 64, n_damaged: 1 },
    Writer { format: "dtrace", folder: "dtrace/linux", given: &[], back: &[], n_samples: 40, n_damaged: 0 },
    Writer { format: "prism", folder: "prism/fixed", given: FIXED, back: PLAIN, n_samples: 4, n_damaged: 0 },
    // One begins with a configuration, two do not.
    Writer {
        format: "prism",
        folder: "prism/variable",
        given: VARIABLE,
        back: PLAIN,
        n_samples: 3,
        n_damaged: 0,
    },
];

/// Families without bytes that could come back, and why.
const EXEMPT: &[(&str, &str)] = &[
    ("columnar", "the rows of its tables become records of a stream, which are written as tables anew"),
    ("stream", "it is the stream"),
];

fn family(format: &str) -> &'static Family {
    FAMILIES.iter().find(|family| family.format == format).unwrap()
}

fn open(path: &Path) -> Result<Box<dyn Trace>, Error> {
    quipu::open_path(path, &OpenOptions::default())
}

impl Family {
    /// The samples that open as this format.
    fn samples(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> =
            fs::read_dir(fixtures(self.folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all.retain(|path| open(path).is_ok_and(|trace| trace.meta().format == self.format));
        assert!(all.len() >= self.n_least, "{} has {} samples", self.format, all.len());
        all
    }
}

/// Does the same as `quipu convert FROM -o TO`, but writes files without packing.
fn convert(from: &Path, to: &Path) -> Result<Transformed, Error> {
    let container = (!quipu::is_stream_name(to)).then_some("plain");
    let opening = OpenOptions::default();
    let mut found = quipu::recognise(&Source::open(from)?, &opening)?;
    found = found.spooled()?;
    let own = found.format.transforms().iter().copied();
    let own = own.into_iter().find(|transform| transform.info().name == "convert");
    let own = own.ok_or_else(|| Error::usage("none"));
    let way = quipu::way("convert", &found, own, to, container.is_none())?;
    transform(&way.transform(), &way.source, to, container)
}

/// Puts a trace into a stream with frames of this size.
fn into_frames(format: &str, from: &Path, to: &Path, frame_bytes: usize) {
    let into = IntoStream::new(quipu::format_named(format).unwrap(), None);
    let source = Source::open(from).unwrap();
    transform(&IntoStream { frame_bytes, ..into }, &source, to, None).unwrap();
}

fn transform(
    what: &dyn Transform,
    source: &Source,
    to: &Path,
    container: Option<&str>,
) -> Result<Transformed, Error> {
    let (watch, opening) = (Watch::new(), OpenOptions::default());
    let job = TransformJob {
        source,
        opening: &opening,
        options: &Options::default(),
        output: to,
        replace: false,
        container,
        level: None,
        damaged: Damaged::Keep,
        strict: false,
        threads: 1,
        sequence: &InTime(&watch),
    };
    what.run(&job, &Silent)
}

/// The last component of a name.
fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap()
}

/// The unpacked bytes of all files, by name within the source, and by member for archives.
fn bytes_of(source: &Source) -> BTreeMap<String, Vec<u8>> {
    fn walk(source: &Source, prefix: &str, all: &mut BTreeMap<String, Vec<u8>>) {
        if source.is_folder() {
            for file in source.files().unwrap() {
                let prefix =
                    if file.is_folder() { format!("{prefix}{}/", base(file.name())) } else { prefix.into() };
                walk(&file, &prefix, all);
            }
            return;
        }
        let name = format!("{prefix}{}", base(source.name()));
        all.entry(name.clone()).or_default();
        let container = source.container().unwrap();
        let mut stream = container.stream(container.all_members(), &StreamOptions::default()).unwrap();
        let mut block = Vec::new();
        loop {
            match stream.next(&mut block) {
                Ok(None) => break,
                Ok(Some(at)) => {
                    let member =
                        container.members().get(at.member as usize).map_or("", |member| &member.name);
                    all.entry(format!("{name} {member}")).or_default().extend_from_slice(&block);
                }
                // Some samples are cut short.
                Err(_) => break,
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(source, "", &mut all);
    all
}

fn source_in(stream: &Path) -> Source {
    let found = quipu::recognise(&Source::open(stream).unwrap(), &OpenOptions::default()).unwrap();
    assert!(found.carrier.is_some(), "{}", stream.display());
    found.source
}

/// Compares the files of the same names.
fn same(wanted: &BTreeMap<String, Vec<u8>>, there: &BTreeMap<String, Vec<u8>>, what: &str) {
    let names = |all: &BTreeMap<String, Vec<u8>>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(there), names(wanted), "{what}");
    for (name, wanted) in wanted {
        assert!(there[name] == *wanted, "{what}: {name} differs");
    }
}

fn all_come_back(format: &str) {
    let folder = tempfile::tempdir().unwrap();
    let family = family(format);
    let mut n_exact = 0;
    for (number, sample) in family.samples().into_iter().enumerate() {
        let what = sample.display().to_string();
        let stream = folder.path().join(format!("{number}.quipu"));
        convert(&sample, &stream).unwrap_or_else(|error| panic!("{what}: {error}"));
        let original = Source::open(&sample).unwrap();
        let (inner, mut there) = (source_in(&stream), bytes_of(&source_in(&stream)));
        let beside = quipu::format_named(format).unwrap().beside(&original).unwrap_or_default();
        let wanted = bytes_of(&original);
        // Files of the parent folder are included in the stream.
        there.retain(|name, _| {
            wanted.contains_key(name)
                || !beside.iter().any(|file| name.split(' ').next() == Some(base(file.name())))
        });
        same(&wanted, &there, &what);
        assert_eq!(inner.is_folder(), sample.is_dir(), "{what}");
        let name = base(&what).to_owned();
        let [own, back] =
            ["own", "back"].map(|way| folder.path().join(format!("{number}.{way}")).join(&name));
        [&own, &back].iter().for_each(|path| fs::create_dir(path.parent().unwrap()).unwrap());
        // Families without a `convert` of their own get their files back.
        match convert(&sample, &own) {
            Ok(_) => {
                convert(&stream, &back).unwrap_or_else(|error| panic!("{what}: {error}"));
                let there = bytes_of(&Source::open(&back).unwrap());
                same(&bytes_of(&Source::open(&own).unwrap()), &there, &what);
                let all =
                    |files: &BTreeMap<String, Vec<u8>>| files.values().flatten().copied().collect::<Vec<_>>();
                n_exact += usize::from(all(&there) == all(&wanted));
            }
            Err(_) if quipu::open_path(&sample, &OpenOptions::default()).is_err() || format != "apitrace" => {
                convert(&stream, &back).unwrap_or_else(|error| panic!("{what}: {error}"));
                let mut there = bytes_of(&Source::open(&back).unwrap());
                there.retain(|name, _| wanted.contains_key(name));
                same(&wanted, &there, &what);
                n_exact += 1;
            }
            // A trace without calls may have no plain form.
            Err(error) => assert!(convert(&stream, &back).is_err(), "{what}: {error}"),
        }
    }
    assert!(n_exact >= family.n_exact, "{format}: {n_exact} samples come back byte for byte");
}

/// Removes notes, which are about containers.
fn without_notes(json: &mut Value) {
    match json {
        Value::Object(map) => map.values_mut().for_each(without_notes),
        Value::Array(items) => {
            items.retain(|item| item["severity"] != "note");
            items.iter_mut().for_each(without_notes);
        }
        _ => {}
    }
}

/// Results of all analyses, without names of files and containers.
fn answers(path: &Path) -> BTreeMap<&'static str, String> {
    let trace = open(path).unwrap();
    let name = match path.extension().is_some_and(|ending| ending == "quipu") {
        true => source_in(path).name().to_owned(),
        false => path.display().to_string(),
    };
    answers_of(&*trace, &name)
}

/// Results of all analyses, with `@` in place of the name of the trace.
fn answers_of(trace: &dyn Trace, name: &str) -> BTreeMap<&'static str, String> {
    let mut all = BTreeMap::new();
    for tool in quipu::tools_of(&trace.meta().format) {
        let watch = Watch::new();
        let answer = plan(tool, &Given::default(), trace).and_then(|planned| {
            let outcome = run(trace, vec![planned], &RunOptions { threads: 2, ..RunOptions::new(&watch) })?;
            let mut json = outcome.reports[0].json();
            without_notes(&mut json);
            let found = outcome.findings.as_slice().iter().map(|finding| format!("{finding:?}"));
            Ok(format!("{json} {:?} {:?}", found.collect::<Vec<_>>(), outcome.error))
        });
        let answer = answer.unwrap_or_else(|error| error.to_string());
        all.insert(tool.info().name, answer.replace(name, "@"));
    }
    all
}

fn all_answers_are_the_same(format: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut n_answers = 0;
    for (number, sample) in family(format).samples().into_iter().enumerate() {
        let stream = folder.path().join(format!("{number}.quipu"));
        let read = convert(&sample, &stream).unwrap().reading;
        if read.error.is_some() || read.findings.iter().any(|finding| finding.rule.starts_with("source/")) {
            // The container is damaged, which a stream does not preserve.
            continue;
        }
        let (wanted, there) = (answers(&sample), answers(&stream));
        for (tool, wanted) in &wanted {
            assert_eq!(there[tool], *wanted, "{tool} of {}", sample.display());
            n_answers += 1;
        }
    }
    assert!(n_answers > 0, "{format}: no sample was compared");
}

macro_rules! of_families {
    ($($name:ident)*) => {
        mod bytes_come_back {
            $(#[test] fn $name() { super::all_come_back(&super::format_of(stringify!($name))); })*
        }
        mod answers_are_the_same {
            $(#[test] fn $name() { super::all_answers_are_the_same(&super::format_of(stringify!($name))); })*
        }
        /// The families that are tested.
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

/// The name of a format from that of a test.
fn format_of(test: &str) -> String {
    test.replace('_', "-")
}

of_families! { drmemtrace drmemtrace_raw apitrace cacheray lackey din }

#[test]
fn every_family_is_tested_or_has_a_reason_why_not() {
    let all: Vec<&str> = quipu::FORMATS.iter().map(|format| format.info().name).collect();
    let has_body = |name: &&&str| quipu::streamed::carried::encoding_of(name).is_some();
    let with_bodies: Vec<&str> = all.iter().filter(has_body).copied().collect();
    assert_eq!(with_bodies, TESTED.iter().map(|test| format_of(test)).collect::<Vec<_>>());
    assert_eq!(with_bodies, FAMILIES.iter().map(|family| family.format).collect::<Vec<_>>());
    let writers: BTreeSet<&str> = WRITERS.iter().map(|writer| writer.format).collect();
    let exempt = EXEMPT.iter().map(|(name, _)| *name);
    let mut listed: Vec<&str> = with_bodies.into_iter().chain(writers).chain(exempt).collect();
    let mut all = all;
    listed.sort_unstable();
    all.sort_unstable();
    assert_eq!(listed, all);
    assert!(EXEMPT.iter().all(|(_, why)| !why.is_empty()));
}

/// The unpacked bytes of each file of a source, by name without the extension of its packing. A single file has no name: it
/// may have another one when it comes back.
fn unpacked(source: &Source) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::<String, Vec<u8>>::new();
    for (name, mut bytes) in bytes_of(source) {
        let name = name.split(' ').next().unwrap_or_default();
        let name = if source.is_folder() { name.trim_end_matches(".gz") } else { "" };
        all.entry(name.to_owned()).or_default().append(&mut bytes);
    }
    all
}

#[test]
fn bytes_of_formats_that_write_streams_come_back() {
    let folder = tempfile::tempdir().unwrap();
    for Writer { format, folder: samples, given, back, n_samples, n_damaged } in WRITERS {
        let opening = opening_of(format, given);
        let mut paths: Vec<PathBuf> =
            fs::read_dir(fixtures(samples)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let mut n_refused = 0;
        for path in &paths {
            let what = path.display();
            let name = path.strip_prefix(fixtures("")).unwrap().to_string_lossy().replace(['/', '.'], "-");
            let stream = folder.path().join(format!("{name}.quipu"));
            let source = Source::open(path).unwrap().spooled().unwrap();
            let made = written_by(format, &source, &opening, &[], &stream);
            if made.as_ref().is_err_and(Error::is_damage) {
                n_refused += 1;
                continue;
            }
            made.unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = quipu::recognise(&Source::open(&stream).unwrap(), &OpenOptions::default()).unwrap();
            assert_eq!(found.format.info().name, *format, "{what}");
            let found = found.spooled().unwrap();
            let again = folder.path().join(name);
            written_by(format, &found.source, &OpenOptions::default(), back, &again)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            same(&unpacked(&source), &unpacked(&Source::open(&again).unwrap()), &what.to_string());
        }
        assert_eq!((paths.len() - n_refused, n_refused), (*n_samples, *n_damaged), "{samples}");
    }
}

/// Bytes that count how many of them are read.
struct Counted {
    bytes: Vec<u8>,
    n_read: AtomicU64,
}

impl Content for Counted {
    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.get(at as usize..).unwrap_or_default();
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        self.n_read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[test]
fn a_part_in_the_middle_takes_less_than_a_hundredth_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let [text, stream] = ["big.lackey", "big.quipu"].map(|name| folder.path().join(name));
    // 430 frames.
    let (mut bytes, mut seed) = (Vec::new(), 1_u64);
    while bytes.len() < 400 << 20 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(format!(" L {:08x},8\n", seed >> 40).as_bytes());
    }
    fs::write(&text, &bytes).unwrap();
    convert(&text, &stream).unwrap();
    let counted = Arc::new(Counted { bytes: fs::read(&stream).unwrap(), n_read: AtomicU64::new(0) });
    let size = counted.len_bytes();
    let source = Source::of_content("big.quipu", counted.clone());
    let inner = quipu::recognise(&source, &OpenOptions::default()).unwrap().source;
    let mut there = inner.container().unwrap().bytes(64 << 10).unwrap();
    assert_eq!(there.len(), bytes.len() as u64);
    let middle = bytes.len() / 2 + 12_345;
    assert_eq!(there.get(middle as u64, 64 << 10).unwrap(), &bytes[middle..middle + (64 << 10)]);
    let n_read = counted.n_read.load(Ordering::Relaxed);
    assert!(n_read * 100 < size, "{n_read} of {size}");
}

/// Offsets of frames.
fn frames(stream: &[u8]) -> Vec<usize> {
    (0..stream.len()).filter(|at| stream[*at..].starts_with(b"\xF5QPU1\r\n\x1A")).collect()
}

#[test]
fn members_of_an_archive_are_read_after_one_that_is_damaged_or_missing() {
    let folder = tempfile::tempdir().unwrap();
    let sample = "tiny.chunk1000/drmemtrace.tiny.05701.3845.trace.zip";
    let stream = folder.path().join("whole.quipu");
    convert(&fixtures("drmemtrace").join(sample), &stream).unwrap();
    let whole = fs::read(&stream).unwrap();
    let count = |path: &Path| {
        let trace = open(path).unwrap();
        let watch = Watch::new();
        let planned = plan(quipu::tool("counts", "drmemtrace").unwrap(), &Given::default(), &*trace).unwrap();
        let outcome =
            run(&*trace, vec![planned], &RunOptions { threads: 1, ..RunOptions::new(&watch) }).unwrap();
        let is_damaged = trace.meta().findings.iter().chain(outcome.findings.as_slice()).count() > 0;
        (outcome.records, is_damaged || outcome.error.is_some())
    };
    let (n_records, is_damaged) = count(&stream);
    assert!(!is_damaged);
    let all = frames(&whole);
    // A body frame in the middle.
    let is_body = |at: usize| whole[at + 12] == 34;
    let bodies: Vec<usize> = all.iter().copied().filter(|at| is_body(*at)).collect();
    let victim = bodies[bodies.len() / 2];
    let next = all[all.iter().position(|at| *at == victim).unwrap() + 1];
    let mut flipped = whole.clone();
    flipped[victim + 100] ^= 1;
    let missing = [&whole[..victim], &whole[next..]].concat();
    for (name, bytes) in [("flipped.quipu", flipped), ("missing.quipu", missing)] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let (n_read, is_damaged) = count(&path);
        assert!(is_damaged, "{name}");
        let least = n_records * (bodies.len() as u64 - 2) / bodies.len() as u64;
        assert!((least..n_records).contains(&n_read), "{name}: {n_read} of {n_records}");
    }
}

/// Records and instructions read from a drmemtrace trace, and findings.
fn counted(path: &Path) -> ((u64, u64), Vec<quipu::model::Finding>) {
    let trace = open(path).unwrap();
    let (mut records, mut instrs, mut findings) = (0, 0, trace.meta().findings.clone());
    for shard in trace.shards() {
        let scan = quipu::model::Scan::new(shard.id).columns(quipu::model::Columns::INSTRS);
        let mut reader = trace.scan(&scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            records += u64::from(batch.span.records);
            instrs += u64::from(batch.span.instrs);
            findings.append(&mut batch.findings);
        }
    }
    ((records, instrs), findings)
}

#[test]
fn a_damaged_frame_within_a_member_costs_the_entries_of_that_frame() {
    const ENTRIES: usize = 256;
    let folder = tempfile::tempdir().unwrap();
    let sample = "tiny.chunk1000/drmemtrace.tiny.05701.3845.trace.zip";
    let (stream, path) = (folder.path().join("whole.quipu"), folder.path().join("damaged.quipu"));
    into_frames("drmemtrace", &fixtures("drmemtrace").join(sample), &stream, ENTRIES * 12);
    let whole = fs::read(&stream).unwrap();
    let ((n_records, n_instrs), found) = counted(&stream);
    assert!(found.is_empty(), "{found:?}");
    let all = frames(&whole);
    let bodies: Vec<usize> = all.iter().copied().filter(|at| whole[*at + 12] == 34).collect();
    assert!(bodies.len() > 30, "{}", bodies.len());
    let damaged = |victims: &[usize]| {
        let mut bytes = whole.clone();
        victims.iter().for_each(|victim| bytes[bodies[*victim] + 100] ^= 1);
        fs::write(&path, bytes).unwrap();
        counted(&path)
    };
    // One frame, and two frames of the same member with a good one between them.
    let ones = (0..bodies.len()).map(|victim| vec![victim]);
    let twos = (0..bodies.len() - 2).map(|victim| vec![victim, victim + 2]);
    for victims in ones.chain(twos) {
        let ((records, instrs), found) = damaged(&victims);
        let places: Vec<u64> = found.iter().filter_map(|finding| finding.place.offset).collect();
        let at: Vec<u64> = victims.iter().map(|victim| bodies[*victim] as u64).collect();
        assert!(at.iter().all(|at| places.contains(at)), "{victims:?}: {found:?}");
        let most = (victims.len() * ENTRIES) as u64;
        let lost = (n_records - records, n_instrs - instrs);
        assert!(lost.0 > 0 && lost.0 <= most && lost.1 <= most, "{victims:?}: {lost:?} of {most}");
    }
    // A missing frame costs as much.
    let victim = bodies.len() / 2;
    let next = all[all.iter().position(|at| *at == bodies[victim]).unwrap() + 1];
    fs::write(&path, [&whole[..bodies[victim]], &whole[next..]].concat()).unwrap();
    let ((records, _), found) = counted(&path);
    assert!(n_records - records <= ENTRIES as u64 && !found.is_empty(), "{records} {found:?}");
}

#[test]
fn a_lost_attachment_is_said_and_costs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let stream = folder.path().join("whole.quipu");
    convert(&fixtures("drmemtrace").join("tiny.func"), &stream).unwrap();
    let whole = fs::read(&stream).unwrap();
    let trace = open(&stream).unwrap();
    assert!(
        !trace.meta().functions.is_empty() && trace.meta().findings.is_empty(),
        "{:?}",
        trace.meta().findings
    );
    let all = frames(&whole);
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
    const BLOB: u8 = 8;
    let is_list = |at: &usize| whole[at + 9] == BLOB && find(&whole[*at + 96..*at + 160], b"funclist.log");
    let victim = all.iter().copied().find(is_list).unwrap();
    let next = all[all.iter().position(|at| *at == victim).unwrap() + 1];
    let mut flipped = whole.clone();
    flipped[victim + 100] ^= 1;
    let missing = [&whole[..victim], &whole[next..]].concat();
    for (name, bytes) in [("flipped.quipu", flipped), ("missing.quipu", missing)] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let source = Source::open(&path).unwrap();
        let carrier = quipu::format_named("stream").unwrap().open(&source, &OpenOptions::default()).unwrap();
        let said = |trace: &dyn Trace, rule: &str| {
            trace.meta().findings.iter().filter(|finding| finding.rule == rule).cloned().collect::<Vec<_>>()
        };
        let lost = said(&*carrier, "stream/attachment-incomplete");
        assert!(lost.len() == 1 && lost[0].message.contains("funclist.log"), "{name}: {lost:?}");
        // The trace opens without it and reports that.
        let damaged = open(&path).unwrap();
        assert_eq!(
            said(&*damaged, "drmemtrace/function-list").len(),
            1,
            "{name}: {:?}",
            damaged.meta().findings
        );
        assert!(damaged.meta().functions.is_empty());
        assert_eq!(damaged.shards().len(), trace.shards().len());
    }
}

/// The number of records in a trace, and findings.
fn read_through(path: &Path) -> (u64, Vec<quipu::model::Finding>) {
    let trace = open(path).unwrap();
    let (mut n, mut findings) = (0, trace.meta().findings.clone());
    for shard in trace.shards() {
        let mut reader = trace.scan(&quipu::model::Scan::new(shard.id)).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            n += u64::from(batch.span.records);
            findings.append(&mut batch.findings);
        }
    }
    (n, findings)
}

#[test]
fn a_damaged_frame_costs_its_own_records_and_they_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let drmemtrace = folder.path().join("chase.trace");
    let sample = "drmemtrace/chase-snappy/chase.20190225.185346.23699.memtrace.sz";
    convert(&fixtures("").join(sample), &drmemtrace).unwrap();
    let samples =
        ["lackey/mixed.lackey", "din/labels.din", "cacheray/threads.trace", "apitrace/glxgears-300.trace"];
    let samples = samples.map(|sample| {
        let (format, name) = sample.split_once('/').unwrap();
        let file = folder.path().join(format).join(name);
        fs::create_dir(folder.path().join(format)).unwrap();
        let once = fs::read(fixtures(format).join(name)).unwrap();
        // Except for apitrace, the contents of samples can be repeated.
        let n_times = if format == "apitrace" { 1 } else { (400 << 10) / once.len() };
        fs::write(&file, once.repeat(n_times)).unwrap();
        file
    });
    for file in samples.iter().chain([&drmemtrace]) {
        let (format, name) = match file == &drmemtrace {
            true => ("drmemtrace", "chase"),
            false => (base(file.parent().unwrap().to_str().unwrap()), base(file.to_str().unwrap())),
        };
        let stream = folder.path().join(format!("{name}.quipu"));
        let n_bytes: u64 =
            bytes_of(&Source::open(file).unwrap()).values().map(|bytes| bytes.len() as u64).sum();
        let frame_bytes = (n_bytes as usize / 4 + 1).next_multiple_of(12);
        into_frames(format, file, &stream, frame_bytes);
        let whole = fs::read(&stream).unwrap();
        let (n_records, found) = read_through(&stream);
        let n_found = found.iter().filter(|finding| finding.rule == "stream/payload-crc").count();
        assert_eq!(n_found, 0, "{name}: {found:?}");
        let u32_at = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().unwrap());
        let bodies: Vec<usize> = frames(&whole).into_iter().filter(|at| whole[at + 9] == 2).collect();
        assert!(bodies.len() >= 4, "{name}");
        // Not the last bodies: damage at the end of the data is an error.
        for victim in bodies.into_iter().take(3) {
            let mut flipped = whole.clone();
            flipped[victim + 100] ^= 1;
            let path = folder.path().join(format!("{name}.{victim}.quipu"));
            fs::write(&path, flipped).unwrap();
            let (n, found) = read_through(&path);
            let said: Vec<_> = found.iter().filter(|finding| finding.rule == "stream/payload-crc").collect();
            let [said] = said[..] else { panic!("{name} at {victim}: {found:?}") };
            let loss = said.loss.as_ref().unwrap();
            let (lost, raw_len) = (loss.bytes.least(), u64::from(u32_at(victim + 20)));
            // If names are lost that later events need, reading continues only after these events.
            let most = if format == "apitrace" { 2 * raw_len } else { raw_len + 4096 };
            assert!((raw_len - 600..most).contains(&lost), "{name}: {lost} of {raw_len} bytes");
            assert!(n < n_records, "{name} at {victim}: {n} of {n_records} records");
            if loss.records.least() > 0 {
                assert_eq!(n + loss.records.least(), n_records, "{name} at {victim}: {loss:?}");
            } else {
                // Records have about the same size.
                let least = n_records - n_records * (lost + 200) / n_bytes * 3 / 2 - 1;
                assert!(n >= least, "{name} at {victim}: {n} of {n_records} records");
            }
        }
    }
}

#[test]
fn of_several_traces_in_a_stream_one_must_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let parts = ["cacheray/grand.trace", "apitrace/tri.trace"].map(|name| {
        let stream = folder.path().join(format!("{}.quipu", name.replace(['/', '.'], "-")));
        convert(&fixtures("").join(name), &stream).unwrap();
        stream
    });
    let both = folder.path().join("both.quipu");
    fs::write(&both, parts.clone().map(|part| fs::read(part).unwrap()).concat()).unwrap();
    let aside = tempfile::tempdir().unwrap();
    for part in &parts {
        fs::copy(part, aside.path().join(part.file_name().unwrap())).unwrap();
    }
    for path in [both.as_path(), aside.path()] {
        let Err(error) = open(path) else { panic!("{} is read as one trace", path.display()) };
        assert!(error.to_string().contains("`2` traces in one stream: apitrace, cacheray"), "{error}");
        for (name, part) in ["cacheray", "apitrace"].into_iter().zip(&parts) {
            let named = OpenOptions { format: Some(name.to_owned()), ..OpenOptions::default() };
            let trace = quipu::open_path(path, &named).unwrap();
            let records = |trace: &dyn Trace| {
                trace.meta().facts.iter().find(|fact| fact.key == "records").map(|fact| fact.json())
            };
            assert_eq!((&*trace.meta().format, records(&*trace)), (name, records(&*open(part).unwrap())));
        }
    }
}

#[test]
fn bodies_in_streams_are_of_formats_that_there_are() {
    use quipu::streamed::carried::{FORMATS, OWN_WRITERS};
    let is_known = |name: &str| quipu::FORMATS.iter().any(|format| format.info().name == name);
    for (encoding, name) in FORMATS.iter().chain(OWN_WRITERS) {
        assert!(is_known(name), "bodies of encoding {encoding} are of `{name}`, which there is not");
    }
}

/// Names and values of options.
fn given_of(pairs: Pairs) -> Given {
    pairs.iter().copied().collect()
}

/// Options to open traces of a format.
fn opening_of(format: &str, given: Pairs) -> OpenOptions {
    OpenOptions { format: Some(format.to_owned()), given: given_of(given), ..OpenOptions::default() }
}

/// Does what a format's own `convert` does.
fn written_by(
    format: &str,
    source: &Source,
    opening: &OpenOptions,
    given: Pairs,
    to: &Path,
) -> Result<Transformed, Error> {
    let transforms = quipu::format_named(format).unwrap().transforms();
    let convert = transforms.iter().find(|one| one.info().name == "convert").unwrap();
    let options = convert.info().parse(format, &given_of(given))?;
    let watch = Watch::new();
    let job = TransformJob {
        source,
        opening,
        options: &options,
        output: to,
        replace: false,
        container: None,
        level: None,
        damaged: Damaged::Refuse,
        strict: false,
        threads: 1,
        sequence: &InTime(&watch),
    };
    convert.run(&job, &Silent)
}

/// A format, a sample, and the options to open it.
type Written = (&'static str, &'static str, Pairs);

/// Formats that write streams themselves: a stream that they write gives the same results as the file.
const WRITTEN: &[Written] = &[
    ("dtrace", "dtrace/classic/printf", &[]),
    ("dtrace", "dtrace/classic/mixed_1000", &[]),
    ("prism", "prism/fixed/prodcons.main.fixed18.gz", FIXED),
    // The stream says the fields, which a file without a configuration needs an option for.
    (
        "prism",
        "prism/variable/prodcons.sigrind.bin.gz",
        &[("encoding", "variable"), ("sizes", "sigrind"), ("detail", "sigrind")],
    ),
];

#[test]
fn formats_that_write_streams_answer_the_same_there() {
    let folder = tempfile::tempdir().unwrap();
    let covered: BTreeSet<&str> = WRITTEN.iter().map(|(format, ..)| *format).collect();
    assert_eq!(covered, WRITERS.iter().map(|writer| writer.format).collect::<BTreeSet<_>>());
    for (number, (format, sample, given)) in WRITTEN.iter().enumerate() {
        let opening = opening_of(format, given);
        let (from, stream) = (fixtures("").join(sample), folder.path().join(format!("{number}.quipu")));
        let source = Source::open(&from).unwrap().spooled().unwrap();
        written_by(format, &source, &opening, &[], &stream)
            .unwrap_or_else(|error| panic!("{sample}: {error}"));
        let original = quipu::open(&source, &opening).unwrap();
        let there = open(&stream).unwrap();
        assert_eq!(there.meta().format, *format, "{sample}");
        let shown = |trace: &dyn Trace| -> BTreeMap<&'static str, String> {
            let all = answers_of(trace, "\0").into_iter();
            // `check` counts containers and frames.
            all.filter(|(tool, _)| *tool != "check").collect()
        };
        let (wanted, answers) = (shown(&*original), shown(&*there));
        assert!(wanted.len() >= 4, "{sample}: {:?}", wanted.keys());
        for (tool, answer) in wanted {
            assert_eq!(answers[tool], answer, "{sample}: {tool}");
        }
    }
}
