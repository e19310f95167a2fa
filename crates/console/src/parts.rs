//! Results of parts of a trace: choosing the parts, and printing results as JSON, documents and comma-separated values.

use crate::number;
use quipu::engine::{Division, Intervals, Part};
use quipu::model::doc::Document;
use quipu::model::options::unknown_part;
use quipu::model::pass::Detail;
use quipu::model::{ColumnTable, Columns, Error, Report, Table, Trace};
use quipu_view::table_csv;
use serde_json::{Map, Value, json};
use std::num::NonZeroU64;

/// Which parts of a trace have results of their own.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct PartOptions {
    /// Also print results for intervals of this many instructions of each thread
    #[arg(long, value_name = "N", value_parser = number::number, conflicts_with = "interval_us", help_heading = "Parts")]
    interval_instrs: Option<u64>,
    /// Also print results for intervals of this many microseconds, all threads together
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Parts")]
    interval_us: Option<u64>,
    /// Also print each core's results: cores of the file, or processors that the trace names
    #[arg(long, help_heading = "Parts")]
    per_core: bool,
}

/// Options for comma-separated results, for verbs that also print JSON.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CsvOption {
    /// Print comma-separated values: every table that has rows, after a line with its name; or only TABLE, such as
    /// `hot.lines`
    #[arg(
        long,
        value_name = "TABLE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "json"
    )]
    csv: Option<String>,
    /// Print only these columns, in this order, of the tables that have them all, as comma-separated values
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', conflicts_with = "json")]
    columns: Vec<String>,
}

impl CsvOption {
    /// Whether results are printed as comma-separated values.
    pub fn is_wanted(&self) -> bool {
        self.csv.is_some() || !self.columns.is_empty()
    }

    /// The comma-separated values that are wanted of the tables that `tables` makes: the table of `--csv=TABLE`, or else
    /// `usual`, which is empty for all tables; `None` if none are wanted.
    ///
    /// # Errors
    /// Those of [`csv`].
    pub fn text(
        &self,
        usual: &str,
        tables: impl FnOnce() -> Vec<ColumnTable>,
    ) -> quipu::model::Result<Option<String>> {
        if !self.is_wanted() {
            return Ok(None);
        }
        let named = self.csv.as_deref().filter(|table| !table.is_empty());
        csv(tables(), named.unwrap_or(usual), &self.columns).map(Some)
    }
}

impl PartOptions {
    /// Converts the flags to a division for the engine.
    ///
    /// # Errors
    /// `Usage` for intervals of length 0, `Missing` if the trace lacks what the parts are based on.
    pub fn division(&self, trace: &dyn Trace) -> quipu::model::Result<Division> {
        let intervals = match (self.interval_instrs, self.interval_us) {
            (Some(n), _) => Some(instr_intervals(n, trace)?),
            (None, Some(us)) => Some(time_intervals(us, trace)?),
            (None, None) => None,
        };
        Ok(Division { intervals, per_core: self.per_core })
    }
}

/// Intervals of `n` instructions.
pub fn instr_intervals(n: u64, trace: &dyn Trace) -> quipu::model::Result<Intervals> {
    if !trace.columns().has(Columns::INSTRS) {
        return Err(Error::missing("intervals of instructions need instrs, which this trace does not carry"));
    }
    NonZeroU64::new(n).map(Intervals::Instrs).ok_or_else(nothing)
}

/// Intervals of `micros` microseconds.
pub fn time_intervals(micros: u64, trace: &dyn Trace) -> quipu::model::Result<Intervals> {
    let clock = trace.meta().clock.filter(|_| trace.columns().has(Columns::THREAD_CLOCK));
    let clock = clock.ok_or_else(|| {
        Error::missing("intervals of time need threads.clock, which this trace does not carry")
    })?;
    let ticks = u128::from(micros) * u128::from(clock.per_second) / 1_000_000;
    NonZeroU64::new(u64::try_from(ticks).unwrap_or(u64::MAX)).map(Intervals::Clock).ok_or_else(nothing)
}

fn nothing() -> Error {
    Error::usage("an interval wants at least one instruction or tick of the clock")
}

/// The results of parts as JSON: a list of objects. The keys `core`, `shard`, `thread`, `workload` (of additional traces) and
/// `interval` (an object with `number` and `end`) identify the part, as far as they apply; `records`, `instructions` and
/// `results` follow.
pub fn json(names: &[&str], parts: &[Part]) -> Value {
    let part = |part: &Part| {
        let mut keys = Map::new();
        let mut add = |key: &str, value: Option<Value>| {
            value.and_then(|value| keys.insert(key.to_owned(), value));
        };
        add("core", part.core.map(Value::from));
        add("shard", part.shard.map(Value::from));
        add("thread", part.thread.map(|thread| thread.tid.into()));
        add(
            "workload",
            part.thread.filter(|thread| thread.workload > 0).map(|thread| thread.workload.into()),
        );
        add("interval", part.interval.map(|at| json!({ "number": at.number, "end": at.end })));
        add("records", Some(part.records.into()));
        add("instructions", Some(part.instrs.into()));
        add("results", Some(results(names, &part.reports)));
        Value::from(keys)
    };
    parts.iter().map(part).collect()
}

/// Results as an object, by the names of their tools.
pub fn results(names: &[&str], reports: &[Box<dyn Report>]) -> Value {
    let named = names.iter().map(|name| (*name).to_owned());
    Value::Object(named.zip(reports.iter().map(|report| report.json())).collect())
}

/// Documents with the results of the whole in full, and those of each part in brief.
pub fn documents(reports: &[Box<dyn Report>], parts: &[Part]) -> Vec<Document> {
    let whole = reports.iter().map(|report| report.document(Detail::Full));
    let parts = parts.iter().flat_map(|part| {
        let name = name(part);
        part.reports.iter().map(move |report| {
            let mut document = report.document(Detail::Brief);
            document.title = format!("{}, {name}", document.title);
            document
        })
    });
    whole.chain(parts).collect()
}

fn name(part: &Part) -> String {
    let core = part.core.map(|core| format!("core {core}"));
    let thread = part.thread.map(|thread| format!("thread {}", thread));
    let shard = part.shard.filter(|_| part.thread.is_none()).map(|shard| format!("file {shard}"));
    let interval = part.interval.map(|at| format!("interval {} up to {}", at.number, at.end));
    let words: Vec<String> = [core, thread, shard, interval].into_iter().flatten().collect();
    if words.is_empty() { "core unknown".to_owned() } else { words.join(", ") }
}

/// Formats results as comma-separated values. With `only` empty: all tables that have rows, each with a line with its name, a
/// line with its column names, and its rows; an empty line separates tables. Otherwise columns and rows of that table alone.
/// With `columns`, only these, and of all tables those that have them all.
///
/// # Errors
/// `Usage` if there is no table of that name, or none with these columns.
pub fn csv(tables: Vec<ColumnTable>, only: &str, columns: &[String]) -> quipu::model::Result<String> {
    let text = |table: ColumnTable| -> quipu::model::Result<String> {
        Ok(String::from_utf8_lossy(&table_csv(table, columns)?).into_owned())
    };
    if only.is_empty() {
        let has = |table: &ColumnTable, name: &String| table.schema().position(name).is_some();
        let has_all = |table: &ColumnTable| columns.iter().all(|name| has(table, name));
        if !columns.is_empty() && !tables.iter().any(has_all) {
            return Err(without_columns(&tables, columns));
        }
        let tables = tables.into_iter().filter(|table| table.n_rows() > 0 && has_all(table));
        let named = tables.map(|table| {
            let name = table.schema().name.clone();
            Ok(format!("{name}\n{}", text(table)?))
        });
        return Ok(named.collect::<quipu::model::Result<Vec<_>>>()?.join("\n"));
    }
    let names: Vec<String> = tables.iter().map(|table| table.schema().name.to_string()).collect();
    let found = tables.into_iter().find(|table| table.schema().name == only);
    found.map(text).unwrap_or_else(|| {
        Err(Error::usage(format!("there is no table `{only}`"))
            .hint(format!("the tables are {}", names.join(", "))))
    })
}

/// The error for columns that no table has together.
#[cold]
fn without_columns(tables: &[ColumnTable], columns: &[String]) -> Error {
    let known = || tables.iter().flat_map(|table| &table.schema().fields).map(|field| &*field.name);
    match columns.iter().find(|name| known().all(|known| known != name.as_str())) {
        Some(unknown) => unknown_part("the result", "column", unknown, known()),
        None => Error::usage(format!("no table has all of the columns {}", columns.join(", ")))
            .hint("name columns of one table, and the table, too: `--csv=TABLE`"),
    }
}
