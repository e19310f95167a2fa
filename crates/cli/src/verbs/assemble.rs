//! `quipu assemble`: a trace from text.

use quipu::model::Error;
use quipu::source::Source;
use quipu_console::Common;
use quipu_console::input::Opening;
use quipu_console::rewrite::{self, Target};
use quipu_console::screen::{Outcome, Result, Screen};
use std::path::PathBuf;

/// Turn the text that `quipu disassemble` wrote, edited or not, back into a trace
///
/// Calls may be added, changed, moved and deleted; they are renumbered. Errors are reported with line and column. Raw memory
/// is read from the folder `TEXT.blobs`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The text to read
    #[arg(value_name = "TEXT")]
    text: PathBuf,
    #[command(flatten)]
    target: Target,
}

const AFTER_HELP: &str = "\
Examples:
  quipu assemble game.txt -o edited.trace
  quipu assemble game.txt -o edited.trace --container snappy

The output appears under its name only when it is complete.

Exit codes:
  0  done
  2  could not do it; nothing was written";

/// First bytes of a text in any format; the name of the format follows.
const MAGIC: &[u8] = b"quipu-text ";
/// Longest name of a format in bytes.
const MAX_NAME_BYTES: usize = 64;

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let source = Source::open(&options.text).map_err(Error::from)?;
    let head = source.head(MAGIC.len() + MAX_NAME_BYTES).map_err(Error::from)?;
    let Some(rest) = head.strip_prefix(MAGIC) else {
        return Err(Error::unsupported("this is no text of a trace")
            .in_file(source.name())
            .hint("`quipu disassemble` writes texts")
            .into());
    };
    let name = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let format = quipu::FORMATS.iter().find(|format| format.info().name.as_bytes() == name);
    let transforms = format.into_iter().flat_map(|format| format.transforms());
    let Some(transform) = transforms.copied().find(|transform| transform.info().name == "assemble") else {
        let what = format!("no format `{}` has texts", String::from_utf8_lossy(name));
        return Err(Error::unsupported(what).in_file(source.name()).into());
    };
    let (opening, none) = (Opening::default(), quipu::model::Options::default());
    rewrite::make(transform, &source, &opening, &none, &options.target, common, screen)
}
