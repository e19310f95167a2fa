//! Writing traces: records into a file that appears when it is complete.

use crate::decode::encode;
use crate::plausible::detect;
use crate::record::{ADD, Access, Add, Dialect, READ, REMOVE, Record, Remove, WRITE};
use crate::table::Records;
use crate::trace::{self, PROBED_BYTES, is_our_file, look_of};
use quipu_model::damaged::{Intake, SoFar};
use quipu_model::fresh::{Fresh, Replace, cannot};
use quipu_model::lens::{AccessKind, RegionEvent};
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed, packing_for};
use quipu_model::{Batch, Columns, Confidence, Error, Result, Scan, ShardId, Trace};
use quipu_source::{OutputFile, PackOptions, Packer, Packing, Pool};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Bytes that are put together before they are written, each record in one piece.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes one trace.
pub struct TraceWriter {
    fresh: Fresh,
    name: String,
    packer: Packer<BufWriter<OutputFile>>,
    dialect: Dialect,
    buffer: Vec<u8>,
    /// The beginning of what was written before `buffer`.
    head: Vec<u8>,
    is_archive: bool,
    records: u64,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Records.
    pub records: u64,
    /// Bytes of the records.
    pub bytes: u64,
    /// Bytes of the file.
    pub packed_bytes: u64,
}

impl TraceWriter {
    /// Begins a trace.
    ///
    /// # Errors
    /// `Usage` if something of that name must stay; `Io` if the file cannot be made.
    pub fn create(
        path: &Path,
        dialect: Dialect,
        packing: &PackOptions,
        replace: Replace,
        pool: &Arc<Pool>,
    ) -> Result<TraceWriter> {
        let (fresh, file) = Fresh::file(path, replace)?;
        let mut packer = Packer::new(BufWriter::new(file), pool, packing);
        packer.member("cacheray.trace")?;
        let name = path.display().to_string();
        let is_archive = packing.packing == Packing::Zip;
        let (buffer, head) = (Vec::new(), Vec::new());
        Ok(TraceWriter { fresh, name, packer, dialect, buffer, head, is_archive, records: 0 })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// `Unsupported` if the dialect has no room for its address; `Io` if it cannot be written.
    pub fn record(&mut self, record: &Record<'_>) -> Result<()> {
        encode(self.dialect, record, &mut self.buffer).map_err(|error| error.in_file(&*self.name))?;
        self.records += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            if self.head.is_empty() {
                self.head.extend_from_slice(&self.buffer[..PROBED_BYTES.min(BUFFER_BYTES)]);
            }
            self.packer.write(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// The number of records written so far.
    pub fn n_records(&self) -> u64 {
        self.records
    }

    /// Writes the records of a batch that has the table of records and, for the names of types as they are, regions.
    ///
    /// # Errors
    /// As for [`TraceWriter::record`].
    pub fn rows(&mut self, batch: &Batch) -> Result<()> {
        let Some(rows) = batch.tables.first().and_then(|table| table.get::<Records>()) else { return Ok(()) };
        // Each annotation is a region, too.
        let mut names = batch.regions.type_name.iter();
        for row in 0..rows.len() {
            let tag = crate::table::tag(rows.kind[row], rows.atomic[row], rows.unaligned[row]);
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

    /// Ends the trace and gives the file its name.
    ///
    /// # Errors
    /// `Io` if that fails; then there is no file.
    pub fn finish(mut self) -> Result<Written> {
        self.packer.write(&self.buffer)?;
        let (mut out, packed) = self.packer.finish()?;
        out.flush().map_err(|cause| cannot("write", Path::new(&self.name), cause))?;
        drop(out);
        self.fresh.commit()?;
        Ok(Written { records: self.records, bytes: packed.bytes, packed_bytes: packed.packed_bytes })
    }
}

impl TraceWriter {
    /// Refuses to write a file that would not be recognised, or be read in another dialect. What is recorded is kept all the
    /// same, so `quipu collect` does not ask.
    ///
    /// # Errors
    /// `Usage` if there is no record, and the name of the file does not say what it is; `Unsupported` if the records do not
    /// look like any.
    pub(crate) fn refuse_formless(&self) -> Result<()> {
        let head = if self.head.is_empty() { &self.buffer } else { &self.head };
        let head = head.get(..PROBED_BYTES).unwrap_or(head);
        let path = Path::new(&self.name);
        if self.records == 0 {
            if self.is_archive || is_our_file(path) {
                return Ok(());
            }
            let what = "there is no record to write: under this name, nothing would tell what the file is";
            return Err(Error::usage(what).in_file(&*self.name).hint("end its name in `.cacheray`"));
        }
        let (dialect, look) = detect(head);
        if look_of(look) != Confidence::No && dialect == self.dialect {
            return Ok(());
        }
        let what = "these records do not look like those of a program (their addresses, threads or sizes): nothing would tell what the file is";
        Err(Error::unsupported(what).in_file(&*self.name))
    }
}

/// `convert`: the same records in another container or dialect.
#[derive(Debug)]
pub struct Convert;

static INFO: TransformInfo = TransformInfo {
    name: "convert",
    title: "the same records in another container or dialect",
    options: &[DIALECT.default("that of the source")],
};

/// The dialect that a trace is written in.
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

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let trace = trace::open(job.source, job.opening)?;
        let dialect = job.options.text(&DIALECT).and_then(Dialect::parse).unwrap_or(trace.dialect());
        let packing = packing_for(job.container, job.level, job.output)?;
        let replace = if job.replace { Replace::Allowed } else { Replace::Never };
        let mut writer = TraceWriter::create(job.output, dialect, &packing, replace, &usual_pool()?)?;
        let scan = Scan { tables: vec![0], ahead: true, ..Scan::new(ShardId(0)) }.columns(Columns::REGIONS);
        let (mut reader, mut intake) = (trace.scan(&scan)?, Intake::new(job.damaged).strict(job.strict));
        let threads = &job.opening.threads;
        let mut packed_bytes = 0;
        loop {
            let batch = match reader.read() {
                Ok(Some(batch)) => batch,
                read => {
                    intake.end(read.map(drop), SoFar::unvouched(writer.n_records()))?;
                    break;
                }
            };
            progress.go_on()?;
            if let Err(refused) = intake.take(&mut batch.findings, SoFar::unvouched(writer.n_records())) {
                return Err(intake.read_on(refused, || {
                    progress.go_on()?;
                    Ok(reader.read()?.map(|batch| std::mem::take(&mut batch.findings)))
                }));
            }
            if threads.is_empty() || threads.contains(&batch.span.thread) {
                writer.rows(batch)?;
            }
            let records = batch.span.records.into();
            let now = reader.packed_bytes().unwrap_or(packed_bytes);
            progress.advance(records, now.saturating_sub(packed_bytes));
            packed_bytes = now.max(packed_bytes);
        }
        let reading = intake.finish();
        if writer.n_records() == 0
            && let Some(error) = reading.nothing_left()
        {
            return Err(error);
        }
        writer.refuse_formless()?;
        let written = writer.finish()?;
        let facts = vec![
            Fact::new("dialect", "dialect", dialect.name()),
            Fact::new("container", "container", packing.packing.name()),
            Fact::new("records", "records", written.records),
            Fact::new("bytes", "bytes of the records", written.bytes),
            Fact::new("packed_bytes", "bytes of the file", written.packed_bytes),
        ];
        Ok(Transformed { facts, reading, ..Transformed::default() })
    }
}

/// A thread for each core.
pub(crate) fn usual_pool() -> Result<Arc<Pool>> {
    Ok(Pool::new(std::thread::available_parallelism().map_or(1, usize::from))?)
}

/// The record of an access as the lens has it; `None` for what the format has no record for.
pub fn access(kind: AccessKind, addr: u64, size: u8, thread: u64) -> Option<Record<'static>> {
    let tag = match kind {
        AccessKind::Read => READ,
        AccessKind::Write => WRITE,
        _ => return None,
    };
    Some(Record::Access(Access { tag, addr, size, thread }))
}

/// The record of a region's event as the lens has it. Sizes and counts that are too large for the format are cut off at the
/// largest.
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
