//! Recognising and opening a trace.

use crate::INFO;
use crate::check::rules;
use crate::decode::{Decoded, Header, Stop, header};
use crate::index::store::{self, Keep};
use crate::index::{self, Index, Wanted};
use crate::lens::MARK_FRAME;
use crate::print::CallPrinter;
use crate::reader::CallReader;
use crate::record::{EVENT_ENTER, NEWEST_VERSION, VERSION_PROPERTIES, VERSION_THREADS};
use crate::survey::{self, Frames, Survey};
use crate::table::TABLES;
use crate::table::form::CallRows;
use crate::table::learned::{self, FunctionTable};
use crate::{cursor::Cursor, print::json::JsonPrinter, print::settings};
use quipu_model::print::RowForm;
use quipu_model::trace::{Carries, Fact, PrintOptions, Surveyed};
use quipu_model::{
    Columns, Confidence, Error, ErrorKind, Finding, Meta, OpenOptions, Place, Printer, Reader, Result, Scan,
    Shard, ShardId, ShardKind, TableSchema, Trace, Window,
};
use quipu_source::{Codec, Container, Source, StreamOptions};
use serde_json::{Value, json};
use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// How much of a stream is looked at to recognise it.
const PROBE_BYTES: usize = 4 << 10;
/// Fewer records than this are passed over faster than an index is looked for.
const RECORDS_WORTH_AN_INDEX: u64 = 100_000;
/// Without being asked, an index is made of traces that take as much, packed: reading those takes a second.
const BYTES_WORTH_AN_INDEX: u64 = 64 << 20;
/// How much of a stream its header may take.
const HEADER_BYTES: usize = 1 << 20;
/// No container with nothing in it is longer.
const MAX_EMPTY_BYTES: u64 = 64;
/// So many versions behind the newest are taken for what is to come, and not for damage.
const FUTURE_VERSIONS: u64 = 4;
/// No function has a longer name, where one is looked for to recognise a stream.
const MAX_PROBED_NAME: u64 = 512;

/// How a stream is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Snappy blocks behind their lengths, what the tracer writes.
    Snappy,
    /// Gzip.
    Gzip,
    /// Zstandard with a table of its frames at the end.
    SeekableZstd,
    /// Zstandard.
    Zstd,
    /// Brotli.
    Brotli,
    /// Not at all; apitrace itself does not know this.
    Plain,
}

impl Packing {
    /// The name that apitrace prints.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Snappy => "Snappy",
            Packing::Gzip => "ZLib",
            Packing::SeekableZstd => "Zstandard (seekable)",
            Packing::Zstd => "Zstandard",
            Packing::Brotli => "Brotli",
            Packing::Plain => "None",
        }
    }

    fn codec(self) -> Codec {
        match self {
            Packing::Snappy => Codec::SnappyChunks,
            Packing::Gzip => Codec::Gzip,
            Packing::SeekableZstd | Packing::Zstd => Codec::Zstd,
            Packing::Brotli => Codec::Brotli,
            Packing::Plain => Codec::Plain,
        }
    }
}

/// Bytes at the end of a table of frames: how many there are, a descriptor, and what it is recognised by.
const FOOTER_BYTES: u64 = 9;
/// Bytes at its beginning: the header of a frame to be skipped.
const SKIPPABLE_BYTES: u64 = 8;
/// The last bytes of a table of frames.
const SEEKABLE_MAGIC: [u8; 4] = [0xb1, 0xea, 0x92, 0x8f];

/// How a source is packed, if there may be a trace in it, and how sure that is.
fn packing(source: &Source) -> Result<Option<(Packing, Confidence)>> {
    if source.is_folder() {
        return Ok(None);
    }
    let sure = |packing, codec| -> Result<Option<(Packing, Confidence)>> {
        Ok(match plausible(&source.head_as(codec, PROBE_BYTES)?) {
            Confidence::No => None,
            confidence => Some((packing, confidence)),
        })
    };
    match source.container()?.codec() {
        // Nothing else begins like this.
        Codec::SnappyChunks => Ok(Some((Packing::Snappy, Confidence::Sure))),
        Codec::Zstd if source.packed_tail(4)? == SEEKABLE_MAGIC => {
            // An empty stream packed so: what is written of a trace of two bytes.
            if source.head_as(Codec::Zstd, 1)?.is_empty() {
                return Ok(Some((Packing::SeekableZstd, Confidence::Likely)));
            }
            sure(Packing::SeekableZstd, Codec::Zstd)
        }
        // Whoever wrote it: an empty trace is no less likely than anything else.
        codec @ (Codec::Gzip | Codec::Zstd) if is_empty(source, codec)? => {
            let packing = if codec == Codec::Gzip { Packing::Gzip } else { Packing::Zstd };
            Ok(Some((packing, Confidence::Maybe)))
        }
        Codec::Gzip => sure(Packing::Gzip, Codec::Gzip),
        Codec::Zstd => sure(Packing::Zstd, Codec::Zstd),
        // Three bytes that nothing wraps may be anything.
        Codec::Plain => {
            match sure(Packing::Plain, Codec::Plain)?.filter(|(_, how)| *how != Confidence::Likely) {
                // Anything may be Brotli.
                None if source.name().ends_with(".br") && is_empty(source, Codec::Brotli)? => {
                    Ok(Some((Packing::Brotli, Confidence::Likely)))
                }
                None => sure(Packing::Brotli, Codec::Brotli),
                found => Ok(found),
            }
        }
        // Brotli may begin like anything.
        _ => sure(Packing::Brotli, Codec::Brotli),
    }
}

/// True if a file is a whole stream of this codec with nothing in it: what is written of an empty trace.
fn is_empty(source: &Source, codec: Codec) -> Result<bool> {
    let is_short = (1..=MAX_EMPTY_BYTES).contains(&source.size_bytes().unwrap_or(0));
    if !is_short || !source.can_seek() {
        return Ok(false);
    }
    let container = source.container_as(codec)?;
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let mut block = Vec::new();
    loop {
        match stream.next(&mut block) {
            Ok(None) => return Ok(true),
            Ok(Some(_)) if block.is_empty() => {}
            Ok(Some(_)) | Err(_) => return Ok(false),
        }
    }
}

/// How sure it is that a stream begins like this.
pub(crate) fn plausible(head: &[u8]) -> Confidence {
    let (header, end) = match header(head) {
        Ok(read) => read,
        Err(Stop::More(_)) if head.starts_with(&[6]) && head.len() == PROBE_BYTES => {
            return Confidence::Maybe;
        }
        Err(_) => return Confidence::No,
    };
    if end == head.len() {
        // Nothing but a header, which is what little a program leaves that died early.
        return match header.version {
            VERSION_PROPERTIES.. if !header.properties.is_empty() => Confidence::Sure,
            VERSION_PROPERTIES.. => Confidence::Likely,
            _ => Confidence::No,
        };
    }
    if begins_with_call(&header, head, end) == Some(true) { Confidence::Sure } else { Confidence::No }
}

/// Whether the first event behind a header enters a function whose name looks like one; `None` if it is cut.
fn begins_with_call(header: &Header, head: &[u8], end: usize) -> Option<bool> {
    let mut cursor = Cursor::new(head, end);
    if cursor.byte().ok()? != EVENT_ENTER {
        return Some(false);
    }
    if header.version >= VERSION_THREADS {
        cursor.uint().ok()?;
    }
    cursor.uint().ok()?;
    let name = cursor.name(MAX_PROBED_NAME).ok()?;
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:~(), *&<>".contains(byte);
    let begins_well = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    Some(begins_well && name.iter().all(is_word))
}

/// The header at the front of a stream that is known to be one, whatever is wrong with it.
#[derive(Debug)]
pub(crate) struct Opened {
    /// As it stands there, or as it must be assumed to be.
    pub(crate) header: Header,
    /// Why it is assumed, if it is.
    pub(crate) damage: Option<String>,
    /// Why nobody but who saves what can be saved should read on: it may be a newer version.
    pub(crate) newer: Option<String>,
}

/// Reads the header at the front of a stream. One that is damaged is taken for one of the newest version, which is what
/// nearly all traces have had for years: with its properties if only the version is wrong, else without.
///
/// # Errors
/// `Unsupported` for what seems to be a newer version, unless it can be read as the newest that is known.
pub(crate) fn assumed_header(head: &[u8]) -> Decoded<Opened> {
    let mended = || mended_header(head);
    let assumed = |why: String| {
        Ok(Opened { header: mended().unwrap_or_else(Header::newest), damage: Some(why), newer: None })
    };
    match header(head) {
        // Old versions say no more than a number, which damage may look like.
        Ok((header, end)) if header.version < VERSION_PROPERTIES && end < head.len() => {
            match begins_with_call(&header, head, end) {
                Some(false) => assumed(format!("no call follows a header of version `{}`", header.version)),
                _ => Ok(Opened { header, damage: None, newer: None }),
            }
        }
        Ok((header, _)) => Ok(Opened { header, damage: None, newer: None }),
        Err(Stop::Bad(fault)) => {
            let is_newer = head.first().is_some_and(|version| {
                (NEWEST_VERSION + 1..=NEWEST_VERSION + FUTURE_VERSIONS).contains(&u64::from(*version))
                    && fault.kind == ErrorKind::Unsupported
                    && head.get(1).is_some_and(|semantic| semantic <= version)
            });
            match mended() {
                Some(header) if is_newer => {
                    Ok(Opened { header, damage: Some(fault.message.clone()), newer: Some(fault.message) })
                }
                None if is_newer => Err(Stop::Bad(fault)),
                _ => assumed(fault.message),
            }
        }
        Err(Stop::More(_)) if head.len() == HEADER_BYTES => {
            assumed(format!("it takes more than `{HEADER_BYTES}` bytes"))
        }
        Err(stop) => Err(stop),
    }
}

/// What a header says if its version is wrong and nothing else: as one of the newest, with a call behind it.
fn mended_header(head: &[u8]) -> Option<Header> {
    let mut head = head.to_vec();
    *head.first_mut()? = NEWEST_VERSION as u8; // A small number.
    let (header, end) = header(&head).ok()?;
    (begins_with_call(&header, &head, end) == Some(true)).then_some(header)
}

/// How sure it is that a source is a trace of this format.
pub fn probe(source: &Source) -> Confidence {
    packing(source).ok().flatten().map_or(Confidence::No, |(_, confidence)| confidence)
}

/// An opened trace.
#[derive(Debug)]
pub struct ApiTrace {
    container: Container,
    packing: Packing,
    header: Header,
    meta: Meta,
    /// Why it is not read, but for what can be saved of it.
    newer: Option<String>,
    shards: Vec<Shard>,
    keep: Keep,
    /// Looked for when it is first needed.
    index: OnceLock<Option<Index>>,
    /// The tables of functions, learned when they are first needed.
    learned: OnceLock<Vec<FunctionTable>>,
}

/// Opens the trace at `source`.
///
/// # Errors
/// `Unsupported` if it is none; what the source has to say.
pub fn open(source: &Source, options: &OpenOptions) -> Result<ApiTrace> {
    let keep = match options.setting(&INFO, "index")? {
        None => Keep::Auto,
        Some(word) => Keep::parse(word).ok_or_else(|| {
            Error::usage(format!("`index` is `auto`, `cache`, `beside` or `no`, found `{word}`"))
        })?,
    };
    let Some((packing, _)) = packing(source)? else {
        return Err(Error::unsupported("this is not a trace of format apitrace").in_file(source.name()));
    };
    let head = source.head_as(packing.codec(), HEADER_BYTES)?;
    let mut findings = Vec::new();
    let mut newer = None;
    let header = match assumed_header(&head) {
        Ok(Opened { header, damage, newer: why_newer }) => {
            newer = why_newer;
            if let Some(why) = damage {
                findings.push(lost_header(source.name(), &why));
            }
            header
        }
        Err(Stop::More(_)) if head.is_empty() && source.size_bytes() > Some(MAX_EMPTY_BYTES) => {
            findings.push(lost_header(source.name(), "it cannot be inflated"));
            Header::newest()
        }
        // What is missing is told when it is read.
        Err(Stop::More(_)) => Header::default(),
        Err(Stop::Bad(fault)) => {
            let place = Place { offset: Some(fault.at as u64), ..Place::default() };
            return Err(Error::new(fault.kind, fault.message).at(&place).in_file(source.name()));
        }
    };
    if packing == Packing::Plain {
        let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
        let what = "the stream is not packed; apitrace itself cannot read it".to_owned();
        findings.push(rules::BARE.broken(place, what));
    }
    let container = source.container_as(packing.codec())?;
    if !index::can_have(&container) && container.size_bytes().is_some_and(|size| size >= BYTES_WORTH_AN_INDEX)
    {
        let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
        let what = format!(
            "{} is inflated from its beginning, whatever is wanted of the trace; `quipu convert` writes it so that any part is reached at once",
            packing.name()
        );
        findings.push(rules::NO_INDEX.broken(place, what));
    }
    let shards = vec![Shard {
        core: None,
        id: ShardId(0),
        name: source.name().to_owned(),
        kind: ShardKind::Mixed,
        thread: None,
        process: None,
        pieces: 1,
        packed_bytes: container.size_bytes(),
    }];
    let meta = meta(&header, packing, &container, findings);
    Ok(ApiTrace {
        container,
        packing,
        header,
        meta,
        newer,
        shards,
        keep,
        index: OnceLock::new(),
        learned: OnceLock::new(),
    })
}

/// What is said of a header that is assumed.
pub(crate) fn lost_header(file: &str, why: &str) -> Finding {
    let place = Place { file: Some(file.to_owned()), offset: Some(0), ..Place::default() };
    let what = format!("the header of the stream is damaged ({why}): version `{NEWEST_VERSION}` is assumed");
    rules::LOST_HEADER.broken(place, what)
}

fn fact(key: &'static str, label: &'static str, value: Value) -> Fact {
    Fact { key, label, value }
}

fn meta(header: &Header, packing: Packing, container: &Container, findings: Vec<Finding>) -> Meta {
    let properties: serde_json::Map<String, Value> = header
        .sorted_properties()
        .into_iter()
        .map(|(name, value)| {
            (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned().into())
        })
        .collect();
    let mut facts = vec![
        fact("semantic_version", "semantic version", json!(header.semantic_version)),
        fact("container", "container", json!(packing.name())),
    ];
    for (key, label) in [("process.name", "program"), ("process.commandLine", "arguments")] {
        if let Some(value) = properties.get(key) {
            let key = if key == "process.name" { "process_name" } else { "process_command_line" };
            facts.push(fact(key, label, value.clone()));
        }
    }
    facts.push(fact("properties", "properties", json!(properties)));
    Meta {
        format: INFO.name,
        title: "calls of a graphics API with their values".to_owned(),
        version: Some(header.version.to_string()),
        n_files: 1,
        packed_bytes: container.size_bytes(),
        inflated_bytes: (packing == Packing::Plain).then(|| container.size_bytes()).flatten(),
        carries: vec![
            Carries { what: "calls with values", has: true, note: "" },
            Carries { what: "threads", has: header.version >= VERSION_THREADS, note: "" },
            Carries { what: "time", has: false, note: "" },
        ],
        facts,
        findings,
        ..Meta::default()
    }
}

impl ApiTrace {
    /// The opened file.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// How the stream is packed.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Bytes of the file that the stream takes: all but a table of frames at the end. `None` for a pipe.
    pub fn packed_bytes(&self) -> Result<Option<u64>> {
        let Some(size) = self.container.size_bytes() else { return Ok(None) };
        if self.packing != Packing::SeekableZstd {
            return Ok(Some(size));
        }
        let footer = self.container.source().packed_tail(FOOTER_BYTES as usize)?;
        let [n0, n1, n2, n3, descriptor, ..] = footer[..] else { return Ok(Some(size)) };
        let entry_bytes = if descriptor & 0x80 == 0 { 8 } else { 12 };
        let n_frames = u64::from(u32::from_le_bytes([n0, n1, n2, n3]));
        Ok(Some(size.saturating_sub(SKIPPABLE_BYTES + entry_bytes * n_frames + FOOTER_BYTES)))
    }

    /// The index of the trace: the one that was kept, or else one that is made now if the trace is large enough to be worth
    /// it or the `index` setting asks for it; then it is kept. `None` where there is none.
    pub fn index(&self) -> Option<&Index> {
        let find = || {
            if self.keep == Keep::No || !index::can_have(&self.container) {
                return None;
            }
            if let Some(index) = store::load(&self.container, self.keep) {
                return Some(index);
            }
            let size = self.container.size_bytes().unwrap_or(0);
            if self.keep == Keep::Auto && size < BYTES_WORTH_AN_INDEX {
                return None;
            }
            let index = index::build(&self.container).ok()?;
            // Without it, the next run makes it again.
            let _ = store::save(&index, &self.container, self.keep);
            Some(index)
        };
        self.index.get_or_init(find).as_ref()
    }

    /// Whether an index is looked for if so many records are passed over: any, where the settings say where to keep one.
    fn is_worth_an_index(&self, n_passed: u64) -> bool {
        let least = if self.keep == Keep::Auto { RECORDS_WORTH_AN_INDEX } else { 1 };
        n_passed >= least
    }

    /// A table for each function that is called, learned from all of the trace when first asked for.
    ///
    /// # Errors
    /// See [`learned::learn`].
    pub fn function_tables(&self) -> Result<&[FunctionTable]> {
        if let Some(tables) = self.learned.get() {
            return Ok(tables);
        }
        let tables = learned::learn(&self.container)?;
        Ok(self.learned.get_or_init(|| tables))
    }

    /// True if there is nothing in the stream, not even a header.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        Ok(self.container.source().head_as(self.packing.codec(), 1)?.is_empty())
    }

    /// False if there is nothing in the stream but perhaps a header without properties, so that its bytes could be anything.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn says_what_it_is(&self) -> Result<bool> {
        let head = self.container.source().head_as(self.packing.codec(), PROBE_BYTES)?;
        Ok(!head.is_empty() && plausible(&head) != Confidence::Likely)
    }

    /// What the stream says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }
}

impl Trace for ApiTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        Columns::CALLS | Columns::CALL_VALUES | Columns::THREADS | Columns::MARKS
    }

    fn tables(&self) -> &'static [&'static TableSchema] {
        TABLES
    }

    fn learned_tables(&self) -> Result<Vec<Arc<TableSchema>>> {
        Ok(self.function_tables()?.iter().map(|table| table.schema.clone()).collect())
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        if scan.shard != ShardId(0) {
            return Err(Error::usage(format!("the trace has no shard {}", scan.shard.0)));
        }
        if let Some(why) = &self.newer {
            let place = Place { offset: Some(0), ..Place::default() };
            return Err(Error::unsupported(why.clone())
                .at(&place)
                .in_file(self.container.name())
                .hint("`quipu recover` reads it as version 6, as which its beginning can be read"));
        }
        let start = match &scan.window {
            Window::Records(range) if self.is_worth_an_index(range.start) => {
                let start = |index: &Index| index.start(&self.header, Wanted::Record(range.start));
                self.index().and_then(start)
            }
            _ => None,
        };
        let reader = CallReader::from(&self.container, scan, start)?;
        if scan.tables.iter().all(|table| *table < TABLES.len()) {
            return Ok(Box::new(reader));
        }
        Ok(Box::new(reader.filling(&scan.tables, self.function_tables()?)))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        Ok(Box::new(CallPrinter::new(&self.header, options)?))
    }

    fn json_printer(&self, options: &PrintOptions) -> Result<Option<Box<dyn Printer>>> {
        Ok(Some(Box::new(JsonPrinter::new(options)?)))
    }

    fn row_form(&self, options: &PrintOptions) -> Result<Option<Box<dyn RowForm>>> {
        Ok(Some(Box::new(CallRows::new(options)?)))
    }

    fn survey(&self) -> Surveyed {
        let (survey, done) = survey::survey(&self.container, Frames::Counted);
        Surveyed { facts: survey_facts(&survey), findings: survey.findings, error: done.err() }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn narrow(&self, options: &PrintOptions) -> Result<Window> {
        let first = |name: &str| -> Result<Option<u64>> {
            Ok(settings::set(options, name)?.and_then(|set| set.first()))
        };
        // A set that reaches back to the beginning is worth no index.
        let wanted = match (first("calls")?, first("frames")?) {
            (Some(number), _) if self.is_worth_an_index(number) => Wanted::Number(number),
            (_, Some(frame)) if frame > 0 => Wanted::Frame(frame),
            _ => return Ok(Window::All),
        };
        let n_before = self.index().map_or(0, |index| index.records_before(wanted));
        Ok(if n_before == 0 { Window::All } else { Window::Records(n_before..u64::MAX) })
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        match kind {
            MARK_FRAME => Cow::Borrowed("frame"),
            other => Cow::Owned(format!("mark {other}")),
        }
    }
}

/// How many functions are told with the count of their calls.
const TOP_FUNCTIONS: usize = 20;

fn survey_facts(survey: &Survey) -> Vec<Fact> {
    let mut functions: Vec<&(String, u64)> = survey.functions.iter().collect();
    functions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let top: serde_json::Map<String, Value> =
        functions.iter().take(TOP_FUNCTIONS).map(|(name, n_calls)| (name.clone(), json!(n_calls))).collect();
    vec![
        fact("api", "API", json!(survey.api.name())),
        fact("stream_bytes", "bytes of the stream", json!(survey.stream_bytes)),
        fact("frames", "frames", json!(survey.n_frames)),
        fact("calls", "calls", json!(survey.calls)),
        fact("incomplete_calls", "incomplete calls", json!(survey.incomplete)),
        fact("fake_calls", "calls made up by the tracer", json!(survey.fake)),
        fact("calls_with_stack", "calls with a stack", json!(survey.with_stack)),
        fact("threads", "threads", json!(survey.threads.len())),
        fact("draw_calls", "calls that draw", json!(survey.draws)),
        fact("blobs", "pieces of raw memory", json!(survey.bulk.blobs)),
        fact("blob_bytes", "bytes of raw memory", json!(survey.bulk.blob_bytes)),
        fact("strings", "strings", json!(survey.bulk.strings)),
        fact("string_bytes", "bytes of strings", json!(survey.bulk.string_bytes)),
        fact("signature_bytes", "bytes of signatures", json!(survey.bulk.signature_bytes)),
        fact("distinct_functions", "distinct functions", json!(survey.functions.len())),
        fact("top_functions", "most frequent functions", json!(top)),
    ]
}
