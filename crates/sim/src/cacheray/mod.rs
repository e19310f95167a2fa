//! Cacheray's own simulator, reproduced with its faults, to compare results with it.
//!
//! Writes never hit and do not reach lower levels, the second line of an access lands in the wrong set, regions live for
//! ever, and offsets in elements are wrong for most addresses: see docs/formats/cacheray.md. For correct results, use
//! [`caches`](crate::caches).
//!
//! | file | what |
//! |---|---|
//! | [`mod@caches`] | configuration files, levels, events |
//! | `places` | which region holds an address |
//! | [`structs`] | regions, structures, members, remaps |
//! | [`text`] | Cacheray's output |
//! | [`tool`] | the caches as an analysis |

pub mod caches;
mod places;
pub mod structs;
pub mod text;
pub mod tool;

pub use caches::{Configuration, Event, Levels, Served};
pub use structs::Structs;
pub use tool::ModelPass;

use quipu_model::Result;

/// The whole simulator: caches, and structures if types are known.
#[derive(Clone, Debug)]
pub struct Simulator {
    /// The caches.
    pub levels: Levels,
    /// Regions, structures and their counts.
    pub structs: Structs,
    served: Served,
}

impl Simulator {
    /// A simulator with empty caches.
    pub fn new(levels: Levels, structs: Structs) -> Simulator {
        Simulator { levels, structs, served: Served::default() }
    }

    /// Simulates an access; calls `tell` with every event.
    ///
    /// # Errors
    /// `Unsupported` where Cacheray aborts.
    pub fn access(
        &mut self,
        addr: u64,
        size: u8,
        is_write: bool,
        tell: &mut impl FnMut(&str, Event),
    ) -> Result<()> {
        // Cacheray's addresses and sizes are signed.
        let (addr, size) = (addr as i64, size as i8);
        let seen = self.structs.translate(addr);
        self.levels.access(seen, size, is_write, &mut self.served, tell)?;
        self.structs.count(addr, size, is_write, &self.served);
        Ok(())
    }
}
