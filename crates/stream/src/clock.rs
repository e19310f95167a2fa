//! Converts ticks of a clock to Unix time, from the clock's rate and its correlations.
//!
//! SPEC: stream.md#time.

use quipu_wire::cbor::Value;
use quipu_wire::record::Clock;

/// A pair of clock ticks and Unix time taken at the same moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Correlation {
    /// Producer and epoch.
    pub from: (u64, u32),
    /// Id of the clock.
    pub clock: u32,
    /// Ticks.
    pub ticks: u64,
    /// Unix time in nanoseconds.
    pub unix_ns: i128,
    /// Uncertainty of `unix_ns` in nanoseconds.
    pub uncertainty_ns: u64,
}

impl Correlation {
    /// Reads a clock map.
    #[must_use]
    pub fn read(from: (u64, u32), map: &Value) -> Option<Correlation> {
        Some(Correlation {
            from,
            clock: u32::try_from(map.get(0)?.as_u64()?).ok()?,
            ticks: map.get(1)?.as_u64()?,
            unix_ns: map.get(2)?.as_int()?,
            uncertainty_ns: map.get(3).and_then(Value::as_u64).unwrap_or_default(),
        })
    }
}

/// Converts the ticks of one clock.
#[derive(Clone, Debug)]
pub struct Timeline {
    ticks_per_s: u64,
    start: Option<(i128, u64)>,
    /// Correlations, sorted by ticks.
    points: Vec<Correlation>,
}

impl Timeline {
    /// The timeline of a clock with all its correlations.
    #[must_use]
    pub fn new(clock: &Clock, correlations: impl IntoIterator<Item = Correlation>) -> Timeline {
        let mut points: Vec<Correlation> = correlations.into_iter().collect();
        points.sort_by_key(|point| point.ticks);
        points.dedup_by_key(|point| point.ticks);
        let start = clock.unix_ns.map(|ns| (ns.into(), clock.uncertainty_ns.unwrap_or_default()));
        Timeline { ticks_per_s: clock.ticks_per_s, start, points }
    }

    /// Unix time in nanoseconds and its uncertainty; `None` if the clock has no rate, or neither a start time nor a
    /// correlation ties it to Unix time.
    #[must_use]
    pub fn unix_ns(&self, ticks: u64) -> Option<(i128, u64)> {
        let by_rate = |from_ns: i128, from_ticks: u64| {
            let rate = i128::from(self.ticks_per_s);
            (rate > 0).then(|| {
                from_ns + ((i128::from(ticks) - i128::from(from_ticks)) * 1_000_000_000).div_euclid(rate)
            })
        };
        match self.points.as_slice() {
            [] => {
                let (ns, uncertainty) = self.start?;
                Some((by_rate(ns, 0)?, uncertainty))
            }
            [only] => Some((by_rate(only.unix_ns, only.ticks)?, only.uncertainty_ns)),
            points => {
                // Times outside all points are extrapolated from the nearest two.
                let after = points.partition_point(|point| point.ticks <= ticks).clamp(1, points.len() - 1);
                let (a, b) = (&points[after - 1], &points[after]);
                let run = i128::from(b.ticks) - i128::from(a.ticks);
                let rise = b.unix_ns.checked_sub(a.unix_ns)?;
                let along = rise.checked_mul(i128::from(ticks) - i128::from(a.ticks))?;
                Some((a.unix_ns + along.div_euclid(run), a.uncertainty_ns.max(b.uncertainty_ns)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(ticks: u64, unix_ns: i128, uncertainty_ns: u64) -> Correlation {
        Correlation { ticks, unix_ns, uncertainty_ns, ..Correlation::default() }
    }

    #[test]
    fn ticks_become_unix_time() {
        let clock = Clock { ticks_per_s: 3, unix_ns: Some(100), ..Clock::default() };
        let none = Timeline::new(&clock, []);
        assert_eq!(none.unix_ns(1), Some((100 + 333_333_333, 0)));
        let one = Timeline::new(&clock, [point(5, 1000, 7)]);
        assert_eq!(one.unix_ns(4), Some((1000 - 333_333_334, 7)), "rounded down");
        let two = Timeline::new(&clock, [point(20, 400, 9), point(10, 100, 1)]);
        assert_eq!(
            [5, 10, 15, 30].map(|ticks| two.unix_ns(ticks).unwrap()),
            [(-50, 9), (100, 9), (250, 9), (700, 9)]
        );
        let unitless = Timeline::new(&Clock::default(), []);
        assert_eq!(unitless.unix_ns(1), None);
    }
}
