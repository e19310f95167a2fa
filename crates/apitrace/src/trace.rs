//! An opened trace: finds its calls, reads and prints them, and describes it.

mod facts;
mod recognise;

use crate::check::rules;
use crate::decode::{Header, Stop};
use crate::index::store::{self, Keep};
use crate::index::{self, Index, Wanted};
use crate::lens::MARK_FRAME;
use crate::print::CallPrinter;
use crate::print::{json::JsonPrinter, settings};
use crate::reader::CallReader;
use crate::survey::{self, Frames};
use crate::table::form::CallForm;
use crate::table::learned::{self, FunctionTable};
use crate::table::{N_TABLES, tables};
use crate::{INDEX, INFO, call_set};
use facts::{meta, survey_facts};
use quipu_model::print::RowForm;
use quipu_model::schema::Schema;
use quipu_model::trace::{PrintOptions, Surveyed};
use quipu_model::{
    Columns, Confidence, Error, ErrorKind, Finding, Meta, OpenOptions, Place, Printer, Reader, Result, Scan,
    Shard, ShardId, ShardKind, Trace, Window,
};
use quipu_source::{Codec, Container, Source};
pub use recognise::probe;
pub(crate) use recognise::{HEADER_BYTES, Opened, assumed_header, lost_header, plausible};
use recognise::{MAX_EMPTY_BYTES, PROBE_BYTES, forced_packing, newer_header, newer_version, packing};
use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// Skipping fewer records than this is faster than looking for an index.
const RECORDS_WORTH_AN_INDEX: u64 = 100_000;
/// By default, an index is made for traces with at least this many packed bytes, which take a second to read.
const BYTES_WORTH_AN_INDEX: u64 = 64 << 20;
/// The container of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Snappy blocks, each after its length, as the tracer writes them.
    Snappy,
    /// Gzip.
    Gzip,
    /// Zstandard with a table of its frames at the end.
    SeekableZstd,
    /// Zstandard.
    Zstd,
    /// Brotli.
    Brotli,
    /// None; apitrace itself does not read this.
    Plain,
}

impl Packing {
    /// The name in apitrace's notation.
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

/// Size in bytes of the footer of a table of frames: the number of frames, a descriptor, and a magic number.
const FOOTER_BYTES: u64 = 9;
/// Size in bytes of the header of the skippable frame that contains the table.
const SKIPPABLE_BYTES: u64 = 8;

/// An opened trace.
#[derive(Debug)]
pub struct ApiTrace {
    container: Container,
    /// The same for readers that count: it delivers no data known to be damaged.
    sound: Container,
    packing: Packing,
    header: Header,
    meta: Meta,
    /// The reason why it is only read by recovery: it may be of a newer version.
    newer: Option<String>,
    /// The finding of a damaged header that was replaced by an assumed one.
    assumed: Option<Finding>,
    shards: Vec<Shard>,
    keep: Keep,
    /// Searched for, or built, on first use.
    index: OnceLock<Option<Index>>,
    /// The tables of functions, built on first use.
    learned: OnceLock<Vec<FunctionTable>>,
}

/// Opens the trace at `source`.
///
/// # Errors
/// `Unsupported` if the source is not such a trace; errors of the source.
pub fn open(source: &Source, options: &OpenOptions) -> Result<ApiTrace> {
    let opening = INFO.opening(options)?;
    let keep = Keep::parse(opening.word(&INDEX)).unwrap_or(Keep::Auto);
    let found = packing(source)?.map(|(packing, _)| packing);
    let is_forced = options.format.as_deref() == Some(INFO.name);
    let Some(packing) = found.or(if is_forced { forced_packing(source)? } else { None }) else {
        return Err(Error::unsupported("this is not a trace of format apitrace").in_file(source.name()));
    };
    let head = head(source, packing)?;
    let mut findings = Vec::new();
    let (mut newer, mut assumed) = (None, None);
    let header = match assumed_header(&head) {
        Ok(Opened { header, damage, newer: why_newer }) => {
            if let Some(why) = &why_newer {
                findings.push(newer_header(source.name(), why));
            } else if let Some(why) = damage {
                assumed = Some(lost_header(source.name(), &why, header.version));
                findings.extend(assumed.clone());
            }
            newer = why_newer;
            header
        }
        Err(Stop::More(_)) if head.is_empty() && source.size_bytes() > Some(MAX_EMPTY_BYTES) => {
            let header = Header::newest();
            findings.push(lost_header(source.name(), "it cannot be inflated", header.version));
            header
        }
        // The read reports that the data is incomplete.
        Err(Stop::More(_)) => Header::default(),
        Err(Stop::Bad(fault)) => {
            let place = Place { offset: Some(fault.at as u64), ..Place::default() };
            return Err(Error::new(fault.kind, fault.message).at(&place).in_file(source.name()));
        }
    };
    // If the bytes come from another encoding, apitrace could not read the file anyway.
    if packing == Packing::Plain && source.said("encoding").is_none() {
        let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
        let what = "the stream is not packed; apitrace itself cannot read it".to_owned();
        findings.push(rules::BARE.broken(place, what));
    }
    let container = source.container_as(packing.codec())?;
    let sound = source.container_as(packing.codec())?;
    sound.deliver_sound_only();
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
        id: ShardId(0),
        name: source.name().to_owned(),
        kind: ShardKind::Mixed,
        pieces: 1,
        packed_bytes: container.size_bytes(),
        ..Shard::default()
    }];
    let mut meta = meta(&header, packing, &container, findings);
    if newer.is_some() {
        // The version in the file, not the one that is assumed.
        meta.version = newer_version(&head).map(|version| version.to_string());
    }
    Ok(ApiTrace {
        container,
        sound,
        packing,
        header,
        meta,
        newer,
        assumed,
        shards,
        keep,
        index: OnceLock::new(),
        learned: OnceLock::new(),
    })
}

/// The front of a stream: the maximum size of a header, or less if that contains a sound one. PERF: inflating all of it takes
/// longer than everything else in opening a trace.
fn head(source: &Source, packing: Packing) -> Result<Vec<u8>> {
    let head = source.head_as(packing.codec(), PROBE_BYTES)?;
    let is_enough = matches!(assumed_header(&head), Ok(Opened { damage: None, newer: None, .. }));
    // A shorter front could end before damage that the longer one includes.
    Ok(if is_enough { head } else { source.head_as(packing.codec(), HEADER_BYTES)? })
}

impl ApiTrace {
    /// The opened file, for recovery: it delivers all bytes, damaged ones included.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// The opened file, for readers that count or write: if a checksum is wrong, it delivers only the data that is good.
    pub fn sound(&self) -> &Container {
        &self.sound
    }

    /// The container of the stream.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Refuses a stream that seems to have a version newer than this program, or a damaged version number.
    ///
    /// # Errors
    /// `Malformed` for such a stream.
    pub fn check_version(&self) -> Result<()> {
        let Some(why) = &self.newer else { return Ok(()) };
        let place = Place { offset: Some(0), record: Some(0), ..Place::default() };
        let hint = format!(
            "`quipu recover` reads it as version {}, as which its beginning can be read",
            self.header.version
        );
        Err(Error::new(ErrorKind::Malformed, why.clone())
            .at(&place)
            .in_file(self.container.name())
            .hint(hint))
    }

    /// Damage that was found at opening only, for transforms: a damaged header, after which calls are still read.
    pub(crate) fn met_at_opening(&self) -> Vec<Finding> {
        self.assumed.iter().cloned().collect()
    }

    /// Size in bytes of the packed stream, without a table of frames at the end. `None` for a pipe.
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

    /// The index of the trace. Loads it if it was saved; otherwise builds and saves one if the trace is large enough or the
    /// `index` option asks for it. `None` if there is none.
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
            // If saving fails, the next run builds it again.
            let _ = store::save(&index, &self.container, self.keep);
            Some(index)
        };
        self.index.get_or_init(find).as_ref()
    }

    /// Whether to use an index to skip this many records: always, if the option says where to keep one.
    fn is_worth_an_index(&self, n_passed: u64) -> bool {
        let least = if self.keep == Keep::Auto { RECORDS_WORTH_AN_INDEX } else { 1 };
        n_passed >= least
    }

    /// A table for each function that is called; the first call reads the whole trace to build them.
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

    /// True if the stream is empty, without even a header.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        Ok(self.container.source().head_as(self.packing.codec(), 1)?.is_empty())
    }

    /// False if the stream is empty or has only a header without properties, so that its bytes could be anything.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn says_what_it_is(&self) -> Result<bool> {
        let head = self.container.source().head_as(self.packing.codec(), PROBE_BYTES)?;
        Ok(!head.is_empty() && plausible(&head) != Confidence::Likely)
    }

    /// The header of the stream.
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

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        let learned = self.learned.get().map_or(&[][..], Vec::as_slice);
        Ok(tables().into_iter().chain(learned.iter().map(|table| table.schema.clone())).collect())
    }

    fn learn(&self) -> Result<()> {
        self.function_tables().map(drop)
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        self.shard(scan.shard)?;
        self.check_version()?;
        let start = match &scan.window {
            Window::Records(range) if self.is_worth_an_index(range.start) => {
                let start = |index: &Index| index.start(&self.header, Wanted::Record(range.start));
                self.index().and_then(start)
            }
            _ => None,
        };
        let reader = CallReader::from(&self.sound, scan, start)?;
        if scan.tables.iter().all(|table| *table < N_TABLES) {
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
        Ok(Some(Box::new(CallForm::new(options)?)))
    }

    fn survey(&self, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        if let Err(error) = self.check_version() {
            return Surveyed { error: Some(error), ..Surveyed::default() };
        }
        let (survey, done) = survey::survey(&self.sound, Frames::Counted, is_cancelled);
        Surveyed { facts: survey_facts(&survey), findings: survey.findings, error: done.err() }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn narrow(&self, options: &PrintOptions) -> Result<Window> {
        let options = INFO.printing(options)?;
        let first =
            |spec| -> Result<Option<u64>> { Ok(call_set(&options, spec)?.and_then(|set| set.first())) };
        // A set that begins at the start of the trace needs no index.
        let wanted = match (first(&settings::CALLS)?, first(&settings::FRAMES)?) {
            (Some(number), _) if self.is_worth_an_index(number) => Wanted::Number(number),
            (_, Some(frame)) if frame > 0 => Wanted::Frame(frame),
            _ => return Ok(Window::All),
        };
        let n_before = self.index().map_or(0, |index| index.records_before(wanted));
        Ok(if n_before == 0 { Window::All } else { Window::Records(n_before..u64::MAX) })
    }

    fn n_delivered_damaged(&self) -> u64 {
        self.sound.n_delivered_damaged()
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        match kind {
            MARK_FRAME => Cow::Borrowed("frame"),
            other => Cow::Owned(format!("mark {other}")),
        }
    }
}
