//! The shared part of the tools called `check`: options, the selection of rules, and the log of violations.
//!
//! Which rules exist, and how they are checked, is up to each format.

use crate::doc::{Block, Cell, Document, Grid};
use crate::error::Place;
use crate::finding::{Finding, RuleInfo, Severity, is_called};
use crate::number::noun;
use crate::options::{Kind, OptionSpec, Options};
use crate::pass::{Detail, DynPass, Needs, Order, Pass, Reads, Report, ReportBody, Tool, ToolInfo};
use crate::result;
use crate::result::{Fields, Shape};
use crate::schema::Text;
use crate::{Batch, Columns, Error, Result, Shard, Trace};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rules that a trace of any format may break, because they are about containers and reading. The first format that lists
/// them has their manual entries.
pub const SHARED_RULES: &[&str] = &[
    "source/truncated",
    "source/malformed",
    "source/unsupported",
    "source/limit",
    "engine/unreadable",
    "engine/oversized-access",
];

/// The option that limits how many violations of each rule are listed.
pub const MAX_PER_RULE: OptionSpec = OptionSpec::new(
    "max-per-rule",
    Kind::Count,
    "8",
    "how many violations of each rule to list; the rest are counted",
);
/// The option that selects rules.
pub const RULES: OptionSpec =
    OptionSpec::new("rule", Kind::Text, "", "apply only these rules").value("RULE").listed();
/// The option that excludes rules.
pub const SKIP_RULES: OptionSpec =
    OptionSpec::new("skip-rule", Kind::Text, "", "skip these rules").value("RULE").listed();
/// The option that skips checks that require decoding; each format describes which those are.
pub const NO_DECODE: OptionSpec = OptionSpec::flag("no-decode", "");

/// The options of a tool `check`; `no_decode` is the help text of [`NO_DECODE`].
pub const fn options(no_decode: &'static str) -> [OptionSpec; 4] {
    [MAX_PER_RULE, RULES, SKIP_RULES, NO_DECODE.doc(no_decode)]
}

/// The selection of rules that the user asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedRules {
    only: Vec<&'static str>,
    without: Vec<&'static str>,
}

impl WantedRules {
    /// Selects from a format's rules and the shared ones, as the options `rule` and `skip-rule` say.
    ///
    /// # Errors
    /// `Usage` if an option names a rule that does not exist.
    pub fn of(options: &Options, rules: &'static [RuleInfo]) -> Result<WantedRules> {
        let find = |option: &OptionSpec| -> Result<Vec<&'static str>> {
            let names = options.texts(option);
            names
                .map(|name| {
                    let mut known = rules.iter().map(|rule| rule.name).chain(SHARED_RULES.iter().copied());
                    known.find(|rule| is_called(rule, name)).ok_or_else(|| {
                        Error::usage(format!("there is no rule `{name}`"))
                            .hint("`quipu check --list` has all rules")
                    })
                })
                .collect()
        };
        Ok(WantedRules { only: find(&RULES)?, without: find(&SKIP_RULES)? })
    }

    /// Whether a rule, given by its full name, is selected.
    pub fn wants(&self, rule: &str) -> bool {
        (self.only.is_empty() || self.only.contains(&rule)) && !self.without.contains(&rule)
    }
}

/// Violations of the selected rules, with a limit on how many of each rule are kept.
#[derive(Clone, Debug, Default)]
pub struct CheckLog {
    wanted: WantedRules,
    max_per_rule: u64,
    /// Findings from opening the trace. Every fork carries them; [`close`](CheckLog::close) reports them once.
    opening: Arc<[Finding]>,
    kept: Vec<Finding>,
    counts: BTreeMap<Text, (Severity, u64)>,
}

impl CheckLog {
    /// Creates a log for the rules that the options select from those of a format; `opening` holds the findings from opening
    /// the trace.
    ///
    /// # Errors
    /// `Usage` if an option is wrong.
    pub fn new(options: &Options, rules: &'static [RuleInfo], opening: &[Finding]) -> Result<CheckLog> {
        Ok(CheckLog {
            wanted: WantedRules::of(options, rules)?,
            max_per_rule: options.count(&MAX_PER_RULE),
            opening: opening.into(),
            ..CheckLog::default()
        })
    }

    /// An empty log with the same rules, limit and findings from opening.
    pub fn fork(&self) -> CheckLog {
        CheckLog {
            wanted: self.wanted.clone(),
            max_per_rule: self.max_per_rule,
            opening: self.opening.clone(),
            ..CheckLog::default()
        }
    }

    /// All violations, those from opening the trace first.
    pub fn close(self) -> CheckLog {
        let mut all = self.fork();
        self.opening.iter().for_each(|finding| all.take(finding.clone()));
        all.merge(self);
        all
    }

    /// Adds a finding that another component made.
    pub fn take(&mut self, finding: Finding) {
        if !self.wanted.wants(&finding.rule) {
            return;
        }
        let (_, count) = self.counts.entry(finding.rule.clone()).or_insert((finding.severity, 0));
        let before = *count;
        *count += finding.count;
        if before < self.max_per_rule {
            self.kept.push(finding);
        }
    }

    /// Adds a violation. `describe` is called only if the violation is kept.
    #[cold]
    pub fn add(&mut self, rule: &'static RuleInfo, describe: impl FnOnce() -> (Place, String)) {
        if !self.wanted.wants(rule.name) {
            return;
        }
        let (_, count) = self.counts.entry(rule.name.into()).or_insert((rule.severity, 0));
        *count += 1;
        if *count <= self.max_per_rule {
            let (place, message) = describe();
            self.kept.push(rule.broken(place, message));
        }
    }

    /// Adds the violations of a log whose part of the trace comes after this one's.
    pub fn merge(&mut self, later: CheckLog) {
        for (rule, (severity, count)) in later.counts {
            self.counts.entry(rule).or_insert((severity, 0)).1 += count;
        }
        for finding in later.kept {
            let n_kept = self.kept.iter().filter(|kept| kept.rule == finding.rule).count() as u64;
            if n_kept < self.max_per_rule {
                self.kept.push(finding);
            }
        }
    }

    /// The violations that were kept, sorted by offset.
    pub fn findings(&self) -> Vec<Finding> {
        let mut kept = self.kept.clone();
        kept.sort_by_key(|finding| finding.place.offset);
        kept
    }

    /// True if a broken rule has severity `Error`: such a violation makes a trace wrong.
    pub fn is_flawed(&self) -> bool {
        self.counts.values().any(|(severity, _)| *severity == Severity::Error)
    }

    /// The broken rules, by name.
    pub fn broken(&self) -> Vec<BrokenRule> {
        let rule = |(rule, (severity, count)): (&Text, &(Severity, u64))| BrokenRule {
            rule: rule.clone(),
            severity: *severity,
            count: *count,
        };
        self.counts.iter().map(rule).collect()
    }

    /// A document for people: how many units were checked, and how often each rule was broken.
    pub fn document(&self, checked: u64, unit: &'static str) -> Document {
        let one = unit.strip_suffix('s').unwrap_or(unit);
        let checked = ("checked".to_owned(), vec![Cell::Count(checked), noun(checked, one).into()]);
        let document = Document::new("Check").with(Block::Facts(vec![checked]));
        if self.counts.is_empty() {
            return document.with(Block::Note("Nothing that was checked breaks a rule.".into()));
        }
        let rows = self.counts.iter().map(|(rule, (severity, count))| {
            vec![severity.name().into(), Cell::from(rule.as_ref()), Cell::Count(*count)]
        });
        let head = ["severity", "rule", "violations"].map(str::to_owned).into();
        document.with(Block::Grid(Grid { title: String::new(), head, rows: rows.collect(), more: 0 }))
    }
}

result! {
    /// Violations found, and the amount of data checked.
    #[derive(Debug)]
    pub struct CheckReport<C: Fields> {
        pub looked_at: C, flat => "Amount of data checked, and facts specific to the format.";
        pub rules: Vec<BrokenRule> => "Broken rules, by name.";
        pub findings: Vec<Finding> => "Violations that are listed, in the order of the trace.";
    } beside {
        pub is_flawed: bool => "Whether a broken rule means that the trace is wrong.";
        pub document: Document => "The report as a document.";
    }
}

result! {
    /// A rule that is broken.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BrokenRule {
        pub rule: Text => "Name of the rule.";
        pub severity: Severity => "Severity of a violation.";
        pub count: u64 => "Number of violations.";
    }
}

result! {
    /// Amount of data checked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CheckedRecords {
        pub records: u64 => "Records read.";
    }
}

impl<C: Fields> CheckReport<C> {
    /// Builds the report from a log; `checked` is the number of things checked, and `unit` their name in the plural.
    pub fn new(log: &CheckLog, checked: u64, unit: &'static str, looked_at: C) -> CheckReport<C> {
        CheckReport {
            looked_at,
            rules: log.broken(),
            findings: log.findings(),
            is_flawed: log.is_flawed(),
            document: log.document(checked, unit),
        }
    }
}

impl CheckReport<CheckedRecords> {
    /// Builds the report of a check that counts records.
    pub fn of_records(log: &CheckLog, records: u64) -> CheckReport<CheckedRecords> {
        CheckReport::new(log, records, "records", CheckedRecords { records })
    }
}

/// The pass of a [`FoundCheck`]: collects the findings of opening and reading.
struct FoundPass {
    log: CheckLog,
    /// False if only the findings from opening are wanted.
    decodes: bool,
    n_records: u64,
}

impl FoundPass {
    /// Creates the pass with the findings from opening.
    fn new(options: &Options, rules: &'static [RuleInfo], opening: &[Finding]) -> Result<FoundPass> {
        let log = CheckLog::new(options, rules, opening)?;
        Ok(FoundPass { log, decodes: !options.flag(&NO_DECODE), n_records: 0 })
    }
}

impl Pass for FoundPass {
    fn fork(&self, _: &Shard) -> FoundPass {
        FoundPass { log: self.log.fork(), decodes: self.decodes, n_records: 0 }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.n_records += u64::from(batch.span.records);
        if self.decodes {
            batch.findings.iter().for_each(|finding| self.log.take(finding.clone()));
        }
        Ok(())
    }

    fn merge(&mut self, later: FoundPass) -> Result<()> {
        self.log.merge(later.log);
        self.n_records += later.n_records;
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(CheckReport::of_records(&self.log.close(), self.n_records)))
    }
}

/// Describes the tool `check` of a format: the columns that it requires, and those that it uses where a trace has them.
pub const fn info(
    format: &'static str,
    required: Columns,
    optional: Columns,
    options: &'static [OptionSpec],
) -> ToolInfo {
    ToolInfo {
        name: "check",
        summary: "whether a trace follows the rules of its format, and where not",
        needs: Needs { format: Some(format), required, optional },
        order: Order::Shards,
        options,
        in_report: false,
    }
}

/// A tool `check` whose rules are all checked by opening and reading the trace.
#[derive(Debug)]
pub struct FoundCheck {
    /// Name, needs and options: see [`info`].
    pub info: &'static ToolInfo,
    /// The rules of the format.
    pub rules: &'static [RuleInfo],
    /// Returns the findings from opening a trace. The flag says whether records will be decoded; if so, this may look
    /// further.
    pub opening: fn(&dyn Trace, bool) -> Result<Vec<Finding>>,
    /// Whether native tables are also read, unless decoding is switched off: parts of the trace that no lens needs may be
    /// damaged.
    pub reads_tables: bool,
}

impl Tool for FoundCheck {
    fn result(&self) -> Shape {
        CheckReport::<CheckedRecords>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        self.info
    }

    fn reads(&self, options: &Options, trace: &dyn Trace) -> Result<Reads> {
        let n_tables = match self.reads_tables && !options.flag(&NO_DECODE) {
            true => trace.tables()?.len(),
            false => 0,
        };
        let columns = self.info.needs.of(self.info.name, trace)?;
        Ok(Reads { columns, tables: (0..n_tables).collect(), order: self.info.order })
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let opening = (self.opening)(trace, !options.flag(&NO_DECODE))?;
        Ok(Box::new(FoundPass::new(options, self.rules, &opening)?))
    }
}

impl<C: Fields + Send + 'static> ReportBody for CheckReport<C> {
    fn document(&self, _: Detail) -> Document {
        self.document.clone()
    }

    fn findings(&self) -> Vec<Finding> {
        self.findings.clone()
    }

    fn is_flawed(&self) -> bool {
        self.is_flawed
    }
}

/// Declares the rules of a format: a constant for each, with which findings are made, and the list `RULES` in the order of
/// the manual.
///
/// ```
/// quipu_model::rules! {
///     "files" {
///         CUT "demo/cut" Warning "A file ends after a record." "All before it is read." []
///     }
/// }
/// assert_eq!(RULES[0].name, CUT.name);
/// ```
#[macro_export]
macro_rules! rules {
    ($($group:literal {
        $($name:ident $text:literal $severity:ident $summary:literal $doc:literal [$($original:literal),*])*
    })*) => {
        $($(
            #[doc = $summary]
            pub(crate) static $name: $crate::RuleInfo = $crate::rules!(
                @info $group $text $severity $summary $doc [$($original),*]
            );
        )*)*

        /// Every rule, in the order of the manual.
        pub static RULES: &[$crate::RuleInfo] = &[
            $($($crate::rules!(@info $group $text $severity $summary $doc [$($original),*]),)*)*
        ];
    };
    (@info $group:literal $text:literal $severity:ident $summary:literal $doc:literal [$($original:literal),*]) => {
        $crate::RuleInfo {
            name: $text,
            group: $group,
            severity: $crate::Severity::$severity,
            summary: $summary,
            doc: $doc,
            original: &[$($original),*],
        }
    };
}
