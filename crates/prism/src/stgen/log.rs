//! What a thread's file takes, whatever its form.

use super::ranges::{Range, Ranges};
use crate::event::{Sync, sync};
use crate::fault::Result;

/// A computation with its accesses.
#[derive(Clone, Copy, Debug)]
pub struct Computation<'a> {
    /// Operations on integers.
    pub iops: u64,
    /// Operations on floating-point numbers.
    pub flops: u64,
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// Addresses that were written.
    pub written: &'a Ranges,
    /// Addresses that were read.
    pub read: &'a Ranges,
}

/// Bytes that another thread wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The thread.
    pub writer: u64,
    /// Its event.
    pub event: u32,
    /// The bytes.
    pub ranges: Ranges,
}

/// The access of a computation in plain mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// None.
    None,
    /// A load.
    Read(Range),
    /// A store.
    Write(Range),
}

/// A thread's file. `event` is the number of the event.
pub trait Log {
    /// A computation.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn compute(&mut self, event: u64, computation: &Computation<'_>) -> Result<()>;

    /// Bytes of other threads.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn communicate(&mut self, event: u64, edges: &[Edge]) -> Result<()>;

    /// A computation in plain mode.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn plain(&mut self, event: u64, iops: u64, flops: u64, access: Access) -> Result<()>;

    /// Bytes of another thread in plain mode.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn plain_edge(&mut self, event: u64, writer: u64, written: u32, range: Range) -> Result<()>;

    /// A synchronization.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn sync(&mut self, event: u64, sync: &Sync) -> Result<()>;

    /// A marker: this many instructions passed.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn marker(&mut self, instructions: u64) -> Result<()>;

    /// The end.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn finish(&mut self) -> Result<()>;
}

/// No file.
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

/// The number of a synchronization in text. None of those that the back end drops.
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
