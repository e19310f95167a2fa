//! Open traces: metadata, rows, analyses.

use crate::fault::{Raise, closed};
use crate::outcome::{Machine, Outcome};
use crate::rows::{Rows, lock};
use crate::watch::watched;
use pyo3::prelude::*;
use quipu::engine::{Division, Intervals, RowOrder, RunOptions, Selection, Watch, WindowOf, plan, run};
use quipu::expr::Where;
use quipu::model::options::{Kind, Repeats};
use quipu::model::schema::{Missing, Role};
use quipu::model::trace::settled;
use quipu::model::{
    Error, Given, OpenOptions, OptionSpec, Predicate, Result, RowSource, Schema, ShardId, ThreadId, Tool,
    Window, result,
};
use quipu::source::Source;
use quipu_cli::header;
use quipu_console::input::{check_present, check_threads};
use quipu_console::{parts, sched};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A trace that was opened.
#[pyclass(frozen, module = "quipu._native")]
pub(crate) struct Trace {
    /// `None` once it is closed.
    opened: Mutex<Option<Opened>>,
    name: String,
}

/// The state of an open trace.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) trace: Arc<dyn quipu::model::Trace>,
    /// The source of its bytes.
    pub(crate) source: Source,
    pub(crate) opening: OpenOptions,
    /// Whether to stop reading at the first damage.
    strict: bool,
}

/// A window of records, instructions or time.
type Range = Option<(u64, Option<u64>)>;

/// Opens the trace at a path; people see it called `name`, whatever bytes it has.
#[pyfunction]
pub(crate) fn open(
    py: Python<'_>,
    path: Vec<u8>,
    name: Vec<u8>,
    format: Option<String>,
    options: Vec<(String, String)>,
    threads: Vec<String>,
    strict: bool,
) -> PyResult<Trace> {
    let name = String::from_utf8_lossy(&name).into_owned();
    let threads = threads_of(&threads).raise(py)?;
    let opening = OpenOptions { format, given: options.into_iter().collect(), threads, shards: Vec::new() };
    let watch = Arc::new(Watch::new());
    let opened = watched(py, &watch, None, || -> Result<Opened> {
        let source = Source::open(Path::new(&OsString::from_vec(path)))?;
        // Notebooks read a trace more than once, so a pipe is spooled to a file.
        let found = quipu::recognise(&source, &opening)?.spooled()?;
        let trace = Arc::from(found.open(&opening)?);
        Ok(Opened { trace, source: found.source, opening, strict })
    })?;
    Ok(Trace { opened: Mutex::new(Some(opened.raise(py)?)), name })
}

fn threads_of(threads: &[String]) -> Result<Vec<ThreadId>> {
    let thread = |text: &String| text.parse().map_err(|error| Error::usage(format!("{error}")));
    threads.iter().map(thread).collect()
}

/// Combines three alternative ranges to a window.
fn window_of(records: Range, instrs: Range, time: Range) -> Result<Window> {
    let range = |(start, end): (u64, Option<u64>)| start..end.unwrap_or(u64::MAX);
    match (records, instrs, time) {
        (None, None, None) => Ok(Window::All),
        (Some(records), None, None) => Ok(Window::Records(range(records))),
        (None, Some(instrs), None) => Ok(Window::Instrs(range(instrs))),
        (None, None, Some(time)) => Ok(Window::Clock(range(time))),
        _ => Err(Error::usage("`records`, `instrs` and `time` exclude each other")),
    }
}

/// Describes columns as JSON.
fn columns(schema: &Schema, is_filled: impl Fn(usize) -> bool) -> Value {
    let column = |(at, field): (usize, &quipu::model::Field)| {
        let role = field.role.and_then(Role::name).map(str::to_ascii_lowercase);
        json!({
            "name": field.name,
            "doc": field.doc,
            "role": role,
            "unit": field.unit.0,
            "is_nullable": field.missing != Missing::Never,
            "is_filled": is_filled(at),
        })
    };
    schema.fields.iter().enumerate().map(column).collect()
}

/// Describes an option as JSON.
fn option(spec: &OptionSpec) -> Value {
    let (kind, words): (_, &[&str]) = match spec.kind {
        Kind::Flag => ("flag", &[]),
        Kind::Count => ("count", &[]),
        Kind::Bytes => ("bytes", &[]),
        Kind::PowerOfTwo => ("power-of-two", &[]),
        Kind::Share => ("share", &[]),
        Kind::Choice(words) => ("choice", words),
        Kind::Range => ("range", &[]),
        Kind::Set => ("set", &[]),
        Kind::Path => ("path", &[]),
        Kind::Text => ("text", &[]),
    };
    json!({
        "name": spec.name,
        "kind": kind,
        "choices": words,
        "default": spec.default,
        "doc": spec.doc,
        "repeats": spec.repeats != Repeats::No,
    })
}

fn described(tool: &dyn Tool) -> Value {
    let info = tool.info();
    json!({
        "name": info.name,
        "summary": info.summary,
        "format": info.needs.format,
        "in_report": info.in_report,
        "options": info.options.iter().map(option).collect::<Vec<_>>(),
    })
}

/// Every analysis of every format, as JSON.
#[pyfunction]
pub(crate) fn every_tool() -> String {
    let mut tools: Vec<&'static dyn Tool> = Vec::new();
    for format in quipu::FORMATS {
        for tool in quipu::tools_of(format.info().name) {
            if !tools.iter().any(|known| std::ptr::eq(known.info(), tool.info())) {
                tools.push(tool);
            }
        }
    }
    Value::from(tools.into_iter().map(described).collect::<Vec<_>>()).to_string()
}

impl Trace {
    pub(crate) fn opened(&self) -> PyResult<Opened> {
        lock(&self.opened).clone().ok_or_else(closed)
    }
}

#[pymethods]
impl Trace {
    /// What people call it.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The name of its format.
    #[getter]
    fn format(&self) -> PyResult<String> {
        Ok(self.opened()?.trace.meta().format.to_string())
    }

    /// Closes files and drops what is held of them.
    fn close(&self, py: Python<'_>) {
        let opened = lock(&self.opened).take();
        py.detach(|| drop(opened));
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        lock(&self.opened).is_none()
    }

    /// What it says of itself, as JSON.
    fn header(&self, py: Python<'_>) -> PyResult<String> {
        let opened = self.opened()?;
        Ok(py.detach(|| header(&self.name, &*opened.trace).to_string()))
    }

    /// What was found wrong when it was opened, as JSON.
    fn findings(&self) -> PyResult<String> {
        Ok(result::json(&self.opened()?.trace.meta().findings).to_string())
    }

    /// Its tables and lenses with their columns, as JSON. Those that only reading teaches are learned first if `learns`.
    fn sources(&self, py: Python<'_>, learns: bool) -> PyResult<String> {
        let opened = self.opened()?;
        let watch = Arc::new(Watch::new());
        let listed = watched(py, &watch, None, || -> Result<Value> {
            if learns {
                settled(&*opened.trace, || watch.is_cancelled(), || opened.trace.learn())?;
            }
            let all = RowSource::all(&*opened.trace)?.into_iter().map(|source| {
                json!({
                    "name": source.schema.name,
                    "full_name": source.full_name(),
                    "is_lens": source.table.is_none(),
                    "is_derived": source.schema.is_derived(),
                    "doc": source.schema.doc,
                    "columns": columns(&source.schema, |at| source.is_filled(at, &*opened.trace)),
                })
            });
            Ok(all.collect())
        })?;
        Ok(listed.raise(py)?.to_string())
    }

    /// Its analyses with their options, and whether it has what each needs without any, as JSON.
    fn tools(&self, py: Python<'_>) -> PyResult<String> {
        let opened = self.opened()?;
        let watch = Arc::new(Watch::new());
        watched(py, &watch, None, || {
            let trace = &*opened.trace;
            let listed = quipu::tools_of(&trace.meta().format).map(|tool| {
                let mut about = described(tool);
                about["is_able"] = plan(tool, &Given::default(), trace).is_ok().into();
                about
            });
            listed.collect::<Value>().to_string()
        })
    }

    /// Rows of a table or lens.
    #[pyo3(signature = (table, columns, condition, kinds, threads, records, instrs, time, shards, order, limit, batch_rows,
                        jobs, keeps_damaged))]
    #[allow(clippy::too_many_arguments)]
    fn rows(
        &self,
        py: Python<'_>,
        table: String,
        columns: Option<Vec<String>>,
        condition: Option<String>,
        kinds: Vec<String>,
        threads: Vec<String>,
        records: Range,
        instrs: Range,
        time: Range,
        shards: Vec<u32>,
        order: &str,
        limit: Option<u64>,
        batch_rows: u32,
        jobs: usize,
        keeps_damaged: bool,
    ) -> PyResult<Rows> {
        let opened = self.opened()?;
        let select = || -> Result<Selection> {
            let filter = condition.as_deref().map(Where::new).transpose()?.map(Where::filter);
            Ok(Selection {
                fields: columns,
                predicate: Predicate {
                    threads: threads_of(&threads)?,
                    kinds,
                    filter,
                    ..Predicate::default()
                },
                window: window_of(records, instrs, time)?,
                shards: shards.into_iter().map(ShardId).collect(),
                order: match order {
                    "trace" => RowOrder::Trace,
                    "time" => RowOrder::Time,
                    "any" => RowOrder::Any,
                    other => {
                        return Err(Error::usage(format!("`order` is `{other}`, allowed: trace, time, any")));
                    }
                },
                limit: limit.unwrap_or(u64::MAX),
                batch_rows,
                threads: jobs,
                strict: opened.strict,
                ..Selection::new(table)
            })
        };
        let selection = select().raise(py)?;
        // The schema of a table may be known only after reading the trace, so this may take a while.
        let watch = Arc::new(Watch::new());
        watched(py, &watch, None, || Rows::new(opened.trace.clone(), selection, keeps_damaged))?.raise(py)
    }

    /// Runs analyses in one read, each with its options; with `has_machine`, the beginning of the trace also on the machine of a
    /// report.
    #[pyo3(signature = (tools, records, instrs, time, threads, interval_instrs, interval_us, per_core, jobs, has_machine,
                        progress))]
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        py: Python<'_>,
        tools: Vec<(String, Vec<(String, String)>)>,
        records: Range,
        instrs: Range,
        time: Range,
        threads: Vec<String>,
        interval_instrs: Option<u64>,
        interval_us: Option<u64>,
        per_core: bool,
        jobs: usize,
        has_machine: bool,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Outcome> {
        let opened = self.opened()?;
        let trace = &*opened.trace;
        let watch = Arc::new(Watch::new());
        let done = watched(py, &watch, progress.as_ref(), || -> Result<Outcome> {
            let mut chosen = threads_of(&threads)?;
            chosen.extend(&opened.opening.threads);
            let intervals = match (interval_instrs, interval_us) {
                (Some(n), None) => Some(parts::instr_intervals(n, trace)?),
                (None, Some(us)) => Some(parts::time_intervals(us, trace)?),
                (None, None) => None::<Intervals>,
                _ => return Err(Error::usage("`interval_instrs` and `interval_us` exclude each other")),
            };
            let division = Division { intervals, per_core };
            let window = window_of(records, instrs, time)?;
            let is_part = window != Window::All || !division.is_none();
            let (mut names, mut planned) = (Vec::new(), Vec::new());
            for (name, given) in tools {
                let tool = quipu::tool_for(&name, trace)?;
                if tool.wants_whole_traces() {
                    if is_part || trace.origin().is_some() {
                        let what =
                            format!("analysis `{name}` judges whole traces only, as they were written");
                        return Err(Error::usage(what));
                    }
                    check_threads(trace, &chosen)?;
                }
                names.push(tool.info().name);
                planned.push(plan(tool, &given.into_iter().collect::<Given>(), trace)?);
            }
            let options = RunOptions {
                threads: jobs,
                strict: opened.strict,
                window,
                window_of: WindowOf::Sequence,
                threads_wanted: if trace.origin().is_some() { Vec::new() } else { chosen.clone() },
                division,
                ..RunOptions::new(&watch)
            };
            let mut outcome = run(trace, planned, &options)?;
            if outcome.error.is_none() && !outcome.cancelled {
                check_present(trace, &options.threads_wanted, &outcome.absent_threads, is_part)?;
            }
            let machine = match has_machine && !is_part {
                true => Some(Machine::serve(&mut names, &mut outcome, trace, &options)?),
                false => None,
            };
            Ok(Outcome::new(&self.name, names, trace, outcome, !division.is_none(), machine))
        })?;
        done.raise(py)
    }

    /// The same records arranged by the cores that threads ran on, or with threads scheduled onto cores anew.
    fn arranged(
        &self,
        py: Python<'_>,
        is_scheduled: bool,
        options: Vec<(String, String)>,
        cores: Option<usize>,
    ) -> PyResult<Trace> {
        let opened = self.opened()?;
        let watch = Arc::new(Watch::new());
        let arranged = watched(py, &watch, None, || -> Result<Opened> {
            check_threads(&*opened.trace, &opened.opening.threads)?;
            let trace = match is_scheduled {
                true => {
                    // The scheduler takes ownership of a trace, so it is opened once more.
                    let own = quipu::open(&opened.source, &opened.opening)?;
                    quipu::engine::dispatch(own, sched::options(&options.into_iter().collect(), cores)?)?
                }
                false => opened.trace.by_core()?,
            };
            Ok(Opened { trace: Arc::from(trace), ..opened.clone() })
        })?;
        Ok(Trace { opened: Mutex::new(Some(arranged.raise(py)?)), name: self.name.clone() })
    }

    /// Gives all workload events to an object with hooks; how many there were.
    #[pyo3(signature = (hooks, progress = None))]
    fn events(&self, py: Python<'_>, hooks: Py<PyAny>, progress: Option<Bound<'_, PyAny>>) -> PyResult<u64> {
        crate::events::feed(py, &self.opened()?, hooks, progress.as_ref())
    }

    /// Answers a question in SQL, of this trace and of others by their names: the batches of the answer.
    #[pyo3(signature = (question, others, memory, progress = None))]
    fn sql(
        &self,
        py: Python<'_>,
        question: &str,
        others: Vec<(String, PyRef<'_, Trace>)>,
        memory: usize,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<crate::batch::Batch>> {
        let mut traces = vec![("t".to_owned(), self.opened()?.trace)];
        for (name, other) in others {
            traces.push((name, other.opened()?.trace));
        }
        let watch = Arc::new(Watch::new());
        watched(py, &watch, progress.as_ref(), || ask(question, traces, memory, &watch))?.raise(py)
    }
}

/// The batches of an answer, with an empty one first.
#[cfg(feature = "sql")]
fn ask(
    question: &str,
    traces: Vec<(String, Arc<dyn quipu::model::Trace>)>,
    memory: usize,
    watch: &Watch,
) -> Result<Vec<crate::batch::Batch>> {
    use quipu::model::ErrorKind;
    use quipu_query::sql::{Session, Settings};
    let tools = |format: &str| quipu::tools_of(format).collect();
    let settings =
        Settings { memory_bytes: memory, memory_option: "`memory`", threads: 0, tools, binaries: Vec::new() };
    let session = Session::new(traces, settings)?;
    let mut told = quipu::engine::Progress::default();
    let mut goes_on = |now: quipu::engine::Progress| {
        watch.expect(now.total_packed_bytes);
        let more = now.packed_bytes.saturating_sub(told.packed_bytes);
        watch.advance(now.records.saturating_sub(told.records), more);
        told = now;
        !watch.is_cancelled()
    };
    let answer = session.collect(question, &mut goes_on)?;
    let losses = answer.losses;
    if losses.is_doubtful {
        let what =
            "rows of the answer have proved damaged: asked again, the question is answered without them";
        return Err(Error::new(ErrorKind::Damaged, what).with_findings(losses.found.into_vec()));
    }
    if let Some(error) = losses.error {
        return Err(error.after(losses.found.into_vec()));
    }
    // The empty batch keeps the schema if the answer has no rows.
    let empty = arrow_array::RecordBatch::new_empty(answer.schema);
    Ok(std::iter::once(empty).chain(answer.batches).map(crate::batch::Batch).collect())
}

/// Returns an error that says how to enable SQL.
#[cfg(not(feature = "sql"))]
fn ask(
    _: &str,
    _: Vec<(String, Arc<dyn quipu::model::Trace>)>,
    _: usize,
    _: &Watch,
) -> Result<Vec<crate::batch::Batch>> {
    Err(Error::unsupported("this module was built without its engine for SQL").hint(
        "`pip install ./python --config-settings=build-args='--features sql'` builds one with it: some ten minutes of \
         processor time and 2 GB of disk more",
    ))
}
