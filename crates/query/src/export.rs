//! Writes tables and lenses of a trace as files for other programs.
//!
//! A Parquet folder has a folder for each table and lens, such as `memrefs` and `lens.accesses`, with a file for each shard
//! that has rows of it, or one file without rows, and the [`MANIFEST`], which describes the trace. An Arrow file or stream has
//! room for one table or lens only.
//!
//! The bytes do not depend on the number of threads: rows come in the trace's order, in batches that end at the same places.
//! For a folder, each shard is read once for the rows of all tables, or a few times if there are many tables.

mod sinks;

use quipu_arrow::{Encoder, Form, Interop, Packing, Sink, about};
use quipu_engine::{
    Progress as Reached, RowBatch, RowStream, Selection, find_table, row_names, rows, rows_of_each,
    side_by_side,
};
use quipu_expr::Where;
use quipu_model::damaged::{Intake, Reading, SoFar};
use quipu_model::fresh::{Folder, Fresh, cannot};
use quipu_model::options::{Kind, Repeats};
use quipu_model::trace::{Fact, settled};
use quipu_model::transform::{
    Doubtful, Progress, Transform, TransformInfo, TransformJob, Transformed, check_level,
};
use quipu_model::{
    Columns, Error, Filter, Finding, OpenOptions, OptionSpec, Place, Predicate, Result, Schema, ShardId,
    Trace,
};
use quipu_source::Source;
use serde_json::{Value, json};
use sinks::{Late, Sinking, WAITING_BATCHES, packing_of};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Name of the file in a folder that describes the trace.
pub const MANIFEST: &str = "quipu.json";

/// Name of the file of a table without rows.
const EMPTY: &str = "empty.parquet";

/// Option that names the tables and lenses to write.
const TABLE: OptionSpec = OptionSpec {
    repeats: Repeats::Commas,
    value: "NAMES",
    group: "Parquet and Arrow",
    ..OptionSpec::new(
        "table",
        Kind::Text,
        "all",
        "tables and lenses to write, such as memrefs, lens.accesses or call.FUNCTION; an Arrow file gets one, by default \
         the first derived one",
    )
};
/// Option that names the programs for which files are written.
const INTEROP: OptionSpec = OptionSpec {
    value: "READER",
    group: "Parquet and Arrow",
    ..OptionSpec::new(
        "interop",
        Kind::Choice(&["any", "spark"]),
        "any",
        "target readers: spark has no unsigned numbers, so numbers of up to 32 bits get the next wider type, and those of \
         64 bits keep their bits",
    )
};

/// Which rows of a table.
const WHERE: OptionSpec = OptionSpec {
    value: "EXPR",
    group: "Parquet and Arrow",
    ..OptionSpec::new(
        "where",
        Kind::Text,
        "",
        "only rows for which this SQL expression is true, over the columns of the one table or lens that is written, which \
         `docs/tables.md` lists",
    )
};

/// The options of [`Export`].
pub static OPTIONS: [OptionSpec; 3] = [TABLE, INTEROP, WHERE];

static INFO: TransformInfo = TransformInfo {
    name: "convert",
    title: "tables and lenses as a folder of Parquet, or one of them as a file or stream of Arrow",
    options: &OPTIONS,
};

/// Opens a trace of any format.
pub type Open = fn(&Source, &OpenOptions) -> Result<Box<dyn Trace>>;

/// The transform `convert` to Arrow or Parquet files.
#[derive(Clone, Copy)]
pub struct Export {
    /// Opens the trace to convert.
    pub open: Open,
    /// Form of the output.
    pub form: Form,
}

/// The form of a file with this name, by its extension; `None` for other extensions.
pub fn form_of_name(path: &Path) -> Option<Form> {
    match path.extension()?.to_str()? {
        "parquet" => Some(Form::Parquet),
        "arrow" => Some(Form::File),
        "arrows" => Some(Form::Stream),
        _ => None,
    }
}

impl Transform for Export {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn reads_again(&self, _: &quipu_model::Options) -> bool {
        true
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let trace: Arc<dyn Trace> = Arc::from((self.open)(job.source, job.opening)?);
        let (writing, names) = Writing::new(job, trace.clone(), self.form, progress)?;
        // If data proves damaged after its rows were written, the next attempt leaves it out.
        let (transformed, fresh) = settled(
            &*trace,
            || progress.is_cancelled(),
            || match self.form {
                Form::Parquet => writing.folder(&names),
                form => writing.file(form, first(&names)?),
            },
        )?;
        // Only the last attempt gets the name.
        fresh.commit()?;
        Ok(transformed)
    }
}

/// Writes a table of a trace to a pipe as an Arrow stream while it is read. The job's output path is not used.
///
/// # Errors
/// As for [`Export`].
pub fn into_pipe(
    trace: Arc<dyn Trace>,
    job: &TransformJob<'_>,
    progress: &dyn Progress,
    out: impl Write + Send,
) -> Result<Transformed> {
    let (writing, names) = Writing::new(job, trace, Form::Stream, progress)?;
    writing.table(Form::Stream, first(&names)?, out)
}

fn first(names: &[String]) -> Result<&str> {
    names.first().map(String::as_str).ok_or_else(|| Error::unsupported("the trace has no tables"))
}

/// Resolves the requested names of tables and lenses, or selects the default ones if `named` is empty.
fn names_of(trace: &dyn Trace, named: &[&str], form: Form) -> Result<Vec<String>> {
    let all = row_names(trace)?;
    if named.is_empty() && form == Form::Parquet {
        return Ok(all);
    }
    if named.is_empty() {
        let derived =
            trace.tables()?.iter().find(|schema| schema.is_derived()).map(|schema| schema.name.to_string());
        let first = derived.or(all.first().cloned());
        return Ok(vec![first.ok_or_else(|| Error::unsupported("the trace has no tables"))?]);
    }
    for name in named {
        // A lens may be named with or without its prefix.
        let is_lens = all.iter().any(|known| known.strip_prefix("lens.") == Some(*name));
        if !is_lens && !all.iter().any(|known| known == name) {
            find_table(trace, name).map_err(|error| match name.strip_prefix("lens.") {
                Some(lens) if Columns::named(lens).is_some() => {
                    Error::missing(format!("the trace has no rows of lens `{lens}`"))
                }
                _ => error,
            })?;
        }
    }
    if named.len() > 1 && form != Form::Parquet {
        return Err(Error::usage("a file of Arrow holds one table")
            .hint("name one, or write a folder of Parquet, whose name ends in .parquet"));
    }
    // A lens is written under its full name. A name without the prefix means a table if there is one.
    let whole = |name: &&str| {
        let lens = format!("lens.{name}");
        if all.contains(&lens) && !all.iter().any(|known| known == name) { lens } else { (*name).to_owned() }
    };
    Ok(named.iter().map(whole).collect())
}

/// Turns a name into a file name that is valid on any system: unsafe bytes become `%` and two hexadecimal digits.
fn file_name(name: &str) -> String {
    let mut safe = String::new();
    for (at, byte) in name.bytes().take(MAX_NAME_BYTES).enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => safe.push(char::from(byte)),
            b'.' if at > 0 => safe.push('.'),
            _ => safe.push_str(&format!("%{byte:02X}")),
        }
    }
    safe
}

/// Maximum number of bytes of a table's name that the name of its folder takes.
const MAX_NAME_BYTES: usize = 60;

/// Maximum number of tables that are written in one read: each has an open file and waiting rows.
const MAX_AT_ONCE: usize = 64;
struct Writing<'a> {
    job: &'a TransformJob<'a>,
    trace: Arc<dyn Trace>,
    packing: Packing,
    interop: Interop,
    /// Selects rows of the one table.
    filter: Option<Filter>,
    progress: &'a dyn Progress,
}

/// Progress of an export and its findings.
struct State {
    intake: Intake,
    /// The shard whose rows are written; `None` if the rows of all shards go into one file.
    shard: Option<ShardId>,
    /// Files of shards with damage.
    doubtful: Vec<Doubtful>,
    /// Number of records that the last read visited.
    n_records: u64,
    told: Vec<Finding>,
    /// Findings from opening the trace, reported together with those of the first read.
    at_opening: Vec<Finding>,
}

impl<'a> Writing<'a> {
    /// Prepares a job; also returns the names of the tables and lenses to write.
    fn new(
        job: &'a TransformJob<'a>,
        trace: Arc<dyn Trace>,
        form: Form,
        progress: &'a dyn Progress,
    ) -> Result<(Writing<'a>, Vec<String>)> {
        if let Some(container) = job.container {
            let what = format!("files of Arrow and Parquet are packed inside; `{container}` was asked for");
            return Err(Error::usage(what));
        }
        let level = check_level(job.level, Some(1..=22), "zstd in Arrow and Parquet")?;
        // Arrow files take no level.
        let usual = Packing::default();
        let packing = Packing { level: level.map_or(usual.level, |level| level as i32), ..usual };
        let interop = match job.options.word(&INTEROP) {
            "spark" => Interop::Spark,
            _ => Interop::Any,
        };
        let named: Vec<&str> = job.options.texts(&TABLE).collect();
        let names = names_of(&*trace, &named, form)?;
        let filter = job.options.text(&WHERE).map(Where::new).transpose()?.map(Where::filter);
        if filter.is_some() && names.len() > 1 {
            let what = "`--where` is about the columns of one table, and several are to be written";
            return Err(Error::usage(what).hint(format!("name one with --table: {}", names.join(", "))));
        }
        let writing = Writing { job, trace, packing, interop, filter, progress };
        Ok((writing, names))
    }
}

impl Writing<'_> {
    fn begin(&self) -> State {
        let intake = Intake::new(self.job.damaged).strict(self.job.strict);
        State {
            intake,
            shard: None,
            doubtful: Vec::new(),
            n_records: 0,
            told: Vec::new(),
            at_opening: self.trace.meta().findings.clone(),
        }
    }

    /// Describes the trace. If calls are written, this reads the functions that records define.
    fn about(&self, names: &[String]) -> Result<Value> {
        let defined = match names.iter().any(|name| name == "lens.calls") {
            true => about::defined(&*self.trace, &|| self.progress.is_cancelled())?,
            false => Vec::new(),
        };
        Ok(about::about(&*self.trace, &defined))
    }

    fn selection(&self, name: &str, shard: Option<ShardId>) -> Selection {
        Selection {
            predicate: Predicate {
                threads: self.threads(),
                filter: self.filter.clone(),
                ..Predicate::default()
            },
            shards: shard.into_iter().collect(),
            threads: self.job.threads,
            strict: self.job.strict,
            ..Selection::new(name)
        }
    }

    /// The selected threads if shards hold several threads; otherwise opening has already left out the files of other threads.
    fn threads(&self) -> Vec<quipu_model::ThreadId> {
        let is_mixed = |shard: &quipu_model::Shard| shard.kind != quipu_model::ShardKind::Thread;
        match self.trace.shards().iter().any(is_mixed) {
            true => self.job.opening.threads.clone(),
            false => Vec::new(),
        }
    }

    /// Writes one table as a file. The caller gives the file its name by committing it.
    fn file(&self, form: Form, name: &str) -> Result<(Transformed, Fresh)> {
        let output = self.job.output;
        let (fresh, file) = Fresh::file(output, self.job.replace.into())?;
        let transformed = self.table(form, name, BufWriter::new(file))?;
        Ok((transformed, fresh))
    }

    /// Writes one table to `out`.
    fn table(&self, form: Form, name: &str, out: impl Write + Send) -> Result<Transformed> {
        let mut state = self.begin();
        let stream = rows(self.trace.clone(), &self.selection(name, None))?;
        let about = [(quipu_arrow::schema::TRACE, self.about(&[name.to_owned()])?.to_string())];
        let written = self.rows(stream, form, &about, vec![out], &mut state)?;
        let n_rows: u64 = written.into_iter().flatten().sum();
        let facts = vec![Fact::new("table", "table", name), Fact::new("rows", "rows", n_rows)];
        Ok(Transformed { facts, reading: state.intake.finish(), ..Transformed::default() })
    }

    /// Writes all tables as a folder. The caller gives the folder its name by committing it.
    fn folder(&self, names: &[String]) -> Result<(Transformed, Fresh)> {
        let is_ours = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name == MANIFEST || (path.is_dir() && holds_only_parquet(path))
        };
        let (fresh, folder) = Fresh::folder(self.job.output, self.job.replace.into(), &is_ours)?;
        let mut state = self.begin();
        let mut records = vec![0_u64; self.trace.shards().len()];
        let mut used: Vec<String> = Vec::new();
        let mut all: Vec<Written<'_>> = Vec::new();
        for name in names {
            let mut safe = file_name(name);
            while used.iter().any(|other| other.eq_ignore_ascii_case(&safe)) {
                safe.push_str("%2B");
            }
            used.push(safe.clone());
            let within = folder.within(&safe);
            std::fs::create_dir(&*within).map_err(|cause| cannot("create", &within, cause))?;
            all.push(Written { name, safe, files: Vec::new(), n_rows: 0 });
        }
        let mut shards: Vec<ShardId> = self.trace.shards().iter().map(|shard| shard.id).collect();
        shards.sort_unstable();
        for some in all.chunks_mut(MAX_AT_ONCE) {
            for shard in &shards {
                self.shard(&folder, *shard, some, &mut state)?;
                if let Some(known) = records.get_mut(shard.0 as usize) {
                    *known = state.n_records.max(*known);
                }
            }
        }
        let (mut facts, mut tables) = (Vec::new(), Vec::new());
        for Written { name, safe, files, n_rows } in all {
            facts.push(Fact::new(name.to_owned(), name.to_owned(), n_rows));
            let selection = self.selection(name, None);
            let schema = quipu_engine::row_schema(&*self.trace, &selection)?;
            let arrow = quipu_arrow::arrow_schema(&schema, self.interop, &[])?;
            let fields =
                arrow.fields().iter().map(|field| Value::from(field.name().as_str())).collect::<Vec<_>>();
            let mut table = json!({
                "name": name, "folder": safe, "rows": n_rows, "columns": fields, "files": files,
            });
            if files.is_empty() {
                // A file without rows still states the columns.
                let within = folder.within(&safe);
                let path = within.join(EMPTY);
                let out = Late { folder: &within, path: &path, file: None };
                let sink = Sink::new(Form::Parquet, &Arc::new(arrow), self.packing, BufWriter::new(out))?;
                sink.finish()?.flush().map_err(|cause| cannot("write", &path, cause))?;
                table["empty"] = Value::from(EMPTY);
            }
            tables.push(table);
        }
        // If no table was read, the findings from opening were not reported yet.
        let mut left = std::mem::take(&mut state.at_opening);
        state.intake.take(&mut left, SoFar::default())?;
        let manifest = json!({
            "quipu": 1, "trace": self.about(names)?, "tables": tables, "records": records,
        });
        let path = folder.join(MANIFEST);
        let mut file = folder.create(&path)?;
        file.write_all(format!("{manifest:#}\n").as_bytes())
            .map_err(|cause| cannot("write", &path, cause))?;
        drop(file);
        let n_files: usize = tables.iter().filter_map(|table| table["files"].as_array()).map(Vec::len).sum();
        facts.push(Fact::new("files", "files", n_files));
        let (mut reading, mut doubtful) = (state.intake.finish(), state.doubtful);
        match self.trace.shards().len() {
            // Each file is said by itself, with its own records.
            2.. if !doubtful.is_empty() => reading = Reading { doubtful_from: None, ..reading },
            _ => doubtful.clear(),
        }
        Ok((Transformed { facts, doubtful, reading, ..Transformed::default() }, fresh))
    }

    /// Writes the rows of a shard, with a file for each table that has some.
    fn shard(
        &self,
        folder: &Folder,
        shard: ShardId,
        all: &mut [Written<'_>],
        state: &mut State,
    ) -> Result<()> {
        let selections: Vec<Selection> =
            all.iter().map(|written| self.selection(written.name, Some(shard))).collect();
        let stream = rows_of_each(self.trace.clone(), &selections)?;
        state.shard = Some(shard);
        let file_name = shard_file(shard);
        let places: Vec<_> = all
            .iter()
            .map(|written| {
                let within = folder.within(&written.safe);
                let path = within.join(&file_name);
                (within, path)
            })
            .collect();
        let outs = places.iter().map(|(within, path)| {
            let out = Late { folder: within, path, file: None };
            BufWriter::new(out)
        });
        let written = self.rows(stream, Form::Parquet, &[], outs.collect(), state);
        let written = written.map_err(|refused| self.refusal_of_all(refused, all))?;
        for (table, n_rows) in all.iter_mut().zip(written) {
            if let Some(n_rows) = n_rows {
                table.n_rows += n_rows;
                table.files.push(json!({ "shard": shard.0, "file": file_name, "rows": n_rows }));
            }
        }
        Ok(())
    }

    /// Turns a refusal because of damage in one shard into one for all shards, which reports everything that is lost, as for a
    /// table in one file.
    fn refusal_of_all(&self, refused: Error, all: &[Written<'_>]) -> Error {
        if self.job.strict || !refused.is_damage() {
            return refused;
        }
        let mut state = self.begin();
        let selections: Vec<Selection> =
            all.iter().map(|written| self.selection(written.name, None)).collect();
        let outs = all.iter().map(|_| std::io::sink()).collect();
        let read = rows_of_each(self.trace.clone(), &selections)
            .and_then(|stream| self.rows(stream, Form::Stream, &[], outs, &mut state));
        read.err().unwrap_or(refused)
    }

    /// Writes the rows of a stream, with an output for each selection, and returns the number of rows of each. `None` means
    /// that a selection had no rows and nothing was written; Arrow files are written even without rows.
    fn rows<W: Write + Send>(
        &self,
        mut stream: RowStream,
        form: Form,
        about: &[(&str, String)],
        outs: Vec<W>,
        state: &mut State,
    ) -> Result<Vec<Option<u64>>> {
        let packing = packing_of(self.packing, stream.schemas().len());
        let sinking = |(schema, out): (&Arc<Schema>, W)| {
            Sinking::new(Encoder::new(schema, self.interop, about)?, form, packing, out)
        };
        let all = stream.schemas().iter().zip(outs).map(sinking).collect::<Result<Vec<_>>>()?;
        let (watch, mut told) = (stream.watch().clone(), Reached::default());
        let read = |give: &mut dyn FnMut(usize, RowBatch) -> Result<()>| {
            while let Some(next) = stream.next_of_each() {
                self.progress.go_on()?;
                let now = watch.progress();
                self.progress.advance(
                    now.records.saturating_sub(told.records),
                    now.packed_bytes.saturating_sub(told.packed_bytes),
                );
                told = now;
                let (nth, batch) = next?;
                give(nth, batch)?;
            }
            Ok(())
        };
        let all = side_by_side(self.job.threads, all, WAITING_BATCHES, Sinking::take, read)?;
        self.progress.go_on()?;
        state.n_records = watch.progress().records;
        let has_written_damaged = stream.has_delivered_damaged();
        // The same damage appears in each read, and also when the trace is opened.
        let (found, error) = stream.into_losses();
        let found = found.into_vec();
        let mut new = Finding::not_met(&std::mem::take(&mut state.at_opening), &found);
        if let Some(error) = &error {
            new.retain(|finding| !error.is_same_fault(finding));
        }
        let is_new = |finding: &Finding| {
            let is_known = |known: &Finding| known == finding || known.is_same_fault(finding);
            !state.told.iter().any(is_known)
        };
        new.extend(found.into_iter().filter(is_new));
        state.told.extend(new.iter().cloned());
        let n_good = match has_written_damaged {
            true => Some(0),
            false => self.n_good(&new, error.as_ref(), state.shard),
        };
        if let (Some(from), Some(shard)) = (n_good, state.shard) {
            state.doubtful.push(Doubtful { file: Some(format!("*/{}", shard_file(shard))), from });
        }
        let n_good = n_good.unwrap_or(state.n_records);
        let so_far = SoFar::vouched(n_good).agreed(n_good);
        state.intake.take_all(&mut new, so_far, error.map_or(Ok(()), Err), so_far)?;
        let mut written = Vec::new();
        for one in all {
            let n_rows = one.n_rows;
            let mut out = one.finish()?;
            if let Some(out) = &mut out {
                out.flush().map_err(|cause| cannot("write", self.job.output, cause))?;
            }
            written.push(out.map(|_| n_rows));
        }
        Ok(written)
    }

    /// The number of records before the first damage in a file; 0 if no more is known, and `None` without damage. Records count
    /// in each shard, so that in a file of several shards they count only in the first.
    fn n_good(&self, found: &[Finding], error: Option<&Error>, shard: Option<ShardId>) -> Option<u64> {
        let shards = self.trace.shards();
        let counts = |place: &Place| {
            shard.is_some()
                || shards.len() == 1
                || place.file == shards.first().map(|first| first.name.clone())
        };
        let of_findings = found
            .iter()
            .filter(|finding| finding.is_damage())
            .map(|finding| (&finding.place, finding.doubtful_from.or(finding.place.record)));
        let of_error =
            error.filter(|error| error.is_damage()).map(|error| (error.place(), error.place().record));
        of_findings.chain(of_error).map(|(place, n)| n.filter(|_| counts(place)).unwrap_or(0)).min()
    }
}

/// The name of the file that has a table's rows of a shard.
fn shard_file(shard: ShardId) -> String {
    format!("shard-{:05}.parquet", shard.0)
}

/// A table or lens of a folder and its files so far.
struct Written<'n> {
    name: &'n str,
    /// Name of its folder.
    safe: String,
    files: Vec<Value>,
    n_rows: u64,
}

/// True if a folder has only Parquet files, like the folder of a table.
fn holds_only_parquet(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries
        .flatten()
        .all(|entry| form_of_name(&entry.path()) == Some(Form::Parquet) && entry.path().is_file())
}
