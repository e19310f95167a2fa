//! A conversion makes up only what its plan announces.

use quipu_engine::{Watch, convert, plan_conversion};
use quipu_model::convert::{
    Ledger, MadeUp, Outcome, RecordJob, RecordSink, RecordWriter, RecordWriterInfo, Said,
};
use quipu_model::trace::Fact;
use quipu_model::{Batch, Columns, Damaged, ErrorKind, Options, Result};
use quipu_testkit::MemoryTrace;
use std::path::Path;

/// A format that makes up content with this name.
struct Inventor(&'static str);

static INFO: RecordWriterInfo = RecordWriterInfo {
    required: Columns::MARKS,
    taken: Columns::MARKS,
    made_up: &[
        MadeUp { what: "sizes", said: Said::InHeader(|meta| meta.n_files == u64::MAX) },
        MadeUp { what: "threads", said: Said::By(Columns::MARKS) },
        MadeUp { what: "ends", said: Said::ByRecords },
    ],
    options: &[],
};

impl RecordWriter for Inventor {
    fn info(&self) -> &'static RecordWriterInfo {
        &INFO
    }

    fn begin(&self, _: &RecordJob<'_>) -> Result<Box<dyn RecordSink>> {
        Ok(Box::new(Invented(self.0)))
    }
}

struct Invented(&'static str);

impl RecordSink for Invented {
    fn take(&mut self, _: &Batch, _: &mut Ledger) -> Result<()> {
        Ok(())
    }

    fn n_written(&self) -> u64 {
        1
    }

    fn end(&mut self, ledger: &mut Ledger) -> Result<()> {
        ledger.add(self.0, Outcome::MadeUp, 1);
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<Vec<Fact>> {
        assert_ne!(self.0, "threads", "it was refused before");
        Ok(Vec::new())
    }
}

#[test]
fn what_is_made_up_stands_in_the_plan() {
    let trace = MemoryTrace::parse("shard a\nmark 0 1\n").unwrap();
    let options = Options::default();
    for what in ["sizes", "ends", "threads", "colours"] {
        let writer = Inventor(what);
        let plan = plan_conversion(&trace, "invented", &writer, &[]).unwrap();
        assert_eq!((&plan.made_up[..], &plan.perhaps_made_up[..]), (&["sizes"][..], &["ends"][..]));
        let job = RecordJob {
            trace: &trace,
            columns: Columns::NONE,
            options: &options,
            output: Path::new("nowhere"),
            replace: false,
            container: None,
            level: None,
            damaged: Damaged::Refuse,
            strict: false,
        };
        let done = convert(&plan, &writer, &job, &[], &Watch::new());
        if ["sizes", "ends"].contains(&what) {
            assert_eq!(done.unwrap().ledger.lines()[0].what, what);
        } else {
            let error = done.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Internal);
            assert_eq!(error.message(), format!("the plan did not say that `{what}` would be made up"));
        }
    }
}
