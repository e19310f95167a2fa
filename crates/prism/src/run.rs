//! `run`: passes events through back ends that write files, each into a folder.
//!
//! Events of an opened stream are passed on unchanged ([`Run`]); for other formats, the front end makes events of records
//! ([`Runner`]). With several back ends, each has its own folder inside the output folder.

use crate::batch::Batch;
use crate::detail::Detail;
use crate::drive::{Job, each_batch};
use crate::fault::said;
use crate::files::Files;
use crate::front::{COLUMNS, Front};
use crate::hooks::Sink;
use crate::shadow::USUAL_PAGES;
use crate::sigilclassic::SigilClassic;
use crate::simplecount::SimpleCount;
use crate::stgen::{Form, Options as StgenOptions, Stgen};
use crate::{loaded, trace};
use quipu_model::convert::{Ledger, RecordJob, RecordSink, RecordWriter, RecordWriterInfo};
use quipu_model::fresh::{Folder, Fresh, Replace, cannot};
use quipu_model::number;
use quipu_model::options::Kind;
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Columns, Error, OptionSpec, Options, Result};
use std::path::Path;

/// The option for a back end and its options.
const BACKEND: OptionSpec = OptionSpec::new(
    "backend",
    Kind::Text,
    "",
    "Back end: simplecount; stgen with c=N (aggregation), l=text, textv2, capnp or null, pages=N (of shadow memory); sigilclassic with pages=N; null.",
)
.value("NAME[,OPTION=VALUE]...")
.repeated();

/// The option for a library of the user.
const TOOL: OptionSpec = OptionSpec::new(
    "tool",
    Kind::Text,
    "",
    "Library that takes the events, and its options; `quipu new-tool` makes one (docs/hooks.md).",
)
.value("LIBRARY[,OPTIONS]")
.repeated();

/// The option to reproduce the defects of Prism's back ends.
const QUIRKS: OptionSpec =
    OptionSpec::flag("quirks", "Write the values of Prism's own back ends, including wrong ones.");

/// The options of `run`.
pub(crate) const OPTIONS: &[OptionSpec] = &[BACKEND, TOOL, QUIRKS];

/// Suffix of the names of folders into which tools write.
const TOOL_ENDING: &str = ".tool";

/// The file with SimpleCount's counts.
pub const SIMPLECOUNT_FILE: &str = "simplecount.txt";
/// The file with SigilClassic's tables.
pub const SIGILCLASSIC_FILE: &str = "sigilclassic.tsv";

/// The verb `run` for streams of events.
#[derive(Debug)]
pub struct Run;

static INFO: TransformInfo = TransformInfo {
    name: "run",
    title: "what back ends make of the events: a folder of files",
    options: OPTIONS,
};

/// The verb `run` for records of other formats.
#[derive(Debug)]
pub struct Runner;

static RUNNER_INFO: RecordWriterInfo =
    RecordWriterInfo { required: Columns::NONE, taken: COLUMNS, made_up: &[], options: OPTIONS };

/// A back end with its options, as requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spec {
    /// Counts events.
    SimpleCount,
    /// Writes traces for SynchroTrace.
    Stgen {
        /// Number of reads or writes after which a computation is written.
        aggregation: u64,
        /// Format of the files of threads.
        form: Form,
        /// Maximum number of pages of shadow memory.
        pages: usize,
    },
    /// Counts bytes between functions.
    SigilClassic {
        /// Maximum number of pages of shadow memory.
        pages: usize,
    },
    /// Discards all events.
    Null,
}

impl Spec {
    /// Reads `NAME[,OPTION=VALUE]...`; names are case-insensitive.
    ///
    /// # Errors
    /// `Usage` for an unknown back end or option.
    pub fn parse(text: &str) -> Result<Spec> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or("").to_ascii_lowercase();
        let options: Vec<&str> = parts.collect();
        match name.as_str() {
            "stgen" => return Spec::stgen(&options),
            "sigilclassic" => return Spec::sigilclassic(&options),
            _ => {}
        }
        let spec = match name.as_str() {
            "simplecount" => Spec::SimpleCount,
            "null" => Spec::Null,
            _ => {
                return Err(Error::usage(format!("`--backend`: there is no back end `{name}`"))
                    .hint("back ends: simplecount, stgen, sigilclassic, null"));
            }
        };
        match options.first() {
            Some(option) => Err(Error::usage(format!("`--backend`: {name} has no option `{option}`"))),
            None => Ok(spec),
        }
    }

    fn stgen(options: &[&str]) -> Result<Spec> {
        let (mut aggregation, mut form, mut pages) = (100, Form::Text, USUAL_PAGES);
        for option in options {
            let wrong = |what: &str| {
                Error::usage(format!("`--backend`: `{option}`: {what}"))
                    .hint("options of stgen: c=N, l=text, l=textv2, l=capnp, l=null, pages=N")
            };
            match option.split_once('=') {
                Some(("c", value)) => {
                    aggregation =
                        number::count(value).ok().filter(|n| *n > 0).ok_or_else(|| wrong("no count"))?;
                }
                Some(("pages", value)) => pages = Spec::pages(value).ok_or_else(|| wrong("no count"))?,
                Some(("l", value)) => {
                    form = match value.to_ascii_lowercase().as_str() {
                        "text" => Form::Text,
                        "textv2" => Form::TextV2,
                        "capnp" => Form::Capnp,
                        "null" => Form::Null,
                        _ => return Err(wrong("no such form")),
                    }
                }
                _ => return Err(wrong("stgen has no such option")),
            }
        }
        Ok(Spec::Stgen { aggregation, form, pages })
    }

    fn sigilclassic(options: &[&str]) -> Result<Spec> {
        let mut pages = USUAL_PAGES;
        for option in options {
            let wrong = |what: &str| {
                Error::usage(format!("`--backend`: `{option}`: {what}"))
                    .hint("the option of sigilclassic: pages=N")
            };
            match option.split_once('=') {
                Some(("pages", value)) => pages = Spec::pages(value).ok_or_else(|| wrong("no count"))?,
                _ => return Err(wrong("sigilclassic has no such option")),
            }
        }
        Ok(Spec::SigilClassic { pages })
    }

    /// Reads a number of pages of shadow memory.
    fn pages(value: &str) -> Option<usize> {
        number::count(value).ok().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0)
    }

    /// The name of the back end.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Spec::SimpleCount => "simplecount",
            Spec::Stgen { .. } => "stgen",
            Spec::SigilClassic { .. } => "sigilclassic",
            Spec::Null => "null",
        }
    }
}

/// A running back end.
enum Tool {
    SimpleCount(Box<SimpleCount>),
    Stgen(Box<Stgen>),
    SigilClassic(Box<SigilClassic>),
    Loaded(Box<loaded::Running>),
    Null,
}

impl Tool {
    fn sink(&mut self) -> Option<&mut dyn Sink> {
        match self {
            Tool::SimpleCount(tool) => Some(&mut **tool),
            Tool::Stgen(tool) => Some(&mut **tool),
            Tool::SigilClassic(tool) => Some(&mut **tool),
            Tool::Loaded(tool) => Some(&mut **tool),
            Tool::Null => None,
        }
    }
}

/// Running back ends for one stream of events, and the output folder.
pub(crate) struct Backends {
    folder: Option<(Fresh, Folder)>,
    tools: Vec<At>,
    n_events: u64,
}

/// A back end, and the destination of its files.
struct At {
    name: String,
    files: Option<Files>,
    tool: Tool,
}

/// Whether a file was written by a run, or is a folder of such files.
fn is_of_run(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if file.is_dir() {
        let is_named = Spec::parse(name.split('-').next().unwrap_or("")).is_ok();
        let mut within = std::fs::read_dir(file).into_iter().flatten().flatten();
        // Only the tools know what they write there.
        return name.ends_with(TOOL_ENDING)
            || is_named && within.all(|entry| !entry.path().is_dir() && is_of_run(&entry.path()));
    }
    name.starts_with("sigil.") || name == SIMPLECOUNT_FILE || name == SIGILCLASSIC_FILE
}

/// A name that no back end of the run has yet.
fn free_name(tools: &[At], name: &str, ending: &str) -> String {
    let is_taken = |wanted: &str| tools.iter().any(|at| at.name == wanted);
    let first = format!("{name}{ending}");
    let further = (2_u64..).map(|n| format!("{name}-{n}{ending}"));
    std::iter::once(first).chain(further).find(|wanted| !is_taken(wanted)).unwrap_or_default()
}

impl Backends {
    /// Creates the output folder and starts the back ends.
    pub(crate) fn begin(options: &Options, output: &Path, replace: bool) -> Result<Backends> {
        let specs = options.texts(&BACKEND).map(Spec::parse).collect::<Result<Vec<_>>>()?;
        let asked = loaded::Asked::load(options.texts(&TOOL))?;
        if specs.is_empty() && asked.is_empty() {
            return Err(Error::usage("`--backend` is missing: nothing would take the events")
                .hint("back ends: simplecount, stgen, sigilclassic, null; or a library, with `--tool`"));
        }
        // Without an output, there is no folder: tools print their results and write no files.
        let has_folder = !output.as_os_str().is_empty();
        if let (false, Some(spec)) = (has_folder, specs.iter().find(|spec| **spec != Spec::Null)) {
            return Err(Error::usage(format!("`--output` is missing: {} writes files", spec.name()))
                .hint("`-o DIR` names their folder"));
        }
        let folder =
            has_folder.then(|| Fresh::folder(output, Replace::from(replace), &is_of_run)).transpose()?;
        let mut all = Backends { folder, tools: Vec::new(), n_events: 0 };
        for spec in &specs {
            let name = free_name(&all.tools, spec.name(), "");
            let place = if specs.len() == 1 { all.place(None) } else { all.place(Some(&name)) }?;
            let files = place.map(Files::whole);
            let tool = match (*spec, &files) {
                (Spec::SimpleCount, _) => Tool::SimpleCount(Box::default()),
                (Spec::Stgen { aggregation, form, pages }, Some(files)) => {
                    let has_quirks = options.flag(&QUIRKS);
                    let options =
                        StgenOptions { out: files.clone(), aggregation, form, has_quirks, max_pages: pages };
                    Tool::Stgen(Box::new(Stgen::new(options)))
                }
                (Spec::SigilClassic { pages }, _) => Tool::SigilClassic(Box::new(SigilClassic::new(pages))),
                (Spec::Null | Spec::Stgen { .. }, _) => Tool::Null,
            };
            all.add(At { name, files, tool })?;
        }
        for asked in asked {
            let name = free_name(&all.tools, asked.name(), TOOL_ENDING);
            let place = all.place(Some(&name))?.map(|folder| folder.to_path_buf());
            let running = loaded::Running::begin(asked, place).map_err(said)?;
            all.add(At { name, files: None, tool: Tool::Loaded(Box::new(running)) })?;
        }
        Ok(all)
    }

    /// The folder of a back end: the output folder, or one inside it.
    fn place(&self, within: Option<&str>) -> Result<Option<Folder>> {
        let Some((_, folder)) = &self.folder else { return Ok(None) };
        let Some(name) = within else { return Ok(Some(folder.clone())) };
        let place = folder.within(name);
        std::fs::create_dir(&*place).map_err(|cause| cannot("create", &place, cause))?;
        Ok(Some(place))
    }

    fn add(&mut self, mut at: At) -> Result<()> {
        if let Some(sink) = at.tool.sink() {
            sink.start().map_err(said)?;
        }
        self.tools.push(at);
        Ok(())
    }

    /// The union of the fields that the back ends use.
    pub(crate) fn detail(&mut self) -> Detail {
        let sinks = self.tools.iter_mut().filter_map(|at| at.tool.sink());
        sinks.fold(Detail::NOTHING, |all, sink| all.with(sink.detail()))
    }

    pub(crate) fn n_events(&self) -> u64 {
        self.n_events
    }

    pub(crate) fn take(&mut self, batch: &Batch) -> Result<u64> {
        self.n_events += batch.events.len() as u64;
        for At { tool, .. } in &mut self.tools {
            if let Some(sink) = tool.sink() {
                sink.take(batch).map_err(said)?;
            }
        }
        Ok(self.n_events)
    }

    /// Finishes the back ends and writes their results.
    pub(crate) fn end(&mut self) -> Result<()> {
        for At { files, tool, .. } in &mut self.tools {
            if let Some(sink) = tool.sink() {
                sink.finish().map_err(said)?;
            }
            let Some(files) = files else { continue };
            match tool {
                Tool::SimpleCount(counts) => files.put(SIMPLECOUNT_FILE, counts.to_string().as_bytes()),
                Tool::SigilClassic(tables) => files.put(SIGILCLASSIC_FILE, tables.to_string().as_bytes()),
                Tool::Stgen(_) | Tool::Loaded(_) | Tool::Null => Ok(()),
            }
            .map_err(said)?;
        }
        let loaded = self.tools.iter_mut().filter_map(|at| match &mut at.tool {
            Tool::Loaded(tool) => Some(&mut **tool),
            _ => None,
        });
        loaded::Running::finish_all(&mut loaded.collect::<Vec<_>>()).map_err(said)
    }

    /// Gives the folder its name.
    pub(crate) fn commit(self) -> Result<Vec<Fact>> {
        let Backends { folder, tools, n_events } = self;
        let mut facts = vec![Fact::new("events", "events", n_events)];
        for At { name, tool, .. } in &tools {
            let (unplaced, forgotten) = match tool {
                Tool::Stgen(stgen) => (stgen.unplaced(), 0),
                Tool::SigilClassic(classic) => (classic.unplaced(), classic.forgotten()),
                _ => (0, 0),
            };
            for (count, key, what) in [
                (unplaced, "unplaced", "accesses without address, size or a known type"),
                (forgotten, "forgotten", "bytes whose readers were forgotten, for want of room"),
            ] {
                if count > 0 {
                    facts.push(Fact::new(format!("{name}_{key}"), format!("{name}: {what}"), count));
                }
            }
        }
        let (loaded, brought): (Vec<&At>, Vec<&At>) =
            tools.iter().partition(|at| matches!(at.tool, Tool::Loaded(_)));
        for (key, label, of) in [("backends", "back ends", brought), ("tools", "tools", loaded)] {
            let names: Vec<&str> =
                of.iter().map(|at| at.name.strip_suffix(TOOL_ENDING).unwrap_or(&at.name)).collect();
            if !names.is_empty() {
                facts.push(Fact::new(key, label, names.join(", ")));
            }
        }
        drop(tools);
        if let Some((fresh, folder)) = folder {
            folder.judge()?;
            fresh.commit()?;
        }
        Ok(facts)
    }
}

/// Refuses options about compression of files, since the output is a folder.
fn refuse_packing(container: Option<&str>, level: Option<u32>) -> Result<()> {
    match (container, level) {
        (None, None) => Ok(()),
        (Some(_), _) => Err(Error::usage("`--container`: back ends say how their files are packed")),
        (None, Some(_)) => Err(Error::usage("`--level`: back ends say how their files are packed")),
    }
}

impl Transform for Run {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        refuse_packing(job.container, job.level)?;
        let trace = trace::open(job.source, job.opening)?;
        let mut tools = Backends::begin(job.options, job.output, job.replace)?;
        let reading = each_batch(&trace, Job::of(job), progress, |batch, _| tools.take(batch))
            .map_err(|error| error.in_file(job.source.name()))?;
        if let Some(error) = reading.nothing_left().filter(|_| tools.n_events() == 0) {
            return Err(error);
        }
        tools.end()?;
        Ok(Transformed { facts: tools.commit()?, reading, ..Transformed::default() })
    }
}

impl RecordWriter for Runner {
    fn info(&self) -> &'static RecordWriterInfo {
        &RUNNER_INFO
    }

    fn begin(&self, job: &RecordJob<'_>) -> Result<Box<dyn RecordSink>> {
        refuse_packing(job.container, job.level)?;
        let tools = Backends::begin(job.options, job.output, job.replace)?;
        Ok(Box::new(Running { front: Front::new(job.trace, job.columns), tools }))
    }
}

/// Back ends that get events made from records.
struct Running {
    front: Front,
    tools: Backends,
}

impl RecordSink for Running {
    fn take(&mut self, batch: &quipu_model::Batch, ledger: &mut Ledger) -> Result<()> {
        let events = self.front.take(batch, ledger);
        if !events.events.is_empty() {
            self.tools.take(events)?;
        }
        Ok(())
    }

    fn n_written(&self) -> u64 {
        self.tools.n_events()
    }

    fn end(&mut self, _: &mut Ledger) -> Result<()> {
        self.tools.end()
    }

    fn commit(self: Box<Self>) -> Result<Vec<Fact>> {
        self.tools.commit()
    }
}
