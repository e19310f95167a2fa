//! Proposes layouts that may be better than the current one.
//!
//! Members are packed greedily into lines. The hottest member begins a line; then follows, among those that fit, the one
//! used most often together with the members already in the line. Within a line, large alignments come first, so that no
//! gaps are left. Whether the result is better is not estimated: every proposal is simulated.

use super::arrange::{Arrangement, Room};
use super::survey::Survey;
use super::units::Members;

/// The smallest set of members with this share of the accesses is hot.
const HOT: f64 = 0.9;

/// Layouts to try, without duplicates and without the current one.
pub(super) fn proposals(members: &Members, survey: &Survey, line: u64) -> Vec<Arrangement> {
    let same = Arrangement::same(members);
    let room = Room::default();
    let mut all: Vec<Arrangement> = Vec::new();
    let mut add = |one: Arrangement| {
        let is_new = |other: &Arrangement| (&one.parts, &one.places) != (&other.parts, &other.places);
        if is_new(&same) && all.iter().all(is_new) {
            all.push(one);
        }
    };
    let ordered =
        |order: &[usize], what: &str| Arrangement::ordered(members, order, &room, line, what.to_owned());
    add(ordered(&by_affinity(members, survey, line), "used together side by side"));
    add(ordered(&by_heat(members, survey), "hot first"));
    add(ordered(&by_alignment(members), "large alignments first"));
    let hot = hot(members, survey);
    if !hot.is_empty() && hot.len() < members.units.len() {
        add(Arrangement::split(members, &hot, &room, line));
    }
    if survey.arrays > 0 {
        add(Arrangement::arrays(members));
    }
    all
}

/// The smallest set of members with most of the accesses, by offset; includes all members that cannot be moved.
pub(super) fn hot(members: &Members, survey: &Survey) -> Vec<usize> {
    let mut order: Vec<usize> = (0..members.units.len()).filter(|unit| survey.heat[*unit] > 0).collect();
    order.sort_by_key(|unit| (std::cmp::Reverse(survey.heat[*unit]), *unit));
    let enough = survey.accesses() as f64 * HOT;
    let mut sum = 0u64;
    let mut hot: Vec<usize> = Vec::new();
    for unit in order {
        if sum as f64 >= enough {
            break;
        }
        sum += survey.heat[unit];
        hot.push(unit);
    }
    hot.extend((0..members.units.len()).filter(|unit| members.units[*unit].is_pinned));
    hot.sort_unstable();
    hot.dedup();
    hot
}

/// Members that cannot be moved, by offset, and all others.
fn pinned(members: &Members) -> (Vec<usize>, Vec<usize>) {
    (0..members.units.len()).partition(|unit| members.units[*unit].is_pinned)
}

fn by_heat(members: &Members, survey: &Survey) -> Vec<usize> {
    let (mut order, mut rest) = pinned(members);
    // Accesses per byte, in fixed point.
    let heat = |unit: &usize| (survey.heat[*unit] << 10) / members.units[*unit].bytes.max(1);
    rest.sort_by_key(|unit| (std::cmp::Reverse(heat(unit)), *unit));
    order.extend(rest);
    order
}

fn by_alignment(members: &Members) -> Vec<usize> {
    let (mut order, mut rest) = pinned(members);
    rest.sort_by_key(|unit| (std::cmp::Reverse(members.units[*unit].align), *unit));
    order.extend(rest);
    order
}

fn by_affinity(members: &Members, survey: &Survey, line: u64) -> Vec<usize> {
    let (mut order, mut rest) = pinned(members);
    let mut used: u64 = order.iter().map(|unit| members.units[*unit].bytes).sum();
    let mut of_line: Vec<usize> = order.clone();
    let mut fixed = order.len();
    while !rest.is_empty() {
        let left = line - used % line;
        let best = rest
            .iter()
            .enumerate()
            .filter(|(_, unit)| of_line.is_empty() || members.units[**unit].bytes <= left)
            .map(|(at, unit)| {
                let together: u64 = of_line.iter().map(|other| survey.together(*unit, *other)).sum();
                (together, survey.heat[*unit], std::cmp::Reverse(*unit), at)
            })
            .max();
        let Some((.., at)) = best else {
            // No other member fits: the line ends.
            settle(members, &mut of_line, fixed, &mut order);
            (used, fixed) = (0, 0);
            continue;
        };
        let unit = rest.remove(at);
        used += members.units[unit].bytes;
        of_line.push(unit);
        if used >= line {
            settle(members, &mut of_line, fixed, &mut order);
            (used, fixed) = (used % line, 0);
        }
    }
    settle(members, &mut of_line, fixed, &mut order);
    order
}

/// Ends a line: appends its members except the first `fixed`, which have been placed before.
fn settle(members: &Members, of_line: &mut Vec<usize>, fixed: usize, order: &mut Vec<usize>) {
    let mut new: Vec<usize> = of_line.drain(..).skip(fixed).collect();
    new.sort_by_key(|unit| std::cmp::Reverse(members.units[*unit].align));
    order.extend(new);
}
