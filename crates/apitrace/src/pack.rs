//! Writes a stream into the containers that apitrace reads.
//!
//! SPEC: apitrace.md#containers.

use crate::trace::Packing;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use zstd::bulk::Compressor;

/// Inflated size of each snappy chunk but the last, as the tracer writes them.
const CHUNK_BYTES: usize = 1 << 20;
/// Inflated size of each Zstandard frame but the last.
const FRAME_BYTES: usize = 2 << 20;
/// Binary logarithm of Brotli's window size.
const BROTLI_WINDOW: u32 = 24;
/// Size of Brotli's input buffer.
const BROTLI_BUFFER_BYTES: usize = 64 << 10;

/// Writes a stream into a container.
pub struct StreamWriter<W: Write>(Kind<W>);

enum Kind<W: Write> {
    Plain(W),
    Snappy {
        out: W,
        buffer: Vec<u8>,
        encoder: Box<snap::raw::Encoder>,
    },
    /// `table` holds the packed and inflated size of each frame.
    Zstd {
        out: W,
        buffer: Vec<u8>,
        compressor: Compressor<'static>,
        table: Vec<(u32, u32)>,
        is_seekable: bool,
    },
    Gzip(GzEncoder<W>),
    Brotli(Box<brotli::CompressorWriter<Minding<W>>>),
}

/// The range of compression levels of a packing, and the default level; `None` if it has no levels.
pub fn levels(packing: Packing) -> Option<(std::ops::RangeInclusive<u32>, u32)> {
    match packing {
        Packing::Snappy | Packing::Plain => None,
        Packing::Gzip => Some((1..=9, 9)),
        Packing::SeekableZstd | Packing::Zstd => Some((1..=22, 3)),
        Packing::Brotli => Some((0..=11, 11)),
    }
}

impl<W: Write> StreamWriter<W> {
    /// Begins a file. A level out of range is clamped.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(mut out: W, packing: Packing, level: Option<u32>) -> io::Result<StreamWriter<W>> {
        let level = match levels(packing) {
            Some((range, usual)) => level.unwrap_or(usual).clamp(*range.start(), *range.end()),
            None => 0,
        };
        Ok(StreamWriter(match packing {
            Packing::Plain => Kind::Plain(out),
            Packing::Snappy => {
                out.write_all(b"at")?;
                Kind::Snappy { out, buffer: Vec::new(), encoder: Box::new(snap::raw::Encoder::new()) }
            }
            Packing::SeekableZstd | Packing::Zstd => {
                let mut compressor = Compressor::new(level as i32)?; // At most 22.
                // Only the checksum reveals damage that inflates without error to other bytes.
                compressor.include_checksum(true)?;
                let is_seekable = packing == Packing::SeekableZstd;
                Kind::Zstd { out, buffer: Vec::new(), compressor, table: Vec::new(), is_seekable }
            }
            Packing::Gzip => Kind::Gzip(GzEncoder::new(out, flate2::Compression::new(level))),
            Packing::Brotli => Kind::Brotli(Box::new(brotli::CompressorWriter::new(
                Minding { out, failure: None },
                BROTLI_BUFFER_BYTES,
                level,
                BROTLI_WINDOW,
            ))),
        }))
    }

    /// Appends bytes of the stream.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Kind::Plain(out) => return out.write_all(bytes),
            Kind::Gzip(out) => return out.write_all(bytes),
            Kind::Brotli(out) => return out.write_all(bytes),
            Kind::Snappy { .. } | Kind::Zstd { .. } => {}
        }
        while !bytes.is_empty() {
            let (buffer, limit) = match &mut self.0 {
                Kind::Snappy { buffer, .. } => (buffer, CHUNK_BYTES),
                Kind::Zstd { buffer, .. } => (buffer, FRAME_BYTES),
                _ => return Ok(()),
            };
            let taken = bytes.len().min(limit - buffer.len());
            buffer.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if buffer.len() == limit {
                self.flush_block()?;
            }
        }
        Ok(())
    }

    /// Writes the buffered bytes as a block of their own, if there are any.
    fn flush_block(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Snappy { out, buffer, encoder } if !buffer.is_empty() => {
                let block = encoder.compress_vec(buffer).map_err(io::Error::other)?;
                out.write_all(&(block.len() as u32).to_le_bytes())?; // Little more than a mebibyte.
                out.write_all(&block)?;
                buffer.clear();
            }
            Kind::Zstd { buffer, .. } if !buffer.is_empty() => self.write_frame()?,
            _ => {}
        }
        Ok(())
    }

    /// Writes the buffered bytes as a frame, even if there are none.
    fn write_frame(&mut self) -> io::Result<()> {
        if let Kind::Zstd { out, buffer, compressor, table, .. } = &mut self.0 {
            let frame = compressor.compress(buffer)?;
            out.write_all(&frame)?;
            table.push((frame.len() as u32, buffer.len() as u32)); // Little more than two mebibytes.
            buffer.clear();
        }
        Ok(())
    }

    /// Writes the remaining bytes and returns the inner writer.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_block()?;
        // A file without a frame would not be recognised as Zstandard.
        if matches!(&self.0, Kind::Zstd { table, .. } if table.is_empty()) {
            self.write_frame()?;
        }
        match self.0 {
            Kind::Plain(out) | Kind::Snappy { out, .. } => Ok(out),
            Kind::Gzip(out) => out.finish(),
            Kind::Brotli(out) => {
                // `into_inner` ends the stream, and hides errors of doing so.
                let inner = out.into_inner();
                match inner.failure {
                    Some(failure) => Err(failure),
                    None => Ok(inner.out),
                }
            }
            Kind::Zstd { mut out, table, is_seekable, .. } => {
                if is_seekable {
                    out.write_all(&seek_table(&table))?;
                }
                Ok(out)
            }
        }
    }
}

/// A writer that remembers its first error.
struct Minding<W> {
    out: W,
    failure: Option<io::Error>,
}

impl<W: Write> Minding<W> {
    fn mind<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.failure.get_or_insert_with(|| match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            });
        }
        done
    }
}

impl<W: Write> Write for Minding<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.mind(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.mind(done)
    }
}

/// The skippable frame that lists the sizes of the frames before it.
fn seek_table(frames: &[(u32, u32)]) -> Vec<u8> {
    let n_frames = frames.len() as u32; // Each is two mebibytes.
    let mut table = 0x184d_2a5e_u32.to_le_bytes().to_vec();
    table.extend(n_frames.wrapping_mul(8).wrapping_add(9).to_le_bytes());
    for (packed, inflated) in frames {
        table.extend(packed.to_le_bytes());
        table.extend(inflated.to_le_bytes());
    }
    table.extend(n_frames.to_le_bytes());
    table.push(0);
    table.extend(0x8f92_eab1_u32.to_le_bytes());
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device with room for this many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0 {
                0 => Err(io::ErrorKind::StorageFull.into()),
                room => {
                    let taken = bytes.len().min(room);
                    self.0 -= taken;
                    Ok(taken)
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_device_is_an_error_in_every_container() {
        let noise: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for packing in [
            Packing::Snappy,
            Packing::SeekableZstd,
            Packing::Zstd,
            Packing::Gzip,
            Packing::Brotli,
            Packing::Plain,
        ] {
            let done = StreamWriter::new(Full(3000), packing, Some(1)).and_then(|mut writer| {
                writer.write(&noise)?;
                writer.finish().map(drop)
            });
            assert!(done.is_err(), "{packing:?}");
        }
    }
}
