//! A trace of any length for benchmarks: one thread of a real trace, repeated.
//!
//! The result is valid: chunks, footers, ordinals and duplicated time stamps follow docs/formats/drmemtrace.md, each chunk
//! has the encodings of its own instructions, and time increases. Repetition cannot add variety: the working set stays that
//! of the template, and the archive compresses better than that of a long run would.

mod calls;
mod template;
mod zip;

use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use template::{CPU_ID, Entry, Step, TIMESTAMP, Template, marker};
use zip::ZipWriter;

/// The trace that is repeated: the longest thread of the fixture with nine threads. It begins with a signal, so the format
/// allows the jump from the end of one repetition to the beginning of the next.
const TEMPLATE: &str = "traces/drmemtrace/threadsig.x64/drmemtrace.threadsig.872884.3060.trace.zip";

/// Instructions in a chunk by default, as in DynamoRIO's tools.
const CHUNK_INSTRS: u64 = 10_000_000;

/// How to build the trace.
#[derive(Args)]
pub(crate) struct Options {
    /// The file to write, or with `--threads` the folder.
    #[arg(long)]
    out: PathBuf,
    /// Minimum number of entries; each file ends at the next instruction where it may.
    #[arg(long, required_unless_present = "apitrace", default_value_t = 0, hide_default_value = true)]
    entries: u64,
    /// Repeat the calls of this trace of graphics calls instead, in any container; the extension of the output selects its
    /// container: `.zst`, `.gz`, `.br`, `.plain`, and snappy otherwise.
    #[arg(long, value_name = "TRACE", requires = "calls")]
    apitrace: Option<PathBuf>,
    /// Minimum number of calls; the last repetition is complete.
    #[arg(long)]
    calls: Option<u64>,
    /// Instructions in each chunk of the archive.
    #[arg(long, default_value_t = CHUNK_INSTRS, value_parser = clap::value_parser!(u64).range(1..))]
    chunk_instrs: u64,
    /// Write a folder with this many threads, one file each.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=9999))]
    threads: Option<u64>,
    /// Write bare entries instead of zip archives.
    #[arg(long)]
    plain: bool,
}

/// Writes the trace and prints its counts.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    if let (Some(template), Some(n_calls)) = (&options.apitrace, options.calls) {
        return calls::run(template, &options.out, n_calls);
    }
    let path = root.join(TEMPLATE);
    let packed = fs::read(&path).with_context(|| path.display().to_string())?;
    let template = Template::read(&packed).context(TEMPLATE)?;
    let mut written = Written::default();
    match options.threads {
        None => written.add(&write_file(&options.out, &template, options, 0, options.entries)?),
        Some(threads) => {
            fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
            for thread in 0..threads {
                let ending = if options.plain { "trace" } else { "trace.zip" };
                let name = format!("drmemtrace.big.{:06}.0000.{ending}", template.thread + thread);
                let entries = options.entries.div_ceil(threads);
                written.add(&write_file(&options.out.join(name), &template, options, thread, entries)?);
            }
        }
    }
    println!(
        "{}: {} entries, {} records, {} instructions, {} chunks, {} bytes of entries",
        options.out.display(),
        written.entries,
        written.records,
        written.instrs,
        written.chunks,
        written.entries * 12
    );
    Ok(())
}

/// Counts of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Written {
    entries: u64,
    records: u64,
    instrs: u64,
    chunks: u64,
}

impl Written {
    fn add(&mut self, other: &Written) {
        self.entries += other.entries;
        self.records += other.records;
        self.instrs += other.instrs;
        self.chunks += other.chunks;
    }
}

fn write_file(
    path: &Path,
    template: &Template,
    options: &Options,
    thread: u64,
    entries: u64,
) -> Result<Written> {
    let file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
    let out = if options.plain { Out::Plain(file) } else { Out::Zip(Box::new(ZipWriter::new(file))) };
    Repeater::new(template, out, options.chunk_instrs, thread)
        .run(entries)
        .with_context(|| path.display().to_string())
}

/// Destination of the entries.
enum Out<W: Write + std::io::Seek> {
    Plain(W),
    Zip(Box<ZipWriter<W>>),
}

/// Writes one thread's file entry by entry and keeps the counts that chunks need.
struct Repeater<'a, W: Write + std::io::Seek> {
    template: &'a Template,
    out: Out<W>,
    chunk_instrs: u64,
    /// Index of the thread among those written.
    thread: u64,
    written: Written,
    instrs_in_chunk: u64,
    /// By address number: the encoding that the current chunk has given, as an index into the template's codes.
    given: Vec<Option<u32>>,
    timestamp: u64,
    cpu: u64,
}

impl<'a, W: Write + std::io::Seek> Repeater<'a, W> {
    fn new(template: &'a Template, out: Out<W>, chunk_instrs: u64, thread: u64) -> Self {
        Repeater {
            template,
            out,
            chunk_instrs,
            thread,
            written: Written::default(),
            instrs_in_chunk: 0,
            given: vec![None; template.n_pcs],
            timestamp: 0,
            cpu: 0,
        }
    }

    /// Writes the header, repetitions of the body and the trailer: at least `entries` entries.
    fn run(mut self, entries: u64) -> Result<Written> {
        self.open_chunk()?;
        self.header()?;
        let mut may_stop = false;
        // Threads start a microsecond apart, so that merging them by time has work to do.
        for repetition in 0.. {
            let later = self.thread + repetition * self.template.duration;
            for step in &self.template.steps {
                if may_stop && step.is_instr() && self.written.entries >= entries {
                    return self.trailer();
                }
                self.step(step, later)?;
                if step.is_instr() {
                    may_stop = !step.is_branch();
                }
            }
        }
        bail!("the template has no instruction to stop at")
    }

    fn header(&mut self) -> Result<()> {
        for entry in &self.template.header {
            let mut entry = *entry;
            match (entry.kind(), entry.size()) {
                (template::THREAD, _) => entry.set_value(self.template.thread + self.thread),
                (template::MARKER, template::CHUNK_INSTR_COUNT) => entry.set_value(self.chunk_instrs),
                _ => {}
            }
            self.put(entry)?;
        }
        Ok(())
    }

    /// Writes one entry of the body, preceded by its encoding and branch target where needed; `later` is added to time
    /// stamps.
    fn step(&mut self, step: &Step, later: u64) -> Result<()> {
        let mut entry = step.entry;
        if step.is_instr() {
            if matches!(self.out, Out::Zip(_)) && self.instrs_in_chunk >= self.chunk_instrs {
                self.next_chunk()?;
            }
            if let Some(code) = step.code {
                let template = self.template;
                let code_of_pc = &mut self.given[template.codes[code as usize].pc];
                if *code_of_pc != Some(code) {
                    *code_of_pc = Some(code);
                    for piece in &template.codes[code as usize].pieces {
                        self.put(*piece)?;
                    }
                }
            }
            if let Some(target) = step.target {
                self.put(target)?;
            }
            self.instrs_in_chunk += u64::from(step.counts());
            self.written.instrs += u64::from(step.counts());
        } else if entry.kind() == template::MARKER {
            if entry.size() == TIMESTAMP {
                entry.set_value(entry.value() + later);
                self.timestamp = entry.value();
            } else if entry.size() == CPU_ID {
                self.cpu = entry.value();
            }
        }
        self.put(entry)
    }

    /// Ends a chunk and begins the next one with its ordinal and copies of the last time stamp and processor.
    fn next_chunk(&mut self) -> Result<()> {
        self.put(marker(template::CHUNK_FOOTER, self.written.chunks - 1))?;
        self.open_chunk()?;
        self.put(marker(template::RECORD_ORDINAL, self.written.records))?;
        let records = self.written.records;
        self.put(marker(TIMESTAMP, self.timestamp))?;
        self.put(marker(CPU_ID, self.cpu))?;
        self.written.records = records; // Readers skip the copies.
        self.given.fill(None);
        self.instrs_in_chunk = 0;
        Ok(())
    }

    fn open_chunk(&mut self) -> Result<()> {
        if let Out::Zip(zip) = &mut self.out {
            zip.start(&format!("chunk.{:08}", self.written.chunks))?;
        }
        self.written.chunks += 1;
        Ok(())
    }

    fn trailer(mut self) -> Result<Written> {
        self.put(Entry::new(template::THREAD_EXIT, 4, self.template.thread + self.thread))?;
        self.put(Entry::new(template::FOOTER, 0, 0))?;
        match self.out {
            Out::Plain(mut file) => file.flush()?,
            Out::Zip(zip) => zip.finish()?.flush()?,
        }
        Ok(self.written)
    }

    fn put(&mut self, entry: Entry) -> Result<()> {
        self.written.entries += 1;
        self.written.records += u64::from(entry.is_record());
        match &mut self.out {
            Out::Plain(file) => file.write_all(&entry.0)?,
            Out::Zip(zip) => zip.write(&entry.0)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
