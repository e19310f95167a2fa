//! The order in which aggregations are printed.
//!
//! SPEC: dtrace.md#aggregation-text

use crate::action::Action;
use crate::aggregate::Entry;
use crate::describe::{Aggregation, Capture, Rec};
use crate::options::Settings;
use crate::value::{Rank, Value};
use std::cmp::Ordering;

/// Compares the keys of two entries, member by member.
fn keys(capture: &Capture, settings: &Settings, a: &Entry, b: &Entry) -> Ordering {
    let (of_a, of_b) = (&capture.aggregations[a.aggregation], &capture.aggregations[b.aggregation]);
    members(capture, settings, (of_a, &a.key), (of_b, &b.key))
}

fn members(
    capture: &Capture,
    settings: &Settings,
    (of_a, a): (&Aggregation, &[u8]),
    (of_b, b): (&Aggregation, &[u8]),
) -> Ordering {
    let n = of_a.keys.len().min(of_b.keys.len());
    let first = match settings.aggsortkeypos as usize {
        first if first < n => first,
        _ => 0,
    };
    let order =
        (0..n).map(|at| (first + at) % n).map(|at| member(capture, (&of_a.keys[at], a), (&of_b.keys[at], b)));
    let order = order.fold(Ordering::Equal, Ordering::then);
    order.then(of_a.keys.len().cmp(&of_b.keys.len()))
}

fn member(capture: &Capture, (rec, a): (&Rec, &[u8]), (other, b): (&Rec, &[u8])) -> Ordering {
    let (a, b) = (rec.of(a), other.of(b));
    if a.len() != b.len() {
        return a.len().cmp(&b.len());
    }
    let order = capture.order;
    match (rec.action, a.len()) {
        (Action::Uaddr | Action::Usym | Action::Umod, 16) => {
            let words = |bytes: &[u8]| (order.number(&bytes[..8]), order.number(&bytes[8..]));
            words(a).cmp(&words(b))
        }
        (_, 1 | 2 | 4 | 8) => order.number(a).cmp(&order.number(b)),
        _ => a.cmp(b),
    }
}

/// Sorts entries of one or more variables for printing.
pub(crate) fn entries(capture: &Capture, settings: &Settings, all: &mut [&Entry]) {
    let rank = |entry: &Entry| match settings.aggsortkey {
        true => Rank::default(),
        false => entry.value.rank(capture.dialect),
    };
    let mut ranked: Vec<(Rank, &Entry)> = all.iter().map(|entry| (rank(entry), *entry)).collect();
    ranked.sort_by(|(rank_a, a), (rank_b, b)| {
        let by_variable = || a.variable.cmp(&b.variable);
        let by_value = || match a.value.function == b.value.function {
            true => rank_a.cmp(rank_b),
            false => Ordering::Equal,
        };
        let order = by_variable().then_with(by_value).then_with(|| keys(capture, settings, a, b));
        turned(settings, order)
    });
    all.iter_mut().zip(ranked).for_each(|(to, (_, entry))| *to = entry);
}

/// A key with one value for each of several variables.
#[derive(Clone, Debug)]
pub(crate) struct Joined<'e> {
    /// An entry that has this key.
    pub(crate) key: &'e Entry,
    /// Value and divisor for each variable; the value is zero where the variable lacks the key.
    pub(crate) values: Vec<(Value, u64)>,
}

/// Sorts the rows of several variables for printing.
pub(crate) fn joined<'e>(capture: &'e Capture, settings: &'e Settings, all: &mut [Joined<'e>]) {
    let Some(n) = all.first().map(|joined| joined.values.len()).filter(|n| *n > 0) else { return };
    let first = match settings.aggsortpos as usize {
        first if first < n => first,
        _ => 0,
    };
    all.sort_by_cached_key(|row| {
        let positions = (0..n).map(|at| (first + at) % n);
        let ranks = positions.map(|at| row.values[at].0.rank(capture.dialect));
        Turned {
            capture,
            settings,
            ranks: if settings.aggsortkey { Vec::new() } else { ranks.collect() },
            key: row.key,
        }
    });
}

/// Sort key of a row.
struct Turned<'s> {
    capture: &'s Capture,
    settings: &'s Settings,
    ranks: Vec<Rank>,
    key: &'s Entry,
}

impl Ord for Turned<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.ranks.cmp(&other.ranks);
        turned(self.settings, order.then_with(|| keys(self.capture, self.settings, self.key, other.key)))
    }
}

impl PartialOrd for Turned<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turned<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Turned<'_> {}

/// Whether entries of different variables have equal keys.
pub(crate) fn same_key(capture: &Capture, a: &Entry, b: &Entry) -> bool {
    keys(capture, &Settings::default(), a, b) == Ordering::Equal
}

fn turned(settings: &Settings, order: Ordering) -> Ordering {
    if settings.aggsortrev { order.reverse() } else { order }
}
