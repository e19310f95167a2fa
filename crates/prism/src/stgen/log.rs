//! The interface of a thread's file, for all formats.

use super::ranges::{Range, Ranges};
use crate::event::{Sync, sync};
use crate::fault::Result;

/// A computation with its accesses.
#[derive(Clone, Copy, Debug)]
pub struct Computation<'a> {
    /// Number of integer operations.
    pub iops: u64,
    /// Number of floating-point operations.
    pub flops: u64,
    /// Number of loads.
    pub reads: u64,
    /// Number of stores.
    pub writes: u64,
    /// Addresses written.
    pub written: &'a Ranges,
    /// Addresses read.
    pub read: &'a Ranges,
}

/// Bytes read that another thread wrote in one event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The thread that wrote.
    pub writer: u64,
    /// Number of its event.
    pub event: u32,
    /// Addresses of the bytes.
    pub ranges: Ranges,
}

/// The access of a computation in plain mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// No access.
    None,
    /// A load.
    Read(Range),
    /// A store.
    Write(Range),
}

/// A thread's file. `event` is the number of the event in the thread.
pub trait Log {
    /// Writes a computation.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn compute(&mut self, event: u64, computation: &Computation<'_>) -> Result<()>;

    /// Writes reads of bytes that other threads wrote.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn communicate(&mut self, event: u64, edges: &[Edge]) -> Result<()>;

    /// Writes a computation in plain mode.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn plain(&mut self, event: u64, iops: u64, flops: u64, access: Access) -> Result<()>;

    /// Writes a read of bytes that another thread wrote, in plain mode.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn plain_edge(&mut self, event: u64, writer: u64, written: u32, range: Range) -> Result<()>;

    /// Writes a synchronization.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn sync(&mut self, event: u64, sync: &Sync) -> Result<()>;

    /// Writes a marker after this many instructions.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn marker(&mut self, instructions: u64) -> Result<()>;

    /// Completes the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn finish(&mut self) -> Result<()>;
}

/// A log that discards everything.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Log for Nothing {
    fn compute(&mut self, _: u64, _: &Computation<'_>) -> Result<()> {
        Ok(())
    }

    fn communicate(&mut self, _: u64, _: &[Edge]) -> Result<()> {
        Ok(())
    }

    fn plain(&mut self, _: u64, _: u64, _: u64, _: Access) -> Result<()> {
        Ok(())
    }

    fn plain_edge(&mut self, _: u64, _: u64, _: u32, _: Range) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self, _: u64, _: &Sync) -> Result<()> {
        Ok(())
    }

    fn marker(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The number of a synchronization in text files; `None` for those that the back end drops.
pub(super) fn text_code(kind: u8) -> Option<u8> {
    Some(match kind {
        sync::LOCK => 1,
        sync::UNLOCK => 2,
        sync::CREATE => 3,
        sync::JOIN => 4,
        sync::BARRIER => 5,
        sync::WAIT => 6,
        sync::SIGNAL => 7,
        sync::BROADCAST => 8,
        sync::SPIN_LOCK => 9,
        sync::SPIN_UNLOCK => 10,
        _ => return None,
    })
}

/// The number of a synchronization in messages.
pub(super) fn message_code(kind: u8) -> Option<u16> {
    Some(match kind {
        sync::CREATE => 0,
        sync::JOIN => 1,
        sync::BARRIER => 2,
        sync::SYNC => 3,
        sync::LOCK => 4,
        sync::UNLOCK => 5,
        sync::WAIT => 6,
        sync::SIGNAL => 7,
        sync::BROADCAST => 8,
        sync::SPIN_LOCK => 9,
        sync::SPIN_UNLOCK => 10,
        _ => return None,
    })
}
