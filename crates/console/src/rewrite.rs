//! Edits that formats bring themselves: which, where to, and what they say at the end.
//!
//! A verb gathers what was said as options; the format that recognises the trace knows what they mean.

use crate::Common;
use crate::flags;
use crate::input::{self, Opening};
use crate::screen::{Outcome, Result, Screen, Stop};
use crate::session::{self, Verdict};
use quipu::engine::Watch;
use quipu::model::doc::{Block, Cell, Document};
use quipu::model::edit::{EditJob, Edited, Progress};
use quipu::model::{Damaged, Edit, Error, Format, Given, OptionSpec};
use quipu::source::Source;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where the result goes, and how it is packed.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// What to write
    #[arg(id = "output", short = 'o', long = "output", value_name = "PATH", help_heading = "Writing")]
    pub path: PathBuf,
    /// Replace what is there under that name
    #[arg(long, help_heading = "Writing")]
    pub force: bool,
    /// How to pack: zstd, zstd-noseek, snappy, gzip, brotli or plain; if not said, as the name ends, else zstd
    #[arg(long, value_name = "CONTAINER", help_heading = "Writing")]
    pub container: Option<String>,
    /// How hard to pack: 1 (fast) to 9 for gzip, 22 for zstd; 0 to 11 for brotli
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(0..=22), help_heading = "Writing")]
    pub level: Option<u32>,
    /// Print what was done as JSON
    #[arg(long, help_heading = "Writing")]
    pub json: bool,
    /// Whether what is made of a damaged trace is kept, where a verb lets it be chosen.
    #[arg(skip)]
    pub damaged: Damaged,
}

impl From<&crate::edit::Output> for Target {
    fn from(output: &crate::edit::Output) -> Target {
        Target {
            path: output.path.clone(),
            force: output.force,
            container: output.container.clone(),
            level: output.level,
            json: output.json,
            damaged: output.keeping.into(),
        }
    }
}

/// What is read, recognised.
pub struct Recognised {
    /// The files.
    pub source: Source,
    /// The format that recognised them.
    pub format: &'static dyn Format,
}

/// Opens what a verb is about, to be read more than once, and finds its format.
///
/// # Errors
/// What opening says.
pub fn recognise(path: &Path, opening: &Opening) -> Result<Recognised> {
    let source = input::spooled(path)?;
    match quipu::format_of(&source, &opening.options())? {
        Some(format) => Ok(Recognised { source, format }),
        None => {
            // It says what was found instead.
            quipu::open(&source, &opening.options())?;
            Err(Error::unsupported("no format recognises this").in_file(source.name()).into())
        }
    }
}

impl Recognised {
    /// The edit of this name that the format brings.
    pub fn edit(&self, name: &str) -> Option<&'static dyn Edit> {
        self.format.edits().iter().copied().find(|edit| edit.info().name == name)
    }

    /// The same, where there is no other way to do it.
    ///
    /// # Errors
    /// `Unsupported` if the format has no such edit.
    pub fn must_edit(&self, name: &str) -> Result<&'static dyn Edit> {
        match self.edit(name) {
            Some(edit) => Ok(edit),
            None => Err(without(self.format, name, |format| {
                format.edits().iter().any(|edit| edit.info().name == name)
            })
            .into()),
        }
    }
}

/// The options of an edit of this name, of all formats that bring it: each name once, as the first of them describes it.
pub fn options_of(name: &str) -> Vec<OptionSpec> {
    let edits = quipu::FORMATS.iter().flat_map(|format| format.edits()).map(|edit| edit.info());
    flags::union(edits.filter(|info| info.name == name).map(|info| info.options))
}

/// The sentence about a format that lacks what others have.
pub fn without(format: &dyn Format, name: &str, has: impl Fn(&dyn Format) -> bool) -> Error {
    let others = quipu::FORMATS.iter().filter(|format| has(**format)).map(|format| format.info().name);
    Error::unsupported(format!("`{name}` is not for traces of format {}", format.info().name))
        .hint(format!("it is for traces of format {}", others.collect::<Vec<_>>().join(", ")))
}

/// The recognised trace of a source, if its format brings this edit itself; for verbs that have another way as well.
///
/// # Errors
/// `Usage` if a format is asked for that is none.
pub fn own(
    source: &Source,
    opening: &Opening,
    name: &str,
) -> Result<Option<(Recognised, &'static dyn Edit)>> {
    let Some(format) = quipu::format_of(source, &opening.options())? else { return Ok(None) };
    let recognised = Recognised { source: source.clone(), format };
    Ok(recognised.edit(name).map(|edit| (recognised, edit)))
}

/// Makes sure that a file is named.
///
/// # Errors
/// `Usage` for `-`.
pub fn refuse_stdout(target: &Target) -> Result<()> {
    if target.path == Path::new("-") {
        return Err(Error::usage(
            "`--output -`: nothing is given a name before it is complete, and a pipe has none",
        )
        .hint("name a file; `./-` for one that is called `-`")
        .into());
    }
    Ok(())
}

/// Does an edit of a trace and says what was done.
///
/// # Errors
/// What the edit says, with exit code 1 where that is about damage of the trace; `Usage` if it is to write to standard
/// output.
pub fn run(
    edit: &dyn Edit,
    source: &Source,
    opening: &Opening,
    given: &Given,
    target: &Target,
    _: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    match make(edit, source, opening, given, target, screen) {
        Err(Stop::Fault(error) | Stop::Damage(error, _)) => Err(undone(error)),
        done => done,
    }
}

/// What ends a verb that has written nothing.
pub fn undone(error: Error) -> Stop {
    Stop::of_reading(error, "nothing was written")
}

/// Does an edit and says what was done.
///
/// # Errors
/// What the edit says; `Usage` if it is to write to standard output.
pub fn make(
    edit: &dyn Edit,
    source: &Source,
    opening: &Opening,
    given: &Given,
    target: &Target,
    screen: &Screen,
) -> Result<Outcome> {
    refuse_stdout(target)?;
    let format = quipu::format_of(source, &opening.options())?.map_or("these", |format| format.info().name);
    let options = edit.info().parse(format, given)?;
    let (opening, is_strict) = (opening.options(), opening.strict);
    let job = EditJob {
        source,
        opening: &opening,
        options: &options,
        output: &target.path,
        replace: target.force,
        container: target.container.as_deref(),
        level: target.level,
        damaged: target.damaged,
        strict: is_strict,
    };
    let edited = session::watched(screen, |watch| edit.run(&job, &Watched(watch)))?;
    tell(edited, &target.path, target.json, screen)
}

/// Says what was written, and what was odd in what was read.
fn tell(edited: Edited, path: &Path, is_json: bool, screen: &Screen) -> Result<Outcome> {
    let doubtful_from = edited.reading.doubtful_from;
    let verdict = Verdict::from(edited.reading);
    verdict.say_lost(screen);
    say_doubtful(path, doubtful_from, screen);
    if is_json {
        let mut answer = Map::new();
        answer.insert("output".into(), json!(path.display().to_string()));
        answer.extend(edited.facts.iter().map(|fact| (fact.key.clone().into_owned(), fact.json())));
        answer.insert("notes".into(), json!(edited.notes));
        answer.insert("doubtful_from".into(), json!(doubtful_from));
        session::add_reading(&verdict.findings, verdict.error.as_deref(), &mut answer);
        screen.json(&answer.into())?;
    } else if !screen.is_quiet() {
        let facts = edited.facts.iter().map(|fact| {
            let cell = match &fact.value {
                Value::String(text) => Cell::Text(text.clone()),
                Value::Number(number) if number.is_u64() => {
                    let number = number.as_u64().unwrap_or(0);
                    if fact.key.ends_with("_bytes") { Cell::Bytes(number) } else { Cell::Count(number) }
                }
                other => Cell::Text(other.to_string()),
            };
            (fact.label.clone().into_owned(), vec![cell])
        });
        let document = Document::new(path.display().to_string()).with(Block::Facts(facts.collect()));
        screen.documents([&document])?;
    }
    edited.notes.iter().for_each(|note| screen.say(format_args!("note: {note}")));
    Ok(verdict.tell(screen))
}

/// Says on standard error from which record on an output is doubtful.
pub fn say_doubtful(path: &Path, doubtful_from: Option<u64>, screen: &Screen) {
    if let Some(n_good) = doubtful_from {
        let path = path.display();
        screen.say_error(format_args!("{path}: from record {n_good} on, what was written is doubtful"));
    }
}

/// Tells a watch what an edit tells.
pub struct Watched<'w>(pub &'w Watch);

impl Progress for Watched<'_> {
    fn advance(&self, records: u64, packed_bytes: u64) {
        self.0.advance(records, packed_bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// A stream for answers that remembers whether it still has a reader.
pub struct Answer<W> {
    out: W,
    is_closed: bool,
}

impl<W: Write> Answer<W> {
    /// An answer that goes to `out`.
    pub fn new(out: W) -> Answer<W> {
        Answer { out, is_closed: false }
    }

    /// What came of writing to it: a closed pipe is no error.
    pub fn judge<T>(&mut self, done: quipu::model::Result<T>) -> Result<T> {
        match (done, self.flush()) {
            (_, Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(Stop::ClosedPipe),
            (Err(_), _) if self.is_closed => Err(Stop::ClosedPipe),
            (Err(error), _) => Err(error.into()),
            (Ok(_), Err(error)) => Err(error.into()),
            (Ok(value), Ok(())) => Ok(value),
        }
    }
}

impl<W: Write> Write for Answer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.is_closed |= done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        done
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
