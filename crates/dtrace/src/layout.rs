//! The layout of records by a kernel, for writers and for tests of readers.
//!
//! SPEC: dtrace.md#layout-of-a-record

use crate::bytes::ByteOrder;
use crate::describe::{Dialect, Enabling, Rec};
use quipu_model::{Error, Result};

/// The alignment of a value of this size.
pub fn alignment(size: u32) -> u16 {
    match size {
        0 => 1,
        _ if size.is_multiple_of(8) => 8,
        _ if size.is_multiple_of(4) => 4,
        _ if size.is_multiple_of(2) => 2,
        _ => 1,
    }
}

/// Sets the offset of each part, and the size and alignment of the enabling's records.
pub fn place(enabling: &mut Enabling, dialect: Dialect) {
    let mut offset = dialect.header_bytes();
    let mut stores = false;
    for rec in &mut enabling.recs {
        rec.alignment = alignment(rec.size);
        offset = offset.next_multiple_of(u32::from(rec.alignment));
        rec.offset = offset;
        offset += rec.size;
        stores |= rec.size > 0;
    }
    enabling.align = enabling.recs.iter().map(|rec| u32::from(rec.alignment)).fold(4, u32::max);
    // A clause without actions records only the header.
    enabling.size = if stores || enabling.recs.is_empty() { offset.next_multiple_of(4) } else { 0 };
}

/// Writes the records of a CPU.
#[derive(Clone, Debug)]
pub struct BufferWriter {
    order: ByteOrder,
    dialect: Dialect,
    bytes: Vec<u8>,
}

impl BufferWriter {
    /// An empty buffer.
    pub fn new(dialect: Dialect, order: ByteOrder) -> BufferWriter {
        BufferWriter { order, dialect, bytes: Vec::new() }
    }

    /// Appends a record with these values, each as long as its part.
    ///
    /// # Errors
    /// `Usage` if the values do not match the parts; `Unsupported` for a dialect without such buffers.
    pub fn record<'v>(
        &mut self,
        enabling: &Enabling,
        time: u64,
        values: impl IntoIterator<Item = &'v [u8]>,
    ) -> Result<()> {
        if self.dialect == Dialect::Linux {
            return Err(Error::unsupported("samples of Linux are not written into buffers"));
        }
        // Words of zeros align the record.
        while !self.bytes.len().is_multiple_of(enabling.align.max(4) as usize) {
            self.bytes.extend_from_slice(&[0; 4]);
        }
        let start = self.bytes.len();
        self.order.put(&mut self.bytes, enabling.id.into(), 4);
        if self.dialect == Dialect::Classic {
            self.order.put(&mut self.bytes, time >> 32, 4);
            self.order.put(&mut self.bytes, time, 4);
        }
        self.bytes.resize(start + enabling.size.max(self.dialect.header_bytes()) as usize, 0);
        let mut values = values.into_iter();
        for rec in &enabling.recs {
            let value = values.next().filter(|value| value.len() == rec.size as usize);
            let Some(value) = value else {
                self.bytes.truncate(start);
                return Err(Error::usage(format!(
                    "EPID {}: a value of {} bytes is missing",
                    enabling.id, rec.size
                )));
            };
            let at = start + rec.offset as usize;
            self.bytes[at..at + value.len()].copy_from_slice(value);
        }
        Ok(())
    }

    /// Appends bytes unchanged.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the buffer.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The bytes of each part of a record.
pub fn values<'r>(recs: &'r [Rec], record: &'r [u8]) -> impl Iterator<Item = &'r [u8]> {
    recs.iter().map(|rec| rec.of(record))
}
