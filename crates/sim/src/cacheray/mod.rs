//! The model of Cacheray's own simulator, with its faults, for comparing with its results.
//!
//! Writes never hit and go to no further level, the second line of an access lands in the wrong set, regions live for ever, and
//! offsets in elements are wrong for most addresses: see docs/formats/cacheray.md. For answers, use [`caches`](crate::caches).
//!
//! | file | what |
//! |---|---|
//! | [`mod@caches`] | configuration files, levels, events |
//! | `places` | which region holds an address |
//! | [`structs`] | regions, structures, members, remaps |
//! | [`text`] | what Cacheray writes |
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

/// The whole model: caches, and structures if there are types.
#[derive(Clone, Debug)]
pub struct Simulator {
    /// The caches.
    pub levels: Levels,
    /// Regions and what they count.
    pub structs: Structs,
    served: Served,
}

impl Simulator {
    /// Empty caches, and no region.
    pub fn new(levels: Levels, structs: Structs) -> Simulator {
        Simulator { levels, structs, served: Served::default() }
    }

    /// Takes an access; `tell` hears of every event.
    ///
    /// # Errors
    /// `Unsupported` where Cacheray ends its run.
    pub fn access(
        &mut self,
        addr: u64,
        size: u8,
        is_write: bool,
        tell: &mut impl FnMut(&str, Event),
    ) -> Result<()> {
        // Cacheray's addresses and sizes have a sign.
        let (addr, size) = (addr as i64, size as i8);
        let seen = self.structs.translate(addr);
        self.levels.access(seen, size, is_write, &mut self.served, tell)?;
        self.structs.count(addr, size, is_write, &self.served);
        Ok(())
    }
}
