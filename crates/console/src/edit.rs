//! What verbs that write traces share: where to, how packed, and what they say at the end.

use crate::Common;
use crate::input::Stored;
use crate::number;
use crate::rewrite;
use crate::screen::{Outcome, Result, Screen};
use crate::session::{self, OF_A_FILE, Verdict};
use quipu::drmemtrace::trace::{self, DrmemTrace};
use quipu::drmemtrace::write::{self, Edit, Framed, Observer, Replace, Sharding, Summary, WriteOptions};
use quipu::engine::Watch;
use quipu::model::doc::{Block, Cell, Document};
use quipu::model::edit::packing_for;
use quipu::model::number::{grouped, noun};
use quipu::model::{Damaged, Error, Found, Result as Done, ShardKind, Trace};
use quipu::source::{Codec, Packing, Source};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a trace is written to, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct Output {
    /// What to write: a folder if the trace is a folder, else a file
    #[arg(id = "output", short = 'o', long = "output", value_name = "PATH", help_heading = "Writing")]
    pub path: PathBuf,
    /// Replace a file, or a folder that holds nothing but a trace; of a symbolic link, what it leads to
    #[arg(long, help_heading = "Writing")]
    pub force: bool,
    /// How to pack: zip, gzip, lz4, snappy, zstd or plain; traces of calls: zstd, zstd-noseek, snappy, gzip, brotli or plain.
    /// If not said, as the name of a single file ends, else as the source is packed; traces of calls as zstd
    #[arg(long, value_name = "CONTAINER", help_heading = "Writing")]
    pub container: Option<String>,
    /// Instructions in each chunk of a zip archive; as many as in the source if not said
    #[arg(long, value_name = "N", value_parser = chunk_instrs, help_heading = "Writing")]
    pub chunk_instrs: Option<u64>,
    /// How hard to pack: 1 (fast) to 9 (small) for zip and gzip, to 19 for zstd; traces of calls: to 22 for zstd, 0 to 11 for
    /// brotli
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(0..=22), help_heading = "Writing")]
    pub level: Option<u32>,
    #[command(flatten)]
    /// Whether what is made of a damaged trace is kept.
    pub keeping: Keeping,
    /// Print what was done as JSON
    #[arg(long, help_heading = "Writing")]
    pub json: bool,
    /// Version of the format to raise the trace to, where a verb lets it be chosen.
    #[arg(skip)]
    pub version: Option<u64>,
}

/// What becomes of what is made of a damaged trace.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Keeping {
    /// Write what can be read of a damaged trace, and say from which record on it is doubtful
    #[arg(long, help_heading = "Writing")]
    keep_damaged: bool,
}

impl From<Keeping> for Damaged {
    fn from(keeping: Keeping) -> Damaged {
        keeping.keep_damaged.into()
    }
}

/// The end of the help of every verb that writes.
pub const EXIT_CODES: &str = "
Nothing appears under the name given before all of it is written.

Exit codes:
  0  done
  1  what was read is damaged; nothing was written unless --keep-damaged was given
  2  could not do it; nothing was written";

fn chunk_instrs(text: &str) -> Result<u64, String> {
    match number::number(text)? {
        0 => Err("a chunk holds at least one instruction".to_owned()),
        n => Ok(n),
    }
}

impl Output {
    /// Makes sure that a file or folder is named.
    ///
    /// # Errors
    /// `Usage` for `-`: a name is given to what is complete, which cannot be said of a pipe.
    pub fn refuse_stdout(&self) -> Result<()> {
        if self.path == Path::new("-") {
            return Err(Error::usage("`--output -`: traces cannot be written to standard output")
                .hint("name a file or a folder; `./-` for one that is called `-`")
                .into());
        }
        Ok(())
    }

    /// Makes sure that a folder's name does not promise a container that its files do not get.
    ///
    /// # Errors
    /// `Usage` if it ends like another container.
    fn refuse_misleading_name(&self, source: &Source, packing: Packing) -> Result<()> {
        let named = Packing::of_file_name(&file_name(&self.path));
        match named.filter(|named| source.is_folder() && self.container.is_none() && *named != packing) {
            None => Ok(()),
            Some(named) => {
                let what = format!("`{}` is to be a folder, and is named like a file", self.path.display());
                let hint = format!("say --container {} for its files, or name it otherwise", named.name());
                Err(Error::usage(what).hint(hint).into())
            }
        }
    }

    /// The options of the library.
    ///
    /// # Errors
    /// `Usage` if there is no such level, or standard output is meant.
    pub fn options(&self, source: &Source, common: &Common, strict: bool) -> Result<WriteOptions> {
        self.refuse_stdout()?;
        let by_name =
            || (!source.is_folder()).then(|| Packing::of_file_name(&file_name(&self.path))).flatten();
        let usual = match (&self.container, by_name()) {
            (Some(_), _) => None,
            (None, Some(packing)) => Some(packing),
            (None, None) => Some(packing_of(source)?),
        };
        let container = self.container.as_deref().or(usual.map(Packing::name));
        Ok(WriteOptions {
            pack: packing_for(container, self.level, &self.path)?,
            chunk_instrs: self.chunk_instrs,
            threads: common.threads.map_or(0, usize::from),
            strict,
            damaged: self.keeping.into(),
            replace: if self.force { Replace::Allowed } else { Replace::Never },
            version: self.version,
        })
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The packing of a trace's first file; the nearest that we write where we cannot write that.
fn packing_of(source: &Source) -> Result<Packing> {
    Ok(same_packing(&trace::open(source, &Default::default())?))
}

/// The packing that is most like that of a trace's first file.
pub fn same_packing(trace: &DrmemTrace) -> Packing {
    let codec = trace.files().first().map_or(Codec::Zip, |file| file.container.codec());
    match codec {
        Codec::Zip | Codec::Zlib => Packing::Zip,
        Codec::Gzip => Packing::Gzip,
        Codec::Lz4 => Packing::Lz4,
        Codec::Snappy => Packing::Snappy,
        Codec::Zstd => Packing::Zstd,
        Codec::Plain | Codec::SnappyChunks | Codec::Brotli => Packing::Plain,
    }
}

/// A trace that can be rewritten.
pub struct Opened {
    /// The files.
    pub source: Source,
    /// The trace that they hold.
    pub trace: DrmemTrace,
}

/// Opens a trace to rewrite it.
///
/// # Errors
/// What opening says; `Unsupported` for a format that cannot be written.
pub fn open(input: &Stored, verb: &str) -> Result<Opened> {
    open_source(input.source()?, input, verb)
}

/// The same, with the source at hand: what was read of a pipe to recognise it is not to be had again.
///
/// # Errors
/// As for [`open`].
pub fn open_source(source: Source, input: &Stored, verb: &str) -> Result<Opened> {
    let format = quipu::format_of(&source, &input.opening.options())?.map(|format| format.info());
    if let Some(other) = format.filter(|info| info.name != quipu::drmemtrace::INFO.name) {
        let what = format!("`{verb}` is not for traces of format {}", other.name);
        let own = quipu::FORMATS.iter().find(|format| format.info().name == other.name);
        let edits = own.map_or(&[][..], |format| format.edits()).iter().map(|edit| edit.info().name);
        let edits: Vec<&str> = edits.collect();
        let mut hint = format!("it is for traces of format {}", quipu::drmemtrace::INFO.name);
        if !edits.is_empty() {
            hint.push_str(&format!("; for this one there are: {}", edits.join(", ")));
        }
        return Err(Error::unsupported(what).hint(hint).into());
    }
    if format.is_none() {
        // It says what was found instead.
        quipu::open(&source, &input.opening.options())?;
    }
    let trace = trace::open(&source, &input.opening.options())?;
    Ok(Opened { source, trace })
}

/// Tells a watch what an edit tells its observer.
pub struct Watched<'w>(pub &'w Watch);

impl Observer for Watched<'_> {
    fn advance(&self, records: u64, packed_bytes: u64) {
        self.0.advance(records, packed_bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl Opened {
    /// True if each file holds one thread.
    pub fn has_files_of_threads(&self) -> bool {
        self.trace.shards().iter().all(|shard| shard.kind == ShardKind::Thread)
    }
}

/// Rewrites the threads that were chosen, of files that hold one or several, and says what was done. With
/// `needs_instrs`, threads of which no instruction is left are left out.
pub fn rewrite_threads<E: Edit>(
    input: &Stored,
    output: &Output,
    opened: &Opened,
    (edit_of, needs_instrs): (&(dyn Fn(usize) -> Option<E> + Sync), bool),
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    let threads: write::Threads =
        Arc::new(input.opening.threads.iter().map(|thread| thread.packed()).collect());
    let framed = |shard: usize| {
        let header = &opened.trace.files().get(shard)?.header;
        Some(Framed::new(edit_of(shard)?, header, threads.clone(), needs_instrs))
    };
    rewrite(input, output, opened, &framed, common, screen)
}

/// Rewrites a trace and says what was done.
pub fn rewrite<E: Edit>(
    input: &Stored,
    output: &Output,
    opened: &Opened,
    edit_of: &(dyn Fn(usize) -> Option<E> + Sync),
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    let options = output.options(&opened.source, common, input.opening.strict)?;
    output.refuse_misleading_name(&opened.source, options.pack.packing)?;
    let done = session::watched(screen, |watch| {
        watch.expect(opened.trace.meta().packed_bytes);
        write::rewrite(&opened.trace, &opened.source, &output.path, &options, edit_of, &Watched(watch))
    });
    tell(&opened.trace, done, output, screen)
}

/// Writes a trace again, split in another way, and says what was done.
pub fn reshard(
    input: &Stored,
    output: &Output,
    opened: &Opened,
    sharding: Sharding,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    let Opened { source, trace } = opened;
    let mut options = output.options(source, common, input.opening.strict)?;
    let threads: Vec<u64> = input.opening.threads.iter().map(|thread| thread.packed()).collect();
    if sharding != Sharding::Stream {
        output.refuse_misleading_name(source, options.pack.packing)?;
    }
    if output.container.is_none()
        && sharding == Sharding::Stream
        && let Some(packing) = Packing::of_file_name(&file_name(&output.path))
    {
        options.pack.packing = packing;
    }
    let done = session::watched(screen, |watch| {
        watch.expect(trace.meta().packed_bytes);
        write::reshard(trace, source, &output.path, sharding, &threads, &options, &Watched(watch))
    });
    tell(trace, done, output, screen)
}

/// Says what was written, and what is wrong with what was read.
fn tell(trace: &DrmemTrace, done: Done<Summary>, output: &Output, screen: &Screen) -> Result<Outcome> {
    let summary = match done {
        Ok(summary) => summary,
        Err(error) => return Err(rewrite::undone(error)),
    };
    let mut found = Found::default();
    summary.findings.iter().cloned().for_each(|finding| found.push(finding));
    let verdict = Verdict::new(trace, found, None, false).meaning(OF_A_FILE);
    verdict.say_lost(screen);
    for file in &summary.files {
        let name = file.name.as_ref().filter(|_| summary.files.len() > 1);
        let path = name.map_or_else(|| output.path.clone(), |name| output.path.join(name));
        rewrite::say_doubtful(&path, file.doubtful_from, screen);
    }
    if output.json {
        let mut answer = match summary_json(&summary, &output.path) {
            Value::Object(answer) => answer,
            _ => Default::default(),
        };
        verdict.add_to(&mut answer);
        screen.json(&answer.into())?;
    } else if !screen.is_quiet() {
        screen.documents([&document(&summary, &output.path)])?;
    }
    if let Some(sentence) = layout(&summary) {
        screen.say(format_args!("note: {sentence}"));
    }
    Ok(verdict.tell(screen))
}

/// Why as many records are not written as were read and not dropped; `None` if they are.
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

fn document(summary: &Summary, path: &Path) -> Document {
    let written = summary.written();
    let n_files = summary.files.iter().filter(|file| file.name.is_some()).count() as u64;
    let line = |label: &str, cells: Vec<Cell>| (label.to_owned(), cells);
    let counts = |records: u64, instrs: u64| {
        let of_records = format!("{},", noun(records, "record"));
        vec![Cell::Count(records), of_records.into(), Cell::Count(instrs), noun(instrs, "instruction").into()]
    };
    let mut facts = vec![line("written", counts(written.records, written.instrs))];
    let what = format!("{},", noun(n_files, "file"));
    facts.push(line("", vec![Cell::Count(n_files), what.into(), Cell::Bytes(summary.packed_bytes())]));
    let (records, instrs) = (summary.taken.dropped_records, summary.taken.dropped_instrs);
    if records > 0 || instrs > 0 {
        facts.push(line("dropped", counts(records, instrs)));
    }
    let lost: Vec<&str> =
        summary.files.iter().filter(|file| file.name.is_none()).map(|file| &*file.source).collect();
    if !lost.is_empty() {
        let count = lost.len() as u64;
        let files = format!("{} of which nothing is left", noun(count, "file"));
        facts.push(line("", vec![Cell::Count(count), files.into()]));
    }
    Document::new(path.display().to_string()).with(Block::Facts(facts))
}

/// Keys: `output`, `files` (a list of `source`, `name` or `null` if nothing was left, `read` and `written` with `entries`,
/// `records` and `instrs`, `dropped_records`, `bytes`, `members`, `doubtful_from`, the number of records before the
/// first damage, or `null`; `read` and `dropped_records` are `null` for what was
/// written from several files), `read`, `written`, `dropped` (`records`, `instrs`), `layout` (of the records `read`, those
/// that belong to the layout of files and are no records of the program, such as headers of threads and footers of chunks,
/// and of the records `written`; so `read` less `dropped` less `layout.read` is `written` less `layout.written`), `bytes`.
fn summary_json(summary: &Summary, path: &Path) -> Value {
    let counts = |counts: write::Counts| json!({ "entries": counts.entries, "records": counts.records, "instrs": counts.instrs });
    let files: Vec<Value> = summary
        .files
        .iter()
        .map(|file| {
            json!({
                "source": file.source,
                "name": file.name,
                "read": file.taken.map(|taken| counts(taken.read)),
                "written": counts(file.written),
                "dropped_records": file.taken.map(|taken| taken.dropped_records),
                "bytes": file.packed_bytes,
                "members": file.members,
                "doubtful_from": file.doubtful_from,
            })
        })
        .collect();
    let taken = &summary.taken;
    json!({
        "output": path.display().to_string(),
        "files": files,
        "read": counts(taken.read),
        "written": counts(summary.written()),
        "dropped": { "records": taken.dropped_records, "instrs": taken.dropped_instrs },
        "layout": { "read": taken.layout_records, "written": summary.made_records() },
        "bytes": summary.packed_bytes(),
    })
}
