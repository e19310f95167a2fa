//! Writes traces: records into a file that appears when it is complete.

use crate::decode::encode;
use crate::plausible::{detect, look};
use crate::record::{ADD, Access, Add, Dialect, READ, REMOVE, Record, Remove, WRITE};
use crate::table::{Records, tag};
use crate::trace::{self, PROBED_BYTES, is_our_file, look_of};
use quipu_model::fresh::Replace;
use quipu_model::lens::{AccessKind, RegionEvent};
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed, packing_for};
use quipu_model::{Batch, Columns, Confidence, Error, Result, Scan, ShardId};
pub use quipu_records::write::Written;
use quipu_records::write::{RecordFile, copy_records, usual_pool};
use quipu_source::{PackOptions, Pool};
use std::path::Path;
use std::sync::Arc;

/// Writes one trace.
pub struct TraceWriter {
    file: RecordFile,
    dialect: Dialect,
}

impl TraceWriter {
    /// Begins a trace, written to `path`.
    ///
    /// # Errors
    /// `Usage` if the file exists and may not be replaced; `Io` if it cannot be created.
    pub fn create(
        path: &Path,
        dialect: Dialect,
        packing: &PackOptions,
        replace: Replace,
        pool: &Arc<Pool>,
    ) -> Result<TraceWriter> {
        let file = RecordFile::create(path, "cacheray.trace", packing, replace, pool)?;
        Ok(TraceWriter { file, dialect })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// `Unsupported` if the address is too wide for the dialect; `Io` if the file cannot be written.
    pub fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.file.append(|out| encode(self.dialect, record, out))
    }

    /// The number of records written so far.
    pub fn n_records(&self) -> u64 {
        self.file.n_records()
    }

    /// Writes the records of a batch, which must have the table of records and, for unchanged names of types, the lens of
    /// regions.
    ///
    /// # Errors
    /// Those of [`TraceWriter::record`].
    pub fn rows(&mut self, batch: &Batch) -> Result<()> {
        let Some(rows) = batch.tables.first().and_then(|table| table.get::<Records>()) else { return Ok(()) };
        // Each annotation has a row in the lens of regions.
        let mut names = batch.regions.type_name.iter();
        for row in 0..rows.len() {
            let tag = tag(rows.kind[row], rows.atomic[row], rows.unaligned[row]);
            let (addr, thread) = (rows.addr[row], rows.thread[row]);
            self.record(&match rows.kind[row] {
                ADD => Record::Add(Add {
                    tag,
                    addr,
                    thread,
                    element_bytes: rows.element_bytes[row],
                    n_elements: rows.n_elements[row],
                    name: names.next().unwrap_or(&[]),
                }),
                REMOVE => {
                    names.next();
                    Record::Remove(Remove { tag, addr, thread })
                }
                _ => Record::Access(Access { tag, addr, size: rows.size[row], thread }),
            })?;
        }
        Ok(())
    }

    /// Completes the trace and gives the file its name.
    ///
    /// # Errors
    /// `Io` if that fails; then the file does not exist.
    pub fn finish(self) -> Result<Written> {
        self.file.finish()
    }

    /// Refuses to write a file that would not be recognised, or would be read in another dialect. `quipu convert` does not
    /// call this, because it must keep recorded data.
    ///
    /// # Errors
    /// `Usage` if there are no records, and the name does not identify the file; `Unsupported` if the records are not
    /// plausible.
    pub(crate) fn refuse_formless(&self) -> Result<()> {
        let file = &self.file;
        if file.n_records() == 0 {
            if file.is_archive() || is_our_file(Path::new(file.name())) {
                return Ok(());
            }
            let what = "there is no record to write: under this name, nothing would tell what the file is";
            return Err(Error::usage(what).in_file(file.name()).hint("end its name in `.cacheray`"));
        }
        let head = file.head(PROBED_BYTES);
        if detect(head) == self.dialect && look_of(look(self.dialect, head)) != Confidence::No {
            return Ok(());
        }
        let what = "these records do not look like those of a program (their addresses, threads or sizes): nothing would tell what the file is";
        Err(Error::unsupported(what).in_file(file.name()))
    }
}

/// `convert`: writes the same records in another container or dialect.
#[derive(Debug)]
pub struct Convert;

static INFO: TransformInfo = TransformInfo {
    name: "convert",
    title: "the same records in another container or dialect",
    options: &[DIALECT.default("that of the source")],
};

/// The option for the dialect of the output.
pub(crate) const DIALECT: OptionSpec = OptionSpec::new(
    "dialect",
    Kind::Choice(&["le64", "be64", "ilp32"]),
    "le64",
    "Byte order and width of addresses.",
)
.value("le64|be64|ilp32");

impl Transform for Convert {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn lacks(&self, option: &str) -> Option<&'static str> {
        matches!(option, "sharding" | "format-version" | "chunk-instrs")
            .then_some("a trace is one file of accesses, without chunks or versions")
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let trace = trace::open(job.source, job.opening)?;
        let dialect = job.options.text(&DIALECT).and_then(Dialect::parse).unwrap_or(trace.codec().dialect);
        let packing = packing_for(job.container, job.level, job.output)?;
        let replace = if job.replace { Replace::Allowed } else { Replace::Never };
        let mut writer = TraceWriter::create(job.output, dialect, &packing, replace, &usual_pool()?)?;
        let scan = Scan { tables: vec![0], ahead: true, ..Scan::new(ShardId(0)) }.columns(Columns::REGIONS);
        let reading = copy_records(&trace, &scan, job, progress, |batch| {
            writer.rows(batch)?;
            Ok(writer.n_records())
        })?;
        writer.refuse_formless()?;
        let written = writer.finish()?;
        let mut facts = facts(dialect, &written);
        facts.insert(1, Fact::new("container", "container", packing.packing.name()));
        Ok(Transformed { facts, reading, ..Transformed::default() })
    }
}

/// The facts to report about a written trace.
pub(crate) fn facts(dialect: Dialect, written: &Written) -> Vec<Fact> {
    vec![
        Fact::new("dialect", "dialect", dialect.name()),
        Fact::new("records", "records", written.records),
        Fact::new("bytes", "bytes of the records", written.bytes),
        Fact::new("packed_bytes", "bytes of the file", written.packed_bytes),
    ]
}

/// The record for an access of the lens; `None` if the format has no such record.
pub fn access(kind: AccessKind, addr: u64, size: u8, thread: u64) -> Option<Record<'static>> {
    let tag = match kind {
        AccessKind::Read => READ,
        AccessKind::Write => WRITE,
        _ => return None,
    };
    Some(Record::Access(Access { tag, addr, size, thread }))
}

/// The record for an event of the lens of regions. Sizes and counts that are too large for the format are clamped.
pub fn region(
    what: RegionEvent,
    (addr, thread): (u64, u64),
    (element_bytes, n_elements): (u64, u64),
    name: &[u8],
) -> Record<'_> {
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    match what {
        RegionEvent::Add => Record::Add(Add {
            tag: ADD,
            addr,
            thread,
            element_bytes: narrow(element_bytes),
            n_elements: narrow(n_elements),
            name,
        }),
        RegionEvent::Remove => Record::Remove(Remove { tag: REMOVE, addr, thread }),
    }
}
