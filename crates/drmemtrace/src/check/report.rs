//! The result of `check`: the violations that were kept, and the count of each rule.

use super::log::{Log, Violation};
use super::rules::RULES;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::number::counted;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::{Finding, Place, ReportBody, RuleInfo, Severity, Text};

result! {
    /// The violations of a trace.
    #[derive(Clone, Debug)]
    pub struct CheckReport {
        pub records: u64 => "Records read.";
        pub instrs: u64, named("instructions") => "Instructions read.";
        pub errors: u64 => "Violations that are errors.";
        pub warnings: u64 => "Violations that are warnings.";
        pub notes: u64 => "Violations that are notes.";
        pub rules: Vec<BrokenRule> => "Broken rules.";
        pub findings: Vec<Violated> => "Violations that are listed, in the order of the trace.";
    } beside {
        pub violations: Vec<Violation> => "Violations that are listed, in the order of the trace.";
        pub counts: Vec<u64> => "Number of violations of each rule, in the order of [`RULES`].";
    }
}

result! {
    /// A rule that is broken.
    #[derive(Clone, Debug)]
    pub struct BrokenRule {
        pub rule: &'static str => "Name of the rule.";
        pub severity: Severity => "Severity of a violation.";
        pub count: u64 => "Number of violations.";
        pub summary: &'static str => "The condition that must hold.";
    }
}

result! {
    /// A violation that is listed.
    #[derive(Clone, Debug)]
    pub struct Violated {
        pub rule: Text => "Name of the rule.";
        pub severity: Severity => "Severity of the violation.";
        pub message: String => "Expected and actual content, in words.";
        pub count: u64 => "Number of violations that this entry stands for, at least 1.";
        pub thread: u64 => "The thread.";
        pub place: Place => "Place of the violation; if several are summed, of the first.";
    }
}

impl CheckReport {
    pub(super) fn new(log: Log, records: u64, instrs: u64) -> CheckReport {
        let mut report = CheckReport {
            records,
            instrs,
            errors: 0,
            warnings: 0,
            notes: 0,
            rules: Vec::new(),
            findings: Vec::new(),
            violations: log.kept,
            counts: log.counts,
        };
        [report.errors, report.warnings, report.notes] =
            [Severity::Error, Severity::Warning, Severity::Note].map(|severity| report.total(severity));
        let broken = report.broken().map(|(rule, count)| BrokenRule {
            rule: rule.name,
            severity: rule.severity,
            count,
            summary: rule.summary,
        });
        report.rules = broken.collect();
        let violated =
            report.summed().into_iter().zip(&report.violations).map(|(finding, violation)| Violated {
                rule: finding.rule,
                severity: finding.severity,
                message: finding.message,
                count: finding.count,
                thread: violation.thread,
                place: finding.place,
            });
        report.findings = violated.collect();
        report
    }

    /// The violations. The last one kept of each rule carries the count of those that were not.
    fn summed(&self) -> Vec<Finding> {
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

    /// The rules that were broken, and how often.
    pub fn broken(&self) -> impl Iterator<Item = (&'static RuleInfo, u64)> + '_ {
        RULES.iter().zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// Number of violations of this severity.
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

impl ReportBody for CheckReport {
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

    fn findings(&self) -> Vec<Finding> {
        self.summed()
    }

    /// Decided by the counts, because few violations, or none, are kept one by one.
    fn is_flawed(&self) -> bool {
        self.total(Severity::Error) > 0
    }
}
