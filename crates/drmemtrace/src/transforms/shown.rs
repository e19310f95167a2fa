//! The summary of files that were written.

use crate::trace::DrmemTrace;
use crate::write::{Counts, FileSummary, Summary};
use quipu_model::damaged::Reading;
use quipu_model::doc::{Block, Cell};
use quipu_model::number::{grouped, noun};
use quipu_model::trace::Fact;
use quipu_model::transform::{Doubtful, Transformed};
use quipu_model::{Found, Trace};
use serde::Serialize;

/// The result of writing.
///
/// Facts: `files` (a list of `source`, `name` or `null` if nothing was left, `read` and `written` with `entries`, `records`
/// and `instrs`, `dropped_records`, `bytes`, `members`, `doubtful_from`, the number of records before the first damage, or
/// `null`; `read` and `dropped_records` are `null` for a file that was written from several files), `read`, `written`,
/// `dropped` (`records`, `instrs`), `layout` (number of the records `read`, and of those `written`, that belong to the
/// layout of files rather than to the program, such as headers of threads and footers of chunks; so `read` less `dropped`
/// less `layout.read` is `written` less `layout.written`), `bytes`.
pub(super) fn transformed(trace: &DrmemTrace, summary: Summary) -> Transformed {
    let mut found = Found::default();
    let all = trace.meta().findings.iter().chain(&summary.findings);
    all.cloned().for_each(|finding| found.push(finding));
    let is_several = summary.files.len() > 1;
    let doubtful = summary.files.iter().filter_map(|file| {
        Some(Doubtful { file: file.name.clone().filter(|_| is_several), from: file.doubtful_from? })
    });
    Transformed {
        doubtful: doubtful.collect(),
        facts: facts(&summary),
        shown: vec![Block::Facts(lines(&summary))],
        notes: layout(&summary).into_iter().collect(),
        reading: Reading { findings: found.into_vec(), ..Reading::default() },
        ..Transformed::default()
    }
}

/// Explains why the number of records written differs from those read and not dropped; `None` if it does not.
fn layout(summary: &Summary) -> Option<String> {
    let (read, made) = (summary.taken.layout_records, summary.made_records());
    (read != made).then(|| {
        format!(
            "of the records read, {} belong to the layout of files, such as headers of threads and footers of chunks; of \
             those written, {} do",
            grouped(read),
            grouped(made)
        )
    })
}

/// The summary as text.
fn lines(summary: &Summary) -> Vec<(String, Vec<Cell>)> {
    let written = summary.written();
    let n_files = summary.files.iter().filter(|file| file.name.is_some()).count() as u64;
    let line = |label: &str, cells: Vec<Cell>| (label.to_owned(), cells);
    let counts = |records: u64, instrs: u64| {
        let of_records = format!("{},", noun(records, "record"));
        vec![Cell::Count(records), of_records.into(), Cell::Count(instrs), noun(instrs, "instruction").into()]
    };
    let mut lines = vec![line("written", counts(written.records, written.instrs))];
    let what = format!("{},", noun(n_files, "file"));
    lines.push(line("", vec![Cell::Count(n_files), what.into(), Cell::Bytes(summary.packed_bytes())]));
    let (records, instrs) = (summary.taken.dropped_records, summary.taken.dropped_instrs);
    if records > 0 || instrs > 0 {
        lines.push(line("dropped", counts(records, instrs)));
    }
    let n_lost = summary.files.iter().filter(|file| file.name.is_none()).count() as u64;
    if n_lost > 0 {
        let files = format!("{} with nothing left", noun(n_lost, "file"));
        lines.push(line("", vec![Cell::Count(n_lost), files.into()]));
    }
    lines
}

/// The summary of one written file in machine-readable form.
#[derive(Serialize)]
struct Written {
    source: String,
    name: Option<String>,
    read: Option<Counts>,
    written: Counts,
    dropped_records: Option<u64>,
    bytes: u64,
    members: u64,
    doubtful_from: Option<u64>,
}

#[derive(Serialize)]
struct Dropped {
    records: u64,
    instrs: u64,
}

#[derive(Serialize)]
struct Layout {
    read: u64,
    written: u64,
}

/// The summary in machine-readable form.
fn facts(summary: &Summary) -> Vec<Fact> {
    let file = |file: &FileSummary| Written {
        source: file.source.clone(),
        name: file.name.clone(),
        read: file.taken.map(|taken| taken.read),
        written: file.written,
        dropped_records: file.taken.map(|taken| taken.dropped_records),
        bytes: file.packed_bytes,
        members: file.members,
        doubtful_from: file.doubtful_from,
    };
    let taken = &summary.taken;
    let dropped = Dropped { records: taken.dropped_records, instrs: taken.dropped_instrs };
    let layout = Layout { read: taken.layout_records, written: summary.made_records() };
    vec![
        Fact::new("files", "files", summary.files.iter().map(file).collect::<Vec<_>>()),
        Fact::new("read", "read", taken.read),
        Fact::new("written", "written", summary.written()),
        Fact::new("dropped", "dropped", dropped),
        Fact::new("layout", "layout", layout),
        Fact::new("bytes", "bytes", summary.packed_bytes()),
    ]
}
