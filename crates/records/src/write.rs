//! Writes records into a file that appears when it is complete.

use quipu_model::damaged::{Intake, Reading, SoFar};
use quipu_model::fresh::{Fresh, Replace, cannot};
use quipu_model::transform::{Progress, TransformJob};
use quipu_model::{Batch, Finding, Result, Scan, Span, Trace};
use quipu_source::{OutputFile, PackOptions, Packer, Packing, Pool};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Size of the write buffer; records are not split between writes.
const BUFFER_BYTES: usize = 1 << 20;
/// Number of bytes of the beginning that are kept, for examination at the end.
const HEAD_BYTES: usize = 64 << 10;

/// A file of records under construction.
pub struct RecordFile {
    fresh: Fresh,
    name: String,
    packer: Packer<BufWriter<OutputFile>>,
    buffer: Vec<u8>,
    /// The beginning of the bytes written before `buffer`.
    head: Vec<u8>,
    is_archive: bool,
    n_records: u64,
}

/// Summary of a written file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of records.
    pub records: u64,
    /// Bytes of the records.
    pub bytes: u64,
    /// Bytes of the file.
    pub packed_bytes: u64,
}

impl RecordFile {
    /// Begins a file. In an archive, the records are the member with this name.
    ///
    /// # Errors
    /// `Usage` if the file exists and may not be replaced; `Io` if it cannot be created.
    pub fn create(
        path: &Path,
        member: &str,
        packing: &PackOptions,
        replace: Replace,
        pool: &Arc<Pool>,
    ) -> Result<RecordFile> {
        let (fresh, file) = Fresh::file(path, replace)?;
        let mut packer = Packer::new(BufWriter::new(file), pool, packing);
        packer.member(member)?;
        Ok(RecordFile {
            fresh,
            name: path.display().to_string(),
            packer,
            buffer: Vec::new(),
            head: Vec::new(),
            is_archive: packing.packing == Packing::Zip,
            n_records: 0,
        })
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the records are a member of an archive.
    pub fn is_archive(&self) -> bool {
        self.is_archive
    }

    /// Number of records appended so far.
    pub fn n_records(&self) -> u64 {
        self.n_records
    }

    /// The bytes of the first records, at most `n_bytes`; of a long file, 64 KiB are kept.
    pub fn head(&self, n_bytes: usize) -> &[u8] {
        let head = if self.head.is_empty() { &self.buffer } else { &self.head };
        head.get(..n_bytes).unwrap_or(head)
    }

    /// Appends a record, which `encode` writes to a buffer.
    ///
    /// # Errors
    /// Errors of `encode`; `Io` if the file cannot be written.
    pub fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        encode(&mut self.buffer).map_err(|error| error.in_file(&*self.name))?;
        self.n_records += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            if self.head.is_empty() {
                self.head.extend_from_slice(&self.buffer[..HEAD_BYTES]);
            }
            self.packer.write(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// `Io` if that fails; then the file does not exist.
    pub fn finish(mut self) -> Result<Written> {
        self.packer.write(&self.buffer)?;
        let (mut out, packed) = self.packer.finish()?;
        out.flush().map_err(|cause| cannot("write", Path::new(&self.name), cause))?;
        drop(out);
        self.fresh.commit()?;
        Ok(Written { records: self.n_records, bytes: packed.bytes, packed_bytes: packed.packed_bytes })
    }
}

/// A pool of packing threads: one for each core.
///
/// # Errors
/// `Io` if the system cannot create threads.
pub fn usual_pool() -> Result<Arc<Pool>> {
    Ok(Pool::new(std::thread::available_parallelism().map_or(1, usize::from))?)
}

/// Number of good records in an output that had `n_before` records before a batch and has `n_written` after it: those before
/// the first damage among the findings of the batch. If the batch's records are not written one for one, none of them counts
/// as good.
pub fn n_good(findings: &[Finding], span: &Span, n_before: u64, n_written: u64) -> u64 {
    let damage = findings.iter().find(|finding| finding.is_damage());
    let Some(record) = damage.and_then(|finding| finding.place.record) else { return n_before };
    let n_records = u64::from(span.records);
    let before = record.saturating_sub(span.first_record);
    match n_written.saturating_sub(n_before) {
        _ if before >= n_records => n_written,
        n if n == n_records => n_before + before,
        _ => n_before,
    }
}

/// Reads the records of an edit's source, limited to the selected threads, up to damage if that must be refused. `write`
/// takes each batch and returns the number of records written so far.
///
/// # Errors
/// Errors of reading and of `write`; damage that the edit does not allow.
pub fn copy_records(
    trace: &dyn Trace,
    scan: &Scan,
    job: &TransformJob<'_>,
    progress: &dyn Progress,
    mut write: impl FnMut(&Batch) -> Result<u64>,
) -> Result<Reading> {
    let (mut reader, mut intake) = (trace.scan(scan)?, Intake::new(job.damaged).strict(job.strict));
    let threads = &job.opening.threads;
    let (mut packed_bytes, mut n_written) = (0, 0);
    loop {
        let batch = match reader.read() {
            Ok(Some(batch)) => batch,
            read => {
                intake.end(read.map(drop), SoFar::unvouched(n_written))?;
                break;
            }
        };
        progress.go_on()?;
        let mut findings = std::mem::take(&mut batch.findings);
        let n_before = n_written;
        if threads.is_empty() || threads.contains(&batch.span.thread) {
            n_written = write(batch)?;
        }
        let n_good = n_good(&findings, &batch.span, n_before, n_written);
        if let Err(refused) = intake.take(&mut findings, SoFar::unvouched(n_good)) {
            return Err(intake.read_on(refused, || {
                progress.go_on()?;
                Ok(reader.read()?.map(|batch| std::mem::take(&mut batch.findings)))
            }));
        }
        let records = batch.span.records.into();
        let now = reader.packed_bytes().unwrap_or(packed_bytes);
        progress.advance(records, now.saturating_sub(packed_bytes));
        packed_bytes = now.max(packed_bytes);
    }
    let reading = intake.finish();
    match reading.nothing_left().filter(|_| n_written == 0) {
        Some(error) => Err(error),
        None => Ok(reading),
    }
}

#[cfg(test)]
mod tests {
    use super::n_good;
    use quipu_model::{Finding, Place, Severity, Span};

    #[test]
    fn records_before_damage_are_good() {
        let finding = |severity, record| {
            let place = Place { record, ..Place::default() };
            Finding::new("records/odd", severity, place, "odd".to_owned())
        };
        let span = Span { first_record: 100, records: 5, ..Span::default() };
        let good = |found: &[Finding]| n_good(found, &span, 70, 75);
        assert_eq!(good(&[finding(Severity::Error, Some(105))]), 75);
        assert_eq!(good(&[finding(Severity::Warning, Some(101)), finding(Severity::Error, Some(106))]), 75);
        assert_eq!(good(&[finding(Severity::Error, Some(104))]), 74);
        assert_eq!(good(&[finding(Severity::Error, Some(100))]), 70);
        assert_eq!(good(&[finding(Severity::Error, None)]), 70);
        assert_eq!(good(&[]), 70);
        // Some of the records were left out.
        assert_eq!(n_good(&[finding(Severity::Error, Some(104))], &span, 70, 74), 70);
        assert_eq!(n_good(&[finding(Severity::Error, Some(105))], &span, 70, 74), 74);
    }
}
