//! What checking leaves: the violations that were kept, and how many there were of each rule.

use super::log::{Log, Violation};
use super::rules::RULES;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::number::counted;
use quipu_model::pass::Detail;
use quipu_model::{Finding, Report, RuleInfo, Severity};
use serde_json::{Value, json};
use std::any::Any;

/// The violations of a trace.
///
/// Keys of JSON:
/// * `records` (`u64`, perhaps): Records read.
/// * `instructions` (`u64`, perhaps): Instructions read.
/// * `calls` (`u64`, perhaps): Calls read, of traces of graphics calls.
/// * `errors` (`u64`, perhaps): Violations that are errors.
/// * `warnings` (`u64`, perhaps): Violations that are warnings.
/// * `notes` (`u64`, perhaps): Violations that are notes.
/// * `lost_bytes` (`u64`, perhaps): Bytes of the stream that are lost, of traces of graphics calls.
/// * `lost_chunks` (`u64`, perhaps): Chunks that are lost, of traces of graphics calls.
/// * `streams` (`Vec<object>`, perhaps): Each stream in a trace of graphics calls: `offset`, `end`, `calls`, `incomplete`,
///   `lost_calls`, `lost_signatures`, `doubtful`, `suspect`.
/// * `rules` (`Vec<object>`): The rules that are broken: `rule`, `severity`, `count`, perhaps `summary`.
/// * `findings` (`Vec<object>`): The violations that were kept, in the order of the trace: `rule`, `severity`, `message`,
///   `count`, perhaps `thread`, and `place` with `file`, `member`, `offset`, `record`, `instr` (`null` where unknown).
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Those that were kept, in the order of the trace.
    pub violations: Vec<Violation>,
    /// How many there were of each rule, in the order of [`RULES`].
    pub counts: Vec<u64>,
    /// Records read.
    pub records: u64,
    /// Instructions read.
    pub instrs: u64,
}

impl CheckReport {
    pub(super) fn new(log: Log, records: u64, instrs: u64) -> CheckReport {
        CheckReport { violations: log.kept, counts: log.counts, records, instrs }
    }

    /// The rules that were broken, and how often.
    pub fn broken(&self) -> impl Iterator<Item = (&'static RuleInfo, u64)> + '_ {
        RULES.iter().zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// How many violations of this severity there were.
    pub fn total(&self, severity: Severity) -> u64 {
        self.broken().filter(|(rule, _)| rule.severity == severity).map(|(_, count)| count).sum()
    }

    fn verdict(&self) -> String {
        let word = |severity: Severity| {
            let n = self.total(severity);
            (n > 0).then(|| counted(n, severity.name()))
        };
        let words = [Severity::Error, Severity::Warning, Severity::Note].map(word);
        let words: Vec<String> = words.into_iter().flatten().collect();
        let found = if words.is_empty() { "nothing is wrong".to_owned() } else { words.join(", ") };
        format!("{found} in {}, {}", counted(self.records, "record"), counted(self.instrs, "instruction"))
    }
}

impl Report for CheckReport {
    /// Keys: `records`, `instructions`, `errors`, `warnings`, `notes`; `rules`, a list of the broken ones with `rule`,
    /// `severity`, `count`, `summary`; `findings`, with `rule`, `severity`, `message`, `count`, `thread`, and `place` with
    /// `file`, `member`, `offset`, `record`, `instr` (`null` where unknown).
    fn json(&self) -> Value {
        let rules: Vec<Value> = self
            .broken()
            .map(|(rule, count)| {
                json!({
                    "rule": rule.name,
                    "severity": rule.severity.name(),
                    "count": count,
                    "summary": rule.summary,
                })
            })
            .collect();
        let findings: Vec<Value> = self
            .findings()
            .iter()
            .zip(&self.violations)
            .map(|(finding, violation)| {
                let place = &finding.place;
                json!({
                    "rule": finding.rule,
                    "severity": finding.severity.name(),
                    "message": finding.message,
                    "count": finding.count,
                    "thread": violation.thread,
                    "place": {
                        "file": place.file,
                        "member": place.member,
                        "offset": place.offset,
                        "record": place.record,
                        "instr": place.instr,
                    },
                })
            })
            .collect();
        json!({
            "records": self.records,
            "instructions": self.instrs,
            "errors": self.total(Severity::Error),
            "warnings": self.total(Severity::Warning),
            "notes": self.total(Severity::Note),
            "rules": rules,
            "findings": findings,
        })
    }

    fn document(&self, _: Detail) -> Document {
        let mut document = Document::new("check").with(Block::Note(self.verdict()));
        let rows: Vec<Vec<Cell>> = self
            .broken()
            .map(|(rule, count)| {
                vec![rule.name.into(), rule.severity.name().into(), Cell::Count(count), rule.summary.into()]
            })
            .collect();
        if !rows.is_empty() {
            let head = ["rule", "severity", "count", "what must hold"].map(str::to_owned).to_vec();
            document = document.with(Block::Grid(Grid { title: String::new(), head, rows, more: 0 }));
        }
        document
    }

    /// The violations. The last one kept of each rule carries the count of those that were not.
    fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> =
            self.violations.iter().map(|violation| violation.finding.clone()).collect();
        for (rule, count) in self.broken() {
            let kept = findings.iter().filter(|finding| finding.rule == rule.name).count() as u64;
            if let Some(last) = findings.iter_mut().rfind(|finding| finding.rule == rule.name) {
                last.count += count - kept.min(count);
            }
        }
        findings
    }

    /// Decided by the counts: few violations, or none, are kept one by one.
    fn is_flawed(&self) -> bool {
        self.total(Severity::Error) > 0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
