//! `recover`: saves the readable part of a damaged trace as a new trace.

use crate::recover::{RecoverOptions, Recovered, recover};
use crate::trace;
use crate::write::packing_for;
use quipu_model::damaged::Reading;
use quipu_model::doc::{Block, Cell, Grid};
use quipu_model::number::noun;
use quipu_model::options::Kind;
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, Loss, OptionSpec, Options, Result, Severity};

/// The transform.
#[derive(Debug)]
pub(super) struct Recover;

const STREAM: OptionSpec = OptionSpec::new(
    "stream",
    Kind::Count,
    "",
    "recover this stream of a file that has several, counted from 0",
);

static INFO: TransformInfo = TransformInfo {
    name: "recover",
    title: "what can be saved of a trace that is damaged, cut or written by two processes",
    options: &[STREAM],
};

impl Transform for Recover {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    /// The first read finds out what can be saved, the second one writes it.
    fn reads_again(&self, _: &Options) -> bool {
        true
    }

    fn run(&self, job: &TransformJob<'_>, _: &dyn Progress) -> Result<Transformed> {
        if !job.opening.threads.is_empty() {
            return Err(Error::usage("a trace is recovered as a whole")
                .hint("`quipu trim --thread` writes the calls of some threads of what was recovered"));
        }
        if job.strict {
            return Err(Error::usage("`recover` reads on after errors, which `--strict` rules out"));
        }
        let trace = trace::open(job.source, job.opening)?;
        let how = RecoverOptions {
            packing: packing_for(job.container, job.level, job.output)?,
            level: job.level,
            replace: job.replace,
            stream: job.options.has(&STREAM).then(|| job.options.length(&STREAM)),
        };
        let recovered = recover(&trace, job.output, &how)?;
        let mut findings = recovered.salvaged.found.as_slice().to_vec();
        let is_flawed = !findings.is_empty();
        // Damage without a known loss still means that something could not be saved.
        if findings.iter().all(|finding| finding.loss.is_none())
            && let Some(first) = findings.iter_mut().find(|finding| finding.severity == Severity::Error)
        {
            first.loss = Some(Box::new(Loss::from(first.place.clone())));
        }
        Ok(Transformed {
            facts: facts(&recovered, &how),
            shown: shown(&recovered),
            reading: Reading { findings, ..Reading::default() },
            is_flawed,
            ..Transformed::default()
        })
    }
}

/// The facts for programs. Keys: `container`, `stream` (index of the stream written), `copied`, `streams` (see
/// [`StreamFacts`](crate::salvage::StreamFacts)), `lost_bytes`, `lost_chunks`, `stream_bytes`, `packed_bytes`.
fn facts(recovered: &Recovered, how: &RecoverOptions) -> Vec<Fact> {
    let Recovered { salvaged, .. } = recovered;
    vec![
        Fact::new("container", "container", how.packing.name()),
        Fact::new("stream", "stream", recovered.stream),
        Fact::new("copied", "copied", recovered.is_copy),
        Fact::new("streams", "streams", &salvaged.streams),
        Fact::new("lost_bytes", "passed over", salvaged.lost_bytes),
        Fact::new("lost_chunks", "unreadable", salvaged.lost_chunks),
        Fact::new("stream_bytes", "bytes of the stream", recovered.stream_bytes),
        Fact::new("packed_bytes", "bytes of the file", recovered.packed_bytes),
    ]
}

/// The facts as shown to people.
fn shown(recovered: &Recovered) -> Vec<Block> {
    let Recovered { salvaged, stream, .. } = recovered;
    let fact = |label: &str, cells: Vec<Cell>| (label.to_owned(), cells);
    let mut facts = Vec::new();
    if let Some(saved) = salvaged.streams.get(*stream) {
        let how = if recovered.is_copy { "copied as they are" } else { "written anew" };
        facts.push(fact(
            "saved",
            vec![Cell::Count(saved.calls), format!("{},", noun(saved.calls, "call")).into(), how.into()],
        ));
        if saved.incomplete > 0 {
            let what = "of them: where they end is lost or was never written";
            facts.push(fact("incomplete", vec![Cell::Count(saved.incomplete), what.into()]));
        }
        if saved.lost_calls > 0 {
            let what = format!("{} at least", noun(saved.lost_calls, "call"));
            facts.push(fact("lost", vec![Cell::Count(saved.lost_calls), what.into()]));
        }
        if saved.doubtful > 0 {
            let what = format!("{} right before damage", noun(saved.doubtful, "call"));
            facts.push(fact("in doubt", vec![Cell::Count(saved.doubtful), what.into()]));
        }
        if saved.suspect > 0 {
            let what =
                format!("{} of damaged chunks, whose values may be wrong", noun(saved.suspect, "call"));
            facts.push(fact("in doubt", vec![Cell::Count(saved.suspect), what.into()]));
        }
        if saved.lost_signatures > 0 {
            let what = noun(saved.lost_signatures, "signature");
            facts.push(fact("made up", vec![Cell::Count(saved.lost_signatures), what.into()]));
        }
    }
    if salvaged.lost_bytes > 0 {
        facts.push(fact("passed over", vec![Cell::Bytes(salvaged.lost_bytes)]));
    }
    if salvaged.lost_chunks > 0 {
        let what = noun(salvaged.lost_chunks, "chunk");
        facts.push(fact("unreadable", vec![Cell::Count(salvaged.lost_chunks), what.into()]));
    }
    facts.push(fact("size", vec![Cell::Bytes(recovered.packed_bytes)]));
    let mut blocks = vec![Block::Facts(facts)];
    if salvaged.streams.len() > 1 {
        let rows = salvaged.streams.iter().enumerate().map(|(i, other)| {
            let (number, saved) = (Cell::Text(i.to_string()), if i == *stream { "this one" } else { "" });
            vec![number, Cell::Count(other.calls), Cell::Addr(other.offset), saved.into()]
        });
        let head = ["stream", "calls", "begins at", "saved"].map(str::to_owned).into();
        let title = "streams in the file".to_owned();
        blocks.push(Block::Grid(Grid { title, head, rows: rows.collect(), more: 0 }));
    }
    blocks
}
