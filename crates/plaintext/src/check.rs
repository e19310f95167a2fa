//! `check`: every rule that a trace must follow, and where it does not.
//!
//! The reader reports lines that are not records; this file looks at what records say, in the lines themselves, so that each
//! place is exact. Memory does not grow.
//!

use crate::din::{Din, ExtendedDin, MAX_USUAL_BYTES};
use crate::lackey::{Lackey, MAX_DATA_BYTES, MAX_INSTR_BYTES};
use crate::line::{Grammar, Line, Record};
use crate::reader::Lines;
use crate::rules;
use crate::trace::PlainTextTrace;
use quipu_model::OptionSpec;
use quipu_model::check::{self, CheckLog, CheckReport, CheckedRecords};
use quipu_model::pass::Needs;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Error, Options, Order, Pass, Place, Report, Result, RuleInfo, Shard, Tool,
    ToolInfo, Trace,
};

/// The tool `check` of a format of this crate.
#[derive(Debug)]
pub struct Check {
    info: &'static ToolInfo,
}

/// For what lackey prints.
pub(crate) static LACKEY_CHECK: Check = Check { info: &LACKEY_INFO };
/// For what Dinero reads.
pub(crate) static DIN_CHECK: Check = Check { info: &DIN_INFO };

static LACKEY_INFO: ToolInfo = info("lackey", &OPTIONS);
static DIN_INFO: ToolInfo = info("din", &OPTIONS);
static OPTIONS: [OptionSpec; 4] =
    check::options("look at what records say; without, only at how they are stored");

const fn info(format: &'static str, options: &'static [OptionSpec]) -> ToolInfo {
    ToolInfo {
        name: "check",
        summary: "whether a trace follows the rules of its format, and where not",
        // Sizes that no access can have are found among the accesses, for all tools alike.
        needs: Needs {
            format: Some(format),
            required: Columns::RAW.or(Columns::ACCESSES).or(Columns::ACCESS_FETCH),
            optional: Columns::NONE,
        },
        order: Order::Shards,
        options,
        in_report: false,
    }
}

impl Tool for Check {
    fn result(&self) -> Shape {
        CheckReport::<CheckedRecords>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        self.info
    }

    /// Which instruction makes the first access is not known of a part.
    fn wants_whole_traces(&self) -> bool {
        true
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let Some(opened) = trace.as_any().and_then(|trace| trace.downcast_ref::<PlainTextTrace>()) else {
            let format = self.info.needs.format.unwrap_or("text");
            return Err(Error::missing(format!("this is no trace of format {format}")));
        };
        let dialect = opened.dialect();
        Ok(Box::new(CheckPass {
            file: opened.container().name().to_owned(),
            lines: dialect.lines,
            log: CheckLog::new(options, dialect.language.rules.all, &trace.meta().findings)?,
            decodes: options.flag(&check::DECODE),
            n_records: 0,
            has_instr: false,
            is_partial: false,
        }))
    }
}

/// The rules that records follow.
struct CheckPass {
    file: String,
    lines: Lines,
    log: CheckLog,
    decodes: bool,
    n_records: u64,
    has_instr: bool,
    /// A data access without an instruction was told.
    is_partial: bool,
}

impl CheckPass {
    fn lines<G: Grammar>(&mut self, batch: &Batch) {
        let mut record = batch.span.first_record;
        // Other lines may stand before the first record.
        let (mut at, mut first) = (0, None);
        for text in batch.raw().split_inclusive(|byte| *byte == b'\n') {
            let line = text.strip_suffix(b"\n").unwrap_or(text);
            if let Line::Record(read) = G::line(line.strip_suffix(b"\r").unwrap_or(line)) {
                let first = *first.get_or_insert(at);
                self.record(&read, batch.span.offset + (at - first), record);
                record += 1;
            }
            at += text.len() as u64;
        }
    }

    fn record(&mut self, record: &Record, offset: u64, ordinal: u64) {
        match self.lines {
            Lines::Lackey => self.lackey(record, offset, ordinal),
            Lines::Din | Lines::ExtendedDin => self.din(record, offset, ordinal),
        }
    }

    fn lackey(&mut self, record: &Record, offset: u64, ordinal: u64) {
        let size = record.size;
        if record.kind == 0 {
            self.has_instr = true;
            if !(1..=MAX_INSTR_BYTES).contains(&size) {
                let what = || format!("an instruction has `{size}` bytes");
                self.broken(&rules::lackey::INSTR_SIZE, offset, ordinal, what);
            }
            return;
        }
        if !(1..=MAX_DATA_BYTES).contains(&size) {
            let what = || format!("an access has `{size}` bytes");
            self.broken(&rules::lackey::DATA_SIZE, offset, ordinal, what);
        }
        if !self.has_instr && !self.is_partial {
            self.is_partial = true;
            let what = || format!("an access to `{:#x}` stands before any instruction", record.addr);
            self.broken(&rules::lackey::NO_INSTR, offset, ordinal, what);
        }
    }

    fn din(&mut self, record: &Record, offset: u64, ordinal: u64) {
        if self.lines == Lines::ExtendedDin && !(1..=MAX_USUAL_BYTES).contains(&record.size) {
            self.broken(&rules::din::SIZE, offset, ordinal, || format!("a size of `{}` bytes", record.size));
        }
        if record.addr > u32::MAX.into() {
            self.broken(&rules::din::WIDE, offset, ordinal, || format!("address `{:#x}`", record.addr));
        }
    }

    #[cold]
    fn broken(&mut self, rule: &'static RuleInfo, offset: u64, record: u64, what: impl Fn() -> String) {
        let place = || Place {
            file: Some(self.file.clone()),
            offset: Some(offset),
            record: Some(record),
            ..Place::default()
        };
        self.log.add(rule, || (place(), what()));
    }
}

impl Pass for CheckPass {
    fn fork(&self, _: &Shard) -> CheckPass {
        CheckPass {
            file: self.file.clone(),
            lines: self.lines,
            log: self.log.fork(),
            decodes: self.decodes,
            n_records: 0,
            has_instr: false,
            is_partial: false,
        }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.n_records += u64::from(batch.span.records);
        batch.findings.iter().for_each(|finding| self.log.take(finding.clone()));
        if self.decodes {
            match self.lines {
                Lines::Lackey => self.lines::<Lackey>(batch),
                Lines::Din => self.lines::<Din>(batch),
                Lines::ExtendedDin => self.lines::<ExtendedDin>(batch),
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: CheckPass) -> Result<()> {
        self.log.merge(later.log);
        self.n_records += later.n_records;
        self.has_instr |= later.has_instr;
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(CheckReport::of_records(&self.log.close(), self.n_records)))
    }
}
