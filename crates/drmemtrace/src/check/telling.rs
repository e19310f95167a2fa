//! Reports violations with their places.

use super::checker::Checker;
use super::log::{Log, Violation};
use super::rules::Rule;
use quipu_model::{Finding, Place};

impl Checker {
    /// Reports a violation at the current entry.
    #[cold]
    pub(super) fn tell(&mut self, rule: Rule, message: impl FnOnce() -> String) {
        self.tell_as(rule, 0, message);
    }

    /// Reports a violation for which DynamoRIO uses its `which`th message.
    #[cold]
    pub(super) fn tell_as(&mut self, rule: Rule, which: usize, message: impl FnOnce() -> String) {
        if !self.is_in_part() || !self.log.count(rule, 1) {
            return;
        }
        let violation = self.violation(rule, which, message());
        self.log.keep(rule, violation);
    }

    /// The violation at the current entry.
    pub(super) fn violation(&self, rule: Rule, which: usize, message: String) -> Violation {
        let info = rule.info();
        let (rule, severity, place) = (info.name, info.severity, self.place());
        Violation {
            finding: Finding::new(rule, severity, place, message),
            original: info.original.get(which).copied().unwrap_or(""),
            thread: self.seen_tid,
            shard: self.about.id,
            since_clock: self.instrs - self.time.instrs_at_clock.min(self.instrs),
            clock: self.time.last,
        }
    }

    /// The place of the current entry.
    fn place(&self) -> Place {
        let member = self.about.members.get(self.member as usize).filter(|name| !name.is_empty());
        Place {
            file: Some(self.about.name.clone()),
            member: member.cloned(),
            offset: Some(self.offset + self.at as u64 * self.about.entry_bytes),
            record: Some(self.records),
            instr: Some(self.instrs),
        }
    }

    /// The violations, in the order of the file: the reader's findings about a batch came before all others in it.
    pub(super) fn into_log(mut self) -> Log {
        self.settle_turn();
        let members = &self.about.members;
        self.log.kept.sort_by_key(|violation| {
            let Place { member, offset, .. } = &violation.finding.place;
            let position = member.as_ref().and_then(|name| members.iter().position(|known| known == name));
            (position.unwrap_or(0), offset.unwrap_or(0))
        });
        self.log
    }
}
