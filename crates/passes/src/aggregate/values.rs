//! The state of each function for each group: vectors indexed by the number of the group.

use super::exact::{Exact, Wide};
use super::spec::{Function, Spec};
use quipu_expr::{Data, Vector};
use quipu_model::buckets::quantize_cell;

/// The reason why a value cannot be aggregated, with its row.
pub(super) struct Refused {
    pub(super) row: usize,
    pub(super) message: &'static str,
}

const SUM: &str = "the sum has more than 127 bits";
const SQUARES: &str = "the number has more than 64 bits, so that its square cannot be added";
const CELLS: &str = "`quantize` takes numbers of 63 bits with a sign";

/// Values of one aggregation.
#[derive(Clone, Debug)]
pub(super) enum Values {
    Count(Vec<u64>),
    /// For `sum` and `avg`.
    Sums(Vec<Sum>),
    FloatSums(Vec<FloatSum>),
    /// For `min` and `max`; the function decides which.
    Extremes(Vec<Option<i128>>),
    FloatExtremes(Vec<Option<f64>>),
    Moments(Vec<Moments>),
    FloatMoments(Vec<FloatMoments>),
    Histograms(Vec<Histogram>),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) n: u64,
    pub(super) sum: i128,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FloatSum {
    pub(super) n: u64,
    pub(super) sum: Exact,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    n: u64,
    sum: i128,
    squares: Wide,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FloatMoments {
    n: u64,
    sum: Exact,
    squares: Exact,
}

/// Nonzero cells, by number. Most keys have one, which is stored inline.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    first: (u32, u64),
    more: Vec<(u32, u64)>,
}

impl Histogram {
    #[inline]
    fn add(&mut self, cell: u32, n: u64) {
        if self.first.0 == cell || self.first.1 == 0 {
            self.first.0 = cell;
            self.first.1 += n;
        } else {
            self.add_more(cell, n);
        }
    }

    fn add_more(&mut self, cell: u32, n: u64) {
        match self.more.binary_search_by_key(&cell, |(known, _)| *known) {
            Ok(at) => self.more[at].1 += n,
            Err(at) => self.more.insert(at, (cell, n)),
        }
    }

    /// The nonzero cells, ascending.
    pub(super) fn cells(&self) -> Vec<(u32, u64)> {
        let first = Some(self.first).filter(|(_, n)| *n > 0);
        let mut cells: Vec<(u32, u64)> = first.into_iter().chain(self.more.iter().copied()).collect();
        cells.sort_unstable();
        cells
    }

    pub(super) fn total(&self) -> u64 {
        self.first.1 + self.more.iter().map(|(_, n)| n).sum::<u64>()
    }
}

impl Moments {
    /// The standard deviation of all values.
    pub(super) fn deviation(&self) -> Option<f64> {
        if self.n == 0 {
            return None;
        }
        // n times the sum of squares, less the square of the sum, is exact; the sum of squares has 192 bits at most.
        let square = Wide::product(self.sum.unsigned_abs(), self.sum.unsigned_abs());
        let n = self.n as f64;
        Some(self.squares.times(self.n).minus(square).to_f64().sqrt() / n)
    }
}

impl FloatMoments {
    pub(super) fn deviation(&self) -> Option<f64> {
        if self.n == 0 {
            return None;
        }
        let n = self.n as f64;
        let mean = self.sum.value() / n;
        Some((self.squares.value() / n - mean * mean).max(0.0).sqrt())
    }
}

/// Calls `take` with each row that has a whole number; returns the number of rows that have none.
fn each_int(
    values: &Vector<'_>,
    groups: &[u32],
    mut take: impl FnMut(usize, i128) -> Result<(), &'static str>,
) -> Result<u64, Refused> {
    let refused = |row| move |message| Refused { row, message };
    // PERF: sizes and addresses are in one slice, without rows that lack a value.
    if let (Data::U64(cells), None) = (&values.data, &values.valid) {
        for (row, (cell, group)) in cells.iter().zip(groups).enumerate() {
            take(*group as usize, i128::from(*cell)).map_err(refused(row))?;
        }
        return Ok(0);
    }
    let mut missing = 0;
    for (row, group) in groups.iter().enumerate() {
        match values.int(row) {
            Some(number) => take(*group as usize, number).map_err(refused(row))?,
            None => missing += 1,
        }
    }
    Ok(missing)
}

fn each_float(values: &Vector<'_>, groups: &[u32], mut take: impl FnMut(usize, f64)) -> u64 {
    let mut missing = 0;
    for (row, group) in groups.iter().enumerate() {
        match values.float(row) {
            Some(number) => take(*group as usize, number),
            None => missing += 1,
        }
    }
    missing
}

impl Values {
    /// Empty values for an aggregation.
    pub(super) fn new(spec: &Spec) -> Values {
        match (&spec.function, spec.is_float) {
            (Function::Count, _) => Values::Count(Vec::new()),
            (Function::Sum | Function::Avg, false) => Values::Sums(Vec::new()),
            (Function::Sum | Function::Avg, true) => Values::FloatSums(Vec::new()),
            (Function::Min | Function::Max, false) => Values::Extremes(Vec::new()),
            (Function::Min | Function::Max, true) => Values::FloatExtremes(Vec::new()),
            (Function::Stddev, false) => Values::Moments(Vec::new()),
            (Function::Stddev, true) => Values::FloatMoments(Vec::new()),
            (Function::Quantize | Function::Lquantize(_) | Function::Llquantize(_), _) => {
                Values::Histograms(Vec::new())
            }
        }
    }

    /// Resizes to this number of groups.
    pub(super) fn resize(&mut self, n: usize) {
        match self {
            Values::Count(all) => all.resize(n, 0),
            Values::Sums(all) => all.resize(n, Sum::default()),
            Values::FloatSums(all) => all.resize(n, FloatSum::default()),
            Values::Extremes(all) => all.resize(n, None),
            Values::FloatExtremes(all) => all.resize(n, None),
            Values::Moments(all) => all.resize(n, Moments::default()),
            Values::FloatMoments(all) => all.resize(n, FloatMoments::default()),
            Values::Histograms(all) => all.resize(n, Histogram::default()),
        }
    }

    /// Aggregates a value of each row in its group; returns the number of rows without a value.
    pub(super) fn take(
        &mut self,
        spec: &Spec,
        values: Option<&Vector<'_>>,
        groups: &[u32],
    ) -> Result<u64, Refused> {
        let is_max = matches!(spec.function, Function::Max);
        let Some(values) = values else {
            if let Values::Count(all) = self {
                groups.iter().for_each(|group| all[*group as usize] += 1);
            }
            return Ok(0);
        };
        match self {
            Values::Count(all) => {
                let mut missing = 0;
                for (row, group) in groups.iter().enumerate() {
                    let has = values.has(row);
                    all[*group as usize] += u64::from(has);
                    missing += u64::from(!has);
                }
                Ok(missing)
            }
            Values::Sums(all) => each_int(values, groups, |group, number| {
                let sum = &mut all[group];
                sum.sum = sum.sum.checked_add(number).ok_or(SUM)?;
                sum.n += 1;
                Ok(())
            }),
            Values::FloatSums(all) => Ok(each_float(values, groups, |group, number| {
                all[group].sum.add(number);
                all[group].n += 1;
            })),
            Values::Extremes(all) => each_int(values, groups, |group, number| {
                let kept = &mut all[group];
                *kept = Some(
                    kept.map_or(number, |kept| if is_max { kept.max(number) } else { kept.min(number) }),
                );
                Ok(())
            }),
            Values::FloatExtremes(all) => Ok(each_float(values, groups, |group, number| {
                let kept = &mut all[group];
                *kept = Some(kept.map_or(number, |kept| extreme(kept, number, is_max)));
            })),
            Values::Moments(all) => each_int(values, groups, |group, number| {
                let size = number.unsigned_abs();
                if size > u128::from(u64::MAX) {
                    return Err(SQUARES);
                }
                let moments = &mut all[group];
                moments.sum = moments.sum.checked_add(number).ok_or(SUM)?;
                moments.squares.add(Wide::product(size, size));
                moments.n += 1;
                Ok(())
            }),
            Values::FloatMoments(all) => Ok(each_float(values, groups, |group, number| {
                let moments = &mut all[group];
                moments.sum.add(number);
                moments.squares.add(number * number);
                moments.n += 1;
            })),
            Values::Histograms(all) => match &spec.function {
                Function::Lquantize(linear) => each_int(values, groups, |group, number| {
                    all[group].add(linear.cell(number), 1);
                    Ok(())
                }),
                Function::Llquantize(bounds) => each_int(values, groups, |group, number| {
                    // There are fewer than a million bounds.
                    let cell = bounds.partition_point(|bound| i128::from(*bound) <= number);
                    all[group].add(cell as u32, 1);
                    Ok(())
                }),
                _ => each_int(values, groups, |group, number| {
                    let number = i64::try_from(number).map_err(|_| CELLS)?;
                    all[group].add(quantize_cell(number) as u32, 1); // There are 127 cells.
                    Ok(())
                }),
            },
        }
    }

    /// Adds the values of later records; `groups` maps each of their groups to the group here.
    pub(super) fn merge(&mut self, later: Values, spec: &Spec, groups: &[u32]) -> Result<(), &'static str> {
        let is_max = matches!(spec.function, Function::Max);
        let of = |at: usize| groups[at] as usize;
        match (self, later) {
            (Values::Count(all), Values::Count(later)) => {
                later.into_iter().enumerate().for_each(|(at, n)| all[of(at)] += n);
            }
            (Values::Sums(all), Values::Sums(later)) => {
                for (at, later) in later.into_iter().enumerate() {
                    let sum = &mut all[of(at)];
                    sum.sum = sum.sum.checked_add(later.sum).ok_or(SUM)?;
                    sum.n += later.n;
                }
            }
            (Values::FloatSums(all), Values::FloatSums(later)) => {
                for (at, later) in later.iter().enumerate() {
                    all[of(at)].sum.merge(&later.sum);
                    all[of(at)].n += later.n;
                }
            }
            (Values::Extremes(all), Values::Extremes(later)) => {
                for (at, later) in later.into_iter().enumerate() {
                    let kept = &mut all[of(at)];
                    let both =
                        |kept: i128, later: i128| if is_max { kept.max(later) } else { kept.min(later) };
                    *kept = kept.take().into_iter().chain(later).reduce(both);
                }
            }
            (Values::FloatExtremes(all), Values::FloatExtremes(later)) => {
                for (at, later) in later.into_iter().enumerate() {
                    let kept = &mut all[of(at)];
                    let both = |kept, later| extreme(kept, later, is_max);
                    *kept = kept.take().into_iter().chain(later).reduce(both);
                }
            }
            (Values::Moments(all), Values::Moments(later)) => {
                for (at, later) in later.into_iter().enumerate() {
                    let moments = &mut all[of(at)];
                    moments.sum = moments.sum.checked_add(later.sum).ok_or(SUM)?;
                    moments.squares.add(later.squares);
                    moments.n += later.n;
                }
            }
            (Values::FloatMoments(all), Values::FloatMoments(later)) => {
                for (at, later) in later.iter().enumerate() {
                    let moments = &mut all[of(at)];
                    moments.sum.merge(&later.sum);
                    moments.squares.merge(&later.squares);
                    moments.n += later.n;
                }
            }
            (Values::Histograms(all), Values::Histograms(later)) => {
                for (at, later) in later.into_iter().enumerate() {
                    later.cells().into_iter().for_each(|(cell, n)| all[of(at)].add(cell, n));
                }
            }
            _ => return Err("two different aggregations cannot merge"),
        }
        Ok(())
    }
}

/// The larger or the smaller of two; a NaN counts as the largest.
fn extreme(one: f64, other: f64, is_max: bool) -> f64 {
    let is_first = one.total_cmp(&other).is_ge() == is_max;
    if is_first { one } else { other }
}
