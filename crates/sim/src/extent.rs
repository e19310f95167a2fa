//! Which records count: some are left out, some only warm the caches, so many are simulated. SPEC: 15.4.
//!
//! All are counted in records that are no markers. The original lets the records to simulate run out during warm-up, too;
//! here so many are simulated behind it.

/// When statistics begin.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Warmup {
    /// At once.
    #[default]
    None,
    /// Behind so many records.
    Refs(u64),
    /// When every last cache has filled this share of its places.
    Fraction(f64),
}

/// The part of the records that a simulation is about.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Extent {
    /// Records left out first.
    pub skip: u64,
    /// When statistics begin.
    pub warmup: Warmup,
    /// Records simulated with statistics; `None` for all.
    pub take: Option<u64>,
}

impl Extent {
    /// True if no record has to be counted.
    pub fn is_all(&self) -> bool {
        self.skip == 0 && self.take.is_none() && self.is_warm()
    }

    /// True if statistics have begun.
    pub fn is_warm(&self) -> bool {
        matches!(self.warmup, Warmup::None | Warmup::Refs(0))
    }

    /// Whether the next record is simulated.
    pub(crate) fn wants(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        !(self.is_warm() && self.take == Some(0))
    }

    /// One record was simulated; true if statistics begin behind it.
    pub(crate) fn simulated(&mut self, is_filled: impl FnOnce(f64) -> bool) -> bool {
        match &mut self.warmup {
            Warmup::Refs(left) if *left > 0 => {
                *left -= 1;
                *left == 0
            }
            Warmup::Fraction(share) => {
                let is_over = is_filled(*share);
                if is_over {
                    self.warmup = Warmup::None;
                }
                is_over
            }
            _ => {
                if let Some(left) = &mut self.take {
                    *left -= 1;
                }
                false
            }
        }
    }
}
