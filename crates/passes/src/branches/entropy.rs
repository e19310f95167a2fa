//! Branches that a prediction from their site alone mispredicts most.

use crate::filtered::Filtered;
use crate::tally::top_by;
use quipu_model::doc::{Cell, Grid};
use quipu_model::result;
use quipu_model::result::Hex;
use std::cmp::Reverse;

result! {
    /// The least predictable branches of one kind.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Unpredictable {
        pub sites: u64 => "Sites with more than one outcome.";
        pub bits: f64 => "Bits of all executions at these sites.";
        pub top: Vec<UnpredictableSite> => "The sites with the most bits; equal ones by ascending address.";
    }
}

result! {
    /// One unpredictable branch.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct UnpredictableSite {
        pub pc: u64 as Hex => "Address of the branch.";
        pub executed: u64 => "Executions with a known outcome.";
        pub taken: Option<TakenCounts>, flat =>
            "Executions taken and not taken, if it is conditional.";
        pub outcomes: u64 => "Distinct outcomes, or targets.";
        pub entropy: f64 => "Bits per execution.";
        pub bits: f64 => "Bits for all executions.";
    }
}

result! {
    /// Outcomes of a conditional branch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TakenCounts {
        pub taken: u64 => "Executions that took the branch.";
        pub not_taken: u64 => "Executions that fell through.";
    }
}

impl Unpredictable {
    /// Computes the result from the counts of each (site, outcome); outcome 1 of conditional branches is "taken".
    pub(super) fn new(
        counts: impl IntoIterator<Item = ((u64, u64), u64)>,
        top: usize,
        is_conditional: bool,
    ) -> Unpredictable {
        let mut counts: Vec<((u64, u64), u64)> = counts.into_iter().collect();
        // Sums of floating-point numbers depend on their order: sites are ordered by address, outcomes of a site by count.
        counts.sort_unstable_by_key(|&((pc, outcome), count)| (pc, count, outcome));
        let sites: Vec<UnpredictableSite> = counts
            .chunk_by(|a, b| a.0.0 == b.0.0)
            .filter(|outcomes| outcomes.len() > 1)
            .map(|outcomes| site(outcomes, is_conditional))
            .collect();
        Unpredictable {
            sites: sites.len() as u64,
            bits: sites.iter().map(|site| site.bits).sum(),
            // Bits are positive, so their representation has the same order.
            top: top_by(sites, top, |site| (Reverse(site.bits.to_bits()), site.pc)),
        }
    }

    pub(super) fn grid(&self, name: &str, filtered: Filtered) -> Grid {
        let row = |site: &UnpredictableSite| {
            let mut cells = vec![Cell::Addr(site.pc), Cell::Count(site.executed)];
            match site.taken {
                Some(taken) => cells.extend([Cell::Count(taken.taken), Cell::Count(taken.not_taken)]),
                None => cells.push(Cell::Count(site.outcomes)),
            }
            cells.extend([Cell::Real(site.entropy, 3), Cell::Real(site.bits, 1)]);
            cells
        };
        let is_conditional = self.top.first().is_some_and(|site| site.taken.is_some());
        let outcomes: &[&str] = if is_conditional { &["taken", "not taken"] } else { &["targets"] };
        let head = [&["site", filtered.executed()], outcomes, &["entropy", "bits"]].concat();
        Grid {
            title: format!("{name} that are least predictable"),
            head: head.into_iter().map(str::to_owned).collect(),
            rows: self.top.iter().map(row).collect(),
            more: self.sites - self.top.len() as u64,
        }
    }
}

/// The result for one site from the counts of its outcomes, in ascending order.
fn site(outcomes: &[((u64, u64), u64)], is_conditional: bool) -> UnpredictableSite {
    let executed: u64 = outcomes.iter().map(|(_, count)| count).sum();
    let of = |wanted| outcomes.iter().filter(|((_, outcome), _)| *outcome == wanted).map(|(_, n)| n).sum();
    let bits = outcomes.iter().map(|&(_, n)| n as f64 * (executed as f64 / n as f64).log2()).sum::<f64>();
    UnpredictableSite {
        pc: outcomes.first().map_or(0, |((pc, _), _)| *pc),
        executed,
        taken: is_conditional.then(|| TakenCounts { taken: of(1), not_taken: of(0) }),
        outcomes: outcomes.len() as u64,
        entropy: bits / executed as f64,
        bits,
    }
}
