//! A trace of graphics calls of any length: the calls of a real one, repeated.
//!
//! Signatures are written once, as in a real trace; call numbers continue from one repetition to the next. Calls of several
//! threads are written one after the other, in the order in which they ended.

use anyhow::{Context, Result, bail};
use quipu::apitrace::encode::{self, Encoder};
use quipu::apitrace::pack::StreamWriter;
use quipu::apitrace::reader::CallReader;
use quipu::apitrace::trace::{self, Packing};
use quipu::model::{Columns, Reader, Scan, ShardId};
use quipu::source::Source;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes the trace and prints its counts.
pub(super) fn run(template: &Path, out: &Path, n_calls: u64) -> Result<()> {
    let trace = trace::open(&Source::open(template)?, &Default::default())?;
    let packing = match out.extension().and_then(|ending| ending.to_str()) {
        Some("zst") => Packing::SeekableZstd,
        Some("gz") => Packing::Gzip,
        Some("br") => Packing::Brotli,
        Some("plain") => Packing::Plain,
        _ => Packing::Snappy,
    };
    let file = BufWriter::new(File::create(out).with_context(|| out.display().to_string())?);
    let mut writer = StreamWriter::new(file, packing, None)?;
    let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
    encode::header(trace.header(), &mut bytes);
    let (mut n_written, mut n_bytes) = (0, 0);
    while n_written < n_calls {
        let before = n_written;
        let scan = Scan::new(ShardId(0)).columns(Columns::CALL_VALUES);
        let mut reader = CallReader::new(trace.container(), &scan)?;
        while let Some(batch) = reader.read()? {
            for call in &batch.values.calls {
                encoder.call(call, &batch.values, &batch.types, &mut bytes);
                n_written += 1;
            }
            writer.write(&bytes)?;
            n_bytes += bytes.len();
            bytes.clear();
        }
        if n_written == before {
            bail!("there are no calls to repeat in {}", template.display());
        }
    }
    writer.finish()?.flush()?;
    println!("{}: {n_written} calls, {n_bytes} bytes of stream", out.display());
    Ok(())
}
