//! SimpleCount: counts events of each kind.
//!
//! SPEC: prism.md#simplecount

use crate::batch::At;
use crate::detail::Detail;
use crate::event::{Compute, Context, Control, Memory, Sync, context, format, sync};
use crate::fault::Result;
use crate::hooks::Hooks;
use std::fmt;

/// Counts of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // The names are those of the printed lines.
pub struct SimpleCount {
    pub compute: u64,
    pub iop: u64,
    pub flop: u64,
    pub memory: u64,
    pub reads: u64,
    pub writes: u64,
    pub swap: u64,
    /// Synchronization events except swaps.
    pub sync: u64,
    /// Synchronization events by type.
    pub syncs: [u64; 16],
    pub control: u64,
    pub instructions: u64,
    /// Context events, including instructions.
    pub context: u64,
}

impl SimpleCount {
    /// Adds the counts of another stream.
    pub fn add(&mut self, other: &SimpleCount) {
        let pairs = [
            (&mut self.compute, other.compute),
            (&mut self.iop, other.iop),
            (&mut self.flop, other.flop),
            (&mut self.memory, other.memory),
            (&mut self.reads, other.reads),
            (&mut self.writes, other.writes),
            (&mut self.swap, other.swap),
            (&mut self.sync, other.sync),
            (&mut self.control, other.control),
            (&mut self.instructions, other.instructions),
            (&mut self.context, other.context),
        ];
        pairs.into_iter().for_each(|(sum, count)| *sum += count);
        self.syncs.iter_mut().zip(other.syncs).for_each(|(sum, count)| *sum += count);
    }
}

impl Hooks for SimpleCount {
    fn needs(&self) -> Detail {
        Detail { memory: Detail::TYPE, compute: Detail::TYPE, control: 0, sync: 0, context: 0 }
    }

    #[inline]
    fn on_compute(&mut self, _: At, event: &Compute) -> Result<()> {
        self.compute += 1;
        self.iop += u64::from(event.format == Some(format::INTEGER));
        self.flop += u64::from(event.format == Some(format::FLOAT));
        Ok(())
    }

    #[inline]
    fn on_memory(&mut self, _: At, event: &Memory) -> Result<()> {
        self.memory += 1;
        self.reads += u64::from(event.is_load());
        self.writes += u64::from(event.is_store());
        Ok(())
    }

    #[inline]
    fn on_sync(&mut self, _: At, event: &Sync) -> Result<()> {
        if event.kind == sync::SWAP {
            self.swap += 1;
        } else {
            self.sync += 1;
        }
        if let Some(count) = self.syncs.get_mut(usize::from(event.kind)) {
            *count += 1;
        }
        Ok(())
    }

    #[inline]
    fn on_context(&mut self, _: At, event: &Context, _: &[u8]) -> Result<()> {
        self.context += 1;
        self.instructions += u64::from(event.kind == context::INSTRUCTION);
        Ok(())
    }

    #[inline]
    fn on_control_flow(&mut self, _: At, _: &Control) -> Result<()> {
        self.control += 1;
        Ok(())
    }
}

impl fmt::Display for SimpleCount {
    /// Prints the 19 lines of Prism's back end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |kind: u8| self.syncs[usize::from(kind)];
        let lines = [
            ("Compute", self.compute),
            ("IOP", self.iop),
            ("FLOP", self.flop),
            ("Memory", self.memory),
            ("ReadMem", self.reads),
            ("WriteMem", self.writes),
            ("Swap", self.swap),
            ("Sync", self.sync),
            ("Spawn", of(sync::CREATE)),
            ("Join", of(sync::JOIN)),
            ("Lock", of(sync::LOCK)),
            ("Unlock", of(sync::UNLOCK)),
            ("Barrier", of(sync::BARRIER)),
            ("Wait", of(sync::WAIT)),
            ("Signal", of(sync::SIGNAL)),
            ("Broadcast", of(sync::BROADCAST)),
            ("CntlFlow", self.control),
            ("Instr", self.instructions),
            ("Context", self.context),
        ];
        lines
            .iter()
            .try_for_each(|(name, count)| writeln!(f, "[SimpleCount] Total {name:<9} Events: {count}"))
    }
}
