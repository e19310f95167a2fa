//! The levels of caches that data goes through, from the cores to memory.

use crate::machine::Machine;
use crate::report::level_name;
use crate::spec::MachineSpec;
use quipu_model::Result;

/// Names and caches of each level.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    pub(super) names: Vec<String>,
    caches: Vec<Vec<usize>>,
    /// Level of each cache; `None` for caches of instructions only.
    of_cache: Vec<Option<usize>>,
}

impl Levels {
    /// The levels of a machine.
    ///
    /// # Errors
    /// `Usage` if the description of the machine is inconsistent.
    pub(super) fn of(spec: &MachineSpec) -> Result<Levels> {
        let layout = spec.layout()?;
        let mut of_cache = vec![None; spec.caches.len()];
        let mut caches: Vec<Vec<usize>> = Vec::new();
        for [_, data] in &layout.first {
            let (mut at, mut level) = (Some(*data), 0);
            while let Some(cache) = at {
                if of_cache[cache].is_none_or(|known| known < level) {
                    of_cache[cache] = Some(level);
                }
                at = layout.parent[cache];
                level += 1;
            }
        }
        for (cache, level) in of_cache.iter().enumerate() {
            let Some(level) = level else { continue };
            if caches.len() <= *level {
                caches.resize(level + 1, Vec::new());
            }
            caches[*level].push(cache);
        }
        let name = |(level, caches): (usize, &Vec<usize>)| {
            level_name(level, caches.iter().map(|cache| spec.caches[*cache].name.as_str()))
        };
        let names = caches.iter().enumerate().map(name).collect();
        Ok(Levels { names, caches, of_cache })
    }

    /// Number of levels.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// The level of a cache; `None` for caches of instructions only.
    #[inline]
    pub(super) fn level(&self, cache: u32) -> Option<usize> {
        self.of_cache.get(cache as usize).copied().flatten()
    }

    /// Misses of a machine by level, without prefetches.
    pub(super) fn misses(&self, machine: &Machine) -> Vec<u64> {
        let of = |caches: &Vec<usize>| caches.iter().map(|cache| machine.counts(*cache).misses).sum();
        self.caches.iter().map(of).collect()
    }
}
