//! `quipu analyze`: named analyses, in full, in one read of the trace.

use crate::captured;
use crate::layout::LayoutFlags;
use crate::naming;
use crate::page::{self, PageOptions};
use crate::typing::{Typing, give_places};
use quipu::engine::{KeptAccesses, Planned, plan, tables};
use quipu::expr::Where;
use quipu::model::options::{Kind, nearest};
use quipu::model::{Columns, Error, Given, OptionSpec, Tool, Trace, Window};
use quipu_capture::tsan::MADE;
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::{Input, check_threads};
use quipu_console::number;
use quipu_console::parts::{self, CsvOption, PartOptions};
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Extent, Verdict};
use serde_json::Map;
use std::sync::Arc;

/// Run analyses in one read of the trace
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP, mut_arg("order", members_too))]
pub(crate) struct Options {
    /// Analyses, such as `counts` or `counts,histogram`; `quipu tools` lists them
    #[arg(value_name = "TOOL[,TOOL…]")]
    tools: String,
    #[command(flatten)]
    input: Input,
    /// Print JSON: one object, with each analysis under its name in `results`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: CsvOption,
    #[command(flatten)]
    page: PageOptions,
    #[command(flatten)]
    flags: Flags<UsualFlags>,
    /// Set an option of every analysis that has it, or of one with `TOOL.KEY=VALUE`
    #[arg(short = 'O', long = "option", value_name = "KEY=VALUE", value_parser = number::key_value)]
    options: Vec<(String, String)>,
    #[command(flatten)]
    typing: Typing,
    #[command(flatten)]
    parts: PartOptions,
    #[command(flatten)]
    layout: LayoutFlags,
    /// Skip this many records at the start
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Range", default_value = "0", hide_default_value = true)]
    skip: u64,
    /// Read this many records
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Range")]
    take: Option<u64>,
}

/// The option with a condition. `aggregate` has one of its own.
const WHERE: &str = "where";
/// Analyses that attribute accesses to types.
const OF_TYPES: &[&str] = &["types", "layout"];

/// Heading of the options of `aggregate`.
const AGGREGATE: &str = "Aggregations";

/// Flags for options that many analyses have.
#[derive(Debug)]
struct UsualFlags;

impl Flagged for UsualFlags {
    fn specs() -> Vec<OptionSpec> {
        // Each analysis has its own default.
        vec![
            OptionSpec::flag("per-thread", "also print each thread's result"),
            OptionSpec::new("line-size", Kind::Bytes, "", "bytes in a cache line"),
            OptionSpec::new("top", Kind::Count, "", "how many rows to list"),
            OptionSpec::new("by", Kind::Text, "", "keys of `aggregate`: comma-separated expressions")
                .value("EXPRS")
                .group(AGGREGATE),
            OptionSpec::new(
                "agg",
                Kind::Text,
                "",
                "aggregations of `aggregate`, such as `count(),quantize(size)`",
            )
            .value("AGGS")
            .group(AGGREGATE),
            OptionSpec::new(
                WHERE,
                Kind::Text,
                "",
                "only rows of `aggregate` for which this SQL expression is true; for other analyses, only memory \
                 accesses, with the columns `addr`, `size`, `kind`, `pc`, `record`, `shard`, `tid` and `pid`; \
                 `docs/expressions.md` has the grammar",
            )
            .value("EXPR")
            .group("Selection"),
            OptionSpec::new("of", Kind::Text, "", "table or lens whose rows `aggregate` reads")
                .value("NAME")
                .group(AGGREGATE),
            OptionSpec::new("keys-limit", Kind::Count, "", "maximum number of keys of `aggregate`")
                .group(AGGREGATE),
        ]
    }
}

const AFTER_HELP: &str = "\
Examples:
  quipu analyze counts trace.zip
  quipu analyze counts,categories --per-thread --json trace.dir
  quipu analyze counts,mix --interval-instrs 1M --json trace.zip
  quipu analyze schedule --per-core --csv=schedule.threads trace.dir
  quipu analyze histogram --columns addr,count trace.zip
  quipu analyze histogram --line-size 128 --top 20 trace.zip
  quipu analyze aggregate --of accesses --by 'page(addr), kind' --agg 'sum(size), count()' trace.dir
  quipu analyze aggregate --by name --agg 'quantize(latency)' --where 'latency > 0' trace.dir
  quipu analyze working-set,miss-ratio --where 'size >= 8' trace.zip
  quipu analyze types --binary program program.trace
  quipu analyze layout --type node --binary app app.trace
  quipu analyze layout --type node --types app.dwarf.json --order key,next --language rust app.trace

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not do it";

/// For the analysis `layout`, `--order` is an order of members.
fn members_too(order: clap::Arg) -> clap::Arg {
    order
        .value_parser(clap::builder::NonEmptyStringValueParser::new())
        .help("Order threads by the `cores` that they ran on when traced, or `scheduled` onto simulated cores; for `layout`, comma-separated order of members")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let mut options = options.clone();
    if options.tools.split(',').any(|tool| tool == "layout") {
        let order = options.input.arranging.take_order().map(|order| ("order".to_owned(), order));
        options.options.extend(order);
    }
    options.input.arranging.check_order()?;
    analyse(&options, common, screen)
}

fn analyse(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    options.page.check(options.json)?;
    let trace = options.input.open()?;
    let mut tools = find_tools(&options.tools, &*trace).map_err(|error| {
        match error.message().contains("is not for") {
            true => session::not_for_trace(error, &*trace, screen),
            false => error.into(),
        }
    })?;
    let division = options.parts.division(&*trace)?;
    let is_whole = options.check_whole("", division.is_none(), &*trace).is_ok();
    let (given, condition) = options.given_and_condition(&tools)?;
    let n_asked = tools.len();
    tools.extend(companions(&tools, &*trace, is_whole));
    let mut of_tools = distribute(&tools, &given)?;
    for (tool, given) in tools.iter().zip(&mut of_tools) {
        give_places(&options.input.stored.path, tool.info(), given);
    }
    if let Some(tool) = tools.iter().find(|tool| tool.wants_whole_traces()) {
        options.check_whole(tool.info().name, division.is_none(), &*trace)?;
    }
    let planned = tools.iter().zip(&of_tools).map(|(tool, given)| plan(*tool, given, &*trace));
    let planned = planned.collect::<quipu::model::Result<Vec<_>>>();
    let planned = planned.map_err(|error| session::not_for_trace(error, &*trace, screen))?;
    let kept = match &condition {
        Some(text) => Some(Arc::new(kept_accesses(text, &planned[..n_asked], &*trace)?)),
        None => None,
    };
    let extent = Extent { accesses_kept: kept, division, ..options.input.extent(options.window()) };
    let outcome = session::analyse(&*trace, planned, &extent, common, screen)?;
    let verdict = Verdict::new(&*trace, outcome.findings, outcome.error, outcome.cancelled);
    verdict.say_lost(screen);
    if let Some(text) = &condition {
        screen.say(format_args!("note: of accesses, only those for which `{text}` is true count"));
    }
    let documents = || {
        let mut documents = parts::documents(&outcome.reports, &outcome.parts);
        naming::name_code(&mut documents, &*trace);
        documents
    };
    if options.page.is_wanted() {
        let mut documents = documents();
        documents.insert(0, page::verdict(&verdict));
        documents.retain(|document| !document.blocks.is_empty());
        page::write(&options.page, &options.input, &*trace, &documents, screen)?;
    }
    let names: Vec<&str> = tools.iter().map(|tool| tool.info().name).collect();
    if OF_TYPES.iter().any(|name| names.contains(name)) && captured::is_capture(&options.input.stored.path) {
        screen.say(format_args!(
            "note: types of allocations are found when a recording becomes a trace: \
             `quipu convert NAME.quipu -o NAME.trace --to {MADE}`"
        ));
    }
    if options.json {
        let mut answer = Map::new();
        answer.insert("trace".into(), options.input.name().into());
        if let Some(text) = &condition {
            answer.insert(WHERE.into(), text.as_str().into());
        }
        answer.insert("results".into(), parts::results(&names, &outcome.reports));
        if !division.is_none() {
            answer.insert("parts".into(), parts::json(&names, &outcome.parts));
        }
        verdict.add_to(&mut answer);
        screen.json(&answer.into())?;
    } else if let Some(text) =
        options.csv.text("", || tables(&options.input.name(), &names, &outcome.reports, &outcome.parts))?
    {
        screen.text(&text)?;
    } else if !options.page.is_wanted() {
        screen.documents(&documents())?;
    }
    Ok(verdict.tell(screen).and(Outcome::of(&outcome.reports)))
}

/// The condition on accesses, for analyses that all read accesses.
///
/// # Errors
/// `Usage` for a condition that is wrong, and for an analysis that reads no accesses; `Missing` for a column that the trace
/// does not carry.
fn kept_accesses(text: &str, planned: &[Planned], trace: &dyn Trace) -> quipu::model::Result<KeptAccesses> {
    let of_accesses = Columns::ACCESSES | Columns::ACCESS_FETCH;
    if let Some(other) = planned.iter().find(|planned| !planned.reads.columns.any(of_accesses)) {
        let what = format!("analysis `{}` reads no accesses, which `--where` selects", other.info.name);
        return Err(Error::usage(what).hint(
            "`quipu view --where` selects rows of any table, `analyze aggregate --where` counts them",
        ));
    }
    KeptAccesses::new(trace, Where::new(text)?.filter())
}

/// The tools in a comma-separated list, without duplicates.
fn find_tools(names: &str, trace: &dyn Trace) -> quipu::model::Result<Vec<&'static dyn Tool>> {
    let mut tools: Vec<&'static dyn Tool> = Vec::new();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        let tool = quipu::tool_for(name, trace)?;
        if !tools.iter().any(|known| known.info().name == tool.info().name) {
            tools.push(tool);
        }
    }
    Ok(tools)
}

/// Tools of the format that are run in addition to the requested ones.
fn companions(tools: &[&dyn Tool], trace: &dyn Trace, is_whole: bool) -> Vec<&'static dyn Tool> {
    let names = || tools.iter().map(|tool| tool.info().name);
    quipu::tools_of(&trace.meta().format)
        .filter(|other| is_whole || !other.wants_whole_traces())
        .filter(|other| names().all(|name| name != other.info().name))
        .filter(|other| names().any(|name| other.accompanies(name, trace)))
        .collect()
}

impl Options {
    /// All options for analyses, including those with flags of their own.
    fn given(&self) -> Given {
        let mut given: Given = self.options.iter().cloned().collect();
        given.extend(self.flags.given().iter());
        given.extend(self.typing.given().iter());
        given.extend(self.layout.given());
        given
    }

    /// All options for analyses, without a condition on accesses, and that condition: `--where`, unless these tools are
    /// `aggregate`, whose option that is.
    ///
    /// # Errors
    /// `Usage` for a condition of `aggregate` that is also given to other analyses.
    fn given_and_condition(&self, tools: &[&dyn Tool]) -> quipu::model::Result<(Given, Option<String>)> {
        let given = self.given();
        let has_own = |tool: &&&dyn Tool| tool.info().options.iter().any(|option| option.name == WHERE);
        let n_own = tools.iter().filter(has_own).count();
        let condition = given.last(WHERE).map(str::to_owned);
        match condition {
            Some(_) if n_own > 0 && n_own < tools.len() => {
                let what = "`--where` selects rows of `aggregate` and accesses of other analyses";
                Err(Error::usage(what).hint("run `aggregate` by itself, or set `-O aggregate.where=EXPR`"))
            }
            Some(text) if n_own == 0 => {
                let others = given.iter().filter(|(name, _)| *name != WHERE);
                Ok((others.collect(), Some(text)))
            }
            _ => Ok((given, None)),
        }
    }

    /// Makes sure that `tool`, which only judges whole traces, is not run on a part.
    ///
    /// # Errors
    /// `Usage` if a part, divisions or an arrangement by cores is requested; `Unsupported` for some of the threads of a
    /// file.
    fn check_whole(&self, tool: &str, is_undivided: bool, trace: &dyn Trace) -> quipu::model::Result<()> {
        let opening = &self.input.stored.opening;
        let arranging = &self.input.arranging;
        let is_part = self.window() != Window::All || arranging.is_part();
        if is_part || !is_undivided || arranging.rearranges() {
            return Err(Error::usage(format!(
                "analysis `{tool}` judges whole traces only, as they were written"
            ))
            .hint("leave out --skip, --take, --between, --order, --per-core and intervals"));
        }
        check_threads(trace, &opening.threads)
    }

    fn window(&self) -> Window {
        match (self.skip, self.take) {
            (0, None) => Window::All,
            (skip, take) => Window::Records(skip..take.map_or(u64::MAX, |take| skip.saturating_add(take))),
        }
    }
}

/// Distributes options to the tools that have them.
///
/// # Errors
/// `Usage` for an option that no tool has, so that a mistyped option is not ignored silently.
fn distribute(tools: &[&dyn Tool], given: &Given) -> quipu::model::Result<Vec<Given>> {
    let mut of_tools = vec![Given::default(); tools.len()];
    for (key, value) in given.iter() {
        let (only, key) = key.split_once('.').map_or((None, key), |(tool, key)| (Some(tool), key));
        let mut taken = false;
        for (tool, of_tool) in tools.iter().zip(&mut of_tools) {
            let info = tool.info();
            if only.is_none_or(|only| only == info.name)
                && info.options.iter().any(|option| option.name == key)
            {
                of_tool.add(key, value);
                taken = true;
            }
        }
        if !taken {
            return Err(unknown_option(key, tools));
        }
    }
    Ok(of_tools)
}

fn unknown_option(key: &str, tools: &[&dyn Tool]) -> Error {
    let error = Error::usage(format!("none of these analyses has an option `{key}`"));
    let known = tools.iter().flat_map(|tool| tool.info().options.iter().map(|option| option.name));
    if let Some(near) = nearest(key, known) {
        return error.hint(format!("did you mean `{near}`?"));
    }
    let of_tool = |tool: &&dyn Tool| {
        let info = tool.info();
        info.options.iter().map(|option| format!("{}.{}", info.name, option.name)).collect::<Vec<_>>()
    };
    match tools.iter().flat_map(of_tool).collect::<Vec<_>>().as_slice() {
        [] => error.hint("they have no options"),
        known => error.hint(format!("options: {}", known.join(", "))),
    }
}
