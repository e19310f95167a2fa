//! The violations found: each rule's count, and the first violations of each with their places.

use super::rules::{RULES, Rule};
use quipu_model::{Finding, Place};

/// One violation.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule, severity, place and message.
    pub finding: Finding,
    /// The message of DynamoRIO's checker for it; empty if that does not know the rule.
    pub original: &'static str,
    /// The thread.
    pub thread: u64,
    /// The number of the shard.
    pub shard: u32,
    /// Instructions since the latest clock reading.
    pub since_clock: u64,
    /// The latest clock reading.
    pub clock: u64,
}

/// The rules to check, and the number of violations of each to keep.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) rules: Vec<bool>,
    pub(super) max_per_rule: u64,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted { rules: vec![true; RULES.len()], max_per_rule: quipu_model::finding::KEPT_PER_RULE }
    }
}

/// Counts and kept violations of one pass.
#[derive(Clone, Debug)]
pub(super) struct Log {
    wanted: Wanted,
    /// Number of violations of each rule.
    pub(super) counts: Vec<u64>,
    pub(super) kept: Vec<Violation>,
    n_kept: Vec<u64>,
}

impl Log {
    pub(super) fn new(wanted: Wanted) -> Log {
        Log { wanted, counts: vec![0; RULES.len()], kept: Vec::new(), n_kept: vec![0; RULES.len()] }
    }

    /// An empty log for the same rules.
    pub(super) fn fork(&self) -> Log {
        Log::new(self.wanted.clone())
    }

    /// Counts `n` violations; true if a description is wanted.
    pub(super) fn count(&mut self, rule: Rule, n: u64) -> bool {
        let at = rule as usize;
        if !self.wanted.rules[at] {
            return false;
        }
        self.counts[at] = self.counts[at].saturating_add(n);
        self.n_kept[at] < self.wanted.max_per_rule
    }

    /// Keeps a violation that was counted.
    pub(super) fn keep(&mut self, rule: Rule, violation: Violation) {
        self.n_kept[rule as usize] += 1;
        self.kept.push(violation);
    }

    /// Adds the violations of the part that directly follows.
    pub(super) fn append(&mut self, later: Log) {
        for (count, more) in self.counts.iter_mut().zip(later.counts) {
            *count = count.saturating_add(more);
        }
        for violation in later.kept {
            let Some(rule) = Rule::named(&violation.finding.rule) else { continue };
            if self.n_kept[rule as usize] < self.wanted.max_per_rule {
                self.keep(rule, violation);
            }
        }
    }

    /// Adds a finding made elsewhere, which may stand for several violations.
    pub(super) fn take(&mut self, finding: &Finding, thread: u64, shard: u32) {
        let Some(rule) = Rule::named(&finding.rule) else { return };
        if self.count(rule, finding.count) {
            let finding = Finding { severity: rule.info().severity, count: 1, ..finding.clone() };
            self.keep(rule, Violation { finding, original: "", thread, shard, since_clock: 0, clock: 0 });
        }
    }

    /// Adds a violation that belongs to no particular record.
    pub(super) fn add(&mut self, rule: Rule, place: Place, message: String, thread: u64) {
        if self.count(rule, 1) {
            let info = rule.info();
            let finding = Finding::new(info.name, info.severity, place, message);
            let original = info.original.first().copied().unwrap_or("");
            self.keep(rule, Violation { finding, original, thread, shard: 0, since_clock: 0, clock: 0 });
        }
    }
}
