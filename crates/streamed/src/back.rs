//! Restores the files that a stream carries, byte for byte: for traces that their own formats do not write.

use quipu_model::damaged::{Damaged, Intake, SoFar};
use quipu_model::fresh::{Folder, Fresh, cannot};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed, packing_for};
use quipu_model::{Error, ErrorKind, Finding, Format, Found, Place, Result, Scan, Severity};
use quipu_source::{Codec, Packer, Pool, Source, StreamOptions};
use std::io::{BufWriter, Write};

/// `convert` of a carried trace: writes a single file in the requested container, and the files of a folder unchanged.
pub struct OutOfStream {
    /// The format of the trace. Where bytes of the stream are damaged, its reader determines which records are lost.
    pub format: &'static dyn Format,
}

static INFO: TransformInfo =
    TransformInfo { name: "convert", title: "the files that a stream carries", options: &[] };

impl Transform for OutOfStream {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        if !job.opening.threads.is_empty() {
            return Err(Error::usage("what a stream carries is written as a whole"));
        }
        let (source, output) = (job.source, job.output);
        let mut intake = Intake::new(job.damaged).strict(job.strict);
        // Findings from reading the records are not repeated for the bytes.
        let mut of_bytes = None;
        if !source.is_folder() && !is_readable(source, progress)? && say_lost(self.format, job, &mut intake)?
        {
            of_bytes = Some(Intake::new(Damaged::Keep));
        }
        let (n_files, n_bytes) = match source.is_folder() {
            true => {
                let (fresh, folder) = Fresh::folder(output, job.replace.into(), &|_| false)?;
                let written = put_folder(source, &folder, progress, &mut intake)?;
                folder.judge()?;
                fresh.commit()?;
                written
            }
            false => {
                let packing = packing_for(job.container, job.level, output)?;
                let pool = Pool::new(job.threads)?;
                let (fresh, file) = Fresh::file(output, job.replace.into())?;
                let mut packer = Packer::new(BufWriter::new(file), &pool, &packing);
                packer.member(source.name().rsplit('/').next().unwrap_or_default())?;
                let into = of_bytes.as_mut().unwrap_or(&mut intake);
                let n_bytes = copy(source, progress, into, |block| Ok(packer.write(block)?))?;
                let (mut file, _) = packer.finish()?;
                file.flush().map_err(|cause| cannot("write", output, cause))?;
                drop(file);
                fresh.commit()?;
                (1, n_bytes)
            }
        };
        let facts = vec![Fact::new("files", "files", n_files), Fact::new("bytes", "bytes", n_bytes)];
        Ok(Transformed { facts, reading: intake.finish(), ..Transformed::default() })
    }
}

/// Reads all records of a trace and hands its findings to `intake`. Returns false if `format` does not recognise the source
/// as a trace.
pub(crate) fn say_lost(format: &dyn Format, job: &TransformJob<'_>, intake: &mut Intake) -> Result<bool> {
    let trace = match format.open(job.source, job.opening) {
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(false),
        opened => opened?,
    };
    let mut found = Found::default();
    trace.meta().findings.iter().cloned().for_each(|finding| found.push(finding));
    let read = trace.shards().iter().try_for_each(|shard| {
        let mut reader = trace.scan(&Scan::new(shard.id).columns(trace.columns()))?;
        found.read(&mut *reader, |_| Ok(()))
    });
    intake.take_all(&mut found.into_vec(), SoFar::default(), read, SoFar::default())?;
    Ok(true)
}

/// Whether all bytes of a file can be read.
fn is_readable(file: &Source, progress: &dyn Progress) -> Result<bool> {
    let container = file.container_as(Codec::Plain)?;
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let mut block = Vec::new();
    loop {
        progress.go_on()?;
        match stream.next(&mut block) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        }
    }
}

/// Writes the files of a folder into another, and returns their number and their bytes.
fn put_folder(
    source: &Source,
    folder: &Folder,
    progress: &dyn Progress,
    intake: &mut Intake,
) -> Result<(u64, u64)> {
    let mut sum = (0, 0);
    for file in source.files()? {
        let name = file.name().rsplit('/').next().unwrap_or_default();
        let path = folder.join(name);
        let (n_files, n_bytes) = match file.is_folder() {
            true => {
                std::fs::create_dir(&path).map_err(|cause| cannot("create", &path, cause))?;
                put_folder(&file, &folder.within(name), progress, intake)?
            }
            false => {
                let mut output = folder.create(&path)?;
                let put =
                    |block: &[u8]| output.write_all(block).map_err(|cause| cannot("write", &path, cause));
                (1, copy(&file, progress, intake, put)?)
            }
        };
        sum = (sum.0 + n_files, sum.1 + n_bytes);
    }
    Ok(sum)
}

/// Passes the bytes of a file to `put`, up to the first unreadable one, and returns how many there were. Damage goes to
/// `intake`, which fails unless damaged outputs are kept.
fn copy(
    file: &Source,
    progress: &dyn Progress,
    intake: &mut Intake,
    mut put: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    // Attachments stay packed; bodies are stored unpacked.
    let container = file.container_as(Codec::Plain)?;
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let (mut block, mut n_bytes, mut n_lines) = (Vec::new(), 0, 0);
    loop {
        progress.go_on()?;
        match stream.next(&mut block) {
            Ok(Some(_)) => put(&block)?,
            Ok(None) => return Ok(n_bytes),
            Err(cause) if cause.carrier().is_some_and(|damage| damage.is_beside) => {
                let finding = Finding::new("", Severity::Error, Place::default(), String::new());
                intake.take(&mut vec![finding.by_carrier(&cause)], SoFar::unvouched(n_lines))?;
                return Ok(n_bytes);
            }
            Err(cause) => {
                intake.end(Err(cause.into()), SoFar::unvouched(n_lines))?;
                return Ok(n_bytes);
            }
        }
        n_bytes += block.len() as u64;
        n_lines += block.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}
