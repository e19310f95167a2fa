//! Principal buffers: consecutive records, in rings that may have wrapped.
//!
//! SPEC: dtrace.md#principal-buffer

use crate::describe::{Buffer, Capture, Dialect, Enabling};
use quipu_model::{Error, Place, Result};

/// A record of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Record<'c> {
    /// The enabling of the record.
    pub enabling: &'c Enabling,
    /// Position of the enabling in the capture.
    pub position: u32,
    /// Time of the traced host in nanoseconds; 0 for dialects without times.
    pub time: u64,
    /// Offset of the record in the file.
    pub offset: usize,
    /// The bytes of the record, including its header.
    pub bytes: &'c [u8],
}

/// A position in a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    at: usize,
    end: usize,
    /// Length of the part to read after `end`: the newer part of a ring that has wrapped.
    rest: usize,
    is_over: bool,
}

impl Cursor {
    /// The position before the oldest record.
    pub fn new(buffer: &Buffer) -> Cursor {
        Cursor { at: buffer.oldest, end: buffer.bytes.len(), rest: buffer.oldest, is_over: false }
    }

    /// Offset at which the next record is expected.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Number of bytes not read yet.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.at) + self.rest
    }

    /// Reads the next record. After an error, there are no more records.
    ///
    /// # Errors
    /// `Malformed` for an EPID without a description: records do not contain their length, so nothing after it can be read.
    /// `Truncated` for an incomplete record.
    #[inline]
    pub fn next_record<'c>(
        &mut self,
        capture: &'c Capture,
        buffer: &'c Buffer,
    ) -> Result<Option<Record<'c>>> {
        loop {
            if self.is_over {
                return Ok(None);
            }
            let word = capture.order.u32_at(&buffer.bytes[..self.end.min(buffer.bytes.len())], self.at);
            let Some(epid) = word else {
                // Continuing in the newer part of the ring would change how its bytes are read.
                if self.at < self.end {
                    return Err(self.stop_in_word(buffer));
                }
                if self.rest == 0 {
                    self.is_over = true;
                    return Ok(None);
                }
                *self = Cursor { at: 0, end: std::mem::take(&mut self.rest), ..*self };
                continue;
            };
            // Words of zeros align records.
            if epid == 0 {
                self.at += 4;
                continue;
            }
            let Some((position, enabling)) = capture.enabling(epid) else {
                return Err(self.stop(buffer, epid, None));
            };
            let size = enabling.size.max(capture.dialect.header_bytes()) as usize;
            let bytes = match self.at.checked_add(size) {
                Some(end) if end <= self.end => &buffer.bytes[self.at..end],
                _ => return Err(self.stop(buffer, epid, Some(size))),
            };
            let time = match capture.dialect {
                Dialect::Classic => {
                    let word = |at| u64::from(capture.order.u32_at(bytes, at).unwrap_or(0));
                    word(4) << 32 | word(8)
                }
                _ => 0,
            };
            let offset = self.at;
            self.at += size;
            return Ok(Some(Record { enabling, position, time, offset, bytes }));
        }
    }

    /// The error for a buffer that ends within a word.
    #[cold]
    fn stop_in_word(&mut self, buffer: &Buffer) -> Error {
        self.is_over = true;
        let left = self.end - self.at;
        let place =
            Place { file: Some(buffer.file.clone()), offset: Some(self.at as u64), ..Place::default() };
        Error::truncated(format!("{left} bytes are left, fewer than the number of a record has")).at(&place)
    }

    /// The error for a buffer that cannot be read any further.
    #[cold]
    fn stop(&mut self, buffer: &Buffer, epid: u32, size: Option<usize>) -> Error {
        self.is_over = true;
        let place =
            Place { file: Some(buffer.file.clone()), offset: Some(self.at as u64), ..Place::default() };
        let left = self.left();
        let error = match size {
            None => Error::malformed(format!(
                "EPID {epid} has no description, so that its length is unknown; {left} bytes are skipped"
            )),
            Some(size) => Error::truncated(format!(
                "a record of EPID {epid} has {size} bytes, {} are left",
                self.end.saturating_sub(self.at)
            )),
        };
        error.at(&place)
    }
}

/// Bytes of a buffer that belong to it, without gaps: descriptions, and the unused end of a ring.
pub(crate) fn n_own_bytes(capture: &Capture, buffer: &Buffer) -> u64 {
    let gaps = &buffer.gaps;
    let mut n: usize = gaps.iter().map(|gap| gap.end.min(buffer.bytes.len()).saturating_sub(gap.start)).sum();
    if n == 0 {
        return buffer.bytes.len() as u64;
    }
    // If the positions of gaps are unknown, the whole buffer is declared as one gap, so records inside gaps are subtracted.
    let mut cursor = Cursor::new(buffer);
    while let Ok(Some(record)) = cursor.next_record(capture, buffer) {
        let end = record.offset + record.bytes.len();
        let first = gaps.partition_point(|gap| gap.end <= record.offset);
        let within = gaps[first..].iter().take_while(|gap| gap.start < end);
        n -= within.map(|gap| gap.end.min(end) - gap.start.max(record.offset)).sum::<usize>();
    }
    (buffer.bytes.len() - n) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::Rec;

    fn capture() -> Capture {
        let enabling =
            Enabling { id: 1, probe: 1, uarg: 0, size: 16, align: 4, recs: Vec::<Rec>::new(), host: 0 };
        let mut capture = Capture { enablings: vec![enabling], ..Capture::default() };
        capture.index();
        capture
    }

    fn record(time: u32) -> Vec<u8> {
        [1, 0, time, time].iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
    }

    #[test]
    fn rings_are_read_from_the_oldest_record() {
        let capture = capture();
        let mut bytes = record(3);
        bytes.extend(record(1));
        bytes.extend([0; 4]);
        bytes.extend(record(2));
        let buffer = Buffer { bytes, oldest: 16, ..Buffer::default() };
        let mut cursor = Cursor::new(&buffer);
        let mut times = Vec::new();
        while let Some(record) = cursor.next_record(&capture, &buffer).unwrap() {
            times.push(record.time);
        }
        assert_eq!(times, [1, 2, 3]);
    }

    #[test]
    fn bytes_of_a_buffer_are_those_of_no_gap_but_for_records() {
        let capture = capture();
        let bytes = [record(1), vec![0; 24], record(2)].concat();
        let own = |gaps: &[(usize, usize)]| {
            let gaps = gaps.iter().map(|(start, end)| *start..*end).collect();
            n_own_bytes(&capture, &Buffer { bytes: bytes.clone(), gaps, ..Buffer::default() })
        };
        assert_eq!(own(&[]), 56);
        assert_eq!(own(&[(16, 40)]), 32);
        assert_eq!(own(&[(20, 24), (30, 40)]), 42);
        assert_eq!(own(&[(0, 56)]), 32);
        assert_eq!(own(&[(8, 20), (36, 44)]), 48);
    }

    #[test]
    fn a_ring_that_ends_within_a_word_is_reported() {
        let capture = capture();
        let mut bytes = record(2);
        bytes.extend(record(1));
        bytes.extend([0; 3]);
        let buffer = Buffer { bytes, oldest: 16, file: "buf".to_owned(), ..Buffer::default() };
        let mut cursor = Cursor::new(&buffer);
        assert_eq!(cursor.next_record(&capture, &buffer).unwrap().map(|record| record.time), Some(1));
        let error = cursor.next_record(&capture, &buffer).unwrap_err();
        assert!(error.to_string().contains("offset 0x20: 3 bytes are left"), "{error}");
    }

    #[test]
    fn an_unknown_number_is_reported_at_its_offset() {
        let capture = capture();
        let mut bytes = record(1);
        bytes.extend(9u32.to_le_bytes());
        bytes.extend([0; 12]);
        let buffer = Buffer { bytes, file: "buf".to_owned(), ..Buffer::default() };
        let mut cursor = Cursor::new(&buffer);
        assert!(cursor.next_record(&capture, &buffer).unwrap().is_some());
        let error = cursor.next_record(&capture, &buffer).unwrap_err();
        assert_eq!(
            error.to_string(),
            "buf: offset 0x10: EPID 9 has no description, so that its length is unknown; 16 bytes are skipped"
        );
        assert!(cursor.next_record(&capture, &buffer).unwrap().is_none());
    }
}
