//! Transforms of traces: their options, their output, and the report at the end.
//!
//! A verb passes its options on; the format that recognises the trace interprets them.

use crate::Common;
use crate::flags;
use crate::input::{self, Opening, Stored};
use crate::screen::{Outcome, Result, Screen, Stop};
use crate::session::{self, Verdict};
use quipu::Recognised;
use quipu::engine::{InTime, Watch};
use quipu::model::doc::{Block, Cell, Document};
use quipu::model::trace::Fact;
use quipu::model::transform::{Doubtful, Progress, TransformJob, Transformed};
use quipu::model::{Damaged, Error, ErrorKind, Format, Given, OptionSpec, Options, Transform, result};
use quipu::source::Source;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where the result goes, and how it is packed.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// Output: a folder if the trace is a folder, otherwise a file
    #[arg(id = "output", short = 'o', long = "output", value_name = "PATH", help_heading = "Writing")]
    pub path: PathBuf,
    /// Overwrite an existing file, or a folder that holds nothing but a trace; follows a symbolic link
    #[arg(long, help_heading = "Writing")]
    pub force: bool,
    /// Compression: zip, gzip, lz4, snappy, zstd or plain; traces of calls: zstd, zstd-noseek, snappy, gzip, brotli or plain.
    /// Default: by the extension of a single file, otherwise that of the source; for traces of calls, zstd
    #[arg(long, value_name = "CONTAINER", help_heading = "Writing")]
    pub container: Option<String>,
    /// Compression level: 1 (fast) to 9 (small) for zip and gzip, to 19 for zstd; traces of calls: to 22 for zstd, 0 to 11
    /// for brotli
    #[arg(long, value_name = "LEVEL", value_parser = crate::number::level, help_heading = "Writing")]
    pub level: Option<u32>,
    /// Print a summary as JSON
    #[arg(long, help_heading = "Writing")]
    pub json: bool,
    /// Option to keep output made from a damaged trace, for verbs that have it.
    #[arg(skip)]
    pub damaged: Damaged,
}

/// Handling of output made from a damaged trace.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Keeping {
    /// Write the readable part of a damaged trace, and report from which record on it is doubtful
    #[arg(long, help_heading = "Writing")]
    keep_damaged: bool,
}

impl From<Keeping> for Damaged {
    fn from(keeping: Keeping) -> Damaged {
        keeping.keep_damaged.into()
    }
}

/// Where the result goes, including that of a damaged trace.
#[derive(Clone, Debug, clap::Args)]
pub struct Output {
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    target: Target,
}

impl Output {
    /// The target, with the choice of what to do with damaged parts.
    pub fn target(&self) -> Target {
        Target { damaged: self.keeping.into(), ..self.target.clone() }
    }
}

/// End of the help text of every verb that writes.
pub const EXIT_CODES: &str = "
The output appears under its name only when it is complete.

Exit codes:
  0  done
  1  what was read is damaged; nothing was written unless --keep-damaged was given
  2  could not do it; nothing was written";

/// Recognises the format of the trace at `path`.
///
/// # Errors
/// Errors of opening.
pub fn recognise(path: &Path, opening: &Opening) -> Result<Recognised> {
    Ok(quipu::recognise(&input::source(path)?, &opening.options())?)
}

/// The transform of a format with this name.
fn transform_of(format: &dyn Format, name: &str) -> std::result::Result<&'static dyn Transform, Error> {
    let is_called = |transform: &&dyn Transform| transform.info().name == name;
    format.transforms().iter().copied().find(is_called).ok_or_else(|| {
        let has = |format: &dyn Format| format.transforms().iter().copied().any(|one| is_called(&one));
        without(format, name, has)
    })
}

/// The options of the transforms with this name in all formats; the first description of an option counts.
pub fn options_of(name: &str) -> Vec<OptionSpec> {
    let transforms = quipu::FORMATS.iter().flat_map(|format| format.transforms()).map(|one| one.info());
    flags::union(transforms.filter(|info| info.name == name).map(|info| info.options))
}

/// Name of the transform that others can replace.
const CONVERT: &str = "convert";
/// Name of the transform for damaged traces.
const RECOVER: &str = "recover";

/// The error for a format that lacks something that other formats have.
pub fn without(format: &dyn Format, name: &str, has: impl Fn(&dyn Format) -> bool) -> Error {
    let others = quipu::FORMATS.iter().filter(|format| has(**format)).map(|format| format.info().name);
    let mut hint = format!("it is for traces of format {}", others.collect::<Vec<_>>().join(", "));
    let own: Vec<&str> = format.transforms().iter().map(|transform| transform.info().name).collect();
    if !own.is_empty() {
        hint.push_str(&format!("; for this one there are: {}", own.join(", ")));
    }
    if name == CONVERT {
        hint.push_str(
            "; `--to FORMAT` writes its records in another format, `-o NAME.quipu` puts it into a stream",
        );
    }
    if name == RECOVER && own.contains(&CONVERT) {
        hint.push_str("; `quipu convert --keep-damaged` writes the readable part of this one");
    }
    Error::unsupported(format!("`{name}` is not for traces of format {}", format.info().name)).hint(hint)
}

/// Checks that the output is not standard output.
///
/// # Errors
/// `Usage` for `-`.
pub fn refuse_stdout(target: &Target) -> Result<()> {
    if target.path == Path::new("-") {
        return Err(Error::usage(
            "`--output -`: nothing is given a name before it is complete, and a pipe has none",
        )
        .hint("name a file, `/dev/stdout` for a pipe, or `./-` for a file that is called `-`")
        .into());
    }
    Ok(())
}

/// Transforms a trace with the transform called `name`, and reports what was done.
///
/// # Errors
/// Errors of the transform, with exit code 1 if they are about damage to the trace; `Usage` for options that the format's
/// transform lacks, or if the output is standard output.
pub fn run(
    name: &str,
    input: &Stored,
    given: &Given,
    target: &Target,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    refuse_stdout(target)?;
    let recognised = recognise(&input.path, &input.opening)?;
    done(of_recognised(name, recognised, &input.opening, given, target, common, screen))
}

/// Adds to an error of a transform that nothing was written.
pub fn done(done: Result<Outcome>) -> Result<Outcome> {
    match done {
        Err(Stop::Fault(error) | Stop::Damage(error, _)) => Err(undone(error)),
        done => done,
    }
}

/// Does the same as [`run`] for a recognised trace; errors do not mean that something of the input was lost.
///
/// # Errors
/// As for [`run`], always with exit code 2.
pub fn of_recognised(
    name: &str,
    recognised: Recognised,
    opening: &Opening,
    given: &Given,
    target: &Target,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    let own = transform_of(recognised.format, name);
    let is_plain = given.is_empty() && target.container.is_none() && opening.threads.is_empty();
    let way = quipu::way(name, &recognised, own, &target.path, is_plain);
    let way = way.map_err(|error| match recognised.open(&opening.options()) {
        Ok(trace) => session::not_for(error, &trace.meta().findings),
        Err(_) => error.into(),
    })?;
    let transform = way.transform();
    let options = parse(&transform, recognised.format, given)?;
    let source = match transform.reads_again(&options) {
        true => way.source.spooled().map_err(Error::from)?,
        false => way.source.clone(),
    };
    make(&transform, &source, opening, &options, target, common, screen)
}

/// Checks the options for the transform of a format. Transforms of the same name in other formats may have more options.
fn parse(transform: &dyn Transform, format: &dyn Format, given: &Given) -> quipu::model::Result<Options> {
    let (info, name) = (transform.info(), format.info().name);
    info.parse(name, given).map_err(|error| {
        let lacks = |(option, _): (&str, &str)| transform.lacks(option).map(|why| (option.to_owned(), why));
        match given.iter().find_map(lacks) {
            Some((option, why)) => {
                let own = info.options.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
                let has =
                    if own.is_empty() { "it has none".to_owned() } else { format!("its options: {own}") };
                Error::usage(format!("`{}` of {name} traces has no option `{option}`: {why}", info.name))
                    .hint(has)
            }
            None => error,
        }
    })
}

/// The stop of a verb that has written nothing.
pub fn undone(error: Error) -> Stop {
    Stop::of_reading(error, "nothing was written")
}

/// Runs a transform and reports what was done.
///
/// # Errors
/// Errors of the transform; `Usage` if the output is standard output.
pub fn make(
    transform: &dyn Transform,
    source: &Source,
    opening: &Opening,
    options: &Options,
    target: &Target,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    let transformed = transform_into(transform, source, opening, options, target, common, screen)?;
    tell(transformed, &target.path, target.json, screen)
}

/// Runs a transform without a report.
///
/// # Errors
/// As for [`make`].
pub fn transform_into(
    transform: &dyn Transform,
    source: &Source,
    opening: &Opening,
    options: &Options,
    target: &Target,
    common: &Common,
    screen: &Screen,
) -> Result<Transformed> {
    refuse_stdout(target)?;
    let (opening, strict) = (opening.options(), opening.strict);
    let made = session::watched(screen, |watch| {
        let job = TransformJob {
            source,
            opening: &opening,
            options,
            output: &target.path,
            replace: target.force,
            container: target.container.as_deref(),
            level: target.level,
            damaged: target.damaged,
            strict,
            threads: common.threads.map_or(0, usize::from),
            sequence: &InTime(watch),
        };
        transform.run(&job, &Watched(watch))
    });
    Ok(made.map_err(|error| of_target(error, &target.path))?)
}

/// Adds the name of the output to an I/O error that names no file.
pub fn of_target(error: Error, path: &Path) -> Error {
    let is_unnamed = error.kind() == ErrorKind::Io && error.place().file.is_none();
    if is_unnamed { error.in_file(path.display().to_string()) } else { error }
}

/// Reports what was written, and findings about the input.
///
/// # Errors
/// If the report cannot be written.
pub fn tell(transformed: Transformed, path: &Path, is_json: bool, screen: &Screen) -> Result<Outcome> {
    let screen = &screen.beside_for(path, is_json);
    let Transformed { facts, shown, doubtful, reading, notes, is_flawed } = transformed;
    let doubtful_from = reading.doubtful_from;
    let verdict = Verdict::from(reading);
    verdict.say_lost(screen);
    say_doubtful(path, doubtful_from, screen);
    for Doubtful { file, from } in &doubtful {
        let path = file.as_ref().map_or_else(|| path.to_owned(), |file| path.join(file));
        say_doubtful(&path, Some(*from), screen);
    }
    if is_json {
        let mut answer = Map::new();
        answer.insert("output".into(), written_to(path));
        answer.extend(facts.iter().map(|fact| (fact.key.clone().into_owned(), fact.json())));
        answer.insert("notes".into(), result::json(&notes));
        // With several files, each has its own.
        if !answer.get("files").is_some_and(Value::is_array) {
            answer.insert("doubtful_from".into(), doubtful_from.into());
            let told = |Doubtful { file, from }: &Doubtful| json!({ "file": file, "doubtful_from": from });
            if !doubtful.is_empty() {
                answer.insert("doubtful".into(), doubtful.iter().map(told).collect());
            }
        }
        verdict.add_to(&mut answer);
        screen.json(&answer.into())?;
    } else if !screen.is_quiet() {
        let blocks = if shown.is_empty() { vec![Block::Facts(lines(&facts))] } else { shown };
        let document = Document { title: title(path), blocks, ..Document::default() };
        screen.documents([&document])?;
    }
    notes.iter().for_each(|note| screen.say(format_args!("note: {note}")));
    let outcome = verdict.tell(screen);
    Ok(if is_flawed { outcome.and(Outcome::Flawed) } else { outcome })
}

/// The title of a report: the output, or "printed" if there is no output path.
pub fn title(path: &Path) -> String {
    if path.as_os_str().is_empty() { "printed".to_owned() } else { path.display().to_string() }
}

/// The output path in JSON; `null` if there is none.
pub fn written_to(path: &Path) -> Value {
    if path.as_os_str().is_empty() { Value::Null } else { path.display().to_string().into() }
}

/// Facts as lines of a document.
fn lines(facts: &[Fact]) -> Vec<(String, Vec<Cell>)> {
    let line = |fact: &Fact| {
        let cell = match &fact.value {
            Value::String(text) => Cell::Text(text.clone()),
            Value::Number(number) if number.is_u64() => {
                let number = number.as_u64().unwrap_or(0);
                if fact.key.ends_with("_bytes") { Cell::Bytes(number) } else { Cell::Count(number) }
            }
            other => Cell::Text(other.to_string()),
        };
        (fact.label.clone().into_owned(), vec![cell])
    };
    facts.iter().map(line).collect()
}

/// Reports on standard error the first doubtful record of an output.
pub fn say_doubtful(path: &Path, doubtful_from: Option<u64>, screen: &Screen) {
    if let Some(n_good) = doubtful_from {
        let path =
            if path.as_os_str().is_empty() { "standard output".into() } else { path.to_string_lossy() };
        screen.say_error(format_args!("{path}: {}", doubt(n_good, "written")));
    }
}

/// The sentence about an output whose first `n_good` records are good, and no others. Records are numbered from 1, as `view`
/// prints them.
pub fn doubt(n_good: u64, done: &str) -> String {
    format!("after record {n_good}, what was {done} is doubtful")
}

/// Forwards the progress of a transform to a watch.
pub struct Watched<'w>(pub &'w Watch);

impl Progress for Watched<'_> {
    fn advance(&self, records: u64, packed_bytes: u64) {
        self.0.advance(records, packed_bytes);
    }

    fn expect(&self, packed_bytes: Option<u64>) {
        self.0.expect(packed_bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// An output that remembers whether its reader has closed it.
pub struct Answer<W> {
    out: W,
    is_closed: bool,
}

impl<W: Write> Answer<W> {
    /// Wraps `out`.
    pub fn new(out: W) -> Answer<W> {
        Answer { out, is_closed: false }
    }

    /// Converts the result of writing: a closed pipe is not an error.
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
