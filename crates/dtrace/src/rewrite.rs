//! `convert`: writes a capture as a self-describing stream, or as a buffer with its descriptions.

use crate::buffer::n_own_bytes;
use crate::build::producer_of;
use crate::carry::Encoded;
use crate::describe::{Buffer, Capture};
use crate::{carry, export, input, linux, lost, meta, mid, origin, rules, trace};
use quipu_model::damaged::{Intake, SoFar};
use quipu_model::fresh::{Fresh, cannot};
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, Finding, Result};
use quipu_source::Source;
use std::io::{self, BufWriter, Write};

/// File name extension of a stream.
const STREAM: &str = "quipu";

/// File name extension of a bare buffer.
const BUFFER: &str = "midbuf";

/// The verb `convert`.
#[derive(Debug)]
pub struct Convert;

/// The option for the encoding of records in streams.
const ENCODING: OptionSpec = OptionSpec::new(
    "encoding",
    Kind::Choice(&["plain", "dense"]),
    "plain",
    "Encoding of DTrace records in a stream: as they are, or as differences and runs, which the stream announces.",
);

/// The option for the CPU whose bare buffer is written.
const CPU: OptionSpec =
    OptionSpec::new("cpu", Kind::Count, "", "The CPU whose records go to NAME.midbuf, if there are several.");

/// The option for the name of the recorded machine.
const HOST: OptionSpec = OptionSpec::new(
    "host",
    Kind::Text,
    "as captured",
    "Name of the recorded machine, for streams and bare buffers; it distinguishes captures of two machines that are \
     otherwise the same.",
)
.value("NAME");

static INFO: TransformInfo = TransformInfo {
    name: "convert",
    title: "the same capture as a stream (NAME.quipu, or a pipe such as /dev/stdout), as a buffer with its descriptions in \
            it (NAME.midbuf), or as a folder (a name without ending)",
    options: &[ENCODING, CPU, HOST],
};

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Stream,
    Buffer,
    Folder,
}

impl Transform for Convert {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let form = match job.output.extension().and_then(|ending| ending.to_str()) {
            Some(STREAM) => Form::Stream,
            Some(BUFFER) => Form::Buffer,
            // A pipe has no extension, and cannot be a folder.
            None if std::fs::metadata(job.output).is_ok_and(|of| !of.is_dir() && !of.is_file()) => {
                Form::Stream
            }
            None => Form::Folder,
            Some(_) => {
                let message =
                    format!("the name of the output ends neither with `.{STREAM}` nor with `.{BUFFER}`");
                return Err(Error::usage(message).hint("a name without an ending is that of a folder"));
            }
        };
        let encoded = match job.options.text(&ENCODING) {
            Some(name) if name.eq_ignore_ascii_case("dense") => Encoded::Dense,
            _ => Encoded::Plain,
        };
        if job.options.has(&CPU) && form != Form::Buffer {
            return Err(Error::usage("`--cpu` is for bare buffers").hint(format!("write NAME.{BUFFER}")));
        }
        if encoded != Encoded::Plain && form != Form::Stream {
            return Err(Error::usage("`--encoding` is for streams").hint(format!("write NAME.{STREAM}")));
        }
        if job.options.has(&HOST) && form == Form::Folder {
            let hint = format!("write NAME.{STREAM} or NAME.{BUFFER}");
            return Err(
                Error::usage("a folder has no room for the name of the machine (`--host`)").hint(hint)
            );
        }
        write(job, progress, form, encoded)
    }
}

/// The verb `merge`: captures of several machines or runs as one.
#[derive(Debug)]
pub struct Merge;

static MERGING: TransformInfo = TransformInfo {
    name: "merge",
    title: "captures of several machines or runs (streams in a folder, or one after the other) as one (NAME.quipu), whose \
            aggregations are merged",
    options: &[],
};

impl Transform for Merge {
    fn info(&self) -> &'static TransformInfo {
        &MERGING
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        if job.output.extension().is_none_or(|ending| ending != STREAM) {
            return Err(Error::usage(format!("what is merged is a stream: write NAME.{STREAM}")));
        }
        write(job, progress, Form::Stream, Encoded::Plain)
    }
}

fn write(
    job: &TransformJob<'_>,
    progress: &dyn Progress,
    form: Form,
    encoded: Encoded,
) -> Result<Transformed> {
    if let Some(container) = job.container {
        let what = format!("captures of DTrace are written without a container; `{container}` was asked for");
        return Err(Error::usage(what));
    }
    let mut capture = trace::load(job.source, job.opening)?;
    if let Some(name) = job.options.text(&HOST) {
        if name.is_empty() {
            let hint = "without `--host` the capture keeps the name that it has, or has none";
            return Err(Error::usage("`--host` needs the name of a machine, and has none").hint(hint));
        }
        if capture.machine.as_ref().is_some_and(|known| known != name) {
            let known = capture.machine.as_deref().unwrap_or_default();
            let message = format!("`{name}` is not the name of the machine that was recorded, `{known}`");
            return Err(Error::usage(message));
        }
        capture.machine = Some(name.to_owned());
    }
    let mut notes = take_beside(job.source, &mut capture)?;
    progress.go_on()?;
    let mut intake = Intake::new(job.damaged).strict(job.strict);
    // Drops, and records that cannot be printed, are not damage of the capture; they are written, too.
    let mut wrong = capture.findings.clone();
    wrong.retain(|finding| {
        ![rules::DROPS.name, rules::LOST.name, rules::FORMAT.name].contains(&&*finding.rule)
    });
    intake.take(&mut wrong.clone(), SoFar::unvouched(0))?;
    if wrong.iter().any(Finding::is_damage) {
        lost::declare(&mut capture, &wrong);
    }
    let producer = producer_of(&capture);
    let failed = |cause| cannot("write", job.output, cause);
    notes.extend(losses(&capture, form, job.options.number(&CPU)));
    let all = capture.buffers.iter().chain(&capture.states);
    let mut n_buffers = all.clone().count();
    let mut n_bytes = all.map(|of| n_own_bytes(&capture, of)).sum::<u64>();
    let mut n_written = 0;
    match form {
        Form::Folder => {
            let (fresh, folder) = Fresh::folder(job.output, job.replace.into(), &is_of_capture)?;
            for (name, bytes) in export::files(&capture) {
                progress.go_on()?;
                let mut file = folder.create(&folder.join(name))?;
                file.write_all(&bytes).map_err(failed)?;
                n_written += bytes.len() as u64;
            }
            folder.judge()?;
            fresh.commit()?;
        }
        Form::Stream => {
            let (fresh, file) = Fresh::file(job.output, job.replace.into())?;
            let out = Counted { inner: BufWriter::new(file), n_bytes: 0 };
            let mut out = carry::write(&capture, producer, encoded, out)?;
            out.flush().map_err(failed)?;
            n_written = out.n_bytes;
            drop(out);
            fresh.commit()?;
        }
        Form::Buffer => {
            let cpu = job.options.number(&CPU);
            let buffer = buffer_of(&capture, cpu)?;
            n_buffers = capture.buffers.iter().filter(|of| of.cpu == buffer.cpu).count();
            n_bytes = n_own_bytes(&capture, &buffer);
            let bytes = mid::write(&capture, &buffer, producer)?;
            n_written = bytes.len() as u64;
            let (fresh, mut file) = Fresh::file(job.output, job.replace.into())?;
            file.write_all(&bytes).map_err(failed)?;
            drop(file);
            fresh.commit()?;
        }
    }
    let facts = vec![
        Fact::new("buffers", "buffers", n_buffers),
        Fact::new("bytes", "bytes of the buffers", n_bytes),
        Fact::new("packed_bytes", "bytes that were written", n_written),
    ];
    Ok(Transformed { facts, notes, reading: intake.finish(), ..Transformed::default() })
}

/// Counts the bytes written, because a pipe has no size.
struct Counted<W> {
    inner: W,
    n_bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.n_bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The buffer of a CPU, or of the only one; buffers of several hosts are joined.
fn buffer_of(capture: &Capture, cpu: Option<u64>) -> Result<Buffer> {
    let of_cpu = |buffer: &&Buffer| cpu.is_none_or(|cpu| u64::from(buffer.cpu) == cpu);
    let buffers: Vec<&Buffer> = capture.buffers.iter().filter(of_cpu).collect();
    match (cpu, buffers.as_slice()) {
        (Some(cpu), []) => Err(Error::usage(format!("the capture has no buffer of CPU {cpu}"))),
        (_, [first, rest @ ..]) if rest.iter().all(|buffer| buffer.cpu == first.cpu) => {
            Ok(rest.iter().fold((*first).clone(), |before, next| before.then(next)))
        }
        _ => {
            let n = buffers.len();
            let message = format!("a bare buffer is of one CPU, the capture has {n} buffers");
            Err(Error::unsupported(message).hint(format!("choose one with `--cpu`, or write NAME.{STREAM}")))
        }
    }
}

/// Maximum total size of further files of a capture's folder, in bytes.
const MAX_BESIDE_BYTES: u64 = 64 << 20;

/// Adds the further files of a folder to the capture; returns notes about those that are left out.
fn take_beside(source: &Source, capture: &mut Capture) -> Result<Vec<String>> {
    if !source.is_folder() || trace::has_streams(source) {
        return Ok(Vec::new());
    }
    let mut left = MAX_BESIDE_BYTES;
    let mut notes = Vec::new();
    for file in source.files()? {
        let name = file.name().rsplit('/').next().unwrap_or_default().to_owned();
        let mut buffers = capture.buffers.iter().chain(&capture.states);
        if trace::FILES.contains(&&*name) || buffers.any(|buffer| buffer.file == name) {
            continue;
        }
        let bytes = match file.is_folder() || !origin::is_plain(&name) {
            true => None,
            false => input::as_it_lies(&file, left)?,
        };
        match bytes {
            Some(bytes) => {
                left -= bytes.len() as u64;
                capture.beside.push((name, bytes));
            }
            None => notes.push(format!("`{name}` is left out")),
        }
    }
    Ok(notes)
}

/// Whether a file may be in the folder of a capture, so that the folder can be replaced.
fn is_of_capture(path: &std::path::Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let is_buffer = (name.starts_with("buf.cpu") || name.starts_with("agg.cpu")) && name.ends_with(".bin");
    is_buffer || [meta::FILE, linux::FILE, linux::OPTIONS].contains(&&*name)
}

/// Notes about the parts of a capture that the output form cannot represent.
fn losses(capture: &Capture, form: Form, cpu: Option<u64>) -> Vec<String> {
    if form == Form::Folder {
        let machine = capture.machine.as_ref();
        return machine
            .map(|name| format!("no room for the name of the machine, `{name}`"))
            .into_iter()
            .collect();
    }
    let mut notes = Vec::new();
    let mut lose = |n: u64, what: &str| {
        if n > 0 {
            notes.push(format!("no room for {what}: {n} left out"));
        }
    };
    if form == Form::Buffer {
        let n_others = cpu.map_or(0, |cpu| {
            let others = capture.buffers.iter().filter(|buffer| u64::from(buffer.cpu) != cpu);
            others.count() as u64
        });
        lose(n_others, "buffers of other CPUs");
        lose(capture.states.len() as u64, "buffers of aggregations");
        lose(capture.beside.len() as u64, "further files");
    }
    notes
}
