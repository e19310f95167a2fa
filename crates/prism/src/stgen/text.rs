//! Files of threads as text, in both versions.
//!
//! SPEC: prism.md#text-files

use super::Options;
use super::log::{Access, Computation, Edge, Log, text_code};
use super::ranges::{Range, Ranges};
use crate::event::{Sync, sync};
use crate::fault::{Error, Result};
use crate::files::{Files, NewFile};
use quipu_source::{PackOptions, Packer, Packing, Pool};
use std::sync::Arc;

/// Size of the buffer of lines in bytes, before compression.
const GATHERED_BYTES: usize = 64 << 10;

/// Format of the lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// Lines with the numbers of event and thread.
    One,
    /// Lines without these numbers, and with a trailing blank.
    Two,
}

/// A compressed output file. Threads of a pool compress it.
pub(super) struct Packed {
    file: Option<Packer<NewFile>>,
}

/// Compression level: the fastest, since lines are produced faster than zlib's default level can compress.
const LEVEL: u8 = 1;

impl Packed {
    pub(super) fn create(files: &Files, pool: &Arc<Pool>, name: &str) -> Result<Packed> {
        let options = PackOptions { packing: Packing::Gzip, level: Some(LEVEL) };
        // There may be hundreds of threads, so blocks are small.
        let file = Packer::new(files.create(name)?, pool, &options).in_small_blocks();
        Ok(Packed { file: Some(file) })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write(bytes).map_err(Error::other)
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let (file, _) = file.finish().map_err(Error::other)?;
        file.finish()
    }
}

/// A text file of a thread.
pub struct Text {
    version: Version,
    thread: u64,
    lines: Vec<u8>,
    file: Packed,
}

impl Text {
    /// Creates the file of a thread.
    ///
    /// # Errors
    /// Returns an error if it cannot be created.
    pub fn create(options: &Options, pool: &Arc<Pool>, thread: u64, version: Version) -> Result<Text> {
        let file = Packed::create(&options.out, pool, &format!("sigil.events.out-{thread}.gz"))?;
        Ok(Text { version, thread, lines: Vec::with_capacity(GATHERED_BYTES + 4096), file })
    }

    /// Begins a line: the numbers of event and thread in version 1, `sign` in version 2.
    fn begin(&mut self, event: u64, sign: &[u8]) {
        match self.version {
            Version::One => {
                self.number(event);
                self.lines.push(b',');
                self.number(self.thread);
            }
            Version::Two => self.lines.extend_from_slice(sign),
        }
    }

    fn end(&mut self) -> Result<()> {
        self.lines.push(b'\n');
        if self.lines.len() >= GATHERED_BYTES {
            self.file.write(&self.lines)?;
            self.lines.clear();
        }
        Ok(())
    }

    fn number(&mut self, number: u64) {
        decimal(number, &mut self.lines);
    }

    /// Adds the counts of a computation.
    fn counts(&mut self, event: u64, counts: [u64; 4]) {
        self.begin(event, b"@ ");
        for (index, count) in counts.into_iter().enumerate() {
            if index > 0 || self.version == Version::One {
                self.lines.push(b',');
            }
            self.number(count);
        }
    }

    /// Adds a sign and a range. Version 1 puts a blank before each part, version 2 after it.
    fn range(&mut self, sign: u8, range: Range) {
        self.mark(sign);
        hex(range.start, &mut self.lines);
        self.lines.push(b' ');
        hex(range.end, &mut self.lines);
        self.blank();
    }

    fn mark(&mut self, sign: u8) {
        if self.version == Version::One {
            self.lines.push(b' ');
        }
        self.lines.extend_from_slice(&[sign, b' ']);
    }

    fn blank(&mut self) {
        if self.version == Version::Two {
            self.lines.push(b' ');
        }
    }

    fn ranges(&mut self, sign: u8, ranges: &Ranges) {
        for range in ranges.iter() {
            self.range(sign, range);
        }
    }

    fn edge(&mut self, writer: u64, event: u32, range: Range) {
        self.mark(b'#');
        self.number(writer);
        self.lines.push(b' ');
        self.number(u64::from(event));
        self.lines.push(b' ');
        hex(range.start, &mut self.lines);
        self.lines.push(b' ');
        hex(range.end, &mut self.lines);
        self.blank();
    }
}

impl Log for Text {
    fn compute(&mut self, event: u64, of: &Computation<'_>) -> Result<()> {
        self.counts(event, [of.iops, of.flops, of.reads, of.writes]);
        self.blank();
        self.ranges(b'$', of.written);
        self.ranges(b'*', of.read);
        self.end()
    }

    fn communicate(&mut self, event: u64, edges: &[Edge]) -> Result<()> {
        self.begin(event, b"");
        for edge in edges {
            for range in edge.ranges.iter() {
                self.edge(edge.writer, edge.event, range);
            }
        }
        self.end()
    }

    fn plain(&mut self, event: u64, iops: u64, flops: u64, access: Access) -> Result<()> {
        match access {
            Access::None => self.counts(event, [iops, flops, 0, 0]),
            Access::Read(range) => {
                self.counts(event, [iops, flops, 1, 0]);
                self.blank();
                self.range(b'*', range);
            }
            Access::Write(range) => {
                self.counts(event, [iops, flops, 0, 1]);
                self.blank();
                self.range(b'$', range);
            }
        }
        self.end()
    }

    fn plain_edge(&mut self, event: u64, writer: u64, written: u32, range: Range) -> Result<()> {
        self.begin(event, b"");
        self.edge(writer, written, range);
        self.end()
    }

    fn sync(&mut self, event: u64, sync: &Sync) -> Result<()> {
        let Some(code) = text_code(sync.kind) else { return Ok(()) };
        self.begin(event, b"^ ");
        if self.version == Version::One {
            self.lines.extend_from_slice(b",pth_ty:");
        }
        self.number(u64::from(code));
        self.lines.push(b'^');
        hex(sync.data, &mut self.lines);
        if sync.kind == sync::WAIT {
            self.lines.push(b'&');
            hex(sync.second.unwrap_or(0), &mut self.lines);
        }
        self.end()
    }

    fn marker(&mut self, instructions: u64) -> Result<()> {
        self.lines.extend_from_slice(b"! ");
        self.number(instructions);
        self.end()
    }

    fn finish(&mut self) -> Result<()> {
        self.file.write(&self.lines)?;
        self.lines.clear();
        self.file.finish()
    }
}

fn decimal(number: u64, out: &mut Vec<u8>) {
    /// The numbers below 100, with two digits each.
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut n = 0;
        while n < 100 {
            pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
            n += 1;
        }
        pairs
    };
    let (mut digits, mut at, mut left) = ([0; 20], 20, number);
    while left >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(left % 100) as usize]);
        left /= 100;
    }
    if left > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + left as u8; // A digit.
    }
    out.extend_from_slice(&digits[at..]);
}

fn hex(number: u64, out: &mut Vec<u8>) {
    let (mut digits, mut at, mut left) = ([0; 18], 18, number);
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(left & 0xf) as usize];
        left >>= 4;
        if left == 0 {
            break;
        }
    }
    at -= 2;
    digits[at..at + 2].copy_from_slice(b"0x");
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        let mut numbers: Vec<u64> = (0..2000).chain((0..64).map(|bit| 1 << bit)).collect();
        numbers.extend((1..20).flat_map(|power| [10_u64.pow(power) - 1, 10_u64.pow(power)]));
        numbers.push(u64::MAX);
        for number in numbers {
            let (mut text, mut out) = (format!("{number} "), Vec::new());
            text += &format!("{number:#x}");
            decimal(number, &mut out);
            out.push(b' ');
            hex(number, &mut out);
            assert_eq!(String::from_utf8(out), Ok(text));
        }
    }
}
