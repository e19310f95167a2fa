//! Recognises and opens captures.

use crate::buffer::n_own_bytes;
use crate::describe::{Capture, Dialect, Probe};
use crate::options::Settings;
use crate::origin::Origin;
use crate::print::{Form, TextPrinter};
use crate::reader::RecordReader;
use crate::table::{Aggregations, Probes, Records};
use crate::{CONSUMER, INFO, QUIRKS, carried, examine, input, linux, meta, mid, origin, script};
use quipu_model::schema::Schema;
use quipu_model::trace::{Carries, Clock, Fact, Function, PrintOptions, Recorded};
use quipu_model::{
    Columns, Confidence, Error, ErrorKind, Finding, Meta, OpenOptions, Printer, Reader, Result, Scan, Shard,
    ShardKind, Trace,
};
use quipu_source::Source;
use quipu_stream::frame::SYNC;
use rustc_hash::FxHashMap;
use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Names of the file of a Linux capture, plain and packed.
const LINUX_FILES: [&str; 2] = [linux::FILE, "raw.jsonl.gz"];

/// Names of files with descriptions, samples or options.
pub(crate) const FILES: [&str; 4] = [meta::FILE, LINUX_FILES[0], LINUX_FILES[1], linux::OPTIONS];

/// Maximum size of a file of options, in bytes.
const MAX_OPTIONS_BYTES: u64 = 64 << 10;

/// Bytes that are inspected to recognise a capture.
const PROBED_BYTES: usize = 64 << 10;

/// The same for a file whose beginning was overwritten. Descriptions are repeated after four times their own length, so
/// those of up to 800 KiB are found. A pipe has no known length and is inspected only as far as other captures.
const PROBED_REST_BYTES: usize = 4 << 20;

/// The file of a source that has the descriptions, and its form: the source itself, or a file in its folder.
fn described_by(source: &Source) -> Option<(Source, Form)> {
    if !source.is_folder() {
        let head = source.head(PROBED_BYTES).ok()?;
        let form = form_of(&head).or_else(|| carried::is_likely(source).then_some(Form::Stream));
        let form = form.or_else(|| is_rest(&head).then_some(Form::Buffer))?;
        return Some((source.clone(), form));
    }
    let names = std::iter::once(meta::FILE).chain(LINUX_FILES);
    let mut found = names.filter_map(|name| {
        let file = source.child(name)?;
        let form = form_of(&file.head(PROBED_BYTES).ok()?)?;
        Some((file, form))
    });
    found.next().or_else(|| Some((source.clone(), Form::Stream)).filter(|_| !streams_of(source).is_empty()))
}

/// Whether a file is a bare buffer that lacks its beginning.
fn is_rest(head: &[u8]) -> bool {
    is_alone(head) && mid::is_within(head)
}

/// Whether a file is neither a stream nor a tar archive, as these contain whole buffers.
fn is_alone(head: &[u8]) -> bool {
    let is_archive = head.get(TAR_MAGIC).is_some_and(|magic| magic == b"ustar");
    !(head.starts_with(&SYNC) || is_archive)
}

/// Range of the magic number in a tar archive.
const TAR_MAGIC: Range<usize> = 257..262;

/// Whether a folder consists of streams with bodies of DTrace.
pub(crate) fn has_streams(folder: &Source) -> bool {
    described_by(folder).is_some_and(|(file, _)| file.is_folder())
}

/// The files of a folder, if all are streams with bodies of DTrace, from several machines; otherwise none.
fn streams_of(folder: &Source) -> Vec<Source> {
    let files = folder.files().unwrap_or_default();
    let is_stream =
        |file: &Source| !file.is_folder() && file.name().ends_with(".quipu") && carried::is_likely(file);
    if files.iter().all(is_stream) { files } else { Vec::new() }
}

fn form_of(head: &[u8]) -> Option<Form> {
    match () {
        () if linux::is_likely(head) => Some(Form::Lines),
        () if meta::is_likely(head) => Some(Form::Folder),
        () if mid::is_likely(head) => Some(Form::Buffer),
        () => None,
    }
}

/// Length up to and including the last newline.
fn end_of_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// Confidence that a source is a capture.
pub fn probe(source: &Source) -> Confidence {
    if described_by(source).is_some() { Confidence::Sure } else { Confidence::No }
}

/// The same for the rest of a buffer whose first descriptions are far from its beginning, or that is damaged before them.
/// Packed files are not searched.
pub fn probe_far(source: &Source) -> Confidence {
    let is_file = !source.is_folder() && source.size_bytes().is_some();
    let is_plain = || {
        let heads = (source.packed_head(SYNC.len()), source.head(SYNC.len()));
        matches!(heads, (Ok(packed), Ok(head)) if head.starts_with(&packed))
    };
    let is_rest =
        || source.head(PROBED_REST_BYTES).is_ok_and(|head| is_alone(&head) && mid::is_within_damage(&head));
    if is_file && is_plain() && is_rest() { Confidence::Sure } else { Confidence::No }
}

/// An opened capture as a trace.
#[derive(Debug)]
pub struct DtraceTrace {
    capture: Arc<Capture>,
    functions: Arc<FxHashMap<u32, u64>>,
    meta: Meta,
    shards: Vec<Shard>,
}

/// Reads the descriptions and buffers of a capture, and finds its faults, except those that depend on the printed text.
///
/// # Errors
/// `Malformed` for invalid descriptions; `Missing` for a file that does not exist; any error of the source.
pub fn load(source: &Source, options: &OpenOptions) -> Result<Capture> {
    let given = INFO.opening(options)?;
    let (file, form) = match described_by(source) {
        Some(found) => found,
        None if source.head(SYNC.len()).is_ok_and(|head| head.starts_with(&SYNC)) => {
            let message = "there is no whole frame of the stream";
            return Err(Error::new(ErrorKind::Damaged, message).in_file(source.name()));
        }
        None if source.is_folder() => {
            let message = format!("there is neither `{}` nor `{}`", meta::FILE, LINUX_FILES[0]);
            return Err(Error::malformed(message).in_file(source.name()));
        }
        // All of it is searched, because the caller says that it is a capture.
        None => (source.clone(), Form::Rest),
    };
    let inputs = RefCell::new(vec![source.clone(), file.clone()]);
    let home = match source.is_folder() {
        true => Some(source.clone()),
        false => source
            .path()
            .map(|path| path.parent().filter(|home| !home.as_os_str().is_empty()).unwrap_or(Path::new(".")))
            .and_then(|home| Source::open(home).ok()),
    };
    let beside = |name: &str| -> Result<Source> {
        let found = home.as_ref().filter(|_| origin::is_plain(name)).and_then(|home| home.child(name));
        if let Some(found) = &found {
            inputs.borrow_mut().push(found.clone());
        }
        found.ok_or_else(|| Error::missing(format!("the file `{name}` is not beside the description")))
    };
    let limit = match form {
        Form::Folder => meta::MAX_META_BYTES,
        Form::Lines => linux::MAX_FILE_BYTES,
        Form::Buffer | Form::Rest => meta::MAX_BUFFER_BYTES,
        Form::Stream => carried::MAX_FILE_BYTES,
    };
    let (mut bytes, damage) = match file.is_folder() {
        false => input::partly(&file, limit)?,
        true => joined(&streams_of(&file), limit)?,
    };
    if damage.is_some() && form == Form::Lines {
        // The line at which reading ended is incomplete.
        bytes.truncate(end_of_lines(&bytes));
    }
    let capture = match form {
        _ if damage.is_some() && form != Form::Lines && bytes.is_empty() => Ok(Capture::default()),
        Form::Folder => {
            meta::read(file.name(), &bytes, &mut |name| input::whole(&beside(name)?, meta::MAX_BUFFER_BYTES))
        }
        Form::Lines => linux::read(file.name(), &bytes).map(|mut capture| {
            if let Ok(options) =
                beside(linux::OPTIONS).and_then(|file| input::whole(&file, MAX_OPTIONS_BYTES))
            {
                capture.settings = Settings::of_command(&String::from_utf8_lossy(&options));
                if let Origin::Lines(lines) = &mut capture.origin {
                    lines.options = Some(options.into());
                }
            }
            if let Ok(text) = beside(script::FILE).and_then(|file| input::whole(&file, script::MAX_BYTES)) {
                script::apply(&mut capture, &text);
            }
            capture
        }),
        Form::Rest if !mid::has_descriptions(&bytes) => {
            let message = format!(
                "it is neither `{}`, `{}` nor a stream, and no whole descriptions stand in it as in a buffer",
                meta::FILE,
                LINUX_FILES[0]
            );
            return Err(Error::malformed(message).in_file(source.name()));
        }
        Form::Buffer | Form::Rest => mid::read(file.name(), bytes),
        Form::Stream => carried::read(file.name(), &bytes),
    };
    let mut capture = match capture {
        // It is still a capture, but none of it can be read.
        Err(error) if error.is_damage() => {
            let findings = vec![Finding::of_end(&error)];
            Capture { name: file.name().to_owned(), findings, ..Capture::default() }
        }
        read => read?,
    };
    if damage.is_some() {
        capture.origin = Origin::Unknown;
    }
    capture.findings.extend(damage.as_ref().map(Finding::of_end));
    // An input without a path cannot be overwritten, and need not be kept.
    capture.inputs.extend(inputs.take().into_iter().filter(|input| input.path().is_some()));
    for list in given.texts(&CONSUMER) {
        for option in list.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            capture.give(option)?;
        }
    }
    examine::all(&mut capture, source.name());
    Ok(capture)
}

/// Contents of files, concatenated, and the first damage that ended one early.
fn joined(files: &[Source], limit: u64) -> Result<(Vec<u8>, Option<Error>)> {
    let (mut all, mut first) = (Vec::new(), None);
    for file in files {
        let (bytes, damage) = input::partly(file, limit - all.len() as u64)?;
        all.extend(bytes);
        first = first.or(damage);
    }
    Ok((all, first))
}

/// Opens a capture.
///
/// # Errors
/// As [`load`]; `Unsupported` for an order that the records do not have.
pub fn open(source: &Source, options: &OpenOptions) -> Result<DtraceTrace> {
    let capture = Arc::new(load(source, options)?);
    // An unsupported order is refused before anything is read.
    crate::walk::Walk::new(&capture)?;
    let functions = functions_of(&capture);
    let numbers =
        functions.iter().flat_map(|(number, (_, probes))| probes.iter().map(|probe| (*probe, *number)));
    let numbers: FxHashMap<u32, u64> = numbers.collect();
    let meta = meta_of(&capture, source, &functions);
    let shard = Shard {
        name: capture.name.clone(),
        kind: ShardKind::Mixed,
        pieces: 1,
        packed_bytes: meta.packed_bytes,
        ..Shard::default()
    };
    Ok(DtraceTrace { capture, functions: Arc::new(numbers), meta, shards: vec![shard] })
}

type Functions = std::collections::BTreeMap<u64, (String, Vec<u32>)>;

/// Functions whose entry or return is a probe, by number, with those probes.
fn functions_of(capture: &Capture) -> Functions {
    let mut probes: Vec<&Probe> = capture.probes.values().filter(|probe| edge_of(probe).is_some()).collect();
    probes.sort_by_key(|probe| probe.id);
    let mut functions = Functions::new();
    let mut by_name: FxHashMap<(&str, &str, &str), u64> = FxHashMap::default();
    for probe in probes {
        let key = (&*probe.provider, &*probe.module, &*probe.function);
        let number = *by_name.entry(key).or_insert_with(|| {
            let number = functions.len() as u64 + 1;
            let name = if probe.function.is_empty() { &probe.name } else { &probe.function };
            functions.insert(number, (name.clone(), Vec::new()));
            number
        });
        if let Some((_, probes)) = functions.get_mut(&number) {
            probes.push(probe.id);
        }
    }
    functions
}

/// Whether a probe fires where a function is entered (true) or left (false).
pub(crate) fn edge_of(probe: &Probe) -> Option<bool> {
    match probe.name.as_str() {
        "entry" => Some(true),
        "return" => Some(false),
        name if name.ends_with("-entry") => Some(true),
        name if name.ends_with("-return") => Some(false),
        _ => None,
    }
}

/// Size of the file that describes the buffers of a folder or has the samples of Linux, in bytes.
fn n_described_bytes(source: &Source) -> Option<u64> {
    described_by(source)?.0.size_bytes()
}

fn meta_of(capture: &Arc<Capture>, source: &Source, functions: &Functions) -> Meta {
    let all = || capture.buffers.iter().chain(&capture.states);
    let n_bytes: usize = all().map(|buffer| buffer.bytes.len()).sum();
    let n_own: u64 = all().map(|of| n_own_bytes(capture, of)).sum();
    let n_cpus = all().map(|buffer| buffer.cpu).collect::<std::collections::BTreeSet<_>>().len();
    let is_linux = capture.dialect == Dialect::Linux;
    let mut facts = vec![
        Fact::new("dialect", "dialect", capture.dialect.name()),
        Fact::new("probes", "probes", capture.probes.len()).headline(),
        Fact::new("enablings", if is_linux { "statements" } else { "enablings" }, capture.enablings.len()),
        Fact::new("aggregations", "aggregations", capture.aggregations.len()).headline(),
    ];
    if !is_linux {
        facts.push(Fact::new("cpus", "CPUs", n_cpus).headline());
        facts.push(Fact::new("buffer_bytes", "bytes of buffers", n_own));
    }
    let function = |(id, (name, _)): (&u64, &(String, Vec<u32>))| Function {
        id: *id,
        workload: 0,
        names: vec![name.clone()],
        n_args: 0,
        noret: false,
    };
    let has_time = capture.dialect == Dialect::Classic;
    Meta {
        format: INFO.name.into(),
        title: format!("what DTrace recorded, dialect {}", capture.dialect.name()),
        clock: has_time.then_some(Clock { per_second: 1_000_000_000, unix_epoch: None, frames_calls: false }),
        // A folder has its descriptions and a file per buffer; a self-describing buffer and a stream are one file.
        n_files: if source.is_folder() && !is_linux { 1 + all().count() as u64 } else { 1 },
        packed_bytes: source.size_bytes().or_else(|| Some(n_described_bytes(source)? + n_bytes as u64)),
        functions: functions.iter().map(function).collect(),
        facts,
        carries: vec![
            Carries::new("data-accesses", false, ""),
            Carries::new("threads", false, "records have a CPU"),
            Carries::new("time", has_time, if has_time { "" } else { "records of this dialect have none" }),
            Carries::new("instructions", false, ""),
        ],
        instrs: Recorded::Nothing,
        data: Recorded::Nothing,
        findings: capture.findings.clone(),
        ..Meta::default()
    }
}

impl DtraceTrace {
    /// The capture of a trace of this format.
    ///
    /// # Errors
    /// `Missing` for a trace of another format.
    pub fn of(trace: &dyn Trace) -> Result<&DtraceTrace> {
        let opened = trace.as_any().and_then(|trace| trace.downcast_ref());
        opened.ok_or_else(|| Error::missing("this is no trace of format dtrace"))
    }

    /// The capture that was opened.
    pub fn capture(&self) -> &Arc<Capture> {
        &self.capture
    }

    fn text_printer(&self, options: &PrintOptions, is_json: bool) -> Result<TextPrinter> {
        let given = INFO.printing(options)?;
        TextPrinter::new(&self.capture, given.flag(&QUIRKS).into(), is_json)
    }
}

/// Indices of the tables.
pub(crate) const RECORDS: usize = 0;
pub(crate) const PROBES: usize = 1;
pub(crate) const AGGREGATIONS: usize = 2;

impl Trace for DtraceTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        let mut columns = Columns::THREADS | Columns::THREAD_CPU | Columns::MARKS;
        if self.capture.dialect == Dialect::Classic {
            columns |= Columns::THREAD_CLOCK;
        }
        if !self.meta.functions.is_empty() {
            columns |= Columns::CALLS;
        }
        columns
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        let tables = [Records::table_schema(), Probes::table_schema(), Aggregations::table_schema()];
        Ok(tables.into_iter().cloned().collect())
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        if scan.shard.0 as usize >= self.shards.len() {
            return Err(Error::usage(format!("the trace has no shard {}", scan.shard.0)));
        }
        Ok(Box::new(RecordReader::new(&self.capture, &self.functions, scan)?))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        Ok(Box::new(self.text_printer(options, false)?))
    }

    fn json_printer(&self, options: &PrintOptions) -> Result<Option<Box<dyn Printer>>> {
        Ok(Some(Box::new(self.text_printer(options, true)?)))
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        match self.capture.probes.get(&kind) {
            Some(probe) => {
                let Probe { provider, module, function, name, .. } = probe;
                Cow::Owned(format!("{provider}:{module}:{function}:{name}"))
            }
            None => Cow::Owned(format!("probe {kind}")),
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
