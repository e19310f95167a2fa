//! Histograms with growing bins, and summary statistics of a distribution.

use quipu_model::options::Kind;
use quipu_model::{Error, OptionSpec, Options, Result};

/// The option for the growth of bins.
pub(crate) const OPTION: OptionSpec = OptionSpec::new(
    "bins",
    Kind::Text,
    "2",
    "ratio of the widths of consecutive histogram bins; 1 gives each number a bin of its own",
)
.value("FACTOR");

/// Bins: the first two hold one number each, 0 and 1; each further one is wider than the one before by a factor, rounded
/// down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bins {
    factor: f64,
}

impl Bins {
    pub(crate) fn new(options: &Options) -> Result<Bins> {
        let text = options.word(&OPTION);
        let factor: Option<f64> = text.parse().ok();
        let factor = factor.filter(|factor| factor.is_finite() && *factor >= 1.0);
        let factor = factor.ok_or_else(|| {
            Error::usage(format!("option `bins` wants a factor of 1 or more, found `{text}`"))
        })?;
        Ok(Bins { factor })
    }

    pub(crate) fn factor(self) -> f64 {
        self.factor
    }

    /// Calls `each` for each of the ascending numbers, with its position and the first and last number of its bin. The last
    /// bin ends at the largest number.
    pub(crate) fn each(
        self,
        numbers: impl DoubleEndedIterator<Item = u64> + Clone,
        mut each: impl FnMut(usize, u64, u64),
    ) {
        let Some(largest) = numbers.clone().next_back() else { return };
        let (mut min, mut width) = (0u64, 1.0f64);
        for (index, number) in numbers.enumerate() {
            if self.factor == 1.0 {
                min = number;
            }
            // A width that is too large saturates; so every number is reached, after a few thousand bins at worst.
            while number - min >= width as u64 {
                min = min.saturating_add(width as u64);
                width *= self.factor;
            }
            each(index, min, min.saturating_add(width as u64 - 1).min(largest));
        }
    }
}

/// Summary statistics of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Number of values.
    pub(crate) n: u64,
    pub(crate) mean: Option<f64>,
    /// The smallest value that at least half of all values do not exceed, rounded down.
    pub(crate) median: Option<u64>,
    /// The standard deviation of all values rather than of a sample.
    pub(crate) deviation: Option<f64>,
}

impl Spread {
    /// The statistics of numbers in ascending order, each with its number of occurrences.
    pub(crate) fn of(counted: impl Iterator<Item = (u64, u64)> + Clone) -> Spread {
        let n: u64 = counted.clone().map(|(_, count)| count).sum();
        if n == 0 {
            return Spread { n, mean: None, median: None, deviation: None };
        }
        let sum: f64 = counted.clone().map(|(number, count)| number as f64 * count as f64).sum();
        let mean = sum / n as f64;
        let squares = counted.clone().map(|(number, count)| (number as f64 - mean).powi(2) * count as f64);
        let deviation = (squares.sum::<f64>() / n as f64).sqrt();
        let mut so_far = 0;
        let median = counted.map(|(number, count)| {
            so_far += count;
            (number, so_far)
        });
        let median = { median }.find(|(_, so_far)| *so_far >= n / 2).map(|(number, _)| number);
        Spread { n, mean: Some(mean), median, deviation: Some(deviation) }
    }
}

/// The label of a bin.
pub(crate) fn range(min: u64, max: u64) -> String {
    if min == max { min.to_string() } else { format!("{min} to {max}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(factor: &str, numbers: &[u64]) -> Vec<(u64, u64)> {
        let mut options = Options::default();
        options.put(&OPTION, factor).unwrap();
        let mut found = Vec::new();
        Bins::new(&options).unwrap().each(numbers.iter().copied(), |_, min, max| found.push((min, max)));
        found.dedup();
        found
    }

    #[test]
    fn bins_grow_by_their_factor_and_empty_ones_are_left_out() {
        assert_eq!(bins("2", &[0, 1, 2, 3, 20, 90]), [(0, 0), (1, 2), (3, 6), (15, 30), (63, 90)]);
        let found = bins("1.5", &[0, 1, 3, 4, 7, 844]);
        assert_eq!(found, [(0, 0), (1, 1), (2, 3), (4, 6), (7, 11), (576, 844)]);
    }

    #[test]
    fn without_growth_each_number_has_its_own_bin() {
        assert_eq!(
            bins("1", &[0, 5, 1 << 60, u64::MAX]),
            [(0, 0), (5, 5), (1 << 60, 1 << 60), (u64::MAX, u64::MAX)]
        );
    }

    #[test]
    fn the_largest_numbers_are_reached() {
        assert_eq!(bins("1e300", &[0, 1, u64::MAX]), [(0, 0), (1, u64::MAX)]);
        assert_eq!(bins("1.01", &[u64::MAX]).len(), 1);
    }

    #[test]
    fn a_factor_below_one_is_refused() {
        for text in ["0.5", "nan", "inf", "x", ""] {
            let mut options = Options::default();
            options.put(&OPTION, text).unwrap();
            let message = format!("option `bins` wants a factor of 1 or more, found `{text}`");
            assert_eq!(Bins::new(&options).unwrap_err().message(), message);
        }
    }

    #[test]
    fn the_median_is_where_half_is_reached_rounded_down() {
        let spread = Spread::of([(1, 1), (7, 2)].into_iter());
        assert_eq!((spread.n, spread.mean, spread.median), (3, Some(5.0), Some(1)));
        assert_eq!(spread.deviation, Some(8f64.sqrt()));
        assert_eq!(Spread::of([].into_iter()).mean, None);
    }
}
