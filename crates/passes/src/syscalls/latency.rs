//! Latencies of calls: sum, extremes, and a histogram by powers of two.

use quipu_model::result;

result! {
    /// Latencies of the calls that have one, in ticks of the trace's clock.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Latency {
        pub timed: u64 => "Number of calls with a latency.";
        pub total_ticks: u64 => "Sum of all latencies, in ticks.";
        pub mean_ticks: f64 => "Mean latency, in ticks.";
        pub min_ticks: u64 => "Shortest latency, in ticks.";
        pub max_ticks: u64 => "Longest latency, in ticks.";
        pub histogram: Vec<LatencyBin> => "Calls by latency; empty bins are left out.";
    }
}

result! {
    /// Calls within a range of latencies.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LatencyBin {
        pub from_ticks: u64 => "Shortest latency of the bin, in ticks.";
        pub to_ticks: u64 => "Longest latency of the bin, in ticks.";
        pub count: u64 => "Number of calls.";
    }
}

/// Latencies so far. The sum saturates, as a damaged clock may have any value.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    /// Number of latencies by the number of bits that they need.
    bins: Vec<u64>,
    total: u64,
    ends: Option<(u64, u64)>,
}

impl Latencies {
    pub(super) fn add(&mut self, ticks: u64) {
        let bits = (u64::BITS - ticks.leading_zeros()) as usize; // At most 64.
        self.count(bits, 1);
        self.total = self.total.saturating_add(ticks);
        self.cover(ticks, ticks);
    }

    fn count(&mut self, bits: usize, n: u64) {
        if self.bins.len() <= bits {
            self.bins.resize(bits + 1, 0);
        }
        self.bins[bits] += n;
    }

    fn cover(&mut self, min: u64, max: u64) {
        let (low, high) = self.ends.unwrap_or((min, max));
        self.ends = Some((low.min(min), high.max(max)));
    }

    pub(super) fn merge(&mut self, other: Latencies) {
        for (bits, n) in other.bins.into_iter().enumerate() {
            self.count(bits, n);
        }
        self.total = self.total.saturating_add(other.total);
        if let Some((min, max)) = other.ends {
            self.cover(min, max);
        }
    }

    pub(super) fn finish(self) -> Option<Latency> {
        let (min_ticks, max_ticks) = self.ends?;
        let timed: u64 = self.bins.iter().sum();
        let bin = |(bits, count): (usize, &u64)| LatencyBin {
            from_ticks: if bits == 0 { 0 } else { 1 << (bits - 1) },
            to_ticks: if bits == 0 { 0 } else { u64::MAX >> (64 - bits) },
            count: *count,
        };
        Some(Latency {
            timed,
            total_ticks: self.total,
            mean_ticks: self.total as f64 / timed as f64,
            min_ticks,
            max_ticks,
            histogram: self.bins.iter().enumerate().filter(|(_, count)| **count > 0).map(bin).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_powers_of_two_and_hold_the_extremes() {
        let mut latencies = Latencies::default();
        [0, 1, 2, 3, 4, u64::MAX].into_iter().for_each(|ticks| latencies.add(ticks));
        let latency = latencies.finish().expect("six calls");
        let bins: Vec<_> =
            latency.histogram.iter().map(|bin| (bin.from_ticks, bin.to_ticks, bin.count)).collect();
        assert_eq!(bins, [(0, 0, 1), (1, 1, 1), (2, 3, 2), (4, 7, 1), (1 << 63, u64::MAX, 1)]);
        assert_eq!((latency.timed, latency.min_ticks, latency.max_ticks), (6, 0, u64::MAX));
        assert_eq!(latency.total_ticks, u64::MAX);
    }
}
